# SPDX-License-Identifier: GPL-2.0
"""Loads that hurt, in virtual time, on the unpatched kernel and on the series.

Each scenario drives the device hop0 (lab/load/hop.py) and returns figures; ROWS says
which of them the table shows, in which unit and within which bound. Rates are in
bit/s, times in seconds, sizes in bytes unless a name says otherwise.
"""

import itertools
import json
import random
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

from guest.boot import boot_script
from tree import kernel
from tree.common import KERNEL, ROOT, Die, command_line, record_time, result_file, say

from load import tcp
from load.hop import NAME, Hop
from load.traffic import FRAME, active_queues, command, contender_lines, tc

COUNTER = "/sys/module/sch_rate_group/parameters/shared_writes"
RESULTS = ROOT / "results" / "scenarios.json"
EF = 46 << 2  # as TOS byte
TOS = {"BE": 0, "CS1": 8 << 2, "AF41": 34 << 2, "EF": EF, "CS6": 48 << 2}
TBF = "burst 16kb limit 10mb"


# ------------------------------------------------------ guest side: set-up

def install(contender: str, rate: float, queues: int, options: str = "") -> None:
    """Put a contender on hop0."""
    for where in ("root", "clsact"):
        tc(f"qdisc del dev {NAME} {where}", check=False)
    tc("-batch -", "\n".join(contender_lines(NAME, contender, rate, queues, options)))


def shared_writes() -> int | None:
    """How often members have written to what they share; None if not counted."""
    try:
        with open(COUNTER, encoding="ascii") as file:
            return int(file.read())
    except FileNotFoundError:
        return None


def deviation(got: dict, rate: float) -> float:
    """Of what was sent from the rate, in percent."""
    return 100 * (got["bps"] / rate - 1)


def jain(values: Sequence[float]) -> float:
    """Jain's index of fairness, 1 when all are equal."""
    return sum(values) ** 2 / (len(values) * sum(v * v for v in values))


class Bed:
    """hop0 below one contender; scenarios add streams and run.

    Options are those of cake; tbf has its own, always the same.
    """

    def __init__(self, contender: str) -> None:
        self.contender = contender
        self.hop = None

    def prepare(self, rate: float, queues: int, options: str = "", contender: str | None = None,
                unused: int = 0) -> Hop:
        """A fresh device of so many queues, shaped to rate (by another contender)."""
        if self.hop and (self.hop.queues, self.hop.unused) != (queues, unused):
            self.hop.remove()
            self.hop = None
        if not self.hop:
            self.hop = Hop(queues, unused)
        self.hop.clear()
        contender = contender or self.contender
        install(contender, rate, queues, TBF if "tbf" in contender else options)
        return self.hop

    def change(self, rate: float, options: str = "", queues: int = 1,
               contender: str | None = None) -> None:
        """Give one of the qdiscs, and so the group, a rate in bit/s; or options to several."""
        contender = contender or self.contender
        if "tbf" in contender:
            options = TBF
        lines = contender_lines(NAME, contender, rate, queues, options)
        for line in lines[-queues:]:
            tc("qdisc change " + line.removeprefix("qdisc replace ").removeprefix("qdisc add "))

    def close(self) -> None:
        """Remove the device."""
        if self.hop:
            self.hop.remove()


# -------------------------------------------------------------- scenarios

def saturated(bed: Bed, rate: float, queues: int = 40, seconds: float = 1.0, settle: float = 0.2,
              size: int = FRAME, options: str = "", depth: int = 64, unused: int = 0) -> dict:
    """Every queue that is in use always has packets."""
    hop = bed.prepare(rate, queues, options, unused=unused)
    for q in range(queues):
        hop.stream(q, size=size, depth=24 if queues > 100 else depth)
    hop.meter(rate, from_s=settle)
    before = shared_writes()
    got = hop.run(settle + seconds)
    figures = {"deviation": deviation(got, rate), "excess": got["excess"]["bytes"],
               "jain": jain([q["bytes"] for q in got["queues"]])}
    if before is not None:
        figures["writes"] = (shared_writes() - before) / (settle + seconds)
    return figures


def beside_run(hop: Hop, seconds: float, job: Callable[[], Any]) -> dict:
    """What hop.run() gives, while something else is done."""
    other = threading.Thread(target=job)
    other.start()
    got = hop.run(seconds)
    other.join()
    return got


def offered(bed: Bed, rate: float, loads: Sequence[dict], seconds: float = 1.0,
            settle: float = 0.2) -> dict:
    """A load per queue: dicts of what Hop.stream() takes."""
    return loaded(bed.prepare(rate, max(len(loads), 2)), rate, loads, seconds, settle)


def loaded(hop: Hop, rate: float, loads: Sequence[dict], seconds: float = 1.0,
           settle: float = 0.2) -> dict:
    """What offered() measures, on a device that is prepared."""
    for q, load in enumerate(loads):
        hop.stream(q, **load)
    hop.meter(rate, from_s=settle)
    got = hop.run(settle + seconds)
    return {"deviation": deviation(got, rate), "excess": got["excess"]["bytes"],
            "queues": [q["bps"] for q in got["queues"]],
            "wait": [s["delay"]["mean"] for s in got["streams"]]}


def paced(rate: float, **more: Any) -> dict:
    """A constant load in bit/s."""
    return {"mode": "paced", "rate": rate, **more}


def burst(frames: int, length: float, period: float) -> dict:
    """So many frames within length s, once in period s."""
    return paced(frames * FRAME * 8 / length, on=length, off=period - length)


def zipf(total: float, count: int) -> list[float]:
    """`count` rates in bit/s with the weights 1, 1/2, 1/3 ... that add up to total."""
    weights = [1 / (k + 1) for k in range(count)]
    return [total * w / sum(weights) for w in weights]


UNEVEN = {  # name: (rate bit/s, the load of each queue, as for Hop.stream())
    "80/20": (10e9, [paced(8e9), paced(2e9)]),
    "16 of 24 double": (20e9, [paced(25e9 / 40 * (2 if q < 16 else 1)) for q in range(24)]),
    "elephant + 39 mice": (5e9, [paced(10e9)] + [paced(5e3 * 64 * 8, size=64)] * 39),
    "zipf": (10e9, [paced(r) for r in zipf(15e9, 40)]),
    "zipf on/off": (10e9, [
        paced(r) if q % 2 == 0 else paced(2 * r, on=2e-3, off=2e-3, start=q * 1e-4)
        for q, r in enumerate(zipf(17e9, 40))]),
    "39 light": (10e9, [{}] + [paced(1e3 * FRAME * 8, start=q * 1e-5) for q in range(39)]),
    "bursts": (10e9, [{}] + [
        paced(3e9, on=300e-6, off=700e-6, start=q * 1e-4) for q in range(8)]),
    "45/45/10": (10e9, [{}, {}, paced(1e9)]),
}


def uneven(bed: Bed, name: str) -> dict:
    """The loads of UNEVEN: queues that differ in what they are offered."""
    got = offered(bed, *UNEVEN[name])
    if name == "45/45/10":
        got["off"] = max(abs(b / 10e9 * 100 - want)
                         for b, want in zip(got["queues"], (45, 45, 10)))
    return got


def switch(bed: Bed, rate: float, start: int = 4, end: int = 40, stagger: float = 0.0) -> dict:
    """start saturated queues become end at t = 1 s; what the next hop has to queue."""
    hop = bed.prepare(rate, max(start, end))
    for q in range(min(start, end)):
        hop.stream(q)
    for q in range(min(start, end), max(start, end)):
        if end > start:
            hop.stream(q, start=0.5 + stagger * (q - start) / (end - start))
        else:
            hop.stream(q, stop=0.5)
    hop.meter(rate, from_s=0.45)
    return {"excess": hop.run(0.7)["excess"]["bytes"]}


def frames(bed: Bed) -> dict:
    """Queues with frames of 300, 1514 and 9000 bytes, two of each, all saturated."""
    hop = bed.prepare(10e9, 6)
    for q in range(6):
        hop.stream(q, size=(300, 1514, 9000)[q % 3])
    hop.meter(10e9, from_s=0.2)
    got = hop.run(1.2)
    return {"jain": jain([q["bytes"] for q in got["queues"]]),
            "deviation": deviation(got, 10e9)}


def sparse(bed: Bed, rate: float) -> dict:
    """997 packets of 64 bytes a second in one queue, 39 others saturated."""
    seconds = 2 if rate < 1e9 else 1
    got = offered(bed, rate, [paced(997 * 64 * 8, size=64)] + [{}] * 39,
                  seconds=seconds, settle=0.3)
    return {"frames": got["wait"][0] / (FRAME * 8 / rate), "wait": got["wait"][0],
            "deviation": got["deviation"]}


def flood(bed: Bed, flows: int) -> dict:
    """So many new one-packet flows a second over 32 queues that are saturated."""
    rate, queues = 1e9, 32
    hop = bed.prepare(rate, queues)
    for q in range(queues):
        hop.stream(q)
    for q in range(queues):
        hop.stream(q, mode="poisson", rate=flows / queues * 64 * 8, size=64,
                   flows="flood")
    hop.meter(rate, from_s=0.3)
    got = hop.run(1.3)
    bulk = [s["bps"] for s in got["streams"][:queues]]
    small = got["streams"][queues:]
    fair = (rate - sum(s["bps"] for s in small)) / queues
    return {"excess": got["excess"]["bytes"], "deviation": deviation(got, rate),
            "bulk_off": 100 * max(abs(b / fair - 1) for b in bulk),
            "small_p99": max(s["delay"]["p99"] for s in small),
            "small_passed": sum(s["packets"] for s in small) / flows}


