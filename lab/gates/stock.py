# SPDX-License-Identifier: GPL-2.0
"""make stock: the packages of 'make deb' on Debian's own kernels, in QEMU.

On each kernel, lab/gates/stock.sh loads the module, measures, makes 500 changes, runs the
commands of module/README.md, unloads, and removes the packages. The last line is
'N passed, N failed'.
"""

import json
import os
import re
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from guest.boot import splats
from guest.debian import SYSTEMS, boot, disk, system
from tree.common import JOBS, ROOT, Die, command_line, say, verdict
from tree.module import deb

LOADS = (  # of stock.sh: (name, class or None, least and most Mbit/s that it sends)
    ("four queues, 40 of 20 Mbit", None, 19.9, 20.1),
    ("16 and 4 of 20 Mbit", None, 19.9, 20.1),
    ("two TCP flows of 20 Mbit", None, 19.9, 20.1),
    ("EF beside best effort", None, 19.9, 20.1),
    ("EF beside best effort", "1:4", 3.99, 4.2),  # and drops nothing: under its threshold
    ("after 500 changes", None, 19.9, 20.1),
)


def guide() -> str:
    """The commands of module/README.md that a guest can run: in blocks marked sh."""
    return "".join(re.findall(r"^```sh\n(.*?)^```$", (ROOT / "module/README.md").read_text(),
                              re.MULTILINE | re.DOTALL))


def readings(text: str) -> dict[str, tuple[float, list[dict], list[dict]]]:
    """{name: (s between, qdiscs before, qdiscs after)} of the pairs of STAT lines."""
    found = {}
    for name, when, at, line in re.findall(r"^STAT (.*) (begin|end) (\d+) (.*)$", text,
                                           re.MULTILINE):
        found.setdefault(name, {})[when] = (int(at), json.loads(line))
    return {name: ((pair["end"][0] - pair["begin"][0]) / 1e9, pair["begin"][1], pair["end"][1])
            for name, pair in found.items() if len(pair) == 2}


def total(qdiscs: Sequence[dict], field: str, parent: str | None) -> int:
    """A counter of cake_mq, or of the cake below one of its classes; 0 if it is not there."""
    return sum(q[field] for q in qdiscs
               if (q.get("parent") == parent if parent else q["kind"] == "cake_mq"))


def judged(kernel: str, text: str) -> tuple[int, list[str]]:
    """How many checks passed, and sentences on those that did not."""
    passed = len(re.findall(r"^OK ", text, re.MULTILINE))
    failed = re.findall(r"^FAIL (.*)$", text, re.MULTILINE)
    if not re.search(r"^END$", text, re.MULTILINE):
        failed.append(f"the guest did not come to its end: see build/stock/{kernel}-*.log")
    if found := splats(text):
        failed.append(f"kernel splat '{found[0].strip()}'")
    else:
        passed += 1
    pairs = readings(text)
    for name, parent, least, most in LOADS:
        what = name + (f": queue {parent}" if parent else "")
        if name not in pairs:
            failed.append(f"{what}: no reading")
            continue
        seconds, before, after = pairs[name]
        sent, drops = (total(after, field, parent) - total(before, field, parent)
                       for field in ("bytes", "drops"))
        rate = 8e-6 * sent / seconds
        print(f"{kernel:<30}{what:<46}{rate:8.3f} Mbit/s{drops:6} dropped")
        if least <= rate <= most and not (parent and drops):
            passed += 1
        else:
            failed.append(f"{what}: {rate:.3f} Mbit/s, {drops} dropped")
    return passed, [f"{kernel}: {sentence}" for sentence in failed]


def main(argv: Sequence[str]) -> None:
    """Make the disks, boot the kernels, judge."""
    parser = command_line("stock", __doc__)
    parser.add_argument("--all", action="store_true", help="all kernels, not only that of the "
                        "newest release")
    args = parser.parse_args(argv)
    if os.geteuid():
        say("this makes systems and mounts them, which only root may do")
        print("0 passed, 0 failed, 1 skipped")
        return
    script = (ROOT / "lab/gates/stock.sh").read_text()
    names = list(SYSTEMS) if args.all else [next(iter(SYSTEMS))]
    for name in names:
        try:
            system(name)
        except Die as why:
            if args.all:
                raise
            print(f"no system of Debian {name} can be made here: {why}\n"
                  "0 passed, 0 failed, 1 skipped")
            return
    jobs, debs = [], deb()
    for name in names:
        image, kernels = disk(name, debs, {"stock.sh": script, "guide.sh": guide()})
        jobs += [(image, kernel) for kernel in (kernels if args.all else kernels[:1])]
    say(f"booting {', '.join(kernel for _, kernel in jobs)} (about 120 s each)")
    with ThreadPoolExecutor(JOBS) as pool:
        logs = list(pool.map(lambda job: boot(*job, "stock.sh"), jobs))
    passed, failed = 0, []
    for (_, kernel), text in zip(jobs, logs, strict=True):
        more, sentences = judged(kernel, text)
        passed, failed = passed + more, failed + sentences
    verdict(passed, failed)
