# SPDX-License-Identifier: GPL-2.0
"""The table of make demo: which figures of lab/load/scenarios.py it shows, in which unit and
within which bound."""

import json
from collections.abc import Container, Sequence
from typing import Any

from tree.common import KERNEL, ROOT, command_line, keep_result

from load.scenarios import (
    CAKE_MQ,
    CROWDS,
    DIFFSERV,
    MIXED,
    MODES,
    PARTS,
    PRIORITY,
    ROOM,
    measure,
)

RESULTS = ROOT / "results" / "scenarios.json"
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

    def cells_of(self, only: Container[str] | None = None) -> list[tuple[str, float | None]]:
        """(label, bound) of the cells; only: of these scenarios."""
        return [(label, bound) for label, bound in zip(self.cells, self.bounds)
                if only is None or self.cells[label][0] in only]

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
                for mode in ("dual-srchost", "triple-isolate")},
             "310 flows, 300, dual-srchost, 20 Mbit": "crowds dual-srchost"}
    within = {key: {label: (name, key) for label, name in crowds.items()}
              for key in ("jain", "lowest", "highest")}
    places = {"1 Mbit, 8 queues": "waits 1 8", "10 Mbit, 8 queues": "waits 10 8",
              "100 Mbit, 8 queues": "waits 100 8", "100 Mbit, 64 queues": "waits 100 64"}
    lost = "diffserv4 AF41, EF, CS1"
    kept = [name for name in PARTS if name != lost and name.split()[0] in DIFFSERV]
    crowd = {"EF, diffserv4": "EF flows diffserv4",
             "EF, diffserv4, best effort on all": "EF flows diffserv4 beside",
             "best effort, diffserv8": "flows diffserv8",
             "EF, diffserv8": "EF flows diffserv8",
             "EF, diffserv8, best effort on all": "EF flows diffserv8 beside"}
    equal = 3, 6, 3, None, 3
    light = {f"{mode}, {label}": f"light {mode} {rate}" for mode in ("diffserv4", "diffserv8")
             for label, rate in (("30 % of 1 Gbit", 1), ("0.6 % of 5 Gbit", 5))}
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
        Row("tins on queues at random: the same, worst of 8 loads",
            {mode: (f"random {mode}", "off") for mode in DIFFSERV}, (2, None, 2, 2), **percent),
        Row("tins without best effort: the same", {lost: (lost, "off")}, None, **percent),
        Row("16 flows on 8 queues, 1 Gbit: lowest, off the mean by %",
            {label: (name, "lowest") for label, name in crowd.items()}, equal, **percent),
        Row("the same: highest",
            {label: (name, "highest") for label, name in crowd.items()}, equal, **percent),
        Row("light EF and best effort beside a CS1 flow, 40 queues: p99 wait, us",
            {label: (name, "p99") for label, name in light.items()}, 100, 1e6, "{:.1f}"),
        Row("the same: off the rate by, %",
            {label: (name, "deviation") for label, name in light.items()}, 0.02),
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
        Row("15 hosts' flows, from another flow mode: a new host gets, % (6.25)",
            {"1 Gbit": ("rehosted", "gets"),
             "the same, cake at the root": ("rehosted", "root_gets")}, 7, form="{:.1f}"),
        Row("packets of 1400 bytes one by one, 98 bulk flows beside: Mbit (0.101)",
            {"10 Mbit": ("one by one", "mbit"),
             "the same, cake at the root": ("one by one", "root_mbit"),
             "10 Mbit, a bulk flow ended there": ("one by one after bulk", "mbit")}, 0.11,
            form="{:.3f}"),
        Row("sparse flow on the queue of the last: longest wait, ms",
            {"10 Mbit": ("one by one after bulk", "wait"),
             "the same, cake at the root": ("one by one after bulk", "root_wait")}, 2,
            scale=1e3, form="{:.1f}"),
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
             "200 Mbit, dual-srchost, RTT 20 ms": ("tcp hosts", "off")}, (2, 7), **percent),
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
            {"2 queues, 100 Mbit": ("left alone", "best_effort"),
             "2 queues, 64 kbit": ("left alone slow", "best_effort")}, 30, form="{:.1f}",
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
             "CS1 on two, % (6.25): off by": (f"mq + cake shared: {ROOM}", "cs1_off"),
             "AF41 on one, % (50): off by": (f"mq + cake shared: {ROOM}", "af41_off")},
            (0.75, 0.75, 2.5), form="{:.2f}"),
    ]


