# SPDX-License-Identifier: GPL-2.0
"""The guest's side of make drivers: what happens to a card under load, and what it then sends.

The load has a socket for each queue, whose mark says which: all that reaches the card is put
on that queue, whatever is on top of the card. The peer is in a network namespace of its own;
what its card has received counts.
"""

import contextlib
import ctypes
import glob
import itertools
import mmap
import os
import re
import signal
import socket
import struct
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from guest.boot import splats
from guest.cards import CARD, CPUS, PEER, QUEUES
from host.common import BUILD, told
from traffic.traffic import command

MODULES = ("sch_rate_group", "sch_rate_group_qdisc", "sch_rate_tree", "sch_cake", "sch_tbf",
           "sch_htb", "sch_mqprio")
LIBC = ctypes.CDLL(None, use_errno=True)
CLONE_NEWNET = 0x40000000
SO_MARK = 36
PORT, DATAGRAM = 5201, b"x" * 1400
TICK = 1e-3  # s between two looks at a socket
MOST = 10  # datagrams at once, in 4 ticks: 28 Mbit/s, also if a socket takes all, as without a link
QUEUED = 40_000  # bytes of memory of a socket: some packets, so that a queue never runs dry
SETTLED, WINDOW = 0.5, 1.0  # s before a reading, and between two
# with TCP: each limit may be off by a packet of 64 KB; of two limits, that is 0.5 % of 20 Mbit/s
STREAM_WINDOW = 10.0
BEGUN = 100_000  # bytes, of which some may be ARP
PATIENCE = 60  # s for what takes its time
OPEN = re.compile(r"TX queue \d+ is not limited")
# of igb: where the register is that lets TX queue n work, and the bit of it that does
TXDCTL, STRIDE, ENABLE = 0xE028, 0x40, 1 << 25
EMPTY = "qdisc replace dev card root handle 9: mq"  # with the default qdisc on each queue
ADDRESSES = {"card": "10.9.0", "card.5": "10.9.5", "bond9": "10.9.6", "br0": "10.9.7"}


class Missing(Exception):
    """A driver cannot do what was asked."""


def wait(what: Callable[[], bool], name: str) -> None:
    """Wait until something holds; RuntimeError with its name if it takes longer than PATIENCE."""
    until = time.monotonic() + PATIENCE
    while not what():
        if time.monotonic() > until:
            raise RuntimeError(f"{name}: not within {PATIENCE} s")
        time.sleep(0.05)


def named(mac: str) -> str | None:
    """The network device with a MAC address that has a driver of its own."""
    for path in glob.glob("/sys/class/net/*/device"):
        device = Path(path).parent
        if (device / "address").read_text().strip() == mac:
            return device.name
    return None


def endless(work: Callable[[], None]) -> int:
    """Do something over and over in a process of its own; its number."""
    if pid := os.fork():
        return pid
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    with contextlib.suppress(BaseException):
        work()
    os._exit(0)


# --------------------------------------------------------------------- load

def marked(kind: int, mark: int, priority: int) -> socket.socket:
    """A socket that does not wait, whose packets have a mark and a priority."""
    sock = socket.socket(socket.AF_INET, kind)
    sock.setsockopt(socket.SOL_SOCKET, SO_MARK, mark)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_PRIORITY, priority)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, QUEUED)
    return sock


def flood(address: str, priorities: tuple[int, ...]) -> None:
    """UDP to an address, for all queues, as much as they take."""
    socks = [marked(socket.SOCK_DGRAM, mark, priority) for mark, priority in
             zip(range(1, QUEUES + 1), itertools.cycle(priorities))]
    while True:
        for sock in socks:
            with contextlib.suppress(OSError):
                for _ in range(MOST):
                    sock.sendto(DATAGRAM, socket.MSG_DONTWAIT, (address, PORT))
        time.sleep(4 * TICK)


