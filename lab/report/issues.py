# SPDX-License-Identifier: GPL-2.0
"""make reported: issues of users of cake_mq, once more, with the tools that they used.

Each case is a load of iperf3 and ping through the TCP bed (lab/traffic/tcp.py), in virtual
time, below root cake and the unpatched cake_mq of Linux 7.3.4, and below the series. Those of
lab/report/issues_guest.py are about htb, tbf and cake below mq. issues.toml lists all; both kinds
have a table in the guide, module/README.md.

What is not in them: CPU time, and what a driver does. Of the machines of these users only
queues, rates, delays and options are known, and are the same here.
"""

import json
import operator
import re
import subprocess
import time
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path

from guest.boot import boot_script
from host.common import known, parallel, say
from host.results import keep_result, verdict
from series import kernel
from traffic.tcp import CLIENT, build_bed, port_mask, shape
from traffic.traffic import command, tc

CONTENDERS = {  # column: (kernel, qdisc)
    "cake": ("bench-base", "cake"),
    "cake_mq": ("bench-base", "cake_mq"),
    "series": ("patched", "cake_mq"),
}
PORT = 16384  # of the first flow of the client: its low bits say which queue
SETTLE = 1  # s that iperf3 leaves out
ISSUES = tomllib.loads(Path(__file__).with_name("issues.toml").read_text())
OURS = {name: one for name, one in ISSUES.items() if "groups" in one}  # of cake_mq
OTHERS = {name: one for name, one in ISSUES.items() if "load" in one}
COLUMNS = {  # file of results/: its columns and the heads of these, and of the last one
    "reported": {"cake": "root `cake`", "cake_mq": "`cake_mq` of 7.3.4", "series": "series",
                 "": "fixed"},
    "reports": {"root": "one at the root", "each": "one per queue", "shared": "`shared`",
                "": "right"},
}
CASE = {"queues": 4, "options": "", "rtt_us": 20_000, "ping": (), "segments": False, "seconds": 3,
        "down": 0, "back": ""}  # what a report of cake_mq is, unless it says
FLOWS = {"queue": 0, "count": 1, "tos": 0, "down": False, "spread": False, "bps": 0}


# ------------------------------------------------------------- guest side

def serve(server: str, port: int) -> None:
    """An iperf3 server for one test, in the background."""
    command("ip", "netns", "exec", "s", "iperf3", "-s", "-1", "-D", "-B", server, "-p",
            str(port))


def client(server: str, number: int, group: dict, seconds: int, step: int) -> list:
    """Start the clients of a group: one iperf3 per flow, as each needs its own source port.

    step: between two source ports of the same queue.
    """
    started, ports = [], range(5201 + 64 * number, 5201 + 64 * number + group["count"])
    for port in ports:
        serve(server, port)
    time.sleep(0.001)  # virtual time goes on when all of them listen
    for i, port in enumerate(ports):
        queue = group["queue"] + (i if group["spread"] else 0)
        first = PORT + 2048 * number + step * (i + 1)
        words = ["ip", "netns", "exec", "c", "iperf3", "-c", server, "-B", CLIENT, "-p", str(port),
                 "--cport", str(first + queue % step), "-J", "-t", str(seconds),
                 "-O", str(SETTLE), "-S", str(group["tos"])]
        words += ["-R"] if group["down"] else []
        words += ["-b", f"{group['bps']:.0f}"] if group["bps"] else []
        started.append(subprocess.Popen(words, stdout=subprocess.PIPE, text=True))
    return started


def received(job: subprocess.Popen) -> float:
    """What a client's server received, bit/s."""
    out = json.loads(job.communicate()[0])
    if "error" in out:
        raise RuntimeError(f"iperf3: {out['error']}")
    return out["end"]["sum_received"]["bits_per_second"]


def active_queues() -> int:
    """How many queues have packets, as tc says of the busiest one; 0 for root cake.

    A queue of the unpatched cake_mq that is idle says what was when it last sent.
    """
    leaves = [q for q in json.loads(tc("-n r -s -j qdisc show dev r1")) if q["kind"] == "cake"]
    return max(leaves, key=lambda q: q["bytes"])["active_queues"]