def after_flood(bed: Bed, flows: int = 160_000) -> dict:
    """32 saturated queues; for a second, one of them has so many new one-packet flows as
    well, more than its share: what it gets of that, and when its bulk goes on after it."""
    rate, queues, begin, end = 1e9, 32, 0.3, 1.3
    hop = bed.prepare(rate, queues)
    bulk = [hop.stream(q) for q in range(queues)][0]
    hop.stream(0, mode="paced", rate=flows * 64 * 8, size=64, flows="flood",
               start=begin, stop=end)
    hop.meter(rate, from_s=begin, bins_us=1000, stream=bulk)
    got = hop.run(end + 1)
    after = got["stream_bins"][round(end / got["bin_s"]):]
    silent = list(itertools.takewhile(lambda sent: not sent, after))
    return {"silent_s": len(silent) * got["bin_s"],
            "share": got["queues"][0]["bps"] / (rate / queues),
            "deviation": deviation(got, rate), "excess": got["excess"]["bytes"]}


def tins(bed: Bed, queues: int, mode: str = "diffserv4") -> dict:
    """Best effort and EF saturated on every queue; the part of best effort."""
    rate = 1e9
    hop = bed.prepare(rate, max(queues, 2), mode)
    for q in range(queues):
        hop.stream(q)
        hop.stream(q, tos=EF)
    hop.meter(rate, from_s=0.5)
    got = hop.run(2.5)
    best = sum(s["bytes"] for s in got["streams"] if s["tos"] == 0)
    return {"best_effort": 100 * best / got["bytes"], "deviation": deviation(got, rate)}


def left_alone(bed: Bed, rate: float = 100e6, begin: float = 1) -> dict:
    """Best effort and AF41 of diffserv8, whose thresholds are 7/8 and 2/3 of the rate, on one
    queue; a sibling is busy for a second. What best effort gets, %, in the 200 ms after."""
    hop = bed.prepare(rate, 2, "diffserv8")
    hop.stream(0)
    hop.stream(0, tos=TOS["AF41"])
    hop.stream(1, stop=begin)
    hop.meter(rate, from_s=begin + 0.05)
    got = hop.run(begin + 0.25)
    return {"best_effort": 100 * got["streams"][0]["bytes"] / got["bytes"]}


def spread(bed: Bed, count: int, rate: float = 2350e6, apart: bool = False, size: int = FRAME,
           options: str = "") -> dict:
    """Best effort saturated on four queues, EF on count of them: what EF gets, %.

    apart: best effort only on the queues without EF. size: of the packets of EF; longer
    than a frame, they are to be segmented.
    """
    hop = bed.prepare(rate, 4, f"diffserv4 {options}")
    bulk = range(count if apart else 0, 4)
    for q in bulk:
        hop.stream(q)
    for q in range(count):
        hop.stream(q, tos=EF, size=size, gso=1448 if size > FRAME else 0)
    hop.meter(rate, from_s=0.5)
    got = hop.run(1.5)
    return {"ef": 100 * sum(s["bytes"] for s in got["streams"][len(bulk):]) / got["bytes"],
            "deviation": deviation(got, rate), "excess": got["excess"]["bytes"]}


def beside(bed: Bed, rate: float = 2350e6) -> dict:
    """A best effort flow of 20 Mbit/s on the queue of a greedy EF flow, all queues busy:
    the wait, with that at the next hop, and the same below cake at the root."""
    figures = {}
    for key, contender in (("p99_us", None), ("root_p99_us", "cake")):
        hop = bed.prepare(rate, 4, "diffserv4", contender)
        hop.stream(0, mode="paced", rate=20e6, size=300, src=9)
        hop.stream(0, tos=EF)
        for q in range(4):
            hop.stream(q)
        hop.meter(rate, from_s=0.5)
        figures[key] = 1e6 * hop.run(1.5)["streams"][0]["total"]["p99"]
    return {**figures, "of_root": figures["p99_us"] / figures["root_p99_us"]}


def gso(bed: Bed, options: str, size: int = 64000) -> dict:
    """Four queues of TCP packets that are to be segmented."""
    rate = 5e9
    hop = bed.prepare(rate, 4, options)
    for q in range(4):
        hop.stream(q, size=size, gso=1448)
    hop.meter(rate, from_s=0.3)
    got = hop.run(1.3)
    return {"deviation": deviation(got, rate), "excess": got["excess"]["bytes"],
            "jain": jain([q["bytes"] for q in got["queues"]])}


def fill(bed: Bed, load: float, queues: int = 40) -> dict:
    """Poisson arrivals at a part of the rate: what is below the rate must pass."""
    rate = 10e9
    hop = bed.prepare(rate, queues)
    for q in range(queues):
        hop.stream(q, mode="poisson", rate=load * rate / queues, size=200)
    hop.meter(rate, from_s=0.1)
    before = shared_writes()
    got = hop.run(0.4)
    figures = {"deviation": deviation(got, load * rate),
               "excess": got["excess"]["bytes"],
               "p99": max(s["delay"]["p99"] for s in got["streams"])}
    if before is not None:
        figures["writes"] = (shared_writes() - before) / 0.4
        figures["packets"] = got["packets"] / 0.3
    return figures


def disturbed(bed: Bed, what: str) -> dict:
    """Eight saturated queues while the rate changes 1000 times a second, or the link
    goes down and up 30 times; of the latter, the figures are of a run after that."""
    rate = 2e9 if what == "rate changes" else 1e9
    hop = bed.prepare(rate, 8)
    done = threading.Event()

    def change():
        for number in itertools.count():
            if done.is_set():
                return
            bed.change((1 + number % 2) * 1e9)
            time.sleep(0.001)

    def flap():
        time.sleep(0.1)  # hop0 does not start a run while it is down
        for _ in range(30):
            for state, pause in (("down", 0.003), ("up", 0.012)):
                command("ip", "link", "set", NAME, state)
                time.sleep(pause)

    for q in range(8):
        hop.stream(q)
    hop.meter(rate, from_s=0.2)
    other = threading.Thread(target=change if what == "rate changes" else flap)
    other.start()
    got = hop.run(1.2)
    done.set()
    other.join()
    if what == "rate changes":
        return {"deviation": deviation(got, 1.5e9), "excess": got["excess"]["bytes"]}
    hop.clear()
    return {**saturated(bed, rate, 8, 0.5), "during_bps": got["bps"]}


def rate_up(bed: Bed, rate: float = 1e9, begin: float = 0.05) -> dict:
    """Eight saturated queues at 1 Mbit/s, whose rate becomes 1000 times as much: what is
    sent of it from a ms after that on."""
    hop = bed.prepare(rate / 1000, 8)
    for q in range(8):
        hop.stream(q)
    hop.meter(rate, from_s=begin + 0.001)

    def change():
        time.sleep(begin)
        bed.change(rate)

    return {"deviation": deviation(beside_run(hop, begin + 0.021, change), rate)}


def stopped(bed: Bed, rate: float) -> dict:
    """One of eight queues is saturated; after one in 2000 packets, it is stopped for 5 ms."""
    hop = bed.prepare(rate, 8)
    hop.stream(0, depth=1024)
    hop.meter(rate, from_s=0.2)
    hop.faults(stopq=2000, stopq_s=5e-3)
    got = hop.run(2.2)
    hop.faults()
    return {"deviation": deviation(got, rate), "excess": got["excess"]["bytes"],
            "stops": got["stops"]}


def busy(bed: Bed, count: int = 5) -> dict:
    """So many of eight queues saturated: how many the statistics call active."""
    hop = bed.prepare(1e9, 8)
    for q in range(count):
        hop.stream(q)
    seen = []

    def look():
        time.sleep(0.1)
        seen.append(active_queues(NAME))

    beside_run(hop, 0.2, look)
    return {"active": seen[0], "active_off": (seen[0] or 0) - count}


def modes(bed: Bed) -> dict:
    """Four saturated queues, each with tins of its own kind, which are 19 in all: more
    than a group keeps."""
    hop = bed.prepare(1e9, 4)
    for q, mode in enumerate(("diffserv3", "diffserv4", "diffserv8", "precedence")):
        tc(f"qdisc change dev {NAME} parent 1:{q + 1} cake {mode}")
        for tos in (0, EF):
            hop.stream(q, tos=tos)
    hop.meter(1e9, from_s=0.5)
    got = hop.run(1.5)
    return {"deviation": deviation(got, 1e9), "excess": got["excess"]["bytes"]}


def mixed(bed: Bed, loads: list[dict], rate: float = 10e9) -> dict:
    """A load per queue, as for offered(), with a tbf on every other queue."""
    hop = bed.prepare(rate, len(loads))
    for q in range(2, len(loads) + 1, 2):
        tc(f"qdisc replace dev {NAME} parent 1:{q} tbf rate {rate:.0f}bit {TBF} shared")
    got = loaded(hop, rate, loads)
    return {**got, "jain": jain(got["queues"])}


