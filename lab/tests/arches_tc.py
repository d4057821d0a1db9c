# SPDX-License-Identifier: GPL-2.0
"""make arches BOOT=1: tc and a load on the kernels of other architectures, in QEMU.

tc and ip of the series are compiled for each, without libraries. A device of four queues gets
cake_mq; cake, tbf and htb with shared below mq; a load on all four. What the device sends in two
seconds has to be the rate, and what tc then prints has to be what was asked for. QEMU counts
instructions, which are the time in the guest.
"""

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from guest import qemu
from guest.boot import splats
from guest.initramfs import cpio
from host.common import BUILD, ROOT, kernel_env, run
from host.cross import ARCHES
from host.results import keep_row
from host.setup import iproute2_at
from host.table import Table

OUT = BUILD / "arches"
RECORD = "arches.json"
RATE = 20e6  # bit/s
TOLERANCE = 0.01  # of it: the window begins and ends between two packets, each 0.06 % of it
TIMEOUT = 900  # s of the host
INSTRUCTION = 3  # 2^3 ns each: 125 million a second, as on a small router
NEEDED = (  # beside what the KUnit suites need, for this
    "INET", "PACKET", "UNIX", "NETDEVICES", "DUMMY", "BLK_DEV_INITRD", "BINFMT_ELF", "PROC_FS",
    "SYSFS", "PRINTK", "NET_CLS_ACT", "NET_CLS_FW", "NET_ACT_SKBEDIT", "NET_SCH_INGRESS",
    "NET_SCH_FQ_CODEL")
LEAST, QUEUES = 0.02, 4  # of the rate, that a queue sends; of the device


class Machine(NamedTuple):
    """A machine of QEMU, as kunit.py starts it: program, image below the build, console, words.

    needed: options of the kernel, beside NEEDED, for the programs of its architecture.
    """

    qemu: str
    image: str
    console: str
    words: tuple[str, ...]
    needed: tuple[str, ...] = ()


MACHINES = {
    "mips": Machine("mips", "vmlinux", "ttyS0", ("-M", "malta")),
    "arm": Machine("arm", "arch/arm/boot/zImage", "ttyAMA0", ("-M", "virt"), ("VFP",)),
    "arm64": Machine("aarch64", "arch/arm64/boot/Image.gz", "ttyAMA0",
                     ("-M", "virt", "-cpu", "max")),
    "riscv": Machine("riscv64", "arch/riscv/boot/Image", "ttyS0", ("-M", "virt", "-cpu", "rv64")),
    "i386": Machine("i386", "arch/x86/boot/bzImage", "ttyS0", ()),
    "s390": Machine("s390x", "arch/s390/boot/bzImage", "ttyS0",
                    ("-M", "s390-ccw-virtio", "-cpu", "qemu")),
}


class Setup(NamedTuple):
    """lines: for tc, {q} is a queue where a line is for each. kind: of the qdiscs of the queues.
    options: what tc -j prints of each. prios: of the sockets. classes: {minor: what it prints}."""

    lines: tuple[str, ...]
    kind: str
    options: dict
    prios: tuple[int, ...] = (0,) * QUEUES
    classes: dict[str, dict] = {}


CAKE = {"bandwidth": RATE / 8, "diffserv": "diffserv4", "flowmode": "dual-srchost",
        "rtt": 30000, "overhead": 0}
