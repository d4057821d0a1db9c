"""make demo: the table of lab/scenarios.py, the series beside the unpatched kernel.

COMPARE=1 measures the other kernels again, too: those of the scenarios, and what
is here, the table of series 1's cover letter. It loads 1, 4 and 40 TX queues with
pktgen until all are saturated, for root cake, mq with unshared cakes, mq with shared
cakes if there are any, and cake_mq, on the series up to that one (results/demo.json)
and on the unpatched kernel (results/demo-base.json).
"""

import json
import os
import sys

import kernel
import scenarios
from boot import STOCK_SPLAT, boot_script, splats
from common import ROOT, Die, guard, say
from traffic import FRAME, Device, contender_lines, tc

RATES = (10e6, 100e6, 1e9, 10e9, 20e9)  # bit/s
QUEUES = (1, 4, 40)
CONTENDERS = ("cake", "mq + cake", "mq + cake shared", "cake_mq")
EXACT = ("mq + cake shared", "cake_mq")  # must keep the rate within BOUND
BOUND = 0.05  # %
RESULTS = ROOT / "results" / "demo.json"
RECORD = ROOT / "results" / "demo-base.json"  # of the unpatched kernel, by COMPARE=1
OFFERED_MAX = 23e9  # bit/s in full-size frames, what one pktgen thread can do
FRAME_BITS = FRAME * 8


def window(queues, rate):
    """Seconds to measure for: 10000 packets, or 1500 of each queue if more.

    A queue can be caught one packet early or late, so that is what the edges
    of the window can do to the result: at most 0.07 %, if they do it to all.
    """
    return max(0.05, max(10000, 1500 * queues) * FRAME_BITS / rate)


def offered(rate):
    """Total load in bit/s: saturates every queue, so that none goes idle."""
    return min(1.5 * rate, OFFERED_MAX)


def guest(spec):
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


def measure(folder, name, contenders, rates, queues, on_row=None, allowed=()):
    """Boot a kernel and return (rows as guest() gives them, the Guest).

    on_row: called with each row as it comes. allowed: known splats, as for
    boot.splats().
    """
    spec = {"contenders": contenders, "rates": rates, "queues": queues}
    return boot_script(folder, name, "demo", spec, allowed=allowed, on_row=on_row,
                       virtual=True, timeout=400)


def human(bits):
    """Bit/s in the unit that people use for it."""
    for factor, unit in ((1e9, "Gbit"), (1e6, "Mbit")):
        if bits >= factor:
            return f"{bits / factor:.5g} {unit}"
    return f"{bits:.0f} bit"


def deviation(row):
    """Measured against configured rate, in percent."""
    return 100 * (row["measured_bps"] / row["rate_bps"] - 1)


def cell(row):
    """What identifies a row."""
    return row["contender"], row["queues"], row["rate_bps"]


def row_text(row, stock=()):
    """A row as it is printed, with the unpatched kernel's deviation if measured."""
    line = f"{row['contender']:<18}{row['queues']:>7}"
    line += f"{human(row['rate_bps']):>10}{human(row['measured_bps']):>13}"
    line += f"{deviation(row):>+10.3f}%"
    line += f"{row['active_queues'] or '-':>8}{row['window_s']:>7.2f} s"
    if stock:
        base = stock.get(cell(row))
        line += f"{deviation(base):>+11.3f}%" if base else f"{'-':>12}"
    return line


def table(rows, stock):
    """Deviations in percent as a small table, for the cover letter."""
    lines = [f"  {'percent':<28}" + "".join(f"{human(r):>9}" for r in RATES)]
    wanted = [(c, "", rows) for c in CONTENDERS]
    wanted += [(c, "unpatched ", stock) for c in ("cake", "cake_mq")]
    for contender, label, source in wanted:
        got = {cell(r): r for r in source}
        if not any(contender == named for named, *_ in got):
            continue
        for queues in QUEUES:
            noun = "queue" if queues == 1 else "queues"
            lines.append(f"  {label + contender:<18}{queues:>3} {noun:<6}" + "".join(
                f"{deviation(got[contender, queues, rate]):>+9.3f}" for rate in RATES))
    return "\n".join(lines)


def measure_base(rates, queues):
    """Measure the unpatched kernel and keep what it gave in results/."""
    say("the unpatched kernel first (about 45 s)")
    contenders = [c for c in CONTENDERS if not c.endswith("shared")]
    rows, run = measure("um-base", "demo-base", contenders, rates, queues,
                        allowed=STOCK_SPLAT)
    reports = [line.split("] ")[-1].strip() for line in splats(run.console + run.dmesg)]
    write_results(RECORD, rows, kernel="unpatched", reports=reports[:1])
    for line in reports[:1]:
        print(f"The unpatched kernel says in this run: {line}")


def write_results(path, rows, **more):
    """Write rows as JSON, with what is needed to read them."""
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(
        {"what": "rate over many TX queues, virtual time", **more,
         "frame_bytes": FRAME_BITS // 8,
         "offered_bps": {f"{r:.0f}": offered(r) for r in RATES}, "rows": rows},
        indent=1) + "\n")


def saturate(which, stock, rates=RATES, queues=QUEUES):
    """Print the table of one kernel as it is measured, judge it; the rows."""
    contenders = [c for c in CONTENDERS if kernel.shares(which, c)]
    print("Full-size frames, 1.5 times the rate offered in all (20 Gbit: 1.15), "
          "virtual time on real kernel code.")
    print(f"{'qdisc':<18}{'queues':>7}{'target':>10}{'measured':>13}"
          f"{'deviation':>11}{'active':>8}{'length':>9}"
          + (f"{'unpatched':>12}" if stock else ""))
    rows, run = measure(kernel.KERNELS[which].out, "demo", contenders, rates, queues,
                        lambda row: print(row_text(row, stock), flush=True))
    print("\n'mq + cake' is one limit per queue: all that was offered passes. "
          f"({run.seconds:.0f} s)")
    for row in rows:
        if row["contender"] in EXACT and abs(deviation(row)) > BOUND:
            raise Die(
                f"{row['contender']} with {row['queues']} queues at "
                f"{human(row['rate_bps'])} is off by {deviation(row):+.3f} %, more than "
                f"{BOUND} %; look at build/guest/demo and the last change to sch_cake")
    return rows


def main():
    """Measure what is asked for, print, write and judge it."""
    if "--table" in sys.argv[1:]:
        print(table(*(json.loads(p.read_text())["rows"] for p in (RESULTS, RECORD))))
        return
    if "--quick" in sys.argv[1:]:
        saturate("patched", {}, (1e9,), (2,))
        return
    if os.environ.get("COMPARE"):
        scenarios.compare()
        measure_base(RATES, QUEUES)
        stock = {cell(r): r for r in json.loads(RECORD.read_text())["rows"]}
        which = scenarios.COLUMNS[1]
        say(f"the series up to {which} (about 50 s)")
        write_results(RESULTS, saturate(which, stock), kernel=which)
    scenarios.main()


if __name__ == "__main__":
    guard(main)