UNRESPONSIVE = {  # the loads of four queues, for 1 Gbit/s
    "even": [paced(375e6)] * 4,
    "uneven": [paced(1e9), paced(3e8), paced(15e7), paced(5e7)],
    "on/off": [paced(5e8, on=0.05, off=0.075, start=q * 1e-3) for q in range(4)],
}


def ingress(bed: Bed, load: str) -> dict:
    """What ingress mode lets pass of loads that take no notice of drops, % of the rate.

    A drop costs as much as a packet, but never makes another one cost more than half as
    much again; what it still owes is paid by time in which nothing is sent.
    """
    hop = bed.prepare(1e9, 4, "besteffort ingress memlimit 1mb")
    for q, stream in enumerate(UNRESPONSIVE[load]):
        hop.stream(q, **stream)
    hop.meter(1e9, from_s=0.5)
    got = hop.run(2.5)
    return {"passed": got["bps"] / 1e9 * 100, "excess": got["excess"]["bytes"]}


def after_drops(bed: Bed, end: str, rate: float = 100e6, queues: int = 4,
                begin: float = 0.3) -> dict:
    """Ingress mode with loads that ignore drops, until it ends ("egress") or the link goes
    down and up ("reset"), and all queues are saturated: what is sent in 30 ms soon after
    that, in which no drop of before may cost anything."""
    hop = bed.prepare(rate, queues, "besteffort ingress memlimit 1mb")
    for q in range(queues):
        hop.stream(q, stop=begin, **paced(3 * rate / queues))
        # Another flow, that waits less than CoDel's target: none of it is dropped
        hop.stream(q, src=50 + q, start=begin, depth=4)
    hop.meter(rate, from_s=begin + 0.02)  # the link is down for some ms

    def change():
        time.sleep(begin)
        if end == "egress":
            bed.change(rate, end, queues)
        else:
            for state in ("down", "up"):
                command("ip", "link", "set", NAME, state)

    return {"deviation": deviation(beside_run(hop, begin + 0.05, change), rate)}


def beside_drops(bed: Bed, rate: float = 100e6) -> dict:
    """Ingress mode: 20 Mbit/s of EF on the queue of best effort that ignores its drops,
    another queue saturated. What drops cost must not come out of another tin's part."""
    hop = bed.prepare(rate, 2, "diffserv4 ingress")
    hop.stream(0, tos=EF, src=9, **paced(20e6))
    hop.stream(0, **paced(3 * rate))
    hop.stream(1)
    hop.meter(rate, from_s=1)
    flow = hop.run(3)["streams"][0]
    return {"ef_bps": flow["bps"], "p99": flow["delay"]["p99"]}


def long_round(bed: Bed, queues: int, size: int, gap: float) -> dict:
    """A packet every gap s on one of so many queues, which are saturated: at 10 Mbit/s a
    round takes longer than the gap."""
    rate, settle = 10e6, 2
    hop = bed.prepare(rate, queues)
    hop.stream(0, src=9, start=settle, **paced(size * 8 / gap, size=size))
    for q in range(queues):
        hop.stream(q, depth=24)
    hop.meter(rate, from_s=settle)
    flow = hop.run(settle + 10)["streams"][0]
    lost = flow["sent"] - flow["packets"] - flow["inflight"]
    return {"missing": 100 * lost / flow["sent"], "p99": flow["delay"]["p99"]}


def other_mtu(bed: Bed, queues: int = 32) -> dict:
    """The device's MTU changes from 9000 to 1500 below the qdiscs; what two packets then
    wait on one of so many queues, which are saturated, with 10 Mbit/s."""
    hop = bed.prepare(10e6, queues)
    command("ip", "link", "set", NAME, "mtu", "9000")
    bed.prepare(10e6, queues)
    command("ip", "link", "set", NAME, "mtu", "1500")
    for q in range(queues):
        hop.stream(q, depth=24 if q else 1)
    hop.meter(10e6, from_s=2)
    return {"p99": hop.run(6)["streams"][0]["delay"]["p99"]}


def requeued(bed: Bed, rate: float = 1e9, busy: float = 3e-3, late: float = 50e-6) -> dict:
    """A packet that the device has refused is there again when 64 frames arrive, so late
    before the device takes packets: what is unused of the time before must be lost."""
    hop = bed.prepare(rate, 2)
    hop.stream(0, refuse=busy, **paced(64 * 8 / 10e-3, size=64))
    hop.stream(0, start=busy - late, **burst(64, 50e-6, 10e-3))
    hop.meter(rate)
    return {"excess": hop.run(0.1)["excess"]["bytes"]}


def hung(bed: Bed, rate: float = 10e9, queues: int = 8) -> dict:
    """A saturated TX queue hangs and, below tbf, its inner qdisc is replaced by an empty
    one; the others have bursts, all at once, of half the rate."""
    hop = bed.prepare(rate, queues)
    if "tbf" in bed.contender:
        tc(f"qdisc replace dev {NAME} parent 1:1 handle 10: tbf rate {rate:.0f}bit {TBF} "
           "shared")
    hop.stream(0, stop=0.03)
    hop.stream(0, start=0.02, stop=0.03, refuse=1, **paced(1e6, size=64))
    for q in range(1, queues):
        hop.stream(q, **burst(64, 5e-6, (queues - 1) * 64 * FRAME * 8 / (rate / 2)))
    hop.meter(rate, from_s=0.05)

    def empty():
        time.sleep(0.04)
        tc(f"qdisc replace dev {NAME} parent 10:1 handle 11: bfifo limit 10mb")

    got = beside_run(hop, 0.2, empty) if "tbf" in bed.contender else hop.run(0.2)
    bed.close()  # with the queue that hangs
    bed.hop = None
    return {"excess": got["excess"]["bytes"]}


def room(bed: Bed, rate: float = 2350e6) -> dict:
    """The EF tin of one of four queues finds no room for its threshold, as its siblings
    use other modes; then they use the same. What EF gets there, as in spread(), and what
    CS1 on two of the queues is off its threshold, points."""
    hop = bed.prepare(rate, 4, "diffserv3")
    for q, mode in ((2, "diffserv8"), (3, "precedence"), (1, "diffserv4"),
                    (2, "diffserv4"), (3, "diffserv4"), (4, "diffserv4")):
        tc(f"qdisc change dev {NAME} parent 1:{q} cake {mode}")
    for q in range(4):
        hop.stream(q)
    hop.stream(0, tos=EF)
    for q in range(2):
        hop.stream(q, tos=TOS["CS1"])
    hop.meter(rate, from_s=0.5)
    got = hop.run(1)
    ef, *cs1 = (100 * s["bytes"] / got["bytes"] for s in got["streams"][4:])
    return {"ef": ef, "cs1_off": sum(cs1) - 6.25}


def labelled(hop: Hop, streams: Sequence[tuple]) -> None:
    """Add saturated streams (label, queue, src, dst, tos), each a flow of its own.

    Few packets of each if there are many.
    """
    for _, queue, src, dst, tos in streams:
        hop.stream(queue, src=src, dst=dst, tos=tos,
                   depth=64 if len(streams) < 50 else 24 if len(streams) < 500 else 4)


def own_hosts(queues: Sequence[int]) -> list[tuple]:
    """A flow between two hosts of its own on each of these queues."""
    return [(f"flow {i}", queue, 1 + i, 1001 + i, 0) for i, queue in enumerate(queues)]


CROWDED = (5, 3, 2, 2, 2, 1, 1, 0)  # flows of eight queues
CROWD = [queue for queue, count in enumerate(CROWDED) for _ in range(count)]


def scattered(count: int, queues: int, seed: int = 1) -> list[int]:
    """The queue of each of so many flows, at random."""
    pick = random.Random(seed)
    return [pick.randrange(queues) for _ in range(count)]


def equal(values: Sequence[float]) -> dict[str, float]:
    """How equal rates are: Jain's index; the lowest and the highest, % off the mean."""
    mean = sum(values) / len(values)
    return {"jain": jain(values), "lowest": 100 * (min(values) / mean - 1),
            "highest": 100 * (max(values) / mean - 1)}


def flows(bed: Bed, rate: float, queues: int, where: Sequence[int]) -> dict:
    """Saturated flows, one on each queue of the list where: how equal they are."""
    hop = bed.prepare(rate, queues, "besteffort flows")
    labelled(hop, own_hosts(where))
    hop.meter(rate, from_s=0.3)
    got = hop.run(0.8)
    return {**equal([s["bps"] for s in got["streams"]]), "deviation": deviation(got, rate),
            "excess": got["excess"]["bytes"]}


def one_and_many(mode: str, many: int = 15, queues: int = 8) -> list[tuple]:
    """Streams of labelled(): a flow of host "one" beside so many of host "many".

    mode: how CAKE tells hosts; it decides which of the two addresses are the hosts'.
    """
    def ends(host, other):
        if mode == "hosts":
            return host, 9
        return (other, host) if mode == "dual-dsthost" else (host, other)

    where = scattered(many, queues, 5) if many < 100 else [i % queues for i in range(many)]
    return [("many", queue, *ends(1, 100 + i), 0) for i, queue in enumerate(where)] + [
        ("one", 3, *ends(2, 90), 0)]


def packed() -> list[tuple]:
    """Streams of labelled(): host "one queue" has 8 flows on a queue, the other on all."""
    return [("one queue", 0, 1, 101 + i, 0) for i in range(8)] + [
        ("all queues", i, 2, 201 + i, 0) for i in range(8)]


