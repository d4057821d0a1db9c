# SPDX-License-Identifier: GPL-2.0
"""The rows of the figures of the evaluation, and the tables of results/evaluation.md."""

import functools
import json
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from host.results import latest_result, recorded

SPEED = "64 bytes, below the rate"  # the case of smp.json that the picture shows


class Rows(list):
    """Rows of a figure."""

    def of(self, **wanted: Any) -> "Rows":
        """Those that have these values, of their own or as arguments."""
        return Rows(r for r in self if all(
            r.get(key, r["args"].get(key)) == value for key, value in wanted.items()))

    def values(self, key: str) -> list:
        """Different values of something, in the order of the rows."""
        return list(dict.fromkeys(r.get(key, r["args"].get(key)) for r in self))

    def column(self, key: str, scale: float = 1) -> list:
        """One value of each."""
        return [r.get(key, r["args"].get(key)) * scale for r in self]


@functools.cache
def latest(name: str, old: bool = False) -> Rows:
    """The rows of a figure; "cost": of make bench. old: as recorded, not as measured since then."""
    if name == "cost":
        return Rows([*latest("bench", old), *latest("smp", old)])
    file = f"{name}.json"
    found = recorded(file) if old else json.loads(latest_result(file).read_text())
    return Rows(found["speeds"] if name == "smp" else found["rows"])


def intervals(rows: Rows) -> dict[int, list[float]]:
    """By the number of TX queues, the rate that stock reaches at each interval: bit/s."""
    stock = rows.of(what="receive_queues", label="stock cake_mq")
    return {value: [20 * (1 + d / 100) for d in stock.of(value=value).column("deviation")]
            for value in stock.values("value")}


def rate_text(bits: float) -> str:
    """10M, 2G: as tc understands it, without the unit."""
    return f"{bits / 1e9:g}G" if bits >= 1e9 else f"{bits / 1e6:g}M"


load = functools.partial(latest, old=True)
TRIO = ("stock cake_mq", "series", "root cake")
PROMISE = 0.25  # %, how far the paper lets the rate be off


