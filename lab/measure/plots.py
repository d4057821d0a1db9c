# SPDX-License-Identifier: GPL-2.0
"""Draw the figures from results/<figure>.json, and write results/evaluation.md.

Run by lab/measure/figures.py with the Python that has Debian's matplotlib. Colours are those
of Okabe and Ito, made for colour-blind readers; a contender has the same colour and
marker everywhere.
"""

import functools
import json

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402
from tree.common import command_line, latest_result, result_file  # noqa: E402

LOOK = {  # label: colour, marker
    "series": ("#0072B2", "o"), "stock cake_mq": ("#D55E00", "s"),
    "root cake": ("#009E73", "^"), "root htb": ("#CC79A7", "v"),
    "htb + fq_codel": ("#CC79A7", "v"), "tbf shared": ("#56B4E9", "D"),
    "EDT": ("#E69F00", "P"), "EDT, 50 ms": ("#E69F00", "P"), "EDT, 5 ms": ("#F0E442", "X"),
    "tbf on each queue": ("#000000", "x"),
}
SHADES = ("#FDC9A3", "#F59B56", "#D55E00", "#8C3A00", "#4A1E00")  # of stock, by a constant
OPEN = {"ms": 9, "mfc": "none", "lw": 3}  # can be seen below another line
PATTERNS = ("o-", "s--", "^:")  # of up to three lines of one colour

matplotlib.rcParams.update({
    "font.size": 9, "axes.grid": True, "grid.color": "#dddddd", "axes.axisbelow": True,
    "axes.spines.top": False, "axes.spines.right": False, "legend.frameon": False,
    "lines.markersize": 4, "lines.linewidth": 1.2, "svg.hashsalt": "qdisc", "figure.dpi": 150,
})


class Rows(list):
    """Rows of a figure."""

    def of(self, **wanted):
        """Those that have these values, of their own or as arguments."""
        return Rows(r for r in self if all(
            r.get(key, r["args"].get(key)) == value for key, value in wanted.items()))

    def values(self, key):
        """Different values of something, in the order of the rows."""
        return list(dict.fromkeys(r.get(key, r["args"].get(key)) for r in self))

    def column(self, key, scale=1):
        """One value of each."""
        return [r.get(key, r["args"].get(key)) * scale for r in self]


@functools.cache
def load(name):
    """The rows of a figure."""
    if name == "cost":  # of make bench
        return Rows([*load("bench"), *json.loads(latest_result("smp.json").read_text())["speeds"]])
    return Rows(json.loads(latest_result(f"{name}.json").read_text())["rows"])


def save(figure, name):
    """Write the picture twice; the same bytes for the same figures."""
    figure.savefig(result_file(f"{name}.png"), metadata={"Software": None})
    figure.savefig(result_file(f"{name}.svg"), metadata={"Date": None})
    plt.close(figure)


def line(axes, label, x, y, text=None, **more):
    """A contender's line in its colour; text: in the legend, if not its name."""
    colour, marker = LOOK[label]
    axes.plot(x, y, color=colour, marker=marker, label=text or label, **more)


def rate_text(bits):
    """10M, 2G: as tc understands it, without the unit."""
    return f"{bits / 1e9:g}G" if bits >= 1e9 else f"{bits / 1e6:g}M"