def stream(address: str, priorities: tuple[int, ...]) -> None:
    """TCP to an address: a connection for each queue."""
    socks = [marked(socket.SOCK_STREAM, mark, priority) for mark, priority in
             zip(range(1, QUEUES + 1), itertools.cycle(priorities))]
    for sock in socks:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4 * QUEUED)
        # so that it is over when the process ends
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        sock.connect((address, PORT))
    while True:
        for sock in socks:
            with contextlib.suppress(OSError):
                sock.send(DATAGRAM * 40, socket.MSG_DONTWAIT)
        time.sleep(TICK)


def sink() -> None:
    """The peer: takes what comes by TCP, and leaves in a socket what comes by UDP."""
    space = os.open("/run/netns/peer", os.O_RDONLY)
    if LIBC.setns(space, CLONE_NEWNET):
        raise OSError(ctypes.get_errno(), "setns")
    udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    udp.bind(("", PORT))
    listener = socket.create_server(("", PORT), backlog=64)
    listener.setblocking(False)
    open_ = []
    while True:
        with contextlib.suppress(OSError):
            open_.append(listener.accept()[0])
        for sock in open_:
            with contextlib.suppress(OSError):
                sock.recv(1 << 20, socket.MSG_DONTWAIT)
        time.sleep(2 * TICK)


# ---------------------------------------------------------------------- bed

class Log:
    """The kernel log, read on from where the last look ended."""

    def __init__(self) -> None:
        self.file = os.open("/dev/kmsg", os.O_RDONLY | os.O_NONBLOCK)
        self.said, self.bad = [], []  # lines since the last look()

    def read(self) -> list[str]:
        """New lines, which are kept by kind as well."""
        lines = []
        while True:
            try:
                line = os.read(self.file, 8192).decode(errors="replace").partition(";")[2]
            except BlockingIOError:
                break
            except BrokenPipeError:  # lines were overwritten: go on with the oldest
                continue
            lines.append(line.split("\n")[0])
        self.said += [line for line in lines if OPEN.search(line)]
        self.bad += splats("\n".join(lines))
        return lines

    def look(self) -> dict[str, list[str]]:
        """{"said": warnings about queues, "bad": splats} since the last time."""
        self.read()
        found = {"said": self.said, "bad": self.bad}
        self.said, self.bad = [], []
        return found