def markdown(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """A table as lines."""
    lines = ["| " + " | ".join(row) + " |" for row in (head, *rows)]
    return [lines[0], "|---" * len(head) + "|", *lines[1:]]


def furthest(rows: Rows, key: str = "deviation") -> float:
    """The value furthest from 0, or 0 if there is none."""
    return max(rows.column(key), key=abs, default=0)


def span(values: Sequence[float], form: str = "{:.2f}") -> str:
    """The least and the most, or one if these look the same."""
    ends = form.format(min(values)), form.format(max(values))
    return " to ".join(dict.fromkeys(ends))


def by_label(rows: Rows, *columns: Callable[[Rows], str]) -> Iterable[tuple[str, ...]]:
    """A line of a table for each contender."""
    for label in rows.values("label"):
        yield (label, *(column(rows.of(label=label)) for column in columns))


def short(us: float) -> str:
    """Microseconds as text."""
    return f"{us:.0f}" if us >= 1 else "< 1"


def accuracy() -> list[str]:
    """How far off each contender is, and at which rates further than the paper promises."""
    def beyond(mine):
        return ", ".join(rate_text(r["args"]["rate"]) for r in mine
                         if abs(r["deviation"]) > PROMISE) or "none"

    return markdown(("contender", "furthest from the rate, %",
                     f"bit/s at which off by > {PROMISE} %"),
                    by_label(load("accuracy"), lambda mine: f"{furthest(mine):+.3f}", beyond))


def switching() -> list[str]:
    """What a next hop waits for at the worst of three rates, by the constant of a kernel, us."""
    rows = load("switching").of(what="sweep")
    return markdown(("contender", "its constant", "wait, us"), (
        (label, f"{value:g} {'us' if label == TRIO[0] else 'bytes'}",
         f"{max(rows.of(label=label, value=value).column('delay', 1e6)):.1f}")
        for label in rows.values("label") for value in rows.of(label=label).values("value")))


def imbalance() -> list[str]:
    """How far off the rate with fewer TX queues, and in the cells of the right panel, %."""
    rows = load("imbalance")
    return markdown(("contender", "1 to 40 TX queues: furthest off, %",
                     "36 loads on the right: furthest off, %"), by_label(
        rows, lambda mine: f"{furthest(mine.of(what='receive_queues')):+.3f}",
        lambda mine: f"{furthest(mine.of(what='skewed')):+.3f}"))


def latency() -> list[str]:
    """The median p99 of the echo, and what was lost of it."""
    rows = load("latency")
    counts = rows.values("flows")
    return markdown(
        ("contender", *(f"p99 beside {n} flows, us" for n in counts), "echoes lost, of 6400"),
        by_label(rows, *(lambda mine, n=n: short(sorted(mine.of(flows=n).column("p99_us"))[1])
                         for n in counts), lambda mine: span(mine.column("lost"), "{:.0f}")))


def fairness() -> list[str]:
    """What EF gets on one queue, and Jain's index over 16 flows."""
    return markdown(("contender", "EF on one of 4 queues, % (25)", "Jain's index over 16 flows"),
                    by_label(load("fairness"), lambda mine: f"{mine.of(count=1)[0]['ef']:.2f}",
                             lambda mine: span(mine.of(what="hashed", flows=16).column("jain"))))


def committed() -> list[str]:
    """The class furthest off its rate, by the length of frames."""
    rows = load("committed")
    sizes = rows.values("size")
    return markdown(("worst class off by, %", *(f"{size} bytes" for size in sizes)), by_label(
        rows, *(lambda mine, size=size: f"{abs(furthest(mine.of(size=size), 'worst')):.3f}"
                for size in sizes)))


def cost() -> list[str]:
    """CPU time of the series beside stock."""
    return markdown(
        ("load", "CPU time, of stock's", "range", "wake-ups per packet", "stock"),
        ((r["case"], f"{r['ratio']:.2f}", span(r["ratios"]),
          *(f"{r['wakeups'][which]:.2f}" for which in ("bench-patched", "bench-base")))
         for r in load("bench")))


def senders() -> list[str]:
    """What two senders pass, of what one does."""
    return markdown(("contender", "two senders, of one", "range"), (
        (r["label"], f"{r['ratio']:.2f}", span(r["ratios"])) for r in load("cost")
        if r.get("case") == SPEED))


def one_each(rows: Rows, figure: Callable[[Rows], str], **wanted: Any) -> list[str]:
    """A figure of each of TRIO; - where it was not measured."""
    found = [rows.of(label=label, **wanted) for label in TRIO]
    return [figure(mine) if mine else "-" for mine in found]


def next_hop(mine: Rows) -> str:
    """What a next hop has to queue at 8 Gbit/s with the usual constants, us."""
    usual = [*mine.of(what="timeline"), *mine.of(value=200), *mine.of(value=12288)]
    return span([row["excess"] * 8 / row["args"]["rate"] * 1e6 for row in usual], "{:.0f}") + " us"


def echo(mine: Rows) -> str:
    """The p99 of three starts: the median, and the range."""
    low, middle, high = map(short, sorted(mine.column("p99_us")))
    return f"{low} us" if low == high else f"{middle} us ({low} to {high})"


def longest_waits(flows: int) -> str:
    """How long an echo beside so many TCP flows waited at most, in all starts."""
    stock, ours, root = one_each(
        load("latency"), lambda mine: f"{short(max(mine.column('max_us')))} us", flows=flows)
    return f"{ours} (stock {stock}, root cake {root})"


def summary() -> list[str]:
    """The paper's claims, and what each of TRIO does."""
    rates, switched, uneven, waits, fair = map(
        load, ("accuracy", "switching", "imbalance", "latency", "fairness"))
    middle = Rows(row for row in rates if 50e6 <= row["args"]["rate"] <= 24e9)

    def off(mine):
        return f"{abs(furthest(mine)):.3f} %"

    def mean(key, unit):
        return lambda mine: f"{sum(mine.column(key)) / len(mine):.2f}{unit}"

    return markdown(("", "the paper", "stock", "series", "root cake"), (
        ("40 queues, 10 Mbit: off the rate by", "below 0.25 %", *one_each(rates, off, rate=10e6)),
        ("the same, 50 Mbit to 24 Gbit, worst", "below 0.25 %", *one_each(middle, off)),
        ("4 queues become 40 at 8 Gbit: delay at the next hop", "grows with the sync time",
         *one_each(switched, next_hop, rate=8e9)),
        ("40 receive queues on 26 TX queues, rate 20 Gbit", "less than the rate", *one_each(
            uneven, lambda mine: f"{20 * (1 + mine[0]['deviation'] / 100):.2f} Gbit",
            what="receive_queues", queues=26)),
        ("4 busy queues and 36 light ones, worst load: of the rate", "-", *one_each(
            uneven, lambda mine: f"{100 + min(mine.column('deviation')):.0f} %", what="skewed")),
        *((f"UDP echo beside {n} TCP flows, 1 Gbit, 8 queues: p99",
           "0.4 ms (20 Gbit)" if n == 1024 else "-", *one_each(waits, echo, flows=n))
          for n in (64, 256, 1024)),
        ("EF on one of 4 queues: of the rate (25 %)", "-",
         *one_each(fair, mean("ef", " %"), what="placement", count=1)),
        ("16 flows hashed to 8 queues: Jain's index over flows", "-",
         *one_each(fair, mean("jain", ""), what="hashed", flows=16))))
