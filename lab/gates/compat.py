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
import json
import re
import shutil
import socket
import struct
import subprocess
import time
from collections.abc import Iterator, Sequence

from guest.boot import boot_script
from load.traffic import pktgen
from tree.common import BUILD, IPROUTE2, JOBS, RESULTS, Die, command_line, keep_result, run, say
from tree.kernel import STOCK_SPLAT, build

RECORD = RESULTS / "compat-base.json"
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

MQ2 = "num_tc 2 map 0 0 0 0 1 1 1 1 queues 2@0 2@2 hw 0"
TBF = "tbf rate 10mbit burst 16kb"
PEAK = "tbf rate 1mbit burst 5kb peakrate 2mbit minburst 1540"

# (what, TX queues of the device, commands). A command is what follows `tc`, with
# $D for `dev d0`; or another program after a !; or `send N SIZE`: N packets of SIZE
# bytes, all of one flow, for each TX queue but the last, and a second for them to go.
TABLE = (
    ("cake at the root", 2, """
        qdisc add $D root cake
        qdisc change $D root cake bandwidth 100mbit
        send 20 1000
        qdisc change $D root cake diffserv4 dual-srchost nat wash
        qdisc change $D root cake besteffort flows nonat nowash ack-filter no-split-gso
        qdisc change $D root cake diffserv8 dual-dsthost ack-filter-aggressive split-gso
        qdisc change $D root cake precedence hosts no-ack-filter memlimit 4mb
        qdisc change $D root cake diffserv3 flowblind fwmark 0xff
        qdisc change $D root cake overhead 38 mpu 84 atm
        qdisc change $D root cake pppoe-ptm ether-vlan
        qdisc change $D root cake conservative srchost
        qdisc change $D root cake raw dsthost ingress
        qdisc change $D root cake autorate-ingress triple-isolate
        qdisc change $D root cake bandwidth 20gbit egress rtt 20ms
        send 20 1000
        qdisc change $D root cake lan
        qdisc change $D root cake unlimited internet
        qdisc add $D root cake
        qdisc add $D root handle 5: cake bandwidth 1gbit
        qdisc replace $D root handle 5: cake bandwidth 1gbit besteffort ethernet
        qdisc replace $D root handle 6: cake bandwidth 1gbit docsis
        qdisc change $D root cake bandwidth nonsense
        qdisc change $D root cake overhead 300
        qdisc change $D root fq_codel
        qdisc delete $D root handle 7:
        qdisc delete $D root
        qdisc delete $D root
        qdisc add $D root stab overhead 24 linklayer ethernet cake bandwidth 10mbit
        send 20 1000
        qdisc add $D parent 8005:1 fq_codel"""),
    ("cake below mq", 3, """
        qdisc add $D root handle 1: mq
        qdisc add $D parent 1:1 cake bandwidth 100mbit
        qdisc add $D parent 1:2 handle 20: cake bandwidth 50mbit besteffort
        qdisc add $D parent 1:3 cake unlimited
        send 30 1000
        qdisc change $D parent 1:1 cake bandwidth 10mbit diffserv4
        send 30 1000
        qdisc change $D parent 1:1 cake autorate-ingress
        qdisc replace $D parent 1:2 handle 21: fq_codel
        qdisc replace $D parent 1:2 cake diffserv8 bandwidth 1gbit
        qdisc replace $D parent 1:2 cake diffserv3
        qdisc add $D parent 1:4 cake
        qdisc add $D parent 1:1 cake
        !ip link set d0 down
        !ip link set d0 up
        qdisc delete $D parent 1:1
        qdisc delete $D parent 1:1
        qdisc replace $D root handle 1: mq
        qdisc replace $D root handle 2: mq
        qdisc replace $D parent 2:1 cake bandwidth 1gbit
        qdisc replace $D root cake bandwidth 1gbit
        qdisc delete $D root"""),
    ("cake below mqprio", 4, f"""
        qdisc add $D root handle 1: mqprio {MQ2}
        qdisc add $D parent 1:1 cake bandwidth 100mbit
        qdisc add $D parent 1:3 handle 30: cake bandwidth 10mbit besteffort
        qdisc add $D parent 1:4 {TBF} latency 50ms
        send 30 1000
        qdisc change $D parent 1:1 cake bandwidth 1gbit rtt 10ms
        qdisc replace $D parent 1:2 fq_codel
        qdisc add $D parent 1:5 cake
        qdisc add $D parent 1:ffe0 cake
        qdisc change $D root mqprio {MQ2}
        qdisc delete $D parent 1:3
        !ip link set d0 down
        !ip link set d0 up
        qdisc delete $D root
        qdisc add $D root handle 1: mqprio num_tc 2 queues 3@0 2@2 hw 0"""),
    ("cake_mq", 3, """
        qdisc add $D root handle 1: cake_mq bandwidth 1gbit
        qdisc change $D root cake_mq bandwidth 500mbit diffserv4 rtt 50ms
        qdisc change $D root cake_mq besteffort nat overhead 20 mpu 64
        qdisc change $D root cake_mq autorate-ingress
        qdisc change $D parent 1:1 cake bandwidth 1mbit
        qdisc replace $D parent 1:1 fq_codel
        qdisc add $D parent 1:2 cake
        qdisc delete $D parent 1:1
        qdisc change $D root cake_mq unlimited
        send 20 1000
        qdisc replace $D root handle 1: cake_mq bandwidth 2gbit diffserv3
        qdisc replace $D root handle 2: cake_mq bandwidth 2gbit
        !ip link set d0 down
        !ip link set d0 up
        qdisc replace $D root handle 3: mq
        qdisc add $D parent 3:1 cake_mq bandwidth 1gbit
        qdisc add $D parent 3:2 cake bandwidth 1gbit
        qdisc replace $D root handle 4: cake_mq
        qdisc delete $D root"""),
    ("cake_mq and mq on one queue", 1, """
        qdisc add $D root cake_mq bandwidth 1gbit
        qdisc add $D root mq
        qdisc add $D root mqprio num_tc 1 queues 1@0 hw 0"""),
    ("tbf at the root", 2, f"""
        qdisc add $D root tbf rate 1mbit burst 5kb latency 70ms
        send 30 1000
        qdisc change $D root {PEAK} latency 70ms
        send 30 1000
        qdisc replace $D root handle 10: tbf rate 10gbit burst 128kb limit 1mb
        qdisc change $D root tbf rate 40gbit burst 1mb limit 1mb peakrate 80gbit mtu 9000
        qdisc change $D root {TBF} limit 10kb mpu 64 overhead 24
        send 30 200
        qdisc change $D root {TBF}/16 limit 10kb linklayer atm
        qdisc change $D root {TBF} limit 3000
        send 30 1000
        qdisc add $D parent 10:1 handle 100: fq_codel
        qdisc change $D root {TBF} latency 20ms
        qdisc replace $D parent 10:1 cake bandwidth 5mbit
        send 30 1000
        qdisc delete $D parent 10:1
        qdisc add $D root tbf rate 1mbit
        qdisc change $D root tbf rate 1mbit burst 100 latency 10ms
        qdisc change $D root tbf rate 2mbit burst 5kb latency 70ms peakrate 1mbit mtu 1540
        qdisc change $D root tbf rate 2mbit burst 5kb latency 70ms peakrate 3mbit
        qdisc change $D root tbf rate 2mbit burst 5kb latency 70ms nonsense
        qdisc delete $D root"""),
    ("tbf below mq", 3, f"""
        qdisc add $D root handle 1: mq
        qdisc add $D parent 1:1 {TBF} latency 50ms
        qdisc add $D parent 1:2 handle 20: {PEAK} limit 9000
        qdisc add $D parent 1:3 cake bandwidth 1gbit
        send 30 1000
        qdisc change $D parent 1:1 tbf rate 5mbit burst 5kb latency 10ms
        qdisc change $D parent 1:2 tbf rate 1mbit burst 5kb latency 20ms
        send 30 1000
        qdisc add $D parent 20:1 handle 200: fq_codel
        qdisc replace $D parent 1:3 {TBF} latency 1ms
        qdisc add $D parent 1:4 {TBF} latency 1ms
        !ip link set d0 down
        !ip link set d0 up
        qdisc delete $D parent 1:2
        qdisc replace $D root {TBF} latency 50ms
        qdisc delete $D root"""),
    ("tbf below mqprio", 4, f"""
        qdisc add $D root handle 1: mqprio {MQ2}
        qdisc add $D parent 1:1 {TBF} latency 50ms
        qdisc add $D parent 1:2 {TBF} latency 50ms mpu 84 overhead 4
        qdisc add $D parent 1:3 handle 30: tbf rate 1gbit burst 64kb limit 1mb
        send 30 1000
        qdisc change $D parent 1:3 tbf rate 20gbit burst 256kb limit 1mb
        qdisc replace $D parent 1:2 cake bandwidth 10mbit
        qdisc delete $D parent 1:3
        qdisc delete $D root"""),
    ("below classful qdiscs", 3, f"""
        qdisc add $D root handle 1: htb default 2
        class add $D parent 1: classid 1:1 htb rate 10mbit ceil 20mbit
        class add $D parent 1:1 classid 1:2 htb rate 5mbit ceil 10mbit
        class add $D parent 1:1 classid 1:3 htb rate 5mbit ceil 10mbit
        qdisc add $D parent 1:2 handle 2: cake unlimited besteffort
        qdisc add $D parent 1:3 handle 3: {TBF} latency 10ms
        send 30 1000
        class change $D parent 1:1 classid 1:2 htb rate 2mbit ceil 4mbit
        qdisc replace $D parent 1:2 handle 4: fq_codel
        qdisc replace $D root handle 1: prio
        qdisc replace $D root handle 6: prio bands 3
        qdisc add $D parent 6:1 cake bandwidth 1mbit
        qdisc add $D parent 6:2 {TBF} latency 10ms
        send 20 1000
        qdisc replace $D root handle 7: mq
        qdisc add $D parent 7:1 handle 10: htb default 1
        class add $D parent 10: classid 10:1 htb rate 5mbit
        qdisc add $D parent 10:1 cake bandwidth 2mbit
        qdisc add $D parent 7:2 handle 20: prio
        qdisc add $D parent 20:1 {TBF} latency 10ms
        send 20 1000
        qdisc delete $D parent 7:1"""),
    ("cake as the default", 2, f"""
        !sysctl net.core.default_qdisc=cake
        qdisc add $D root handle 1: mq
        qdisc change $D parent 1:1 cake bandwidth 1gbit
        qdisc replace $D root handle 2: mqprio num_tc 1 map {'0 ' * 16}queues 2@0 hw 0
        qdisc replace $D parent 2:1 fq_codel
        qdisc delete $D parent 2:1
        qdisc delete $D root
        !sysctl net.core.default_qdisc=pfifo_fast"""),
)


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
    for section, queues, commands in TABLE:
        subprocess.run(["ip", "link", "add", "d0", "numtxqueues", str(queues),
                        "type", "dummy"], check=True)
        subprocess.run(["ip", "link", "set", "d0", "up"], check=True)
        with subprocess.Popen([tc, "monitor"], stdout=subprocess.PIPE, text=True) as monitor:
            time.sleep(0.01)
            for number, command in enumerate(commands.strip().splitlines(), 1):
                word, *rest = command.replace("$D", "dev d0").split()
                said = ""
                if word == "send":
                    send(queues, *rest)
                elif word.startswith("!"):
                    said = call(word[1:], *rest)
                else:
                    said = call(tc, word, *rest)
                yield f"{section}, {number}: {command.strip()}", said + views(tc)
            time.sleep(0.01)
            monitor.terminate()
            yield f"{section}: tc monitor", monitor.stdout.read()
        subprocess.run(["ip", "link", "delete", "d0"], check=True)


