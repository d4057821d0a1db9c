# SPDX-License-Identifier: GPL-2.0
# In place of OpenWrt's makefiles, for lab/tests/openwrt.py: copies src/ of a package of the
# feed and runs its Build/Compile. PACKAGE, PKG_BUILD_DIR: folders.

TOPDIR := $(dir $(lastword $(MAKEFILE_LIST)))openwrt
INCLUDE_DIR := $(TOPDIR)
INSTALL_DIR := install -d
INSTALL_BIN := install -m 755

define KernelPackage
endef
define BuildPackage
endef
define AutoProbe
endef

include $(PACKAGE)/Makefile

.PHONY: compile
.DEFAULT_GOAL := compile
compile:
	mkdir -p $(PKG_BUILD_DIR)
	cp -a $(PACKAGE)/src/. $(PKG_BUILD_DIR)
	$(Build/Compile)
