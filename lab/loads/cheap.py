# SPDX-License-Identifier: GPL-2.0
"""Loads: what the statistics say, and what sharing costs below the rate."""

import time

from traffic.bed import Bed, beside_run, kept, shared_writes, wakeups
from traffic.hop import NAME
from traffic.traffic import active_queues


def busy(bed: Bed, count: int = 5) -> dict:
    """So many of eight queues saturated: how many the statistics call active."""
    hop = bed.prepare(1e9, 8)
    hop.streams(range(count))
    seen = []

    def look():
        time.sleep(0.1)
        seen.append(active_queues(NAME))

    beside_run(hop, 0.2, look)
    return {"active": seen[0], "active_off": (seen[0] or 0) - count}


def fill(bed: Bed, load: float, queues: int = 40, size: int = 200, options: str = "") -> dict:
    """Poisson arrivals at a part of the rate: what is below the rate must pass."""
    rate = 10e9
    hop = bed.prepare(rate, queues, options)
    hop.streams(range(queues), mode="poisson", rate=load * rate / queues, size=size)
    hop.meter(rate, from_s=0.1)
    before = shared_writes()
    got = hop.run(0.4)
    figures = {**kept(got, load * rate),
               "p99": max(s["delay"]["p99"] for s in got["streams"])}
    if before is not None:
        figures["writes_per_packet"] = (shared_writes() - before) / 0.4 / (got["packets"] / 0.3)
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