def accuracy(rows):
    """Achieved rate and deviation."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained",
                                         width_ratios=(1, 1.6))
    rates = rows.values("rate")
    for label in rows.values("label"):
        mine = rows.of(label=label)
        x = mine.column("rate")
        line(left, label, x, [r * (1 + d / 100) for r, d in zip(x, mine.column("deviation"))])
        line(right, label, range(len(x)), [max(abs(d), 1e-4) for d in
                                           mine.column("deviation")])
    left.set(xscale="log", yscale="log", xlabel="configured rate, bit/s",
             ylabel="achieved rate, bit/s")
    right.set(yscale="log", ylabel="deviation from the rate, % (absolute)",
              xlabel="configured rate, bit/s", xticks=range(len(rates)))
    right.set_xticklabels([rate_text(r) for r in rates], rotation=60)
    right.axhline(0.25, color="black", lw=0.8, ls="--")
    right.text(0, 0.29, "0.25 %: the paper's promise", fontsize=8)
    right.set_ylim(0.7e-4, 100)
    ticks = [10 ** n for n in range(-4, 3)]
    right.set_yticks(ticks, ["0.0001 or less", *(f"{t:g}" for t in ticks[1:])])
    left.legend()
    return figure


def switching(rows):
    """Throughput over time; induced queue by what can be tuned."""
    figure, axes = plt.subplots(1, 3, figsize=(11, 3.6), layout="constrained",
                                width_ratios=(1.4, 1, 1))
    for label, width in (("stock cake_mq", 1), ("series", 2.5), ("root cake", 0.8)):
        row = rows.of(label=label, what="timeline")[0]
        times = [(i * row["bin_s"] - row["switch_s"]) * 1e3 for i in range(len(row["bps"]))]
        axes[0].step(times, [b / 1e9 for b in row["bps"]], where="post", label=label,
                     color=LOOK[label][0], lw=width)
    axes[0].set(xlabel="ms from when 36 more queues start", ylabel="sent, Gbit/s (50 us bins)",
                ylim=(0, None), xlim=(-1, 4))
    axes[0].legend(loc="upper right")
    for ax, label, title, scale in (
            (axes[1], "stock cake_mq", "stock: time between two scans, us", 1),
            (axes[2], "series", "series: longest slot, KB", 1e-3)):
        for pattern, rate in zip(PATTERNS, rows.of(what="sweep").values("rate")):
            mine = rows.of(what="sweep", label=label, rate=rate)
            ax.plot(mine.column("value", scale), mine.column("delay", 1e6), pattern,
                    color=LOOK[label][0], label=f"{rate / 1e9:g} Gbit/s")
        ax.set(xscale="log", yscale="log", xlabel=title, ylim=(1, 5000),
               ylabel="wait at the next hop, us (most)")
        ticks = mine.column("value", scale)
        ax.set_xticks(ticks, [f"{t:g}" for t in ticks])
        ax.minorticks_off()
        ax.legend(loc="center right" if label == "series" else "lower right")
    return figure


def imbalance(rows):
    """By the number of TX queues, and two heat maps."""
    figure, axes = plt.subplots(1, 3, figsize=(12, 3.8), layout="constrained",
                                width_ratios=(1.5, 1, 1))
    stock = rows.of(what="receive_queues", label="stock cake_mq")
    for shade, value in zip(SHADES, stock.values("value")):
        mine = stock.of(value=value)
        axes[0].plot(mine.column("queues"), [20 * (1 + d / 100) for d in
                     mine.column("deviation")], color=shade, marker="s", ms=3,
                     label=f"stock, scan every {value} us", lw=0.8 + 4 / value ** 0.2)
    mine = rows.of(what="receive_queues", label="series")
    line(axes[0], "series", mine.column("queues"),
         [20 * (1 + d / 100) for d in mine.column("deviation")], ms=3)
    axes[0].set(xlabel="TX queues (40 receive queues, 25 Gbit/s offered)",
                ylabel="sent, Gbit/s (rate: 20)", ylim=(16, 20.5))
    axes[0].legend(loc="lower left")
    for ax, label in zip(axes[1:], ("stock cake_mq", "series")):
        mine = rows.of(what="skewed", label=label)
        skews, loads = mine.values("skew"), mine.values("pps")
        cells = [[100 + mine.of(skew=s, pps=p)[0]["deviation"] for s in skews] for p in loads]
        picture = ax.imshow(cells, cmap="cividis", vmin=0, vmax=100, origin="lower",
                            aspect="auto")
        for y, line_of in enumerate(cells):
            for x, value in enumerate(line_of):
                ax.text(x, y, f"{value:.0f}", ha="center", va="center", fontsize=8,
                        color="black" if value > 55 else "white")
        ax.grid(False)
        ax.set(title=label, xlabel="skew of 4 busy queues (weights k$^{-s}$)",
               ylabel="64-byte packets/s on each of 36 others")
        ax.set_xticks(range(len(skews)), [f"{s:g}" for s in skews])
        ax.set_yticks(range(len(loads)), [f"{p:g}" for p in loads])
    figure.colorbar(picture, ax=axes[2], label="% of 10 Gbit/s")
    return figure


def latency(rows):
    """Percentiles of an echo beside TCP flows: median of several starts, and range."""
    figure, axes = plt.subplots(1, 3, figsize=(11, 3.4), layout="constrained", sharey=True)
    keys = ("p50_us", "p99_us", "p99.9_us")
    for ax, flows in zip(axes, rows.values("flows")):
        for number, label in enumerate(rows.values("label")):
            some = [sorted(max(v, 0.1) for v in rows.of(label=label, flows=flows).column(k))
                    for k in keys]
            middle = [values[len(values) // 2] for values in some]
            colour, marker = LOOK[label]
            ax.errorbar([x + number * 0.05 for x in range(3)], middle,
                        [[m - v[0] for m, v in zip(middle, some)],
                         [v[-1] - m for m, v in zip(middle, some)]],
                        color=colour, marker=marker, label=label, ms=6, capsize=2,
                        markeredgecolor="black", markeredgewidth=0.4)
        ax.set(yscale="log", title=f"{flows} TCP flows", ylim=(0.08, 1e6))
        ax.set_xticks([x + 0.12 for x in range(3)], ["p50", "p99", "p99.9"])
    axes[0].set_ylabel("echo above the path's own time, us")
    axes[2].legend(fontsize=7.5, loc="lower right", bbox_to_anchor=(1, 0.05))
    return figure


def fairness(rows):
    """Priority by placement; Jain's index over flows."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.4), layout="constrained")
    labels = rows.values("label")
    for number, label in enumerate(labels):
        mine = rows.of(label=label, what="placement")
        left.bar([c + (number - 1) * 0.26 for c in mine.column("count")], mine.column("ef"),
                 0.24, color=LOOK[label][0], label=label)
        mine = rows.of(label=label, what="hashed")
        counts = mine.values("flows")
        lots = [mine.of(flows=n).column("jain") for n in counts]
        means = [sum(some) / len(some) for some in lots]
        line(right, label, counts, means, **OPEN if label == "series" else {})
        right.fill_between(counts, [min(some) for some in lots], [max(some) for some in lots],
                           color=LOOK[label][0], alpha=0.2, lw=0)
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


