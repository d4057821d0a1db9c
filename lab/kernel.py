"""Configure and build the UML kernels, each from a tree into a folder of build/.

patched and base serve demo, KUnit, tdc and scenarios; series1 has the first series
only; coverage is patched and counts which lines run. bench-* are without debugging,
for figures and for counting CPU time; smp-* have two CPUs and real time; sweep-* are
bench-* with a constant that can be set.
"""

import hashlib
import re
import shutil
import sys

from boot import STOCK_SPLAT
from common import BUILD, JOBS, ROOT, Die, git, guard, kernel_env, make_args, run

CONFIG = ROOT / "lab" / "uml.config"
BENCH = (CONFIG, ROOT / "lab" / "bench.config")
SMP = (*BENCH, ROOT / "lab" / "smp.config")
KERNELS = {  # name: (tree, output folder, fragments)
    "patched": ("linux", "um", (CONFIG,)),
    "base": ("linux-base", "um-base", (CONFIG,)),
    "series1": ("linux-s1", "um-s1", (CONFIG,)),
    "bench-patched": ("linux", "um-bench", BENCH),
    "bench-base": ("linux-base", "um-bench-base", BENCH),
    "coverage": ("linux", "um-gcov", (CONFIG, ROOT / "lab" / "gcov.config")),
    "smp-patched": ("linux", "um-smp", SMP),
    "smp-base": ("linux-base", "um-smp-base", SMP),
    "sweep-patched": ("linux", "um-sweep", BENCH),
    "sweep-base": ("linux-base", "um-sweep-base", BENCH),
}
# Objects whose lines the kernel for coverage counts.
GCOV = [f"GCOV_PROFILE_{name}.o=y" for name in (
    "sch_api", "sch_cake", "sch_generic", "sch_generic-shared", "sch_mq", "sch_mqprio",
    "sch_rate_group", "sch_tbf")]
# Below /sys/module: us between two scans, and bytes of the longest slot.
KNOBS = {"sweep-base": "sch_cake/parameters/lab_knob",
         "sweep-patched": "sch_rate_group/parameters/lab_knob"}


def flags(which, source):
    """Arguments for make that change how single sources are compiled.

    In all kernels, what members of a rate group write to their cache line is counted.
    """
    group = f"-include {ROOT}/lab/count.h"
    if which == "sweep-patched":
        group += f" -include {ROOT}/lab/sweep.h"
    args = [f"CFLAGS_sch_rate_group.o={group}"]
    if which == "sweep-base":
        lines = (source / "net/sched/sch_cake.c").read_text().splitlines()
        where = [number for number, line in enumerate(lines, 1)
                 if "sync_time = 200 * NSEC_PER_USEC" in line]
        if len(where) != 1:
            raise Die("the base's sch_cake.c sets sync_time in another way; correct "
                      "lab/sweep.h")
        args.append(f"CFLAGS_sch_cake.o=-DSYNC_LINE={where[0]} -include {ROOT}/lab/sweep.h")
    return args + (GCOV if which == "coverage" else [])


def known_splats(which):
    """What a kernel is known to report, as for boot.splats()."""
    return STOCK_SPLAT if which.endswith("base") else ()


def configure(source, out, fragments=(CONFIG,), name="config"):
    """Write out/.config from UML's defconfig and fragments, if they changed.

    Die if an option of a fragment did not take.
    """
    stamp = out / ".fragments"
    text = b"".join(f.read_bytes() for f in fragments)
    kconfig = (source / "net/sched/Kconfig").read_bytes()
    want = hashlib.sha256(text + kconfig).hexdigest()
    if (out / ".config").exists() and stamp.exists() and stamp.read_text() == want:
        return
    out.mkdir(parents=True, exist_ok=True)
    make = ["make", "-s", "ARCH=um", f"O={out}", *make_args()]
    run([*make, "defconfig"], name, cwd=source, env=kernel_env())
    config = out / ".config"
    lines = config.read_text().splitlines()
    config.write_text("".join(
        line + "\n" for line in lines
        if not line.startswith(("CONFIG_NET_VENDOR", "CONFIG_ETHERNET"))
    ) + "# CONFIG_ETHERNET is not set\n")
    run([source / "scripts/kconfig/merge_config.sh", "-m", "-O", out, config,
         *fragments], name, cwd=source, env=kernel_env())
    run([*make, "olddefconfig"], name, cwd=source, env=kernel_env())
    got = set(config.read_text().splitlines())
    wanted = {}  # of an option that two fragments name, the last one counts
    for line in text.decode().splitlines():
        if "CONFIG_" in line:
            wanted[re.search(r"CONFIG_\w+", line)[0]] = line
    for line in wanted.values():
        off = line.startswith("# CONFIG_") and line.endswith(" is not set")
        missing = off and f"{line.split()[1]}=y" in got
        if missing or (line.startswith("CONFIG_") and line not in got):
            symbol = line.removeprefix("CONFIG_").partition("=")[0].encode()
            if symbol.startswith((b"NET_SCH_SHARED_", b"NET_SCH_RATE_")) and symbol not in kconfig:
                continue  # of a patch that this tree does not have
            raise Die(f"the kernel configuration lost '{line}'; look at its "
                      f"dependencies in {source}")
    stamp.write_text(want)


def series1_tree(where):
    """Make a tree with the first series only, from links to the base's files."""
    repo = BUILD / "linux"
    commit = git(repo, "rev-parse", "s1")
    stamp = where / ".series1"
    if stamp.exists() and stamp.read_text() == commit:
        return
    shutil.rmtree(where, ignore_errors=True)
    run(["cp", "-al", BUILD / "linux-base", where], "series1-tree")
    for path in git(repo, "diff", "--name-only", "base", "s1").splitlines():
        (where / path).unlink(missing_ok=True)  # not the base's file behind the link
        (where / path).parent.mkdir(parents=True, exist_ok=True)
        (where / path).write_bytes(git(repo, "show", f"s1:{path}", raw=True))
    stamp.write_text(commit)


def build(which):
    """Build one kernel; return the path of the executable."""
    tree, out, fragments = KERNELS[which]
    source, out = BUILD / tree, BUILD / out
    if which == "series1":
        series1_tree(source)
    configure(source, out, fragments, f"config-{which}")
    run(["make", "-s", "ARCH=um", f"O={out}", *make_args(JOBS + 1),
         *flags(which, source)],
        f"kernel-{which}", cwd=source, env=kernel_env(),
        what=f"building the {which} kernel",
        estimate=20 if (out / "linux").exists() else 330)
    return out / "linux"


def module(which):
    """Build lab/hop for one kernel, which must have been built; return the .ko.

    The sources are copied to build/hop-<which>, so nothing is generated in lab/.
    """
    tree, out, _ = KERNELS[which]
    copy = BUILD / f"hop-{which}"
    copy.mkdir(parents=True, exist_ok=True)
    for file in (ROOT / "lab" / "hop").iterdir():
        to = copy / file.name
        if not to.exists() or to.read_bytes() != file.read_bytes():
            to.write_bytes(file.read_bytes())
    run(["make", "-s", "ARCH=um", f"O={BUILD / out}", f"M={copy}", *make_args(), "modules"],
        f"hop-{which}", cwd=BUILD / tree, env=kernel_env())
    return copy / "hop.ko"


def main():
    """Build what the arguments name."""
    for which in sys.argv[1:] or ["patched"]:
        if which not in KERNELS:
            raise Die(f"there is no kernel called '{which}'; use one of "
                      + ", ".join(KERNELS))
        build(which)


if __name__ == "__main__":
    guard(main)
