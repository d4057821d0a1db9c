# SPDX-License-Identifier: GPL-2.0
"""Loads: changes under load, ingress mode, what happens seldom, and what is late."""

import itertools
import threading
import time

from traffic.bed import EF, TBF, Bed, beside_run, burst, deviation, jain, kept, paced
from traffic.hop import NAME
from traffic.traffic import FRAME, command, tc

from loads.rates import saturated

UNRESPONSIVE = {  # the loads of four queues, for 1 Gbit/s
    "even": [paced(375e6)] * 4,
    "uneven": [paced(1e9), paced(3e8), paced(15e7), paced(5e7)],
    "on/off": [paced(5e8, on=0.05, off=0.075, start=q * 1e-3) for q in range(4)],
}


def gso(bed: Bed, options: str, size: int = 64000) -> dict:
    """Four queues of TCP packets that are to be segmented."""
    rate = 5e9
    hop = bed.prepare(rate, 4, options)
    hop.streams(range(4), size=size, gso=1448)
    got = hop.between(rate, 0.3, 1.3)
    return {**kept(got, rate), "jain": jain([q["bytes"] for q in got["queues"]])}


def flap(down: float = 0, up: float = 0) -> None:
    """The link goes down and up: s to wait after each."""
    for state, pause in (("down", down), ("up", up)):
        command("ip", "link", "set", NAME, state)
        time.sleep(pause)


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

    def flaps():
        time.sleep(0.1)  # hop0 does not start a run while it is down
        for _ in range(30):
            flap(down=0.003, up=0.012)

    hop.streams(range(8))
    hop.meter(rate, from_s=0.2)
    other = threading.Thread(target=change if what == "rate changes" else flaps)
    other.start()
    got = hop.run(1.2)
    done.set()
    other.join()
    if what == "rate changes":
        return kept(got, 1.5e9)
    hop.clear()
    return {**saturated(bed, rate, 8, 0.5), "during_bps": got["bps"]}


def rate_up(bed: Bed, rate: float = 1e9, begin: float = 0.05) -> dict:
    """Eight saturated queues at 1 Mbit/s, whose rate becomes 1000 times as much: what is
    sent of it from a ms after that on."""
    hop = bed.prepare(rate / 1000, 8)
    hop.streams(range(8))
    hop.meter(rate, from_s=begin + 0.001)

    def change():
        time.sleep(begin)
        bed.change(rate)

    return {"deviation": deviation(beside_run(hop, begin + 0.021, change), rate)}


def ingress(bed: Bed, load: str) -> dict:
    """What ingress mode lets pass of loads that take no notice of drops, % of the rate.

    A drop costs as much as a packet, but never makes another one cost more than half as
    much again; what it still owes is paid by time in which nothing is sent.
    """
    hop = bed.prepare(1e9, 4, "besteffort ingress memlimit 1mb")
    for q, stream in enumerate(UNRESPONSIVE[load]):
        hop.stream(q, **stream)
    got = hop.between(1e9, 0.5, 2.5)
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
            flap()

    return {"deviation": deviation(beside_run(hop, begin + 0.05, change), rate)}


def beside_drops(bed: Bed, rate: float = 100e6) -> dict:
    """Ingress mode: 20 Mbit/s of EF on the queue of best effort that ignores its drops,
    another queue saturated. What drops cost must not come out of another tin's part."""
    hop = bed.prepare(rate, 2, "diffserv4 ingress")
    hop.stream(0, tos=EF, src=9, **paced(20e6))
    hop.stream(0, **paced(3 * rate))
    hop.stream(1)
    flow = hop.between(rate, 1, 3)["streams"][0]
    return {"ef_bps": flow["bps"], "p99": flow["delay"]["p99"]}


