# SPDX-License-Identifier: GPL-2.0
"""What loads in virtual time stand on: hop0 below a contender, streams, figures of a run.

Runs in the guest. Rates are in bit/s, times in seconds, sizes in bytes unless a name says
otherwise.
"""

import random
import re
import threading
from collections.abc import Callable, Sequence
from typing import Any

from traffic.hop import NAME, Hop
from traffic.traffic import CROWDED, FRAME, contender_lines, tc

COUNTER = "/sys/module/sch_rate_group/parameters/shared_writes"
EF = 46 << 2  # as TOS byte
TOS = {"BE": 0, "CS1": 8 << 2, "AF41": 34 << 2, "EF": EF, "CS6": 48 << 2}
DIFFSERV = ("diffserv3", "diffserv4", "diffserv8", "precedence")
TBF = "burst 16kb limit 10mb"


def uninstall() -> None:
    """Leave hop0 with what it has by default."""
    for where in ("root", "clsact"):
        tc(f"qdisc del dev {NAME} {where}", check=False)


def install(contender: str, rate: float, queues: int, options: str = "") -> None:
    """Put a contender on hop0."""
    uninstall()
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


def kept(got: dict, rate: float) -> dict[str, float]:
    """How a rate was kept: what was sent, % off it, and what a next hop has to queue, bytes."""
    return {"deviation": deviation(got, rate), "excess": got["excess"]["bytes"]}


def jain(values: Sequence[float]) -> float:
    """Jain's index of fairness, 1 when all are equal."""
    return sum(values) ** 2 / (len(values) * sum(v * v for v in values))


def equal(values: Sequence[float]) -> dict[str, float]:
    """How equal rates are: Jain's index; the lowest and the highest, % off the mean."""
    mean = sum(values) / len(values)
    return {"jain": jain(values), "lowest": 100 * (min(values) / mean - 1),
            "highest": 100 * (max(values) / mean - 1)}


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


def beside_run(hop: Hop, seconds: float, job: Callable[[], Any]) -> dict:
    """What hop.run() gives, while something else is done."""
    other = threading.Thread(target=job)
    other.start()
    got = hop.run(seconds)
    other.join()
    return got


def beside_root(measure: Callable[[str | None], dict]) -> dict:
    """{KEY: figure} of a load, and, as root_KEY, the same below one cake at the root.

    measure: runs the load and gives {KEY: figure}; it takes the contender, None: that of the bed.
    """
    here, root = measure(None), measure("cake")
    return {**here, **{f"root_{key}": figure for key, figure in root.items()}}


def offered(bed: Bed, rate: float, loads: Sequence[dict], seconds: float = 1.0,
            settle: float = 0.2) -> dict:
    """A load per queue: dicts of what Hop.stream() takes."""
    return loaded(bed.prepare(rate, max(len(loads), 2)), rate, loads, seconds, settle)


def loaded(hop: Hop, rate: float, loads: Sequence[dict], seconds: float = 1.0,
           settle: float = 0.2) -> dict:
    """What offered() measures, on a device that is prepared."""
    for q, load in enumerate(loads):
        hop.stream(q, **load)
    got = hop.between(rate, settle, settle + seconds)
    return {**kept(got, rate), "queues": [q["bps"] for q in got["queues"]],
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


CROWD = [queue for queue, count in enumerate(CROWDED) for _ in range(count)]


def scattered(count: int, queues: int, seed: int = 1) -> list[int]:
    """The queue of each of so many flows, at random."""
    pick = random.Random(seed)
    return [pick.randrange(queues) for _ in range(count)]
