# SPDX-License-Identifier: GPL-2.0
"""The lab's one command line: python3 -B lab VERB [ARGUMENT ...]

Each verb is the main() of a module in one of the rooms, which are, from the bottom up:
tree, guest, load, and gates and measure side by side.
"""

import importlib
import sys

from tree.common import guard

VERBS = {
    "setup": "tree.setup", "tree": "tree.tree", "kernel": "tree.kernel",
    "inside": "guest.boot", "shell": "guest.shell", "scenarios": "load.scenarios",
    **{name.replace("_", "-"): f"gates.{name}" for name in (
        "test", "kunit", "tdc", "ynl", "compat", "torture", "changes", "fuzz", "mutants",
        "coverage", "ladder", "check", "gauntlet")},
    **{name: f"measure.{name}" for name in ("demo", "figures", "plots", "bench", "smp",
                                            "cost")},
}


def main():
    """Run a verb; its module sees the words after it as its command line."""
    if sys.argv[1:2] == [] or sys.argv[1] not in VERBS:
        sys.exit(f"error: the verbs of lab are {', '.join(VERBS)}")
    guard(importlib.import_module(VERBS[sys.argv.pop(1)]).main)


if __name__ == "__main__":
    main()
