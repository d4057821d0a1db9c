"""make bench: CPU time per packet, the unpatched kernel beside both series.

Virtual time: the load is exactly the same, and what differs is how much of the
host's CPU time the guest takes for it. Kernels without debugging, runs in turn,
two lengths of each so that booting and setting up cancel out, and of each the
shortest of all rounds: other load on the host only ever adds. ROUNDS=n changes how
many. A large part of it is the wake-ups, runs of the softirq that the qdiscs' timers
raise: how many there are per packet is counted as well, and the same in every run.
Writes results/bench.json.
"""

import json
import os
import re
import resource
from pathlib import Path

import kernel
from boot import boot_script
from common import ROOT, guard
from hop import Hop
from scenarios import EF, install
from traffic import FRAME

RESULTS = ROOT / "results" / "bench.json"
ROUNDS = int(os.environ.get("ROUNDS", "5"))
CASES = {  # label: (rate bit/s, queues, frame bytes, load, options, short s, long s)
    # load: bit/s in all, None: saturated. With options, in two tins.
    **{f"saturated, {n} queues": (10e9, n, FRAME, None, "", 0.05, 4.05) for n in (2, 8, 40)},
    "saturated, 256 queues": (10e9, 256, FRAME, None, "", 0.05, 1.55),
    "saturated, 1024 queues": (10e9, 1024, FRAME, None, "", 0.05, 0.35),
    "7.5 Mpps of 200 bytes, 60 % of the rate, 40 queues":
        (20e9, 40, 200, 12e9, "", 0.02, 0.52),
    # the series keep the thresholds of tins over all queues, by claims of each
    "best effort and EF saturated, diffserv4, 40 queues":
        (10e9, 40, FRAME, None, "diffserv4", 0.05, 4.05),
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
    """{"ns", "wakeups"}: {kernel: per packet}, without what does not grow with packets.

    kernels: {kernel: path of its hop module}.
    """
    *_, short, long = CASES[label]
    best = {}
    for _ in range(ROUNDS):
        for which, hop in kernels.items():
            for seconds in (short, long):
                got = cpu_time(which, hop, label, seconds)
                best[which, seconds] = min(got, best.get((which, seconds), got),
                                           key=lambda row: row["cpu_s"])

    def growth(which, name):
        return best[which, long][name] - best[which, short][name]

    return {name: {which: unit * growth(which, of) / growth(which, "packets")
                   for which in kernels}
            for name, of, unit in (("ns", "cpu_s", 1e9), ("wakeups", "wakeups", 1))}


def told(label, row):
    """A line of the table."""
    figures = [row[name][which] for name in ("ns", "wakeups")
               for which in ("bench-base", "bench-patched")]
    return "{:<52}{:>6.0f}{:>6.0f}{:>6.2f}{:>7.2f}{:>6.2f}".format(
        label, *figures[:2], row["ratio"], *figures[2:])


def main():
    """Measure, print, write."""
    kernels = {}
    for which in ("bench-base", "bench-patched"):
        kernel.build(which)
        kernels[which] = kernel.module(which)
    rows = []
    print(f"{'per packet':<52}{'CPU time, ns':>18}{'wake-ups':>13}\n"
          f"{'':<52}{'stock':>6}{'both':>6}{'ratio':>6}{'stock':>7}{'both':>6}")
    for label in CASES:
        row = per_packet(kernels, label)
        row["ratio"] = row["ns"]["bench-patched"] / row["ns"]["bench-base"]
        rows.append({"case": label, **row})
        print(told(label, row), flush=True)
    RESULTS.write_text(json.dumps(
        {"what": f"per packet: CPU time of the host, ns, best of {ROUNDS} rounds; wake-ups",
         "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    guard(main)
