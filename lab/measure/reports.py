# SPDX-License-Identifier: GPL-2.0
"""What people reported of htb, tbf and cake below mq, again, in virtual time.

For make reported. Each case loads the device hop0 below one qdisc at the root, below
mq with one per queue, and below mq with qdiscs that share, all on the patched kernel: what does
not share is there as it was (make compat). A case gives figures by name; REPORTS says what was
reported, which figures its row shows, and when what is shared does what is right. Rates are in
bit/s.
"""

import json
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from load.bed import beside_run, uninstall
from load.hop import NAME, Hop
from load.traffic import command, tc

KINDS = ("root", "each", "shared")  # one at the root; one per queue; those that share
QUEUES = 4


@dataclass
class Report:
    """A report: what it says, where; the figures of its row: {name: how it is shown}.

    right(rows): whether what is shared is as it should be, from {kind: figures}. known: why
    it is not, where that is known: such a case does not fail.
    """

    title: str
    source: str
    said: str
    measure: Callable[[str, Hop], dict]
    show: dict[str, str]
    right: Callable[[dict], bool]
    known: str = ""


# ---------------------------------------------------------------- guest side

def handles(kind: str, queues: int) -> list[str]:
    """Those of the qdiscs that shape."""
    return ["11:"] if kind == "root" else [f"1{queue}:" for queue in range(1, queues + 1)]


def attach(verb: str, kind: str, words: str, queues: int) -> None:
    """Add or replace the qdiscs that shape; words: their own."""
    shared = " shared" if kind == "shared" else ""
    for queue, handle in enumerate(handles(kind, queues), 1):
        where = "root" if kind == "root" else f"parent 1:{queue:x}"
        tc(f"qdisc {verb} dev {NAME} {where} handle {handle} {words}{shared}")


def put(kind: str, words: str, queues: int) -> None:
    """Put a qdisc on hop0, in the way that kind says; words: its own."""
    uninstall()
    if kind != "root":
        tc(f"qdisc replace dev {NAME} root handle 1: mq")
    attach("replace" if kind == "root" else "add", kind, words, queues)


def classes(kind: str, queues: int, lines: Sequence[str]) -> str:
    """Add classes to each htb; lines: of tc, with H for the htb's handle. What tc says of it."""
    text = "\n".join(f"class add dev {NAME} {line.replace('H:', handle)}"
                     for handle in handles(kind, queues) for line in lines)
    done = subprocess.run(["tc", "-batch", "-"], input=text, capture_output=True, text=True,
                          check=False)
    if done.returncode:
        raise RuntimeError(f"tc: {done.stderr}")
    return done.stderr + command("dmesg", "-c")


def leaves() -> list[dict]:
    """Statistics of the qdiscs that shape."""
    rows = json.loads(tc(f"-s -j qdisc show dev {NAME}"))
    return [row for row in rows if row["kind"] in ("cake", "tbf", "htb")]


def run(hop: Hop, loads: Sequence[dict], seconds: float, settle: float = 0.0) -> dict:
    """Send, a load per queue."""
    hop.clear()
    for queue, load in enumerate(loads):
        hop.stream(queue, **load)
    hop.meter(0, from_s=settle)
    return hop.run(settle + seconds)


def two_ifb_queues(kind: str, hop: Hop) -> dict:
    """6 Gbit/s offered to each of two queues, under 8 Gbit/s."""
    put(kind, "cake bandwidth 8gbit diffserv3 dual-dsthost ingress no-split-gso rtt 1ms "
              "overhead 38 mpu 84", 2)
    got = run(hop, [{"mode": "paced", "rate": 6e9, "flows": 8}] * 2, 0.3, 0.1)
    drops = sum(row["drops"] for row in leaves())
    packets = sum(row["packets"] for row in leaves())
    return {"sent": got["bps"] * (1514 + 38) / 1514, "dropped": 100 * drops / (drops + packets)}


def quantum_warnings(kind: str, hop: Hop) -> dict:
    """250 classes of 100 Mbit/s below one of 10 Gbit/s on each queue, r2q 10."""
    put(kind, "htb default 2 r2q 10", QUEUES)
    said = classes(kind, QUEUES, ["parent H: classid H:1 htb rate 10gbit",
                                  *(f"parent H:1 classid H:{one:x} htb rate 100mbit ceil 1gbit"
                                    for one in range(2, 252))])
    return {"warnings": said.count("quantum of class")}


