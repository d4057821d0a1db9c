# SPDX-License-Identifier: GPL-2.0
"""What each class of a tree should get, in small trees calculated by hand; Gbit/s."""

import pytest
from loads.class_tree import GBIT, ClassTree, ideal

ALWAYS = 0  # bit/s, as ClassTree.load() has it: there is always a packet


def add(tree: ClassTree, parent: int, rate: float, ceil: float = 10, sends: float = ALWAYS,
        **more: int) -> int:
    """Add a leaf of so many Gbit/s, with a flow on one queue; more: as for ClassTree.add()."""
    leaf = tree.add(parent, rate * GBIT, ceil * GBIT, **more)
    tree.load(leaf, [0], sends * GBIT)
    return leaf


def gets(tree: ClassTree, *classes: int) -> list[float]:
    """What these classes should get."""
    shares = ideal(tree)
    return [shares[number] / GBIT for number in classes]


@pytest.mark.parametrize(("sends", "shares"), [(ALWAYS, [3.5, 4.5, 2]), (1, [1, 7, 2])])
def test_documented(sends, shares):
    """The example of Documentation/networking/qdisc-shared-algorithms.rst, twice."""
    tree = ClassTree(10 * GBIT)
    leaves = add(tree, 0, 2, sends=sends), add(tree, 0, 3), add(tree, 0, 1, ceil=2)
    assert gets(tree, 0, *leaves) == pytest.approx([10, *shares])


def test_priority_and_quantum():
    """Of the 6 beyond the rates, priority 0 takes the 4 that it lacks, the others 1 : 3."""
    tree = ClassTree(10 * GBIT)
    leaves = (add(tree, 0, 1, sends=5), add(tree, 0, 1, prio=1, quantum=10000),
              add(tree, 0, 2, prio=1, quantum=30000))
    assert gets(tree, *leaves) == pytest.approx([5, 1.5, 3.5])


def test_site():
    """A class with children takes no more than its ceil, and what it gets is divided again."""
    tree = ClassTree(10 * GBIT)
    site = tree.add(0, 4 * GBIT, 6 * GBIT)
    leaves = add(tree, site, 3), add(tree, site, 1), add(tree, 0, 2)
    assert gets(tree, site, *leaves) == pytest.approx([6, 4, 2, 4])


def test_rates_beyond_the_root():
    """Rates of 20 below a root of 10: each gets half of its rate."""
    tree = ClassTree(10 * GBIT)
    leaves = [add(tree, 0, rate) for rate in (12, 6, 2)]
    assert gets(tree, *leaves) == pytest.approx([6, 3, 1])
