# SPDX-License-Identifier: GPL-2.0
"""make openwrt: the feed for OpenWrt, and its packages built as far as that is possible here.

OpenWrt's SDK is in none of Debian's archives. So the recipes of openwrt/*/Makefile run
below a few lines that stand in for OpenWrt's own makefiles, with Debian's cross compilers
and plain kernels from Debian's source packages. No kernel is built: that each symbol which
the module takes is exported somewhere in the sources is looked up there.

The commands by which sqm-scripts sets use_mq up run on the patched kernel.

Without --all, what make test does: the file list, and the newest kernel at hand for each
compiler at hand; a compiler or kernel that is missing is skipped, and said. The last line is
'N passed, N failed'.
"""

import re
import shlex
import shutil
import tomllib
from pathlib import Path

from guest.boot import boot
from host import setup
from host.common import BUILD, ROOT, Die, kernel_env, need_disk, parallel, run, say, told
from host.cross import ARCHES
from host.results import verdict
from series import module
from series.kernel import image, preset

WORK = BUILD / "openwrt-try"
HERE = ROOT / "lab/tests"
STUB, STOCK = HERE / "openwrt.mk", HERE / "stock.sh"
TABLES = tomllib.loads((HERE / "openwrt.toml").read_text())
KERNELS, CONFIGS = TABLES["kernels"], TABLES["configs"]


def source(version: str, fetch: bool) -> Path | None:
    """The sources of a kernel, unpacked; None if they are not there. fetch: get them."""
    where = BUILD / f"openwrt-linux-{version}"
    if not where.exists() and fetch:
        need_disk(3)
        apt = setup.Apt(KERNELS[version], "deb")
        apt.update()
        setup.unpack(setup.newest(apt, f"linux-source-{version}"), where,
                     f"openwrt-unpack-{version}", 40, TABLES["left out"]).rename(where)
    return where if where.exists() else None


def prepared(version: str, arch: str) -> Path:
    """The folder of a kernel that is configured for an architecture, to build modules."""
    out = BUILD / f"openwrt-linux-{version}-{arch}"
    words = [*TABLES["common"].split(), *CONFIGS[arch].split()]
    config = "".join(f"CONFIG_{word}=y\n" for word in words)
    out.mkdir(exist_ok=True)
    wanted, log = out / "wanted", f"openwrt-{version}-{arch}"
    wanted.write_text(config)
    linux = source(version, False)
    if preset(linux, out, wanted, "allnoconfig", f"{log}-config", flags(arch)):
        run(["make", "-s", "-C", linux, f"O={out}", *flags(arch), "modules_prepare"],
            f"{log}-prepare", f"configuring Linux {version} for {arch}", 60, env=kernel_env())
    return out


def flags(arch: str) -> list[str]:
    """Arguments of make that choose an architecture and its compiler."""
    one = ARCHES[arch]
    return [f"ARCH={one.linux}", f"CROSS_COMPILE={one.prefix}", f"CC={one.cc}",
            "HOSTCC=ccache gcc"]


def recipe(package: str, where: Path, log: str, **variables: str) -> None:
    """Do with a package of the feed what OpenWrt does: copy src/, Build/Compile."""
    run(["make", "-f", STUB, f"PACKAGE={module.FEED / package}", f"PKG_BUILD_DIR={where}",
         *(f"{name}={value}" for name, value in variables.items())], log, cwd=where.parent,
        env=kernel_env())


def exported(version: str, arch: str) -> set[str]:
    """What a kernel's sources export to modules, in what every configuration may have."""
    folders = ["arch/" + ARCHES[arch].linux, "kernel", "lib", "mm", "net/core", "net/sched",
               "net/netlink", "net/ipv4", "net/ipv6", "net/netfilter", "net/ethernet"]
    done = told("grep", "-rhoE", r"EXPORT_(PER_CPU_|STATIC_CALL_)?SYMBOL(_NS)?(_GPL)?\(\w+",
                *folders, cwd=source(version, False))
    return {line.rpartition("(")[2] for line in done.stdout.splitlines()}


def kmod(version: str, arch: str) -> str:
    """Build the module's package; a sentence about it. Die if anything is wrong."""
    where = WORK / f"kmod-{version}-{arch}"
    out, prefix = prepared(version, arch), ARCHES[arch].prefix
    words = shlex.join(["make", "-C", str(out), *flags(arch), "W=1", "KBUILD_MODPOST_WARN=1"])
    recipe("sched-cake-mq", where, f"openwrt-kmod-{version}-{arch}", KERNEL_MAKE=words)
    log = BUILD / f"logs/openwrt-kmod-{version}-{arch}.log"
    if found := re.search(r".*\.[ch]:\d+.*warning:.*", log.read_text()):
        raise Die(f"a warning: {found[0]}; see {log}")
    ko = where / "sch_cake.ko"
    head = told(f"{prefix}readelf", "-h", ko, check=True).stdout
    if not re.search(rf"Machine: +{TABLES['machines'][arch]}\b", head):
        raise Die(f"{ko} is not for {arch}")
    wanted = told(f"{prefix}nm", "-u", ko, check=True).stdout.split()[1::2]
    if lost := [name for name in set(wanted) - exported(version, arch)
                if not re.fullmatch(TABLES["elsewhere"], name)]:
        raise Die(f"{ko} takes what Linux {version} does not export: {', '.join(sorted(lost))}")
    return f"{len(wanted)} symbols, {ko.stat().st_size // 1024} KB"