CAKE_WORDS = "bandwidth 20mbit diffserv4 dual-srchost rtt 30ms"
EVERY = "qdisc replace dev d0 parent 1:{q}"
SETUPS = {
    "cake_mq": Setup((f"qdisc replace dev d0 root handle 1: cake_mq {CAKE_WORDS}",), "cake", CAKE),
    "mq + cake shared": Setup(
        ("qdisc replace dev d0 root handle 1: mq", f"{EVERY} cake {CAKE_WORDS} shared 7"), "cake",
        {**CAKE, "shared": 7}),
    "mq + tbf shared": Setup(
        ("qdisc replace dev d0 root handle 1: mq",
         f"{EVERY} tbf rate 20mbit burst 64k limit 1m shared"), "tbf",
        {"rate": RATE / 8, "shared": 1, "burst": 65536}),
    "mq + htb shared": Setup(
        ("qdisc replace dev d0 root handle 1: mq",
         f"{EVERY} handle 1{{q}}: htb default 30 r2q 100 shared",
         "class add dev d0 parent 1{q}: classid 1{q}:1 htb rate 20mbit",
         "class add dev d0 parent 1{q}:1 classid 1{q}:30 htb rate 12mbit ceil 20mbit",
         "class add dev d0 parent 1{q}:1 classid 1{q}:20 htb rate 3mbit ceil 5mbit prio 1"), "htb",
        {"r2q": 100, "default": "0x30", "shared": 1}, (0, 0x10020) * (QUEUES // 2),
        {"1": {"rate": RATE / 8, "ceil": RATE / 8}, "30": {"rate": 1.5e6, "ceil": RATE / 8},
         "20": {"rate": 375e3, "ceil": 625e3, "prio": 1}}),
}


def tools(arch: str) -> list[Path]:
    """tc, ip and the agent for an architecture, compiled if need be: their paths."""
    where, one = OUT / f"{arch}-iproute2", ARCHES[arch]
    env = {**kernel_env(), "CC": one.cc, "PKG_CONFIG": "false"}  # no library of the host's
    iproute2_at("HEAD", where, [f"CC={one.cc}", "LDFLAGS=-static", "SHARED_LIBS=n",
                                "SUBDIRS=lib ip tc"], f"{arch}: building tc", 60, env)
    agent = OUT / f"{arch}-agent"
    run([*one.cc.split(), "-O2", "-Wall", "-static", "-o", agent,
         ROOT / "lab/tests/arches/agent.c"], f"arches-{arch}-agent", env=kernel_env())
    return [where / "tc/tc", where / "ip/ip", agent]


def job(setup: Setup) -> list[str]:
    """The lines of a set-up for the agent: qdiscs, load, what tc prints."""
    lines = [line.format(q=queue) for line in setup.lines
             for queue in (range(1, QUEUES + 1) if "{q}" in line else (0,))]
    if setup.classes:  # all of a queue's classes after its qdisc
        lines.sort(key=lambda line: "class add" in line)
    return [*(f"run /tc {line}" for line in lines),
            f"load - 500 2000 {' '.join(map(str, setup.prios))}",
            "run /tc -j -s qdisc show dev d0", "run /tc -j -s class show dev d0",
            "run /tc qdisc del dev d0 root"]


def commands() -> list[str]:
    """All lines for the agent."""
    first = ["ip link set lo up", f"ip link add d0 numtxqueues {QUEUES} type dummy",
             "ip addr add 10.0.0.1/24 dev d0", "ip link set d0 up", "tc qdisc add dev d0 clsact",
             *(f"tc filter add dev d0 egress prio 1 handle {queue} protocol all fw action skbedit "
               f"queue_mapping {queue - 1}" for queue in range(1, QUEUES + 1))]
    return [*(f"run /{line}" for line in first),
            *(line for setup in SETUPS.values() for line in job(setup))]


def differences(found: dict, wanted: dict) -> list[str]:
    """Sentences about what is not as it should be."""
    return [f"{key} is {found.get(key)}, not {value}" for key, value in wanted.items()
            if found.get(key) != value]


def judged(setup: Setup, load: tuple[int, int], qdiscs: list, classes: list) -> list[str]:
    """What is wrong with a set-up: sentences. load: (ns, bytes)."""
    rate = load[1] * 8e9 / load[0]
    bad = [] if abs(rate / RATE - 1) <= TOLERANCE else [f"{rate / 1e6:.3f} Mbit/s"]
    queues = [one for one in qdiscs if one["kind"] == setup.kind and "parent" in one]
    if len(queues) != QUEUES:
        bad.append(f"{len(queues)} {setup.kind}")
    all_ = sum(one["bytes"] for one in queues)
    for one in queues:
        wanted = setup.options if setup.kind == "htb" else {
            **setup.options, "group_rate": RATE / 8}
        bad += [f"{one['kind']} below {one['parent']}: {text}"
                for text in differences({**one["options"], **one}, wanted)]
        if one["bytes"] < LEAST * all_:
            bad.append(f"{one['kind']} below {one['parent']} sent {one['bytes']} of {all_} bytes")
    for minor, wanted in setup.classes.items():
        same = [one for one in classes if one["handle"].endswith(f":{minor}")
                and one["class"] == "htb"]
        if len(same) != QUEUES:
            bad.append(f"{len(same)} classes {minor}")
        bad += [f"class {one['handle']}: {text}" for one in same
                for text in differences(one, wanted)]
    return bad


def tried(arch: str) -> tuple[int, list[str], dict[str, float]]:
    """Boot the kernel that arches.booted() has built, with a load: (set-ups that passed,
    sentences, {set-up: Mbit/s})."""
    tc, ip, agent = tools(arch)
    machine = MACHINES[arch]
    initrd = OUT / f"{arch}-initramfs"
    initrd.write_bytes(cpio({
        "init": (0o100755, agent.read_bytes()), "tc": (0o100755, tc.read_bytes()),
        "ip": (0o100755, ip.read_bytes()),
        "job": (0o100644, "".join(f"{line}\n" for line in commands()).encode())}))
    words = qemu.command(
        BUILD / f"kunit-{arch}" / machine.image,
        (f"console={machine.console} rdinit=/init kunit.enable=0 panic=-1 loglevel=2",),
        *machine.words, "-icount", f"shift={INSTRUCTION}", *qemu.RTC, "-initrd", initrd, cpu="",
        program=f"qemu-system-{machine.qemu}")
    text, _ = qemu.watch(words, OUT / f"{arch}-tc.log", TIMEOUT)
    return read(arch, text)


def read(arch: str, text: str) -> tuple[int, list[str], dict[str, float]]:
    """tried(), from what the guest printed."""
    bad = [f"{arch}: {line}" for line in splats(text)]
    if not re.search(r"^END$", text, re.M):
        bad.append(f"{arch}: the guest did not come to its end: see {OUT / f'{arch}-tc.log'}")
    if codes := [code for code in re.findall(r"^RC (-?\d+)$", text, re.M) if code != "0"]:
        bad.append(f"{arch}: {len(codes)} commands failed: see {OUT / f'{arch}-tc.log'}")
    parts = re.findall(r"^LOAD - (\d+) (\d+)\n(\[.*\])\s*^RC 0\s*^(\[.*\])\s*^RC 0$", text, re.M)
    if len(parts) != len(SETUPS):
        return 0, [*bad, f"{arch}: {len(parts)} of {len(SETUPS)} set-ups came to an end"], {}
    passed, rates = 0, {}
    for (name, setup), (ns, sent, qdiscs, classes) in zip(SETUPS.items(), parts, strict=True):
        load = int(ns), int(sent)
        rates[name] = load[1] * 8e3 / load[0]
        wrong = judged(setup, load, json.loads(qdiscs), json.loads(classes))
        print(f"{arch:<8}{name:<20}{rates[name]:8.3f} Mbit/s of {RATE / 1e6:.0f}"
              + "".join(f"; {one}" for one in wrong))
        bad += [f"{arch}, {name}: {one}" for one in wrong]
        passed += not wrong
    return passed, bad, rates


def store(row: dict) -> None:
    """Replace the row of an architecture in arches.json."""
    keep_row(RECORD, "kernels of other architectures: KUnit cases that pass; Mbit/s that a device "
             f"of {QUEUES} queues sends, of {RATE / 1e6:.0f}", row, ("arch",),
             [(arch,) for arch in ARCHES])


def table(rows: Sequence[dict]) -> list[str]:
    """Lines: architectures, and what was found."""
    return Table(
        ("", "arch", "", -10), ("KUnit cases", "cases", "", 12),
        *((name, name, ".3f", 20) for name in SETUPS)).lines(rows)
