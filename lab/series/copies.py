# SPDX-License-Identifier: GPL-2.0
"""What this repo has of the kernel: copies of files at their paths, links, and the base's own."""

import io
import os
import re
import tarfile
from pathlib import Path

from host.common import CACHE, ROOT
from host.repo import KERNEL, git

# Folders of this repo that hold nothing but files at their kernel paths.
KERNEL_DIRS = ("net", "include", "Documentation", "tools", "drivers", "lib", "scripts")
MARK = ("# begin: links into build/linux (written by make tree)", "# end: links into build/linux")
# The pinned base's own version of each file that the series change: where merges start
# from. It is kept when the pinned base is unpacked; others' files are not for this repo.
BASE_FILES = CACHE / "base-files.tar.xz"


def write(path: Path, content: bytes) -> bool:
    """Write bytes to a file unless it holds them; True when it was written."""
    if path.exists() and path.read_bytes() == content:
        return False
    path.write_bytes(content)
    return True


def remove(path: Path) -> None:
    """Remove a file or link, and the folders that this leaves empty."""
    path.unlink(missing_ok=True)
    for parent in path.parents:
        if parent == ROOT or not parent.exists() or any(parent.iterdir()):
            return
        parent.rmdir()


def changes(head: str) -> dict[str, str]:
    """{path: status letter} of what the series do to the base, up to a commit."""
    words = KERNEL.git("diff", "--name-status", "--no-renames", "-z", "base", head).split("\0")
    return dict(zip(words[1::2], words[0::2]))


def copies(head: str) -> dict[str, tuple[int, bytes]]:
    """{path in this repo: (mode, content)} that a commit in build/linux stands for.

    A file that the series add stands there whole; of one that they change,
    <path>.diff holds the change. MAINTAINERS-snippet is the entry that they add.
    """
    files = {}
    for path, status in changes(head).items():
        if status == "A":
            executable = KERNEL.git("ls-tree", head, path).startswith("100755")
            files[path] = (0o755 if executable else 0o644,
                           KERNEL.git("show", f"{head}:{path}", raw=True))
        else:
            diff = KERNEL.git("diff", "--full-index", "--no-renames", "base", head, "--", path,
                              raw=True)
            files[f"{path}.diff"] = (0o644, diff)
            if path == "MAINTAINERS":
                entry = re.findall(rb"(?m)^\+(?!\+\+ )(.*\n)", diff)
                files["MAINTAINERS-snippet"] = (0o644, b"".join(entry).rstrip() + b"\n")
    return files


def base_files() -> dict[str, bytes]:
    """{path: content} in the base of the files that the commits in build/linux change."""
    touched = set(KERNEL.git("log", "--format=", "--name-only", "--no-renames",
                             "base..HEAD").split())
    names = KERNEL.git("ls-tree", "-r", "--name-only", "base", "--", *sorted(touched)).split()
    return {name: KERNEL.git("show", f"base:{name}", raw=True) for name in names if touched}


def stored_base_files() -> dict[str, bytes]:
    """{path: content} of BASE_FILES; empty if it is not there."""
    if not BASE_FILES.exists():
        return {}
    with tarfile.open(BASE_FILES) as archive:
        return {member.name: archive.extractfile(member).read() for member in archive}


def store_base_files(files: dict[str, bytes]) -> None:
    """Write BASE_FILES unless it holds that."""
    if files != stored_base_files():
        write_base_files(BASE_FILES, files)


def write_base_files(path: Path, files: dict[str, bytes]) -> None:
    """Write a file like BASE_FILES, the same bytes for the same files."""
    with tarfile.open(path, "w:xz", preset=9) as archive:
        for name, content in sorted(files.items()):
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))


def committed() -> set[str]:
    """Paths of the files in git below KERNEL_DIRS of this repo."""
    return set(filter(None, (git(ROOT, "ls-files", "-z", "--", *KERNEL_DIRS, check=False)
                             or "").split("\0")))


def write_links() -> None:
    """Links to the changed kernel files at their paths here, which git ignores.

    The list in .git/info/exclude, between two marks, says which links are ours.
    """
    exclude = git(ROOT, "rev-parse", "--git-path", "info/exclude", check=False)
    if exclude is None:
        return
    exclude = ROOT / exclude
    lines = exclude.read_text().splitlines() if exclude.exists() else []
    old = []
    if MARK[0] in lines and MARK[1] in lines:
        first, last = lines.index(MARK[0]), lines.index(MARK[1])
        old = [line[1:] for line in lines[first + 1:last]]
        del lines[first:last + 1]
    new = [path for path, status in sorted(changes("HEAD").items()) if status == "M"
           and ((ROOT / path).is_symlink() or not (ROOT / path).exists())]
    for path in old:
        if path not in new and (ROOT / path).is_symlink():
            remove(ROOT / path)
    for path in new:
        link, target = ROOT / path, os.path.relpath(KERNEL.dir / path, (ROOT / path).parent)
        if not link.is_symlink() or os.readlink(link) != target:
            link.unlink(missing_ok=True)
            link.parent.mkdir(parents=True, exist_ok=True)
            link.symlink_to(target)
    block = [MARK[0], *("/" + path for path in new), MARK[1]] if new else []
    exclude.parent.mkdir(parents=True, exist_ok=True)
    write(exclude, "".join(line + "\n" for line in lines + block).encode())
