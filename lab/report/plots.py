# SPDX-License-Identifier: GPL-2.0
"""Draw the figures from results/<figure>.json.

Run by lab/report/figures.py with the Python that has Debian's matplotlib. Pictures are as
wide as a printed page, 17 cm, with no letter below 7 points. Colours are those of Okabe and
Ito, made for colour-blind readers; a contender has the same colour and marker everywhere
(but in latency, where they are named beside the axis), and lines and bars differ without
colours as well.
"""

import io
import json
from collections.abc import Sequence
from typing import Any

import matplotlib
import matplotlib.pyplot as plt
from host.common import Die
from host.results import latest_result, result_file
from loads.room import SCENARIOS
from PIL import Image

from report.evaluation import SPEED, Rows, intervals, latest, rate_text

matplotlib.use("Agg")
LOOK = {  # label: colour, marker, line
    "series": ("#0072B2", "o", "-"), "stock cake_mq": ("#D55E00", "s", "--"),
    "root cake": ("#009E73", "^", ":"), "root htb": ("#CC79A7", "v", "-."),
    "tbf shared": ("#56B4E9", "D", (0, (5, 1, 1, 1, 1, 1))),
    "EDT": ("#000000", "P", (0, (1, 3))),
    "shared htb": ("#0072B2", "X", "-"), "htb per queue": ("#999999", "*", ":"),
}
HATCH = {"series": "", "stock cake_mq": "////", "root cake": "...."}
PATTERNS = ("o-", "s--", "^:")  # of up to three lines of one colour
WIDE = 17 / 2.54  # inches

matplotlib.rcParams.update({
    "font.size": 7.5, "axes.labelsize": 7.5, "axes.titlesize": 8, "legend.fontsize": 7,
    "xtick.labelsize": 7, "ytick.labelsize": 7, "axes.grid": True, "grid.color": "#dddddd",
    "axes.axisbelow": True, "axes.spines.top": False, "axes.spines.right": False,
    "legend.frameon": False, "lines.markersize": 3.5, "lines.linewidth": 1,
    "hatch.linewidth": 0.6, "figure.dpi": 200,
})


def page(height: float, parts: int = 1, **more: Any) -> tuple:
    """A figure as wide as a page and so many cm high, and its panels side by side."""
    return plt.subplots(1, parts, figsize=(WIDE, height / 2.54), layout="constrained", **more)


def save(figure: plt.Figure, name: str) -> None:
    """Write the picture in 64 colours; the same bytes for the same figures."""
    small = [text for text in figure.findobj(matplotlib.text.Text) if "^" in text.get_text()]
    if small:
        raise Die(f"{name} has exponents, whose letters are too small; name its ticks")
    drawn = io.BytesIO()
    figure.savefig(drawn)
    Image.open(drawn).convert("RGB").quantize(64).save(result_file(f"{name}.png"), optimize=True)
    plt.close(figure)


def line(axes: plt.Axes, label: str, x: Sequence, y: Sequence, text: str | None = None,
         **more: Any) -> None:
    """A contender's line in its colour; text: in the legend, if not its name."""
    colour, marker, dashes = LOOK[label]
    axes.plot(x, y, color=colour, marker=marker, label=text or label, **{"ls": dashes, **more})


def bar_look(label: str, text: str | None = None) -> dict:
    """What tells a contender's bars from others, in grey as well; text: as for line()."""
    colour, hatch = LOOK[label][0], HATCH[label]
    return {"color": "white" if hatch else colour, "edgecolor": colour, "hatch": hatch,
            "label": text or label}


def accuracy(rows: Rows) -> plt.Figure:
    """Deviation by rate."""
    figure, axes = page(7)
    rates = rows.values("rate")
    for label in rows.values("label"):
        line(axes, label, range(len(rates)),
             [max(abs(d), 1e-4) for d in rows.of(label=label).column("deviation")])
    axes.set(yscale="log", ylabel="off the rate, % (absolute)", ylim=(0.7e-4, 100),
             xlabel="configured rate, bit/s", xticks=range(len(rates)))
    axes.set_xticklabels([rate_text(r) for r in rates])
    axes.axhline(0.25, color="black", lw=0.8, ls="--")
    axes.text(3, 0.29, "0.25 %: the paper's promise", fontsize=7)
    ticks = [10 ** n for n in range(-4, 3)]
    axes.set_yticks(ticks, ["0.0001 or less", *(f"{t:g}" for t in ticks[1:])])
    axes.legend(ncols=2, loc="upper center")
    return figure