def tc(arch: str) -> str:
    """Build the package of tc; a sentence about it."""
    where = WORK / f"tc-{arch}"
    prefix = ARCHES[arch].prefix if arch != "musl" else ""
    # The C library of a Debian cross compiler is older than strlcpy()
    more = "-DNEED_STRLCPY" if arch != "musl" else f"-idirafter {where}/linux"
    if arch == "musl":  # which brings no headers of the kernel
        (where / "linux").mkdir(parents=True)
        for name in ("linux", "asm-generic"):
            (where / "linux" / name).symlink_to(f"/usr/include/{name}")
        (where / "linux/asm").symlink_to("/usr/include/x86_64-linux-gnu/asm")
    recipe("cake-mq-tc", where, f"openwrt-tc-{arch}", PKG_JOBS="-j2",
           TARGET_CC="musl-gcc" if arch == "musl" else f"ccache {prefix}gcc",
           TARGET_AR=f"{prefix}ar", HOSTCC="gcc", TARGET_CFLAGS=f"-Os {more}", TARGET_LDFLAGS="")
    return f"{(where / 'tc/tc').stat().st_size // 1024} KB"


def files_differ() -> list[str]:
    """What is in the feed's folder of the module and not in module/'s build, or the reverse."""
    trees = []
    for where in (WORK / "module", module.FEED / "sched-cake-mq/src"):
        trees.append({str(path.relative_to(where)): path.read_bytes()
                      for path in where.rglob("*") if path.is_file()})
    return sorted(name for name in set(trees[0]) | set(trees[1])
                  if trees[0].get(name) != trees[1].get(name))


def sqm() -> tuple[int, list[str]]:
    """The commands by which sqm-scripts sets use_mq up, of stock.sh, on the patched kernel.

    (how many were right, sentences on the others).
    """
    text = STOCK.read_text()
    check, = re.findall(r"^check\(\) .*?^}$", text, re.MULTILINE | re.DOTALL)
    script, = re.findall(r"^# ---- sqm-scripts.*?(?=^# ---- )", text, re.MULTILINE | re.DOTALL)
    lines = f"{check}\n{script}".replace("cake-tc ", "tc ")
    guest = boot(image("um"), "openwrt-sqm", f"( {lines} ) > /run/job/out 2>&1", timeout=300)
    said = Path(guest.job, "out").read_text()
    failed = re.findall(r"^FAIL (.*)$", said, re.MULTILINE)
    if bad := guest.complaint():
        failed.append(bad)
    good = len(re.findall(r"^OK ", said, re.MULTILINE))
    return good, failed if good else [*failed, "sqm, use_mq: nothing was done"]


def jobs(everything: bool) -> tuple[list[tuple], list[str]]:
    """(what to build: (name, function, arguments)), sentences on what is skipped."""
    some, skipped = [], []
    for arch in CONFIGS:
        if everything:
            ARCHES[arch].install()
        if not ARCHES[arch].complete():
            skipped.append(f"{arch}: no {ARCHES[arch].prefix}gcc here; "
                           "'make openwrt ALL=1' installs it")
            continue
        found = [version for version in KERNELS if source(version, everything)]
        if not found:
            skipped.append(f"{arch}: no sources of a kernel here; "
                           "'make openwrt ALL=1' fetches them")
        for version in found if everything else found[:1]:
            some.append((f"kmod-sched-cake-mq, Linux {version}, {arch}", kmod, version, arch))
        if everything:
            some.append((f"cake-mq-tc, {arch}", tc, arch))
    if everything:
        setup.packages({"musl-tools": "musl-gcc"})
        some.append(("cake-mq-tc, musl (x86-64)", tc, "musl"))
    skipped.append(TABLES["missing"])
    return some, skipped


def main(all_: bool = False) -> None:
    """Make the feed, look at its files, build.

    all: fetch kernels and compilers, and build for all of them.
    """
    shutil.rmtree(WORK, ignore_errors=True)
    WORK.mkdir(parents=True)
    say(f"{module.feed()} is the feed; its README.md says how to use it")
    module.sources(WORK / "module")
    failed, passed = [], 0
    if names := files_differ():
        failed.append(f"not the same as in make module: {', '.join(names)}")
    else:
        passed += 1
    some, skipped = jobs(all_)
    if image("um").exists():
        good, sentences = sqm()
        passed, failed = passed + good, failed + sentences
    else:
        skipped.append("sqm-scripts: the patched kernel is not built; 'make build' does that")
    for version, arch in dict.fromkeys(job[2:] for job in some if job[1] is kmod):
        prepared(version, arch)

    def one(job: tuple) -> tuple[str, str, bool]:
        try:
            return job[0], job[1](*job[2:]), True
        except Die as error:
            return job[0], str(error), False

    for name, text, good in parallel(one, some):
        print(f"{name}: {text if good else 'FAILED'}")
        passed += good
        failed += [] if good else [f"{name}: {text}"]
    for sentence in skipped:
        setup.loudly(f"NOT TRIED: {sentence}")
    verdict(passed, failed, len(skipped))
