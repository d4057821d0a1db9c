# SPDX-License-Identifier: GPL-2.0
"""Draw the figures from results/<figure>.json, and write results/evaluation.md.

Run by lab/measure/figures.py with the Python that has Debian's matplotlib. Pictures are as
wide as a printed page, 17 cm, with no letter below 7 points. Colours are those of Okabe and
Ito, made for colour-blind readers; a contender has the same colour and marker everywhere
(but in latency, where they are named beside the axis), and lines and bars differ without
colours as well. What the texts say of the figures is calculated, or claim() sees to it that it
holds.
"""

import functools
import io
import json
from collections.abc import Sequence
from dataclasses import astuple, dataclass
from typing import Any

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402
from PIL import Image  # noqa: E402
from tree.common import Die, command_line, latest_result, result_file  # noqa: E402

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


def claim(holds: bool, text: str) -> str:
    """A sentence of evaluation.md, if it is true of the figures; Die if not."""
    if not holds:
        raise Die(f"evaluation.md would say what the figures do not: '{text}'; correct "
                  "lab/measure/plots.py")
    return text


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
def load(name: str) -> Rows:
    """The rows of a figure."""
    if name == "cost":  # of make bench
        return Rows([*load("bench"), *json.loads(latest_result("smp.json").read_text())["speeds"]])
    return Rows(json.loads(latest_result(f"{name}.json").read_text())["rows"])


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


def rate_text(bits: float) -> str:
    """10M, 2G: as tc understands it, without the unit."""
    return f"{bits / 1e9:g}G" if bits >= 1e9 else f"{bits / 1e6:g}M"


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


def intervals(rows: Rows) -> dict[int, list[float]]:
    """By the number of TX queues, the rate that stock reaches at each interval: bit/s."""
    stock = rows.of(what="receive_queues", label="stock cake_mq")
    return {value: [20 * (1 + d / 100) for d in stock.of(value=value).column("deviation")]
            for value in stock.values("value")}


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


FRONT = {  # of make demo: what the front page shows, on the left of its bars
    "80/20": "2 queues: 80 and 20 % of the load",
    "16 of 24 double": "24 queues, 16 with double load",
    "zipf on/off": "40 queues, a few with most, half on and off",
    "39 light": "1 busy queue, 39 of 12 Mbit/s",
    "elephant + 39 mice": "1 busy queue, 39 of 5000 packets/s",
}


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


SPEED = "64 bytes, below the rate"
DRAW = {f.__name__: f for f in (accuracy, switching, imbalance, latency, fairness, cost)}
TOLD = (*[name for name in DRAW if name != "cost"], "committed", "cost")  # in evaluation.md


# --------------------------------------------------- results/evaluation.md

INTRO = """\
# The evaluation

Written by `make figures`, from the JSON beside it. All
but the last section is real kernel code under a virtual clock
(User-Mode Linux, `time-travel=inf-cpu`): code takes no time, so it says nothing about CPU
cost. The last section does, from bench.json and smp.json (`make bench`), and its timings
depend on the machine. The same points in the same order give the same figures to the last
digit; in another order they differ by a frame at the edge of a window. `make test`
measures some points again. Which version of the series was measured:
[README.md](README.md#which-version-was-measured).

| contender | what it is |
|---|---|
| series | `cake_mq` with all series applied |
| stock cake_mq | `cake_mq` of the unpatched kernel |
| tbf shared | `mq` with `tbf ... shared` on each queue, all series applied |
| root cake, root htb | one qdisc for all queues, so one lock; htb with one class, a burst of 5 us, a FIFO |
| shared htb, htb per queue | `mq` with an `htb` on each queue, with `shared` and all series applied, or without; two classes |
| htb + fq_codel | the same with fq_codel in the class |
| EDT | `mq` + `fq`, departure times of one clock for all queues from a BPF program, [lab/load/edt.c](../lab/load/edt.c), written after Algorithm 2 of the paper; drops what would have to wait longer than its horizon, 50 ms unless said |
| tbf on each queue | a fixed part of the rate for each queue, unpatched kernel |

Not here: the paper's own hardware and prototype, more than two CPUs, and real NICs.
What gets worse is in [demo.md](demo.md#what-gets-worse).
"""  # noqa: E501


@dataclass
class Section:
    """A figure in words: what is asked, how it was measured, what it shows and what not."""

    title: str
    question: str
    setup: str
    shows: str
    lacks: str


def short(us: float) -> str:
    """Microseconds as text."""
    return f"{us:.0f}" if us >= 1 else "< 1"


def worst(rows: Rows, label: str, **wanted: Any) -> str:
    """The deviation furthest from 0 of a contender, as text."""
    return f"{max(rows.of(label=label, **wanted).column('deviation'), key=abs):+.3f} %"