def committed(rows):
    """Classes with a committed rate each."""
    figure, axes = plt.subplots(1, 3, figsize=(11, 3.4), layout="constrained", sharey=True)
    for ax, size in zip(axes, rows.values("size")):
        for label in rows.values("label"):
            mine = rows.of(label=label, size=size)
            for key, style, text in (("worst", "-", "worst class"), ("deviation", ":", "sum")):
                line(ax, label, mine.column("count"),
                     [max(abs(d), 1e-3) for d in mine.column(key)], f"{label}, {text}", ls=style)
        counts = mine.values("count")
        ax.set(xscale="log", yscale="log", title=f"frames of {size} bytes", ylim=(7e-4, 100),
               xlabel="classes (4 queues, 20 Mbit/s each)")
        ax.set_xticks(counts, counts)
        ax.minorticks_off()
    ticks = [10 ** n for n in range(-3, 3)]
    axes[0].set_yticks(ticks, ["0.001 or less", *(f"{t:g}" for t in ticks[1:])])
    axes[0].set_ylabel("off the committed rate, % (absolute)")
    axes[0].legend(fontsize=7, loc="center", bbox_to_anchor=(0.5, 0.6))
    return figure


def overhead(speedup):
    """What a second CPU adds to the time of a packet, as a part of it.

    By the model X(n) = n X(1) / (1 + c (n - 1)), which a queue for one lock or one
    cache line follows; c from n = 2.
    """
    return 2 / speedup - 1


