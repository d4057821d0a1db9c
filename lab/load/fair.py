# SPDX-License-Identifier: GPL-2.0
"""Loads: what flows, hosts and tins get over all queues of a group, beside one cake."""

import random
import time
from collections.abc import Sequence

from load.bed import (
    CROWD,
    DIFFSERV,
    EF,
    TOS,
    Bed,
    beside_run,
    deviation,
    equal,
    labelled,
    own_hosts,
    paced,
    scattered,
)
from load.room import Row, scenario

DEPTH = "memlimit 64mb"  # for a thousand flows


def flows(bed: Bed, rate: float, queues: int, where: Sequence[int], mode: str = "besteffort",
          tos: int = 0, beside: int = 0, seconds: float = 0.5) -> dict:
    """Saturated flows, one on each queue of the list where: how equal they are. On so many
    queues, best effort is beside them."""
    hop = bed.prepare(rate, queues, f"{mode} flows")
    labelled(hop, [(*stream[:4], tos) for stream in own_hosts(where)])
    hop.streams(range(beside))
    got = hop.between(rate, 0.3, 0.3 + seconds)
    return {**equal([s["bps"] for s in got["streams"][:len(where)]]),
            "deviation": deviation(got, rate), "excess": got["excess"]["bytes"]}


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


def parts(bed: Bed, rate: float, options: str, streams: Sequence[tuple]) -> dict:
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
            got = hop.between(rate, 0.5, 1)
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
    streams = hop.between(rate, begin, begin + seconds)["streams"]
    got = [100 * (s["bps"] * 8 / rate - 1) for s in streams]
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
        *_, other, flow = hop.between(rate, 2, 2 + seconds)["streams"]
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
        figures[key] = hop.between(rate, settle, settle + seconds)["streams"][-1]["delay"]["p99"]
    return {**figures, "of_root": figures["p99"] / figures["root_p99"]}


PERCENT = {"form": "{:.2f}"}
JAIN = Row("flows on queues at random: Jain's index over flows", "jain", "{:.5f}", at_least=True)
LOWEST = Row("the same: lowest flow, off the mean by %", "lowest", **PERCENT)
HIGHEST = Row("the same: highest flow, off the mean by %", "highest", **PERCENT)
for name, label, rate, queues, where in (
        ("16/8 200", "16 of 8, 200 Mbit", 200e6, 8, CROWD),
        ("16/8 1000", "16 of 8, 1 Gbit", 1e9, 8, CROWD),
        *((f"{n}/{q}", f"{n} of {q}, 1 Gbit", 1e9, q, scattered(n, q))
          for n in (64, 257) for q in (8, 40))):
    scenario(f"flows {name}", flows, JAIN(label, 0.99), LOWEST(label, 3), HIGHEST(label, 3),
             args={"rate": rate, "queues": queues, "where": where},
             brief=name in ("16/8 1000", "64/8"), coverage=name == "16/8 1000")

HOSTS = Row("2 hosts, 1 Gbit, 8 queues: off root cake by, points", "off", **PERCENT)
for mode in ("dual-srchost", "dual-dsthost", "triple-isolate", "hosts"):
    scenario(f"hosts {mode}", many_hosts if mode == "triple-isolate" else parts,
             HOSTS(f"1 flow, 15, {mode}", 2),
             args={"rate": 1e9, "options": f"besteffort {mode}", "streams": one_and_many(mode)},
             brief=mode in ("dual-srchost", "triple-isolate"), coverage=mode != "triple-isolate")
for mode in ("dual-srchost", "triple-isolate"):
    scenario(f"packed {mode}", many_hosts if mode == "triple-isolate" else parts,
             HOSTS(f"all on a queue, on all, {mode}", 2),
             args={"rate": 1e9, "options": f"besteffort {mode}", "streams": packed()},
             brief=mode == "triple-isolate", coverage=mode == "triple-isolate")
scenario("crowds dual-srchost", parts, HOSTS("310 flows, 300, dual-srchost, 20 Mbit", 2),
         args={"rate": 20e6, "options": f"besteffort dual-srchost {DEPTH}", "streams": crowds()},
         brief=True)

THOUSAND = Row("hosts of 1 and 1000 flows, 1 Gbit, 8 queues: the first gets, %", "one",
               at_least=True, **PERCENT)
scenario("thousand", thousand, THOUSAND("dual-srchost", 49),
         THOUSAND("the same, cake at the root", key="root_one"))

TINS = Row("tins on queues of their own: off root cake by, points", "off", **PERCENT)
RANDOM = Row("tins on queues at random: the same, worst of 8 loads", "off", **PERCENT)
LONE_TINS = Row("tins without best effort: the same", "off", **PERCENT)
for mode, *loads in (
        *((mode, "CS1, BE", "2 CS1, BE: CS1, BE, CS1", "BE, 7 CS1: BE" + 7 * ", CS1",
           "EF CS1, EF, BE CS1", "CS1, EF, AF41, BE") for mode in ("diffserv3", "diffserv4")),
        *((mode, "CS1, BE", "EF, BE", "CS1, EF, AF41, BE, CS6")
          for mode in ("diffserv8", "precedence"))):
    for load in loads:
        name, _, queues = load.partition(": ")
        scenario(f"{mode} {name}", parts, TINS(f"{mode} {name}", 2),
                 args={"rate": 100e6, "options": mode,
                       "streams": classes(*(queues or name).split(", "))},
                 brief=f"{mode} {name}" in ("diffserv3 CS1, BE", "diffserv8 CS1, BE",
                                            "diffserv4 EF CS1, EF, BE CS1"))
