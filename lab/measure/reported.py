# SPDX-License-Identifier: GPL-2.0
"""make reported: what users of cake_mq have reported, with the tools that they used.

Each case is a load of iperf3 and ping through the TCP bed (lab/load/tcp.py), in virtual
time, below root cake and the unpatched cake_mq of Linux 7.3.4, and below the series. Those of
lab/measure/reports.py are about htb, tbf and cake below mq. Both have a table in the guide,
module/README.md; a case of these that is known not to be right does not fail.

What is not in them: CPU time, and what a driver does. Of the machines of these users only
queues, rates, delays and options are known, and are the same here.
"""

import json
import re
import subprocess
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace

from guest.boot import boot_script
from load.tcp import CLIENT, build_bed, port_mask, shape
from load.traffic import command, tc
from tree import kernel
from tree.common import ROOT, say
from tree.results import command_line, keep_result
from tree.results import verdict as judge

from measure import reports

RESULTS = ROOT / "results" / "reported.json"
SHARED = RESULTS.with_name("reports.json")  # of lab/measure/reports.py
CONTENDERS = {  # column: (kernel, qdisc)
    "cake": ("bench-base", "cake"),
    "cake_mq": ("bench-base", "cake_mq"),
    "series": ("patched", "cake_mq"),
}
PORT = 16384  # of the first flow of the client: its low bits say which queue
SETTLE = 1  # s that iperf3 leaves out


def flows(queue: int, count: int = 1, tos: int = 0, down: bool = False, spread: bool = False,
          bps: float = 0) -> dict:
    """So many TCP flows of iperf3 on a TX queue, or spread over all queues from there on.

    down: towards the client, so that only ACKs go through the shaper. bps: what each flow
    is limited to by iperf3, 0: nothing.
    """
    return {"queue": queue, "count": count, "tos": tos, "down": down, "spread": spread,
            "bps": bps}


@dataclass
class Case:
    """One report: what it says, where, and the load that comes close to it.

    said: its figures. rate: bit/s of the shaper. groups: {name: flows()}. ping: (queue, TOS
    byte), or nothing. show: what the table says: the rate of a group, Mbit/s; "ping", the
    longest, ms; "active queues", as tc says. down: bit/s of the line to the client, 0: no limit.
    back: a qdisc for the way to the client; the delay is then on the other way.
    """

    title: str
    source: str
    said: str
    rate: float
    groups: dict
    show: Sequence[str]
    queues: int = 4
    options: str = ""
    rtt_us: int = 20_000
    ping: Sequence[int] = ()
    segments: bool = False
    seconds: int = 3
    down: float = 0
    back: str = ""


SEGALMEN = "https://github.com/Segalmen/cake-mq-patches/blob/"
DOCS = SEGALMEN + "977388f114daf427145f4f6845df7b82b1b34fec/docs/"
RTT = Case(
    "12 flows, `rtt 10ms`, 8 queues, 8500 Mbit up",
    SEGALMEN + "d93a598edcb4ee06d217722a0dc745ea2a078369/results/2026-10-r86s-rtt/README.md",
    "`cake_mq` 0.85 to 0.93 of `cake`", 8500e6, {"all": flows(0, 12, spread=True)}, ("all",),
    queues=8, options="diffserv4 dual-srchost no-split-gso rtt 10ms memlimit 128mb",
    rtt_us=5_500)