def cost(rows):
    """CPU time by number of queues; one sender and two, and a model of more."""
    figure, (left, middle, right) = plt.subplots(1, 3, figsize=(11, 3.6),
                                                 layout="constrained")
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
        colour, marker = LOOK[row["label"]]
        low, high = row["ratios"][0], row["ratios"][-1]
        middle.errorbar([number], [row["ratio"]], [[row["ratio"] - low], [high - row["ratio"]]],
                        color=colour, marker=marker, capsize=4, ms=6)
        cpus = list(range(1, 41))
        one = row["pps_1"] / 1e6
        model = [one * n / (1 + overhead(row["ratio"]) * (n - 1)) for n in cpus]
        right.plot(cpus, model, color=colour, ls="--", label=row["label"])
        right.plot([1, 2], [one, row["pps_2"] / 1e6], color=colour, marker=marker, ls="")
    middle.set_xticks(range(len(speeds)), [r["label"].replace(" ", "\n", 1) for r in speeds])
    middle.set(ylabel="two senders: times the packets of one", ylim=(0, 2.5),
               xlabel="64 bytes, below the rate")
    middle.axhline(1, color="black", lw=0.8, ls="--")
    right.set(yscale="log", xlabel="CPUs (1 and 2 measured, dashed: a model)",
              ylabel="million packets per second")
    right.legend(fontsize=8)
    return figure


SPEED = "64 bytes, below the rate"
DRAW = {f.__name__: f for f in (accuracy, switching, imbalance, latency, fairness, committed,
                                cost)}


# --------------------------------------------------- results/evaluation.md

INTRO = """\
# The evaluation

Written by `make figures`, from the JSON beside it; every figure also as PNG and SVG, and
its points as CSV. All but the last section is real kernel code under a virtual clock
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
| htb + fq_codel | the same with fq_codel in the class |
| EDT | `mq` + `fq`, departure times of one clock for all queues from a BPF program, [lab/load/edt.c](../lab/load/edt.c), written after Algorithm 2 of the paper; drops what would have to wait longer than its horizon, 50 ms unless said |
| tbf on each queue | a fixed part of the rate for each queue, unpatched kernel |

Not here: the paper's own hardware and prototype, more than one CPU, and real NICs.
What the series loses is named with each figure.
"""  # noqa: E501


def short(us):
    """Microseconds as text."""
    return f"{us:.0f}" if us >= 1 else "< 1"


def worst(rows, label, **wanted):
    """The deviation furthest from 0 of a contender, as text."""
    return f"{max(rows.of(label=label, **wanted).column('deviation'), key=abs):+.3f} %"


def accuracy_text(rows):
    """(title, question, set-up, what it shows, what it does not show)."""
    return (
        "Accuracy (the paper's figures 2a to 2c)",
        "Do 40 queues together keep one rate?",
        "Each of 40 queues is offered 1.5 times its share in frames of 1514 bytes, "
        "10 Mbit/s to 100 Gbit/s; 40000 packets, or 50 s at most.",
        f"The furthest from the rate is: series {worst(rows, 'series')}, tbf shared "
        f"{worst(rows, 'tbf shared')}, stock {worst(rows, 'stock cake_mq')}, root cake "
        f"{worst(rows, 'root cake')}, root htb {worst(rows, 'root htb')}, EDT "
        f"{worst(rows, 'EDT')}. All but stock at 10 Mbit/s and root qdiscs at 40 Gbit/s keep "
        "the paper's 0.25 %. Stock's excess at 10 Mbit/s lasts as long as the load, and comes "
        "of packets that reach the queues one after the other: where all queues always have "
        "some (`make demo`), stock keeps that rate. Root cake and htb round the time of a "
        "packet to whole nanoseconds; up to 1 Gbit/s a deviation is a packet at the edge of the "
        "window.",
        "Whether a CPU can send that much; here it always can.")


def switching_text(rows):
    """(title, question, set-up, what it shows, what it does not show)."""
    def most(label, **wanted):
        return max(rows.of(what="sweep", label=label, **wanted).column("delay", 1e6))
    return (
        "4 queues become 40 (the paper's figures 4 and 5)",
        "What does a next hop that drains at the rate have to queue when queues join?",
        "4 saturated queues, 36 more start at once. Left: 8 Gbit/s in bins of 50 us, "
        "where a bin holds 33 frames, so that one frame is 3 %. Right: the rates of the "
        "paper, with the constant of each changed (kernels for the lab only): stock scans "
        "its siblings every 200 us, our longest slot is 12288 bytes.",
        f"At the worst of three rates, stock adds {most('stock cake_mq', value=200):.0f} us "
        f"at the next hop, and {most('stock cake_mq', value=2000):.0f} us when it scans every "
        "2 ms; it cannot scan more often without paying for it. The series "
        f"{most('series', value=12288):.1f} us, at any slot at most "
        f"{max(rows.of(what='sweep', label='series').column('delay', 1e6)):.1f} us: there is "
        "no interval in which it does not know. Long slots are not taken with 40 queues, "
        "as a round of all is to take 200 us.",
        "What short slots cost: more writes to a shared cache line (see the table of "
        "`make demo`).")


