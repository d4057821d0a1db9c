# SPDX-License-Identifier: GPL-2.0
"""The files that a kernel finds in its memory when it boots."""

from pathlib import Path


def cpio(files: dict[str, tuple[int, bytes]]) -> bytes:
    """An initramfs of {path: (mode, bytes)}, with the folders that it takes."""
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
