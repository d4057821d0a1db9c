# SPDX-License-Identifier: GPL-2.0
"""make ynl: the shared option and its statistics by netlink's own description.

Boots the patched kernel and carries out ynl.txt: it configures cake and tbf below mq and mqprio,
and htb with its classes, with the tree's YNL command line and
Documentation/netlink/specs/tc.yaml, without tc. That shows that the description and the kernel
mean the same by each attribute, that the group's rates are reported, that what htb dumps can be
sent back to it as a request, and that refusals come with a reason. One line a check; the last is
'N passed, N failed'.
"""

import json
import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from guest.boot import boot_script
from host.common import BUILD, Die, say, sections, told
from host.results import verdict

TREE = BUILD / "linux"
PYTHON = BUILD / "venv/bin/python"
CLI = TREE / "tools/net/ynl/pyynl/cli.py"
SPEC = TREE / "Documentation/netlink/specs/tc.yaml"
ROOT_HANDLE = 0xFFFFFFFF
MAJOR = 1 << 16
RATE = 12_500_000  # bytes/s, R
FLAGS = {"put": ("--create", "--replace"), "new-class": ("--create", "--excl"),
         "add-class": ("--create",)}  # of a request


def cli(*words: Any) -> tuple[int, str, str]:
    """Run the YNL command line; (exit status, standard output, standard error)."""
    done = told(PYTHON, "-B", CLI, "--spec", SPEC, *words)
    return done.returncode, done.stdout, done.stderr


# ------------------------------------------------------------- the table

def steps() -> Iterator[tuple[str, str]]:
    """(section, line) of ynl.txt."""
    for head, lines in sections(Path(__file__).with_suffix(".txt")):
        for line in lines:
            yield head.partition(":")[0], line.strip()


def value_of(word: str) -> int | str:
    """A number, one of bytes/s like 2R and R/4, or hex digits behind an x."""
    if found := re.fullmatch(r"(\d*)R(?:/(\d+))?", word):
        return RATE * int(found[1] or 1) // int(found[2] or 1)
    return word[1:] if word[0] == "x" else int(word)


def attributes(words: Sequence[str]) -> dict:
    """Options as YNL takes them."""
    made = {}
    for word in words:
        path, sign, value = word.partition("=")
        *above, name = path.split(".")
        inner = made
        for key in above:
            inner = inner.setdefault(key, {})
        inner[name] = value_of(value) if sign else True
    return made


def looked_up(data: dict, path: str) -> Any:
    """What a dump has at a.b, None if nothing."""
    for key in path.split("."):
        data = data.get(key) if isinstance(data, dict) else None
    return data


def fits(data: dict, word: str) -> bool:
    """Whether a dump has an attribute of the table, or has it not."""
    path, sign, value = word.lstrip("!").partition("=")
    found = looked_up(data, path)
    return found == value_of(value) if sign else (found is None) == (word[0] == "!")


def rate_of(kind: str, data: dict) -> int | None:
    """The rate in a dump, bytes/s."""
    return looked_up(data, "parms.rate.rate" if kind == "tbf" else "base-rate64")


# ----------------------------------------------------------- guest side

class Device:
    """A dummy device with four TX queues, its qdiscs driven by YNL."""

    def __init__(self) -> None:
        for words in ("add d0 numtxqueues 4 numrxqueues 1 type dummy", "set d0 up"):
            told("ip", "link", *words.split(), check=True)
        self.index = int(Path("/sys/class/net/d0/ifindex").read_text())

    def do(self, operation: str, *flags: str, **attributes: Any) -> str:
        """Carry out an operation; "" if it succeeded, or what YNL said."""
        text = json.dumps({"family": 0, "ifindex": self.index, **attributes})
        status, out, err = cli("--no-schema", *flags, "--do", operation, "--json", text)
        return " ".join((out or err.splitlines()[-1]).split()) if status else ""

    def request(self, verb: str, where: str, what: str, *words: str) -> str:
        """A line of the table; as do()."""
        queue, _, minor = where.partition(":")
        major = (0x10 + int(queue) if int(queue) else 1) * MAJOR
        if minor:
            return self.do("newtclass", *FLAGS.get(verb, ()), kind="htb", handle=major + int(minor),
                           parent=major + int(what), options=attributes(words))
        return self.do("newqdisc", *FLAGS.get(verb, ()), kind=what, handle=major,
                       parent=MAJOR + int(queue) if int(queue) else ROOT_HANDLE,
                       options=attributes(words))

    def dump(self, what: str) -> dict[int, dict]:
        """What the kernel has, {handle: object}; what: "qdisc", or "tclass" for those of htb."""
        own = {"family": 0, "ifindex": self.index} if what == "tclass" else {}
        status, out, err = cli("--no-schema", "--output-json", "--dump", f"get{what}",
                               "--json", json.dumps(own))
        if status:
            raise RuntimeError(f"get{what}: {out} {err}")
        return {one["handle"]: one for one in json.loads(out) if one["ifindex"] == self.index
                and (what == "qdisc" or one["kind"] == "htb")}

    def seen(self, where: str) -> tuple[str, dict]:
        """(kind, options and statistics of its own) of a qdisc or a class, as of the table."""
        queue, _, minor = where.partition(":")
        major = (0x10 + int(queue) if int(queue) else 1) * MAJOR
        one = self.dump("tclass" if minor else "qdisc").get(major + int(minor or 0), {})
        return one.get("kind", "nothing"), {**(one.get("options") or {}),
                                            **((one.get("stats2") or {}).get("app") or {})}