def big_burst(kind: str, hop: Hop) -> dict:
    """2 Gbit/s offered to tbf of 10 Mbit/s with a burst of 256 MB, in the first second."""
    put(kind, "tbf rate 10mbit burst 256mb latency 25ms", QUEUES)
    got = run(hop, [{"mode": "paced", "rate": 500e6}] * QUEUES, 1.0)
    return {"sent": got["bps"]}


def wide_rates(kind: str, hop: Hop) -> dict:
    """tbf of 40.96 Gbit/s, saturated by GSO packets; and htb of 400 Gbit/s read back."""
    put(kind, "tbf rate 40.96gbit burst 1mb limit 100mb", QUEUES)
    shown = {8 * row["options"]["rate"] for row in leaves()}
    got = run(hop, [{"mode": "saturate", "size": 64000, "gso": 1448}] * QUEUES, 0.05, 0.01)
    put(kind, "htb default 1", QUEUES)
    classes(kind, QUEUES, ["parent H: classid H:1 htb rate 35gbit ceil 400gbit"])
    rows = json.loads(tc(f"-j class show dev {NAME}"))
    pairs = {(8 * row["rate"], 8 * row["ceil"]) for row in rows if row["class"] == "htb"}
    good = shown == {40_960_000_000} and pairs == {(35_000_000_000, 400_000_000_000)}
    return {"sent": got["bps"], "read back": int(good)}


def one_classid(kind: str, hop: Hop) -> dict:
    """skb->priority 11:10 on every queue, a class of at most 100 Mbit/s, 200 offered to each."""
    put(kind, "htb default 0", QUEUES)
    classes(kind, QUEUES, ["parent H: classid H:1 htb rate 100mbit",
                           "parent H:1 classid H:10 htb rate 50mbit ceil 100mbit"])
    got = run(hop, [{"mode": "paced", "rate": 200e6, "priority": 0x110010}] * QUEUES, 0.5, 0.1)
    direct = sum(row["options"]["direct_packets_stat"] for row in leaves())
    return {"sent": got["bps"], "direct": direct}


def short_queue(kind: str, hop: Hop) -> dict:
    """txqueuelen 1, htb of 100 Mbit/s without leaves of its own, 50 offered to each queue."""
    command("ip", "link", "set", NAME, "txqueuelen", "1")
    put(kind, "htb default 1", QUEUES)
    classes(kind, QUEUES, ["parent H: classid H:1 htb rate 100mbit"])
    got = run(hop, [{"mode": "paced", "rate": 25.2e6 * 2}] * QUEUES, 0.5, 0.1)
    command("ip", "link", "set", NAME, "txqueuelen", "1000")
    return {"sent": got["bps"]}


def leaf_cakes(kind: str, hop: Hop) -> dict:
    """50 leaf cakes a second made and removed, then all anew, beside 400 Mbit/s and a probe."""
    hop.clear()
    tree = ["parent H: classid H:1 htb rate 100mbit",
            "parent H:1 classid H:2 htb rate 50mbit ceil 100mbit",
            *(f"parent H:1 classid H:{one:x} htb rate 1mbit ceil 100mbit"
              for one in range(3, 12))]
    roots = handles(kind, QUEUES)

    def set_up() -> None:
        put(kind, "htb default 2", QUEUES)
        classes(kind, QUEUES, tree)

    def change() -> None:
        for turn in range(50):
            parent = f"parent {roots[turn % len(roots)]}{3 + turn % 8:x}"
            tc(f"qdisc add dev {NAME} {parent} cake unlimited")
            time.sleep(0.02)
            tc(f"qdisc del dev {NAME} {parent}")
        tc(f"qdisc replace dev {NAME} root handle 7fff: mq")
        set_up()

    set_up()
    for queue in range(QUEUES):
        hop.stream(queue, mode="paced", rate=100e6)
    probe = hop.stream(0, mode="paced", rate=1e6, priority=0x11000B)
    hop.meter(0)
    one = beside_run(hop, 1.5, change)["streams"][probe]
    return {"wait": one["delay"]["max"],
            "lost": 100 * (1 - (one["packets"] + one["inflight"]) / one["sent"])}


