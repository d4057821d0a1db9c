# SPDX-License-Identifier: GPL-2.0
"""The lab's own cases of tc-testing, made from tables: lab/tests/cases/*.txt.

A case begins with its id and name, and has indented lines: a command of its set-up each, then

    do COMMAND          what is tested; do 2 COMMAND: has to end with 2
    see COMMAND         what shows the outcome, if not 'show'
    4 times PATTERN     how often that is in it
    json [...]          or what that has to be
    end COMMAND         cleans up, if not 'no device'; 'nothing': there is no need to
    also ID WORDS       the same once more, with the device up, or below mq or mqprio instead

A command is one of the words in SHORT, begins with one of those in START, or is meant as it is.
'[0 1] COMMAND' may end with 0 or 1; '1-3: COMMAND' is three, with 1 to 3 for N. A set-up begins
with a netdevsim of four queues, unless its first line is 'without a device', or 'without a
namespace' of tdc's as well.
"""

import json
import re
from collections.abc import Iterator
from pathlib import Path

from host.common import BUILD, ROOT, Die, sections
from series.copies import write

TABLES = ROOT / "lab/tests/cases"
DEVICE = 'echo "1 1 4" > /sys/bus/netdevsim/new_device'
NO_DEVICE = 'echo "1" > /sys/bus/netdevsim/del_device'
SHORT = {
    "device": DEVICE,
    "no device": NO_DEVICE,
    "mq": "$TC qdisc add dev $ETH root handle 1: mq",
    "mqprio": "$TC qdisc add dev $ETH root handle 1: mqprio num_tc 2 map 0 0 0 0 1 1 1 1 1 1 1 1 "
              "1 1 1 1 queues 2@0 2@2 hw 0",
    "up": "$IP link set dev $ETH up",
    "down": "$IP link set dev $ETH down",
    "show": "$TC qdisc show dev $ETH",
}
START = {word: f"$TC qdisc {word} dev $ETH" for word in ("add", "change", "replace", "del")}


def command(words: str) -> str | list:
    """What a line says, as tdc has it."""
    if found := re.match(r"\[([\d ]+)\] (.*)", words):
        return [command(found[2]), *map(int, found[1].split())]
    start, blank, rest = words.partition(" ")
    return SHORT.get(words) or (START[start] + blank + rest if start in START else words)


def case(head: str, lines: list[str], category: str) -> dict:
    """A case in tdc's form: its first line, and those below it."""
    ident, _, name = head.partition(" ")
    made = {"id": ident, "name": name, "category": ["qdisc", category],
            "plugins": {"requires": "nsPlugin"}, "setup": [DEVICE], "expExitCode": "0",
            "verifyCmd": SHORT["show"]}
    ends = []
    for line in lines:
        word, _, rest = line.partition(" ")
        if word == "without":
            made["setup"] = []
            if rest == "a namespace":
                made["plugins"] = {}
        elif word == "do":
            found = re.match(r"(?:(\d+) )?(.*)", rest)
            made |= {"cmdUnderTest": command(found[2]), "expExitCode": found[1] or "0"}
        elif word == "see":
            made["verifyCmd"] = command(rest)
        elif rest.startswith("times "):
            made |= {"matchPattern": rest.removeprefix("times "), "matchCount": word}
        elif word == "json":
            made["matchJSON"] = json.loads(rest)
        elif word == "end":
            ends.append(command(rest))
        else:
            made["setup"].append(command(line))
    made["teardown"] = [end for end in ends or [NO_DEVICE] if end != "nothing"]
    if "cmdUnderTest" not in made or not made.keys() & {"matchPattern", "matchJSON"}:
        raise Die(f"the case '{head}' in {TABLES} has no 'do', or nothing that it has to give")
    return made


def expanded(line: str) -> list[str]:
    """What '1-3: LINE' stands for; any other line as it is."""
    if found := re.match(r"(\d)-(\d): (.*)", line):
        return [found[3].replace("N", str(n)) for n in range(int(found[1]), int(found[2]) + 1)]
    return [line]


def variants(head: str, lines: list[str]) -> Iterator[tuple[str, list[str]]]:
    """(first line, those below it) of a case of a table, and of what 'also' makes of it."""
    plain = [one for line in lines if not line.startswith("also ") for one in expanded(line)]
    yield head, plain
    for _, ident, *words in (line.split() for line in lines if line.startswith("also ")):
        other = [word for word in words if word != "up"]
        below = [(other or [one])[0] if one in ("mq", "mqprio") else one for one in plain]
        yield f"{ident}{head[4:]} ({' '.join(words)})", ["up"] * ("up" in words) + below


def suite(name: str) -> list[dict]:
    """The cases of a table."""
    return [case(*one, name) for head, lines in sections(TABLES / f"{name}.txt")
            for one in variants(head, [line.strip() for line in lines])]


def names() -> list[str]:
    """Those of the tables."""
    return sorted(path.stem for path in TABLES.glob("*.txt"))


def made(name: str) -> Path:
    """Path of a table's cases as tdc reads them; written if they are others than before."""
    path = BUILD / TABLES.name / f"{name}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    write(path, json.dumps(suite(name), indent=1).encode())
    return path