def imbalance_text(rows):
    """(title, question, set-up, what it shows, what it does not show)."""
    receive, skew = rows.of(what="receive_queues"), rows.of(what="skewed")
    stock = receive.of(label="stock cake_mq", value=200).column("deviation")
    low = min(skew.of(label="stock cake_mq").column("deviation"))
    return (
        "Imbalance (the paper's figure 9)",
        "Is the rate reached when queues are not loaded alike?",
        "Left: 40 receive queues of 625 Mbit/s each feed 1 to 40 TX queues in turn, "
        "rate 20 Gbit/s. Right: 4 busy queues offer 15 Gbit/s with weights 1, 2^-s, 3^-s "
        "and 4^-s, 36 others some small packets; rate 10 Gbit/s.",
        f"The series is never further off than {worst(rows, 'series')}. Stock loses up to "
        f"{-min(stock):.0f} % where the queues cannot be loaded alike, whatever its scan "
        f"interval, and up to {-low:.0f} % beside light traffic: a queue that sends one "
        "packet per interval counts as much as a busy one.",
        "Traffic that reacts: these are constant loads. With TCP, stock loses less.")


def latency_text(rows):
    """(title, question, set-up, what it shows, what it does not show)."""
    def p99(label):
        return ", ".join(
            short(sorted(rows.of(label=label, flows=n).column("p99_us"))[1])
            for n in rows.values("flows"))

    lost = rows.of(label="root cake", flows=1024).column("lost")
    return (
        "Latency under load (the paper's figures 7 and 8)",
        "What does a light flow wait beside many TCP flows?",
        "64, 256 and 1024 TCP flows (cubic, 20 ms) over 8 queues at 1 Gbit/s, the rate that "
        "the bed sustains in seconds; more flows than packets in flight would say little. "
        "8 UDP echo flows, one on each queue, 6400 echoes, above the path's own time; three "
        "starts, median and range (in the picture, 0.1 us stands for less as well).",
        f"p99 in us for 64, 256, 1024 flows: series {p99('series')}; root cake "
        f"{p99('root cake')}; stock {p99('stock cake_mq')}; htb + fq_codel "
        f"{p99('htb + fq_codel')}; EDT with 50 ms {p99('EDT, 50 ms')}, with 5 ms "
        f"{p99('EDT, 5 ms')}. With more flows than packets in flight, most TCP flows are "
        "as light as the echo and share its place in the queue: **from 256 flows on, the series "
        "is no better than stock**, as the ranges overlap, and with 256 worse than root cake, "
        "which serves that place at the whole rate. Root cake lost "
        f"{min(lost)} to {max(lost)} of the echoes beside 1024 flows. An echo of fq_codel can "
        "share one of 1024 buckets with a TCP flow, with 1024 flows that of root cake as "
        "well; a cake per queue has 1024 each. EDT is one FIFO for all.",
        "The wait at the next hop, which has none here (`make demo` has that row), and "
        "20 Gbit/s, which the paper measured on hardware.")


def fairness_text(rows):
    """(title, question, set-up, what it shows, what it does not show)."""
    few = rows.of(what="hashed", label="series", flows=16).column("jain")
    one = rows.of(what="placement", count=1)
    return (
        "Priority and fairness",
        "Does it matter on which queue a flow is?",
        "Left: best effort on 4 queues, EF on 1 to 4 of them, all saturated, diffserv4, "
        "2350 Mbit/s. Right: greedy flows of one packet size hashed to 8 queues, three "
        "seeds, flow isolation; the band is from worst to best.",
        f"EF on one queue gets {one.of(label='series')[0]['ef']:.2f} % (stock "
        f"{one.of(label='stock cake_mq')[0]['ef']:.2f} %, root cake "
        f"{one.of(label='root cake')[0]['ef']:.2f} %). **The series loses on the right, as "
        "stock does**: it is fair between queues, not between flows on different queues, "
        f"so with 16 flows the index is {min(few):.2f} to {max(few):.2f} where root cake has "
        "1.00.",
        "Hosts, which is what CAKE isolates first by default.")


