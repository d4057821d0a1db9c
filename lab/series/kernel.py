# SPDX-License-Identifier: GPL-2.0
"""Configure and build the kernels, each from a tree into a folder of build/.

patched and base serve demo, KUnit, tdc and scenarios; the kernel called like a series
has that one and those before it; coverage is patched and counts which lines run. debug
finds mistakes at a price, and has modules; faults is that with faults in it, mutants is
patched with every rule that can be broken. bench-* are without debugging, for figures and
for counting CPU time; smp-* have two CPUs and real time; sweep-* are bench-* with a
constant that can be set. kasan finds wrong accesses and kcsan data races, on several CPUs;
kasan-um is kasan on one. syz is debug without modules, and says which code runs;
syz-smp has several CPUs and real time; both have a twin with faults in it. drivers has drivers of
network cards, and modules. kasan, kcsan and drivers are for QEMU, all others are User-Mode Linux.
"""

import collections
import fcntl
import hashlib
import os
import re
import shutil
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from host.common import (
    BUILD,
    JOBS,
    ROOT,
    Die,
    hash_files,
    kernel_env,
    known,
    made_of,
    make_args,
    run,
    say,
)
from host.repo import KERNEL, git

from series.copies import write
from series.mutate import mutated, read_list

LAB = ROOT / "lab/series"
COMMON = LAB / "kernel.config"
CONFIG = (COMMON, LAB / "uml.config")
DEBUG = (*CONFIG, LAB / "debug.config")
SYZ_FAULTS = ROOT / "lab/tests/syz/faults.txt"
BROKEN = {"faults": LAB / "faults.txt", "mutants": LAB / "mutants.txt",  # kernel: its faults
          "syz-faults": SYZ_FAULTS, "syz-smp-faults": SYZ_FAULTS}


class Kernel(NamedTuple):
    """A kernel to build: tree and output folder below build/, parts of its configuration."""

    tree: str
    out: str
    fragments: Sequence[Path]
    arch: str = "um"


KERNELS = {name: Kernel(tree, out, [LAB / f"{part}.config" for part in parts], arch)
           for name, (tree, out, arch, *parts) in tomllib.loads(
               (LAB / "kernels.toml").read_text()).items()}
ENDS = {series.folder: series.tag for series in KERNEL.series}  # kernel: tag of its tree
KERNELS.update({name: Kernel(f"ladder/{name}/linux", f"ladder/{name}/um", CONFIG)
                for name in ENDS})
OURS = ("sch_api", "sch_cake", "sch_generic", "sch_generic-shared", "sch_htb", "sch_mq",
        "sch_mqprio", "sch_rate_group", "sch_rate_group_qdisc", "sch_rate_tree", "sch_taprio",
        "sch_tbf")
# Objects whose lines the kernel for coverage counts.
GCOV = [f"GCOV_PROFILE_{name}.o=y" for name in OURS]
# Objects that say which of their blocks run, and a device with hardware for some qdiscs.
KCOV = [f"KCOV_INSTRUMENT_{name}.o=y" for name in OURS] + [
    f"CFLAGS_kcov.o=-include {LAB}/kcov.h", f"CFLAGS_dummy.o=-include {LAB}/offload.h"]
# Debugging of memory on UML; see lab/series/debug.h.
MEMORY = [f"CFLAGS_{file}.o=-include {LAB}/debug.h" for file in ("slub", "stacktrace")]
# What 7.3.4 itself reports when cake_mq first looks at its siblings, for runs of
# the unpatched kernel only: the series removes the code that does it.
STOCK_SPLAT = (r"WARNING: suspicious RCU usage", r"Call Trace:")
# Where an x86_64 kernel is, below its folder.
BZIMAGE = "arch/x86/boot/bzImage"


def image(folder: Path | str) -> Path:
    """Path of the kernel in a folder, below build/ or absolute, that was built there."""
    folder = BUILD / folder
    return folder / (BZIMAGE if (folder / BZIMAGE).exists() else "linux")


def emulated(kernel: Path | str) -> bool:
    """Whether QEMU runs a kernel, a path as of image()."""
    return os.path.basename(kernel) == os.path.basename(BZIMAGE)


def vmlinux(kernel: Path | str) -> Path:
    """Where the symbols of a kernel are, a path as of image()."""
    folder = Path(kernel).parent
    return (folder.parents[2] if emulated(kernel) else folder) / "vmlinux"