class Bed:
    """A card, its peer, a set-up of qdiscs and a load.

    setup: of the spec: {"script": for sh, $dev is the card; "modules": used; "changes": lines for
    tc; "priorities": of sockets}.
    """

    def __init__(self, driver: str, setup: dict) -> None:
        self.driver, self.setup = driver, setup
        self.lines, self.sender, self.how = [], 0, flood
        self.log = Log()
        self.virtual = driver == "veth"
        command("ip", "netns", "add", "peer")
        if self.virtual:
            ends = ["numtxqueues", str(QUEUES), "numrxqueues", str(QUEUES)]
            command("ip", "link", "add", "card", *ends, "address", CARD, "type", "veth", "peer",
                    "name", "peer0", "netns", "peer", *ends)
        else:
            if bad := [name for name in MODULES if not self.module(name, load=True)]:
                raise RuntimeError(f"not loaded: {bad}")
            command("ip", "link", "set", named(PEER), "netns", "peer", "name", "peer0")
        for number in (0, 6, 7):
            command("ip", "-n", "peer", "addr", "add", f"10.9.{number}.2/24", "dev", "peer0")
        command("ip", "-n", "peer", "link", "set", "peer0", "up")
        if not self.virtual:
            command("ip", "-n", "peer", "link", "add", "link", "peer0", "name", "peer0.5", "type",
                    "vlan", "id", "5")
            command("ip", "-n", "peer", "addr", "add", "10.9.5.2/24", "dev", "peer0.5")
            command("ip", "-n", "peer", "link", "set", "peer0.5", "up")
        self.sink = endless(sink)

    # -- the parts

    def module(self, name: str, load: bool) -> bool:
        """Whether a module of the series was loaded or unloaded."""
        file = BUILD / f"x86-drivers/net/sched/{name}.ko"
        words = ("insmod", str(file)) if load else ("rmmod", name)
        return file.exists() and not told(*words).returncode

    def tc(self, *lines: str) -> None:
        """Carry out lines of tc; RuntimeError if one is refused."""
        command("tc", "-batch", "-", text="\n".join(lines))

    def queues(self) -> int:
        """In use."""
        return sum(map(os.path.isdir, glob.glob("/sys/class/net/card/queues/tx-*")))

    def up(self) -> None:
        """The card as it is after a boot, up, with an address, and each mark to its queue."""
        if name := named(CARD):
            command("ip", "link", "set", name, "down")
            if name != "card":
                command("ip", "link", "set", name, "name", "card")
        self.address("card")
        self.linked(True)
        if self.virtual:
            self.use(CPUS)
        self.tc("qdisc replace dev card clsact",
                *(f"filter replace dev card egress prio 1 handle {mark} protocol all fw action "
                  f"skbedit queue_mapping {mark - 1}" for mark in range(1, QUEUES + 1)))

    def use(self, number: int) -> None:
        """Have the card use so many queues."""
        command("ethtool", "-L", "card", "tx" if self.virtual else "combined", str(number))

    def address(self, dev: str) -> None:
        """A device up, with its address."""
        command("ip", "addr", "replace", f"{ADDRESSES[dev]}.1/24", "dev", dev)
        command("ip", "link", "set", dev, "up")

    def shape(self) -> None:
        """Put the qdiscs of the set-up on the card, as the guide says; note their lines."""
        self.tc(EMPTY)
        command("sh", "-ec", self.setup["script"])
        if not self.lines:
            shown = 'tc() { case "$2" in show) command tc "$@";; *) echo "$*";; esac; }\n'
            self.lines = command("sh", "-ec", shown + self.setup["script"]).splitlines()

    def send(self, dev: str | None, how: Callable = flood) -> None:
        """Load through a device, in place of what there was; None: none."""
        if self.sender:
            os.kill(self.sender, signal.SIGKILL)
            os.waitpid(self.sender, 0)
            self.sender = 0
        if dev:
            self.how = how
            address = f"{ADDRESSES[dev]}.2"
            self.sender = endless(lambda: how(address, tuple(self.setup["priorities"])))

    def received(self) -> tuple[float, int]:
        """(s, bytes): what the peer's card has got until when."""
        begin = time.monotonic()
        text = Path(f"/proc/{self.sink}/net/dev").read_text()
        end = time.monotonic()
        return (begin + end) / 2, int(re.search(r"peer0: *(\d+)", text)[1])

    def linked(self, wanted: bool) -> None:
        """Wait until the kernel starts the qdiscs, as the card has a link, or stops them.

        It does so up to a second after the card has told it, and then sets the state.
        """
        file = Path("/sys/class/net/card/operstate")
        wait(lambda: (file.read_text() == "up\n") == wanted, "link")

    def rate(self) -> float:
        """Mbit/s that arrive, once something does: ARP and the peer's link take their time."""
        self.linked(True)
        before = self.received()[1]
        wait(lambda: self.received()[1] > before + BEGUN, "load")
        time.sleep(SETTLED)
        t0, bytes0 = self.received()
        time.sleep(STREAM_WINDOW if self.how is stream else WINDOW)
        t1, bytes1 = self.received()
        return 8e-6 * (bytes1 - bytes0) / (t1 - t0)

    # -- what happens; each is one event, or several: yields what to call them

    def quiet(self) -> Iterator[str]:
        """Nothing."""
        yield "nothing"

    def channels(self) -> Iterator[str]:
        """Fewer queues, one, and all that the card can have; as many as CPUs again."""
        self.able("vmxnet3", "sets no number of queues")
        usual = self.queues()
        for number in (2, 1, QUEUES, usual):
            self.use(number)
            yield f"ethtool -L, queues: {number}"

    def rings(self) -> Iterator[str]:
        """Shorter rings, and longer ones."""
        self.able("veth", "has no rings")
        for number in (128, 256):
            command("ethtool", "-G", "card", "tx", str(number), "rx", str(number))
            yield f"ethtool -G tx {number}"

    def sizes(self) -> Iterator[str]:
        """Another MTU: datagrams are fragmented."""
        for number in (1000, 1500):
            command("ip", "link", "set", "card", "mtu", str(number))
            yield f"mtu {number}"

    def segments(self) -> Iterator[str]:
        """TCP with and without segmentation by the card."""
        self.able("veth", "segments nothing")
        self.send("card", stream)
        for state in ("off", "on"):
            command("ethtool", "-K", "card", "tso", state)
            yield f"TCP, tso {state}"
        self.send("card")

    def selftest(self) -> Iterator[str]:
        """The card's own test, which takes it down."""
        if self.driver != "igb":
            raise Missing("has no offline test")
        done = told("ethtool", "-t", "card", "offline")
        if "result" not in done.stdout:
            raise RuntimeError(done.stderr)
        yield "ethtool -t offline"

    def down(self) -> Iterator[str]:
        """Down and up."""
        command("ip", "link", "set", "card", "down")
        time.sleep(0.2)
        self.address("card")
        yield "down and up"

    def carrier(self) -> Iterator[dict | str]:
        """The cable is taken out and put in again."""
        for up in (False, True):
            if self.virtual:
                command("ip", "-n", "peer", "link", "set", "peer0", "up" if up else "down")
            else:
                yield {"link": up}
            self.linked(up)
            time.sleep(0.2)
        yield "carrier lost and back"

    def replaced(self) -> Iterator[str]:
        """All qdiscs are replaced, 20 times."""
        for _ in range(20):
            self.tc(EMPTY, *self.lines)
        yield "20 replacements"

    def changed(self) -> Iterator[str]:
        """50 changes; the last ones bring back what there was."""
        self.tc(*self.setup["changes"])
        yield "50 changes"

    def vlan(self) -> Iterator[str]:
        """Load through a VLAN on the card."""
        self.able("veth", "is run without VLAN")
        command("ip", "link", "add", "link", "card", "name", "card.5", "type", "vlan", "id", "5")
        self.address("card.5")
        self.send("card.5")
        yield "VLAN"
        self.send("card")
        command("ip", "link", "del", "card.5")

    def master(self, dev: str, title: str, *kind: str) -> Iterator[str]:
        """Load through a device that the card becomes a port of."""
        self.able("veth", f"is run without {dev}")
        command("ip", "link", "add", dev, "type", *kind)
        command("ip", "link", "set", "card", "down")
        command("ip", "link", "set", "card", "master", dev)
        command("ip", "link", "set", "card", "up")
        self.address(dev)
        self.send(dev)
        yield title
        command("ip", "link", "set", "card", "nomaster")
        command("ip", "link", "del", dev)
        self.address("card")
        self.send("card")

    def bond(self) -> Iterator[str]:
        """The card in a bond."""
        return self.master("bond9", "bond", "bond", "mode", "active-backup", "miimon", "100")

    def bridge(self) -> Iterator[str]:
        """The card in a bridge."""
        return self.master("br0", "bridge", "bridge")

    def stuck(self) -> Iterator[str]:
        """TX queue 1 of the card stands still: the driver finds out, and resets the card."""
        if self.driver != "igb":
            raise Missing("the test cannot stop its queues")
        self.log.read()
        device = os.path.realpath("/sys/class/net/card/device")
        with open(f"{device}/resource0", "r+b") as file:
            memory = mmap.mmap(file.fileno(), 0x20000)
            register = ctypes.c_uint32.from_buffer(memory, TXDCTL + STRIDE)
            register.value = register.value & ~ENABLE
            del register
            memory.close()
        lines = []

        def reset() -> bool:
            lines.extend(self.log.read())
            return any("Reset adapter" in line for line in lines)

        wait(reset, "a reset")
        yield "transmit time-out and reset"

    def rebound(self) -> Iterator[str]:
        """The driver lets go of the card and takes it again: all is set up anew."""
        self.able("veth", "is built in")
        device = Path(os.path.realpath("/sys/class/net/card/device"))
        driver = Path(os.path.realpath(device / "driver"))
        (driver / "unbind").write_text(device.name)
        wait(lambda: named(CARD) is None, "unbind")
        (driver / "bind").write_text(device.name)
        wait(lambda: named(CARD) is not None, "bind")
        self.up()
        self.shape()
        yield "driver unbound and bound"

    def unloaded(self) -> Iterator[str]:
        """The modules are not unloaded while in use; then they are, and loaded again."""
        self.able("veth", "is built in")
        used = self.setup["modules"]
        if gone := [name for name in used if self.module(name, load=False)]:
            raise RuntimeError(f"unloaded while in use: {gone}")
        self.tc("qdisc del dev card root")
        if kept := [name for name in reversed(used) if not self.module(name, load=False)]:
            raise RuntimeError(f"not unloaded: {kept}")
        for name in used:
            self.module(name, load=True)
        self.shape()
        yield "modules unloaded and loaded"

    def opened(self) -> Iterator[str]:
        """Queues come into use that have no member: the kernel says so, once."""
        if not self.setup["below"]:
            raise Missing("has a member on each queue by itself")
        self.able("vmxnet3", "sets no number of queues")
        usual = self.queues()
        unused = "|".join(f"1:{number:x} |1{number:x}:" for number in range(usual + 1, QUEUES + 1))
        self.tc(EMPTY, *(line for line in self.lines if not re.search(f"parent ({unused})", line)))
        self.use(QUEUES)
        yield "queues without a member"
        self.use(usual)
        self.use(QUEUES)
        yield "and again"
        self.shape()
        yield "members added"
        self.use(usual)

    def able(self, driver: str, why: str) -> None:
        """Missing for a driver."""
        if self.driver == driver:
            raise Missing(why)


