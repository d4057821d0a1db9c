# SPDX-License-Identifier: GPL-2.0
"""Loads: how well the rate is kept and shared, as queues become busy and idle."""

import itertools
from collections.abc import Sequence

from load.bed import (
    DIFFSERV,
    EF,
    TBF,
    Bed,
    deviation,
    jain,
    loaded,
    offered,
    paced,
    shared_writes,
    zipf,
)
from load.hop import NAME
from load.room import Row, scenario
from load.traffic import FRAME, tc


def saturated(bed: Bed, rate: float, queues: int = 40, seconds: float = 1.0, settle: float = 0.2,
              size: int = FRAME, options: str = "", depth: int = 64, unused: int = 0) -> dict:
    """Every queue that is in use always has packets."""
    hop = bed.prepare(rate, queues, options, unused=unused)
    hop.streams(range(queues), size=size, depth=24 if queues > 100 else depth)
    hop.meter(rate, from_s=settle)
    before = shared_writes()
    got = hop.run(settle + seconds)
    figures = {"deviation": deviation(got, rate), "excess": got["excess"]["bytes"],
               "jain": jain([q["bytes"] for q in got["queues"]])}
    if before is not None:
        figures["writes"] = (shared_writes() - before) / (settle + seconds)
    return figures


def uneven(bed: Bed, rate: float, loads: Sequence[dict]) -> dict:
    """Queues that differ in what they are offered: dicts of what Hop.stream() takes."""
    return offered(bed, rate, loads)


def thirds(bed: Bed, rate: float = 10e9) -> dict:
    """Two saturated queues, and one that offers a tenth: furthest from 45/45/10, %."""
    got = offered(bed, rate, [{}, {}, paced(rate / 10)])
    return {**got, "off": max(abs(b / rate * 100 - want)
                              for b, want in zip(got["queues"], (45, 45, 10)))}


def switch(bed: Bed, rate: float, start: int = 4, end: int = 40, stagger: float = 0.0) -> dict:
    """start saturated queues become end at t = 1 s; what the next hop has to queue."""
    hop = bed.prepare(rate, max(start, end))
    hop.streams(range(min(start, end)))
    for q in range(min(start, end), max(start, end)):
        if end > start:
            hop.stream(q, start=0.5 + stagger * (q - start) / (end - start))
        else:
            hop.stream(q, stop=0.5)
    return {"excess": hop.between(rate, 0.45, 0.7)["excess"]["bytes"]}


def frames(bed: Bed) -> dict:
    """Queues with frames of 300, 1514 and 9000 bytes, two of each, all saturated."""
    hop = bed.prepare(10e9, 6)
    for q in range(6):
        hop.stream(q, size=(300, 1514, 9000)[q % 3])
    got = hop.between(10e9, 0.2, 1.2)
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
    hop.streams(range(queues))
    for q in range(queues):
        hop.stream(q, mode="poisson", rate=flows / queues * 64 * 8, size=64,
                   flows="flood")
    got = hop.between(rate, 0.3, 1.3)
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


def modes(bed: Bed) -> dict:
    """Four saturated queues, each with tins of its own kind."""
    hop = bed.prepare(1e9, 4)
    for q, mode in enumerate(DIFFSERV):
        tc(f"qdisc change dev {NAME} parent 1:{q + 1} cake {mode}")
        for tos in (0, EF):
            hop.stream(q, tos=tos)
    got = hop.between(1e9, 0.5, 1.5)
    return {"deviation": deviation(got, 1e9), "excess": got["excess"]["bytes"]}


def mixed(bed: Bed, loads: list[dict], rate: float = 10e9) -> dict:
    """A load per queue, as for offered(), with a tbf on every other queue."""
    hop = bed.prepare(rate, len(loads))
    for q in range(2, len(loads) + 1, 2):
        tc(f"qdisc replace dev {NAME} parent 1:{q} tbf rate {rate:.0f}bit {TBF} shared")
    got = loaded(hop, rate, loads)
    return {**got, "jain": jain(got["queues"])}


OFF = Row("40 queues saturated: off the rate by, %", "deviation")
JAIN = Row("the same: Jain's index of fairness", "jain", "{:.5f}", at_least=True)
UNEVEN = Row("uneven loads: off the rate by, %", "deviation")
BURSTS = Row("8 queues with 300 us bursts + 1 saturated: off the rate by, %", "deviation")
THIRDS = Row("2 saturated + one that offers 10 %: furthest from 45/45/10, %", "off")
WRITES = Row("writes to the shared line, 10 Gbit saturated, k/s", "writes", "{:.0f}", 1e-3)

for label, rate, seconds, settle in (
        ("10 Mbit", 10e6, 75, 10), ("100 Mbit", 100e6, 10, 2), ("1 Gbit", 1e9, 2, 0.3),
        ("10 Gbit", 10e9, 1, 0.2), ("20 Gbit", 20e9, 1, 0.2), ("100 Gbit", 100e9, 1, 0.1)):
    scenario(f"saturated {rate / 1e9:g}", saturated, OFF(label, 0.005), JAIN(label, 0.9999),
             *([WRITES("40 queues", 210)] if rate == 10e9 else []),
             args={"rate": rate, "seconds": seconds, "settle": settle},
             brief=rate in (1e9, 10e9), coverage=rate == 10e9)
scenario("two queues", saturated,  # of make smoke
         args={"rate": 1e9, "queues": 2, "seconds": 0.3, "settle": 0.1})
scenario("saturated diffserv8", saturated, WRITES("40 queues, diffserv8"),
         args={"rate": 10e9, "options": "diffserv8"}, coverage=True)
