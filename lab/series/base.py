# SPDX-License-Identifier: GPL-2.0
"""The base kernel: unpacked into build/linux, and without the series in build/linux-base."""

import shutil
from pathlib import Path
from shlex import quote

from host import setup
from host.common import BUILD, Die, base_conf, need_disk, run, say
from host.repo import KERNEL, git, git_env

# What git tracks of the kernel: everything the series may touch, and what
# checkpatch and get_maintainer read.  The rest lies there untracked.
SUBSET = [
    "MAINTAINERS", "Makefile", "Kbuild", "Kconfig", "COPYING", "CREDITS", ".clang-format",
    ".get_maintainer.ignore", ".mailmap", "net", "include/net", "include/linux",
    "include/uapi/linux/pkt_sched.h", "include/kunit", "drivers/net/netdevsim",
    "tools/testing/selftests/tc-testing", "tools/testing/kunit", "tools/net/ynl", "scripts",
    "Documentation/networking", "Documentation/netlink"]

LINUX_BASE = BUILD / "linux-base"


def wanted_source(have: str) -> str:
    """Where the base is to come from; a tree made from KERNEL= or LINUX_TARBALL= stays."""
    for key, value in zip(("KERNEL", "LINUX_TARBALL"), setup.given(), strict=True):
        if value:
            return f"{key}={setup.kernel(*setup.given())}"
    if have.startswith(("KERNEL=", "LINUX_TARBALL=")):
        say(f"NOTE: build/linux is made from {have} ('make clean' returns to the pinned base)")
        return have
    if have.startswith("instead ") and not (setup.DOWNLOADS / base_conf()["KERNEL_FILE"]).exists():
        return have                                     # the pinned base has not come back
    return f"pin {base_conf()['KERNEL_SHA256']}"


def make_linux(source: str) -> None:
    """Unpack or copy the base into build/linux and commit the tracked part."""
    need_disk(6)
    origin = setup.kernel(*setup.given())
    if origin.is_dir():
        part = KERNEL.dir.with_name("linux.part")
        shutil.rmtree(part, ignore_errors=True)
        part.mkdir(parents=True)
        run(f"tar -C {quote(str(origin))} --exclude=./.git -c . | "
            f"tar -C {quote(str(part))} -xm", "tree-unpack", f"copying {origin}", 15)
    else:
        part = setup.unpack(origin, KERNEL.dir, "tree-unpack", 25)
    if not (part / "net/sched/sch_api.c").exists():
        raise Die(f"{origin} holds no Linux source; delete it, or give another one")
    (part / ".gitignore").unlink(missing_ok=True)       # Debian's ignores everything
    KERNEL.commit_base(part, f"Linux {version(part)} (tracked part)",
                       [path for path in SUBSET if (part / path).exists()])
    pinned = origin.name == base_conf()["KERNEL_FILE"]
    if pinned:
        check_base(part)
    elif source.startswith("pin "):
        source = f"instead {origin.name}"
    part.rename(KERNEL.dir)
    KERNEL.set_stamp(source=source, head=KERNEL.git("rev-parse", "base"), patches=None,
                     other=None if pinned else origin.name)


def version(linux: Path) -> str:
    """The kernel version that a tree's Makefile states, like 7.3.4."""
    fields = dict(line.split(" = ", 1) for line in (linux / "Makefile").read_text().splitlines()[:6]
                  if " = " in line)
    return (f"{fields['VERSION']}.{fields['PATCHLEVEL']}.{fields.get('SUBLEVEL', '0')}"
            f"{fields.get('EXTRAVERSION', '')}")


def check_base(linux: Path) -> None:
    """Die when the folders that matter are not those that base.conf pins."""
    conf = base_conf()
    for path, key in (("net/sched", "NET_SCHED"), ("include/net", "INCLUDE_NET")):
        found = git(linux, "rev-parse", f"base:{path}")
        if found != conf[f"KERNEL_TREE_{key}"]:
            raise Die(f"{path} of the unpacked kernel is git tree {found} and not the one that "
                      f"base.conf pins as KERNEL_TREE_{key}; correct base.conf")


def make_linux_base() -> None:
    """build/linux-base: the base without the series, for comparisons.

    Hard links to build/linux save time and space; what git tracks there, and
    so anything that is edited, becomes files of its own.
    """
    part = LINUX_BASE.with_name("linux-base.part")
    for path in (part, LINUX_BASE):
        shutil.rmtree(path, ignore_errors=True)
    run(["cp", "-al", KERNEL.dir, part], "tree-base", "making build/linux-base", 5)
    for path in [".git", *SUBSET]:
        shutil.rmtree(part / path) if (part / path).is_dir() else (part / path).unlink(True)
    run(f"git -C {quote(str(KERNEL.dir))} archive base | tar -C {quote(str(part))} -xm",
        "tree-base", env=git_env())
    part.rename(LINUX_BASE)
    KERNEL.set_stamp(plain=KERNEL.git("rev-parse", "base"))