def accuracy_text(rows: Rows) -> Section:
    """Of evaluation.md."""
    def beyond(label):
        return [r["args"]["rate"] for r in rows.of(label=label) if abs(r["deviation"]) > 0.25]

    kept = [label for label in rows.values("label") if not beyond(label)]
    lost = "; ".join(f"{label} at {', '.join(map(rate_text, beyond(label)))}bit/s"
                     for label in rows.values("label") if beyond(label))
    slow = rows.of(label="stock cake_mq", rate=10e6)[0]["deviation"]
    return Section(
        "Accuracy (the paper's figures 2a to 2c)",
        "Do 40 queues together keep one rate?",
        "Each of 40 queues is offered 1.5 times its share in frames of 1514 bytes, "
        "10 Mbit/s to 100 Gbit/s; 40000 packets, or 50 s at most.",
        "The furthest from the rate is: " + ", ".join(
            f"{label} {worst(rows, label)}" for label in rows.values("label"))
        + f". The paper's 0.25 % at all rates: {', '.join(kept)}. Not: {lost}. "
        + claim(slow > 1, "Stock's excess at 10 Mbit/s lasts as long as the load, and comes "
                "of packets that reach the queues one after the other: where all queues always "
                "have some (`make demo`), stock keeps that rate.")
        + " Root cake and htb round the time of a packet to whole nanoseconds; up to 1 Gbit/s "
        "a deviation is a packet at the edge of the window.",
        "Whether a CPU can send that much; here it always can.")


def switching_text(rows: Rows) -> Section:
    """Of evaluation.md."""
    def most(label, **wanted):
        return max(rows.of(what="sweep", label=label, **wanted).column("delay", 1e6))
    return Section(
        "4 queues become 40 (the paper's figures 4 and 5)",
        "What does a next hop that drains at the rate have to queue when queues join?",
        "4 saturated queues, 36 more start at once. Left: 8 Gbit/s in bins of 50 us, "
        "where a bin holds 33 frames, so that one frame is 3 %. Middle and right: the rates of the "
        "paper, with the constant of each changed (kernels for the lab only): stock scans "
        "its siblings every 200 us, our longest slot is 12288 bytes.",
        f"At the worst of three rates, stock adds {most('stock cake_mq', value=200):.0f} us "
        f"at the next hop, and {most('stock cake_mq', value=2000):.0f} us when it scans every "
        "2 ms. The series "
        f"{most('series', value=12288):.1f} us, and "
        + claim(most("series") < 20, f"{most('series'):.1f} us with any slot: there is no "
                "interval in which it does not know. Long slots are not taken with 40 queues, "
                "as a round of all is to take 200 us."),
        "What short slots cost: more writes to a shared cache line (see the table of "
        "`make demo`).")


def imbalance_text(rows: Rows) -> Section:
    """Of evaluation.md."""
    receive, skew = rows.of(what="receive_queues"), rows.of(what="skewed")
    stock = receive.of(label="stock cake_mq", value=200).column("deviation")
    low = min(skew.of(label="stock cake_mq").column("deviation"))
    spread = max(max(some) - min(some) for some in zip(*intervals(rows).values()))
    return Section(
        "Imbalance (the paper's figure 9)",
        "Is the rate reached when queues are not loaded alike?",
        "Left: 40 receive queues of 625 Mbit/s each feed 1 to 40 TX queues in turn, "
        "rate 20 Gbit/s. Right: 4 busy queues offer 15 Gbit/s with weights 1, 2^-s, 3^-s "
        "and 4^-s, 36 others some small packets; rate 10 Gbit/s.",
        f"The series is never further off than {worst(rows, 'series')}, in all "
        f"{len(skew.of(label='series'))} cells of the right as well. Stock loses up to "
        f"{-min(stock):.0f} % where the queues cannot be loaded alike, "
        + claim(spread < 0.05, "whatever its scan interval,")
        + f" and up to {-low:.0f} % beside light traffic: a queue that sends one packet per "
        "interval counts as much as a busy one.",
        "Traffic that reacts: these are constant loads.")


