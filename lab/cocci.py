# SPDX-License-Identifier: GPL-2.0
"""make cocci: the semantic patch of the series finds what it should, and no more.

It must report each mistake in lab/cocci/faults.c, nothing in lab/cocci/fine.c, what
cake_mq of the unpatched kernel does, and nothing in what the series leaves behind.
"""

import re
import subprocess

from common import BUILD, ROOT, Die, guard, say, verdict

SCRIPT = BUILD / "linux" / "scripts/coccinelle/api/qdisc_shared.cocci"
PLACES = ("net/sched", "drivers/net/netdevsim")
REPORT = re.compile(r"^(/.*?):(\d+):[\d-]+: (?:ERROR|WARNING): (.*)$", re.M)
# The function of the unpatched kernel that uses private data of it knows not what.
KNOWN = ["net/sched/sch_cake.c: cake_dequeue"]


def spatch(where):
    """What the script reports about a file or folder: [(path, line, message)]."""
    options = re.search(r"^// Options: (.*)$", SCRIPT.read_text(), re.M)[1].split()
    cmd = ["spatch", "-D", "report", "--no-show-diff", "--very-quiet", *options,
           "--cocci-file", SCRIPT, *(["--dir"] if where.is_dir() else []), where]
    try:
        done = subprocess.run([str(word) for word in cmd], cwd=BUILD, text=True, check=False,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    except FileNotFoundError:
        raise Die("spatch is missing; run 'lab/setup.py cocci'") from None
    found = [(path, int(line), message) for path, line, message in REPORT.findall(done.stdout)]
    if done.returncode or len(found) != len(done.stdout.splitlines()):
        raise Die(f"spatch failed on {where}: {done.stdout.strip()[-300:]}; correct {SCRIPT}")
    return sorted(found)


def function(path, number):
    """Name of the C function that a line of a file is in."""
    head = path.read_text().splitlines()[:number]
    return next(m[1] for line in reversed(head) if (m := re.match(r"\w.*?(\w+)\(", line)))


def expected(file):
    """What a file says should be reported about it."""
    return [(str(file), number, m[1]) for number, line in
            enumerate(file.read_text().splitlines(), 1)
            if (m := re.search(r"\S.*/\* (.*) \*/$", line))]


def compare(want, got, failed):
    """Number of findings that are as wanted; the others go to failed."""
    failed += [f"not found: {one}" for one in want if one not in got]
    failed += [f"wrongly reported: {one}" for one in got if one not in want]
    return sum(one in got for one in want)


def check():
    """(passed, what failed as sentences) of all that the script is tried on."""
    failed = []
    faults, fine = (ROOT / "lab/cocci" / name for name in ("faults.c", "fine.c"))
    passed = compare(expected(faults), spatch(faults), failed)
    base = BUILD / "linux-base"
    found = [f"{path.removeprefix(f'{base}/')}: {function(base / path, line)}"
             for place in PLACES for path, line, _ in spatch(base / place)]
    passed += compare(KNOWN, found, failed)
    for where in (fine, *(BUILD / "linux" / place for place in PLACES)):
        wrong = spatch(where)
        passed += not wrong
        compare([], wrong, failed)
    return passed, failed


def main():
    """Check and print the counts."""
    say("running the semantic patch of the series (about 20 s)")
    verdict(*check())


if __name__ == "__main__":
    guard(main)