def row(title: str, good: Any, got: Any) -> dict:
    """A check, whether it passed, and what was found."""
    return {"check": title, "ok": bool(good), "got": got if isinstance(got, str) else repr(got)}


def member(dev: Device, title: str, queue: str, number: int, rate: int) -> Iterator[dict]:
    """Rows: a qdisc has this rate, is in this group (0: none), and reports on it."""
    kind, data = dev.seen(queue)
    yield row(f"{title}: the group", data.get("shared", 0) == number and kind != "nothing", data)
    yield row(f"{title}: the rate", rate_of(kind, data) == rate, data)
    if number:
        share = data.get("share-rate64")
        yield row(f"{title}: reports the group's rate", data.get("group-rate64") == rate, data)
        yield row(f"{title}: reports its share", share is not None and 0 <= share <= rate, data)
        yield row(f"{title}: reports active queues", "active-queues" in data, data)


def classes(dev: Device) -> dict[int, tuple[int, dict]]:
    """Classes of htb: {handle: (parent, options)}."""
    return {handle: (one["parent"], one["options"]) for handle, one in dev.dump("tclass").items()}


def replay(dev: Device) -> Iterator[dict]:
    """What is dumped of htb and its classes is accepted as a request, and changes nothing."""
    def send(handle, parent, options, *flags):
        done = dev.do("newtclass", *flags, kind="htb", handle=handle, parent=parent,
                      options=options)
        return row(f"the dump of class {handle:x} {' '.join(flags) or 'as a change'}", not done,
                   done)

    first, major = classes(dev), 0x11 * MAJOR
    for handle, (parent, options) in first.items():
        yield send(handle, parent, options)
    yield row("then the dump is the same", classes(dev) == first, classes(dev))
    options = dev.dump("qdisc")[major]["options"]
    yield row("an htb has its tree's number", options.get("shared") == 1, options)
    # A dump has all of the version, a request only the first half of it
    options["init"]["version"] >>= 16
    done = dev.do("delqdisc", parent=MAJOR + 1, handle=major)
    yield row("delqdisc", not done, done)
    done = dev.do("newqdisc", *FLAGS["put"], kind="htb", parent=MAJOR + 1, handle=major,
                  options=options)
    yield row("the dump of an htb as a new one", not done, done)
    for handle, (parent, options) in sorted(first.items()):
        if handle // MAJOR == 0x11:
            yield send(handle, parent, options, *FLAGS["new-class"])
    yield row("then the dump is the same", classes(dev) == first, classes(dev))


def carry_out(dev: Device, title: str, line: str) -> Iterator[dict]:
    """The rows of a line of the table."""
    line, _, reasons = line.partition(" | ")
    verb, *words = line.split()
    if verb == "is":
        yield from member(dev, title, words[0], int(words[1]), value_of(words[2]))
    elif verb == "rates":
        wanted = dict(word.split("=") for word in words)
        found = {queue: rate_of(*dev.seen(queue)) for queue in wanted}
        yield row(title, found == {key: value_of(rate) for key, rate in wanted.items()}, found)
    elif verb == "see":
        kind, data = dev.seen(words[0])
        wanted, what = (words[1:], "htb") if ":" in words[0] else (words[2:], words[1])
        yield row(title, kind == what and all(fits(data, word) for word in wanted), data)
    elif verb == "no":
        done = dev.request(*words)
        yield row(f"{title}: refused, with a reason", done and all(
            reason in done for reason in reasons.split("; ")), done or "it was accepted")
    else:
        done = (dev.do("delqdisc", parent=ROOT_HANDLE, handle=MAJOR) if verb == "delete"
                else dev.request(verb, *words))
        yield row(title, not done, done)


def run_checks(_: Any) -> Iterator[dict]:
    """Carry out the table; a row for each check. Runs in the guest."""
    dev = Device()
    for section, line in steps():
        yield from (replay(dev) if line == "replay" else
                    carry_out(dev, f"{section}: {line}", line))


# ------------------------------------------------------------ host side

def main() -> None:
    """Validate the description, boot, print a line a check; fail if one failed."""
    if not os.access(PYTHON, os.X_OK):
        raise Die(f"there is no {PYTHON}: run 'python3 -B lab setup venv'")
    failed, checks = [], []

    def show(check):
        checks.append(check)
        if check["ok"]:
            print(f"ok    {check['check']}", flush=True)
        else:
            failed.append(f"{check['check']}\n      {check['got'].strip()[:600]}")

    status, out, err = cli("--validate")
    show(row("tc.yaml is valid by its schema", not status, out + err))
    say("the option and its statistics through YNL (about 30 s)")
    boot_script("um", "ynl", "tests.ynl:run_checks", {}, on_row=show, timeout=300)
    verdict(len(checks) - len(failed), failed)
