# SPDX-License-Identifier: GPL-2.0
"""make mutants: break the series in listed ways; its tests must notice each.

All mutations of lab/series/mutants.txt are compiled into one kernel, which the boot
argument shared_mutant=N turns into mutant N. Those of the API and the rate group are for
the KUnit suites. Those of cake and tbf name loads in virtual time: scenarios, which must
leave a bound of the table of make demo, or a seed of make changes. A mutant is also
caught when the kernel complains, crashes or hangs. Numbers select mutants; only a run
of all writes mutants.json.
"""

import re
from collections.abc import Sequence
from pathlib import Path

from guest.boot import Guest, run_script, splats
from guest.qemu import watch
from host.common import BUILD, Die, parallel, say
from host.results import keep_result, recorded, recording, verdict
from loads.room import ROWS, Cell
from loads.scenarios import derive, guest_params
from series.kernel import BROKEN, KERNELS, build, image, module
from series.mutate import read_list

from tests.changes import Plan, wrong

NAME = "mutants"
TREE = BUILD / KERNELS[NAME].tree
SUITES = {  # by the start of the file's name: (filter, source)
    "net/sched/sch_rate_group_qdisc": ("rate_group_qdisc",
                                       "net/sched/sch_rate_group_qdisc_test.c"),
    "net/sched/sch_rate_group": ("rate_group", "net/sched/sch_rate_group_test.c"),
    "include/net/sch_rate_group": ("rate_group", "net/sched/sch_rate_group_test.c"),
    "net/sched/sch_rate.h": ("rate_group*", "net/sched/sch_rate_group_test.c"),
    "net/sched/sch_rate_tree": ("rate_tree*", "net/sched/sch_rate_tree_test.c"),
    "": ("qdisc_shared*", "net/sched/sch_generic-shared_test.c"),
}
TIMEOUT = 30  # s of host time, for KUnit
LOAD_TIMEOUT = 200
OPS = 40  # of a seed of make changes


# ----------------------------------------------------------------------- KUnit

def boot(number: int, file: str, case: str = "*") -> tuple[list[str], int, list[str]]:
    """Boot mutant `number` of a file (0: none); (failed cases, how many passed, how it showed).

    case: the only one to run.
    """
    log = BUILD / f"logs/mutant-{number}.log"
    suite, source = next(SUITES[start] for start in SUITES if file.startswith(start))
    cmd = [image(KERNELS[NAME].out), "mem=256M", "console=tty", "kunit_shutdown=halt",
           f"kunit.filter_glob={suite}.{case}", f"shared_mutant={number}"]
    text, ended_itself = watch(cmd, log, TIMEOUT)
    names = re.findall(r"KUNIT_CASE(?:_PARAM)?\((\w+)", (TREE / source).read_text())
    failed, passed, ended = verdicts(text, names if case == "*" else [case])
    bad = splats(text)
    signs = ["case"] if " FAILED at " in text else []
    if not ended_itself:
        signs.append("hang")
    elif "Kernel panic" in text or not ended:
        signs.append("crash")
    elif bad:
        signs.append("splat")
    return failed, passed, signs


def verdicts(log: str, names: Sequence[str]) -> tuple[list[str], int, bool]:
    """(failed, passed, whether the suite ended) from the KTAP log of cases with these names.

    kunit.py does not say in which case the kernel complained or crashed, so it is read here.

    A case is named case, or case/parameter. One in which the kernel complained,
    crashed or hung counts as failed, even if it passed all the same, and so does one
    that was skipped.
    """
    failed, passed, inner, bad, at, ended = [], [], [], False, 0, False
    for line in log.splitlines():
        bad = bad or bool(splats(line)) or " FAILED at " in line or "# SKIP" in line
        match = re.match(r"( *)(ok|not ok) \d+ (\S+)(.*)", line)
        if not match or not names:
            continue
        depth, good, name = len(match[1]), match[2] == "ok" and not bad, match[3]
        if depth == 8:
            inner.append(name)
            (passed if good else failed).append(f"{names[at]}/{name}")
        elif depth == 4:
            if not inner or bad:
                (passed if good else failed).append(name)
            at, inner = at + 1, []
        else:
            ended = True
        bad = False
    if not ended and at < len(names):
        failed.append(f"{names[at]}" + (f"/after {inner[-1]}" if inner else ""))
    return failed, len(passed), ended


# ----------------------------------------------------------------------- loads

def cells(scenario: str) -> list[Cell]:
    """What the table shows of a scenario and has a bound for."""
    return [cell for row in ROWS for cell in row.cells_of([scenario]) if cell.bound is not None]