FORUM = "https://forum.openwrt.org/t/246349?page=12"
CASES = {
    "100/100": Case(
        "100/100 Mbit on a port of a switch, sqm `use_mq`, `besteffort`, 92.16 Mbit", FORUM,
        "50 up and 60 down, 56 and 39 ms more delay", 92.16e6,
        {"upload": flows(0, 4, spread=True), "download": flows(0, 4, down=True, spread=True)},
        ("upload", "download", "ping"), options="besteffort ethernet overhead 42",
        back="cake bandwidth 92160kbit besteffort ethernet overhead 42", ping=(1, 0), seconds=8),
    "acks": Case(
        "upload of 6 Mbit beside a download",
        "https://github.com/huydoan94/cake-adapt/blob/f30b4e71ac519bdb25fb1f16e7896c384bd03192/"
        "profiling/2026-10-10-cake-mq/README.md",
        "`cake` 7.3 of 7.6, `cake_mq` 3.3 of 6 Mbit", 6e6,
        {"upload": flows(0), "download": flows(1, down=True, bps=36e6)}, ("upload", "download"),
        options="besteffort", seconds=20, down=40e6),
    "priority": Case(
        "one CS5 flow beside 16 best effort, `diffserv4`, 2350 Mbit",
        DOCS + "720-cake-mq-per-tin-active-share-README.md",
        "`cake` 550 / 1669, `cake_mq` 135 / 2072 Mbit", 2350e6,
        {"CS5": flows(0, tos=0xa0), "best effort": flows(0, 16, spread=True)},
        ("CS5", "best effort"), options="diffserv4", rtt_us=5_000),
    "ping": Case(
        "ping beside 800 Mbit of CS4 in its queue, `diffserv4`, 2350 Mbit",
        DOCS + "729-cake-mq-tin-cap-README.md",
        "`cake_mq` 2.2 to 2.9 ms, 134 to 217 with a patch for the row above", 2350e6,
        {"CS4": flows(0, tos=0x80, bps=800e6), "best effort": flows(0, 16, spread=True)},
        ("ping", "CS4"), options="diffserv4", rtt_us=1_000, ping=(0, 0x60)),
    "rtt": RTT,
    "gso": replace(RTT, title="the same in GSO packets of up to 64 KB", segments=True),
    "veth": Case(
        "ping beside 32 uploads over veth, 8 queues, `besteffort`, 2000 Mbit",
        "https://github.com/openwrt/openwrt/pull/25182",
        "470 ms, 4 since commit a3729e0df005", 2000e6, {"all": flows(0, 32, spread=True)},
        ("ping", "all"), queues=8, options="besteffort", rtt_us=5_000, ping=(0, 0)),
    "one queue": Case(
        "all traffic in one of 4 queues, 900 Mbit",
        "https://github.com/tohojo/sqm-scripts/pull/184",
        "only one queue has traffic counters", 900e6, {"all": flows(0, 4)},
        ("all", "ping", "active queues"), ping=(0, 0), rtt_us=5_000),
}


# ------------------------------------------------------------- guest side

def serve(server: str, port: int) -> None:
    """An iperf3 server for one test, in the background."""
    command("ip", "netns", "exec", "s", "iperf3", "-s", "-1", "-D", "-B", server, "-p",
            str(port))


def client(server: str, number: int, group: dict, seconds: int, step: int) -> list:
    """Start the clients of a group: one iperf3 per flow, as each needs its own source port.

    step: between two source ports of the same queue.
    """
    started = []
    for i in range(group["count"]):
        queue = group["queue"] + (i if group["spread"] else 0)
        port = 5201 + 64 * number + i
        first = PORT + 2048 * number + step * (i + 1)
        serve(server, port)
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


def run_reports(spec: dict) -> Iterator[dict]:
    """Measure cases below a qdisc, yield their rows. spec: cases ({name: Case}), qdisc."""
    for name, case in spec["cases"].items():
        yield {"case": name, **measure(case, spec["qdisc"])}


# -------------------------------------------------------------- host side

def told(row: dict, what: str) -> str:
    """A figure of a row as the table says it."""
    if what == "ping":
        return f"{row[what]:.3f} ms"
    if what == "active queues":
        return str(row[what] or "-")
    mbit = row[what] / 1e6
    return f"{mbit:.1f}" if mbit < 100 else f"{mbit:.0f}"


def faulty(row: dict, root: dict, case: Case) -> bool:
    """Whether a row is worse than that of root cake: 5 % off a rate, or a ping of 1 ms more."""
    return any(row[what] < 0.95 * root[what] for what in case.show if what in case.groups) or (
        "ping" in case.show and row["ping"] > root["ping"] + 1)


