# SPDX-License-Identifier: GPL-2.0
"""Loads: DiffServ classes of CAKE, on the same queues and on others."""

from traffic.bed import EF, TOS, Bed, beside_root, burst, deviation, kept
from traffic.hop import NAME
from traffic.traffic import FRAME, tc


def tins(bed: Bed, queues: int, mode: str = "diffserv4") -> dict:
    """Best effort and EF saturated on every queue; the part of best effort."""
    rate = 1e9
    hop = bed.prepare(rate, max(queues, 2), mode)
    for q in range(queues):
        hop.stream(q)
        hop.stream(q, tos=EF)
    got = hop.between(rate, 0.5, 2.5)
    best = sum(s["bytes"] for s in got["streams"] if s["tos"] == 0)
    part = 100 * best / got["bytes"]
    return {"best_effort": part, "off": part - 75, "deviation": deviation(got, rate)}


def left_alone(bed: Bed, rate: float = 100e6) -> dict:
    """Best effort and AF41 of diffserv8, whose thresholds are 7/8 and 2/3 of the rate, on one
    queue; a sibling is busy for a second, or for as many packets. What best effort gets, %,
    afterwards."""
    begin = 100e6 / rate
    hop = bed.prepare(rate, 2, "diffserv8")
    hop.stream(0)
    hop.stream(0, tos=TOS["AF41"])
    hop.stream(1, stop=begin)
    got = hop.between(rate, 1.05 * begin, 1.25 * begin)
    return {"best_effort": 100 * got["streams"][0]["bytes"] / got["bytes"]}


def spread(bed: Bed, count: int, rate: float = 2350e6, apart: bool = False, size: int = FRAME,
           options: str = "") -> dict:
    """Best effort saturated on four queues, EF on count of them: what EF gets, %.

    apart: best effort only on the queues without EF. size: of the packets of EF; longer
    than a frame, they are to be segmented.
    """
    hop = bed.prepare(rate, 4, f"diffserv4 {options}")
    bulk = range(count if apart else 0, 4)
    hop.streams(bulk)
    hop.streams(range(count), tos=EF, size=size, gso=1448 if size > FRAME else 0)
    got = hop.between(rate, 0.5, 1.5)
    ef = 100 * sum(s["bytes"] for s in got["streams"][len(bulk):]) / got["bytes"]
    return {"ef": ef, "ef_off": ef - 25, **kept(got, rate)}


def beside(bed: Bed, rate: float = 2350e6) -> dict:
    """A best effort flow of 20 Mbit/s on the queue of a greedy EF flow, all queues busy:
    the wait, with that at the next hop, and the same below cake at the root."""
    def wait(contender):
        hop = bed.prepare(rate, 4, "diffserv4", contender)
        hop.stream(0, mode="paced", rate=20e6, size=300, src=9)
        hop.stream(0, tos=EF)
        hop.streams(range(4))
        return {"p99_us": 1e6 * hop.between(rate, 0.5, 1.5)["streams"][0]["total"]["p99"]}

    figures = beside_root(wait)
    return {**figures, "of_root": figures["p99_us"] / figures["root_p99_us"]}


def room(bed: Bed, rate: float = 2350e6) -> dict:
    """Four queues have four modes, then the same. What EF on one of them gets, as in
    spread(), and what CS1 on two and AF41 on one are off their thresholds, points."""
    hop = bed.prepare(rate, 4, "diffserv3")
    for q, mode in ((2, "diffserv8"), (3, "precedence"), (1, "diffserv4"),
                    (2, "diffserv4"), (3, "diffserv4"), (4, "diffserv4")):
        tc(f"qdisc change dev {NAME} parent 1:{q} cake {mode}")
    hop.streams(range(4))
    hop.stream(0, tos=EF)
    hop.streams(range(2), tos=TOS["CS1"])
    hop.stream(2, tos=TOS["AF41"])
    got = hop.between(rate, 0.5, 1)
    ef, *cs1, af41 = (100 * s["bytes"] / got["bytes"] for s in got["streams"][4:])
    return {"ef": ef, "ef_off": ef - 25, "cs1_off": sum(cs1) - 6.25, "af41_off": af41 - 50}


def light(bed: Bed, mode: str, rate: float, pps: float) -> dict:
    """A bulk flow of CS1 beside 39 queues of 200-byte packets of EF or best effort: the
    p99 wait of these."""
    hop = bed.prepare(rate, 40, mode)
    hop.stream(0, tos=TOS["CS1"])
    for q in range(1, 40):
        hop.stream(q, size=200, tos=EF if q % 2 else 0, mode="poisson", rate=pps * 1600)
    got = hop.between(rate, 0.1, 0.4)
    return {**kept(got, rate), "p99": max(s["delay"]["p99"] for s in got["streams"][1:])}


def light_tins(bed: Bed, rate: float, queues: int) -> dict:
    """CS1 is saturated on a queue; all others send video and voice, half of the rate in all, one
    packet now and then: how far off the rate they are, %."""
    hop = bed.prepare(rate, queues, "diffserv4")
    hop.stream(0, tos=TOS["CS1"])
    for queue in range(1, queues):
        hop.stream(queue, tos=TOS["EF" if queue % 2 else "AF41"], mode="poisson",
                   rate=rate / 2 / (queues - 1), size=FRAME)
    return {"deviation": deviation(hop.between(rate, 0.5, 2.5), rate)}


def video(bed: Bed, rate: float) -> dict:
    """Video in bursts of nine frames, at 45 % of the rate, on one queue, CS1 saturated on
    another, no best effort: how far off the rate they are, %."""
    hop = bed.prepare(rate, 2, "diffserv4")
    hop.stream(0, tos=TOS["AF41"], **burst(9, 1e-6, 9 * FRAME * 8 / (0.45 * rate)))
    hop.stream(1, tos=TOS["CS1"])
    return {"deviation": deviation(hop.between(rate, 0.05, 0.25), rate)}