def switching(rows: Rows) -> plt.Figure:
    """Throughput over time; induced queue by what can be tuned."""
    figure, axes = page(6.5, 3, width_ratios=(1.4, 1, 1))
    for label, width in (("stock cake_mq", 1), ("series", 2), ("root cake", 1)):
        row = rows.of(label=label, what="timeline")[0]
        times = [(i * row["bin_s"] - row["switch_s"]) * 1e3 for i in range(len(row["bps"]))]
        axes[0].step(times, [b / 1e9 for b in row["bps"]], where="post", label=label,
                     color=LOOK[label][0], ls=LOOK[label][2], lw=width)
    axes[0].set(xlabel="ms from when 36 more queues start", ylabel="sent, Gbit/s (50 us bins)",
                ylim=(0, None), xlim=(-1, 4))
    axes[0].legend(loc="upper right")
    waits = (1, 10, 100, 1000)
    for ax, label, title, scale in (
            (axes[1], "stock cake_mq", "stock: between two scans, us", 1),
            (axes[2], "series", "series: longest slot, KB", 1e-3)):
        for pattern, rate in zip(PATTERNS, rows.of(what="sweep").values("rate")):
            mine = rows.of(what="sweep", label=label, rate=rate)
            ax.plot(mine.column("value", scale), mine.column("delay", 1e6), pattern,
                    color=LOOK[label][0], label=f"{rate / 1e9:g} Gbit/s")
        ax.set(xscale="log", yscale="log", xlabel=title, ylim=(1, 5000),
               ylabel="wait at the next hop, us (most)")
        ticks = mine.column("value", scale)
        ax.set_xticks(ticks, [f"{t:.0f}" for t in ticks])
        ax.set_yticks(waits, waits)
        ax.tick_params(axis="x", rotation=45)
        ax.minorticks_off()
        ax.legend(loc="center right" if label == "series" else "lower right")
    return figure


def imbalance(rows: Rows) -> plt.Figure:
    """By the number of TX queues, and a heat map of stock."""
    figure, (left, right) = page(6.5, 2, width_ratios=(1.3, 1))
    lines = intervals(rows)
    mine = rows.of(what="receive_queues", label="series")
    queues = mine.column("queues")
    middle = [sum(some) / len(some) for some in zip(*lines.values())]
    line(left, "series", queues, [20 * (1 + d / 100) for d in mine.column("deviation")])
    line(left, "stock cake_mq", queues, middle,
         f"stock, scans every {min(lines)} to {max(lines)} us")
    left.set(xlabel="TX queues (40 receive queues, 25 Gbit/s offered)",
             ylabel="sent, Gbit/s (rate: 20)", ylim=(16, 20.5))
    left.legend(loc="lower left")
    mine = rows.of(what="skewed", label="stock cake_mq")
    skews, loads = mine.values("skew"), mine.values("pps")
    cells = [[100 + mine.of(skew=s, pps=p)[0]["deviation"] for s in skews] for p in loads]
    right.imshow(cells, cmap="gray", vmin=-30, vmax=100, origin="lower", aspect="auto")
    for y, line_of in enumerate(cells):
        for x, value in enumerate(line_of):
            right.text(x, y, f"{value:.0f}", ha="center", va="center", fontsize=7,
                       color="black" if value > 35 else "white")
    right.grid(False)
    right.set(title="stock: sent, % of 10 Gbit/s",
              xlabel="skew s of 4 busy queues",
              ylabel="packets/s on each of 36 others")
    right.set_xticks(range(len(skews)), [f"{s:g}" for s in skews])
    right.set_yticks(range(len(loads)), [f"{p:g}" for p in loads])
    return figure


