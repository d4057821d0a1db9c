# SPDX-License-Identifier: GPL-2.0
"""Lists of ways to break sources, like lab/series/mutants.txt, and sources with all of them in."""

import re
from pathlib import Path

from host.common import Die

SWITCH = "net/sched/sch_generic-shared.c"
HEADER = "include/net/sch_priv.h"


def read_list(path: Path) -> list[dict]:
    """The entries of a file like mutants.txt as dicts: number, file, loads, rule, old, new; and
    kernel, "" unless one is named. "-" alone stands for the text of the entry before."""
    entries = []
    text = "".join(re.split(r"(?m)^#.*\n", path.read_text()))
    for block in re.split(r"\n\n+", text.strip("\n")):
        head, rule, *lines = block.split("\n")
        number, _, file = head.partition(" ")
        file, _, loads = file.partition(": ")
        file, _, kernel = file.partition(" on ")
        given = [line[1:] for line in lines if line[0] == "-"]
        old = entries[-1]["old"] if given == [""] and entries else "\n".join(given)
        new = "\n".join(line[1:] for line in lines if line[0] == "+")
        if not (number.isdigit() and file and old and new):
            raise Die(f"{path.name}: the entry '{head}' lacks a number, a file, a text or "
                      "its replacement; correct it")
        entries.append({"number": int(number), "file": file, "kernel": kernel, "rule": rule,
                        "loads": loads.split("; ") if loads else [], "old": old, "new": new})
    if [e["number"] for e in entries] != list(range(1, len(entries) + 1)):
        raise Die(f"{path.name}: the entries are not numbered 1, 2, 3, ...; correct it")
    return entries


def switch(old: str, entries: list[dict]) -> str:
    """C code that is `old`, or the replacement of whichever entry is switched on."""
    if old[-1] in ";}":
        code = f"{{ {old} }}"
        for entry in reversed(entries):
            code = f"if (shared_mutant == {entry['number']}) {{ {entry['new']} }} else {code}"
        return code
    code = f"({old})"
    for entry in reversed(entries):
        code = f"(shared_mutant == {entry['number']} ? ({entry['new']}) : {code})"
    return code


def mutate(text: str, entries: list[dict]) -> str:
    """Source text with all its entries in it."""
    spans = {}
    for entry in entries:
        count = text.count(entry["old"])
        if count != 1:
            raise Die(f"the text of mutant {entry['number']} occurs {count} times in "
                      f"{entry['file']}, not once; correct the list")
        spans.setdefault((text.index(entry["old"]), entry["old"]), []).append(entry)
    end = len(text)
    for (start, old), group in sorted(spans.items(), reverse=True):
        if start + len(old) > end:
            raise Die(f"mutant {group[0]['number']} overlaps another; correct the list")
        text = text[:start] + switch(old, group) + text[start + len(old):]
        end = start
    return text


def mutated(tree: Path, entries: list[dict]) -> dict[str, str]:
    """The files of a tree that entries change, with all of them in it: {path: text}.

    The boot argument shared_mutant=N chooses.
    """
    changed = {}
    for file in sorted({SWITCH, *(entry["file"] for entry in entries)}):
        text = (tree / file).read_text()
        changed[file] = mutate(text, [e for e in entries if e["file"] == file])
        if "sch_priv.h" not in text:
            changed[file] = "extern int shared_mutant;\n" + changed[file]
    changed[SWITCH] = (changed[SWITCH]
                       .replace("#include", "#include <linux/moduleparam.h>\n#include", 1)
                       + "\nint shared_mutant;\nEXPORT_SYMBOL(shared_mutant);\n"
                       + "core_param(shared_mutant, shared_mutant, int, 0);\n")
    changed[HEADER] = "extern int shared_mutant;\n" + (tree / HEADER).read_text()
    return changed
