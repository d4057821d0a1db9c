# SPDX-License-Identifier: GPL-2.0
"""What follows from a seed, and faults that fit the series."""

from host import common
from series.kernel import BROKEN
from series.mutate import mutated, read_list
from sim import fuzz

from tests import changes, mutants, torture


def test_operations():
    """A seed gives make torture the same operations again, of every kind."""
    lines = torture.Plan(1).lines(3000)
    assert lines == torture.Plan(1).lines(3000)
    assert lines != torture.Plan(2).lines(3000)
    for start in ("tc qdisc", "tc -n", "ip link", "ip netns", "ethtool", "sysctl", "send",
                  "nsim", "fail all", "both", "rmmod", "unload", "tc filter"):
        assert any(line.startswith(start) for line in lines), start


def test_faults():
    """The text of each fault is in the tree, and the loads that are to find it exist."""
    tree = common.BUILD / "linux"
    for listed in BROKEN.values():
        entries = read_list(listed)
        for path, text in mutated(tree, entries).items():
            assert text != (tree / path).read_text(), path
        for load in {load for entry in entries for load in entry["loads"]}:
            assert load.startswith("changes ") or mutants.cells(load), load
        for kernel in {entry["kernel"] for entry in entries} - {""}:
            assert BROKEN[kernel] == listed


def test_changes():
    """A seed gives make changes the same again, and all seeds changes of every kind."""
    lines = [line for seed in range(40) for line in changes.Plan(seed, 40).ops]
    assert lines[:40] == changes.Plan(0, 40).ops
    for words in ("cake_mq", "ingress", "noshared", " mtu ", " down", "tbf rate", "inner",
                  "unlimited", "replace", "del", "overhead", "precedence"):
        assert any(words in line for line in lines), words
    assert changes.slept(["a b; sleep 0.5; c", "sleep 1"]) == 1.5


def test_judgement():
    """An unused or exceeded rate, a small share, and a queue at the next hop are seen."""
    good = {"kind": "cake", "deviation": .05, "jain": .995}
    assert changes.wrong({"excess": 2e4, "groups": [good, good]}) == ""
    for bad, excess in (({"deviation": -.2}, 0), ({"deviation": .2}, 0), ({"jain": .98}, 0),
                        ({}, 5e4)):
        row = {"excess": excess, "groups": [good, {**good, **bad}]}
        assert changes.wrong(row), bad


def test_products():
    """make fuzz checks products in code, not in pointers, comments, macros and lengths."""
    same = "/* 2 * x */\n#define A (2 * 3)\nchar *p = q + n * sizeof(*q);\n"
    code = same + "x = min(f(a * 2) * b->c * 4, (u64)d *\n\t\te);\n"
    assert fuzz.checked(code) == same + (
        "x = min(shim_mul(shim_mul(f(shim_mul(a, 2)), b->c), 4), shim_mul((u64)d, e));\n")