def verdict(rows: dict, case: Case) -> str:
    """What the series did about a case; rows: {column: row}."""
    stock, here = (faulty(rows[column], rows["cake"], case) for column in ("cake_mq", "series"))
    return "no" if here else "yes" if stock else "nothing to fix"


def table(results: dict) -> list[str]:
    """The first table of the guide, rates in Mbit/s; results: {column: {case: row}}."""
    lines = ["| case | reported | root `cake` | `cake_mq` of 7.3.4 | series | fixed |",
             "|---|---|---|---|---|---|"]
    for name, case in CASES.items():
        rows = {column: results[column].get(name) for column in CONTENDERS}
        if not all(rows.values()):
            continue
        cells = [" / ".join(told(row, what) for what in case.show) for row in rows.values()]
        lines.append(f"| [{case.title}]({case.source}): {', '.join(case.show)} | {case.said} | "
                     f"{' | '.join(cells)} | {verdict(rows, case)} |")
    return lines


def boots(names: Sequence[str]) -> list[tuple]:
    """What to boot for cases: (file, column, kernel, function, what it takes)."""
    cases = {name: asdict(CASES[name]) for name in names if name in CASES}
    others = [name for name in names if name in reports.REPORTS]
    some = [(RESULTS, column, which, "measure.reported:run_reports",
             {"qdisc": qdisc, "cases": cases})
            for column, (which, qdisc) in CONTENDERS.items() if cases]
    return some + [(SHARED, kind, "patched", "measure.reports:run_shared",
                    {"kind": kind, "cases": others}) for kind in reports.KINDS if others]


def measured(job: tuple) -> dict[str, dict]:
    """Boot what boots() says: {case: row}."""
    file, column, which, function, spec = job
    rows, _ = boot_script(
        kernel.KERNELS[which].out, f"reported-{column}", function, spec, virtual=True,
        timeout=3600, mem="2G", allowed=kernel.known_splats(which),
        hop=kernel.module(which) if file == SHARED else None)
    return {row.pop("case"): row for row in rows}


def judged(columns: dict[str, dict]) -> list[str]:
    """Sentences on cases in which the series are not as root cake."""
    return [f"{name} is not as below root cake" for name, case in CASES.items() if columns
            and all(name in rows for rows in columns.values())
            and verdict({column: rows[name] for column, rows in columns.items()}, case) == "no"]


def main(argv: Sequence[str]) -> None:
    """Measure the cases named, or all, and print the tables; what is whole is kept."""
    parser = command_line("reported", __doc__, record=True)
    known = [*CASES, *reports.REPORTS]
    parser.add_argument("case", nargs="*", help=f"of {', '.join(known)} (all)")
    parser.add_argument("--brief", action="store_true", help="only those of htb, tbf and cake "
                        "below mq, which are quick")
    args = parser.parse_args(argv)
    names = list(reports.REPORTS) if args.brief else args.case or known
    if unknown := set(names) - set(known):
        parser.error(f"there is no case {', '.join(sorted(unknown))}")
    some = boots(names)
    for which in sorted({which for _, _, which, *_ in some}):
        kernel.build(which)
    say(f"{len(names)} reports, three times each (all of them: about 20 min)")
    fresh = {RESULTS: {}, SHARED: {}}
    with ThreadPoolExecutor(2) as pool:
        done = pool.map(measured, some)
        for (file, column, *_), rows in zip(some, done, strict=True):
            fresh[file][column] = rows
    if set(CASES) <= set(names):
        keep_result(RESULTS.name, {
            "what": "what users reported: bit/s of groups of flows, ms that a ping waits at most",
            "columns": fresh[RESULTS]})
    if set(reports.REPORTS) <= set(names):
        keep_result(SHARED.name, {
            "what": "what people reported: figures as lab/measure/reports.py names them",
            "columns": fresh[SHARED]})
    for lines in (fresh[RESULTS] and table(fresh[RESULTS]), reports.table(fresh[SHARED])):
        if len(lines) > 2:
            print("\n".join(lines))
    failed, better = reports.judged(fresh[SHARED])
    for sentence in better:
        print("note: " + sentence)
    failed += judged(fresh[RESULTS])
    judge(len(names) - len(failed), failed)