scenario("diffserv4 AF41, EF, CS1", parts, LONE_TINS("diffserv4 AF41, EF, CS1"),
         args={"rate": 1e9, "options": "diffserv4", "streams": classes("AF41", "EF", "CS1")})
for mode in DIFFSERV:
    scenario(f"random {mode}", at_random, RANDOM(mode, None if mode == "diffserv4" else 2),
             args={"mode": mode}, brief=mode == "precedence")

LOW = Row("16 flows on 8 queues, 1 Gbit: lowest, off the mean by %", "lowest", **PERCENT)
HIGH = Row("the same: highest", "highest", **PERCENT)
SIXTEEN = {"rate": 1e9, "queues": 8, "where": CROWD}
for mode, alone, together in (("diffserv4", 3, 6), ("diffserv8", None, 3)):
    for beside, bound, also in ((0, alone, ""), (8, together, ", best effort on all")):
        scenario(f"EF flows {mode}{' beside' * bool(beside)}", flows,
                 LOW(f"EF, {mode}{also}", bound), HIGH(f"EF, {mode}{also}", bound),
                 args={**SIXTEEN, "mode": mode, "tos": EF, "beside": beside, "seconds": 1.0},
                 brief=mode == "diffserv4" and bool(beside))
scenario("flows diffserv8", flows, LOW("best effort, diffserv8", 3),
         HIGH("best effort, diffserv8", 3), args={**SIXTEEN, "mode": "diffserv8"})

CROWDED = Row("8 flows on 8 queues, 50 Mbit of light flows on one: off the mean by %", "lowest",
              **PERCENT)
scenario("crowded", crowded, CROWDED("1 Gbit, lowest", 3), CROWDED("1 Gbit, highest", 3, "highest"))

NEW = Row("new flow or host, 1 Gbit: ms to 90 % of its share", "rise_s", "{:.0f}", 1e3)
scenario("new flow", arrival, NEW("beside 16 flows", 10), args={"what": "flow"}, brief=True)
scenario("new host", arrival, NEW("beside a host with 15 flows", 10), args={"what": "host"})

ONE_QUEUE = Row("500 flows on one of 8 queues: the next hop has to queue, KB", "excess",
                "{:.1f}", 1e-3)
scenario("one of eight", one_of_eight, ONE_QUEUE("1 Gbit", 64), brief=True)
scenario("one of eight stall", one_of_eight, ONE_QUEUE("1 Gbit, transmits late by 200 us", 64),
         args={"stall": 200e-6})

MOVED = Row("a flow moves to another queue: 100 ms after, off by %", "others", **PERCENT)
scenario("moved", moved, MOVED("1 Gbit, 8 flows, the others", 3),
         MOVED("1 Gbit, 8 flows, that one", key="moved"))
ROOT = "the same, cake at the root"
RECOUNTED = Row("14 of a host's 15 flows end in another flow mode: the last gets, % (50)", "gets",
                "{:.1f}", at_least=True)
scenario("recounted", recounted, RECOUNTED("1 Gbit, host of one flow beside it", 49),
         RECOUNTED(ROOT, 49, "root_gets"), brief=True)
REHOSTED = Row("15 hosts' flows, from another flow mode: a new host gets, % (6.25)", "gets",
               "{:.1f}")
scenario("rehosted", rehosted, REHOSTED("1 Gbit", 7), REHOSTED(ROOT, 7, "root_gets"), brief=True)
BY_ONE = Row("packets of 1400 bytes one by one, 98 bulk flows beside: Mbit (0.101)", "mbit",
             "{:.3f}")
BY_ONE_WAIT = Row("sparse flow on the queue of the last: longest wait, ms", "wait", "{:.1f}", 1e3)
scenario("one by one", one_by_one, BY_ONE("10 Mbit", 0.11), BY_ONE(ROOT, 0.11, "root_mbit"),
         args={"ends": False}, brief=True)
scenario("one by one after bulk", one_by_one, BY_ONE("10 Mbit, a bulk flow ended there", 0.11),
         BY_ONE_WAIT("10 Mbit", 2), BY_ONE_WAIT(ROOT, 2, "root_wait"), args={"ends": True},
         brief=True)

WAITS = Row("sparse flow: p99 wait, times that below root cake", "of_root", **PERCENT)
for mbit, queues, each in ((1, 8, 1), (10, 8, 1), (100, 8, 4), (100, 64, 1)):
    scenario(f"waits {mbit} {queues}", waits, WAITS(f"{mbit} Mbit, {queues} queues", 2),
             args={"rate": mbit * 1e6, "queues": queues, "each": each},
             brief=(mbit, queues) == (100, 8))