EVENTS = ("quiet", "channels", "rings", "sizes", "segments", "selftest", "down", "carrier",
          "replaced", "changed", "vlan", "bond", "bridge", "stuck", "opened", "rebound",
          "unloaded")
MQPRIO_EVENTS = tuple(name for name in EVENTS if name not in ("channels", "opened"))


def run(spec: dict) -> Iterator[dict]:
    """Rows {"setup", "event", "mbit" or None, "said", "bad", "error"?, "missing"?}, and
    {"link": whether the cable is to be in}, which the host sees to.

    spec: driver, setups {name: as for Bed, and "events"}.
    """
    bed = None
    for name, setup in spec["setups"].items():
        if bed:
            bed.setup, bed.lines = setup, []
        else:
            bed = Bed(spec["driver"], setup)
        bed.up()
        bed.shape()
        bed.send("card")
        for event in setup["events"]:
            row = {"setup": name, "event": event}
            try:
                for what in getattr(bed, event)():
                    if isinstance(what, dict):
                        yield what
                        continue
                    row = {"setup": name, "event": what}
                    yield {**row, "mbit": bed.rate(), **bed.log.look()}
            except Missing as why:
                yield {**row, "mbit": None, "missing": str(why), **bed.log.look()}
            except (RuntimeError, OSError) as why:
                yield {**row, "mbit": None, "error": str(why), **bed.log.look()}
                break
        bed.send(None)
        bed.tc("qdisc del dev card root")
    os.kill(bed.sink, signal.SIGKILL)