# ------------------------------------------------------------- on the host

def unpatched_tc() -> None:
    """Build the tc of iproute2's base in build/iproute2-base, once."""
    base, stamp = IPROUTE2.git("rev-parse", "base"), TC / ".stamp"
    if stamp.exists() and stamp.read_text() == base:
        return
    shutil.rmtree(TC, ignore_errors=True)
    TC.mkdir(parents=True)
    IPROUTE2.git("archive", "-o", TC / "base.tar", "base")
    run(["tar", "-xmf", "base.tar"], "iproute2-base", cwd=TC)
    run(["./configure"], "iproute2-base", cwd=TC)
    run(["make", f"-j{JOBS}", "SUBDIRS=lib tc"], "iproute2-base", "building the unpatched tc",
        15, cwd=TC)
    stamp.write_text(base)


def measure(kernel: str, name: str, allowed: Sequence[str] = ()) -> dict[str, str]:
    """Boot a kernel and run the table; {command: what there was to see}."""
    rows, _ = boot_script(kernel, name, "gates.compat:run_table", {"tc": str(TC / "tc" / "tc")},
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
    return "\n".join([f"FAIL {command}", *lines[:DIFF_LINES],
                      *([f"[{more} more lines]"] if more > 0 else [])])


def same(base: str, got: str) -> bool:
    """Is what a command gave the same, but for a reason where there was none?"""
    bare = "RTNETLINK answers: Operation not supported"
    return got == base or (bare in base and re.sub(r"(?m)^Error: .+$", bare, got, count=1) == base)


def main(argv: Sequence[str]) -> None:
    """Measure what is missing, compare, fail on a difference."""
    parser = command_line("compat", __doc__, record=True)
    parser.add_argument("--base", action="store_true", help="measure the unpatched kernel again")
    args = parser.parse_args(argv)
    unpatched_tc()
    if args.base or not RECORD.exists():
        build("base")
        say("old commands on the unpatched kernel (about 30 s)")
        base = measure("um-base", "compat-base", STOCK_SPLAT)
        keep_result(RECORD.name, pack(base))
    else:
        base = unpack(json.loads(RECORD.read_text()))

    say("old commands on the patched kernel (about 30 s)")
    got = measure("um", "compat")
    if list(got) != list(base):
        raise Die("the table of lab/gates/compat.py is not the one that results/compat-base.json "
                  "was measured with: run 'make compat BASE=1'")
    bad = [command for command in got if not same(base[command], got[command])]
    for command in bad[:DIFFS]:
        print(diff(command, base[command], got[command]))
    for command in bad[DIFFS:]:
        print(f"FAIL {command}")
    print(f"{len(got) - len(bad)} passed, {len(bad)} failed")
    if bad:
        raise Die(f"{len(bad)} old commands show something else on the patched kernel: see "
                  "build/guest/compat/progress")
