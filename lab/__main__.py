# SPDX-License-Identifier: GPL-2.0
"""The lab's one command line: python3 -B lab VERB [OPTION ...]

A verb is a module with main() in one of the rooms. 'VERB --help' says what it does and with which
options, and does nothing.
"""

import argparse
import importlib
import inspect
import os
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

from host.common import Die, guard
from host.results import recording

ROOMS = ("host", "series", "guest", "sim", "traffic", "loads", "tests", "report")  # upwards
FILES = [path for room in ROOMS for path in sorted(Path(__file__).with_name(room).glob("*.py"))]
NAMES = {"issues": "reported", "pages": "report"}  # module: its verb, if that has another name
VERBS = {NAMES.get(path.stem, path.stem): path for path in FILES
         if "\ndef main(" in path.read_text()}


def parser_of(verb: str, module: ModuleType) -> argparse.ArgumentParser:
    """What main() of a module takes: as its signature says, and its docstring (NAME: TEXT.)."""
    parser = argparse.ArgumentParser(
        prog=f"python3 -B lab {verb}", description=module.__doc__, allow_abbrev=False,
        formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--record", action="store_true", help="write to results/, which git "
                        "tracks, instead of build/results/; the same as RECORD=1")
    text = " ".join(module.main.__doc__.partition("\n\n")[2].split())
    told = dict(re.findall(r"(\w+): (.*?)\.(?= \w+: |$)", text))
    for name, one in inspect.signature(module.main).parameters.items():
        words = {"help": told.get(name.rstrip("_"))}
        if one.default is False:
            words["action"] = "store_true"
        else:
            words["type"] = one.annotation
        if one.kind is one.VAR_POSITIONAL:
            parser.add_argument(name, nargs="*", **words)
        elif one.default is one.empty:
            parser.add_argument(name, **words)
        else:
            if one.default:
                words["help"] += f" ({one.default})"
            parser.add_argument(f"--{name.rstrip('_')}", dest=name, default=one.default, **words)
    return parser


def run(verb: str, argv: Sequence[str]) -> None:
    """Run a verb with the words after it."""
    try:
        module = importlib.import_module(f"{VERBS[verb].parent.name}.{VERBS[verb].stem}")
    except ModuleNotFoundError as error:
        raise Die(f"{sys.executable} has no module {error.name}, which 'lab {verb}' needs; "
                  "'lab setup packages figures' installs that for /usr/bin/python3") from None
    given = vars(parser_of(verb, module).parse_args(argv))
    if given.pop("record"):
        os.environ["RECORD"] = "1"
    words = []
    for name, one in inspect.signature(module.main).parameters.items():
        if one.kind is one.VAR_POSITIONAL:
            words += given.pop(name)
        elif one.default is one.empty:
            words.append(given.pop(name))
    try:
        guard(module.main, *words, **given)
    finally:
        if recording():
            importlib.import_module("report.pages").fill()


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
