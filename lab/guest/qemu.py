# SPDX-License-Identifier: GPL-2.0
"""QEMU: the command that starts a kernel in it, and what it printed."""

import os
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path


def command(image: Path | str, params: Iterable[str], *more: str | Path, mem: str = "1G",
            accel: str = "tcg", cpu: str = "max") -> list[str]:
    """The words that start a kernel with nothing but a serial console, on this program's own.

    params: of the kernel. more: devices and what else QEMU is told.
    """
    return ["qemu-system-x86_64", "-accel", accel, "-cpu", cpu, "-m", mem, "-nodefaults",
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


def initramfs(files: dict[str, tuple[int, bytes]]) -> bytes:
    """An archive of {path: (mode, bytes)}, with the folders that it takes.

    The same bytes for the same files, in the form that the kernel unpacks ("newc" of cpio).
    """
    folders = {str(parent) for path in files for parent in Path(path).parents} - {"."}
    entries = [(path, 0o40755, b"") for path in sorted({*folders, "proc", "sys", "dev"})]
    entries += [(path, mode, data) for path, (mode, data) in files.items()]
    archive = b""
    for number, (path, mode, data) in enumerate([*entries, ("TRAILER!!!", 0, b"")], 1):
        name = path.encode() + b"\0"
        fields = (number, mode, 0, 0, 1, 0, len(data), 0, 0, 0, 0, len(name), 0)
        for part in (b"070701" + b"".join(b"%08X" % field for field in fields) + name, data):
            archive += part + b"\0" * (-len(part) % 4)
    return archive