def classes(*queues: str) -> list[tuple]:
    """Streams of labelled(): the DiffServ classes that are on each queue, in words."""
    found = [(q, name) for q, names in enumerate(queues) for name in names.split()]
    return [(name, q, 1 + i, 101 + i, TOS[name]) for i, (q, name) in enumerate(found)]


DEPTH = "memlimit 64mb"  # for a thousand flows
PARTS = {  # what parts() runs: (rate bit/s, tc's words, streams of labelled())
    **{f"hosts {mode}": (1e9, f"besteffort {mode}", one_and_many(mode))
       for mode in ("dual-srchost", "dual-dsthost", "triple-isolate", "hosts")},
    **{f"packed {mode}": (1e9, f"besteffort {mode}", packed())
       for mode in ("dual-srchost", "triple-isolate")},
    **{f"{mode} {name}": (100e6, mode, classes(*queues))
       for mode in ("diffserv3", "diffserv4") for name, queues in {
           "CS1, BE": ("CS1", "BE"),
           "2 CS1, BE": ("CS1", "BE", "CS1"),
           "BE, 7 CS1": ("BE", *["CS1"] * 7),
           "EF CS1, EF, BE CS1": ("EF CS1", "EF", "BE CS1"),
           "CS1, EF, AF41, BE": ("CS1", "EF", "AF41", "BE")}.items()},
    "diffserv4 AF41, EF, CS1": (1e9, "diffserv4", classes("AF41", "EF", "CS1")),
    **{f"{mode} {name}": (100e6, mode, classes(*queues))
       for mode in ("diffserv8", "precedence") for name, queues in {
           "CS1, BE": ("CS1", "BE"),
           "EF, BE": ("EF", "BE"),
           "CS1, EF, AF41, BE, CS6": ("CS1", "EF", "AF41", "BE", "CS6")}.items()},
}


def parts(bed: Bed, name: str) -> dict:
    """The loads of PARTS over 8 queues: what each label gets, % of the rate, and the same
    below cake at the root; off: where these differ the most."""
    rate, options, streams = PARTS[name]
    settle, seconds = (0.5, 1) if rate < 1e9 else (0.3, 0.5)
    found = []
    for contender in (None, "cake"):
        hop = bed.prepare(rate, 8, options, contender)
        labelled(hop, streams)
        hop.meter(rate, from_s=settle)
        got = hop.run(settle + seconds)
        sent = {}
        for (label, *_), stream in zip(streams, got["streams"]):
            sent[label] = sent.get(label, 0) + 100 * stream["bps"] / rate
        found.append(sent)
    here, root = found
    return {"parts": here, "root": root, "off": max(abs(here[k] - root[k]) for k in here)}


def thousand(bed: Bed, rate: float = 1e9, seeds: Sequence[int] = (0, 1, 2)) -> dict:
    """A host of one flow beside one of 1000: the least that the first gets, %, and the same
    below cake at the root, whose 1024 flow queues the flow may have to share with others.

    seeds: other addresses, so that other flows share a queue.
    """
    figures = {}
    for key, contender in (("one", None), ("root_one", "cake")):
        figures[f"{key}_all"] = gets = []
        for seed in seeds:
            hop = bed.prepare(rate, 8, f"besteffort dual-srchost {DEPTH}", contender)
            labelled(hop, [(label, queue, src + 10 * seed, dst + 2000 * seed, tos) for
                           label, queue, src, dst, tos in one_and_many("dual-srchost", 1000)])
            hop.meter(rate, from_s=0.5)
            got = hop.run(1)
            gets.append(100 * got["streams"][-1]["bytes"] / got["bytes"])
        figures[key] = min(gets)
    return figures


def crowded(bed: Bed, rate: float = 1e9, light: int = 10) -> dict:
    """A saturated flow on each of eight queues, and so many flows of 5 Mbit/s in packets
    of 200 bytes on the first queue: how equal the saturated ones are."""
    hop = bed.prepare(rate, 8, "besteffort flows")
    labelled(hop, own_hosts(range(8)))
    for number in range(light):
        hop.stream(0, src=50 + number, dst=150 + number, **paced(5e6, size=200))
    hop.meter(rate, from_s=0.3)
    got = hop.run(0.8)["streams"]
    return {**equal([s["bps"] for s in got[:8]]),
            "light_p99": max(s["delay"]["p99"] for s in got[8:])}


def arrival(bed: Bed, what: str, rate: float = 1e9, begin: float = 0.3) -> dict:
    """A new flow beside 16 over eight queues, or the flow of a new host beside 15 of
    another: how long until three ms in turn have a mean of 90 % of its share."""
    host = what == "host"
    streams = one_and_many("dual-srchost")[:-1] if host else own_hosts(CROWD)
    hop = bed.prepare(rate, 8, f"besteffort {'dual-srchost' if host else 'flows'}")
    labelled(hop, streams)
    new = hop.stream(5, src=2, dst=90, start=begin)
    hop.meter(rate, from_s=begin, bins_us=1000, stream=new)
    got = hop.run(begin + 0.5)
    share = rate / 8 * 1e-3 / (2 if host else len(streams) + 1)
    bins = got["stream_bins"][round(begin / got["bin_s"]):]
    end = next((i + 3 for i in range(len(bins) - 2) if sum(bins[i:i + 3]) >= 2.7 * share),
               None)
    return {"rise_s": end and end * got["bin_s"]}


def one_of_eight(bed: Bed, count: int = 500, rate: float = 1e9, stall: float = 0.0) -> dict:
    """So many flows on one of eight queues, one on each other; one in 200 transmits takes
    so many s longer: what the next hop has to queue."""
    hop = bed.prepare(rate, 8, f"besteffort flows {DEPTH}")
    labelled(hop, own_hosts([0] * count + list(range(1, 8))))
    hop.meter(rate, from_s=0.3)
    hop.faults(stall=200 if stall else 0, stall_s=stall)
    got = hop.run(0.8)
    hop.faults()
    return {"excess": got["excess"]["bytes"], "deviation": deviation(got, rate)}


def moved(bed: Bed, rate: float = 1e9, begin: float = 0.3, seconds: float = 0.1) -> dict:
    """Of eight saturated flows on eight queues, that of the first moves to the second, and
    what it had queued is still sent: in the 100 ms after that, how far the seven others
    are off an eighth of the rate, %, and the one that moved."""
    hop = bed.prepare(rate, 8, "besteffort flows")
    flow = {"src": 1, "dst": 1001}
    hop.stream(0, stop=begin, **flow)
    hop.stream(1, start=begin, **flow)
    labelled(hop, own_hosts(range(8))[1:])
    hop.meter(rate, from_s=begin)
    got = [100 * (s["bps"] * 8 / rate - 1) for s in hop.run(begin + seconds)["streams"]]
    return {"others": max(got[2:], key=abs), "moved": got[0] + got[1] + 100}


def recounted(bed: Bed, rate: float = 1e9) -> dict:
    """Of 15 flows of a host, 14 end while the flow mode is not one that is fair to hosts: what
    the last one gets afterwards beside another host's, %, here and below cake at the root."""
    figures = {}
    for key, contender in (("gets", None), ("root_gets", "cake")):
        hop = bed.prepare(rate, 8, "besteffort dual-srchost", contender)
        labelled(hop, [("last", 0, 1, 100, 0), ("other", 0, 2, 100, 0)])
        for number in range(14):
            hop.stream(0, src=1, dst=101 + number, stop=0.2)
        hop.meter(rate, from_s=0.4)

        def change(contender=contender):
            for mode in ("flows", "dual-srchost"):
                time.sleep(0.15)
                bed.change(rate, mode, contender=contender)

        last, rival, *_ = beside_run(hop, 0.6, change)["streams"]
        figures[key] = 100 * last["bytes"] / (last["bytes"] + rival["bytes"])
    return figures


def waits(bed: Bed, rate: float, queues: int, each: int = 4) -> dict:
    """A packet of 200 bytes every 20 ms (100 ms at 1 Mbit/s, to be less than a share) on
    one of so many queues, which have so many saturated flows each: its p99 wait, and the
    same below cake at the root."""
    figures = {}
    settle, seconds, gap = (0.3, 3, 0.02) if rate > 1e6 else (3, 30, 0.1)
    for key, contender in (("p99", None), ("root_p99", "cake")):
        hop = bed.prepare(rate, queues, "besteffort flows", contender)
        labelled(hop, own_hosts([*range(queues)] * each))
        hop.stream(3, src=900, dst=901, **paced(200 * 8 / gap, size=200))
        hop.meter(rate, from_s=settle)
        figures[key] = hop.run(settle + seconds)["streams"][-1]["delay"]["p99"]
    return {**figures, "of_root": figures["p99"] / figures["root_p99"]}