def latency_text(rows: Rows) -> Section:
    """Of evaluation.md."""
    def p99(label):
        return ", ".join(
            short(sorted(rows.of(label=label, flows=n).column("p99_us"))[1])
            for n in rows.values("flows"))

    def against(flows):
        mine, other = (sorted(rows.of(label=label, flows=flows).column("p99_us"))
                       for label in ("series", "stock cake_mq"))
        if mine[-1] < other[0]:
            return f"with {flows} flows the series is better than stock at every start"
        return f"**with {flows} flows the series is no better than stock**"

    lost = rows.of(label="root cake", flows=1024).column("lost")
    return Section(
        "Latency under load (the paper's figures 7 and 8)",
        "What does a light flow wait beside many TCP flows?",
        "64, 256 and 1024 TCP flows (cubic, 20 ms) over 8 queues at 1 Gbit/s, the rate that "
        "the bed sustains in seconds; more flows than packets in flight would say little. "
        "8 UDP echo flows, one on each queue, 6400 echoes, above the path's own time; three "
        "starts, median and range.",
        f"p99 in us for 64, 256, 1024 flows: series {p99('series')}; root cake "
        f"{p99('root cake')}; stock {p99('stock cake_mq')}; htb + fq_codel "
        f"{p99('htb + fq_codel')}; EDT with 50 ms {p99('EDT, 50 ms')}, with 5 ms "
        f"{p99('EDT, 5 ms')}. So " + ", ".join(map(against, rows.values("flows")))
        + ". With more flows than packets in flight, most TCP flows are as light as the echo "
        "and share its place in the queue. Root cake lost "
        f"{min(lost)} to {max(lost)} of the echoes beside 1024 flows. An echo of fq_codel can "
        "share one of 1024 buckets with a TCP flow, with 1024 flows that of root cake as "
        "well; a cake per queue has 1024 each. EDT is one FIFO for all.",
        "The wait at the next hop, which has none here (`make demo` has that row), and "
        "20 Gbit/s, which the paper measured on hardware.")


def fairness_text(rows: Rows) -> Section:
    """Of evaluation.md."""
    def index(label):
        some = rows.of(what="hashed", label=label, flows=16).column("jain")
        return f"{label} {min(some):.2f} to {max(some):.2f}"

    one = rows.of(what="placement", count=1)
    return Section(
        "Priority and fairness",
        "Does it matter on which queue a flow is?",
        "Left: best effort on 4 queues, EF on 1 to 4 of them, all saturated, diffserv4, "
        "2350 Mbit/s. Right: greedy flows of one packet size hashed to 8 queues, three "
        "seeds, flow isolation.",
        f"EF on one queue gets {one.of(label='series')[0]['ef']:.2f} % (stock "
        f"{one.of(label='stock cake_mq')[0]['ef']:.2f} %, root cake "
        f"{one.of(label='root cake')[0]['ef']:.2f} %). Jain's index over 16 flows: "
        + ", ".join(map(index, rows.values("label"))) + ".",
        "Hosts, which is what CAKE isolates first by default: `make demo` has them.")


def committed_text(rows: Rows) -> Section:
    """Of evaluation.md."""
    def most(label, **wanted):
        return max(abs(d) for d in rows.of(label=label, **wanted).column("worst"))

    sizes = rows.values("size")
    table = [f"| worst class off by, % | {' | '.join(f'{s} bytes' for s in sizes)} |",
             "|---" * (len(sizes) + 1) + "|",
             *(f"| {label} | {' | '.join(f'{most(label, size=s):.3f}' for s in sizes)} |"
               for label in rows.values("label"))]
    return Section(
        "Committed rates of many classes (what CORAL, another multi-core shaper, shows)",
        "n classes, each on m cores, each with a rate of its own: is every rate kept?",
        "1 to 128 classes of 4 TX queues, 20 Mbit/s each, offered twice that in parts of "
        "62, 25, 8 and 5 %; frames of 64, 300 and 1514 bytes. Below `mq`, one group of "
        "shared tbf per class; root htb with a class each; a quarter of the rate on each "
        "queue.",
        claim(most("tbf shared") < 0.1 > most("root htb"), "Groups of tbf and htb keep every "
              "rate, but for a packet of the window.") + " " + claim(
                  most("tbf on each queue") > 1, "Fixed parts lose what the uneven load "
                  "leaves unused.") + "\n\n" + "\n".join(table),
        "Packets per second against htb as senders grow: `make bench`, two CPUs at most. "
        "Borrowing between classes, which htb can and a group cannot.")


def cost_text(rows: Rows) -> Section:
    """Of evaluation.md."""
    costs = [r for r in rows if "ns" in r]
    speeds = {r["label"]: r for r in rows if r.get("case") == SPEED}

    def wakeups(which):
        return ", ".join(f"{r['wakeups'][which]:.2f}" for r in costs)

    return Section(
        "Cost, and what a second CPU brings (`make bench`)",
        "What does a packet cost by the number of queues, and do senders get in each "
        "other's way?",
        "Left: CPU time that the host spends on the same virtual load, kernels without "
        "debugging, both at the same time on two CPUs that they exchange, medians. Right: two "
        "real CPUs in real time, rounds of all contenders in turn, median and range.",
        "Series against stock: "
        + ", ".join(f"{r['ratio']:.2f} ({r['case']}; {r['ratios'][0]:.2f} to "
                    f"{r['ratios'][-1]:.2f})" for r in costs)
        + ". Wake-ups by a timer per packet, in the same order: series "
        + wakeups("bench-patched") + ", stock " + wakeups("bench-base")
        + ", which depends on how many timers of its queues happen to fire together. "
        "Two senders against one: " + ", ".join(
            f"{label} {r['ratio']:.2f} ({r['ratios'][0]:.2f} to {r['ratios'][-1]:.2f})"
            for label, r in speeds.items()) + ".",
        "More than two CPUs. The timings are of one machine, in User-Mode Linux.")


