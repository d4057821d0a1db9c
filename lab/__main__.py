# SPDX-License-Identifier: GPL-2.0
"""The lab's one command line: python3 -B lab VERB [OPTION ...]

Each verb is main() of a module in one of the rooms, which are, from the bottom up:
tree, guest, load, gates and measure side by side, and report. 'VERB --help' says what a verb does
and with which options, and does nothing.
"""

import importlib
import sys
from collections.abc import Sequence

from tree.common import Die, guard, recording

VERBS = {  # verb: (module, what it does)
    "setup": ("tree.setup", "install, download and build what is needed"),
    "tree": ("tree.tree", "the base with the series; export them; apply them elsewhere"),
    "kernel": ("tree.kernel", "build kernels"),
    "module": ("tree.module", "a module and packages for stock kernels"),
    "shell": ("guest.shell", "a shell in the patched kernel"),
    "inside": ("guest.boot", "what the lab runs in a guest"),
    "scenarios": ("load.table", "some figures of a kernel, for a look"),
    "test": ("gates.test", "the gates, one after the other"),
    "kunit": ("gates.kunit", "KUnit"),
    "tdc": ("gates.tdc", "tc-testing"),
    "ynl": ("gates.ynl", "the netlink description"),
    "compat": ("gates.compat", "old commands"),
    "torture": ("gates.torture", "trees of qdiscs at random"),
    "changes": ("gates.changes", "options at random"),
    "fuzz": ("gates.fuzz", "rate group and rate tree in user space"),
    "syz": ("gates.syz", "requests and packets at random, by what code they reach"),
    "mutants": ("gates.mutants", "what notices a broken rule"),
    "coverage": ("gates.coverage", "which lines run"),
    "ladder": ("gates.ladder", "each series with those before it"),
    "check": ("gates.check", "what netdev asks"),
    "openwrt": ("gates.openwrt", "the feed for OpenWrt"),
    "arches": ("gates.arches", "the C files as programs of other architectures"),
    "litmus": ("gates.litmus", "orderings, by the kernel's memory model"),
    "stock": ("gates.stock", "the module on kernels of Debian"),
    "drivers": ("gates.drivers", "drivers of network cards"),
    "gauntlet": ("gates.gauntlet", "four CPUs, KASAN and KCSAN"),
    "demo": ("measure.demo", "loads that hurt"),
    "figures": ("measure.figures", "the evaluation"),
    "reported": ("measure.reported", "what users reported"),
    "plots": ("measure.plots", "draw it"),
    "bench": ("measure.bench", "CPU time per packet"),
    "smp": ("measure.smp", "two real CPUs"),
    "cost": ("measure.cost", "instructions per packet"),
    "users": ("measure.users", "memory and time that sharing takes of the kernel"),
    "report": ("report.blocks", "results/ into the pages that show it"),
    "trees": ("measure.trees", "shared htb: what each class gets"),
}


def run(verb: str, argv: Sequence[str]) -> None:
    """Run a verb with the words after it."""
    try:
        module = importlib.import_module(VERBS[verb][0])
    except ModuleNotFoundError as error:
        raise Die(f"{sys.executable} has no module {error.name}, which 'lab {verb}' needs; "
                  "'lab setup figures' installs that for /usr/bin/python3") from None
    try:
        guard(module.main, argv)
    finally:
        if recording():
            importlib.import_module("report.blocks").fill()


def main() -> None:
    """Run a verb, or list them."""
    words = sys.argv[1:]
    if not words or words[0] not in VERBS:
        if words and not words[0].startswith("-"):
            print(f"There is no verb '{words[0]}'.")
        print(__doc__)
        print("\n".join(f"  {verb:<11}{what}" for verb, (_, what) in VERBS.items()))
        sys.exit(words[:1] not in (["--help"], ["-h"]))
    run(words[0], words[1:])


if __name__ == "__main__":
    main()