def broken_packets() -> list[bytes]:
    """Frames whose headers say what is not so."""
    mac = bytes(12)

    def ip4(ihl, length, protocol, rest):
        return (mac + b"\x08\x00" + bytes([0x40 | ihl, 0]) + length.to_bytes(2, "big")
                + bytes([0, 1, 0, 0, 64, protocol, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]) + rest)

    tcp = bytes([1, 1, 2, 2]) + bytes(8)
    ip6 = bytes([0x60, 0, 0, 0, 0, 20, 250, 64]) + bytes(15) + b"\1" + bytes(15) + b"\2"
    return [ip4(15, 20, 6, b""), ip4(5, 65535, 6, tcp + b"\xf0\x10" + bytes(6)),
            ip4(5, 21, 6, b"\0"), ip4(0, 0, 6, tcp), mac + b"\x86\xdd" + ip6 + bytes(20),
            mac + b"\x86\xdd" + ip6[:6] + b"\6" + ip6[7:] + tcp + b"\xf0\x10" + bytes(6),
            ip4(5, 1020, 17, bytes(1000)), mac + b"\x86\xdd" + ip6[:9],
            mac + b"\x08\x00" + b"\x45", mac + b"\x08\x00"]


def malformed(kind: str, hop: Hop) -> dict:
    """Broken packets, 50 times, through the ACK filter and a negative overhead."""
    put(kind, "cake bandwidth 1mbit ack-filter-aggressive overhead -64 mpu 0 nat", QUEUES)
    refused = 0
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0x0300) as raw:
        raw.bind((NAME, 0))
        for _ in range(50):
            for frame in broken_packets():
                try:
                    raw.send(frame)
                except OSError:
                    refused += 1
    time.sleep(5)
    rows = leaves()
    sizes = [row["max_adj_size"] for row in rows]
    return {"sent": sum(row["packets"] for row in rows),
            "longest": max(sizes), "refused": refused}


def configured_twice(kind: str, hop: Hop) -> dict:
    """replace with handles, twice, while packets wait; and tc -j of all."""
    words = "cake bandwidth 1mbit"
    put(kind, words, QUEUES)
    run(hop, [{"mode": "paced", "rate": 10e6}] * QUEUES, 0.1)
    before = sum(row["qlen"] for row in leaves())
    for _ in range(2):
        attach("replace", kind, words, QUEUES)
    after = sum(row["qlen"] for row in leaves())
    command("ip", "link", "add", "one0", "type", "dummy")
    done = subprocess.run(["tc", "qdisc", "add", "dev", "one0", "root", "cake_mq"],
                          capture_output=True, text=True, check=False)
    command("ip", "link", "del", "one0")
    told = "queue" in done.stderr
    return {"kept": 100 * after / before if before else 0, "told": int(told)}


def run_shared(spec: dict) -> Iterator[dict]:
    """Measure cases in one way, yield their rows. spec: cases (names), kind."""
    for name in spec["cases"]:
        hop = Hop(2 if name == "two ifb queues" else QUEUES)
        try:
            yield {"case": name, **REPORTS[name].measure(spec["kind"], hop)}
        finally:
            hop.remove()


# ----------------------------------------------------------------- host side

def near(rows: dict, name: str, factor: float = 0.05) -> bool:
    """Whether a figure of what is shared is that of the root, within a factor of it."""
    root = rows["root"][name]
    return abs(rows["shared"][name] - root) <= factor * abs(root)