def summary() -> list[str]:
    """The lines of a table: the paper's claims, and what each contender does."""
    rows = {name: load(name) for name in ("accuracy", "switching", "imbalance", "latency",
                                          "fairness")}
    labels = ("stock cake_mq", "series", "root cake")

    def line_of(what, claim, values):
        return f"| {what} | {claim} | " + " | ".join(values) + " |"

    def off(low, high):
        for label in labels:
            mine = [r["deviation"] for r in rows["accuracy"].of(label=label)
                    if low <= r["args"]["rate"] <= high]
            yield f"{max(map(abs, mine)):.3f} %"

    def wait(label):
        mine = rows["switching"].of(label=label, rate=8e9)
        usual = [*mine.of(what="timeline"), *mine.of(value=200), *mine.of(value=12288)]
        usual = sorted(row["excess"] * 8 / row["args"]["rate"] * 1e6 for row in usual)
        return " to ".join(dict.fromkeys((f"{usual[0]:.0f}", f"{usual[-1]:.0f}"))) + " us"

    def queues(label):
        mine = rows["imbalance"].of(label=label, what="receive_queues", queues=26)
        return f"{20 * (1 + mine[0]['deviation'] / 100):.2f} Gbit" if mine else "-"

    def worst_cell(label):
        mine = rows["imbalance"].of(label=label, what="skewed")
        return f"{100 + min(mine.column('deviation')):.0f} %" if mine else "-"

    def echo(label, flows):
        mine = rows["latency"].of(label=label, flows=flows).column("p99_us")
        low, middle, high = map(short, sorted(mine))
        return f"{low} us" if low == high else f"{middle} us ({low} to {high})"

    def mean(label, **wanted):
        mine = rows["fairness"].of(label=label, **wanted)
        key = "jain" if "flows" in wanted else "ef"
        return sum(mine.column(key)) / len(mine)

    return [
        line_of("", "the paper", ("stock", "series", "root cake")),
        "|---|---|---|---|---|",
        line_of("40 queues, 10 Mbit: off the rate by", "below 0.25 %", off(10e6, 10e6)),
        line_of("the same, 50 Mbit to 24 Gbit, worst", "below 0.25 %", off(50e6, 24e9)),
        line_of("4 queues become 40 at 8 Gbit: delay at the next hop", "grows with the sync "
                "time", map(wait, labels)),
        line_of("40 receive queues on 26 TX queues, rate 20 Gbit", "less than the rate",
                map(queues, labels)),
        line_of("4 busy queues and 36 light ones, worst load: of the rate", "-",
                map(worst_cell, labels)),
        *(line_of(f"UDP echo beside {n} TCP flows, 1 Gbit, 8 queues: p99",
                  "0.4 ms (20 Gbit)" if n == 1024 else "-", (echo(label, n) for label in labels))
          for n in (64, 256, 1024)),
        line_of("EF on one of 4 queues: of the rate (25 %)", "-",
                (f"{mean(label, what='placement', count=1):.2f} %" for label in labels)),
        line_of("16 flows hashed to 8 queues: Jain's index over flows", "-",
                (f"{mean(label, what='hashed', flows=16):.2f}" for label in labels)),
    ]


def measured(name: str) -> bool:
    """Whether there is something to draw."""
    try:
        return all("label" in row or "ns" in row for row in load(name))
    except (FileNotFoundError, KeyError):
        return False


def write_text() -> None:
    """Write results/evaluation.md for what has been measured."""
    parts = [INTRO, "## In short\n\n" + "\n".join(summary()) + "\n"]
    for name in TOLD:
        if measured(name):
            title, *rest = astuple(globals()[f"{name}_text"](load(name)))
            picture = [f"![{title}]({name}.png)"] if name in DRAW else []
            parts.append("\n\n".join([f"## {title}", *picture, *(
                f"*{what}* {text}" for what, text in zip(
                    ("Question:", "Set-up:", "Shows:", "Does not show:"), rest))]) + "\n")
    result_file("evaluation.md").write_text("\n".join(parts))


def main(argv: Sequence[str]) -> None:
    """Draw the figures named, or all that have been measured."""
    parser = command_line("plots", __doc__, record=True)
    parser.add_argument("figure", nargs="*", help=f"of {', '.join(DRAW)} (all)")
    names = parser.parse_args(argv).figure or [n for n in DRAW if measured(n)]
    for name in names:
        if name in DRAW:
            save(DRAW[name](load(name)), name)
    save(front(), "front")
    write_text()
