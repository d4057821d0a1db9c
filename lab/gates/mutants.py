# SPDX-License-Identifier: GPL-2.0
"""make mutants: break the series in listed ways; their KUnit suites must notice each.

All mutations of lab/gates/mutants.txt are compiled into one kernel, which the boot
argument shared_mutant=N turns into mutant N. It is built from a copy of the tree
(default build/linux), with the suite's own .kunitconfig. A mutant is caught when
a case fails, or when the kernel complains, crashes or hangs. Numbers select
mutants; only a run of all writes mutants.json.
"""

import json
import re
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from guest.boot import splats
from tree.common import BUILD, JOBS, ROOT, Die, command_line, kernel_env, result_file, run, say
from tree.mutate import mutated, read_list

LIST = ROOT / "lab/gates/mutants.txt"
SCRATCH = BUILD / "mutants-linux"
OUT = BUILD / "mutants-um"
SUITES = {  # by the start of the file's name: (filter, source)
    "net/sched/sch_rate_group": ("rate_group*", "net/sched/sch_rate_group_test.c"),
    "include/net/sch_rate_group": ("rate_group*", "net/sched/sch_rate_group_test.c"),
    "": ("qdisc_shared*", "net/sched/sch_generic-shared_test.c"),
}
TIMEOUT = 30


def make_tree(tree: Path, entries: list[dict]) -> None:
    """Copy the tree by hard links; files that change become files of their own."""
    run(f"rm -rf {SCRATCH} && cp -al {tree} {SCRATCH}", "mutants-tree", "copying the tree", 10)
    for file, text in mutated(tree, entries).items():
        (SCRATCH / file).unlink()
        (SCRATCH / file).write_text(text)


def build() -> None:
    """Build the kernel with all mutants."""
    config = SCRATCH / "net/sched/.kunitconfig"
    if not config.exists():
        raise Die("the tree has no net/sched/.kunitconfig; is the suite in the series?")
    run([sys.executable, SCRATCH / "tools/testing/kunit/kunit.py", "build", "--arch=um",
         f"--kunitconfig={config}", f"--build_dir={OUT}", f"--jobs={JOBS}",
         "--make_options", "CC=ccache gcc"], "mutants-build",
        "building the kernel with all mutants", 300, cwd=SCRATCH, env=kernel_env())


def boot(number: int, file: str) -> tuple[list[str], int, list[str]]:
    """Boot mutant `number` of a file (0: none); (failed cases, how many passed, how it showed)."""
    log = BUILD / f"logs/mutant-{number}.log"
    suite, source = next(SUITES[start] for start in SUITES if file.startswith(start))
    cmd = [OUT / "linux", "mem=256M", "console=tty", "kunit_shutdown=halt",
           f"kunit.filter_glob={suite}", f"shared_mutant={number}"]
    hung = False
    with open(log, "wb") as out:
        try:
            subprocess.run(cmd, stdin=subprocess.DEVNULL, stdout=out,
                           stderr=subprocess.STDOUT, timeout=TIMEOUT, check=False)
        except subprocess.TimeoutExpired:
            hung = True
    text = log.read_text(errors="replace")
    failed, passed, ended = verdicts(text, SCRATCH / source)
    bad = splats(text)
    signs = ["case"] if " FAILED at " in text else []
    if hung:
        signs.append("hang")
    elif "Kernel panic" in text or not ended:
        signs.append("crash")
    elif bad:
        signs.append("splat")
    return failed, passed, signs


def verdicts(log: str, source: Path) -> tuple[list[str], int, bool]:
    """(failed, passed, whether the suite ended) from the KTAP log of a suite.

    kunit.py does not say in which case the kernel complained or crashed, so it is read here.

    A case is named case, or case/parameter. One in which the kernel complained,
    crashed or hung counts as failed, even if it passed all the same, and so does one
    that was skipped.
    """
    names = re.findall(r"KUNIT_CASE(?:_PARAM)?\((\w+)", source.read_text())
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


def judge(entry: dict) -> dict:
    """Boot an entry's mutant; adds how it was caught to the entry."""
    failed, _, how = boot(entry["number"], entry["file"])
    more = f" and {len(failed) - 2} more" if len(failed) > 2 else ""
    print(f"{entry['number']:3}  {'+'.join(how) or 'SURVIVED':10}  {entry['rule']}: "
          f"{', '.join(failed[:2])}{more}", flush=True)
    return {**entry, "caught_by": how, "cases": failed}


def main(argv: Sequence[str]) -> None:
    """Make, build, boot each, count."""
    parser = command_line("mutants", __doc__, record=True)
    parser.add_argument("number", type=int, nargs="*", help="of mutants (all)")
    parser.add_argument("--tree", type=Path, default=BUILD / "linux", metavar="FOLDER")
    args = parser.parse_args(argv)
    entries = read_list(LIST)
    chosen = [e for e in entries if not args.number or e["number"] in args.number]
    make_tree(args.tree.resolve(), entries)
    build()
    passed = 0
    for file in ("net/sched/sch_rate_group.c", "net/sched/sch_generic-shared.c"):
        failed, count, signs = boot(0, file)
        passed += count
        if failed or signs or not count:
            raise Die(f"without a mutant the suite already shows {failed or 'no case'}: "
                      f"see {BUILD}/logs/mutant-0.log")
    say(f"{passed} cases (with parameters) pass without a mutant; booting {len(chosen)} mutants "
        f"(about {len(chosen)} s)")
    with ThreadPoolExecutor(JOBS) as pool:
        results = list(pool.map(judge, chosen))
    if chosen == entries:
        result_file("mutants.json").write_text(json.dumps({
            "what": "how the KUnit suite catches mutations of the series",
            "cases_without_mutant": passed,
            "mutants": [{key: result[key] for key in
                         ("number", "file", "rule", "caught_by", "cases")}
                        for result in results]}, indent=1) + "\n")
    caught = sum(bool(result["caught_by"]) for result in results)
    print(f"{caught} passed, {len(results) - caught} failed")
    sys.exit(caught != len(results))
