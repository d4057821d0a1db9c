# SPDX-License-Identifier: GPL-2.0
"""The lab's one command line: python3 -B lab VERB [OPTION ...]

A verb is a module with main() in one of the rooms. 'VERB --help' says what it does and with which
options, and does nothing.
"""

import importlib
import re
import sys
from collections.abc import Sequence
from pathlib import Path

from tree.common import Die, guard
from tree.results import recording

ROOMS = ("tree", "guest", "load", "gates", "measure", "report")  # from the bottom up
FILES = [path for room in ROOMS for path in sorted(Path(__file__).with_name(room).glob("*.py"))]
VERBS = {path.stem: path for path in FILES if "\ndef main(" in path.read_text()}


def run(verb: str, argv: Sequence[str]) -> None:
    """Run a verb with the words after it."""
    try:
        module = importlib.import_module(f"{VERBS[verb].parent.name}.{verb}")
    except ModuleNotFoundError as error:
        raise Die(f"{sys.executable} has no module {error.name}, which 'lab {verb}' needs; "
                  "'lab setup packages figures' installs that for /usr/bin/python3") from None
    try:
        guard(module.main, argv)
    finally:
        if recording():
            importlib.import_module("report.report").fill()


def main() -> None:
    """Run a verb, or list them."""
    words = sys.argv[1:]
    if not words or words[0] not in VERBS:
        if words and not words[0].startswith("-"):
            print(f"There is no verb '{words[0]}'.")
        print(__doc__)
        for verb, path in VERBS.items():
            print(f"  {verb:<11}" + re.search(r'"""(.*?)"*$', path.read_text(), re.M)[1])
        sys.exit(words[:1] not in (["--help"], ["-h"]))
    run(words[0], words[1:])


if __name__ == "__main__":
    main()