def long_round(bed: Bed, queues: int, size: int, gap: float) -> dict:
    """A packet every gap s on one of so many queues, which are saturated: at 10 Mbit/s a
    round takes longer than the gap."""
    rate, settle = 10e6, 2
    hop = bed.prepare(rate, queues)
    hop.stream(0, src=9, start=settle, **paced(size * 8 / gap, size=size))
    hop.streams(range(queues), depth=24)
    flow = hop.between(rate, settle, settle + 10)["streams"][0]
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
    return {"p99": hop.between(10e6, 2, 6)["streams"][0]["delay"]["p99"]}


def requeued(bed: Bed, rate: float = 1e9, busy: float = 3e-3, late: float = 50e-6) -> dict:
    """A packet that the device has refused is there again when 64 frames arrive, so late
    before the device takes packets: what is unused of the time before must be lost."""
    hop = bed.prepare(rate, 2)
    hop.stream(0, refuse=busy, **paced(64 * 8 / 10e-3, size=64))
    hop.stream(0, start=busy - late, **burst(64, 50e-6, 10e-3))
    return {"excess": hop.between(rate, 0, 0.1)["excess"]["bytes"]}


def cut_off(bed: Bed, rate: float = 1e9, queues: int = 4) -> dict:
    """The link goes down and up while all queues but one have a packet that the device has
    refused, and nothing else; then only that one has packets: how far off the rate it is, %."""
    hop = bed.prepare(rate, queues)
    hop.streams(range(1, queues), stop=0.015, refuse=1, **paced(1e6, size=64))
    hop.stream(0, start=0.1)
    hop.meter(rate, from_s=0.15)

    def change():
        time.sleep(0.02)
        flap()

    return {"deviation": deviation(beside_run(hop, 0.35, change), rate)}


def known_tbf(rate: float) -> None:
    """Give the tbf of the first queue the handle 10:, so that its inner qdisc can be replaced."""
    tc(f"qdisc replace dev {NAME} parent 1:1 handle 10: tbf rate {rate:.0f}bit {TBF} shared")


def held(bed: Bed, rate: float = 100e6) -> dict:
    """Below a tbf, netem holds packets for longer than the 50 ms between two bursts, and then
    releases a burst, half of the rate, at once: what the next hop has to queue."""
    hop = bed.prepare(rate, 2)
    known_tbf(rate)
    tc(f"qdisc replace dev {NAME} parent 10:1 handle 11: netem delay 60ms limit 10000")
    hop.stream(0, **burst(200, 1e-3, 0.05))
    return {"excess": hop.between(rate, 0.2, 1)["excess"]["bytes"]}


def hung(bed: Bed, rate: float = 10e9, queues: int = 8) -> dict:
    """A saturated TX queue hangs and, below tbf, its inner qdisc is replaced by an empty
    one; the others have bursts, all at once, of half the rate."""
    hop = bed.prepare(rate, queues)
    if "tbf" in bed.contender:
        known_tbf(rate)
    hop.stream(0, stop=0.03)
    hop.stream(0, start=0.02, stop=0.03, refuse=1, **paced(1e6, size=64))
    hop.streams(range(1, queues), **burst(64, 5e-6, (queues - 1) * 64 * FRAME * 8 / (rate / 2)))
    hop.meter(rate, from_s=0.05)

    def empty():
        time.sleep(0.04)
        tc(f"qdisc replace dev {NAME} parent 10:1 handle 11: bfifo limit 10mb")

    got = beside_run(hop, 0.2, empty) if "tbf" in bed.contender else hop.run(0.2)
    bed.close()  # with the queue that hangs
    bed.hop = None
    return {"excess": got["excess"]["bytes"]}


def late(bed: Bed, rate: float = 1e9, busy: int = 1, **faults: float) -> dict:
    """So many of eight queues are saturated while the device stalls or stops queues: how far
    off the rate they are, %, and what a next hop has to queue, bytes.

    faults: of Hop.faults().
    """
    hop = bed.prepare(rate, 8)
    hop.streams(range(busy), depth=1024)
    hop.meter(rate, from_s=0.2)
    hop.faults(**faults)
    got = hop.run(2.2)
    hop.faults()
    return {**kept(got, rate), "stalls": got["stalls"], "stops": got["stops"]}
