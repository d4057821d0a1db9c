"""make bench: CPU time per packet, the unpatched kernel beside both series.

Virtual time: the load is exactly the same, and what differs is how much of the
host's CPU time the guest takes for it. Kernels without debugging, runs in turn,
two lengths of each so that booting and setting up cancel out, and of each the
shortest of all rounds: other load on the host only ever adds. ROUNDS=n changes how
many. Writes results/bench.json.
"""

import json
import os
import resource

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
    yield {"packets": hop.run(spec["seconds"])["packets"]}
    hop.remove()


def cpu_time(which, hop, label, seconds):
    """(CPU seconds of the host, packets) of one boot."""
    rate, queues, size, load, options, _, _ = CASES[label]
    spec = {"rate": rate, "queues": queues, "size": size, "load": load,
            "options": options, "seconds": seconds}
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    (row,), _ = boot_script(kernel.KERNELS[which].out, f"bench-{which}", "bench", spec,
                            hop=hop, virtual=True,
                            allowed=kernel.known_splats(which))
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime,
            row["packets"])


def per_packet(kernels, label):
    """{kernel: ns of CPU time per packet}, without what does not grow with them.

    kernels: {kernel: path of its hop module}.
    """
    *_, short, long = CASES[label]
    best = {}
    for _ in range(ROUNDS):
        for which, hop in kernels.items():
            for seconds in (short, long):
                got = cpu_time(which, hop, label, seconds)
                best[which, seconds] = min(got, best.get((which, seconds), got))
    return {which: 1e9 * (best[which, long][0] - best[which, short][0])
            / (best[which, long][1] - best[which, short][1]) for which in kernels}


def main():
    """Measure, print, write."""
    kernels = {}
    for which in ("bench-base", "bench-patched"):
        kernel.build(which)
        kernels[which] = kernel.module(which)
    rows = []
    print(f"{'CPU time per packet, ns':<52}{'stock':>8}{'both':>8}{'ratio':>8}")
    for label in CASES:
        ns = per_packet(kernels, label)
        ratio = ns["bench-patched"] / ns["bench-base"]
        rows.append({"case": label, "ns": ns, "ratio": ratio})
        print(f"{label:<52}{ns['bench-base']:>8.0f}{ns['bench-patched']:>8.0f}{ratio:>8.2f}",
              flush=True)
    RESULTS.write_text(json.dumps(
        {"what": f"CPU time of the host per packet, ns; best of {ROUNDS} rounds",
         "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    guard(main)
