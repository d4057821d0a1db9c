# SPDX-License-Identifier: GPL-2.0
"""Loads that hurt, in virtual time, on the unpatched kernel and on the series: how they are run.

A scenario drives the device hop0 (lab/traffic/hop.py), or is a case of lab/traffic/tcp.py, and
gives figures. What there is, and what is shown of it: lab/loads/room.py.
"""

import json
import time
from collections.abc import Callable, Container, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from guest.boot import boot_script
from series import kernel
from traffic import tcp
from traffic.bed import Bed

from loads.room import ALSO, SCENARIOS, SHOWN, USUAL, Scenario, whole

LOADS = {name: one for name, one in SCENARIOS.items() if one.run}
CASES = {name: one for name, one in SCENARIOS.items() if not one.run and not one.parts}


def scenario_of(name: str, contender: str = USUAL) -> Scenario:
    """What a name means below a contender: what that has for itself, or what cake_mq has."""
    return LOADS.get(f"{contender}: {name}") or LOADS[name.rpartition(": ")[2]]


def guest_params(name: str) -> tuple[str, ...]:
    """What a scenario, by its whole name, needs on the command line of its guest's kernel."""
    return SCENARIOS[name].params if name in SCENARIOS else ()


def run_scenarios(spec: dict) -> Iterator[dict]:
    """Run the scenarios of a spec, yield the row of each. Runs in the guest."""
    bed = Bed(spec["contender"])
    for name in spec["scenarios"]:
        one = scenario_of(name, spec["contender"])
        yield {"scenario": name, **one.run(bed, **one.args)}
    bed.close()


def below(contender: str, everything: bool = False) -> list[str]:
    """What is run below a contender: what is shown of it, or also all that cake_mq runs."""
    own = [one.name for name, one in LOADS.items()
           if one.contender == contender and name in SHOWN]
    return list(dict.fromkeys([*own, *below(USUAL)])) if everything else own


def jobs_of(which: str, names: Container[str] | None, everything: bool) -> list[tuple]:
    """The guests that run scenarios: (job, contender, names, params of the kernel).

    names: which of them, by their whole names, if not all.
    """
    usual = {}
    for name in below(USUAL):
        usual.setdefault(SCENARIOS[name].params, []).append(name)
    jobs = [(f"load{part}", USUAL, usual[()][part::3], ()) for part in range(3)]
    jobs += [("slow", USUAL, some, params) for params, some in usual.items() if params]
    jobs += [(f"also{number}", contender, below(contender, everything), ())
             for number, contender in enumerate(ALSO) if kernel.shares(which, contender)]
    chosen = [(job, contender, [n for n in some if names is None or whole(contender, n) in names],
               params) for job, contender, some, params in jobs]
    return [job for job in chosen if job[2]]


def measure(which: str, names: Container[str] | None = None, on_row: Callable | None = None,
            everything: bool = False, slow: bool = False, lockdep: bool = False) -> dict[str, dict]:
    """{scenario: figures} of one kernel, two guests at a time.

    names: of what is run, if not all. everything: other contenders run all that cake_mq does.
    slow: also what takes minutes. lockdep: as for boot_script().
    """
    folder, ko = kernel.KERNELS[which].out, kernel.module(which)
    results = {}
    start = time.monotonic()
    common = {"allowed": kernel.known_splats(which)}

    def keep(name, row):
        results[name] = row
        if on_row:
            on_row(name, row, time.monotonic() - start)

    def load(job, contender, some, params):
        boot_script(folder, f"scenarios-{which}-{job}", "loads.scenarios:run_scenarios",
                    {"contender": contender, "scenarios": some}, hop=ko, virtual=True,
                    lockdep=lockdep, timeout=3600, params=params, **common,
                    on_row=lambda row: keep(whole(contender, row.pop("scenario")), row))

    def flows(job, some):
        rest = iter(some)
        tcp.run(folder, f"scenarios-{which}-{job}", [CASES[n].args for n in some],
                lambda row: keep(next(rest), row), **common)

    cases = [name for name, one in CASES.items()
             if (names is None or name in names) and (slow or not one.slow)]
    work = [partial(load, *job) for job in jobs_of(which, names, everything)]
    work += [partial(flows, f"tcp{part}", cases[part::2]) for part in (0, 1) if cases[part::2]]
    with ThreadPoolExecutor(2) as pool:
        for job in [pool.submit(one) for one in work]:
            job.result()
    derive(results)
    return results


def derive(figures: dict) -> None:
    """Add what is calculated from several figures, drop what nothing shows."""
    for one in SCENARIOS.values():
        starts = [figures.pop(name).get("rise_ms") for name in one.parts if name in figures]
        if starts:
            reached = [value if value is not None else float("inf") for value in starts]
            figures[one.name] = {"fastest_ms": min(reached), "slowest_ms": max(reached)}
    for name, row in figures.items():
        for key in ("groups", "options", "echo", "probes", "warm_us", "window_us", "qdisc",
                    "scenario", "queues", "waits", "one_all", "root_one_all"):
            row.pop(key, None)
        root = figures.get(f"root {name}", {})
        if "priority_bps" in root:
            row["of_root"] = 100 * row["priority_bps"] / root["priority_bps"]
        if "host_bps" in root:
            here, there = ({host: 100 * bps / sum(one["host_bps"].values())
                            for host, bps in one["host_bps"].items()} for one in (row, root))
            row["off"] = max(abs(here[host] - there[host]) for host in here)


def main(which: str, *pattern: str) -> None:
    """Print some figures of a kernel, as they come; nothing is stored.

    which: the kernel. pattern: what a scenario's name contains (all).
    """
    wanted = {name for name in SCENARIOS for text in pattern or [""] if text in name}
    measure(which, wanted, lambda name, row, s: print(
        f"{s:6.1f} {name}: " + json.dumps(row)[:300], flush=True), slow=True)
