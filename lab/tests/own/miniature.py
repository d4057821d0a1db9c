# SPDX-License-Identifier: GPL-2.0
"""For tests: a checkout with a tiny kernel, a tiny series, and an archive to stand in.

The tiny kernel is net/sched/sch_api.c and a Makefile. The series changes a line in the
middle of the former. Nothing needs a network.
"""

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

from host.common import ROOT
from host.repo import git, git_env, identity
from series import copies

PINNED = "7.3.4"
FILE = "net/sched/sch_api.c"
DRIVER = """
import sys
sys.path.insert(0, "lab")
from host import common, setup
from series import base, tree
setup.archive = lambda: ("file:" + {archive!r}, "trusted=yes")
setup.need_disk = base.need_disk = lambda *_: None
common.guard(tree.main, "apply")
"""


def source(version: str, changed: str = "") -> dict[str, bytes]:
    """{path: content} of a tiny kernel; changed: its line that is not as in the others.

    "near": next to what the series changes, "same": that itself.
    """
    lines = [f"int line_{number};\n" for number in range(40)]
    if changed:
        lines[17 if changed == "near" else 20] = f"int changed_in_{version.replace('.', '_')};\n"
    major, minor, last = version.split(".")
    return {"Makefile": (f"VERSION = {major}\nPATCHLEVEL = {minor}\nSUBLEVEL = {last}\n"
                         "EXTRAVERSION =\n").encode(),
            FILE: "".join(lines).encode(), "include/net/tiny.h": b"\n"}


def write(folder: Path, files: dict[str, bytes]) -> None:
    """Write files below a folder."""
    for path, content in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(content)


class Miniature:
    """A checkout below a folder, with patches/, base.conf and some rooms, and what is around it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.root = folder / "checkout"
        self.archive = folder / "archive"
        self.downloads = folder / "cache/downloads"
        for room in ("lab/host", "lab/series"):
            shutil.copytree(ROOT / room, self.root / room,
                            ignore=shutil.ignore_patterns("__pycache__"))
        self.linux = self.root / "build/linux"
        self.downloads.mkdir(parents=True)
        trees = self.make_series()
        pinned = self.package(PINNED)
        self.pinned = pinned.rename(folder / pinned.name)
        self.conf(trees)

    def make_series(self) -> dict[str, str]:
        """Write patches/; {folder: its git tree in the base}."""
        repo = self.folder / "series"
        write(repo, source(PINNED))
        env = git_env(**identity("T", "t@example.com", "2026-01-01T00:00:00Z"))
        git(repo, "init", "-q")
        git(repo, "add", ".")
        git(repo, "commit", "-q", "-m", "base", env=env)
        git(repo, "tag", "base")
        text = (repo / FILE).read_text().replace("int line_20;", "int series;")
        (repo / FILE).write_text(text)
        git(repo, "commit", "-q", "-a", "-m", "net: change a line", env=env)
        git(repo, "format-patch", "-q", "--full-index", "-o",
            self.root / "patches/1-shared-state", "base", env=env)
        (self.root / "patches/1-shared-state/cover-letter.txt").write_text("subject\n")
        files = {FILE: source(PINNED)[FILE]}
        copies.write_base_files(self.downloads.parent / copies.BASE_FILES.name, files)
        return {path: git(repo, "rev-parse", f"base:{path}")
                for path in ("net/sched", "include/net")}

    def conf(self, trees: dict[str, str]) -> None:
        """Write base.conf."""
        digest = hashlib.sha256(self.pinned.read_bytes()).hexdigest()
        (self.root / "base.conf").write_text(
            f"KERNEL_VERSION={PINNED}\nKERNEL_PACKAGE=linux-source-7.3\n"
            f"KERNEL_PACKAGE_VERSION={PINNED}-1\nKERNEL_SUITE=test\n"
            f"KERNEL_FILE={self.pinned.name}\nKERNEL_SHA256={digest}\nKERNEL_MB=1\n"
            f"KERNEL_TREE_NET_SCHED={trees['net/sched']}\n"
            f"KERNEL_TREE_INCLUDE_NET={trees['include/net']}\n")

    def tarball(self, version: str, changed: str = "") -> Path:
        """A tarball of a tiny kernel, as upstream's are."""
        made = self.folder / f"linux-{version}.tar.xz"
        write(self.folder / f"linux-{version}", source(version, changed))
        subprocess.run(["tar", "-C", self.folder, "-cJf", made, f"linux-{version}"], check=True)
        return made

    def package(self, version: str, changed: str = "") -> Path:
        """A package of a tiny kernel, as Debian's are."""
        line = version.rpartition(".")[0]
        folder = self.folder / f"package-{version}"
        inner = folder / f"usr/src/linux-source-{line}.tar.xz"
        inner.parent.mkdir(parents=True)
        self.tarball(version, changed).rename(inner)
        write(folder, {"DEBIAN/control": (
            f"Package: linux-source-{line}\nVersion: {version}-1\nArchitecture: all\n"
            "Maintainer: T <t@example.com>\nDescription: tiny\n").encode()})
        made = self.folder / f"linux-source-{line}_{version}-1_all.deb"
        subprocess.run(["dpkg-deb", "-b", "--root-owner-group", folder, made], check=True,
                       stdout=subprocess.DEVNULL)
        return made

    def offer(self, *packages: Path) -> None:
        """Make the archive, with these packages."""
        arch = subprocess.run(["dpkg", "--print-architecture"], check=True, text=True,
                              capture_output=True).stdout.strip()
        text = ""
        for package in packages:
            content = package.read_bytes()
            write(self.archive / "pool", {package.name: content})
            control = (self.folder / f"package-{package.name.split('_')[1].removesuffix('-1')}"
                       / "DEBIAN/control").read_text()
            text += (f"{control}Filename: pool/{package.name}\nSize: {len(content)}\n"
                     f"SHA256: {hashlib.sha256(content).hexdigest()}\n\n")
        index = f"main/binary-{arch}/Packages"
        release = (f"Suite: test\nCodename: test\nArchitectures: {arch}\nComponents: main\n"
                   "Date: Thu, 01 Jan 2026 00:00:00 UTC\nSHA256:\n"
                   f" {hashlib.sha256(text.encode()).hexdigest()} {len(text)} {index}\n")
        write(self.archive / "dists/test", {"Release": release.encode(), index: text.encode()})

    def apply(self, **env: str) -> tuple[int, str]:
        """What 'lab tree apply' does: its status and what it says."""
        done = subprocess.run(
            [sys.executable, "-B", "-c", DRIVER.format(archive=str(self.archive))],
            cwd=self.root, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            check=False, env={**{key: value for key, value in os.environ.items()
                                 if key not in ("KERNEL", "LINUX_TARBALL", "V")},
                              "QDISC_CACHE": str(self.folder / "cache"), **env})
        return done.returncode, done.stdout
