# SPDX-License-Identifier: GPL-2.0
"""QEMU: the command that starts a kernel in it, and what it printed."""

import os
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

RTC = ("-rtc", "base=2026-01-01,clock=vm")  # its clock is the guest's time, not the host's


class Machine(NamedTuple):
    """What QEMU is given beside a kernel, CPUs, memory and the host's files.

    program: its path. before: words before the command. accel: as for command(). words:
    devices and the like. env: more for its environment.
    """

    program: str = "qemu-system-x86_64"
    before: Sequence[str] = ()
    accel: str = "tcg,thread=multi"
    words: Sequence[str] = ()
    env: Mapping[str, str] = {}


def command(image: Path | str, params: Iterable[str], *more: str | Path, mem: str = "1G",
            accel: str = "tcg", cpu: str = "max",
            program: str = "qemu-system-x86_64") -> list[str]:
    """The words that start a kernel with nothing but a serial console, on this program's own.

    params: of the kernel. more: devices and what else QEMU is told. cpu: "": the
    machine's usual. program: QEMU.
    """
    return [program, "-accel", accel, *(("-cpu", cpu) if cpu else ()), "-m", mem, "-nodefaults",
            "-no-user-config", "-no-reboot", "-display", "none", "-serial", "stdio",
            "-kernel", str(image), *map(str, more), "-append", " ".join(params)]


def watch(words: Sequence[str], log: Path, patience: float,
          env: Mapping[str, str] | None = None) -> tuple[str, bool]:
    """(what a guest printed, which is also in a file; whether it ended within so many s).

    env: more for its environment.
    """
    with open(log, "w") as out:
        try:
            subprocess.run(words, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT,
                           timeout=patience, check=False, env={**os.environ, **(env or {})})
            ended = True
        except subprocess.TimeoutExpired:
            out.write(f"\nstopped after {patience} s\n")
            ended = False
    return log.read_text(errors="replace").replace("\r", ""), ended