def run_load(number: int, load: str, hop: Path) -> tuple[list[str], Guest]:
    """Run a load on mutant `number` (0: none): (what is out of its bound, Guest).

    hop: path of the module that makes the load.
    """
    if load.startswith("changes "):
        plan = Plan(int(load.split()[1]), OPS)
        script, spec = "tests.changes:run_plan", plan.spec(plan.ops)
    else:
        contender, _, name = load.rpartition(": ")
        script = "loads.scenarios:run_scenarios"
        spec = {"contender": contender or "cake_mq", "scenarios": [name]}
    job = "mutant-" + re.sub(r"\W+", "-", f"{number} {load}")
    rows, guest = run_script(KERNELS[NAME].out, job, script, spec, hop=hop, virtual=True,
                             timeout=LOAD_TIMEOUT, params=(f"shared_mutant={number}",
                                                           *guest_params(load)))
    if not rows or guest.complaint():
        return [], guest
    if script == "tests.changes:run_plan":
        said = wrong(rows[-1])
        return [f"{load}: {said}"] if said else [], guest
    results = {load: rows[-1]}
    derive(results)
    return [cell.told(results) for cell in cells(load) if not cell.good(results)], guest


def run_loads(number: int, loads: Sequence[str], hop: Path) -> tuple[list[str], list[str]]:
    """Run loads until one shows the mutant: (what was out of its bound, how it showed)."""
    for load in loads:
        outside, guest = run_load(number, load, hop)
        if outside:
            return outside, ["load"]
        if guest.complaint():
            ended = guest.rc is None and not splats(guest.console + guest.dmesg)
            return [load], ["hang" if ended else "splat"]
    return [], []


# ------------------------------------------------------------------------- all

def noticed(entry: dict, case: str | None) -> tuple[list[str], list[str]]:
    """Whether KUnit notices an entry's mutant: (failed cases, how it showed).

    case: tried first, and alone; what noticed it when it was recorded.
    """
    for only in filter(None, (case, "*")):
        failed, _, how = boot(entry["number"], entry["file"], only)
        if how:
            break
    return failed, how


def hints() -> dict[tuple[str, str], str]:
    """{(file, rule): case that noticed} of the recorded run; none if this is to be recorded."""
    entries = [] if recording() else recorded("mutants.json").get("mutants", [])
    return {(entry["file"], entry["rule"]): re.split("[/ ]", entry["cases"][0])[0]
            for entry in entries if entry["cases"]}


def judge(entry: dict, case: str | None, hop: Path) -> dict:
    """Run an entry's mutant; adds how it was caught to the entry."""
    if entry["loads"]:
        failed, how = run_loads(entry["number"], entry["loads"], hop)
    else:
        failed, how = noticed(entry, case)
    more = f" and {len(failed) - 2} more" if len(failed) > 2 else ""
    print(f"{entry['number']:3}  {'+'.join(how) or 'SURVIVED':10}  {entry['rule']}: "
          f"{', '.join(failed[:2])}{more}", flush=True)
    return {**entry, "caught_by": how, "cases": failed}


def unbroken(entries: Sequence[dict], hop: Path) -> int:
    """Die unless all that is to notice passes without a mutant; how many cases of KUnit."""
    passed = 0
    for file in ("net/sched/sch_rate_group.c", "net/sched/sch_rate_tree.c",
                 "net/sched/sch_generic-shared.c"):
        failed, count, signs = boot(0, file)
        passed += count
        if failed or signs or not count:
            raise Die(f"without a mutant the suite already shows {failed or 'no case'}: "
                      f"see {BUILD}/logs/mutant-0.log")
    loads = sorted({load for entry in entries for load in entry["loads"]})
    for load, (outside, guest) in zip(
            loads, parallel(lambda load: run_load(0, load, hop), loads), strict=True):
        guest.judge()
        if outside:
            raise Die(f"without a mutant '{load}' already shows {outside[0]}")
    return passed


def main(*number: int) -> None:
    """Make, build, run each, count.

    number: of mutants (all).
    """
    entries = read_list(BROKEN[NAME])
    chosen = [e for e in entries if not number or e["number"] in number]
    build(NAME)
    hop = module(NAME)
    passed = unbroken(chosen, hop)
    first = hints()
    say(f"{passed} cases (with parameters) pass without a mutant; {len(chosen)} mutants "
        f"(about {len(chosen)} s)")
    results = list(parallel(lambda entry: judge(
        entry, first.get((entry["file"], entry["rule"])), hop), chosen))
    if chosen == entries:
        keep_result("mutants.json", {
            "what": "how KUnit and loads in virtual time catch mutations of the series",
            "cases_without_mutant": passed,
            "mutants": [{key: result[key] for key in
                         ("number", "file", "rule", "caught_by", "cases")}
                        for result in results]})
    caught = sum(bool(result["caught_by"]) for result in results)
    verdict(caught, len(results) - caught)
