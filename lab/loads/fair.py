# SPDX-License-Identifier: GPL-2.0
"""Loads: what flows, hosts and tins get over all queues of a group, beside one cake."""

import random
import time
from collections.abc import Sequence

from traffic.bed import (
    CROWD,
    TOS,
    Bed,
    beside_root,
    beside_run,
    equal,
    kept,
    labelled,
    own_hosts,
    paced,
    scattered,
)
from traffic.hop import Hop

DEPTH = "memlimit 64mb"  # for a thousand flows


def flows(bed: Bed, rate: float, queues: int, count: int = 0, mode: str = "besteffort",
          tos: int = 0, beside: int = 0, seconds: float = 0.5) -> dict:
    """So many saturated flows on queues at random, or, of 0, on those of CROWD: how equal they
    are. On so many queues, best effort is beside them."""
    where = scattered(count, queues) if count else CROWD
    hop = bed.prepare(rate, queues, f"{mode} flows")
    labelled(hop, [(*stream[:4], tos) for stream in own_hosts(where)])
    hop.streams(range(beside))
    got = hop.between(rate, 0.3, 0.3 + seconds)
    return {**equal([s["bps"] for s in got["streams"][:len(where)]]), **kept(got, rate)}


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


def crowds(counts: Sequence[int] = (310, 300), queues: int = 8) -> list[tuple]:
    """Streams of labelled(): hosts with so many flows, on all queues by turns."""
    return [(f"{count} flows", i % queues, 1 + host, 1001 + 2000 * host + i, 0)
            for host, count in enumerate(counts) for i in range(count)]


def classes(*queues: str) -> list[tuple]:
    """Streams of labelled(): the DiffServ classes that are on each queue, in words."""
    found = [(q, name) for q, names in enumerate(queues) for name in names.split()]
    return [(name, q, 1 + i, 101 + i, TOS[name]) for i, (q, name) in enumerate(found)]


def compared(bed: Bed, rate: float, options: str, streams: Sequence[tuple]) -> dict:
    """A load over 8 queues: what each label gets, % of the rate, and the same below cake at
    the root; off: where these differ the most."""
    settle, seconds = (2, 8) if rate < 50e6 else (0.5, 1) if rate < 1e9 else (0.3, 0.5)
    found = []
    for contender in (None, "cake"):
        hop = bed.prepare(rate, 8, options, contender)
        labelled(hop, streams)
        got = hop.between(rate, settle, settle + seconds)
        sent = {}
        for (label, *_), stream in zip(streams, got["streams"]):
            sent[label] = sent.get(label, 0) + 100 * stream["bps"] / rate
        found.append(sent)
    here, root = found
    return {"parts": here, "root": root, "off": max(abs(here[k] - root[k]) for k in here)}


