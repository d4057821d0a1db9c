# SPDX-License-Identifier: GPL-2.0
"""make users: what sharing lets a user with a network namespace of his own take of the kernel.

Memory of the kernel per member, and how long it takes to dump all members and to change the
rate of all of them, beside the unpatched kernel. Below mq, which has a class for each of 1,024
TX queues, each queue gets a qdisc. Without sharing, each is changed by a request of its own,
all of them in one run of tc; with it, one request changes the group. Times are of the wall
clock, the least of several, as the host has other work. Writes users.json.
"""

import os
import re
import socket
import struct
import subprocess
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from guest.boot import boot_script
from host.common import known, say
from host.results import keep_result
from host.table import Table
from series import kernel
from traffic.traffic import command, tc

QUEUES = 1024
AGAIN = 10  # of each time, the least counts
DEV = "users0"
RATE = {"tbf": "rate {} burst 16kb limit 1mb", "cake": "bandwidth {}", "cake_mq": "bandwidth {}",
        "htb": ""}
CASES = {  # title: (kind, option of the qdisc on TX queue {q})
    "tbf": ("tbf", ""),
    "tbf, one group": ("tbf", "shared"),
    "tbf, a group for each": ("tbf", "shared {q}"),
    "cake": ("cake", ""),
    "cake, one group": ("cake", "shared"),
    "cake, a group for each": ("cake", "shared {q}"),
    "cake_mq": ("cake_mq", ""),
    "htb, a class on each": ("htb", ""),
    "htb, a class on all": ("htb", "shared"),
    "htb, a tree for each": ("htb", "shared {q}"),
}
RTM_GETQDISC, NLMSG_ERROR, NLMSG_DONE, DUMP = 38, 2, 3, 0x301


def used() -> int:
    """Memory that the kernel has allocated and cannot take back, bytes."""
    text = Path("/proc/meminfo").read_text()
    return sum(1024 * int(re.search(rf"(?m)^{name}: +(\d+) kB", text)[1])
               for name in ("SUnreclaim", "VmallocUsed", "Percpu"))


def settled() -> int:
    """The same when what was freed is free: after two readings that agree."""
    before = used()
    while True:
        time.sleep(0.5)
        now = used()
        if abs(now - before) < 16384:
            return now
        before = now


def lines(kind: str, option: str, verb: str, rate: str) -> list[str]:
    """What tc -batch reads to add all of a case, or change all rates."""
    words = RATE[kind].format(rate)
    if kind == "cake_mq":
        return [f"qdisc {verb.replace('add', 'replace')} dev {DEV} root handle 1: cake_mq {words}"]
    made = []
    together = verb == "change" and option == "shared"  # by one request
    for q in range(1, 2 if together else QUEUES + 1):
        at = f"dev {DEV} parent 1:{q:x} handle {q + 0x1000:x}:"
        if kind != "htb" or verb == "add":
            made.append(f"qdisc {verb} {at} {kind} {words} {option.format(q=q)}")
        if kind == "htb":
            made.append(f"class {verb} dev {DEV} parent {q + 0x1000:x}: classid "
                        f"{q + 0x1000:x}:1 htb rate {rate} quantum 1514")
    return made


def batch(text: Sequence[str]) -> float:
    """Seconds that tc takes for the lines."""
    start = time.perf_counter()
    tc("-batch -", "\n".join(text))
    return time.perf_counter() - start


def dump() -> float:
    """Seconds that a dump of all qdiscs takes."""
    index = socket.if_nametoindex(DEV)
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE) as rtnl:
        start = time.perf_counter()
        rtnl.send(struct.pack("=IHHII BBHiIII", 36, RTM_GETQDISC, DUMP, 1, 0, 0, 0, 0, index,
                              0, 0, 0))
        while True:
            answer = rtnl.recv(1 << 17)
            at = 0
            while at < len(answer):
                size, what = struct.unpack_from("=IH", answer, at)
                if what == NLMSG_ERROR:
                    raise OSError(-struct.unpack_from("=i", answer, at + 16)[0], "dump")
                if what == NLMSG_DONE:
                    return time.perf_counter() - start
                at += (size + 3) & ~3


def changed(kind: str, option: str) -> float:
    """Seconds that a change of all rates takes, the least."""
    return min(batch(lines(kind, option, "change", f"{900 + number % 2}mbit"))
               for number in range(AGAIN))


def look(spec: dict) -> Iterator[dict]:
    """A row for each case of spec. Runs in the guest."""
    Path("/proc/sys/net/core/default_qdisc").write_text("pfifo")
    command("ip", "link", "add", DEV, "numtxqueues", str(QUEUES), "type", "dummy")
    command("ip", "link", "set", DEV, "up")
    for number, title in enumerate([spec["cases"][0], *spec["cases"]]):
        kind, option = CASES[title]
        tc(f"qdisc del dev {DEV} root", check=False)
        before = settled()
        if kind != "cake_mq":
            tc(f"qdisc replace dev {DEV} root handle 1: mq")
        batch(lines(kind, option, "add", "1gbit"))
        row = {"case": title, "bytes": (settled() - before) / QUEUES,
               "dump_ms": 1e3 * min(dump() for _ in range(AGAIN)),
               "change_ms": 1e3 * changed(kind, option)}
        with subprocess.Popen(["tc", "monitor"], stdout=subprocess.DEVNULL) as monitor:
            time.sleep(0.5)
            row["heard_ms"] = 1e3 * changed(kind, option)
            monitor.kill()
        if number:  # the first time, tc and all that it needs was read from the disk
            yield row
    tc(f"qdisc del dev {DEV} root")
    command("ip", "link", "del", DEV)


TABLE = Table(
    ("", "case", "", -32, f"{QUEUES:,} TX queues, a qdisc on each"),
    *((head, lambda row, which=which, key=key: row.get(which, {}).get(key), form, width, over)
      for over, key, form, widths in (
          ("bytes per queue", "bytes", ".0f", (10, 9)), ("dump, ms", "dump_ms", ".1f", (8, 7)),
          ("new rate, ms", "change_ms", ".1f", (9, 8)),
          ("if heard, ms", "heard_ms", ".1f", (9, 8)))
      for head, which, width in zip(("stock", "all"), ("base", "patched"), widths)))


def main(*case: str) -> None:
    """Measure, print, write.

    case: only these (all).
    """
    rows = {title: {"case": title} for title in known("case", case or CASES, CASES)}
    for which in ("base", "patched"):
        kernel.build(which)
        cases = [title for title in rows if kernel.shares(which, "mq + " + " ".join(
            (CASES[title][0], "shared" if CASES[title][1] else "")).strip())]
        say(f"{len(cases)} cases on the {which} kernel (about 60 s)")
        found, _ = boot_script(kernel.KERNELS[which].out, f"users-{which}", "report.users:look",
                               {"cases": cases}, mem="4G",  # 1,024 cakes need 1.5
                               allowed=kernel.known_splats(which))
        for row in found:
            rows[row["case"]][which] = {key: value for key, value in row.items() if key != "case"}
    print("\n".join(TABLE.lines(rows.values())))
    keep_result("users.json", {
        "what": f"{QUEUES} TX queues: memory of the kernel per queue, bytes, and times, ms, the "
        f"least of {AGAIN}; heard: while somebody listens to what changes",
        "cpus": len(os.sched_getaffinity(0)), "rows": list(rows.values())})