def flags(which: str, source: Path) -> list[str]:
    """Arguments for make that change how single sources are compiled.

    Lines are known by number, which changes no code. In most kernels, what members of a
    rate group write to their cache line is counted; in those that look for data races a
    race can be switched on instead.
    """
    of = collections.defaultdict(str, dict.fromkeys(OURS, "-g1 "))
    include = f"-include {LAB}/"
    of["sch_rate_group"] += include + ("race.h" if which.startswith("kcsan") else "count.h")
    if which == "sweep-patched":
        of["sch_rate_group"] += f" {include}sweep.h"
    if which == "sweep-base":
        lines = (source / "net/sched/sch_cake.c").read_text().splitlines()
        where = [number for number, line in enumerate(lines, 1)
                 if "sync_time = 200 * NSEC_PER_USEC" in line]
        if len(where) != 1:
            raise Die("the base's sch_cake.c sets sync_time in another way; correct "
                      "lab/series/sweep.h")
        of["sch_cake"] += f"-DSYNC_LINE={where[0]} {include}sweep.h"
    args = [f"CFLAGS_{name}.o={words}" for name, words in of.items()]
    if set(DEBUG) <= set(KERNELS[which].fragments):
        args += MEMORY
    if which.startswith("syz"):
        args += KCOV
    return args + (GCOV if which == "coverage" else [])


def source_of(which: str) -> Path:
    """The tree of a kernel."""
    return BUILD / KERNELS[which].tree


def known_splats(which: str) -> Sequence[str]:
    """What a kernel is known to report, as for boot.splats(): cake_mq on its siblings."""
    walks = "rcu_dereference(netdev_get_tx_queue(" in (
        source_of(which) / "net/sched/sch_cake.c").read_text()
    return STOCK_SPLAT if walks else ()


def shares(which: str, contender: str) -> bool:
    """Whether a kernel's tree has what a contender's option `shared` needs, if it has one."""
    kind, _, option = contender.rpartition(" + ")[2].partition(" ")
    header = source_of(which) / "include/uapi/linux/pkt_sched.h"
    return option != "shared" or f"TCA_{kind.upper()}_SHARED" in header.read_text()


def check_options(text: str, config: Path, source: Path) -> None:
    """Die if an option of fragments' text did not take in a configuration."""
    got, kconfig = set(config.read_text().splitlines()), source / "net/sched/Kconfig"
    wanted = {}  # of an option that two fragments name, the last one counts
    for line in text.splitlines():
        if found := re.match(r"(?:# )?CONFIG_(\w+)", line):
            wanted[found[1]] = line
    for symbol, line in wanted.items():
        off = line.startswith("#") and line.endswith(" is not set")
        if f"CONFIG_{symbol}=y" in got if off else line not in got and line[0] != "#":
            if symbol.startswith(("NET_SCH_SHARED_", "NET_SCH_RATE_")) and (
                    f"config {symbol}\n" not in kconfig.read_text()):
                continue  # of a patch that this tree does not have
            raise Die(f"the kernel configuration lost '{line}'; look at its "
                      f"dependencies in {source}")


def configure(source: Path, out: Path, fragments: Sequence[Path] = CONFIG,
              name: str = "config", arch: str = "um") -> None:
    """Write out/.config from defaults and fragments, if they changed.

    Die if an option of a fragment did not take.
    """
    stamp = out / ".fragments"
    text = b"".join(f.read_bytes() for f in fragments)
    kconfig = (source / "net/sched/Kconfig").read_bytes()
    want = hashlib.sha256(text + kconfig).hexdigest()
    if (out / ".config").exists() and made_of(stamp, want):
        return
    out.mkdir(parents=True, exist_ok=True)
    make = ["make", "-s", f"ARCH={arch}", f"O={out}", *make_args()]
    config = out / ".config"
    if arch == "um":
        run([*make, "defconfig"], name, cwd=source, env=kernel_env())
        lines = config.read_text().splitlines()
        config.write_text("".join(
            line + "\n" for line in lines
            if not line.startswith(("CONFIG_NET_VENDOR", "CONFIG_ETHERNET"))
        ) + "# CONFIG_ETHERNET is not set\n")
    else:  # the defaults of Kconfig, not all the drivers of a defconfig
        config.write_text("# CONFIG_ETHERNET is not set\n")
    run([source / "scripts/kconfig/merge_config.sh", "-m", "-O", out, config,
         *fragments], name, cwd=source, env=kernel_env())
    run([*make, "olddefconfig"], name, cwd=source, env=kernel_env())
    check_options(text.decode(), config, source)
    stamp.write_text(want)


