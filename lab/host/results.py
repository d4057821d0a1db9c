# SPDX-License-Identifier: GPL-2.0
"""What a verb of lab/ is told, what it tells at its end, and the files of results/."""

import json
import os
import sys
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NoReturn

from host.common import BUILD, JOBS, ROOT, START

RESULTS = ROOT / "results"


def verdict(passed: int, failed: Sequence[str] | int, skipped: int | None = None) -> NoReturn:
    """Print what failed (sentences) and 'N passed, N failed'; end with 1 if any did.

    failed: how many, where that has been said. skipped: how many were, where the last line tells
    that as well.
    """
    for sentence in failed if isinstance(failed, Sequence) else ():
        print("FAIL " + sentence)
    print(f"{passed} passed, {len(failed) if isinstance(failed, Sequence) else failed} failed"
          + (f", {skipped} skipped" if skipped is not None else ""))
    sys.exit(bool(failed))


def recording() -> bool:
    """Whether results are to be recorded: RECORD=1."""
    return os.environ.get("RECORD", "") not in ("", "0")


def result_file(name: str) -> Path:
    """Where a file of results/ is written: there with RECORD=1, else in build/results/."""
    folder = RESULTS if recording() else BUILD / "results"
    folder.mkdir(parents=True, exist_ok=True)
    return folder / name


def rows_of(value: Any, wide: int = 300) -> str:
    """JSON without indents: what fits into so many characters, or is a list of numbers, is on one
    line. Numbers with a fraction have nine digits."""
    if isinstance(value, float):
        value = float(f"{value:.9g}")
    if isinstance(value, dict):
        parts = [f"{json.dumps(key)}: {rows_of(one, wide)}" for key, one in value.items()]
    elif isinstance(value, list):
        parts = [rows_of(one, wide) for one in value]
    else:
        return json.dumps(value)
    flat = not any(isinstance(one, (dict, list, str)) for one in value)
    short = flat or sum(map(len, parts)) + 2 * len(parts) <= wide
    start, end = "{}" if isinstance(value, dict) else "[]"
    return f"{start}{', '.join(parts)}{end}" if short else "\n".join(
        [start, ",\n".join(parts), end])


def kept_rows(name: str) -> list[dict[str, Any]]:
    """The rows of a file that result_file() names; none if it is not there."""
    path = result_file(name)
    return json.loads(path.read_text())["rows"] if path.exists() else []


def keep_result(name: str, data: dict) -> None:
    """Write a JSON file of results/, by result_file(), and note of which version it is."""
    result_file(name).write_text(rows_of(data) + "\n")
    if recording():
        versions = recorded("versions.json")
        versions["files"][name] = versions["series"]
        result_file("versions.json").write_text(rows_of(versions, 100) + "\n")


def keep_row(name: str, what: str, row: dict[str, Any], by: Sequence[str],
             order: Iterable[tuple]) -> None:
    """Put a row into a JSON file of results/, in place of the one with the same values of by.

    what: the file has. by: keys of a row. order: of the rows, by these values.
    """
    rows = {tuple(one[key] for key in by): one for one in [*kept_rows(name), row]}
    keep_result(name, {"what": what, "rows": [rows[at] for at in order if at in rows]})


def recorded(name: str) -> dict[str, Any]:
    """What a JSON file of results/ says; empty if it is not there."""
    path = RESULTS / name
    return json.loads(path.read_text()) if path.exists() else {}


def latest_result(name: str) -> Path:
    """Where a file of results/ is read: what was written here, else what is recorded."""
    return result_file(name) if result_file(name).exists() else RESULTS / name


def record_time(target: str, **more: Any) -> None:
    """Note in times.json how long a make target took, in seconds.

    cold: there was no kernel when make started; warm: there was.  Without
    make (QDISC_KIND unset) nothing is noted.
    """
    kind = os.environ.get("QDISC_KIND")
    if kind:
        path = result_file("times.json")
        times = json.loads(path.read_text()) if path.exists() else {}
        times.setdefault(target, {})[kind] = {"total_s": round(time.time() - START),
                                              "cores": JOBS, **more}
        path.write_text(json.dumps(times, indent=1) + "\n")