def at_random(bed: Bed, mode: str, seeds: int = 8) -> dict:
    """One or two DiffServ classes on each of two to eight queues, at random: what compared()
    gives for the worst of so many."""
    worst = {"off": 0.0}
    for seed in range(seeds):
        pick = random.Random(f"{mode} {seed}")
        queues = [" ".join(sorted({pick.choice([*TOS]) for _ in range(pick.randint(1, 2))}))
                  for _ in range(pick.randint(2, 8))]
        load = (bed, pick.choice((100e6, 1e9)), mode, classes(*queues))
        row = compared(*load)
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
    """What compared() gives for the median of so many sets of addresses.

    Hosts that begin at the same time may get one place in CAKE's table of hosts and count
    as one, below one cake too: the hash depends on the build, the pairs are many.
    """
    rows = [compared(bed, rate, options, elsewhere(streams, seed)) for seed in seeds]
    return sorted(rows, key=lambda row: row["off"])[len(rows) // 2]


LOADS = {"one and many": one_and_many, "packed": packed, "crowds": crowds, "classes": classes}


def parts(bed: Bed, rate: float, options: str, load: str, median: bool = False) -> dict:
    """What compared() or, if median, many_hosts() gives for one of LOADS and what it takes."""
    name, _, words = load.partition(": ")
    streams = LOADS[name](*filter(None, words.split(", ")))
    return (many_hosts if median else compared)(bed, rate, options, streams)


def thousand(bed: Bed, rate: float = 1e9, seeds: Sequence[int] = (0, 1, 2)) -> dict:
    """A host of one flow beside one of 1000: the least that the first gets, %, and the same
    below cake at the root, whose 1024 flow queues the flow may have to share with others.

    seeds: other addresses, so that other flows share a queue.
    """
    def least(contender):
        gets = []
        for seed in seeds:
            hop = bed.prepare(rate, 8, f"besteffort dual-srchost {DEPTH}", contender)
            labelled(hop, elsewhere(one_and_many("dual-srchost", 1000), seed))
            got = hop.between(rate, 0.5, 1)
            gets.append(100 * got["streams"][-1]["bytes"] / got["bytes"])
        return {"one_all": gets, "one": min(gets)}

    return beside_root(least)


def crowded(bed: Bed, rate: float = 1e9, light: int = 10) -> dict:
    """A saturated flow on each of eight queues, and so many flows of 5 Mbit/s in packets
    of 200 bytes on the first queue: how equal the saturated ones are."""
    hop = bed.prepare(rate, 8, "besteffort flows")
    labelled(hop, own_hosts(range(8)))
    for number in range(light):
        hop.stream(0, src=50 + number, dst=150 + number, **paced(5e6, size=200))
    got = hop.between(rate, 0.3, 0.8)["streams"]
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
    got = hop.between(rate, begin, begin + 0.5, bins_us=1000, stream=new)
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
    return kept(got, rate)


def moved(bed: Bed, rate: float = 1e9, begin: float = 0.3, seconds: float = 0.1) -> dict:
    """Of eight saturated flows on eight queues, that of the first moves to the second, and
    what it had queued is still sent: in the 100 ms after that, how far the seven others
    are off an eighth of the rate, %, and the one that moved."""
    hop = bed.prepare(rate, 8, "besteffort flows")
    flow = {"src": 1, "dst": 1001}
    hop.stream(0, stop=begin, **flow)
    hop.stream(1, start=begin, **flow)
    labelled(hop, own_hosts(range(8))[1:])
    streams = hop.between(rate, begin, begin + seconds)["streams"]
    got = [100 * (s["bps"] * 8 / rate - 1) for s in streams]
    return {"others": max(got[2:], key=abs), "moved": got[0] + got[1] + 100}


def two_hosts(hop: Hop, last: int, other: int, ends: int) -> None:
    """A flow of a host on queue `last`, one of another host on `other`, and 14 more of the first
    host on `ends`, which end after 0.2 s."""
    labelled(hop, [("last", last, 1, 100, 0), ("other", other, 2, 100, 0)])
    for number in range(14):
        hop.stream(ends, src=1, dst=101 + number, stop=0.2)


def of_two(last: dict, rival: dict) -> float:
    """What the first stream has of what both have got, %."""
    return 100 * last["bytes"] / (last["bytes"] + rival["bytes"])


def recounted(bed: Bed, rate: float = 1e9) -> dict:
    """Of 15 flows of a host, 14 end while the flow mode is not one that is fair to hosts: what
    the last one gets afterwards beside another host's, %, here and below cake at the root."""
    def last_gets(contender):
        hop = bed.prepare(rate, 8, "besteffort dual-srchost", contender)
        two_hosts(hop, last=0, other=0, ends=0)
        hop.meter(rate, from_s=0.4)

        def change():
            for mode in ("flows", "dual-srchost"):
                time.sleep(0.15)
                bed.change(rate, mode, contender=contender)

        last, rival, *_ = beside_run(hop, 0.6, change)["streams"]
        return {"gets": of_two(last, rival)}

    return beside_root(last_gets)


def ended(bed: Bed, rate: float = 1e9) -> dict:
    """14 of a host's 15 flows are on a queue of their own, and end; the queue is idle from then
    on: what the last flow of the host gets on another queue beside another host's, %."""
    hop = bed.prepare(rate, 3, "besteffort dual-srchost")
    two_hosts(hop, last=0, other=1, ends=2)
    last, rival, *_ = hop.between(rate, 0.4, 0.6)["streams"]
    return {"gets": of_two(last, rival)}


def rehosted(bed: Bed, rate: float = 1e9) -> dict:
    """15 hosts have a flow each when a flow mode that is not fair to hosts is changed to one
    that is: what a new host's flow gets beside them, %, here and below cake at the root.

    By chance, some hosts share an entry of cake's table, as below an unpatched cake that is fair
    to hosts from the start: then it is 1/15 or 1/14, 7.14 %.
    """
    def new_gets(contender):
        hop = bed.prepare(rate, 8, "besteffort flows", contender)
        labelled(hop, own_hosts([0] * 15))
        hop.stream(0, src=500, dst=501, start=0.2)
        hop.meter(rate, from_s=0.3)

        def change():
            time.sleep(0.1)
            bed.change(rate, "dual-srchost", contender=contender)

        *_, new = beside_run(hop, 0.6, change)["streams"]
        return {"gets": 100 * new["bps"] / rate}

    return beside_root(new_gets)


def one_by_one(bed: Bed, ends: bool = False, rate: float = 10e6) -> dict:
    """98 bulk flows on seven queues. On the eighth, a flow sends packets of 1400 bytes one by one,
    more than its share; what it gets, Mbit/s, and below cake at the root.

    ends: a bulk flow was there before, and a sparse flow sends, too: also what that waits at
    most, s.
    """
    def last_queue(contender):
        hop = bed.prepare(rate, 8, "besteffort flows", contender)
        for queue in range(7):
            hop.stream(queue, flows=14, depth=64)
        if ends:
            hop.stream(7, size=1400, depth=4, start=0.3, stop=1.5)
            hop.stream(7, src=77, start=1.5, **paced(8e3, size=100))
        hop.stream(7, src=99, start=1.5, **paced(0.4e6 if ends else 1e6, size=1400))
        *_, other, flow = hop.between(rate, 2, 7)["streams"]
        return {"mbit": flow["bps"] / 1e6, **({"wait": other["delay"]["max"]} if ends else {})}

    return beside_root(last_queue)


def waits(bed: Bed, rate: float, queues: int, each: int = 4) -> dict:
    """A packet of 200 bytes every 20 ms (100 ms at 1 Mbit/s, to be less than a share) on
    one of so many queues, which have so many saturated flows each: its p99 wait, and the
    same below cake at the root."""
    settle, seconds, gap = (0.3, 3, 0.02) if rate > 1e6 else (3, 30, 0.1)

    def wait(contender):
        hop = bed.prepare(rate, queues, "besteffort flows", contender)
        labelled(hop, own_hosts([*range(queues)] * each))
        hop.stream(3, src=900, dst=901, **paced(200 * 8 / gap, size=200))
        got = hop.between(rate, settle, settle + seconds)
        return {"p99": got["streams"][-1]["delay"]["p99"]}

    figures = beside_root(wait)
    return {**figures, "of_root": figures["p99"] / figures["root_p99"]}
