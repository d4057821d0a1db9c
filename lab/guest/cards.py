# SPDX-License-Identifier: GPL-2.0
"""QEMU with a network card of several queues, and a second one that its packets go to.

igb needs QEMU 8 or later: where the system's is older, that of the backports of its Debian
release is unpacked in the cache.
"""

import functools
import json
import os
import platform
import socket
import subprocess
from pathlib import Path

from host.common import CACHE, Die, say
from host.setup import Apt, packages, unpacked

from guest import qemu

CARD, PEER = "52:54:00:00:00:01", "52:54:00:00:00:02"  # MAC addresses
QUEUES = 8  # that a card can have, with CPUS in use after a boot; vmxnet3 has CPUS
CPUS = 4
DRIVERS = ("igb", "vmxnet3", "virtio_net")  # of cards that QEMU has
INSTRUCTION = 1  # 2^1 ns each, as QEMU counts them
PARTS = ("qemu-system-x86", "qemu-system-data", "qemu-system-common")
INSTEAD = "install a QEMU of version 8 or later"
# Runs the words after it in a network namespace in which a tap of several queues is bridged
# to one of the peer's
TAPS = ("unshare", "--net", "sh", "-c",
        "ip link add lab type bridge && ip tuntap add lab0 mode tap multi_queue && "
        "ip tuntap add lab1 mode tap && for i in lab0 lab1; do ip link set $i master lab; "
        "ip link set $i addrgenmode none; ip link set $i up; done && "
        'ip link set lab addrgenmode none && ip link set lab up && exec "$@"', "sh")


def knows(program: str, env: dict[str, str]) -> bool:
    """Whether a QEMU runs and has igb."""
    try:
        return b"igb options" in subprocess.run(  # its status is 0 in any case
            [program, "-device", "igb,help"], env={**os.environ, **env}, capture_output=True,
            check=False).stdout
    except FileNotFoundError:
        return False


@functools.cache
def program() -> tuple[str, dict[str, str], tuple[str, ...]]:
    """(a QEMU that has igb, what its environment needs, words that it needs)."""
    packages({"qemu-system-x86": "qemu-system-x86_64"})
    if knows("qemu-system-x86_64", {}):
        return "qemu-system-x86_64", {}, ()
    where = CACHE / "qemu"
    found = where / "usr/bin/qemu-system-x86_64"
    if not found.exists():
        unpack(where)
    env = {"QEMU_MODULE_DIR": str(next(where.glob("usr/lib/*/qemu"), where))}
    if not knows(str(found), env):
        raise Die(f"{found} does not run or has no igb; delete {where} and run this again, or "
                  + INSTEAD)
    return str(found), env, ("-L", str(where / "usr/share/qemu"), "-L", "/usr/share/seabios")


def unpack(where: Path) -> None:
    """Put the QEMU of the backports into a folder; Die if there is none."""
    release = platform.freedesktop_os_release().get("VERSION_CODENAME", "")
    say(f"QEMU of {release}-backports (about 15 MB and an index, 20 s)")
    apt = Apt(f"{release}-backports", "deb")
    apt.update(INSTEAD)
    unpacked(apt, PARTS, where, INSTEAD)


def plug(monitor: Path, inside: bool) -> None:
    """Put the cable into the card of a machine, or take it out. monitor: as for machine()."""
    with socket.socket(socket.AF_UNIX) as line:
        line.settimeout(60)
        line.connect(short(monitor))
        words = line.makefile("rw")
        for command in ({"execute": "qmp_capabilities"},
                        {"execute": "set_link", "arguments": {"name": "nic", "up": inside}}):
            words.write(json.dumps(command) + "\n")
            words.flush()
            while "return" not in (answer := json.loads(words.readline())):
                if "error" in answer:
                    raise Die(f"QEMU refuses {command}: {answer['error']}")


def short(path: Path) -> str:
    """The name of a socket, which may not be longer than about 100 characters."""
    return min(str(path), os.path.relpath(path), key=len)


def machine(driver: str, monitor: Path) -> qemu.Machine:
    """A machine with a card for a driver, joined to a virtio-net of one queue.

    Instructions are counted: time in the guest does not depend on the host, and jumps while
    the guest is idle. virtio-net needs root: only a tap has several queues. monitor: the
    socket on which QEMU then takes commands (QMP).
    """
    path, env, words = program()
    several = driver == "virtio_net"
    if several:
        ends = (f"tap,id=card,ifname=lab0,queues={QUEUES},script=no,downscript=no",
                "tap,id=peer,ifname=lab1,script=no,downscript=no")
    else:
        ends = ("hubport,id=card,hubid=0", "hubport,id=peer,hubid=0")
    virtio = "ioeventfd=off,tx=timer"  # it sends in the guest's time, not the host's
    card = {"igb": "igb", "vmxnet3": "vmxnet3",
            "virtio_net": f"virtio-net-pci,mq=on,vectors={2 * QUEUES + 2},{virtio}"}[driver]
    plain = "mrg_rxbuf=off,guest_tso4=off,guest_tso6=off,guest_ufo=off,guest_ecn=off"
    return qemu.Machine(
        path, TAPS if several else (), "tcg,thread=single",
        (*words, "-icount", f"shift={INSTRUCTION},sleep=off",
         "-qmp", f"unix:{short(monitor)},server=on,wait=off",
         "-netdev", ends[0], "-netdev", ends[1],
         "-device", f"{card},id=nic,netdev=card,mac={CARD},romfile=",
         "-device", f"virtio-net-pci,netdev=peer,mac={PEER},rx_queue_size=1024,{plain},{virtio},"
         "romfile="), env)