CROWDS = (64, 256, 1024)  # TCP flows beside an echo, also below cake at the root
# Of members that are configured one by one, unlike cake_mq's
MODES, ROOM, MIXED = "modes", "room", ("mixed", "mixed 80/20")
SCENARIOS = {
    **{f"saturated {r / 1e9:g}": (saturated, {"rate": r, "seconds": s, "settle": t})
       for r, s, t in ((10e6, 75, 10), (100e6, 10, 2), (1e9, 2, 0.3), (10e9, 1, 0.2),
                       (20e9, 1, 0.2), (100e9, 1, 0.1))},
    **{name: (uneven, {"name": name}) for name in UNEVEN},
    **{f"switch {r / 1e9:g}": (switch, {"rate": r}) for r in (2e9, 8e9, 15e9)},
    **{f"stagger {r / 1e9:g}": (switch, {"rate": r, "stagger": 1e-3})
       for r in (2e9, 8e9, 15e9)},
    **{f"40 to 4 {r / 1e9:g}": (switch, {"rate": r, "start": 40, "end": 4})
       for r in (2e9, 8e9, 15e9)},
    "frames": (frames, {}),
    **{f"sparse {r / 1e9:g}": (sparse, {"rate": r}) for r in (10e9, 1e9, 100e6)},
    **{f"flood {n // 1000}": (flood, {"flows": n}) for n in (20000, 60000, 500000)},
    "after flood": (after_flood, {}),
    **{f"tins {n}": (tins, {"queues": n}) for n in (1, 2, 4, 40)},
    **{f"writes {n}": (saturated, {"rate": 10e9, "queues": n, "seconds": 0.4})
       for n in (4, 256)},
    "writes 8 of 256": (saturated, {"rate": 10e9, "queues": 8, "seconds": 0.4,
                                    "unused": 248}),
    **{f"spread {n}": (spread, {"count": n}) for n in (1, 2, 3, 4)},
    "spread apart": (spread, {"count": 1, "apart": True}),
    "spread whole": (spread, {"count": 1, "size": 64000, "options": "no-split-gso"}),
    "left alone": (left_alone, {}),
    "beside": (beside, {}),
    "busy": (busy, {}),
    MODES: (modes, {}),
    "gso split": (gso, {"options": "split-gso"}),
    "gso whole": (gso, {"options": "no-split-gso"}),
    "fill": (fill, {"load": 0.7}),
    "rate changes": (disturbed, {"what": "rate changes"}),
    "link flaps": (disturbed, {"what": "link flaps"}),
    "rate up": (rate_up, {}),
    "stopped": (stopped, {"rate": 1e9}),
    **{f"ingress {load}": (ingress, {"load": load}) for load in UNRESPONSIVE},
    "beside drops": (beside_drops, {}),
    **{f"drops, {end}": (after_drops, {"end": end}) for end in ("egress", "reset")},
    **{f"long round {n}": (long_round, {"queues": n, "size": size, "gap": gap})
       for n, size, gap in ((32, 214, 17e-3), (16, 400, 20e-3))},
    "other mtu": (other_mtu, {}),
    "requeued": (requeued, {}),
    "hung": (hung, {}),
    ROOM: (room, {}),
    **{name: (mixed, {"loads": loads}) for name, loads in zip(
        MIXED, ([{}] * 8, [paced(8e9), paced(2e9)]), strict=True)},
    **{f"slow timers {n}": (saturated, {"rate": 1e9, "queues": 8, "depth": n})
       for n in (256, 1024)},
    **{f"flows 16/8 {rate / 1e6:g}": (flows, {"rate": rate, "queues": 8, "where": CROWD})
       for rate in (200e6, 1e9)},
    **{f"flows {count}/{queues}": (flows, {"rate": 1e9, "queues": queues,
                                           "where": scattered(count, queues)})
       for count in (64, 257) for queues in (8, 40)},
    **{name: (parts, {"name": name}) for name in PARTS},
    "thousand": (thousand, {}),
    "crowded": (crowded, {}),
    **{f"new {what}": (arrival, {"what": what}) for what in ("flow", "host")},
    "one of eight": (one_of_eight, {}),
    "one of eight stall": (one_of_eight, {"stall": 200e-6}),
    "moved": (moved, {}),
    "recounted": (recounted, {}),
    **{f"waits {rate / 1e6:g} {queues}": (
        waits, {"rate": rate, "queues": queues, "each": each})
       for rate, queues, each in ((1e6, 8, 1), (10e6, 8, 1), (100e6, 8, 4), (100e6, 64, 1))},
}
CAKE_MQ = [name for name in SCENARIOS if name not in (MODES, ROOM, *MIXED)]
# In a guest of their own, whose timers come with the clock tick, every 10 ms
SLOW_TIMERS = [name for name in SCENARIOS if name.startswith("slow timers")]


def guest(spec: dict) -> Iterator[dict]:
    """Run the scenarios of a spec, yield the row of each. Runs in the guest."""
    bed = Bed(spec["contender"])
    for name in spec["scenarios"]:
        run, args = SCENARIOS[name]
        yield {"scenario": name, **run(bed, **args)}
    bed.close()


# ------------------------------------------------------------- host side

# Kernels: the unpatched one, the one without a rate group, the one with all series.
COLUMNS = ("base", KERNEL.upto("1")[-1].folder, "patched")


class Row:
    """A figure of the table: what of which scenarios, its unit, how good it must be.

    cells: {label: (scenario, key)}. bound: what each cell may be at most (at
    least, if at_least), one for all or one each, in the unit shown; None: shown,
    not judged. scale: what to multiply with to get to that unit.
    """

    def __init__(self, title: str, cells: dict, bound: Any, scale: float = 1, form: str = "{:.4f}",
                 at_least: bool = False) -> None:
        self.title, self.cells, self.scale, self.form = title, cells, scale, form
        self.bounds = bound if isinstance(bound, tuple) else (bound,) * len(cells)
        self.at_least = at_least

    def value(self, label: str, figures: dict, contender: str = "") -> float | None:
        """A cell in the unit shown; None where a kernel or contender does not have it."""
        name, key = self.cells[label]
        found = figures.get(contender + name, {}).get(key)
        return None if found is None else found * self.scale

    def text(self, label: str, figures: dict, contender: str = "") -> str:
        """A cell as it is printed."""
        value = self.value(label, figures, contender)
        if value is None or value == float("inf"):
            return "-"
        return self.form.format(value)

    def good(self, label: str, bound: float | None, figures: dict, contender: str = "") -> bool:
        """Is a cell within its bound?"""
        value = self.value(label, figures, contender)
        if bound is None or value is None:
            return bound is None
        return value >= bound if self.at_least else abs(value) <= bound


def several(names: Sequence[str], key: str, form: str = "{}") -> dict[str, tuple[str, str]]:
    """Cells of scenarios whose names differ in a number: "form" of it is the label."""
    return {form.format(name.split()[-1]): (name, key) for name in names}


def fair_rows(size: dict) -> list[Row]:
    """The part of the table about flows, hosts and tins over all queues of a group.

    size: how build_rows() shows bytes.
    """
    crowds = {"16 of 8, 200 Mbit": "flows 16/8 200", "16 of 8, 1 Gbit": "flows 16/8 1000",
              **{f"{n} of {q}, 1 Gbit": f"flows {n}/{q}" for n in (64, 257) for q in (8, 40)}}
    hosts = {**{f"1 flow, 15, {mode}": f"hosts {mode}"
                for mode in ("dual-srchost", "dual-dsthost", "triple-isolate", "hosts")},
             **{f"all on a queue, on all, {mode}": f"packed {mode}"
                for mode in ("dual-srchost", "triple-isolate")}}
    within = {key: {label: (name, key) for label, name in crowds.items()}
              for key in ("jain", "lowest", "highest")}
    places = {"1 Mbit, 8 queues": "waits 1 8", "10 Mbit, 8 queues": "waits 10 8",
              "100 Mbit, 8 queues": "waits 100 8", "100 Mbit, 64 queues": "waits 100 64"}
    kept = [name for name in PARTS if name.startswith(("diffserv3", "diffserv4"))]
    lost = [name for name in PARTS if name.startswith(("diffserv8", "precedence"))]
    lost.append(kept.pop())
    percent = {"form": "{:.2f}"}
    return [
        Row("flows on queues at random: Jain's index over flows", within["jain"], 0.99,
            form="{:.5f}", at_least=True),
        Row("the same: lowest flow, off the mean by %", within["lowest"], 3, **percent),
        Row("the same: highest flow, off the mean by %", within["highest"], 3, **percent),
        Row("2 hosts, 1 Gbit, 8 queues: off root cake by, points",
            {label: (name, "off") for label, name in hosts.items()}, 2, **percent),
        Row("hosts of 1 and 1000 flows, 1 Gbit, 8 queues: the first gets, %",
            {"dual-srchost": ("thousand", "one"),
             "the same, cake at the root": ("thousand", "root_one")}, (49, None), **percent,
            at_least=True),
        Row("tins on queues of their own: off root cake by, points",
            {name: (name, "off") for name in kept}, 2, **percent),
        Row("tins whose priority ends at the queue: the same",
            {name: (name, "off") for name in lost}, None, **percent),
        Row("8 flows on 8 queues, 50 Mbit of light flows on one: off the mean by %",
            {"1 Gbit, lowest": ("crowded", "lowest"), "1 Gbit, highest": ("crowded", "highest")},
            3, **percent),
        Row("new flow or host, 1 Gbit: ms to 90 % of its share",
            {"beside 16 flows": ("new flow", "rise_s"),
             "beside a host with 15 flows": ("new host", "rise_s")}, 10, 1e3, "{:.0f}"),
        Row("500 flows on one of 8 queues: the next hop has to queue, KB",
            {"1 Gbit": ("one of eight", "excess"),
             "1 Gbit, transmits late by 200 us": ("one of eight stall", "excess")},
            64, **size),
        Row("a flow moves to another queue: 100 ms after, off by %",
            {"1 Gbit, 8 flows, the others": ("moved", "others"),
             "1 Gbit, 8 flows, that one": ("moved", "moved")}, (3, None), **percent),
        Row("14 of a host's 15 flows end in another flow mode: the last gets, % (50)",
            {"1 Gbit, host of one flow beside it": ("recounted", "gets"),
             "the same, cake at the root": ("recounted", "root_gets")}, 49, form="{:.1f}",
            at_least=True),
        Row("sparse flow: p99 wait, times that below root cake",
            {label: (name, "of_root") for label, name in places.items()}, 2, **percent),
        Row("16 TCP flows on 8 queues, 200 Mbit: Jain's index",
            {"5 to none on each": ("tcp flows", "jain"),
             "5 to none on each, cake at the root": ("root tcp flows", "jain")}, (0.98, None),
            form="{:.5f}", at_least=True),
        Row("the same: off the mean by %",
            {"lowest": ("tcp flows", "lowest"), "highest": ("tcp flows", "highest")}, 10,
            **percent),
        Row("hosts of 1 and 15 TCP flows: off root cake by, points",
            {"200 Mbit, dual-srchost, RTT 5 ms": ("tcp hosts near", "off"),
             "200 Mbit, dual-srchost, RTT 20 ms": ("tcp hosts", "off")}, (2, 6), **percent),
        Row("UDP echo beside TCP flows, 8 queues, 1 Gbit: p50, us",
            {**several([f"crowd {n}" for n in CROWDS], "p50_us", "{}"),
             **several([f"root crowd {n}" for n in CROWDS], "p50_us", "{}, cake at the root")},
            None, form="{:.1f}"),
        Row("the same: p99, us",
            {**several([f"crowd {n}" for n in CROWDS], "p99_us", "{}"),
             **several([f"root crowd {n}" for n in CROWDS], "p99_us", "{}, cake at the root")},
            (23,) * len(CROWDS) + (None,) * len(CROWDS), form="{:.1f}"),
    ]