def committed_text(rows):
    """(title, question, set-up, what it shows, what it does not show)."""
    def most(label):
        return max(abs(d) for d in rows.of(label=label).column("worst"))
    return (
        "Committed rates of many classes (what CORAL, another multi-core shaper, shows)",
        "n classes, each on m cores, each with a rate of its own: is every rate kept?",
        "1 to 128 classes of 4 TX queues, 20 Mbit/s each, offered twice that in parts of "
        "62, 25, 8 and 5 %; frames of 64, 300 and 1514 bytes. Below `mq`, one group of "
        "shared tbf per class; root htb with a class each; a quarter of the rate on each "
        "queue.",
        f"The worst class is off by {most('tbf shared'):.3f} % with shared tbf and by "
        f"{most('root htb'):.3f} % with htb, which is one packet of the window; fixed parts "
        f"lose {most('tbf on each queue'):.0f} %, what the uneven load leaves unused.",
        "Packets per second against htb as senders grow: `make bench`, two CPUs at most. "
        "Borrowing between classes, which htb can and a group cannot.")


def cost_text(rows):
    """(title, question, set-up, what it shows, what it does not show)."""
    costs = [r for r in rows if "ns" in r]
    speeds = {r["label"]: r for r in rows if r.get("case") == SPEED}

    def wakeups(which):
        return ", ".join(f"{r['wakeups'][which]:.2f}" for r in costs)

    return (
        "Cost, and what a second CPU brings (`make bench`)",
        "What does a packet cost by the number of queues, and do senders get in each "
        "other's way?",
        "Left: CPU time that the host spends on the same virtual load, kernels without "
        "debugging, both at the same time on two CPUs that they exchange, medians. Middle "
        "and right: two real CPUs in real time, rounds of all contenders in turn, median and "
        "range.",
        "Series against stock: "
        + ", ".join(f"{r['ratio']:.2f} ({r['case']}; {r['ratios'][0]:.2f} to "
                    f"{r['ratios'][-1]:.2f})" for r in costs)
        + ". Wake-ups by a timer per packet, in the same order: series "
        + wakeups("bench-patched") + ", stock " + wakeups("bench-base")
        + ", which depends on how many timers of its queues happen to fire together. "
        "Two senders against one: " + ", ".join(
            f"{label} {r['ratio']:.2f} ({r['ratios'][0]:.2f} to {r['ratios'][-1]:.2f})"
            for label, r in speeds.items()) + ".",
        "More than two CPUs: the dashed lines are a model, X(n) = n X(1) / (1 + c (n - 1)) "
        "with c from the measurement of two, and as uncertain as its range. The timings are "
        "of one machine, in User-Mode Linux.")


def summary():
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


def measured(name):
    """Whether there is something to draw."""
    try:
        return all("label" in row or "ns" in row for row in load(name))
    except (FileNotFoundError, KeyError):
        return False


def write_text():
    """Write results/evaluation.md for what has been measured."""
    parts = [INTRO, "## In short\n\n" + "\n".join(summary()) + "\n"]
    for name in DRAW:
        if measured(name):
            title, *rest = globals()[f"{name}_text"](load(name))
            parts.append(f"## {title}\n\n![{title}]({name}.png)\n\n" + "\n\n".join(
                f"*{what}* {text}" for what, text in zip(
                    ("Question:", "Set-up:", "Shows:", "Does not show:"), rest)) + "\n")
    result_file("evaluation.md").write_text("\n".join(parts))


def main(argv):
    """Draw the figures named, or all that have been measured."""
    parser = command_line("plots", __doc__, record=True)
    parser.add_argument("figure", nargs="*", help=f"of {', '.join(DRAW)} (all)")
    names = parser.parse_args(argv).figure or [n for n in DRAW if measured(n)]
    for name in names:
        save(DRAW[name](load(name)), name)
    write_text()