def measure(case: dict, qdisc: str) -> dict:
    """Run a case below a qdisc: bit/s of each group, ms that the ping had to wait at most.

    And active_queues(), in the middle.
    """
    names, server = build_bed(case["queues"], 0, case["rtt_us"], case["segments"])
    shape(qdisc, case["queues"], case["rate"], case["options"])
    if case["down"]:
        tc(f"-n s qdisc replace dev s0 root netem delay {case['rtt_us']}us "
           f"rate {case['down']:.0f}bit limit 1000000")
    if case["back"]:
        tc(f"-n s qdisc replace dev s0 root {case['back']}")
        tc(f"-n c qdisc replace dev c0 root netem delay {case['rtt_us']}us limit 1000000")
    pinging = None
    if case["ping"]:
        queue, tos = case["ping"]
        tc(f"-n r filter add dev r1 egress protocol ip prio 2 u32 match ip protocol 1 0xff "
           f"action skbedit queue_mapping {queue} continue")
        command("ip", "netns", "exec", "c", "ping", "-c1", server)  # the first waits for ARP
        pinging = subprocess.Popen(
            ["ip", "netns", "exec", "c", "ping", "-q", "-Q", str(tos), "-i", "0.05", "-w",
             str(case["seconds"] + SETTLE), server], stdout=subprocess.PIPE, text=True)
    step = port_mask(case["queues"]) + 1
    jobs = {name: client(server, number, group, case["seconds"], step)
            for number, (name, group) in enumerate(case["groups"].items())}
    time.sleep(SETTLE + case["seconds"] / 2)
    active = active_queues()
    row = {name: sum(map(received, started)) for name, started in jobs.items()}
    row["active queues"] = active
    if pinging:
        found = re.search(r"= ([\d.]+)/([\d.]+)/([\d.]+)/", pinging.communicate()[0])
        shortest, _, longest = map(float, found.groups())
        row["ping"] = longest - shortest
    for name in names:
        command("ip", "netns", "del", name)
    return row


def run_issues(spec: dict) -> Iterator[dict]:
    """Measure cases below a qdisc, yield their rows. spec: cases ({name: Case}), qdisc."""
    for name, case in spec["cases"].items():
        yield {"case": name, **measure(case, spec["qdisc"])}


# -------------------------------------------------------------- host side

def told(name: str, row: dict) -> str:
    """The figures of a row as the table says them."""
    def rate(value):
        return f"{value / 1e6:.1f}" if value < 100e6 else f"{value / 1e6:.0f}"

    if name in OTHERS:
        return " / ".join(form.format(row[what] / unit)
                          for what, (form, unit) in OTHERS[name]["show"].items())
    forms = {"ping": "{:.3f} ms".format, "active queues": lambda count: str(count or "-")}
    return " / ".join(forms.get(what, rate)(row[what]) for what in OURS[name]["show"])


def faulty(row: dict, root: dict, case: dict) -> bool:
    """Whether a row is worse than that of root cake: 5 % off a rate, or a ping of 1 ms more."""
    slow = [what for what in case["groups"] if row[what] < 0.95 * root[what]]
    return bool({*slow} & {*case["show"]}) or (
        "ping" in case["show"] and row["ping"] > root["ping"] + 1)


def holds(rows: dict, name: str, sign: str, other: float | str, factor: float = 1) -> bool:
    """A rule of issues.toml; rows: {kind: figures}."""
    value, other = rows["shared"][name], rows["root"][name] if other == "root" else other
    if sign == "~":
        return abs(value - other) <= factor * abs(other)
    signs = {"<": operator.lt, ">": operator.gt, "<=": operator.le, ">=": operator.ge,
             "=": operator.eq}
    return signs[sign](value, factor * other)


