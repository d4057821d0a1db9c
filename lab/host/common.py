# SPDX-License-Identifier: GPL-2.0
"""Paths, errors, and running commands.

Every failure ends the program with status 1 and one sentence on stderr (Die).
Sizes are in GiB and times in seconds unless a name says otherwise.
"""

import errno
import hashlib
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / "build"
CACHE = Path(os.environ.get("QDISC_CACHE") or os.path.join(
    os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "qdisc-shared"))
JOBS = os.cpu_count() or 1
VERBOSE = os.environ.get("V", "") not in ("", "0")
START = float(os.environ.get("QDISC_START") or time.time())


class Die(SystemExit):
    """Ends the program with status 1; message: what went wrong and what to do."""

    def __init__(self, message: str) -> None:
        super().__init__(f"error: {message}")


def guard(main: Callable, *args: Any, **more: Any) -> None:
    """Run main(*args, **more); turn what the system refuses (full disk, no permission) into Die."""
    try:
        main(*args, **more)
    except OSError as err:
        if err.errno == errno.ENOSPC:
            raise Die(f"the disk is full; free some space under {BUILD} and {CACHE} "
                      "(make clean) and run this again") from None
        raise Die(f"{err.strerror or err}: {err.filename or ''}; fix that and run this "
                  "again") from None
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        sys.exit(130)


def known(what: str, words: Iterable[str], there: Collection[str]) -> list[str]:
    """Words of a command line, as a list; Die names one that is not there."""
    for word in words:
        if word not in there:
            raise Die(f"there is no {what} '{word}'; use of {', '.join(there)}")
    return list(words)


def need_disk(gib: float, where: Path = ROOT) -> None:
    """Die when the file system of `where` has less than gib GiB free."""
    free = shutil.disk_usage(where).free / 2**30
    if free < gib:
        raise Die(f"only {free:.1f} GiB free on the disk of {where}, {gib} GiB are needed; "
                  "free some space (make clean) and run this again")


def base_conf() -> dict[str, str]:
    """The pin as a dict; Die names a line that is not KEY=value."""
    conf = {}
    for number, text in enumerate((ROOT / "base.conf").read_text().splitlines(), 1):
        line = text.split("#")[0].strip()
        if line:
            key, sep, value = line.partition("=")
            if not sep:
                raise Die(f"base.conf line {number} is not KEY=value; correct it")
            conf[key.strip()] = value.strip()
    return conf


def sections(path: Path) -> list[tuple[str, list[str]]]:
    """[(head, indented lines below it)] of a table of the lab.

    A line that begins with # is a comment; after $WORD = TEXT, $WORD stands for that.
    """
    found, words = [], {}
    for raw in path.read_text().splitlines():
        line = raw
        for word, text in words.items():
            line = line.replace(word, text)
        if meaning := re.match(r"(\$\w+) = (.*)", line):
            words[meaning[1]] = meaning[2]
        elif line[:1].isspace():
            found[-1][1].append(line)
        elif line and line[0] != "#":
            found.append((line, []))
    return found


def kernel_env() -> dict[str, str]:
    """Environment for kernel builds: shared ccache, and nothing that changes ids."""
    return dict(os.environ, LC_ALL="C", LOCALVERSION="", CCACHE_DIR=str(CACHE / "ccache"),
                CCACHE_BASEDIR=str(BUILD), CCACHE_MAXSIZE="4G", KBUILD_BUILD_USER="qdisc",
                KBUILD_BUILD_HOST="shared", KBUILD_BUILD_VERSION="1",
                KBUILD_BUILD_TIMESTAMP="Thu Jan  1 00:00:00 UTC 2026")


def make_args(jobs: int = JOBS) -> list[str]:
    """Arguments that every kernel build gets besides kernel_env()."""
    return [f"-j{jobs}", "CC=ccache gcc", "HOSTCC=ccache gcc"]


def say(text: str) -> None:
    """One progress line with the seconds since the start (QDISC_START if set)."""
    print(f"[{time.time() - START:4.0f} s] {text}", flush=True)


def run(cmd: Sequence | str, log: str, what: str | None = None,
        estimate: float | None = None, cwd: Path | None = None,
        env: dict[str, str] | None = None, ok: Sequence[int] | range = (0,),
        fix: str = "") -> int:
    """Run cmd (a list, or a string for bash with pipefail); returns its status.

    log names build/logs/<log>.log, which holds the output unless V=1 shows it.
    what and estimate (seconds) give a progress line.  Die when the status is
    not in ok: prints the log's last 15 lines, names the log and says fix.
    """
    if what:
        say(what + (f" (about {estimate} s)" if estimate else ""))
    if isinstance(cmd, str):
        cmd = ["bash", "-o", "pipefail", "-c", cmd]
    cmd = [str(word) for word in cmd]
    if VERBOSE:
        print("+ " + " ".join(cmd), flush=True)
        status = call(cmd, cwd=cwd, env=env)
        hint = "its output is above"
    else:
        path = BUILD / "logs" / f"{log}.log"
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(path, "wb") as out:
            status = call(cmd, cwd=cwd, env=env, stdout=out, stderr=subprocess.STDOUT)
        hint = f"see {path} (its end is above)"
    if status in ok:
        return status
    if not VERBOSE:
        tail = path.read_text(errors="replace").splitlines()[-15:]
        print("\n".join("    " + line for line in tail), file=sys.stderr)
    if shutil.disk_usage(BUILD).free < 1 << 24:
        fix = "the disk is full: free some space (make clean) and run this again"
    raise Die(f"{what or log} failed with status {status}: {hint}" + (fix and f"; {fix}"))


def compiled(made: Path, source: Path, *flags: str | Path, beside: Sequence[Path] = ()) -> Path:
    """Compile a C file by gcc unless what it made is newer than it and the files beside it."""
    newest = max(file.stat().st_mtime for file in (source, *beside))
    if not made.exists() or made.stat().st_mtime < newest:
        run(["gcc", "-O2", "-Wall", *flags, "-o", made, source], made.stem)
    return made


def made_of(stamp: Path, mark: str) -> bool:
    """Whether a stamp says mark: that what it lies beside was made of just that.

    Who makes something writes the stamp when it is whole.
    """
    return stamp.exists() and stamp.read_text() == mark


def parallel(work: Callable, items: Iterable, at_once: int = JOBS) -> Iterator:
    """What a function gives for each item, in their order, so many at a time."""
    with ThreadPoolExecutor(at_once) as pool:
        yield from pool.map(work, items)


def told(*words: Any, check: bool = False, **more: Any) -> subprocess.CompletedProcess:
    """What a program comes to, with what it prints, as text; check, more: of subprocess.run()."""
    return subprocess.run([str(word) for word in words], capture_output=True, text=True,
                          check=check, **more)


def call(cmd: Sequence[str], **kwargs: Any) -> int:
    """subprocess.call with a sentence for a missing program."""
    try:
        return subprocess.call(cmd, **kwargs)
    except FileNotFoundError:
        raise Die(f"the program {cmd[0]} is missing; run 'make setup' or install it") from None


def sha256(path: Path) -> str:
    """SHA-256 of a file, in hex."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def hash_files(paths: Iterable[Path]) -> str:
    """One hash over the names and contents of some files."""
    digest = hashlib.sha256()
    for path in paths:
        digest.update(f"{path.name} {sha256(path)}\n".encode())
    return digest.hexdigest()
