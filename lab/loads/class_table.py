# SPDX-License-Identifier: GPL-2.0
"""Trees of classes by name (TREES), as classes.txt lists them, whose top says what its words mean.

Most are written out there; isp(), deep() and at_random() make the others.
"""

import itertools
import random
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from host.common import sections
from traffic.traffic import FRAME

from loads.class_tree import GBIT, MBIT, MS, SECOND, US, ClassTree

LIST = Path(__file__).with_name("classes.txt")
UNITS = {"": 1, "k": 1e3, "M": 1e6, "G": 1e9, "us": US, "ms": MS, "s": SECOND}
QUEUES = 8  # that "all" and "one" are of


# ---------------------------------------------- trees that functions make

def flat(count: int, queues: int, ceil: float) -> ClassTree:
    """Classes of the same rate, which always send on all queues; ceil: bit/s of all."""
    tree = ClassTree(ceil)
    for _ in range(count):
        tree.load(tree.add(0, ceil / count / 4), range(queues))
    return tree


def isp(busy: int = 2, queues: int = 8, light: bool = False) -> ClassTree:
    """Four sites of 2.5 to 3 Gbit with 50 customers of 10 to 500 Mbit, on queues at random.

    One of `busy` sends. light: three of four send 20 Mbit.
    """
    dice = random.Random(1)
    tree = ClassTree(10 * GBIT)
    for _ in range(4):
        site = tree.add(0, 2.5 * GBIT, 3 * GBIT)
        for number in range(50):
            leaf = tree.add(site, 10 * MBIT, 500 * MBIT, 4000)
            if number % busy:
                continue
            where = dice.sample(range(queues), dice.randrange(1, queues + 1))
            tree.load(leaf, where, bps=20 * MBIT / len(where) if light and number % 4 else 0)
    return tree


def deep() -> ClassTree:
    """Five levels, 216 leaves, 16 queues."""
    tree = ClassTree(10 * GBIT)
    level = [0]
    for depth, (children, part) in enumerate(((6, 1), (6, 1), (3, 1), (2, 1)), 1):
        below = []
        for parent in level:
            own = tree.classes[parent].rate * part / children
            below += [tree.add(parent, own * 0.8, own * (3 if depth > 1 else 2), 4000)
                      for _ in range(children)]
        level = below
    for number, leaf in enumerate(level):
        if number % 3:
            tree.load(leaf, range(16) if number % 2 else [number % 16])
    return tree


def at_random(seed: int, ceil: float = 10 * GBIT) -> ClassTree:
    """Five sites, up to 30 customers each, whatever the dice say."""
    dice = random.Random(seed)
    tree = ClassTree(ceil, end=SECOND if ceil > GBIT else 20 * SECOND, bound=2)
    mbit = ceil / 10000
    for _ in range(5):
        site = tree.add(0, dice.choice((0.5, 1, 1.5)) * 1000 * mbit,
                        dice.choice((2, 3, 10)) * 1000 * mbit,
                        dice.choice((2000, 10000, 50000)))
        for _ in range(dice.randrange(2, 30)):
            leaf = tree.add(site, dice.choice((5, 20)) * mbit,
                            dice.choice((100, 500, 2000)) * mbit,
                            dice.choice((1514, 4000, 20000)), dice.choice((0, 1)))
            where = dice.sample(range(8), dice.randrange(1, 9))
            tree.load(leaf, where, bps=dice.choice((0, 0, 1)) * dice.uniform(1, 40) * mbit)
    return tree


DICE = {make.__name__: make for make in (isp, deep, at_random)}


# --------------------------------------------------------- those of the list

def value_of(text: str) -> float | None:
    """A figure of the list: bit/s, ns or without a unit, None for "none"."""
    if text == "none":
        return None
    number, unit = re.fullmatch(r"([\d.]+)(\w*)", text).groups()
    value = float(number) * UNITS[unit]
    return round(value) if unit in ("us", "ms", "s") or number.isdigit() else value


def queues_of(text: str, number: int) -> Sequence[int]:
    """The queues that a class sends on, which is the number-th of its line."""
    turns = text.split("/")
    where = turns[number % len(turns)]
    if where.startswith("one"):
        return [(number + int(where[3:] or 0)) % QUEUES]
    first, _, last = where.partition("-")
    return range(QUEUES) if where == "all" else range(int(first), int(last or first) + 1)


def add_class(tree: ClassTree, parent: int, number: int, words: Sequence[str]) -> int:
    """Add a class and what it sends; its number in the tree. number: in its line."""
    said = dict(zip(words[1::2], words[2::2]))
    leaf = tree.add(parent, value_of(words[0]), **{
        key: value_of(said[key]) for key in ("ceil", "quantum", "prio") if key in said})
    if "on" in said:
        queues = queues_of(said["on"], number)
        lengths = [int(length) for length in said.get("of", f"{FRAME}").split("/")]
        if words[-1] == "sparse":
            tree.sparse += range(len(tree.flows), len(tree.flows) + len(queues))
        times = {key: value_of(said[word]) for key, word in
                 (("begin", "from"), ("stop", "until"), ("on", "for"), ("off", "for"))
                 if word in said}
        for queue in queues:
            tree.load(leaf, [queue], value_of(said.get("sends", "0")),
                      length=lengths[queue % len(lengths)], **times)
    return leaf


def grow(tree: ClassTree, parent: int, lines: Sequence[str]) -> None:
    """Add what indented lines say below a class."""
    indents = [len(line) - len(line.lstrip()) for line in lines]
    tops = [at for at, indent in enumerate(indents) if indent == indents[0]]
    for start, end in itertools.pairwise([*tops, len(lines)]):
        words, inner = lines[start].split(), lines[start + 1:end]
        if words[1:] == ["times"]:
            for _ in range(int(words[0])):
                grow(tree, parent, inner)
            continue
        count, words = (int(words[0]), words[2:]) if words[1:2] == ["x"] else (1, words)
        for number in range(count):
            leaf = add_class(tree, parent, number, words)
            if inner:
                grow(tree, leaf, inner)


@dataclass
class Entry:
    """A tree of the list, made when called: what is behind its name, and the lines below it.

    what: its CEIL, or of DICE. words: its KEY=VALUE. flags: as the list says.
    """

    what: str
    words: dict[str, str]
    flags: set[str]
    lines: list[str]

    def __call__(self) -> ClassTree:
        """The tree."""
        more = {key: value_of(value) for key, value in self.words.items()}
        if not self.lines:
            return DICE[self.what](**more)
        other = more.pop("changes", None)  # the rate of all is this one, or its ceil, by turns
        tree = ClassTree(value_of(self.what), even="even" in self.flags, **more)
        grow(tree, 0, self.lines)
        if other:
            tree.changes = [(at, 0, int(rate), int(rate)) for at, rate in zip(
                range(10 * MS, tree.end, 10 * MS), itertools.cycle((other, tree.ceil)))]
        return tree


def read_trees() -> dict[str, Entry]:
    """{name: tree} of the list."""
    found = {}
    for head, lines in sections(LIST):
        name, _, rest = head.partition(" = ")
        what, *words = rest.split()
        found[name] = Entry(what, dict(word.split("=") for word in words if "=" in word),
                            {word for word in words if "=" not in word}, lines)
    return found


TREES = read_trees()
