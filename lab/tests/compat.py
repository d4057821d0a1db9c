# SPDX-License-Identifier: GPL-2.0
"""make compat: an unpatched tc and old commands, base and patched kernel side by side.

Whoever does not use what the series adds must not see it. The tc of iproute2's base
runs a table of commands that it knows, with a little traffic between them, and after
each one this keeps its exit code and output, what tc shows of qdiscs and classes, as
text and as JSON, and the kernel's own bytes of each configuration. The patched kernel
must give all of that byte for byte as the unpatched one, but that a refusal which gave no
reason may give one; what the unpatched one gave is kept in results/compat-base.json, and
BASE=1 measures it again.
"""

import difflib
import hashlib
import re
import socket
import struct
import subprocess
import time
from collections.abc import Iterator, Sequence

from guest.boot import boot_script
from host.common import BUILD, ROOT, Die, say, sections
from host.results import keep_result, recorded, verdict
from host.setup import iproute2_at
from series.kernel import STOCK_SPLAT, build
from traffic.traffic import pktgen

RECORD = "compat-base.json"
TC = BUILD / "iproute2-base"
DIFF_LINES = 40  # of one command, and
DIFFS = 5  # of so many commands, are printed

# What tc shows of a flow in cake and depends on seeds that nothing pins: its number,
# which is a hash, and its deficit, which is dithered. Also times that count from the
# moment of the dump, which is no more exact than the departure of the last packet.
RANDOM = re.compile(r'(?<=class cake )[0-9a-f]*:[0-9a-f]+'
                    r'|(?<="class": "cake",\n        "handle": ")[0-9a-f]*:[0-9a-f]+'
                    r'|(?<=deficit )-?[0-9]+|(?<="deficit": )-?[0-9]+'
                    r'|(?<=drop_next )\S+|(?<="drop_next": )-?[0-9]+'
                    r'|(?<=blue_timer )\S+|(?<="blue_timer": )-?[0-9]+')

TABLE = ROOT / "lab/tests/compat.txt"


def table() -> list[tuple[str, int, list[str]]]:
    """(what, TX queues of the device, commands) of each part of the table."""
    heads = ((head.partition(" "), lines) for head, lines in sections(TABLE))
    return [(what, int(queues), [line.strip() for line in lines])
            for (queues, _, what), lines in heads]


# ------------------------------------------------------------ in the guest

def call(*argv: str, text: str | None = None) -> str:
    """Run a program with text as its input; exit code, stderr and stdout as text."""
    done = subprocess.run(argv, input=text, capture_output=True, text=True, check=False)
    return f"exit {done.returncode}\n{done.stderr}{done.stdout}"


def send(queues: int, count: str, size: str) -> None:
    """Let pktgen send to each TX queue but the last, which it cannot reach."""
    pktgen("kpktgend_0", "rem_device_all")
    for q in range(queues - 1):
        pktgen("kpktgend_0", f"add_device d0@{q}")
        for line in (
            f"count {count}", f"pkt_size {size}", "xmit_mode queue_xmit",
            "delay 1000000", "dst 10.0.0.1", "src_min 10.1.0.1",
            "dst_mac 02:00:00:00:00:01", f"queue_map_min {q + 1}", f"queue_map_max {q + 1}",
        ):
            pktgen(f"d0@{q}", line)
    pktgen("pgctrl", "start")
    pktgen("kpktgend_0", "rem_device_all")
    time.sleep(1)


def attributes(data: bytes) -> Iterator[tuple[int, bytes]]:
    """(type, payload) of the netlink attributes in data."""
    while len(data) >= 4:
        length, kind = struct.unpack_from("=HH", data)
        yield kind, data[4:length]
        data = data[(length + 3) & ~3:]


def raw() -> str:
    """The qdiscs of the device as the kernel dumps them, without statistics: hashes.

    tc hides what it does not know; here a new attribute would show.
    """
    index = socket.if_nametoindex("d0")
    lines = []
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE) as sock:
        dump = struct.pack("=BxxxiIII", 0, index, 0, 0, 0)
        sock.send(struct.pack("=IHHII", 16 + len(dump), 38, 0x301, 1, 0) + dump)
        while True:
            data = sock.recv(1 << 20)
            while data:
                length, kind = struct.unpack_from("=IH", data)
                if kind == 3:  # NLMSG_DONE
                    return "\n".join(lines) + "\n"
                _, where, handle, parent, info = struct.unpack_from("=BxxxiIII", data, 16)
                if where == index:
                    got = [(k, p) for k, p in attributes(data[36:length]) if k not in (3, 4, 7)]
                    lines.append(f"{dict(got)[1].rstrip(bytes(1)).decode()} {handle:x} {parent:x} "
                                 f"{info} {hashlib.sha256(repr(got).encode()).hexdigest()[:16]}")
                data = data[(length + 3) & ~3:]


def views(tc: str) -> str:
    """What there is to see of the device."""
    show = "qdisc show dev d0\nclass show dev d0\n"
    text = ""
    for form in ("-s -d", "-s -d -j -p"):
        text += f"-- tc {form}\n{call(tc, *form.split(), '-batch', '-', text=show)}"
    return f"{RANDOM.sub('RANDOM', text)}-- raw qdisc dump\n{raw()}"


