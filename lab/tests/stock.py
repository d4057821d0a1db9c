# SPDX-License-Identifier: GPL-2.0
"""make stock: the packages of 'make deb' on Debian's own kernels, in QEMU.

On each kernel, lab/tests/stock.sh loads the module, measures, makes 500 changes, runs the
commands of module/README.md, unloads, and removes the packages. The last line is
'N passed, N failed'.
"""

import json
import os
import re
import shutil
import tomllib
from collections.abc import Sequence
from pathlib import Path

from guest.boot import splats
from guest.debian import SYSTEMS, boot, disk, has_card, headers, inside, system
from host.common import ROOT, Die, parallel, say
from host.results import verdict
from host.setup import loudly
from series.module import build, packages_of

HERE = ROOT / "lab/tests"
LOADS = tomllib.loads((HERE / "stock.toml").read_text())["load"]


def persistent(root: Path) -> None:
    """Set a system up as the guide says under "Across reboots"; it then runs stock-boot.sh."""
    text = (ROOT / "module/README.md").read_text()
    unit, = re.findall(r"^```\n(\[Unit\]\n.*?)^```$", text, re.MULTILINE | re.DOTALL)
    hook, = re.findall(r"^ +(post-up .*)$", text, re.MULTILINE)
    (root / "etc/systemd/system/shape-eth0.service").write_text(unit)
    (root / "etc/network/interfaces").write_text(
        f"iface eth0 inet static\n    address 10.1.0.1/24\n    {hook}\n")
    shutil.copy(HERE / "stock-boot.sh", root / "booted.sh")
    inside(root, (HERE / "stock-units.sh").read_text(), "stock-units", "enabling the units", 1)


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


def total(qdiscs: Sequence[dict], field: str, parent: str) -> int:
    """A counter of cake_mq, or of the cake below one of its classes; 0 if it is not there."""
    return sum(q[field] for q in qdiscs
               if (q.get("parent") == parent if parent else q["kind"] == "cake_mq"))


def judged(kernel: str, text: str, loads: Sequence[tuple]) -> tuple[int, list[str]]:
    """How many checks passed, and sentences on those that did not; loads: like LOADS."""
    passed = len(re.findall(r"^OK ", text, re.MULTILINE))
    failed = re.findall(r"^FAIL (.*)$", text, re.MULTILINE)
    if not re.search(r"^END$", text, re.MULTILINE):
        failed.append(f"the guest did not come to its end: see build/stock/{kernel}-*.log")
    if found := splats(text):
        failed.append(f"kernel splat '{found[0].strip()}'")
    else:
        passed += 1
    pairs = readings(text)
    for name, parent, least, most in loads:
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


def compiled(suite: str) -> tuple[int, list[str], int]:
    """Build the module for the kernel of a release that is not booted.

    (1 if it builds, a sentence if it does not, 1 if its headers cannot be had).
    """
    try:
        folder, before = headers(suite)
    except Die as why:
        loudly(f"NOT TRIED: the module on Debian {suite}: {why}")
        return 0, [], 1
    try:
        build(folder, before)
    except Die as why:
        return 0, [f"{suite}: {why}"], 0
    return 1, [], 0


def main(all_: bool = False) -> None:
    """Make the disks, boot the kernels, judge.

    all: boot all kernels, not only that of the newest release; for the others, the module is
    only built.
    """
    if os.geteuid():
        say("this makes systems and mounts them, which only root may do")
        verdict(0, [], 1)
    script = (HERE / "stock.sh").read_text()
    names = list(SYSTEMS) if all_ else [next(iter(SYSTEMS))]
    for name in names:
        try:
            system(name)
        except Die as why:
            if all_:
                raise
            print(f"no system of Debian {name} can be made here: {why}")
            verdict(0, [], 1)
    jobs, debs = [], packages_of()
    for name in names:
        image, kernels = disk(name, debs, {"stock.sh": script, "guide.sh": guide()}, persistent)
        kernels = kernels if all_ else kernels[:1]
        jobs += [(image, kernel, "stock.sh") for kernel in kernels]
        if has_card() and all_:
            jobs += [(image, kernel, "booted.sh", True) for kernel in kernels]
    say(f"booting {', '.join(job[1] for job in jobs)} (about 120 s each)")
    logs = list(parallel(lambda job: boot(*job), jobs))
    loads = [load for load in LOADS if has_card() or not load[0].startswith("virtio")]
    passed, failed, skipped = 0, [], 0
    for name in set(SYSTEMS) - set(names):
        more, sentences, missing = compiled(name)
        passed, failed, skipped = passed + more, failed + sentences, skipped + missing
    for (_, kernel, *how), text in zip(jobs, logs, strict=True):
        more, sentences = judged(kernel, text, loads if len(how) == 1 else ())
        passed, failed = passed + more, failed + sentences
    verdict(passed, failed, skipped or None)
