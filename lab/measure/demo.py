# SPDX-License-Identifier: GPL-2.0
"""make demo: the table of lab/load/table.py, the series beside the unpatched kernel.

--all measures all of its rows, not only those that say most, and with lockdep; --compare also
those of the other kernels. --quick, for make smoke: pktgen saturates two TX queues of the patched
kernel, for root cake, mq with unshared cakes, mq with shared cakes and cake_mq.
"""

import sys
from collections.abc import Callable, Container, Iterator, Sequence

from guest.boot import Guest, boot_script
from load import scenarios
from load.table import BRIEF, COLUMNS, ROWS, also_run, also_table, store, stored, table
from load.traffic import FRAME, Device, contender_lines, tc
from tree import kernel
from tree.common import Die, command_line, record_time, say

CONTENDERS = ("cake", "mq + cake", "mq + cake shared", "cake_mq")
EXACT = ("mq + cake shared", "cake_mq")  # must keep the rate within BOUND
BOUND = 0.05  # %
OFFERED_MAX = 23e9  # bit/s in full-size frames, what one pktgen thread can do
FRAME_BITS = FRAME * 8


def window(queues: int, rate: float) -> float:
    """Seconds to measure for: 10000 packets, or 1500 of each queue if more.

    A queue can be caught one packet early or late, so that is what the edges
    of the window can do to the result: at most 0.07 %, if they do it to all.
    """
    return max(0.05, max(10000, 1500 * queues) * FRAME_BITS / rate)


def offered(rate: float) -> float:
    """Total load in bit/s: saturates every queue, so that none goes idle."""
    return min(1.5 * rate, OFFERED_MAX)


def guest(spec: dict) -> Iterator[dict]:
    """Measure every cell of a spec, yield its row. Runs in the guest."""
    for queues in spec["queues"]:
        dev = Device(queues)
        for rate in spec["rates"]:
            for contender in spec["contenders"]:
                tc("-batch -", "\n".join(
                    contender_lines(dev.name, contender, rate, queues + 1)))
                dev.offer([offered(rate) / queues] * queues)
                warm = 200 * queues * FRAME_BITS / rate
                seconds = window(queues, rate)
                measured, active = dev.run(warm, seconds)
                tc(f"qdisc del dev {dev.name} root")
                yield {
                    "contender": contender, "queues": queues, "rate_bps": rate,
                    "measured_bps": measured, "active_queues": active,
                    "window_s": seconds,
                }
        dev.delete()


def measure(folder: str, name: str, contenders: Sequence[str], rates: Sequence[float],
            queues: Sequence[int],
            on_row: Callable[[dict], None] | None = None) -> tuple[list, Guest]:
    """Boot a kernel and return (rows as guest() gives them, the Guest).

    on_row: called with each row as it comes.
    """
    spec = {"contenders": contenders, "rates": rates, "queues": queues}
    return boot_script(folder, name, "measure.demo", spec, on_row=on_row, virtual=True, timeout=400)


def human(bits: float) -> str:
    """Bit/s in the unit that people use for it."""
    for factor, unit in ((1e9, "Gbit"), (1e6, "Mbit")):
        if bits >= factor:
            return f"{bits / factor:.5g} {unit}"
    return f"{bits:.0f} bit"


def deviation(row: dict) -> float:
    """Measured against configured rate, in percent."""
    return 100 * (row["measured_bps"] / row["rate_bps"] - 1)


def row_text(row: dict) -> str:
    """A row as it is printed."""
    return (f"{row['contender']:<18}{row['queues']:>7}"
            f"{human(row['rate_bps']):>10}{human(row['measured_bps']):>13}"
            f"{deviation(row):>+10.3f}%"
            f"{row['active_queues'] or '-':>8}{row['window_s']:>7.2f} s")


def quick() -> None:
    """Print a table of the patched kernel as it is measured, and judge it."""
    print("Full-size frames, 1.5 times the rate offered in all, virtual time on real "
          "kernel code.")
    print(f"{'qdisc':<18}{'queues':>7}{'target':>10}{'measured':>13}"
          f"{'deviation':>11}{'active':>8}{'length':>9}")
    rows, run = measure("um", "demo", CONTENDERS, [1e9], [2],
                        lambda row: print(row_text(row), flush=True))
    print("\n'mq + cake' is one limit per queue: all that was offered passes. "
          f"({run.seconds:.0f} s)")
    for row in rows:
        if row["contender"] in EXACT and abs(deviation(row)) > BOUND:
            raise Die(
                f"{row['contender']} with {row['queues']} queues at "
                f"{human(row['rate_bps'])} is off by {deviation(row):+.3f} %, more than "
                f"{BOUND} %; look at build/guest/demo and the last change to sch_cake")


def compare() -> dict:
    """Measure the unpatched kernel and the one without a rate group; stored() with that."""
    results = stored()
    for which in COLUMNS[:2]:
        kernel.build(which)
        say(f"the scenarios on kernel '{which}' (about 4 min)")
        results[which] = scenarios.measure(which, also=also_run(), slow=True)
        store(results)
    say("all scenarios with all that share a rate (about 8 min)")
    figures = scenarios.measure("patched", also=also_run(everything=True), slow=True)
    results["everything"] = figures
    results["patched"].update({name: row for name, row in figures.items()
                               if scenarios.is_slow(name)})
    store(results)
    lines, wrong = also_table(figures)
    print("\n".join(["", *lines]))
    if wrong:
        raise Die(f"{len(wrong)} figures are out of their bounds: " + "; ".join(wrong))
    return results


def judge(results: dict, only: Container[str] | None) -> None:
    """Measure the patched kernel, print the table, judge it.

    results: of the other kernels. only: the scenarios that are run, if not all.
    """
    seconds = 60 if only else 250
    say(f"loads that hurt, in virtual time on real kernel code (about {seconds} s)")
    done = []

    def progress(_name, _row, _seconds):
        done.append(1)
        if sys.stdout.isatty():
            print(f"\r{len(done)} loads", end="", flush=True)

    figures = scenarios.measure("patched", on_row=progress, also=also_run(), only=only,
                                lockdep=not only)
    kept = {name: row for name, row in results.get("patched", {}).items()
            if only or scenarios.is_slow(name)}
    results["patched"] = {**kept, **figures}
    store(results)
    print("\n".join(["", *table(results, only)]))
    judged = [(row, label, bound) for row in ROWS for label, bound in row.cells_of(only)
              if bound is not None]
    wrong = [f"{row.title}, {label}: {row.text(label, results['patched'])}, bound {bound:g}"
             for row, label, bound in judged
             if not row.good(label, bound, results["patched"])]
    for line in wrong:
        print("FAIL " + line)
    print(f"{len(judged) - len(wrong)} passed, {len(wrong)} failed")
    if wrong:
        raise Die(f"{len(wrong)} figures are out of their bounds, the first: {wrong[0]}")


def main(argv: Sequence[str]) -> None:
    """Measure what is asked for, print and judge it."""
    parser = command_line("demo", __doc__, record=True)
    parser.add_argument("--quick", action="store_true", help="two queues, a minute")
    parser.add_argument("--all", action="store_true", help="all rows of the table")
    parser.add_argument("--compare", action="store_true",
                        help="all rows, and measure the other kernels again")
    args = parser.parse_args(argv)
    if args.quick:
        quick()
    elif args.all or args.compare:
        judge(compare() if args.compare else stored(), None)
    else:
        judge(stored(), BRIEF)
        record_time("demo")
