# SPDX-License-Identifier: GPL-2.0
"""Debian's own systems and kernels, with the packages of 'make deb', in QEMU.

A system is made by debootstrap, once, in the cache: with the kernel of its release, and
Debian 13 also with the newest of its backports. On a layer above it the packages are
installed, which builds the module. QEMU counts instructions, so time in the guest does
not depend on the host.
"""

import contextlib
import functools
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from host.common import BUILD, CACHE, made_of, need_disk, run
from host.setup import Apt, archive, packages, unpacked

from guest import qemu

SYSTEMS = {"trixie": ("trixie", "trixie-backports"), "bookworm": ("bookworm",)}
INCLUDE = ("dkms,kmod,iproute2,iperf3,iputils-ping,procps,gcc,make,libc6-dev,initramfs-tools,"
           "udev,libmnl0,zstd,sysvinit-utils,systemd,systemd-sysv,ifupdown,ethtool")
KERNEL = "linux-image-cloud-amd64 linux-headers-cloud-amd64"
HOST = {"debootstrap": "debootstrap", "qemu-system-x86": "qemu-system-x86_64",
        "e2fsprogs": "mke2fs"}
PATIENCE = 900  # s of the host that a guest may take
QUEUES = 4  # of its network card
# Runs the words after it with what QEMU needs for a card with several queues, in a network
# namespace of its own
CARD = ("unshare", "--net", "sh", "-c",
        'ip tuntap add lab0 mode tap multi_queue && ip link set lab0 up && exec "$@"', "sh")


# ------------------------------------------------------------------ systems

def system(name: str) -> Path:
    """The folder of a Debian release with its kernels, made if need be."""
    where = CACHE / "stock" / name
    made = where / ".made"
    if made_of(made, INCLUDE):
        return where
    need_disk(3, CACHE)
    packages(HOST)
    uri, _ = archive()
    shutil.rmtree(where, ignore_errors=True)
    where.mkdir(parents=True)
    run(["debootstrap", "--variant=minbase", f"--include={INCLUDE}", name, where, uri],
        f"stock-{name}", f"making a system of Debian {name}", 60)
    apt = "DEBIAN_FRONTEND=noninteractive apt-get -y --no-install-recommends"
    script = ["set -e", "apt-get update"]
    for suite in SYSTEMS[name]:
        script += [f"echo 'deb {uri} {suite} main' > /etc/apt/sources.list.d/{suite}.list",
                   "apt-get update", f"{apt} -t {suite} install {KERNEL}"]
    script += ["apt-get clean", "rm -rf /var/lib/apt/lists/*"]
    inside(where, "; ".join(script), f"stock-{name}-kernels", "installing its kernels", 90)
    made.write_text(INCLUDE)
    return where


def headers(suite: str) -> tuple[Path, list]:
    """Headers of a release's kernel for modules: (their folder, words before a command that uses
    them). They come from their packages, once.

    The words lay what was unpacked over /usr for that command, where the headers look for more.
    """
    where = CACHE / "stock" / f"{suite}-headers"
    if not where.exists():
        apt, names = Apt(suite, "deb"), ["linux-headers-cloud-amd64"]
        apt.update()
        for name in names:  # which grows
            names += re.findall(r"Depends: (linux-(?:headers|kbuild)-\S+)",
                                apt.ask("depends", name))
        unpacked(apt, names[1:], where)
    folder, = (where / "usr/src").glob("linux-headers-*-amd64")
    return folder, ["unshare", "--mount", "sh", "-ec", 'mount -t overlay overlay -o '
                    '"lowerdir=$0/usr:/usr" /usr; exec "$@"', where]


def inside(where: Path, script: str, log: str, what: str, estimate: float) -> None:
    """Run a script in a system, as root."""
    run(["unshare", "--mount", "sh", "-c", 'mount -t proc proc "$0/proc" && '
         'exec chroot "$0" sh -c "$1"', where, script], log, what, estimate)