def rate_rows() -> list[Row]:
    """How well the rate is kept, and shared."""
    accuracy = {label: f"saturated {r}" for label, r in (
        ("10 Mbit", "0.01"), ("100 Mbit", "0.1"), ("1 Gbit", "1"), ("10 Gbit", "10"),
        ("20 Gbit", "20"), ("100 Gbit", "100"))}
    uneven_loads = {
        "8 + 2 Gbit on two queues, 10 Gbit": "80/20",
        "24 queues, 16 double load, 20 Gbit": "16 of 24 double",
        "elephant + 39 mice of 5 kpps, 5 Gbit": "elephant + 39 mice",
        "Zipf over 40 queues, 15 of 10 Gbit": "zipf",
        "the same, half of them 2 ms on, 2 off": "zipf on/off",
        "39 of 12 Mbit + 1 saturated, 10 Gbit": "39 light"}
    return [
        Row("40 queues saturated: off the rate by, %",
            {label: (n, "deviation") for label, n in accuracy.items()}, 0.005),
        Row("the same: Jain's index of fairness",
            {label: (n, "jain") for label, n in accuracy.items()}, 0.9999,
            form="{:.5f}", at_least=True),
        Row("uneven loads: off the rate by, %",
            {label: (n, "deviation") for label, n in uneven_loads.items()}, 0.01),
        Row("8 queues with 300 us bursts + 1 saturated: off the rate by, %",
            {"10 Gbit": ("bursts", "deviation")}, 0.05),
        Row("2 saturated + one that offers 10 %: furthest from 45/45/10, %",
            {"10 Gbit": ("45/45/10", "off")}, 0.1),
    ]


def switch_rows(size: dict) -> list[Row]:
    """Queues that become busy or idle, frames of three lengths, a sparse queue."""
    return [
        Row("4 queues become 40: the next hop has to queue, KB",
            several([f"switch {r}" for r in (2, 8, 15)], "excess", "{} Gbit"),
            (8, 8, 16), **size),
        Row("the same, started over 1 ms, KB",
            several([f"stagger {r}" for r in (2, 8, 15)], "excess", "{} Gbit"), 16, **size),
        Row("40 queues become 4: the next hop has to queue, KB",
            several([f"40 to 4 {r}" for r in (2, 8, 15)], "excess", "{} Gbit"),
            4.1, **size),
        Row("frames of 300, 1514 and 9000 bytes: Jain's index",
            {"10 Gbit": ("frames", "jain")}, 0.999, form="{:.5f}", at_least=True),
        Row("sparse queue beside 39 saturated: mean wait, times that a frame takes",
            several([f"sparse {r}" for r in (0.1, 1, 10)], "frames", "{} Gbit"), 1,
            form="{:.2f}"),
    ]


def flood_rows(size: dict) -> list[Row]:
    """Many new flows."""
    floods = [f"flood {n}" for n in (20, 60, 500)]
    return [
        Row("new one-packet flows, 32 saturated queues, 1 Gbit: next hop has to queue, KB",
            several(floods, "excess", "{} k/s"), (16, 16, 24), **size),
        Row("the same: saturated queue furthest from its share, %",
            several(floods, "bulk_off", "{} k/s"), (5, 5, 25), form="{:.2f}"),
        Row("the same: p99 wait of the new flows, us",
            several(floods, "small_p99", "{} k/s"), None, 1e6, "{:.0f}"),
        Row("after such a flood on one queue, 1 s: its bulk flow resumes after, ms",
            {"160 k/s": ("after flood", "silent_s")}, 250, 1e3, "{:.0f}"),
    ]


def tin_rows() -> list[Row]:
    """Best effort and EF on the same queues."""
    return [
        Row("diffserv4, best effort and EF saturated: off 75/25 by, %",
            several([f"tins {n}" for n in (1, 2, 4, 40)], "off", "number of queues: {}"), 2,
            form="{:.2f}"),
        Row("EF on some of 4 queues, best effort on all: EF off 25 % of the rate by, points",
            {**several([f"spread {n}" for n in (1, 2, 3, 4)], "ef_off", "on {}: off by"),
             "on 1 that has nothing else: off by": ("spread apart", "ef_off"),
             "on 1, 64 KB GSO, not split: off by": ("spread whole", "ef_off")}, 0.75,
            form="{:.2f}"),
        Row("diffserv8, best effort beside AF41, sibling stopped: best effort gets, % (33)",
            {"2 queues, 100 Mbit": ("left alone", "best_effort")}, 30, form="{:.1f}",
            at_least=True),
        Row("best effort on the queue of a greedy EF flow: p99 wait",
            {"us, with that at the next hop": ("beside", "p99_us"),
             "times that below cake at the root": ("beside", "of_root")}, (None, 2),
            form="{:.1f}"),
    ]


def change_rows(size: dict) -> list[Row]:
    """GSO, other rates, a link that goes down and up."""
    return [
        Row("64 KB GSO on 4 queues, 5 Gbit: off the rate by, %",
            several(["gso split", "gso whole"], "deviation"), 0.01),
        Row("the same: the next hop has to queue, KB",
            several(["gso split", "gso whole"], "excess"), (16, None), **size),
        Row("1 and 2 Gbit in turn, 1000 changes a second: off the mean by, %",
            {"8 queues": ("rate changes", "deviation")}, 1),
        Row("the same: the next hop at 2 Gbit has to queue, KB",
            {"8 queues": ("rate changes", "excess")}, 16, **size),
        Row("the rate becomes 1000 times as much, soon after: off by, %",
            {"8 queues, 1 Mbit to 1 Gbit": ("rate up", "deviation")}, 0.5),
        Row("after 30 times link down and up under load: off by, %",
            {"8 queues, 1 Gbit": ("link flaps", "deviation")}, 0.005),
    ]


def ingress_rows() -> list[Row]:
    """Ingress mode with loads that ignore drops."""
    return [
        Row("ingress mode, 1.5 Gbit that ignores drops: passes of 1 Gbit, %",
            {"4 queues of the same load": ("ingress even", "passed"),
             "4 queues, 1 Gbit on one": ("ingress uneven", "passed")}, (66.8, 83.5),
            form="{:.1f}"),
        Row("the same, 2 Gbit, 50 ms on and 75 off",
            {"4 queues": ("ingress on/off", "passed")}, 39, form="{:.1f}", at_least=True),
        Row("ingress mode, EF beside best effort that ignores drops: gets, Mbit",
            {"2 queues, 20 of 100 Mbit": ("beside drops", "ef_bps")}, 19.8, 1e-6, "{:.2f}",
            at_least=True),
        Row("the same: p99 wait, ms",
            {"2 queues, 20 of 100 Mbit": ("beside drops", "p99")}, 2, 1e3, "{:.2f}"),
        Row("soon after such a load, 100 Mbit: off the rate by, %",
            {"4 queues, ingress mode has ended": ("drops, egress", "deviation"),
             "4 queues, the link was down": ("drops, reset", "deviation")}, 0.5,
            form="{:.2f}"),
    ]


