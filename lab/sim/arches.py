# SPDX-License-Identifier: GPL-2.0
"""make arches: the C files of rate group and rate tree as programs of other architectures.

The simulators of make fuzz, in which these files are as they are, are compiled for each
architecture by Debian's cross compilers and run by QEMU, one program at a time; no kernel is
built. Each scenario has to keep its rules. (They are others than in make fuzz: a compiler may
take random numbers for two arguments in either order.) Big endian are mips and s390, of 32 bits
are mips, arm and i386; the simulator of the rate group needs 64 bits.

An architecture whose compiler or QEMU is not here is skipped, and said; --all installs what is
missing. The last line is 'N passed, N failed'.
"""

import re
import time

from host.common import BUILD, Die, kernel_env, known, run, say
from host.cross import ARCHES, RUNNER
from host.results import verdict
from host.setup import loudly

from sim import fuzz

OUT = BUILD / "arches"
NARROW = ("mips", "arm", "i386")  # 32 bits
SEEDS = {"group": 30, "tree": 30}  # scenarios of a simulator


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


def main(arch: str = "", all_: bool = False) -> None:
    """Compile, run, judge.

    arch: which, with commas between them (all). all: install what is missing.
    """
    names = known("architecture", arch.split(",") if arch else ARCHES, ARCHES)
    passed, failed, skipped = 0, [], 0
    OUT.mkdir(exist_ok=True)
    for name in names:
        start = time.monotonic()
        if all_:
            ARCHES[name].install(RUNNER)
        if not ARCHES[name].complete(RUNNER):
            loudly(f"NOTHING RUN FOR {name}: its cross compiler or qemu-user-static is not here; "
                   "'make arches' installs them")
            skipped += 1
            continue
        try:
            more, sentences = simulated(name)
        except Die as error:
            more, sentences = 0, [f"{name}: {error}"]
        passed += more
        failed += sentences
        say(f"{name}: {time.monotonic() - start:.0f} s")
    verdict(passed, failed, skipped)