def timer_rows(size: dict) -> list[Row]:
    """Timers and queues that are late."""
    return [
        Row("timers of 10 ms instead of high resolution: off the rate by, %",
            several([f"slow timers {n}" for n in (256, 1024)], "deviation",
                    "8 queues, 1 Gbit, {} packets each"), 2.5, form="{:.1f}"),
        Row("the same: Jain's index",
            several([f"slow timers {n}" for n in (256, 1024)], "jain",
                    "8 queues, 1 Gbit, {} packets each"), 0.95, form="{:.2f}", at_least=True),
        Row("video in bursts on one queue, CS1 saturated on one: off the rate by, %",
            several([f"video {n:g}" for n in (1, 2.5, 10, 25)], "deviation",
                    "diffserv4, {} Gbit"), 0.5, form="{:.3f}"),
        Row("queues of 8 are stopped for 5 ms at random, 1 Gbit: off the rate by, %",
            {"one is busy": ("stopped", "deviation"), "all are": ("stopped all", "deviation")},
            1, form="{:.2f}"),
        Row("the same: the next hop has to queue, KB",
            {"one is busy": ("stopped", "excess"), "all are": ("stopped all", "excess")},
            1450, **size),
        Row("one packet in 200 takes 600 us longer, 1 Gbit: off the rate by, %",
            {"one of 8 queues is busy": ("late 1", "deviation"),
             "all are": ("late 8", "deviation")}, 1, form="{:.2f}"),
        Row("the same: the next hop has to queue, KB",
            {"one of 8 queues is busy": ("late 1", "excess"), "all are": ("late 8", "excess")},
            300, **size),
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
             "8 of 256 queues": ("writes 8 of 256", "writes"),
             "40 queues, diffserv8": ("saturated diffserv8", "writes")},
            (210, 210, 830, 210, None), 1e-3, "{:.0f}"),
        Row("70 % of 10 Gbit, 40 queues: writes per packet",
            {"200 bytes": ("fill", "writes_per_packet"),
             "200 bytes, diffserv8": ("fill diffserv8", "writes_per_packet"),
             "1514 bytes": ("fill 1514", "writes_per_packet")}, None,
            form="{:.2f}"),
        Row("the same: p99 wait, us", {"200 bytes": ("fill", "p99")}, None, 1e6, "{:.1f}"),
        Row("one of 2 queues sends, 1514 bytes, 1 Gbit: timers per packet",
            {"600 Mbit": ("below", "timers"), "100 Mbit of EF": ("below EF", "timers")}, 0.05,
            form="{:.2f}"),
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


# What make demo runs: of each kind of load the one that says most. ALL=1 runs all.
BRIEF = {
    "saturated 1", "saturated 10", "80/20", "elephant + 39 mice", "39 light", "45/45/10", "frames",
    "switch 8", "40 to 4 8", "sparse 1", "flood 60", "flood 500", "tins 4", "spread 1", "beside",
    "gso whole", "rate up", "left alone", "flows 16/8 1000", "flows 64/8", "hosts dual-srchost",
    "hosts triple-isolate", "packed triple-isolate", "crowds dual-srchost", "diffserv3 CS1, BE",
    "diffserv4 EF CS1, EF, BE CS1", "diffserv8 CS1, BE", "EF flows diffserv4 beside",
    "light diffserv8 1", "random precedence", "new flow", "one of eight", "recounted",
    "rehosted", "one by one", "one by one after bulk",
    "waits 100 8", "ingress uneven", "drops, egress", "hung", "slow timers 256", "stopped",
    "late 8", "video 10", "busy",
    "fill", "below", "below EF",
    "echo 8", "crowd 256", "tcp flows", "root tcp flows", "cs5 udp", "root cs5 udp",
    *(f"{contender}: {name}" for contender in ALSO for name in ("80/20", "switch 8")),
}


def also_run(everything: bool = False) -> dict[str, list[str]]:
    """{contender of ALSO: the scenarios of ROWS that are its own, or all}."""
    own = [name.split(": ") for row in ROWS for name, _ in row.cells.values() if ": " in name]
    return {contender: CAKE_MQ if everything else [name for c, name in own if c == contender]
            for contender in ALSO}


def table(results: dict, only: Container[str] | None = None) -> list[str]:
    """The rows as lines of text; results: {kernel: figures}; only: of these scenarios."""
    lines = [f"{'':<42}{'stock':>12}{'series 1':>12}{'all':>12}{'bound':>12}"]
    for row in ROWS:
        cells = row.cells_of(only)
        lines += [row.title] * bool(cells)
        for label, bound in cells:
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
        for label, own in row.cells_of():
            for c in ALSO:
                bound = own
                if "tbf" in c and own is not None:  # promised the rate, and no more
                    bound = max(own, 0.25) if row.cells[label][1] == "deviation" else None
                if label in there and not row.good(label, bound, figures, f"{c}: "):
                    wrong.append(f"{c}: {row.title}, {label}: "
                                 f"{row.text(label, figures, f'{c}: ')}, bound {bound:g}")
    return lines, wrong


def stored() -> dict:
    """{kernel: figures} of results/scenarios.json."""
    return json.loads(RESULTS.read_text())["kernels"] if RESULTS.exists() else {}


def store(results: dict) -> None:
    """Write {kernel: figures}."""
    keep_result(RESULTS.name, {
        "what": "scenarios in virtual time; rates in bit/s, waits in s or as the name "
        "says, excess in bytes", "kernels": results})


def raw(argv: Sequence[str]) -> None:
    """lab scenarios: some figures of a kernel, as they come; nothing is stored."""
    parser = command_line("scenarios", __doc__)
    parser.add_argument("kernel", help="its name, or a folder that has it and hop.ko")
    parser.add_argument("pattern", nargs="*", help="what a scenario's name contains (all)")
    args = parser.parse_args(argv)
    measure(args.kernel, args.pattern, lambda name, row, s: print(
        f"{s:6.1f} {name}: " + json.dumps(row)[:300], flush=True), also_run(), slow=True)
