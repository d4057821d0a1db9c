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
from pathlib import Path

from guest.boot import splats
from guest.debian import SYSTEMS, boot, disk, has_card, inside, system
from tree.common import JOBS, ROOT, Die, say
from tree.module import deb
from tree.results import command_line, verdict

LOADS = (  # of stock.sh: (name, class or None, least and most Mbit/s that it sends)
    ("four queues, 40 of 20 Mbit", None, 19.9, 20.1),
    ("16 and 4 of 20 Mbit", None, 19.9, 20.1),
    ("two TCP flows of 20 Mbit", None, 19.9, 20.1),
    ("EF beside best effort", None, 19.9, 20.1),
    ("EF beside best effort", "1:4", 3.99, 4.2),  # and drops nothing: under its threshold
    ("after 500 changes", None, 19.9, 20.1),
    ("virtio-net: two queues of 20 Mbit", None, 19.9, 20.1),
)
# After a boot with systemd: the unit of the guide has shaped eth0. Then so does ifup.
BOOTED = """#!/bin/sh
check() { if sh -c "$2" > /tmp/out 2>&1; then echo "OK $1"; else cat /tmp/out; echo "FAIL $1"; fi; }
exec > /dev/console 2>&1
echo  # the console may be in the middle of a line
shaped="cake-tc qdisc show dev eth0 | grep -q 'cake_mq.*bandwidth 900Mbit'"
for i in $(seq 30); do sh -c "$shaped" && break; sleep 1; done
check "systemd: the unit of the guide shapes at boot" "$shaped"
check "systemd: it is stopped" "systemctl disable --now shape-eth0 && tc qdisc del dev eth0 root"
check "ifupdown: the line of the guide shapes" "ifdown --force eth0; ifup eth0 && $shaped"
dmesg
echo END
poweroff -ff
"""
BOOTED_UNIT = """[Service]
Type=oneshot
ExecStart=/bin/sh /booted.sh

[Install]
WantedBy=multi-user.target
"""
SHAPE = "#!/bin/sh\ncake-tc qdisc replace dev eth0 root cake_mq bandwidth 900mbit\n"


def persistent(root: Path) -> None:
    """Set a system up as the guide says under "Across reboots"; it then runs BOOTED."""
    text = (ROOT / "module/README.md").read_text()
    unit, = re.findall(r"^```\n(\[Unit\]\n.*?)^```$", text, re.MULTILINE | re.DOTALL)
    hook, = re.findall(r"^ +(post-up .*)$", text, re.MULTILINE)
    for name, content in (
            ("etc/systemd/system/shape-eth0.service", unit),
            ("etc/systemd/system/booted.service", BOOTED_UNIT), ("booted.sh", BOOTED),
            ("usr/local/sbin/shape-eth0", SHAPE), ("etc/network/interfaces",
             f"iface eth0 inet static\n    address 10.1.0.1/24\n    {hook}\n")):
        (root / name).write_text(content)
    (root / "usr/local/sbin/shape-eth0").chmod(0o755)
    inside(root, "systemctl enable shape-eth0 booted", "stock-units", "enabling the units", 1)


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
        image, kernels = disk(name, debs, {"stock.sh": script, "guide.sh": guide()}, persistent)
        kernels = kernels if args.all else kernels[:1]
        jobs += [(image, kernel, "stock.sh") for kernel in kernels]
        if has_card() and args.all:
            jobs += [(image, kernel, "booted.sh", True) for kernel in kernels]
    say(f"booting {', '.join(job[1] for job in jobs)} (about 120 s each)")
    with ThreadPoolExecutor(JOBS) as pool:
        logs = list(pool.map(lambda job: boot(*job), jobs))
    loads = [load for load in LOADS if has_card() or not load[0].startswith("virtio")]
    passed, failed = 0, []
    for (_, kernel, *how), text in zip(jobs, logs, strict=True):
        more, sentences = judged(kernel, text, loads if len(how) == 1 else ())
        passed, failed = passed + more, failed + sentences
    verdict(passed, failed)
