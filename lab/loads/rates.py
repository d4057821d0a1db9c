# SPDX-License-Identifier: GPL-2.0
"""Loads: how well the rate is kept and shared, as queues become busy and idle."""

import itertools

from traffic.bed import (
    DIFFSERV,
    EF,
    TBF,
    Bed,
    deviation,
    jain,
    kept,
    loaded,
    offered,
    paced,
    shared_writes,
    zipf,
)
from traffic.hop import NAME
from traffic.traffic import FRAME, tc


def saturated(bed: Bed, rate: float, queues: int = 40, seconds: float = 1.0, settle: float = 0.2,
              size: int = FRAME, options: str = "", depth: int = 64, unused: int = 0) -> dict:
    """Every queue that is in use always has packets."""
    hop = bed.prepare(rate, queues, options, unused=unused)
    hop.streams(range(queues), size=size, depth=24 if queues > 100 else depth)
    hop.meter(rate, from_s=settle)
    before = shared_writes()
    got = hop.run(settle + seconds)
    figures = {**kept(got, rate), "jain": jain([q["bytes"] for q in got["queues"]])}
    if before is not None:
        figures["writes"] = (shared_writes() - before) / (settle + seconds)
    return figures


UNEVEN = {  # loads of queues, dicts of what Hop.stream() takes
    "two": [paced(8e9), paced(2e9)],
    "eight": [{}] * 8,
    "16 of 24": [paced(25e9 / 40 * (2 if q < 16 else 1)) for q in range(24)],
    "zipf": [paced(r) for r in zipf(15e9, 40)],
    "zipf on/off": [paced(r) if q % 2 == 0 else paced(2 * r, on=2e-3, off=2e-3, start=q * 1e-4)
                    for q, r in enumerate(zipf(17e9, 40))],
    "39 light": [{}, *(paced(1e3 * FRAME * 8, start=q * 1e-5) for q in range(39))],
    "39 mice": [paced(10e9)] + [paced(5e3 * 64 * 8, size=64)] * 39,
    "bursts": [{}, *(paced(3e9, on=300e-6, off=700e-6, start=q * 1e-4) for q in range(8))],
}


def uneven(bed: Bed, rate: float, loads: str) -> dict:
    """Queues that differ in what they are offered; loads: of UNEVEN."""
    return offered(bed, rate, UNEVEN[loads])


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


def flood(bed: Bed, flows: int, contender: str | None = None) -> dict:
    """So many new one-packet flows a second over 32 queues that have a bulk flow each."""
    rate, queues = 1e9, 32
    hop = bed.prepare(rate, queues, contender=contender)
    hop.streams(range(queues))
    for q in range(queues):
        hop.stream(q, mode="poisson", rate=flows / queues * 64 * 8, size=64,
                   flows="flood")
    got = hop.between(rate, 0.3, 1.3)
    bulk = [s["bps"] for s in got["streams"][:queues]]
    small = got["streams"][queues:]
    fair = (rate - sum(s["bps"] for s in small)) / queues
    return {**kept(got, rate), "bulk_off": 100 * max(abs(b / fair - 1) for b in bulk),
            "small_p99": max(s["delay"]["p99"] for s in small)}


def after_flood(bed: Bed, flows: int = 160_000) -> dict:
    """32 saturated queues; for a second, one of them has so many new one-packet flows as
    well, more than its share: what it gets of that, and when its bulk goes on after it."""
    rate, queues, begin, end = 1e9, 32, 0.3, 1.3
    hop = bed.prepare(rate, queues)
    bulk = [hop.stream(q) for q in range(queues)][0]
    hop.stream(0, mode="paced", rate=flows * 64 * 8, size=64, flows="flood",
               start=begin, stop=end)
    got = hop.between(rate, begin, end + 1, bins_us=1000, stream=bulk)
    after = got["stream_bins"][round(end / got["bin_s"]):]
    silent = list(itertools.takewhile(lambda sent: not sent, after))
    return {"silent_s": len(silent) * got["bin_s"],
            "share": got["queues"][0]["bps"] / (rate / queues), **kept(got, rate)}


def modes(bed: Bed) -> dict:
    """Four saturated queues, each with tins of its own kind."""
    hop = bed.prepare(1e9, 4)
    for q, mode in enumerate(DIFFSERV):
        tc(f"qdisc change dev {NAME} parent 1:{q + 1} cake {mode}")
        for tos in (0, EF):
            hop.stream(q, tos=tos)
    return kept(hop.between(1e9, 0.5, 1.5), 1e9)


def mixed(bed: Bed, loads: str, rate: float = 10e9) -> dict:
    """A load per queue, of UNEVEN, with a tbf on every other queue."""
    hop = bed.prepare(rate, len(UNEVEN[loads]))
    for q in range(2, hop.queues + 1, 2):
        tc(f"qdisc replace dev {NAME} parent 1:{q} tbf rate {rate:.0f}bit {TBF} shared")
    got = loaded(hop, rate, UNEVEN[loads])
    return {**got, "jain": jain(got["queues"])}