def outcome(name: str, rows: dict) -> str:
    """The last cell of a row, from {column: figures}; "no" has failed."""
    if name in OTHERS:
        return "yes" if all(holds(rows, *rule) for rule in OTHERS[name]["right"]) else "no"
    stock, here = (faulty(rows[column], rows["cake"], OURS[name])
                   for column in ("cake_mq", "series"))
    return "no" if here else "yes" if stock else "nothing to fix"


def whole(file: str, results: dict) -> dict[str, dict]:
    """{case: {column: row}} of those that all columns have; results: {column: {case: row}}."""
    columns = [column for column in COLUMNS[file] if column]
    return {name: {column: results[column][name] for column in columns} for name in ISSUES
            if all(name in results.get(column, ()) for column in columns)}


def table(file: str, results: dict) -> list[str]:
    """A table of the guide, rates in Mbit/s; results: as for whole()."""
    lines = [f"| case | reported | {' | '.join(COLUMNS[file].values())} |",
             "|---|---|---|---|---|---|"]
    for name, rows in whole(file, results).items():
        one = ISSUES[name]
        what = f": {', '.join(one['show'])}" if name in OURS else ""
        lines.append(f"| [{one['title']}]({one['source']}){what} | {one['said']} | "
                     + " | ".join(told(name, row) for row in rows.values())
                     + f" | {outcome(name, rows)} |")
    return lines


def boots(names: Sequence[str]) -> list[tuple]:
    """What to boot for cases: (file, column, kernel, function, what it takes)."""
    cases = {name: {**CASE, **one, "groups": {group: {**FLOWS, **flows} for group, flows
                                              in one["groups"].items()}}
             for name, one in OURS.items() if name in names}
    others = {name: one["load"] for name, one in OTHERS.items() if name in names}
    some = [("reported", column, which, "report.issues:run_issues",
             {"qdisc": qdisc, "cases": cases})
            for column, (which, qdisc) in CONTENDERS.items() if cases]
    kinds = [kind for kind in COLUMNS["reports"] if kind and others]
    return some + [("reports", kind, "patched", "report.issues_guest:run_shared",
                    {"kind": kind, "cases": others}) for kind in kinds]


def measured(job: tuple) -> dict[str, dict]:
    """Boot what boots() says: {case: row}."""
    file, column, which, function, spec = job
    rows, _ = boot_script(
        kernel.KERNELS[which].out, f"reported-{column}", function, spec, virtual=True,
        timeout=3600, mem="2G", allowed=kernel.known_splats(which),
        hop=kernel.module(which) if file == "reports" else None)
    return {row.pop("case"): row for row in rows}


def judged(file: str, results: dict) -> list[str]:
    """Sentences on cases that are not right."""
    return [f"{name}: " + ", ".join(f"{column} {told(name, row)}" for column, row in rows.items())
            for name, rows in whole(file, results).items() if outcome(name, rows) == "no"]


def main(*case: str, brief: bool = False) -> None:
    """Measure the cases named, or all, and print the tables; what is whole is kept.

    case: as issues.toml has them (all). brief: only those of htb, tbf and cake below mq, which
    are quick.
    """
    names = known("case", OTHERS if brief else case or ISSUES, ISSUES)
    some = boots(names)
    for which in sorted({which for _, _, which, *_ in some}):
        kernel.build(which)
    say(f"{len(names)} reports, three times each (all of them: about 20 min)")
    fresh = {"reported": {}, "reports": {}}
    for (file, column, *_), rows in zip(some, parallel(measured, some, 2), strict=True):
        fresh[file][column] = rows
    failed = []
    for (file, results), all_, what in zip(fresh.items(), (OURS, OTHERS), (
            "what users reported: bit/s of groups of flows, ms that a ping waits at most",
            "what people reported: figures as lab/report/issues_guest.py names them")):
        if set(all_) <= set(names):
            keep_result(f"{file}.json", {"what": what, "columns": results})
        if results:
            print("\n".join(table(file, results)))
        failed += judged(file, results)
    verdict(len(names) - len(failed), failed)
