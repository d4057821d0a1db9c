# SPDX-License-Identifier: GPL-2.0
"""What follows from a seed, and faults that fit the series."""

import unittest

from host import common
from series.kernel import BROKEN
from series.mutate import mutated, read_list
from sim import fuzz

from tests import changes, mutants, torture


class Torture(unittest.TestCase):
    """What make torture does follows from a seed, and its faults fit the series."""

    def test_plan(self):
        """A seed gives the same operations again, of every kind."""
        lines = torture.Plan(1).lines(3000)
        self.assertEqual(lines, torture.Plan(1).lines(3000))
        self.assertNotEqual(lines, torture.Plan(2).lines(3000))
        for start in ("tc qdisc", "tc -n", "ip link", "ip netns", "ethtool", "sysctl", "send",
                      "nsim", "fail all", "both", "rmmod", "unload", "tc filter"):
            self.assertTrue(any(line.startswith(start) for line in lines), start)

    def test_faults(self):
        """The text of each fault is in the tree, and the loads that are to find it exist."""
        tree = common.BUILD / "linux"
        for listed in BROKEN.values():
            entries = read_list(listed)
            for path, text in mutated(tree, entries).items():
                self.assertNotEqual(text, (tree / path).read_text(), path)
            for load in {load for entry in entries for load in entry["loads"]}:
                self.assertTrue(load.startswith("changes ") or mutants.cells(load), load)
            for kernel in {entry["kernel"] for entry in entries} - {""}:
                self.assertEqual(BROKEN[kernel], listed)


class Changes(unittest.TestCase):
    """What make changes does follows from a seed, and what is wrong is seen."""

    def test_plan(self):
        """A seed gives the same changes again, and all seeds those of every kind."""
        lines = [line for seed in range(40) for line in changes.Plan(seed, 40).ops]
        self.assertEqual(lines[:40], changes.Plan(0, 40).ops)
        for words in ("cake_mq", "ingress", "noshared", " mtu ", " down", "tbf rate", "inner",
                      "unlimited", "replace", "del", "overhead", "precedence"):
            self.assertTrue(any(words in line for line in lines), words)
        self.assertEqual(changes.slept(["a b; sleep 0.5; c", "sleep 1"]), 1.5)

    def test_judgement(self):
        """A rate that is not used, or exceeded, a share too small, a queue at the next hop."""
        good = {"kind": "cake", "deviation": .05, "jain": .995}
        self.assertEqual(changes.wrong({"excess": 2e4, "groups": [good, good]}), "")
        for bad, excess in (({"deviation": -.2}, 0), ({"deviation": .2}, 0), ({"jain": .98}, 0),
                            ({}, 5e4)):
            row = {"excess": excess, "groups": [good, {**good, **bad}]}
            self.assertTrue(changes.wrong(row), bad)


class Products(unittest.TestCase):
    """What make fuzz checks of the C files, beside what they do."""

    def test_products(self):
        """Products in code are checked; pointers, comments, macros and lengths are not."""
        same = "/* 2 * x */\n#define A (2 * 3)\nchar *p = q + n * sizeof(*q);\n"
        self.assertEqual(
            fuzz.checked(same + "x = min(f(a * 2) * b->c * 4, (u64)d *\n\t\te);\n"),
            same + "x = min(shim_mul(shim_mul(f(shim_mul(a, 2)), b->c), 4), shim_mul((u64)d, "
            "e));\n")