def latency(rows: Rows) -> plt.Figure:
    """Percentiles of an echo beside TCP flows: median of several starts, and range."""
    figure, axes = page(6.5, 3, sharey=True)
    labels = rows.values("label")
    looks = (("p50_us", "o", "white", -0.2), ("p99_us", "o", "black", 0),
             ("p99.9_us", "|", "black", 0.2))
    for ax, flows in zip(axes, rows.values("flows")):
        for key, marker, fill, shift in looks:
            for place, label in enumerate(labels):
                some = sorted(max(v, 0.1) for v in
                              rows.of(label=label, flows=flows).column(key))
                y = len(labels) - 1 - place - shift
                ax.plot([some[0], some[-1]], [y, y], color="black", lw=0.8)
                ax.plot(some[len(some) // 2], y, marker, color="black", mfc=fill, ms=4,
                        mew=0.8, label=key.removesuffix("_us") if not place else None)
        ax.set(xscale="log", title=f"{flows} TCP flows", xlim=(0.06, 2e6))
        ax.set_xticks([10 ** n for n in range(-1, 7)],
                      ["0.1 us\nor less", "", "10 us", "", "1 ms", "", "0.1 s", ""])
        ax.minorticks_off()
    axes[0].set_yticks(range(len(labels)), labels[::-1])
    axes[1].set_xlabel("echo above the path's own time")
    axes[2].legend(loc="lower right", bbox_to_anchor=(1, 1.12), ncols=3)
    return figure


def fairness(rows: Rows) -> plt.Figure:
    """Priority by placement; Jain's index over flows."""
    figure, (left, right) = page(6.5, 2)
    for number, label in enumerate(rows.values("label")):
        mine = rows.of(label=label, what="placement")
        left.bar([c + (number - 1) * 0.26 for c in mine.column("count")], mine.column("ef"),
                 0.24, **bar_look(label))
        mine = rows.of(label=label, what="hashed")
        counts = mine.values("flows")
        lots = [mine.of(flows=n).column("jain") for n in counts]
        means = [sum(some) / len(some) for some in lots]
        line(right, label, counts, means)
        right.fill_between(counts, [min(some) for some in lots], [max(some) for some in lots],
                           color=LOOK[label][0], alpha=0.2, lw=0)
    right.fill_between([], [], color="grey", alpha=0.3, lw=0, label="worst to best of 3 seeds")
    left.axhline(25, color="black", lw=0.8, ls="--")
    left.set(xlabel="queues (of 4) that carry EF traffic", ylabel="EF gets, % of the rate",
             xticks=(1, 2, 3, 4), ylim=(0, 33))
    left.legend(ncols=3, loc="upper center")
    right.set(xscale="log", xlabel="greedy flows, hashed to 8 queues",
              ylabel="Jain's index over flows", ylim=(0, 1.05))
    right.set_xticks(counts, counts)
    right.minorticks_off()
    right.legend(loc="lower right")
    return figure


def cost(rows: Rows) -> plt.Figure:
    """CPU time by number of queues; one sender and two."""
    figure, (left, right) = page(6.5, 2)
    queues = {int(r["case"].split()[1]): r["ns"] for r in rows if "ns" in r
              and r["case"].startswith("saturated")}
    for label, which in (("stock cake_mq", "bench-base"), ("series", "bench-patched")):
        line(left, label, list(queues), [ns[which] for ns in queues.values()])
    left.set(xscale="log", yscale="log", ylim=(300, None), xlabel="saturated queues, 10 Gbit/s",
             ylabel="CPU time per packet, ns")
    left.set_xticks(list(queues), list(queues))
    left.minorticks_off()
    ticks = (500, 1000, 2000, 5000, 10000)
    left.set_yticks(ticks, ticks)
    left.legend()
    speeds = [r for r in rows if r.get("case") == SPEED]
    for number, row in enumerate(speeds):
        colour, marker, _ = LOOK[row["label"]]
        low, high = row["ratios"][0], row["ratios"][-1]
        right.errorbar([number], [row["ratio"]], [[row["ratio"] - low], [high - row["ratio"]]],
                       color=colour, marker=marker, capsize=4, ms=5)
    right.set_xticks(range(len(speeds)), [r["label"].replace(" ", "\n") for r in speeds])
    right.set(ylabel="packets of two senders / one", ylim=(0, 2.5),
              xlabel="64 bytes, below the rate", xlim=(-0.5, len(speeds) - 0.5))
    right.axhline(1, color="black", lw=0.8, ls="--")
    return figure


FRONT = {name: one.front for name, one in SCENARIOS.items() if one.front}  # left of its bars


def front() -> plt.Figure:
    """What of the rate is used under loads that differ by queue, from make demo."""
    figure, axes = page(6)
    kernels = json.loads(latest_result("scenarios.json").read_text())["kernels"]
    for shift, label, text, which in ((0.19, "stock cake_mq", "Linux 7.3.4", "base"),
                                      (-0.19, "series", "patched", "patched")):
        used = [100 + kernels[which][name]["deviation"] for name in FRONT]
        places = [len(FRONT) - 1 - n + shift for n in range(len(FRONT))]
        axes.barh(places, used, 0.34, **bar_look(label, text))
        for y, value in zip(places, used):
            axes.text(value + 1, y, f"{value:.0f}", va="center", fontsize=7)
    axes.set_yticks(range(len(FRONT)), list(FRONT.values())[::-1])
    axes.set(xlabel="sent, % of the rate", xlim=(0, 108))
    axes.grid(axis="y", visible=False)
    axes.legend(loc="lower center", bbox_to_anchor=(0.4, 1), ncols=2)
    return figure


DRAW = {f.__name__: f for f in (accuracy, switching, imbalance, latency, fairness, cost)}


def main(*figure: str) -> None:
    """Draw the figures named, or all.

    figure: accuracy, switching, imbalance, latency, fairness or cost.
    """
    for name in DRAW:
        if not figure or name in figure:
            save(DRAW[name](latest(name)), name)
    save(front(), "front")
