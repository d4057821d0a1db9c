# SPDX-License-Identifier: GPL-2.0
"""make arches: the series on other architectures, as programs, and as kernels that QEMU boots.

The simulators of make fuzz, in which the C files of rate group and rate tree are as they are,
are compiled for each architecture by Debian's cross compilers and run by QEMU, one program at a
time. Each scenario has to keep its rules. (They are others than in make fuzz: a compiler may
take random numbers for two arguments in either order.) Big endian are mips and s390, of 32 bits
are mips, arm and i386; the simulator of the rate group needs 64 bits.

--boot builds a kernel with W=1, and cake, tbf and htb in it, by kunit.py instead, and boots it
in QEMU: the KUnit suites of the series have to pass, and nothing that the series adds or changes
may be warned of. Then it is booted again, with tc of the series and a load: see arches_tc. That
takes some minutes the first time. While the guest is idle, its time is that of the host: on a
busy host its timers are late, and cake may send up to 4 % less than the rate.

An architecture whose compiler or QEMU is not here is skipped, and said; --all installs what is
missing. The last line is 'N passed, N failed'.
"""

import os
import re
import shutil
import sys
import time

from guest.boot import splats
from host.common import BUILD, JOBS, Die, kernel_env, known, run, say
from host.cross import ARCHES, RUNNER
from host.repo import KERNEL
from host.results import verdict
from host.setup import iproute2, loudly
from sim import fuzz

from tests import arches_tc, kunit

OUT = BUILD / "arches"
NARROW = ("mips", "arm", "i386")  # 32 bits
SEEDS = {"group": 30, "tree": 30}  # scenarios of a simulator
BESIDE = ("NET_SCH_CAKE", "NET_SCH_TBF", "NET_SCH_HTB")  # built beside the suites
BOOTED = 1800  # s of the host, at most, for a kernel and its suites


def simulated(arch: str) -> tuple[int, list[str]]:
    """The simulators of make fuzz, as programs: (scenarios that passed, sentences)."""
    one, passed, failed = ARCHES[arch], 0, []
    for name, seeds in SEEDS.items():
        if name == "group" and arch in NARROW:
            continue
        part = fuzz.Part(name)
        part.shims()
        program = OUT / f"{arch}-{name}"
        _, *flags = part.compiler()
        objects = []
        for file in (part.source, *part.simulator()):  # one by one, which ccache remembers
            objects.append(OUT / f"{arch}-{file.stem}.o")
            run([*one.cc.split(), *flags, "-c", file, "-o", objects[-1]],
                f"arches-{arch}-{name}", env=kernel_env())
        run([*one.cc.split(), *flags, "-static", *objects, "-o", program, "-latomic"],
            f"arches-{arch}-{name}", env=kernel_env())
        line = fuzz.ask(one.user, program, 1, seeds, 1, "-")[-1]
        print(f"{arch:<8}rate {name:<8}{line}")
        found = re.match(r"(\d+) ok, 0 failed, [1-9]", line)
        if not found or int(found[1]) != seeds:
            failed.append(f"{arch}: the rate {name} came to '{line}'")
        else:
            passed += seeds
    return passed, failed


def without_kvm(program: str) -> str:
    """A PATH on which QEMU emulates, as kunit.py tries KVM first: that hangs where /dev/kvm is
    there and does not work."""
    where = OUT / "bin"
    where.mkdir(parents=True, exist_ok=True)
    script = where / program
    script.write_text('#!/bin/sh\nfor word; do\n\tshift\n\tcase $word in kvm|hvf) word=tcg; esac\n'
                      f'\tset -- "$@" "$word"\ndone\nexec {shutil.which(program)} "$@"\n')
    script.chmod(0o755)
    return f"{where}:{os.environ['PATH']}"


def booted(arch: str) -> tuple[int, list[str]]:
    """A kernel with the suites, by kunit.py: (cases that passed, sentences)."""
    one, out, job = ARCHES[arch], BUILD / f"kunit-{arch}", f"arches-{arch}-kernel"
    out.mkdir(exist_ok=True)
    result, log = out / "test.json", out / "test.log"
    for old in (result, log):
        old.unlink(missing_ok=True)
    run([sys.executable, kunit.TOOL, "run", f"--arch={one.linux}", f"--build_dir={out}",
         f"--cross_compile={one.prefix}", f"--make_options=CC=ccache {one.prefix}gcc",
         "--make_options=W=1", "--kunitconfig=net/sched", f"--jobs={JOBS}",
         *(f"--kconfig_add=CONFIG_{name}=y" for name in (
             *BESIDE, *arches_tc.NEEDED, *arches_tc.MACHINES[arch].needed)),
         f"--timeout={BOOTED}", f"--json={result}"],
        job, f"{arch}: building and booting a kernel", 90, cwd=KERNEL.dir, ok=range(256),
        env=dict(kernel_env(), TERM="dumb",
                 PATH=without_kvm(f"qemu-system-{arches_tc.MACHINES[arch].qemu}")))
    words = BUILD / f"logs/{job}.log"
    touched = KERNEL.git("diff", "--name-only", "base", "HEAD").split()
    warned = [line for line in words.read_text(errors="replace").splitlines()
              if "warning:" in line and any(name in line for name in touched)]
    found = kunit.read_json(result)
    passed, failed = kunit.counted(found)
    print(f"{arch:<8}kernel      {passed} cases passed, {failed} failed")
    wrong = [f"{arch}: {line}" for line in warned]
    wrong += [f"{arch}: {name}: {status}" for name, status in found
              if status not in ("PASS", "SKIP")]
    if not passed:
        wrong.append(f"{arch}: no suite was run: see {words}")
    else:
        wrong += [f"{arch}: {line}" for line in splats(log.read_text(errors="replace"))]
    return passed, wrong


def in_kernel(arch: str) -> tuple[int, list[str]]:
    """booted(), then tc and a load; a row of arches.json if all is well."""
    passed, wrong = booted(arch)
    more, bad, rates = arches_tc.tried(arch)
    if not wrong + bad:
        arches_tc.store({"arch": arch, "cases": passed, **rates})
    return passed + more, wrong + bad


def main(arch: str = "", all_: bool = False, boot: bool = False) -> None:
    """Compile, run, judge; a kernel without a failure replaces its row in arches.json.

    arch: which, with commas between them (all). all: install what is missing. boot: kernels with
    the KUnit suites, instead of programs.
    """
    names = known("architecture", arch.split(",") if arch else ARCHES, ARCHES)
    passed, failed, skipped = 0, [], 0
    OUT.mkdir(exist_ok=True)
    if boot:
        iproute2()
    for name in names:
        start = time.monotonic()
        qemu = ARCHES[name].system if boot else RUNNER
        if all_:
            ARCHES[name].install(qemu)
        if not ARCHES[name].complete(qemu):
            loudly(f"NOTHING RUN FOR {name}: its cross compiler or QEMU is not here; "
                   "'make arches' installs them")
            skipped += 1
            continue
        try:
            more, sentences = (in_kernel if boot else simulated)(name)
        except Die as error:
            more, sentences = 0, [f"{name}: {error}"]
        passed += more
        failed += sentences
        say(f"{name}: {time.monotonic() - start:.0f} s")
    verdict(passed, failed, skipped)
