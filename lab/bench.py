"""make bench: CPU time per packet, the unpatched kernel beside both series.

Virtual time: the load is exactly the same, and what differs is how much of the
host's CPU time the guest takes for it. Kernels without debugging, runs in turn,
two lengths of each so that booting and setting up cancel out. A host's speed changes
by half from one second to the next, so what counts is the ratio of two runs next to
each other: the median of all rounds, and the range. ROUNDS=n changes how many. A large
part of the time is the wake-ups, runs of the softirq that the qdiscs' timers raise: how
many there are per packet is counted as well, and the same in every run. Writes
results/bench.json.
"""

import json
import os
import re
import resource
from pathlib import Path
from statistics import median

import kernel
from boot import boot_script
from common import ROOT, guard
from hop import Hop
from scenarios import EF, install
from traffic import FRAME

RESULTS = ROOT / "results" / "bench.json"
ROUNDS = int(os.environ.get("ROUNDS", "9"))
CASES = {  # label: (rate bit/s, queues, frame bytes, load, options, short s, long s)
    # load: bit/s in all, None: saturated. With options, in two tins.
    **{f"saturated, {n} queues": (10e9, n, FRAME, None, "", 0.05, 1.05) for n in (2, 8, 40)},
    "saturated, 256 queues": (10e9, 256, FRAME, None, "", 0.05, 0.55),
    "saturated, 1024 queues": (10e9, 1024, FRAME, None, "", 0.05, 0.15),
    "7.5 Mpps of 200 bytes, 60 % of the rate, 40 queues":
        (20e9, 40, 200, 12e9, "", 0.02, 0.22),
    # the series keep the thresholds of tins over all queues, by claims of each
    "best effort and EF saturated, diffserv4, 40 queues":
        (10e9, 40, FRAME, None, "diffserv4", 0.05, 1.05),
}


def wakeups():
    """Runs of the softirq that sends what was queued, since boot."""
    return int(re.search(r"NET_TX: *(\d+)", Path("/proc/softirqs").read_text())[1])


def guest(spec):
    """One load for so many seconds, in one row. Runs in the guest."""
    hop = Hop(spec["queues"])
    install("cake_mq", spec["rate"], spec["queues"], spec["options"])
    for q in range(spec["queues"]):
        if spec["load"]:
            hop.stream(q, mode="paced", rate=spec["load"] / spec["queues"],
                       size=spec["size"], start=q * 1e-7)
        else:
            for tos in (0, EF) if spec["options"] else (0,):
                hop.stream(q, size=spec["size"], depth=16, tos=tos)
    hop.meter(spec["rate"])
    before = wakeups()
    yield {"packets": hop.run(spec["seconds"])["packets"], "wakeups": wakeups() - before}
    hop.remove()


def cpu_time(which, hop, label, seconds):
    """CPU seconds of the host and the row of one boot: {"cpu_s", "packets", "wakeups"}."""
    rate, queues, size, load, options, _, _ = CASES[label]
    spec = {"rate": rate, "queues": queues, "size": size, "load": load,
            "options": options, "seconds": seconds}
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    (row,), _ = boot_script(kernel.KERNELS[which].out, f"bench-{which}", "bench", spec,
                            hop=hop, virtual=True,
                            allowed=kernel.known_splats(which))
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return {"cpu_s": after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime,
            **row}


def per_packet(kernels, label):
    """The row of a case, per packet, without what does not grow with packets:
    {"ns", "wakeups"}: {kernel: median}; "ratios": of each round, in order.

    kernels: {kernel: path of its hop module}.
    """
    *_, short, long = CASES[label]
    rounds = []
    for _ in range(ROUNDS):
        rounds.append({})
        for which, hop in kernels.items():
            less, more = (cpu_time(which, hop, label, seconds) for seconds in (short, long))
            packets = more["packets"] - less["packets"]
            rounds[-1][which] = {
                "ns": 1e9 * (more["cpu_s"] - less["cpu_s"]) / packets,
                "wakeups": (more["wakeups"] - less["wakeups"]) / packets}
    ratios = sorted(one["bench-patched"]["ns"] / one["bench-base"]["ns"] for one in rounds)
    return {**{name: {which: median(one[which][name] for one in rounds) for which in kernels}
               for name in ("ns", "wakeups")}, "ratio": median(ratios), "ratios": ratios}


def told(label, row):
    """A line of the table."""
    cost, wakeups = ([row[name][which] for which in ("bench-base", "bench-patched")]
                     for name in ("ns", "wakeups"))
    return "{:<51}{:>6.0f}{:>6.0f}{:>6.2f}{:>6.2f}{:>6.2f}{:>6.2f}{:>6.2f}".format(
        label, *cost, row["ratio"], row["ratios"][0], row["ratios"][-1], *wakeups)


def main():
    """Measure, print, write."""
    kernels = {}
    for which in ("bench-base", "bench-patched"):
        kernel.build(which)
        kernels[which] = kernel.module(which)
    rows = []
    print(f"{'per packet':<51}{'CPU time, ns':>30}{'wake-ups':>12}\n"
          f"{'':<51}{'stock':>6}{'both':>6}{'ratio':>6}{'from':>6}{'to':>6}{'stock':>6}"
          f"{'both':>6}")
    for label in CASES:
        row = per_packet(kernels, label)
        rows.append({"case": label, **row})
        print(told(label, row), flush=True)
    RESULTS.write_text(json.dumps(
        {"what": f"per packet: CPU time of the host, ns, and wake-ups, medians of {ROUNDS} "
         "rounds; ratios: of each",
         "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    guard(main)
