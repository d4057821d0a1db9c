# SPDX-License-Identifier: GPL-2.0
"""Loads that hurt, in virtual time, on the unpatched kernel and on the series.

Each scenario drives the device hop0 (lab/load/hop.py) and returns figures; ROWS says
which of them the table shows, in which unit and within which bound. Rates are in
bit/s, times in seconds, sizes in bytes unless a name says otherwise.
"""

import itertools
import random
import re
import threading
import time
from collections.abc import Callable, Container, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

from guest.boot import boot_script
from tree import kernel

from load import tcp
from load.hop import NAME, Hop
from load.traffic import FRAME, active_queues, command, contender_lines, tc

COUNTER = "/sys/module/sch_rate_group/parameters/shared_writes"
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


def wakeups() -> int:
    """Runs of the softirq that sends what was queued, since boot."""
    with open("/proc/softirqs", encoding="ascii") as file:
        return int(re.search(r"NET_TX: *(\d+)", file.read())[1])


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
            "waits": [s["delay"]["mean"] for s in got["streams"]]}


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
    return {"frames": got["waits"][0] / (FRAME * 8 / rate), "wait": got["waits"][0],
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


def left_alone(bed: Bed, rate: float = 100e6) -> dict:
    """Best effort and AF41 of diffserv8, whose thresholds are 7/8 and 2/3 of the rate, on one
    queue; a sibling is busy for a second, or for as many packets. What best effort gets, %,
    afterwards."""
    begin = 100e6 / rate
    hop = bed.prepare(rate, 2, "diffserv8")
    hop.stream(0)
    hop.stream(0, tos=TOS["AF41"])
    hop.stream(1, stop=begin)
    hop.meter(rate, from_s=1.05 * begin)
    got = hop.run(1.25 * begin)
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


def fill(bed: Bed, load: float, queues: int = 40, size: int = 200, options: str = "") -> dict:
    """Poisson arrivals at a part of the rate: what is below the rate must pass."""
    rate = 10e9
    hop = bed.prepare(rate, queues, options)
    for q in range(queues):
        hop.stream(q, mode="poisson", rate=load * rate / queues, size=size)
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


def below(bed: Bed, load: float, tos: int = 0) -> dict:
    """One of two queues sends less than the rate, in packets that make its flow a bulk flow:
    how often a timer is used for that."""
    hop = bed.prepare(1e9, 2)
    hop.stream(0, mode="paced", rate=load, tos=tos)
    hop.meter(1e9)
    before = wakeups()
    got = hop.run(0.3)
    return {"timers": (wakeups() - before) / got["packets"]}


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


def late(bed: Bed, rate: float = 1e9, busy: int = 1, **faults: float) -> dict:
    """So many of eight queues are saturated while the device stalls or stops queues: how far
    off the rate they are, %, and what a next hop has to queue, bytes.

    faults: of Hop.faults().
    """
    hop = bed.prepare(rate, 8)
    for q in range(busy):
        hop.stream(q, depth=1024)
    hop.meter(rate, from_s=0.2)
    hop.faults(**faults)
    got = hop.run(2.2)
    hop.faults()
    return {"deviation": deviation(got, rate), "excess": got["excess"]["bytes"],
            "stalls": got["stalls"], "stops": got["stops"]}


def video(bed: Bed, rate: float) -> dict:
    """Video in bursts of nine frames, at 45 % of the rate, on one queue, CS1 saturated on
    another, no best effort: how far off the rate they are, %."""
    hop = bed.prepare(rate, 2, "diffserv4")
    hop.stream(0, tos=TOS["AF41"], **burst(9, 1e-6, 9 * FRAME * 8 / (0.45 * rate)))
    hop.stream(1, tos=TOS["CS1"])
    hop.meter(rate, from_s=0.05)
    return {"deviation": deviation(hop.run(0.25), rate)}


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
    """Four saturated queues, each with tins of its own kind."""
    hop = bed.prepare(1e9, 4)
    for q, mode in enumerate(DIFFSERV):
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
    """Four queues have four modes, then the same. What EF on one of them gets, as in
    spread(), and what CS1 on two and AF41 on one are off their thresholds, points."""
    hop = bed.prepare(rate, 4, "diffserv3")
    for q, mode in ((2, "diffserv8"), (3, "precedence"), (1, "diffserv4"),
                    (2, "diffserv4"), (3, "diffserv4"), (4, "diffserv4")):
        tc(f"qdisc change dev {NAME} parent 1:{q} cake {mode}")
    for q in range(4):
        hop.stream(q)
    hop.stream(0, tos=EF)
    for q in range(2):
        hop.stream(q, tos=TOS["CS1"])
    hop.stream(2, tos=TOS["AF41"])
    hop.meter(rate, from_s=0.5)
    got = hop.run(1)
    ef, *cs1, af41 = (100 * s["bytes"] / got["bytes"] for s in got["streams"][4:])
    return {"ef": ef, "cs1_off": sum(cs1) - 6.25, "af41_off": af41 - 50}


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


def flows(bed: Bed, rate: float, queues: int, where: Sequence[int], mode: str = "besteffort",
          tos: int = 0, beside: int = 0, seconds: float = 0.5) -> dict:
    """Saturated flows, one on each queue of the list where: how equal they are. On so many
    queues, best effort is beside them."""
    hop = bed.prepare(rate, queues, f"{mode} flows")
    labelled(hop, [(*stream[:4], tos) for stream in own_hosts(where)])
    for q in range(beside):
        hop.stream(q)
    hop.meter(rate, from_s=0.3)
    got = hop.run(0.3 + seconds)
    return {**equal([s["bps"] for s in got["streams"][:len(where)]]),
            "deviation": deviation(got, rate), "excess": got["excess"]["bytes"]}


def light(bed: Bed, mode: str, rate: float, pps: float) -> dict:
    """A bulk flow of CS1 beside 39 queues of 200-byte packets of EF or best effort: the
    p99 wait of these."""
    hop = bed.prepare(rate, 40, mode)
    hop.stream(0, tos=TOS["CS1"])
    for q in range(1, 40):
        hop.stream(q, size=200, tos=EF if q % 2 else 0, mode="poisson", rate=pps * 1600)
    hop.meter(rate, from_s=0.1)
    got = hop.run(0.4)
    return {"deviation": deviation(got, rate), "excess": got["excess"]["bytes"],
            "p99": max(s["delay"]["p99"] for s in got["streams"][1:])}


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


def crowds(counts: Sequence[int] = (310, 300), queues: int = 8) -> list[tuple]:
    """Streams of labelled(): hosts with so many flows, on all queues by turns."""
    return [(f"{count} flows", i % queues, 1 + host, 1001 + 2000 * host + i, 0)
            for host, count in enumerate(counts) for i in range(count)]


DIFFSERV = ("diffserv3", "diffserv4", "diffserv8", "precedence")
DEPTH = "memlimit 64mb"  # for a thousand flows
PARTS = {  # what parts() runs: (rate bit/s, tc's words, streams of labelled())
    **{f"hosts {mode}": (1e9, f"besteffort {mode}", one_and_many(mode))
       for mode in ("dual-srchost", "dual-dsthost", "triple-isolate", "hosts")},
    **{f"packed {mode}": (1e9, f"besteffort {mode}", packed())
       for mode in ("dual-srchost", "triple-isolate")},
    "crowds dual-srchost": (20e6, f"besteffort dual-srchost {DEPTH}", crowds()),
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


def parts(bed: Bed, rate: float, options: str, streams: Sequence[tuple]) -> dict:
    """A load over 8 queues: what each label gets, % of the rate, and the same below cake at
    the root; off: where these differ the most."""
    settle, seconds = (2, 8) if rate < 50e6 else (0.5, 1) if rate < 1e9 else (0.3, 0.5)
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


def at_random(bed: Bed, mode: str, seeds: int = 8) -> dict:
    """One or two DiffServ classes on each of two to eight queues, at random: what parts()
    gives for the worst of so many."""
    worst = {"off": 0.0}
    for seed in range(seeds):
        pick = random.Random(f"{mode} {seed}")
        queues = [" ".join(sorted({pick.choice([*TOS]) for _ in range(pick.randint(1, 2))}))
                  for _ in range(pick.randint(2, 8))]
        load = (bed, pick.choice((100e6, 1e9)), mode, classes(*queues))
        row = parts(*load)
        if row["off"] > 1:  # two flows may have one place in a table of flows
            row = many_hosts(*load)
        worst = max(worst, row, key=lambda row: row["off"])
    return worst


def elsewhere(streams: Sequence[tuple], seed: int) -> list[tuple]:
    """The same streams of labelled() from and to other addresses."""
    return [(label, queue, src + 10 * seed, dst + 2000 * seed, tos)
            for label, queue, src, dst, tos in streams]


def many_hosts(bed: Bed, rate: float, options: str, streams: Sequence[tuple],
               seeds: Sequence[int] = (0, 1, 2)) -> dict:
    """What parts() gives for the median of so many sets of addresses.

    Hosts that begin at the same time may get one place in CAKE's table of hosts and count
    as one, below one cake too: the hash depends on the build, the pairs are many.
    """
    rows = [parts(bed, rate, options, elsewhere(streams, seed)) for seed in seeds]
    return sorted(rows, key=lambda row: row["off"])[len(rows) // 2]


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
            labelled(hop, elsewhere(one_and_many("dual-srchost", 1000), seed))
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


def rehosted(bed: Bed, rate: float = 1e9) -> dict:
    """15 hosts have a flow each when a flow mode that is not fair to hosts is changed to one
    that is: what a new host's flow gets beside them, %, here and below cake at the root."""
    figures = {}
    for key, contender in (("gets", None), ("root_gets", "cake")):
        hop = bed.prepare(rate, 8, "besteffort flows", contender)
        labelled(hop, own_hosts([0] * 15))
        hop.stream(0, src=500, dst=501, start=0.2)
        hop.meter(rate, from_s=0.3)

        def change(contender=contender):
            time.sleep(0.1)
            bed.change(rate, "dual-srchost", contender=contender)

        *_, new = beside_run(hop, 0.6, change)["streams"]
        figures[key] = 100 * new["bps"] / rate
    return figures


def one_by_one(bed: Bed, ends: bool, rate: float = 10e6) -> dict:
    """98 bulk flows on seven queues. On the eighth, a flow sends packets of 1400 bytes one by one,
    more than its share; what it gets, Mbit/s, and below cake at the root.

    ends: a bulk flow was there before, and a sparse flow sends, too: also what that waits at
    most, s.
    """
    figures = {}
    seconds = 5
    for key, contender in (("", None), ("root_", "cake")):
        hop = bed.prepare(rate, 8, "besteffort flows", contender)
        for queue in range(7):
            hop.stream(queue, flows=14, depth=64)
        if ends:
            hop.stream(7, size=1400, depth=4, start=0.3, stop=1.5)
            hop.stream(7, src=77, start=1.5, **paced(8e3, size=100))
        hop.stream(7, src=99, start=1.5, **paced(0.4e6 if ends else 1e6, size=1400))
        hop.meter(rate, from_s=2)
        *_, other, flow = hop.run(2 + seconds)["streams"]
        figures[f"{key}mbit"] = flow["bps"] / 1e6
        if ends:
            figures[f"{key}wait"] = other["delay"]["max"]
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
    "left alone slow": (left_alone, {"rate": 64e3}),  # thresholds have no groups
    "beside": (beside, {}),
    "busy": (busy, {}),
    MODES: (modes, {}),
    "gso split": (gso, {"options": "split-gso"}),
    "gso whole": (gso, {"options": "no-split-gso"}),
    "fill": (fill, {"load": 0.7}),
    "fill 1514": (fill, {"load": 0.7, "size": FRAME}),
    "below": (below, {"load": 0.6e9}),
    "below EF": (below, {"load": 0.1e9, "tos": EF}),
    "fill diffserv8": (fill, {"load": 0.7, "options": "diffserv8"}),
    "saturated diffserv8": (saturated, {"rate": 10e9, "options": "diffserv8"}),
    **{f"light {mode} {r / 1e9:g}": (light, {"mode": mode, "rate": r, "pps": pps})
       for mode in ("diffserv4", "diffserv8") for r, pps in ((1e9, 5000), (5e9, 500))},
    "rate changes": (disturbed, {"what": "rate changes"}),
    "link flaps": (disturbed, {"what": "link flaps"}),
    "rate up": (rate_up, {}),
    **{f"video {rate / 1e9:g}": (video, {"rate": rate}) for rate in (1e9, 2.5e9, 10e9, 25e9)},
    "stopped": (late, {"stopq": 2000, "stopq_s": 5e-3}),
    "stopped all": (late, {"busy": 8, "stopq": 2000, "stopq_s": 5e-3}),
    **{f"late {n}": (late, {"busy": n, "stall": 200, "stall_s": 600e-6}) for n in (1, 8)},
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
    **{f"EF flows {mode}{' beside' * bool(beside)}": (
        flows, {"rate": 1e9, "queues": 8, "where": CROWD, "mode": mode, "tos": EF,
                "beside": beside, "seconds": 1.0})
       for mode in ("diffserv4", "diffserv8") for beside in (0, 8)},
    "flows diffserv8": (flows, {"rate": 1e9, "queues": 8, "where": CROWD, "mode": "diffserv8"}),
    **{name: (many_hosts if "triple-isolate" in name else parts,
              {"rate": rate, "options": options, "streams": streams})
       for name, (rate, options, streams) in PARTS.items()},
    **{f"random {mode}": (at_random, {"mode": mode}) for mode in DIFFSERV},
    "thousand": (thousand, {}),
    "crowded": (crowded, {}),
    **{f"new {what}": (arrival, {"what": what}) for what in ("flow", "host")},
    "one of eight": (one_of_eight, {}),
    "one of eight stall": (one_of_eight, {"stall": 200e-6}),
    "moved": (moved, {}),
    "recounted": (recounted, {}),
    "rehosted": (rehosted, {}),
    "one by one": (one_by_one, {"ends": False}),
    "one by one after bulk": (one_by_one, {"ends": True}),
    **{f"waits {rate / 1e6:g} {queues}": (
        waits, {"rate": rate, "queues": queues, "each": each})
       for rate, queues, each in ((1e6, 8, 1), (10e6, 8, 1), (100e6, 8, 4), (100e6, 64, 1))},
}
CAKE_MQ = [name for name in SCENARIOS if name not in (MODES, ROOM, *MIXED)]
# In a guest of their own, whose timers come with the clock tick, every 10 ms
SLOW_TIMERS = [name for name in SCENARIOS if name.startswith("slow timers")]


def guest_params(name: str) -> tuple[str, ...]:
    """What a scenario needs on the command line of its guest's kernel."""
    return ("highres=off",) if name in SLOW_TIMERS else ()


def guest(spec: dict) -> Iterator[dict]:
    """Run the scenarios of a spec, yield the row of each. Runs in the guest."""
    bed = Bed(spec["contender"])
    for name in spec["scenarios"]:
        run, args = SCENARIOS[name]
        yield {"scenario": name, **run(bed, **args)}
    bed.close()


# ------------------------------------------------------------- host side

PRIORITY = {  # scenario: (label, what of tcp.priority() it changes)
    "cs5": ("CS5, diffserv4", {}),
    "cs5-8": ("CS5, diffserv8", {"options": "diffserv8"}),
    # where CS5 is best effort
    "ef-3": ("EF, diffserv3", {"options": "diffserv3", "tos": EF}),
}


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
            also: dict[str, Sequence[str]] | None = None, slow: bool = False,
            only: Container[str] | None = None, lockdep: bool = False) -> dict[str, dict]:
    """{scenario: figures} of one kernel, two guests at a time.

    patterns: only scenarios whose name contains one of these, if any. also: {contender:
    scenarios} beside cake_mq, which runs all. slow: those of CROWDS as well. only: the
    names of what is run, if not all. lockdep: as for boot_script().
    """
    folder, ko = built(which)
    allowed = kernel.known_splats(which)
    results = {}
    start = time.monotonic()

    def wanted(name):
        return (not patterns or any(p in name for p in patterns)) and (
            only is None or name in only)

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
                        allowed=allowed, virtual=True, lockdep=lockdep, timeout=3600, **more,
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
            (partial(load, params=guest_params(SLOW_TIMERS[0])), ("slow", "cake_mq", SLOW_TIMERS)),
            (flows, ("tcp0", dict(list(cases.items())[0::2]))),
            (flows, ("tcp1", dict(list(cases.items())[1::2])))]
    jobs += [(load, (f"also{number}", contender, own))
             for number, (contender, own) in enumerate((also or {}).items())
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
                    "scenario", "queues", "waits", "one_all", "root_one_all", "all_ms"):
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
        if bare.startswith("fill") and "writes" in row:
            row["writes_per_packet"] = row["writes"] / row["packets"]


def is_slow(name: str) -> bool:
    """Whether a scenario takes minutes, so that make demo shows what is recorded of it."""
    return name.removeprefix("root ").startswith("crowd ") and name != "crowd 256"
