# SPDX-License-Identifier: GPL-2.0
"""The kernels that make cost counts instructions of, and how QEMU starts them."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from guest import qemu
from host.common import BUILD, ROOT, kernel_env, make_args, need_disk, run, told
from host.cross import ARCHES
from series.copies import write
from series.kernel import preset
from tests import arches_tc

HERE = ROOT / "lab/report/cost"
TREES = {"base": BUILD / "linux-base", "patched": BUILD / "linux"}
SCALE = 100  # instructions of a nanosecond in a guest of x86_64
BUSYBOX, TC = Path("/bin/busybox"), BUILD / "iproute2/tc/tc"
ICOUNT = ("-icount", "shift=0,sleep=off", "-seed", "1", *qemu.RTC)
ARM = arches_tc.MACHINES["arm"]


class Machine(NamedTuple):
    """An architecture to count on.

    linux: what the kernel calls it. prefix: of the compiler. config: beside guest.config. image:
    below the build. added: C files of lab/report/cost in the kernel. qemu: the program, with the
    machine. params: of the kernel. cpu: of QEMU. beside: what of the kernel is not in its text; "":
    nothing is.
    """

    linux: str
    prefix: str
    config: str
    image: str
    added: tuple[str, ...]
    qemu: tuple[str, ...]
    params: tuple[str, ...]
    cpu: str
    beside: str = ""

    def arguments(self) -> list[str]:
        """Of make, for the kernel."""
        cross = [f"CROSS_COMPILE={self.prefix}", f"CC=ccache {self.prefix}gcc"]
        return [f"ARCH={self.linux}", *make_args(), *(cross if self.prefix else ())]


# x86_64: SCALE times as fast as QEMU is, so that its CPU is never what limits a load. It always
# has the same random numbers: without any, the kernel's own would never be ready, and cost a
# hundred times as much; without instructions that repeat themselves.
MACHINES = {
    "x86_64": Machine(
        "x86_64", "", "x86.config", "arch/x86/boot/bzImage", ("clock.c",),
        ("qemu-system-x86_64",),
        ("console=ttyS0", "reboot=t", "tsc=reliable", f"tsc_early_khz={SCALE * 1000000}",
         f"cost_clock={SCALE}"), "max,-erms,-fsrm"),
    "arm": Machine(
        "arm", ARCHES["arm"].prefix, "arm.config", ARM.image, (),
        (f"qemu-system-{ARM.qemu}", *ARM.words), (f"console={ARM.console}", "rdinit=/init"),
        "cortex-a15", "vectors"),
}


class Kernel:
    """A kernel to count in: build/cost-<name>/linux and, made from it, .../out.

    The former is a folder of links to the tree's files, so always as that is, but for
    what lab/report/cost adds: a folder lab/, and the line in Kbuild that names it. Below
    build/cost-<name> the names are the same for all kernels, for ccache.
    """

    def __init__(self, which: str, arch: str) -> None:
        self.which, self.arch, self.machine = which, arch, MACHINES[arch]
        self.name = which if arch == "x86_64" else f"{arch}-{which}"
        self.tree, self.dir = TREES[which], BUILD / f"cost-{self.name}"
        self.source, self.out = self.dir / "linux", self.dir / "out"
        self.image = self.out / self.machine.image

    def make(self, *args: str, **more: Any) -> None:
        """Run make for it."""
        run(["make", "-s", f"O={self.out}", *self.machine.arguments(), *args],
            f"cost-{self.name}", cwd=self.source, env=kernel_env(), **more)

    def link(self) -> None:
        """Bring the folder of links up to date."""
        lab = self.source / "lab"
        lab.mkdir(parents=True, exist_ok=True)
        links = {self.source / path.name: path for path in self.tree.iterdir()
                 if path.name not in ("Kbuild", ".git")}
        links |= {lab / path.name: path for path in
                  (*(HERE / name for name in self.machine.added), ROOT / "lab/traffic/hop/hop.c")}
        for link, path in links.items():
            if not link.is_symlink() or link.readlink() != path:
                link.unlink(missing_ok=True)
                link.symlink_to(path)
        added = " ".join(f"{Path(name).stem}.o" for name in (*self.machine.added, "hop.c"))
        write(lab / "Kbuild", f"obj-y += {added}\n".encode())
        write(self.source / "Kbuild", (self.tree / "Kbuild").read_bytes() + b"obj-y += lab/\n")

    def build(self) -> None:
        """Build it."""
        need_disk(1, BUILD)
        self.out.mkdir(parents=True, exist_ok=True)
        self.link()
        config = self.dir / "config"
        config.write_text("".join((HERE / name).read_text()
                                  for name in ("guest.config", self.machine.config)))
        preset(self.source, self.out, config, "allnoconfig", f"cost-{self.name}",
               self.machine.arguments())
        if self.arch != "x86_64":
            arches_tc.tools(self.arch)  # before there are threads
        self.make(self.image.name, what=f"building the kernel to count in: {self.name}",
                  estimate=25 if self.image.exists() else 350)

    def symbols(self) -> list[tuple[int, str]]:
        """Functions: [(address, name)], sorted."""
        rows = map(str.split, (self.out / "System.map").read_text().splitlines())
        return sorted((int(at, 16), name) for at, kind, name in rows if kind in "tTwW")

    def start(self, params: Sequence[str], *more: str, mem: str) -> list[str]:
        """The command for QEMU."""
        program, *words = self.machine.qemu
        return qemu.command(
            self.image, [*self.machine.params, "quiet", "norandmaps", "panic=-1", *params],
            *words, *ICOUNT, *more, mem=mem, accel="tcg,thread=single", cpu=self.machine.cpu,
            program=program)

    def files(self, tc: Sequence[str], hop: Sequence[str]) -> dict[str, tuple[int, bytes]]:
        """What its guest has: {path: (mode, bytes)}. tc: lines for it; hop: for /proc/hop."""
        texts = {"tc.batch": tc}
        if self.arch == "x86_64":
            listed = told("ldd", TC, check=True).stdout
            programs = {"init": HERE / "init.sh", "bin/busybox": BUSYBOX, "bin/tc": TC}
            programs |= {path.lstrip("/"): Path(path) for path in re.findall(r"(/\S+) \(", listed)}
            texts["hop.txt"] = hop
        else:
            tc_of, ip_of, agent = arches_tc.tools(self.arch)
            programs = {"init": agent, "tc": tc_of, "ip": ip_of}
            texts["job"] = ["run /ip link set hop0 up", "run /tc -batch /tc.batch",
                            *(f"write /proc/hop {line}" for line in hop), "show /proc/hop"]
        return {**{path: (0o100755, file.read_bytes()) for path, file in programs.items()},
                **{path: (0o100644, "".join(f"{line}\n" for line in lines).encode())
                   for path, lines in texts.items()}}

    def complaint(self, text: str) -> str | None:
        """What was wrong with a boot, from its console, or None."""
        if self.arch == "x86_64":
            if "DONE" not in text:
                return "the guest did not do all that it was told"
            return None if "CLOCK tsc\n" in text else "the guest's clock is not the TSC"
        if not re.search(r"^END$", text, re.M) or re.search(r"^RC (?!0$)", text, re.M):
            return "the guest did not do all that it was told"
        return None


def present(arch: str) -> bool:
    """Whether what it takes to count on an architecture is here."""
    return arch == "x86_64" or ARCHES[arch].complete(ARCHES[arch].system)