def run_table(spec: dict) -> Iterator[tuple[str, str]]:
    """Run the table with the tc that spec names; yield (command, what there was to see)."""
    tc = spec["tc"]
    call("sysctl", "net.core.default_qdisc=pfifo_fast")
    time.sleep(0.05)  # let timers become of high resolution
    for section, queues, commands in table():
        subprocess.run(["ip", "link", "add", "d0", "numtxqueues", str(queues),
                        "type", "dummy"], check=True)
        subprocess.run(["ip", "link", "set", "d0", "up"], check=True)
        with subprocess.Popen([tc, "monitor"], stdout=subprocess.PIPE, text=True) as monitor:
            time.sleep(0.01)
            for number, command in enumerate(commands, 1):
                word, *rest = command.replace("$D", "dev d0").split()
                said = ""
                if word == "send":
                    send(queues, *rest)
                elif word.startswith("!"):
                    said = call(word[1:], *rest)
                else:
                    said = call(tc, word, *rest)
                yield f"{section}, {number}: {command}", said + views(tc)
            time.sleep(0.01)
            monitor.terminate()
            yield f"{section}: tc monitor", monitor.stdout.read()
        subprocess.run(["ip", "link", "delete", "d0"], check=True)


# ------------------------------------------------------------- on the host

def unpatched_tc() -> None:
    """Build the tc of iproute2's base, once."""
    iproute2_at("base", TC, ["SUBDIRS=lib tc"], "building the unpatched tc", 15)


def measure(kernel: str, name: str, allowed: Sequence[str] = ()) -> dict[str, str]:
    """Boot a kernel and run the table; {command: what there was to see}."""
    rows, _ = boot_script(kernel, name, "tests.compat:run_table", {"tc": str(TC / "tc" / "tc")},
                          allowed=allowed, virtual=True, timeout=400)
    return dict(rows)


def pack(seen: dict[str, str]) -> dict:
    """What is recorded: most lines come again and again, so each is kept once.

    A command has the numbers of its lines as a string, "12-40 7": 12 to 40, then 7.
    """
    lines, commands = {}, {}
    for command, text in seen.items():
        runs = []
        for number in (lines.setdefault(line, len(lines)) for line in text.split("\n")):
            if runs and runs[-1][1] + 1 == number:
                runs[-1][1] = number
            else:
                runs.append([number, number])
        commands[command] = " ".join(f"{a}" if a == b else f"{a}-{b}" for a, b in runs)
    return {"what": "what the unpatched tc shows on the unpatched kernel",
            "commands": commands, "lines": list(lines)}


def unpack(record: dict) -> dict[str, str]:
    """The reverse of pack()."""
    seen = {}
    for command, runs in record["commands"].items():
        ends = [part.split("-") for part in runs.split()]
        seen[command] = "\n".join(line for end in ends for line in
                                  record["lines"][int(end[0]):int(end[-1]) + 1])
    return seen


def diff(command: str, want: str, got: str) -> str:
    """A unified diff, cut short."""
    lines = list(difflib.unified_diff(want.split("\n"), got.split("\n"), "base", "patched",
                                      lineterm="", n=2))
    more = len(lines) - DIFF_LINES
    return "\n".join([command, *lines[:DIFF_LINES],
                      *([f"[{more} more lines]"] if more > 0 else [])])


EMPTY = (  # what tc shows of the one bulk flow of a cake that has run empty, and without it
    (r"(?m)^class cake RANDOM parent 8001: \n.*requeues 0\) \n backlog 0b 0p.*\n +deficit.*\n", ""),
    (r'\[ \{\s+"class": "cake",[^]]*"qlen": 0,[^]]*\} \]', "[ ]"),
    (r"(?m)(^  bk_flows(?: +0)*? +)1\b", r"\g<1>0"),
    (r'"bulk_flows": 1,', '"bulk_flows": 0,'),
)


def same(base: str, got: str) -> bool:
    """Is what a command gave the same, but for a reason where there was none, and an empty flow
    of cake, which a change of the flow mode takes off its list at once?
    """
    bare = "RTNETLINK answers: Operation not supported"
    less = base
    for what, without in EMPTY:
        less = re.sub(what, without, less, count=1)
    return got in (base, less) or (
        bare in base and re.sub(r"(?m)^Error: .+$", bare, got, count=1) == base)


def main(base: bool = False) -> None:
    """Measure what is missing, compare, fail on a difference.

    base: measure the unpatched kernel again.
    """
    unpatched_tc()
    if base or not recorded(RECORD):
        build("base")
        say("old commands on the unpatched kernel (about 30 s)")
        stock = measure("um-base", "compat-base", STOCK_SPLAT)
        keep_result(RECORD, pack(stock))
    else:
        stock = unpack(recorded(RECORD))

    say("old commands on the patched kernel (about 30 s)")
    got = measure("um", "compat")
    if list(got) != list(stock):
        raise Die("the table of lab/tests/compat.txt is not the one that results/compat-base.json "
                  "was measured with: run 'make compat BASE=1'")
    bad = [command for command in got if not same(stock[command], got[command])]
    for command in bad[:DIFFS]:
        print(diff(command, stock[command], got[command]))
    verdict(len(got) - len(bad), bad)
