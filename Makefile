# SPDX-License-Identifier: GPL-2.0
# The front door. `make help` lists the targets; the work is done in lab/.

LAB := python3 -B lab
# $(call options,SEED OPS): --seed='1' for SEED=1, of those that are set; $(call flags,LONG):
# --long
lower = $(shell echo $(1) | tr '[:upper:]' '[:lower:]')
options = $(foreach one,$(1),$(if $($(one)),--$(call lower,$(one))='$($(one))'))
flags = $(foreach one,$(1),$(if $($(one)),--$(call lower,$(one))))

export V RECORD KERNEL LINUX_TARBALL QDISC_CACHE QDISC_START QDISC_KIND
QDISC_START := $(or $(QDISC_START),$(shell date +%s))
QDISC_KIND := $(or $(QDISC_KIND),$(if $(wildcard build/um/linux),warm,cold))

.DEFAULT_GOAL := help
.PHONY: help demo test smoke tree export build shell kunit tdc ynl compat check \
	torture changes fuzz figures bench cost mutants ladder coverage gauntlet am clean setup \
	module deb stock reported trees openwrt arches litmus syz users drivers

help: ## this list
	@sed -n 's/^\([a-z]*\):.*## /\1\t/p' Makefile | expand -t 12
	@echo
	@echo 'RECORD=1 writes what is measured to results/, else it goes to build/results/.'
	@echo 'V=1 shows commands; KERNEL=/path/to/linux or LINUX_TARBALL=file uses'
	@echo 'that instead of downloading the base kernel.'

setup: ## install what is missing, download and verify the base
	@$(LAB) setup

tree: ## unpack the base into build/linux and apply the series
	@$(LAB) setup packages kernel
	@$(LAB) tree apply

export: ## write patches/ and the kernel-path copies from build/linux [SOB='Name <mail>': signed, to build/export-signed]
	@$(LAB) tree export $(call options,SOB)

build: tree ## build the patched kernel and the tc that goes with it
	@$(LAB) setup iproute2
	@$(LAB) kernel patched $(if $(COMPARE),base)

module: tree ## cake and cake_mq for an unpatched kernel of 6.1 to 7.3 [KDIR=/lib/modules/VERSION/build]
	@$(LAB) module $(call options,KDIR)

deb: tree ## packages of that module (DKMS) and of a tc that knows cake_mq
	@$(LAB) setup iproute2
	@$(LAB) module --deb

openwrt: tree ## the same as a feed for OpenWrt [ALL=1: also compiled for arm64, arm and mips]
	@$(LAB) setup iproute2
	@$(LAB) openwrt $(call flags,ALL)

demo: build ## loads that hurt, over 1 to 256 queues, in virtual time [ALL=1: all rows; COMPARE=1: all columns]
	@$(LAB) demo $(call flags,ALL COMPARE)

smoke: build ## KUnit and two shared queues under one rate: under a minute once built
	@$(LAB) kunit
	@$(LAB) demo --quick

shell: build ## a shell in the patched kernel, with a multiqueue device and its tc
	@$(LAB) shell

kunit: build ## run the KUnit suites of the series
	@$(LAB) kunit

tdc: build ## tc-testing: new cases pass, old ones end as on the unpatched kernel [BASE=1: measure that again]
	@$(LAB) setup venv
	@$(LAB) tdc $(call flags,BASE)

ynl: build ## the new attributes by the tree's own netlink description, without tc
	@$(LAB) setup venv
	@$(LAB) ynl

compat: build ## an unpatched tc and old commands: the same bytes as on the unpatched kernel [BASE=1: measure that again]
	@$(LAB) compat $(call flags,BASE)

torture: tree ## trees of qdiscs in random order, under traffic [SEED=1 SEEDS=4 OPS=500 LONG=1 FAULTS=1 REPLAY=file]
	@$(LAB) setup iproute2
	@$(LAB) kernel debug $(if $(FAULTS),faults)
	@$(LAB) torture $(call options,SEED SEEDS OPS REPLAY) $(call flags,LONG FAULTS)

changes: build ## options of cake and tbf at random under load [SEED=1 SEEDS=20 OPS=40]
	@$(LAB) changes $(call options,SEED SEEDS OPS)

