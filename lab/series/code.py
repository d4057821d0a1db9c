# SPDX-License-Identifier: GPL-2.0
"""The code of the series in build/linux: which lines it is, and a number that tells its state."""

import collections
import hashlib
import re

from host.repo import KERNEL


def added() -> dict[str, set[int]]:
    """{file: numbers of the lines that the series add to it or change}."""
    diff = KERNEL.git("diff", "-U0", "--no-renames", "base", "HEAD", "--",
                      "net/sched/*.c", ":!*_test.c")
    lines, name = collections.defaultdict(set), None
    for text in diff.splitlines():
        if text.startswith("+++ "):
            name = text.removeprefix("+++ b/")
        elif found := re.match(r"@@ -\S+ \+(\d+)(?:,(\d+))? @@", text):
            start, count = int(found[1]), int(found[2] or 1)
            lines[name].update(range(start, start + count))
    return lines


def bare(text: str) -> str:
    """C without comments and line breaks: what a compiler makes code of."""
    found = re.sub(r'/\*.*?\*/|//[^\n]*|("(?:\\.|[^"\\])*")', lambda part: part[1] or " ", text,
                   flags=re.DOTALL)
    return " ".join(found.split())


def sources() -> str:
    """What is tested: the code of the files that the series add and change, as 12 hex digits."""
    names = KERNEL.git("diff", "--name-only", "base", "HEAD", "--", "net", "include").split()
    return hashlib.sha256("".join(bare((KERNEL.dir / name).read_text()) for name in names
                                  if name.endswith((".c", ".h"))
                                  and not name.endswith("_test.c")).encode()).hexdigest()[:12]
