# SPDX-License-Identifier: GPL-2.0
"""make ynl: the shared option and its statistics by netlink's own description.

Boots the patched kernel and configures cake and tbf below mq and mqprio, and htb with
its classes, with the tree's YNL command line and Documentation/netlink/specs/tc.yaml,
without tc. That shows that the description and the kernel mean the same by each
attribute, that the group's rates are reported, that what htb dumps can be sent back to
it as a request, and that refusals come with a reason. One line a check; the last is
'N passed, N failed'.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from guest.boot import boot_script
from tree.common import BUILD, Die, say
from tree.results import command_line

TREE = BUILD / "linux"
PYTHON = BUILD / "venv/bin/python"
CLI = TREE / "tools/net/ynl/pyynl/cli.py"
SPEC = TREE / "Documentation/netlink/specs/tc.yaml"
ROOT_HANDLE = 0xFFFFFFFF
MAJOR = 1 << 16
RATE = 12_500_000  # bytes/s, of group 1; the others differ


def cli(*words: Any) -> tuple[int, str, str]:
    """Run the YNL command line; (exit status, standard output, standard error)."""
    done = subprocess.run([PYTHON, "-B", CLI, "--spec", SPEC, *map(str, words)],
                          capture_output=True, text=True, check=False)
    return done.returncode, done.stdout, done.stderr


# ----------------------------------------------------------- guest side

class Device:
    """A dummy device with some TX queues, its qdiscs driven by YNL."""

    def __init__(self, name: str, queues: int) -> None:
        subprocess.run(["ip", "link", "add", name, "numtxqueues", str(queues),
                        "numrxqueues", "1", "type", "dummy"], check=True)
        subprocess.run(["ip", "link", "set", name, "up"], check=True)
        self.index = int(Path(f"/sys/class/net/{name}/ifindex").read_text())

    def do(self, operation: str, *flags: str, **attributes: Any) -> str:
        """Carry out an operation; "" if it succeeded, or what YNL said."""
        text = json.dumps({"family": 0, "ifindex": self.index, **attributes})
        status, out, err = cli("--no-schema", *flags, "--do", operation, "--json", text)
        if not status:
            return ""
        return " ".join((out or err.splitlines()[-1]).split())

    def put(self, kind: str, parent: int, major: int, options: dict) -> str:
        """Create a qdisc or put it in another's place; as do().

        parent: class of qdisc 1:, 0 for the root. major: its own handle.
        """
        return self.do("newqdisc", "--create", "--replace", kind=kind,
                       parent=MAJOR + parent if parent else ROOT_HANDLE,
                       handle=major * MAJOR, options=options)

    def change(self, kind: str, parent: int, major: int, options: dict) -> str:
        """Change options of a qdisc that is there; as do()."""
        return self.do("newqdisc", kind=kind, parent=MAJOR + parent,
                       handle=major * MAJOR, options=options)

    def set_class(self, handle: int, parent: int, options: dict, *flags: str) -> str:
        """Create (with the flags for that) or change a class of htb; as do()."""
        return self.do("newtclass", *flags, kind="htb", handle=handle, parent=parent,
                       options=options)

    def classes(self) -> dict[int, tuple[int, dict, dict]]:
        """Classes of htb: {handle: (parent, options, statistics of its own)}."""
        status, out, err = cli("--no-schema", "--output-json", "--dump", "gettclass",
                               "--json", json.dumps({"family": 0, "ifindex": self.index}))
        if status:
            raise RuntimeError(f"gettclass: {out} {err}")
        return {c["handle"]: (c["parent"], c["options"], c["stats2"]["app"])
                for c in json.loads(out) if c["kind"] == "htb"}

    def delete_root(self) -> str:
        """Take all qdiscs off the device."""
        return self.do("delqdisc", parent=ROOT_HANDLE, handle=MAJOR)

    def dump(self) -> dict[int, tuple[str, dict, dict]]:
        """What the kernel has: {major: (kind, options, statistics of its own)}."""
        status, out, err = cli("--no-schema", "--output-json", "--dump", "getqdisc")
        if status:
            raise RuntimeError(f"getqdisc: {out} {err}")
        return {
            qdisc["handle"] // MAJOR: (
                qdisc["kind"], qdisc.get("options") or {},
                (qdisc.get("stats2") or {}).get("app") or {})
            for qdisc in json.loads(out) if qdisc["ifindex"] == self.index
        }


def mqprio_options(classes: int, each: int) -> dict:
    """Options for classes with so many queues each; priorities take turns."""
    def numbers(values, width):
        return b"".join(v.to_bytes(width, sys.byteorder) for v in values).hex()

    pad = [0] * (16 - classes)
    return {
        "num-tc": classes, "hw": 0,
        "prio-tc-map": numbers([p % classes for p in range(16)], 1),
        "count": numbers([each] * classes + pad, 2),
        "offset": numbers([each * c for c in range(classes)] + pad, 2),
    }


def cake(rate: int | None = None, **more: Any) -> dict:
    """Options of a cake; rate in bytes/s; more: other attributes."""
    return {"base-rate64": rate, **more} if rate else more


def tbf(rate: int, **more: Any) -> dict:
    """Options of a tbf of this rate in bytes/s; more: attributes beside the struct."""
    parms = {"rate": {"rate": rate, "linklayer": 1}, "limit": 1 << 20}
    if "peak" in more:
        parms["peakrate"] = {"rate": more.pop("peak"), "linklayer": 1}
    return {"parms": parms, "burst": 1 << 14, **more}


def htb(**more: Any) -> dict:
    """Options of an htb; more: attributes beside the struct."""
    return {"init": {"version": 3, "rate2quantum": 10}, **more}


def htb_class(rate: int, ceil: int, wire: tuple[int, int] = (0, 0), **more: Any) -> dict:
    """Options of a class of htb.

    rate, ceil: bytes/s. wire: overhead of the rate and of the ceil, bytes. more:
    attributes beside the struct.
    """
    rates = {name: {"rate": value, "linklayer": 1, "overhead": overhead}
             for name, value, overhead in (("rate", rate, wire[0]), ("ceil", ceil, wire[1]))}
    return {"parms": {**rates, "buffer": 20000, "cbuffer": 30000, "quantum": 1514}, **more}


def rate_of(kind: str, options: dict) -> int | None:
    """The rate in dumped options, bytes/s."""
    if kind == "tbf":
        return options.get("parms", {}).get("rate", {}).get("rate")
    return options.get("base-rate64")


def row(title: str, good: Any, got: Any) -> dict:
    """A check, whether it passed, and what was found."""
    return {"check": title, "ok": bool(good),
            "got": got if isinstance(got, str) else repr(got)}


def accepted(title: str, done: str) -> dict:
    """The row of a request that must succeed."""
    return row(title, not done, done)


def refused(title: str, done: str, *words: str) -> dict:
    """The row of a request that must be refused, with these words in the reason."""
    return row(f"{title} is refused, with a reason", done and all(w in done for w in words),
               done or "it was accepted")


def member(dev: Device, title: str, major: int, number: int, rate: int) -> Iterator[dict]:
    """Rows: a qdisc has this rate, is in this group (0: none), and reports on it."""
    kind, options, stats = dev.dump().get(major, ("nothing", {}, {}))
    yield row(f"{title}: is in group {number}", options.get("shared", 0) == number
              and kind != "nothing", options)
    yield row(f"{title}: has {rate} bytes/s", rate_of(kind, options) == rate, options)
    if not number:
        return
    group, share = (stats.get(name) for name in ("group-rate64", "share-rate64"))
    yield row(f"{title}: reports the group's rate", group == rate, stats)
    yield row(f"{title}: reports its share", share is not None and 0 <= share <= rate, stats)
    yield row(f"{title}: reports active queues", "active-queues" in stats, stats)


def fill(dev: Device, parent: str, root: dict, table: Sequence[tuple]) -> Iterator[dict]:
    """Put a parent at the root and children on its queues; rows for all of them.

    root: options of the parent. table: (kind, options, group it must end up in,
    rate it must end up with) for each queue from the first; handles 11:, 12: ...
    """
    yield accepted(f"newqdisc {parent}", dev.put(parent, 0, 1, root))
    for queue, (kind, options, number, rate) in enumerate(table, 1):
        given = {k: v for k, v in options.items() if k in ("base-rate64", "shared")}
        title = f"{parent}, queue {queue}, {kind} {json.dumps(given)}"
        yield accepted(title, dev.put(kind, queue, 0x10 + queue, options))
        yield from member(dev, title, 0x10 + queue, number, rate)


def have(dev: Device) -> dict:
    """Rates of all children that fill() made, {queue: bytes/s}."""
    return {major - 0x10: rate_of(kind, options)
            for major, (kind, options, _) in dev.dump().items() if major > 0x10}


def cake_below_mq(dev: Device) -> Iterator[dict]:
    """Two groups of cake and one that is in none; a change, leaving, a refusal."""
    yield from fill(dev, "mq", {}, (
        ("cake", cake(RATE, shared=1), 1, RATE),
        ("cake", cake(shared=1), 1, RATE),
        ("cake", cake(2 * RATE, shared=2), 2, 2 * RATE),
        ("cake", cake(3 * RATE), 0, 3 * RATE)))
    yield accepted("change the rate by one member",
                   dev.change("cake", 2, 0x12, cake(4 * RATE)))
    rates = have(dev)
    yield row("all of its group have it",
              rates.get(1) == rates.get(2) == 4 * RATE, rates)
    yield row("nobody else has it",
              rates.get(3) == 2 * RATE and rates.get(4) == 3 * RATE, rates)
    yield accepted("leave the group", dev.change("cake", 1, 0x11, cake(shared=0)))
    yield from member(dev, "who left", 0x11, 0, 4 * RATE)
    yield refused("cake: autorate for a member",
                  dev.change("cake", 2, 0x12, cake(autorate=1)), "autorate", "shared")
    yield accepted("delqdisc mq", dev.delete_root())


def cake_below_mqprio(dev: Device) -> Iterator[dict]:
    """A group for each of two traffic classes."""
    yield from fill(dev, "mqprio", mqprio_options(2, 2), (
        ("cake", cake(RATE, shared=1), 1, RATE),
        ("cake", cake(shared=1), 1, RATE),
        ("cake", cake(2 * RATE, shared=2), 2, 2 * RATE),
        ("cake", cake(shared=2), 2, 2 * RATE)))
    yield accepted("delqdisc mqprio", dev.delete_root())


def cake_at_root(dev: Device) -> Iterator[dict]:
    """What is refused there, and cake_mq with its children."""
    yield refused("cake: shared at the root",
                  dev.put("cake", 0, 1, cake(RATE, shared=1)), "shared", "mq, mqprio")
    yield refused("cake_mq: shared",
                  dev.put("cake_mq", 0, 1, cake(RATE, shared=1)), "shared")
    yield accepted("newqdisc cake_mq", dev.put("cake_mq", 0, 1, cake(RATE)))
    kind, options, _ = dev.dump().get(1, ("nothing", {}, {}))
    yield row("cake_mq dumps its rate and no group",
              kind == "cake_mq" and rate_of(kind, options) == RATE
              and "shared" not in options, options)
    yield accepted("delqdisc cake_mq", dev.delete_root())


def tbf_below_mq(dev: Device) -> Iterator[dict]:
    """A group of tbf, and what is refused."""
    yield from fill(dev, "mq", {}, (
        ("tbf", tbf(RATE, shared=1), 1, RATE),
        ("tbf", tbf(RATE, shared=1), 1, RATE),
        ("tbf", tbf(3 * RATE), 0, 3 * RATE)))
    yield refused("tbf: another rate than the group's",
                  dev.put("tbf", 4, 0x14, tbf(2 * RATE, shared=1)), f"{8 * RATE} bit/s")
    yield accepted("tbf: change the rate by one member",
                   dev.change("tbf", 2, 0x12, tbf(2 * RATE)))
    rates = have(dev)
    yield row("tbf: all of its group have it",
              rates.get(1) == rates.get(2) == 2 * RATE, rates)
    yield refused("tbf: shared with a peakrate",
                  dev.put("tbf", 4, 0x14, tbf(RATE, peak=2 * RATE, pburst=2000, shared=1)),
                  "peakrate")
    yield accepted("delqdisc mq", dev.delete_root())
    yield refused("tbf: shared at the root",
                  dev.put("tbf", 0, 1, tbf(RATE, shared=1)), "shared", "mq, mqprio")


def htb_tree(dev: Device) -> Iterator[dict]:
    """An htb with three classes on each of two queues; one class is local."""
    yield accepted("newqdisc mq", dev.put("mq", 0, 1, {}))
    for queue in (1, 2):
        major = 0x10 + queue
        root = major * MAJOR
        new = ("--create", "--excl")
        yield accepted(f"newqdisc htb, queue {queue}",
                       dev.put("htb", queue, major, htb(shared=1)))
        yield accepted("newtclass, the root",
                       dev.set_class(root + 1, root, htb_class(RATE, RATE, (24, 0)), *new))
        yield accepted("newtclass below it",
                       dev.set_class(root + 2, root + 1, htb_class(RATE // 4, RATE), *new))
        yield accepted("newtclass, a local one",
                       dev.set_class(root + 3, root + 1,
                                     htb_class(RATE // 8, RATE, local=True), *new))


def htb_replay(dev: Device) -> Iterator[dict]:
    """What is dumped of htb and its classes is accepted as a request, and changes nothing."""
    first = dev.classes()
    for handle, (parent, options, _) in first.items():
        yield accepted(f"the dump of class {handle:x} as a change of it",
                       dev.set_class(handle, parent, options))
    yield row("then the dump is the same", strip(dev.classes()) == strip(first), dev.classes())

    options = dev.dump()[0x11][1]
    yield row("an htb has its tree's number", options.get("shared") == 1, options)
    # A dump has all of the version, a request only the first half of it
    options["init"]["version"] >>= 16
    yield accepted("delqdisc", dev.do("delqdisc", parent=MAJOR + 1, handle=0x11 * MAJOR))
    yield accepted("the dump of an htb as a new one", dev.put("htb", 1, 0x11, options))
    for handle, (parent, options, _) in sorted(first.items()):
        if handle // MAJOR == 0x11:
            yield accepted(f"the dump of class {handle:x} as a new one",
                           dev.set_class(handle, parent, options, "--create", "--excl"))
    yield row("then the dump is the same", strip(dev.classes()) == strip(first), dev.classes())


def strip(classes: dict) -> dict:
    """What devices.classes() gives, without statistics."""
    return {handle: (parent, options) for handle, (parent, options, _) in classes.items()}


def htb_below_mq(dev: Device) -> Iterator[dict]:
    """Shared classes of htb: what they dump, that it can be replayed, what is refused."""
    yield from htb_tree(dev)
    found = dev.classes()
    for queue in (1, 2):
        root = (0x10 + queue) * MAJOR
        shared, local = found.get(root + 2, (0, {}, {})), found.get(root + 3, (0, {}, {}))
        overheads = [shared[1].get("parms", {}).get(of, {}).get("overhead")
                     for of in ("rate", "ceil")]
        yield row("a class shows the overhead of the root", overheads == [24, 24], shared)
        yield row("a class has the statistics of htb",
                  {"lends", "borrows", "giants", "tokens", "ctokens"} <= set(shared[2]), shared)
        yield row("a shared class also has the sum of all queues",
                  shared[2].get("shared-bytes") == 0 and "local" not in shared[1], shared)
        yield row("a local class is local, and has no sum",
                  "local" in local[1] and "shared-bytes" not in local[2], local)
    yield from htb_replay(dev)
    root = 0x12 * MAJOR
    yield refused("htb: shared for a class", dev.set_class(
        root + 2, root + 1, htb_class(RATE // 4, RATE, shared=1)), "given to the qdisc")
    yield refused("htb: local for a class that is shared", dev.set_class(
        root + 2, root + 1, htb_class(RATE // 4, RATE, local=True)), "cannot become local")
    yield refused("htb: another overhead than that of the rate of the root", dev.set_class(
        root + 1, root, htb_class(RATE, RATE, (24, 28))), "of the class at the root")
    yield refused("htb: local for an htb", dev.put("htb", 3, 0x13, htb(local=True)),
                  "given to classes")
    yield accepted("newqdisc htb that shares nothing", dev.put("htb", 3, 0x13, htb()))
    root = 0x13 * MAJOR
    yield refused("htb: local for a class that shares nothing", dev.set_class(
        root + 1, root, htb_class(RATE, RATE, local=True), "--create"), "leave out local")
    yield accepted("newtclass that shares nothing", dev.set_class(
        root + 1, root, htb_class(RATE, RATE, (24, 28)), "--create"))
    alone = dev.classes()[root + 1]
    yield row("its overheads are its own, and it has no sum",
              alone[1]["parms"]["ceil"]["overhead"] == 28 and "shared-bytes" not in alone[2],
              alone)
    yield accepted("delqdisc mq", dev.delete_root())


def run_checks(_: Any) -> Iterator[dict]:
    """Run the scenarios; a row for each check. Runs in the guest."""
    dev = Device("d0", 4)
    yield from cake_below_mq(dev)
    yield from cake_below_mqprio(dev)
    yield from cake_at_root(dev)
    yield from tbf_below_mq(dev)
    yield from htb_below_mq(dev)


# ------------------------------------------------------------ host side

def main(argv: Sequence[str]) -> None:
    """Validate the description, boot, print a line a check; fail if one failed."""
    command_line("ynl", __doc__).parse_args(argv)
    if not os.access(PYTHON, os.X_OK):
        raise Die(f"there is no {PYTHON}: run 'python3 -B lab setup venv'")
    passed = failed = 0

    def show(check):
        nonlocal passed, failed
        passed += check["ok"]
        failed += not check["ok"]
        print(f"ok    {check['check']}" if check["ok"] else
              f"FAIL  {check['check']}\n      {check['got'].strip()[:600]}", flush=True)

    status, out, err = cli("--validate")
    show(row("tc.yaml is valid by its schema", not status, out + err))
    say("the option and its statistics through YNL (about 30 s)")
    boot_script("um", "ynl", "gates.ynl:run_checks", {}, on_row=show, timeout=300)
    print(f"{passed} passed, {failed} failed")
    sys.exit(1 if failed else 0)