for name, label, bound, queues, unused in (
        ("4", "4 queues", 210, 4, 0), ("256", "256 queues", 830, 256, 0),
        ("8 of 256", "8 of 256 queues", 210, 8, 248)):
    scenario(f"writes {name}", saturated, WRITES(label, bound),
             args={"rate": 10e9, "queues": queues, "seconds": 0.4, "unused": unused})

TWO = [paced(8e9), paced(2e9)]
scenario("80/20", uneven, UNEVEN("8 + 2 Gbit on two queues, 10 Gbit", 0.01),
         args={"rate": 10e9, "loads": TWO}, brief=True, coverage=True,
         front="2 queues: 80 and 20 % of the load")
scenario("16 of 24 double", uneven, UNEVEN("24 queues, 16 double load, 20 Gbit", 0.01),
         args={"rate": 20e9, "loads": [paced(25e9 / 40 * (2 if q < 16 else 1))
                                       for q in range(24)]},
         front="24 queues, 16 with double load")
scenario("zipf", uneven, UNEVEN("Zipf over 40 queues, 15 of 10 Gbit", 0.01),
         args={"rate": 10e9, "loads": [paced(r) for r in zipf(15e9, 40)]})
scenario("zipf on/off", uneven, UNEVEN("the same, half of them 2 ms on, 2 off", 0.01),
         args={"rate": 10e9, "loads": [
             paced(r) if q % 2 == 0 else paced(2 * r, on=2e-3, off=2e-3, start=q * 1e-4)
             for q, r in enumerate(zipf(17e9, 40))]},
         coverage=True, front="40 queues, a few with most, half on and off")
scenario("39 light", uneven, UNEVEN("39 of 12 Mbit + 1 saturated, 10 Gbit", 0.01),
         args={"rate": 10e9, "loads": [
             {}, *(paced(1e3 * FRAME * 8, start=q * 1e-5) for q in range(39))]},
         brief=True, front="1 busy queue, 39 of 12 Mbit/s")
scenario("elephant + 39 mice", uneven, UNEVEN("elephant + 39 mice of 5 kpps, 5 Gbit", 0.01),
         args={"rate": 5e9, "loads": [paced(10e9)] + [paced(5e3 * 64 * 8, size=64)] * 39},
         brief=True, front="1 busy queue, 39 of 5000 packets/s")
scenario("bursts", uneven, BURSTS("10 Gbit", 0.05),
         args={"rate": 10e9, "loads": [
             {}, *(paced(3e9, on=300e-6, off=700e-6, start=q * 1e-4) for q in range(8))]})
scenario("45/45/10", thirds, THIRDS("10 Gbit", 0.1), brief=True, coverage=True)

SIZE = {"scale": 1e-3, "form": "{:.1f}"}  # of what a next hop has to queue
JOIN = Row("4 queues become 40: the next hop has to queue, KB", "excess", **SIZE)
STAGGER = Row("the same, started over 1 ms, KB", "excess", **SIZE)
LEAVE = Row("40 queues become 4: the next hop has to queue, KB", "excess", **SIZE)
for gbit, bound in ((2, 8), (8, 8), (15, 16)):
    label = f"{gbit} Gbit"
    scenario(f"switch {gbit}", switch, JOIN(label, bound), args={"rate": gbit * 1e9},
             brief=gbit == 8, coverage=gbit == 2)
    scenario(f"stagger {gbit}", switch, STAGGER(label, 16),
             args={"rate": gbit * 1e9, "stagger": 1e-3})
    scenario(f"40 to 4 {gbit}", switch, LEAVE(label, 4.1),
             args={"rate": gbit * 1e9, "start": 40, "end": 4}, brief=gbit == 8)

FRAMES = Row("frames of 300, 1514 and 9000 bytes: Jain's index", "jain", "{:.5f}",
             at_least=True)
scenario("frames", frames, FRAMES("10 Gbit", 0.999), brief=True, coverage=True)

SPARSE = Row("sparse queue beside 39 saturated: mean wait, times that a frame takes", "frames",
             "{:.2f}")
for gbit in (0.1, 1, 10):
    scenario(f"sparse {gbit:g}", sparse, SPARSE(f"{gbit:g} Gbit", 1),
             args={"rate": gbit * 1e9}, brief=gbit == 1, coverage=gbit == 1)

FLOOD = Row("new one-packet flows, 32 saturated queues, 1 Gbit: next hop has to queue, KB",
            "excess", **SIZE)
FLOOD_BULK = Row("the same: saturated queue furthest from its share, %", "bulk_off", "{:.2f}")
FLOOD_WAIT = Row("the same: p99 wait of the new flows, us", "small_p99", "{:.0f}", 1e6)
AFTER = Row("after such a flood on one queue, 1 s: its bulk flow resumes after, ms", "silent_s",
            "{:.0f}", 1e3)
MANY = {  # on the front page
    "off": "500,000 new flows a second: a saturated queue beside them is off its share, %",
    "wait": "the same: 99 % of first packets wait at most, us"}
for thousand, excess, off, front in ((20, 16, 5, {}), (60, 16, 5, {}), (500, 24, 25, MANY)):
    label = f"{thousand} k/s"
    scenario(f"flood {thousand}", flood, FLOOD(label, excess),
             FLOOD_BULK(label, off, front=front.get("off", "")),
             FLOOD_WAIT(label, front=front.get("wait", "")),
             args={"flows": thousand * 1000}, brief=thousand > 20, coverage=thousand == 60)
scenario("after flood", after_flood, AFTER("160 k/s", 250))