def preset(source: Path, out: Path, fragment: Path, target: str, log: str,
           args: Sequence[str]) -> bool:
    """Write out/.config by make allnoconfig or allmodconfig, with a fragment's options.

    args: of make. False if what that depends on did not change; Die if an option did not take.
    """
    stamp, mark = out / ".preset", hash_files([fragment, source / "net/sched/Kconfig"])
    if made_of(stamp, mark):
        return False
    out.mkdir(parents=True, exist_ok=True)
    run(["make", "-s", "-C", source, f"O={out}", *args, f"KCONFIG_ALLCONFIG={fragment}", target],
        log, env=kernel_env())
    check_options(fragment.read_text(), out / ".config", source)
    stamp.write_text(mark)
    return True


def tree_at(where: Path, commit: str) -> None:
    """Bring a work tree of the series' repo to a commit; made if there is none.

    The files of the base that git does not track are linked; git only writes what
    differs.
    """
    if git(where, "rev-parse", "-q", "--verify", "HEAD", check=False) is None:
        say(f"making the tree {where.relative_to(BUILD)} (about 5 s)")
        shutil.rmtree(where, ignore_errors=True)  # half made, or of a repo that is gone
        where.parent.mkdir(parents=True, exist_ok=True)
        part = where.with_name(f"{where.name}.part")
        shutil.rmtree(part, ignore_errors=True)
        KERNEL.git("worktree", "prune")
        KERNEL.git("worktree", "add", "-f", "--detach", part, "base")
        run(["cp", "-aln", f"{BUILD / 'linux-base'}/.", f"{part}/"], "tree-at", ok=(0, 1))
        KERNEL.git("worktree", "move", part, where)
    git(where, "checkout", "-q", "--detach", "-f", commit)


def broken_tree(where: Path, faults: Path) -> None:
    """Make the patched tree with all faults of a list in it; a boot argument chooses.

    All else are links. Below its own folder the names are those of the kernel without faults,
    so that ccache has most of what it is made of.
    """
    files = {path: text.encode() for path, text in
             mutated(BUILD / "linux", read_list(faults)).items()}
    mark = hashlib.sha256(b"".join(files.values())).hexdigest() + git(
        BUILD / "linux", "rev-parse", "HEAD")
    stamp = where / ".made-with"
    if made_of(stamp, mark):
        return
    shutil.rmtree(where, ignore_errors=True)
    where.parent.mkdir(exist_ok=True)
    run(["cp", "-al", BUILD / "linux", where], "linked-tree")
    for path, content in files.items():
        (where / path).unlink()  # or the patched tree would get the faults through the link
        (where / path).write_bytes(content)
    stamp.write_text(mark)


def build(which: str) -> Path:
    """Build one kernel; return its path."""
    tree, out, fragments, arch = KERNELS[which]
    source, out = BUILD / tree, BUILD / out
    if which in ENDS:
        end = KERNEL.ends().get(ENDS[which])
        if not end:
            raise Die(f"{KERNEL.dir} has no series {which}; it begins with its tag {ENDS[which]}")
        tree_at(source, end)
    if which in BROKEN:
        broken_tree(source, BROKEN[which])
    configure(source, out, fragments, f"config-{which}", arch)
    target, cold = ([], 330) if arch == "um" else (["bzImage"], 600)
    if which == "drivers":
        target.append("modules")
    run(["make", "-s", f"ARCH={arch}", f"O={out}", *make_args(JOBS + 1),
         *flags(which, source), *target],
        f"kernel-{which}", cwd=source, env=kernel_env(),
        what=f"building the {which} kernel",
        estimate=20 if image(out).exists() else cold)
    return image(out)


def module(which: str) -> Path:
    """Build lab/traffic/hop for one kernel, which must have been built; return the .ko.

    The sources are copied to build/hop-<which>, so nothing is generated in lab/. Threads
    and commands that need the same one wait for each other.
    """
    kernel = KERNELS[which]
    copy = BUILD / f"hop-{which}"
    copy.mkdir(parents=True, exist_ok=True)
    with open(copy / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        for file in (ROOT / "lab/traffic/hop").iterdir():
            write(copy / file.name, file.read_bytes())
        run(["make", "-s", "ARCH=um", f"O={BUILD / kernel.out}", f"M={copy}", *make_args(),
             "modules"], f"hop-{which}", cwd=BUILD / kernel.tree, env=kernel_env())
    return copy / "hop.ko"


def main(*name: str) -> None:
    """Build what the arguments name.

    name: of kernels, as kernels.toml has them, or of a series (patched).
    """
    for which in known("kernel", name or ["patched"], KERNELS):
        build(which)