fuzz: ## rate group and rate tree in user space, random loads [SEED=1 SEEDS=20000 FAMILY=tree SAN=1 FAULTS=1]
	@$(LAB) fuzz $(call options,SEED SEEDS FAMILY THREADS SAN) $(call flags,FAULTS)

syz: tree ## coverage-guided fuzzing of rtnetlink and packets [MINUTES=10 SEED=1 ONLY=syz-smp REPLAY=file FAULTS=1]
	@$(LAB) syz $(call options,MINUTES SEED ONLY) $(if $(REPLAY),--replay '$(REPLAY)') $(if $(FAULTS),--faults all)

mutants: tree ## break the series' lines one at a time; every one must be caught
	@$(LAB) setup iproute2
	@$(LAB) mutants

coverage: build ## which lines of the series its tests run: KUnit, tdc, ynl, compat, scenarios
	@$(LAB) setup venv
	@$(LAB) coverage

ladder: tree ## each series with only those before it: its kernel, its KUnit and tdc [SERIES=2: only that one]
	@$(LAB) setup iproute2 venv
	@$(LAB) ladder $(SERIES)

check: tree ## what netdev asks of each patch and of the series [FAST=1: with this compiler, once for each series]
	@$(LAB) setup iproute2 sparse venv $(if $(FAST),,check)
	@$(LAB) check $(call flags,FAST)

test: ## all tests but coverage, ladder, gauntlet, drivers and cost: "N passed, N failed"
	@$(LAB) setup packages
	@$(LAB) test

am: tree ## apply the series to another kernel tree, TREE=/path/to/net-next [SERIES=2: those up to patches/2-*]
	@$(LAB) tree am $(call options,TREE SERIES)

bench: build ## CPU time per packet beside the unpatched kernel; two real CPUs: bound and contention
	@$(LAB) setup figures
	@$(LAB) bench
	@$(LAB) smp

cost: tree ## instructions per packet, counted, beside the unpatched kernel [CASE=name; JOBS=n]
	@$(LAB) setup iproute2 qemu
	@$(LAB) cost $(call options,CASE JOBS)

users: build ## kernel memory and time that a user of a network namespace can take by sharing
	@$(LAB) users

trees: build ## shared htb over many queues: what each class gets [COMPARE=1: other htb as well]
	@$(LAB) trees $(call flags,COMPARE)

figures: build ## the evaluation in virtual time, beside rivals: tables, pictures, evaluation.md
	@$(LAB) setup figures
	@$(LAB) figures

reported: build ## what users of cake_mq, htb, tbf and cake reported, again: the tables in module/README.md
	@$(LAB) setup reported
	@$(LAB) reported

stock: tree ## the packages of make deb on Debian kernels, in QEMU [ALL=1: 6.1, 6.12 and the newest backport]
	@$(LAB) setup iproute2
	@$(LAB) stock $(call flags,ALL)

arches: ## the C files on mips, arm, arm64, riscv, i386 and s390 [ARCH=mips; BOOT=1: kernels in QEMU]
	@$(LAB) arches --all $(call options,ARCH) $(call flags,BOOT)

litmus: tree ## the orderings that the code relies on, by the kernel memory model; needs herd7 [HERD7=path]
	@$(LAB) litmus

drivers: tree ## igb, virtio-net, vmxnet3, veth while queues, rings, MTU, link change [ON=veth SETUPS= EVENTS=]
	@$(LAB) setup iproute2 qemu
	@$(LAB) drivers $(call options,ON SETUPS EVENTS)

gauntlet: tree ## the whole: four CPUs, KASAN, KCSAN, and all that takes hours [LONG=1 OPS=1000 ON=kasan JOBS=tdc]
	@$(LAB) setup iproute2 venv qemu
	@$(if $(ON)$(JOBS)$(REPLAY),,$(LAB) stock --all && $(LAB) openwrt --all && $(LAB) kernel patched debug && $(LAB) torture && $(LAB) demo --all && $(LAB) trees && $(LAB) cost && $(LAB) arches --boot --all && $(LAB) drivers && $(LAB) syz --only syz --minutes 120)
	@$(LAB) gauntlet $(call options,ON JOBS OPS ROUNDS REPLAY) $(call flags,BASE LONG)

clean: ## remove build/ (the download cache stays)
	rm -rf build
	find MAINTAINERS Documentation include net tools -type l -lname '*build/linux/*' -delete