def rare_rows(size: dict) -> list[Row]:
    """Sparse flows at a low rate, and what happens seldom."""
    return [
        Row("sparse flow on one of many busy queues, 10 Mbit: is missing, %",
            {"32 queues, 214 bytes": ("long round 32", "missing"),
             "16 queues, 400 bytes": ("long round 16", "missing")}, 0.1, form="{:.1f}"),
        Row("the same: p99 wait, ms",
            {"32 queues, 214 bytes": ("long round 32", "p99"),
             "16 queues, 400 bytes": ("long round 16", "p99")}, 5, 1e3, "{:.1f}"),
        Row("MTU from 9000 to 1500, two packets on one of many: p99 wait, ms",
            {"32 queues, 10 Mbit": ("other mtu", "p99")}, 100, 1e3, "{:.0f}"),
        Row("64 frames arrive behind a requeued packet: the next hop has to queue, KB",
            {"cake_mq, 1 Gbit": ("requeued", "excess"),
             "mq + tbf shared, 1 Gbit": ("mq + tbf shared: requeued", "excess")},
            (16, 32), **size),
        Row("a TX queue hangs, 7 have bursts at once: the next hop has to queue, KB",
            {"cake_mq, 10 Gbit": ("hung", "excess"),
             "mq + tbf shared, and it was emptied": ("mq + tbf shared: hung", "excess")},
            (24, 48), **size),
        Row("EF on one of 4 queues that were of 4 modes: off 25 % by, points",
            {"mq + cake shared, 2350 Mbit: off by": (f"mq + cake shared: {ROOM}", "ef_off"),
             "CS1 on two, % (6.25): off by": (f"mq + cake shared: {ROOM}", "cs1_off")},
            0.75, form="{:.2f}"),
    ]


def timer_rows(size: dict) -> list[Row]:
    """Timers and queues that are late."""
    return [
        Row("timers of 10 ms instead of high resolution: off the rate by, %",
            several([f"slow timers {n}" for n in (256, 1024)], "deviation",
                    "8 queues, 1 Gbit, {} packets each"), 2.5, form="{:.1f}"),
        Row("the same: Jain's index",
            several([f"slow timers {n}" for n in (256, 1024)], "jain",
                    "8 queues, 1 Gbit, {} packets each"), None, form="{:.2f}"),
        Row("one busy queue, stopped for 5 ms at random: off the rate by, %",
            {"8 queues, 1 Gbit": ("stopped", "deviation")}, None, form="{:.1f}"),
        Row("the same: the next hop has to queue, KB",
            {"8 queues, 1 Gbit": ("stopped", "excess")}, 160, **size),
    ]


def cost_rows() -> list[Row]:
    """What the statistics say, and what sharing costs."""
    return [
        Row("5 of 8 queues busy: active queues in the statistics, off by",
            {"cake_mq, 1 Gbit": ("busy", "active_off"),
             "mq + tbf shared, 1 Gbit": ("mq + tbf shared: busy", "active_off")}, 0,
            form="{}"),
        Row("writes to the shared line, 10 Gbit saturated, k/s",
            {"4 queues": ("writes 4", "writes"), "40 queues": ("saturated 10", "writes"),
             "256 queues": ("writes 256", "writes"),
             "8 of 256 queues": ("writes 8 of 256", "writes")}, (210, 210, 830, 210), 1e-3,
            "{:.0f}"),
        Row("4.4 Mpps of 200 bytes, 70 % of 10 Gbit: writes per packet",
            {"40 queues": ("fill", "writes_per_packet")}, None, form="{:.2f}"),
        Row("the same: p99 wait, us", {"40 queues": ("fill", "p99")}, None, 1e6, "{:.1f}"),
    ]


def flow_rows() -> list[Row]:
    """TCP and UDP flows."""
    return [
        Row("UDP echo beside 64 TCP flows, 1 Gbit: p99 above the RTT, us",
            several([f"echo {n}" for n in (4, 8, 32)], "p99_us", "{} queues"), 23,
            form="{:.1f}"),
        Row("the same over 8 queues, us",
            {"100 Mbit": ("echo slow", "p99_us"), "5 Gbit": ("echo fast", "p99_us")},
            (1440, 24), form="{:.1f}"),
        Row("the same at 1 Gbit, with the wait at the next hop, us",
            {"32 queues": ("echo hop", "p99_us")}, 64, form="{:.1f}"),
        Row("lone TCP flow beside 31 busy queues: ms to 90 % of its share",
            {"1 Gbit, fastest of 5 starts": ("lone", "fastest_ms"),
             "1 Gbit, slowest of 5 starts": ("lone", "slowest_ms")}, (130, None),
            form="{:.0f}"),
        Row("one priority flow on one of 4 queues, 2350 Mbit: Mbit",
            {f"{label}, {kind.upper()}": (f"{name} {kind}", "priority_bps")
             for name, (label, _) in PRIORITY.items() for kind in ("tcp", "udp")},
            None, 1e-6, "{:.0f}"),
        Row("the same: of what it gets below cake at the root, %",
            {f"{label}, {kind.upper()}": (f"{name} {kind}", "of_root")
             for name, (label, _) in PRIORITY.items() for kind in ("tcp", "udp")},
            97, form="{:.1f}", at_least=True),
    ]


def other_rows(size: dict) -> list[Row]:
    """The same group by other means."""
    return [
        *(row for contender, (cells, excess) in ALSO.items() for row in (
            Row(f"{contender}: off the rate by, %",
                {label: (f"{contender}: {name}", "deviation")
                 for label, (name, _) in cells.items()},
                tuple(bound for _, bound in cells.values())),
            Row("the same: 4 queues become 40, KB",
                {"8 Gbit": (f"{contender}: switch 8", "excess")}, excess, **size))),
    ]


def build_rows() -> list[Row]:
    """The table, in order."""
    size = {"scale": 1e-3, "form": "{:.1f}"}
    return [*rate_rows(), *switch_rows(size), *flood_rows(size), *tin_rows(),
            *change_rows(size), *fair_rows(size), *ingress_rows(), *rare_rows(size),
            *timer_rows(size), *cost_rows(), *flow_rows(), *other_rows(size)]


PRIORITY = {  # scenario: (label, what of tcp.priority() it changes)
    "cs5": ("CS5, diffserv4", {}),
    "cs5-8": ("CS5, diffserv8", {"options": "diffserv8"}),
    # where CS5 is best effort
    "ef-3": ("EF, diffserv3", {"options": "diffserv3", "tos": EF}),
}
# Contenders that make up the same group by other means: by label, what they run that has a
# deviation, and how far they may be off; how much the next hop may have to queue
ALSO = {
    "mq + cake shared": ({"8 + 2 Gbit": ("80/20", 0.01),
                          "40 saturated, 10 Gbit": ("saturated 10", 0.005),
                          "4 queues of 4 modes, 1 Gbit": (MODES, 0.01),
                          "8 saturated, 4 of them tbf, 10 Gbit": (MIXED[0], 0.01),
                          "8 Gbit by cake + 2 Gbit by tbf": (MIXED[1], 0.01)}, 8),
    "mqprio + cake shared": ({"8 + 2 Gbit": ("80/20", 0.01),
                              "40 saturated, 10 Gbit": ("saturated 10", 0.005)}, 8),
    "mq + tbf shared": ({"8 + 2 Gbit": ("80/20", 0.25),
                         "40 saturated, 10 Gbit": ("saturated 10", 0.25)},
                        8 + 16),  # with its burst
}
ROWS = build_rows()


def also_run() -> dict[str, list[str]]:
    """{contender of ALSO: the scenarios of ROWS that are its own}."""
    own = [name.split(": ") for row in ROWS for name, _ in row.cells.values() if ": " in name]
    return {contender: [name for c, name in own if c == contender] for contender in ALSO}


def tcp_cases(slow: bool = False) -> dict[str, dict]:
    """{name: case of lab/load/tcp.py}; of "lone" there are several starts.

    slow: with those of CROWDS, which take some minutes.
    """
    cases = {f"echo {n}": tcp.echo("cake_mq", n, 1e9) for n in (4, 8, 32)}
    cases["echo slow"] = tcp.echo("cake_mq", 8, 100e6, warm_us=1_500_000,
                                  window_us=2_000_000, probe_us=9973, probes=8)
    cases["echo fast"] = tcp.echo("cake_mq", 8, 5e9, warm_us=300_000, window_us=200_000,
                                  probe_us=397)
    cases["echo hop"] = tcp.echo("cake_mq", 32, 1e9, next_hop_bps=1e9)
    for number, (settle, stagger) in enumerate(
            ((500_000, 300), (503_000, 300), (511_000, 310), (507_000, 290), (505_000, 305))):
        cases[f"lone {number}"] = tcp.lone("cake_mq", settle_us=settle, stagger_us=stagger,
                                           length_us=250_000)
    for prefix, contender in (("", "cake_mq"), ("root ", "cake")):
        cases[f"{prefix}tcp flows"] = tcp.fair(contender, CROWDED, options="besteffort flows")
        for name, rtt in (("tcp hosts", 20_000), ("tcp hosts near", 5_000)):
            cases[f"{prefix}{name}"] = tcp.fair(
                contender, (0,) * 8, hosts={1: (4, *CROWDED[1:]), 2: (0, 0, 0, 1)},
                options="besteffort dual-srchost", rtt_us=rtt, window_us=10_000_000)
        for count in CROWDS:
            if slow or not is_slow(f"{prefix}crowd {count}"):
                cases[f"{prefix}crowd {count}"] = tcp.echo(
                    contender, 8, 1e9, flows=count, probes=8, warm_us=1_200_000,
                    window_us=800_000)
    for name, (_, what) in PRIORITY.items():
        for kind in ("tcp", "udp"):
            cases[f"{name} {kind}"] = tcp.priority("cake_mq", kind, **what)
            cases[f"root {name} {kind}"] = tcp.priority("cake", kind, **what)
    return cases


