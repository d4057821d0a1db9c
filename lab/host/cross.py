# SPDX-License-Identifier: GPL-2.0
"""Other architectures: Debian's cross compilers, and QEMU that runs what they make."""

from pathlib import Path
from typing import NamedTuple

from host.setup import packages, present


class Arch(NamedTuple):
    """An architecture, by its name in the lab.

    linux: what the kernel calls it (ARCH=). prefix: of the compiler's programs. compiler,
    libc: {Debian package: what shows that it is there}, as for setup.packages(). user: QEMU
    that runs one program. system: QEMU that is a machine, and what it boots with. words: of the
    compiler, for programs.
    """

    linux: str
    prefix: str
    compiler: dict[str, str]
    libc: dict[str, str]
    user: str
    system: dict[str, str]
    words: str = ""

    @property
    def cc(self) -> str:
        """The compiler, for programs, through ccache."""
        return f"ccache {self.prefix}gcc {self.words}".strip()

    def wanted(self, *more: dict[str, str]) -> dict[str, str]:
        """What it takes to compile programs, and more."""
        return self.compiler | self.libc | {key: value for one in more
                                            for key, value in one.items()}

    def complete(self, *more: dict[str, str]) -> bool:
        """Whether the compiler, its C library and more are there."""
        return all(map(present, self.wanted(*more).values()))

    def install(self, *more: dict[str, str]) -> None:
        """Install the compiler, its C library, and more."""
        packages(self.wanted(*more))


def _arch(linux: str, triple: str, debian: str, binary: str, system: dict[str, str]) -> Arch:
    return Arch(linux, f"{triple}-", {f"gcc-{triple}": f"{triple}-gcc"},
                {f"libc6-dev-{debian}-cross": f"/usr/{triple}/include/stdio.h"},
                f"qemu-{binary}-static", system)


# gcc-multilib brings its 32-bit part as well, but does not go with other compilers
GCC = max(Path("/usr/lib/gcc/x86_64-linux-gnu").glob("[0-9]*"), key=lambda path: int(path.name),
          default=Path("/usr/lib/gcc/x86_64-linux-gnu/0"))
RUNNER = {"qemu-user-static": "qemu-mips-static"}  # has QEMU for all of them
ARCHES = {
    "mips": _arch("mips", "mips-linux-gnu", "mips", "mips",
                  {"qemu-system-mips": "qemu-system-mips"}),
    "arm": _arch("arm", "arm-linux-gnueabihf", "armhf", "arm",
                 {"qemu-system-arm": "qemu-system-arm"}),
    "arm64": _arch("arm64", "aarch64-linux-gnu", "arm64", "aarch64",
                   {"qemu-system-arm": "qemu-system-aarch64"}),
    "riscv": _arch("riscv", "riscv64-linux-gnu", "riscv64", "riscv64",
                   {"qemu-system-misc": "qemu-system-riscv64",
                    "opensbi": "/usr/share/qemu/opensbi-riscv64-generic-fw_dynamic.bin"}),
    "i386": Arch("i386", "", {"gcc": "gcc"},
                 {"libc6-dev-i386": "/usr/lib32/libc.a",
                  f"lib32gcc-{GCC.name}-dev": f"{GCC}/32/libgcc.a"},
                 "qemu-i386-static", {"qemu-system-x86": "qemu-system-i386"},
                 # Headers of the kernel are of both, but not where the compiler looks
                 "-m32 -idirafter /usr/include/x86_64-linux-gnu"),
    "s390": _arch("s390", "s390x-linux-gnu", "s390x", "s390x",
                  {"qemu-system-misc": "qemu-system-s390x"}),
}