REPORTS = {
    "two ifb queues": Report(
        "`cake` of 8 Gbit on each of two `ifb` queues, 12 Gbit offered: Gbit/s, dropped",
        "https://github.com/cilium/cilium/issues/29083", "16 Gbit", two_ifb_queues,
        {"sent": "{:.2f}", "dropped": "{:.0f} %"},
        lambda rows: near(rows, "sent", 0.02) and near(rows, "dropped", 0.1)),
    "quantum warnings": Report(
        "251 classes, `r2q 10`, 4 queues: warnings of the kernel",
        "https://github.com/LibreQoE/LibreQoS/pull/525", "5,000 lines of log, with 1,000 classes",
        quantum_warnings, {"warnings": "{:.0f}"},
        lambda rows: rows["shared"]["warnings"] <= rows["root"]["warnings"],
        "each queue warns of its own class, as without `shared`; a larger `r2q` ends it"),
    "big burst": Report(
        "`tbf` of 10 Mbit, burst 256 MB, 2 Gbit offered: Mbit/s in the first second",
        "https://github.com/kubernetes/kubernetes/issues/90838", "2 Gbit/s",
        big_burst, {"sent": "{:.1f}"},
        lambda rows: rows["shared"]["sent"] <= 1.02 * rows["root"]["sent"]),
    "wide rates": Report(
        "`tbf` of 40.96 Gbit: Gbit/s; `htb` of 35 and 400 Gbit read back",
        "https://github.com/svinota/pyroute2/issues/715", "rates above 34 Gbit were cut",
        wide_rates, {"sent": "{:.2f}", "read back": "{:.0f}"},
        lambda rows: abs(rows["shared"]["sent"] / 40.96e9 - 1) < 0.01
        and rows["shared"]["read back"] == 1),
    "one classid": Report(
        "one classid for the packets of all 4 queues, `ceil 100mbit`: Mbit/s, direct packets",
        "https://github.com/tuist/tuist/pull/12525", "direct packets are what they alarm on",
        one_classid, {"sent": "{:.0f}", "direct": "{:.0f}"},
        lambda rows: near(rows, "sent") and not rows["shared"]["direct"]),
    "short queue": Report(
        "`htb` of 100 Mbit with `txqueuelen 1`, 4 queues: Mbit/s",
        "https://github.com/containernetworking/plugins/pull/1097", "drops from the first packet",
        short_queue, {"sent": "{:.1f}"}, lambda rows: near(rows, "sent")),
    "leaf cakes": Report(
        "50 leaf `cake` a second made and removed, then all anew: a probe waits at most, lost",
        "https://github.com/LibreQoE/LibreQoS/pull/722", "links lost to BFD with 200 ms x 5",
        leaf_cakes, {"wait": "{:.1f} ms", "lost": "{:.1f} %"},
        lambda rows: rows["shared"]["wait"] < 0.2),
    "malformed": Report(
        "broken headers, `ack-filter-aggressive overhead -64`: packets sent, longest size",
        "https://www.cve.org/CVERecord?id=CVE-2026-74704", "a warning, a length below 0",
        malformed, {"sent": "{:.0f}", "longest": "{:.0f}"},
        lambda rows: rows["shared"]["sent"] > 0 and rows["shared"]["longest"] < 65536),
    "configured twice": Report(
        "`replace` twice with handles: packets kept; one queue: `cake_mq` says why not",
        "https://github.com/systemd/systemd/issues/39399", "packets lost at each reload",
        configured_twice, {"kept": "{:.0f} %", "told": "{:.0f}"},
        lambda rows: rows["shared"]["kept"] >= rows["root"]["kept"] and rows["shared"]["told"]),
}
UNITS = {("two ifb queues", "sent"): 1e9, ("wide rates", "sent"): 1e9, ("big burst", "sent"): 1e6,
         ("leaf cakes", "wait"): 1e-3, ("one classid", "sent"): 1e6, ("short queue", "sent"): 1e6}


def told(name: str, row: dict) -> str:
    """A cell of the table."""
    return " / ".join(how.format(row[what] / UNITS.get((name, what), 1))
                      for what, how in REPORTS[name].show.items())


def table(results: dict[str, dict[str, Any]]) -> list[str]:
    """The second table of the guide; results: {kind: {case: figures}}."""
    lines = ["| case | reported | one at the root | one per queue | `shared` | right |",
             "|---|---|---|---|---|---|"]
    for name, one in REPORTS.items():
        rows = {kind: results.get(kind, {}).get(name) for kind in KINDS}
        if not all(rows.values()):
            continue
        lines.append(f"| [{one.title}]({one.source}) | {one.said} | "
                     + " | ".join(told(name, rows[kind]) for kind in KINDS)
                     + f" | {'yes' if one.right(rows) else f'no: {one.known}'} |")
    return lines


def judged(results: dict[str, dict[str, Any]]) -> tuple[list[str], list[str]]:
    """(sentences on cases that are not right, and not known to be so; on those that are right
    although they are known not to be)."""
    failed, better = [], []
    for name, one in REPORTS.items():
        rows = {kind: results[kind][name] for kind in KINDS if name in results.get(kind, {})}
        if len(rows) < len(KINDS):
            continue
        right = one.right(rows)
        if not right and not one.known:
            failed.append(f"{name}: {told(name, rows['shared'])}, at the root "
                          f"{told(name, rows['root'])}")
        if right and one.known:
            better.append(f"{name} is right now; {__name__} says that it is not")
    return failed, better