def built(which: str) -> tuple[str, str | Path]:
    """(Folder, path of lab/load/hop's module) of a kernel: its name, or a folder with both."""
    if "/" in which:
        return which, f"{which}/hop.ko"
    return kernel.KERNELS[which].out, kernel.module(which)


def measure(which: str, patterns: Sequence = (), on_row: Callable | None = None,
            everything: bool = False, slow: bool = False) -> dict[str, dict]:
    """{scenario: figures} of one kernel, two guests at a time.

    patterns: only scenarios whose name contains one of these, if any. everything: run
    all scenarios with all contenders. slow: those of CROWDS as well.
    """
    folder, ko = built(which)
    allowed = kernel.known_splats(which)
    results = {}
    start = time.monotonic()

    def wanted(name):
        return not patterns or any(p in name for p in patterns)

    def keep(name, row):
        results[name] = row
        if on_row:
            on_row(name, row, time.monotonic() - start)

    def load(job, contender, names, **more):
        label = f"{contender}: " if contender != "cake_mq" else ""
        names = [n for n in names if wanted(label + n)]
        if names:
            boot_script(folder, f"scenarios-{Path(which).name}-{job}", "load.scenarios",
                        {"contender": contender, "scenarios": names}, hop=ko,
                        allowed=allowed, virtual=True, timeout=900, **more,
                        on_row=lambda row: keep(label + row.pop("scenario"), row))

    def flows(job, cases):
        names = [n for n in cases if wanted(n)]
        rest = iter(names)
        if names:
            tcp.run(folder, f"scenarios-{Path(which).name}-{job}", [cases[n] for n in names],
                    lambda row: keep(next(rest), row), allowed=allowed)

    cases = tcp_cases(slow)
    names = [name for name in CAKE_MQ if name not in SLOW_TIMERS]
    jobs = [(load, ("load0", "cake_mq", names[0::3])), (load, ("load1", "cake_mq", names[1::3])),
            (load, ("load2", "cake_mq", names[2::3])),
            (partial(load, params=("highres=off",)), ("slow", "cake_mq", SLOW_TIMERS)),
            (flows, ("tcp0", dict(list(cases.items())[0::2]))),
            (flows, ("tcp1", dict(list(cases.items())[1::2])))]
    jobs += [(load, (f"also{number}", contender, names if everything else own))
             for number, (contender, own) in enumerate(also_run().items())
             if kernel.shares(which, contender)]
    with ThreadPoolExecutor(2) as pool:
        for job in [pool.submit(function, *args) for function, args in jobs]:
            job.result()
    derive(results)
    return results


def derive(figures: dict) -> None:
    """Add what is calculated from several figures, drop what nothing shows."""
    lone = [figures.pop(n).get("rise_ms") for n in sorted(figures) if n.startswith("lone ")]
    if lone:
        reached = [value if value is not None else float("inf") for value in lone]
        figures["lone"] = {"fastest_ms": min(reached), "slowest_ms": max(reached),
                           "all_ms": lone}
    for name, row in figures.items():
        for key in ("groups", "options", "echo", "probes", "warm_us", "window_us", "qdisc",
                    "scenario"):
            row.pop(key, None)
        bare = name.rpartition(": ")[2]
        if bare.startswith("tins "):
            row["off"] = row["best_effort"] - 75
        if bare.startswith("spread ") or bare == ROOM:
            row["ef_off"] = row["ef"] - 25
        root = figures.get(f"root {name}", {})
        if "priority_bps" in root:
            row["of_root"] = 100 * row["priority_bps"] / root["priority_bps"]
        if "host_bps" in root:
            here, there = ({host: 100 * bps / sum(one["host_bps"].values())
                            for host, bps in one["host_bps"].items()} for one in (row, root))
            row["off"] = max(abs(here[host] - there[host]) for host in here)
        if bare == "fill" and "writes" in row:
            row["writes_per_packet"] = row["writes"] / row["packets"]


def table(results: dict) -> list[str]:
    """The rows as lines of text; results: {kernel: figures}."""
    lines = [f"{'':<42}{'stock':>12}{'series 1':>12}{'all':>12}{'bound':>12}"]
    for row in ROWS:
        lines.append(row.title)
        for label, bound in zip(row.cells, row.bounds):
            told = "" if bound is None else f"{'>= ' if row.at_least else ''}{bound:g}"
            lines.append(f"    {label:<38}" + "".join(
                f"{row.text(label, results.get(which, {})):>12}" for which in COLUMNS)
                + f"{told:>12}")
    return [line.rstrip() for line in lines]


def also_table(figures: dict) -> tuple[list[str], list[str]]:
    """(lines of text, what is wrong): all scenarios with each contender in turn."""
    wide = max(map(len, ALSO)) + 2
    lines = [f"{'':<42}{'cake_mq':>12}" + "".join(f"{c:>{wide}}" for c in ALSO)]
    wrong = []
    for row in ROWS:
        there = [label for label in row.cells if any(
            row.value(label, figures, f"{c}: ") is not None for c in ALSO)]
        lines += [row.title] * bool(there)
        for label in there:
            lines.append(f"    {label:<38}{row.text(label, figures):>12}" + "".join(
                f"{row.text(label, figures, f'{c}: '):>{wide}}" for c in ALSO))
        for label, own in zip(row.cells, row.bounds):
            for c in ALSO:
                bound = own
                if "tbf" in c and own is not None:  # promised the rate, and no more
                    bound = 0.25 if row.cells[label][1] == "deviation" else None
                if label in there and not row.good(label, bound, figures, f"{c}: "):
                    wrong.append(f"{c}: {row.title}, {label}: "
                                 f"{row.text(label, figures, f'{c}: ')}, bound {bound:g}")
    return lines, wrong


def is_slow(name: str) -> bool:
    """Whether a scenario takes minutes, so that make demo shows what is recorded of it."""
    return name.removeprefix("root ").startswith("crowd ") and name != "crowd 256"


def stored() -> dict:
    """{kernel: figures} of results/scenarios.json."""
    return json.loads(RESULTS.read_text())["kernels"] if RESULTS.exists() else {}


def store(results: dict) -> None:
    """Write {kernel: figures}."""
    result_file(RESULTS.name).write_text(json.dumps(
        {"what": "scenarios in virtual time; rates in bit/s, waits in s or as the name "
         "says, excess in bytes", "kernels": results}, indent=1) + "\n")


def compare() -> dict:
    """Measure the unpatched kernel and the one without a rate group; stored() with that."""
    results = stored()
    for which in COLUMNS[:2]:
        kernel.build(which)
        say(f"the scenarios on kernel '{which}' (about 4 min)")
        results[which] = measure(which, slow=True)
        store(results)
        say("all scenarios with all that share a rate (about 8 min)")
    figures = measure("patched", everything=True, slow=True)
    results["everything"] = figures
    results["patched"].update({name: row for name, row in figures.items() if is_slow(name)})
    store(results)
    lines, wrong = also_table(figures)
    print("\n".join(["", *lines]))
    if wrong:
        raise Die(f"{len(wrong)} figures are out of their bounds: " + "; ".join(wrong))
    return results


def main(results: dict) -> None:
    """Measure the patched kernel, print the table, judge it; results: of the others."""
    count = len(CAKE_MQ) + len(tcp_cases()) + sum(map(len, also_run().values()))
    done = []

    def progress(_name, _row, _seconds):
        done.append(1)
        if sys.stdout.isatty():
            print(f"\r{len(done)} of {count} loads", end="", flush=True)

    say("loads that hurt, in virtual time on real kernel code (about 90 s)")
    slow = {name: row for name, row in results.get("patched", {}).items() if is_slow(name)}
    results["patched"] = {**measure("patched", on_row=progress), **slow}
    store(results)
    print("\n".join(["", *table(results)]))
    judged = [(row, label, bound) for row in ROWS
              for label, bound in zip(row.cells, row.bounds) if bound is not None]
    wrong = [f"{row.title}, {label}: {row.text(label, results['patched'])}, bound {bound:g}"
             for row, label, bound in judged
             if not row.good(label, bound, results["patched"])]
    for line in wrong:
        print("FAIL " + line)
    print(f"{len(judged) - len(wrong)} passed, {len(wrong)} failed")
    if wrong:
        raise Die(f"{len(wrong)} figures are out of their bounds, the first: {wrong[0]}")
    record_time("demo")


def raw(argv: Sequence[str]) -> None:
    """lab scenarios: some figures of a kernel, as they come; nothing is stored."""
    parser = command_line("scenarios", __doc__)
    parser.add_argument("kernel", help="its name, or a folder that has it and hop.ko")
    parser.add_argument("pattern", nargs="*", help="what a scenario's name contains (all)")
    args = parser.parse_args(argv)
    measure(args.kernel, args.pattern, lambda name, row, s: print(
        f"{s:6.1f} {name}: " + json.dumps(row)[:300], flush=True))