@contextlib.contextmanager
def layer(lower: Path, name: str) -> Iterator[Path]:
    """A copy of a folder that costs nothing: what is written to it lies elsewhere."""
    work = BUILD / "stock" / name
    merged = work / "merged"
    if merged.is_mount():  # of a run that was killed
        run(["umount", merged], f"stock-{name}-layer")
    shutil.rmtree(work, ignore_errors=True)
    for part in ("upper", "work", "merged"):
        (work / part).mkdir(parents=True)
    run(["mount", "-t", "overlay", "overlay", "-o", f"lowerdir={lower},upperdir={work}/upper,"
         f"workdir={work}/work", merged], f"stock-{name}-layer")
    try:
        yield merged
    finally:
        run(["umount", merged], f"stock-{name}-layer")


def disk(name: str, debs: Sequence[Path], files: dict[str, str],
         prepare: Callable[[Path], None]) -> tuple[Path, list[str]]:
    """A disk with a system that has the packages; its path, and the kernels on it.

    debs: the packages. files: what more is in the top folder: {name: text}. prepare: called
    with that folder at the end.
    """
    image = BUILD / "stock" / f"{name}.img"
    with layer(system(name), name) as root:
        kernels = sorted(path.name.removeprefix("vmlinuz-")
                         for path in (root / "boot").glob("vmlinuz-*"))
        for file, text in files.items():
            (root / file).write_text(text)
        for path in debs:
            shutil.copy(path, root)
        # Installing builds for the kernel that runs, which is none of these
        build = "".join(f" && dkms autoinstall -k {kernel}" for kernel in kernels)
        inside(root, f"dpkg -i /*.deb {build}", f"stock-{name}-packages",
               "installing the packages", 30 * len(kernels))
        prepare(root)
        image.unlink(missing_ok=True)
        run(["mke2fs", "-q", "-t", "ext4", "-d", root, image, "3G"], f"stock-{name}-disk",
            "making a disk", 15)
        for kernel in kernels:
            for what in ("vmlinuz", "initrd.img"):
                shutil.copy(root / f"boot/{what}-{kernel}", BUILD / "stock")
    return image, kernels


# -------------------------------------------------------------------- guest

@functools.cache
def has_card() -> bool:
    """Whether boot() gives a guest a virtio-net, eth0, of QUEUES queues."""
    return not subprocess.run([*CARD, "true"], capture_output=True, check=False).returncode


def boot(image: Path, kernel: str, script: str, systemd: bool = False) -> str:
    """What a kernel of a disk prints that runs a script of it in place of init.

    Instructions are counted: 2 ns each, whatever the host does. systemd: that is init, and
    the disk has to have a unit that runs the script; the clock then does not jump while the
    guest is idle, or systemd gives up on what waits for the disk. There is one CPU, as 6.1
    does not come up on several while instructions are counted.
    """
    folder = BUILD / "stock"
    init = "systemd.show_status=0" if systemd else f"init=/bin/sh -- /{script}"
    idle = "on" if systemd else "off"
    # cmpxchg16b ends in a double fault if instructions are counted (QEMU 7.2)
    args = qemu.command(
        folder / f"vmlinuz-{kernel}",
        ("root=/dev/vda rw console=ttyS0 panic=-1 quiet net.ifnames=0", init),
        "-icount", f"shift=1,sleep={idle}", "-initrd", folder / f"initrd.img-{kernel}",
        "-drive", f"file={image},if=virtio,format=raw,snapshot=on", mem="768M",
        cpu="qemu64,-cx16")
    if has_card():
        args = [*CARD, *args,
                "-netdev", f"tap,id=net0,ifname=lab0,queues={QUEUES},script=no,downscript=no,"
                "sndbuf=0",
                "-device", f"virtio-net-pci,netdev=net0,mq=on,vectors={2 * QUEUES + 2},"
                "ioeventfd=off,tx=timer"]  # the card sends in the guest's time, not the host's
    return qemu.watch(args, folder / f"{kernel}-{script}.log", PATIENCE)[0]
