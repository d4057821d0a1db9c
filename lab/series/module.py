# SPDX-License-Identifier: GPL-2.0
"""make module, make deb: cake and cake_mq as a module for an unpatched kernel.

Puts the files of the patched kernel and those of module/ into one folder, and builds
them there with the kernel's own headers. make deb makes two packages of it: one that
builds the module by DKMS for every kernel installed, one with the tc that goes with it.
make openwrt makes a feed with the same two, for OpenWrt's build system.
"""

import os
import re
import shutil
from collections.abc import Sequence
from pathlib import Path

from host.common import BUILD, ROOT, Die, base_conf, run, say
from host.repo import IPROUTE2, KERNEL, git, git_env
from host.setup import packages

HERE = ROOT / "module"
FILES = (  # of the patched kernel
    "net/sched/sch_cake.c", "net/sched/sch_mq.c", "net/sched/sch_rate_group.c",
    "net/sched/sch_rate_group_qdisc.c", "net/sched/sch_rate.h", "include/net/sch_priv.h",
    "include/net/sch_rate_group.h", "include/net/sch_rate_group_qdisc.h",
    "include/uapi/linux/pkt_sched.h",
)
OPENWRT = ROOT / "openwrt"
FEED = BUILD / "openwrt"
NOTE = r""".SH NOTE
This is the page of
.BR cake-tc (8).
Where it says
.BR tc ,
write
.BR cake-tc .
.SH SYNOPSIS"""
PACKAGES = {"debhelper": "dh", "dh-dkms": "dh_dkms", "fakeroot": "fakeroot"}


def sources(where: Path) -> None:
    """Make a folder that a kernel's build takes as an external module."""
    shutil.rmtree(where, ignore_errors=True)
    shutil.copytree(HERE, where, ignore=shutil.ignore_patterns("debian", "*.md"))
    for name in FILES:
        (where / name).parent.mkdir(parents=True, exist_ok=True)
        text = (KERNEL.dir / name).read_text()
        # block.c finds the blocks; this operation a stock kernel does not have
        (where / name).write_text(text.replace("\t.shared_blocks\t= mq_shared_blocks,\n", ""))
    with open(where / "Kbuild", "a") as kbuild:
        kbuild.write(f"\nccflags-y += -DCAKE_MQ_VERSION='\"{version()}\"'\n")


def release_of(kdir: Path) -> str:
    """Version of the kernel that headers are of; Die if there are none."""
    file = kdir / "include/generated/utsrelease.h"
    if not file.exists():
        raise Die(f"there are no headers of a configured kernel in {kdir}: on Debian install "
                  f"linux-headers-{os.uname().release}, or give KDIR=folder")
    return file.read_text().split('"')[1]


def build(kdir: Path, before: Sequence = ()) -> Path:
    """Build the module for the kernel whose headers are in a folder; its path.

    before: words before the command.
    """
    release = release_of(kdir)
    where = BUILD / "module" / release
    sources(where)
    run([*before, "make", "-C", kdir, f"M={where}", "W=1", "modules"], f"module-{release}",
        f"building the module for Linux {release}", 20,
        fix="for kernels between 6.1 and the base it should build: please report it")
    log = BUILD / "logs" / f"module-{release}.log"
    if log.exists() and (found := re.search(r".*warning:.*", log.read_text())):
        raise Die(f"a warning: {found[0]}; see {log}")
    return where / "sch_cake.ko"


def version() -> str:
    """Of the packages: that of the base, and when their sources were last changed (UTC)."""
    when = git(ROOT, "log", "-1", "--date=format-local:%Y%m%d.%H%M", "--format=%cd", "--",
               "patches", "module", env=git_env(TZ="UTC"), check=False)
    return f"{base_conf()['KERNEL_VERSION']}+{when or 0}"


def packages_of() -> list[Path]:
    """Build the packages; their paths."""
    packages(PACKAGES)
    where = BUILD / "deb" / f"cake-mq-{version()}"
    shutil.rmtree(where.parent, ignore_errors=True)
    sources(where / "src")
    shutil.copytree(HERE / "debian", where / "debian")
    shutil.move(where / "debian/cake-tc.8", where)
    shutil.copy(IPROUTE2.dir / "tc/tc", where / "cake-tc")
    for kind in ("cake", "htb", "tbf"):
        page = (IPROUTE2.dir / f"man/man8/tc-{kind}.8").read_text()
        (where / f"cake-tc-{kind}.8").write_text(page.replace(".SH SYNOPSIS", NOTE, 1))
    person = re.search(r"^M:\s+(.*)", (ROOT / "MAINTAINERS-snippet").read_text(), re.MULTILINE)[1]
    control = where / "debian/control"
    control.write_text(control.read_text().replace("@MAINTAINER@", person))
    date = git(ROOT, "log", "-1", "--format=%aD", "--", "patches", "module").strip()
    (where / "debian/changelog").write_text(
        f"cake-mq ({version()}) unstable; urgency=medium\n\n"
        f"  * The series of patches/ on Linux {base_conf()['KERNEL_VERSION']}.\n\n"
        f" -- {person}  {date}\n")
    run(["dpkg-buildpackage", "-b", "-us", "-uc"], "deb", "building the packages", 20, cwd=where)
    return sorted(where.parent.glob("*.deb"))


def tc_sources(where: Path) -> None:
    """Make a folder in which 'make SUBDIRS="lib tc"' builds tc for any machine."""
    shutil.rmtree(where, ignore_errors=True)
    files = git(IPROUTE2.dir, "ls-files", "--", "Makefile", "include", "lib", "tc")
    for name in files.splitlines():
        (where / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(IPROUTE2.dir / name, where / name)
    shutil.copy(ROOT / "lab/series/tc.mk", where / "config.mk")


def feed() -> Path:
    """Make a feed of packages for OpenWrt; its path."""
    shutil.rmtree(FEED, ignore_errors=True)
    shutil.copytree(OPENWRT, FEED)
    sources(FEED / "sched-cake-mq/src")
    tc_sources(FEED / "cake-mq-tc/src")
    for makefile in FEED.glob("*/Makefile"):
        text = makefile.read_text()
        makefile.write_text(text.replace("@VERSION@", version().replace("+", ".")))
    return FEED


def main(kdir: str = "", deb: bool = False) -> None:
    """Build one or the other.

    kdir: headers of the kernel, /lib/modules/VERSION/build if not of the one that runs. deb:
    packages instead.
    """
    if deb:
        for path in packages_of():
            say(f"{path.relative_to(ROOT)} ({path.stat().st_size // 1024} KB)")
        return
    folder = Path(kdir or f"/lib/modules/{os.uname().release}/build")
    say(f"{build(folder.expanduser().resolve()).relative_to(ROOT)}; module/README.md says how "
        "to load it")
