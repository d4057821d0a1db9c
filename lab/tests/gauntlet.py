# SPDX-License-Identifier: GPL-2.0
"""make gauntlet: the series on four CPUs, in kernels that look for mistakes.

kasan has KASAN, lockdep, DEBUG_OBJECTS, kmemleak and failslab; kcsan has KCSAN, strict.
Both are x86_64 in QEMU, but what is one thing after the other is done by kasan as User-Mode
Linux with one CPU: that takes a tenth of the time. Each does

    KUnit       all suites; kcsan those of shared state only: what the others call is
                arithmetic, which no other CPU sees
    tdc         the base's suites for what the series change, theirs, and the lab's; kcsan
                those of the lab only with --long: one command after another
    torture     operations of lab torture, in seeds of PART; --long: more
    crowd       four CPUs send through a group while its options change many times,
                its members come and go, and all of it is dumped
    control     of kcsan: the same with a race planted, which has to be found

A splat, leak, hang or failed case in any of them is a failure. So is a data race with
an access in a line of the series: what was read or written there is neither marked
nor under a lock. Other races are in code that the series leaves alone; their pairs of
functions go to gauntlet.json, beside whether the unpatched kernel showed the same in
a crowd of its own (gauntlet-base.json, which --base measures).

A job that ran with the usual --ops and --rounds replaces its row in gauntlet.json, so it can
be run in parts; the table is of all rows, and says of which state of the sources each is.
"""

import collections
import json
import os
import re
import threading
import time
import tomllib
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from guest.boot import Guest, run_script
from host.common import BUILD, Die, known, parallel, say, told
from host.results import keep_result, keep_row, kept_rows, latest_result, verdict
from host.table import Table
from series import kernel
from series.code import added, sources
from traffic.traffic import command, contender_lines, pktgen, random_stream

from tests import tdc, torture
from tests.kunit import judged

RECORD = "gauntlet.json"
BASE = "gauntlet-base.json"
CPUS = 4
MEM = "3G"
# Operations of torture, of which kasan takes 0.9 s each; and with --long.
OPS = {"kasan": (1000, 2000), "kcsan": (1000, 5000)}
PART = 1000  # operations of a seed
ROUNDS = 10  # of a crowd
QUEUES = 8
TABLES = tomllib.loads(Path(__file__).with_suffix(".toml").read_text())
CROWDS = ("cake_mq", "mq + cake shared", "mqprio + cake shared", "mq + tbf shared",
          "mq + htb shared")
RACE = ("BUG: KCSAN: data-race",)
# Tests of one thing after another: races are looked for at an eighth of the accesses,
# or they would take hours.
SPARSE = ("kcsan.skip_watch=4000",)
# Four CPUs that are slower than what they send: RCU gets its turn before the senders, and
# that it takes long is no finding.
PATIENT = ("rcutree.kthread_prio=1", "rcupdate.rcu_cpu_stall_timeout=180")
# It starts a thread per CPU in each network namespace, of which tdc makes hundreds.
NO_PKTGEN = "initcall_blacklist=pg_init"
HEADERS = (  # of the series, beside added()
    "include/net/sch_rate_group.h", "include/net/sch_rate_group_qdisc.h",
    "include/net/sch_rate_tree.h", "net/sched/sch_rate.h")


# ------------------------------------------------------------------ guest side

def send() -> threading.Thread:
    """pktgen on all CPUs: each sends to all queues, in two priorities."""
    pktgen("pgctrl", "reset")
    for cpu in range(CPUS):
        stream = f"c0@{cpu}"
        pktgen(f"kpktgend_{cpu}", f"add_device {stream}")
        for line in random_stream(QUEUES, "b8" if cpu % 2 else "00", 100_000):
            pktgen(stream, line)
    thread = threading.Thread(target=pktgen, args=("pgctrl", "start"), daemon=True)
    thread.start()
    return thread


def filled(lines: Sequence[str], at: int, rate: float, **more: Any) -> list[str]:
    """Lines of gauntlet.toml, for a queue from 1."""
    return [line.format(at=at, rate=rate, half=rate / 2, quarter=rate / 4, eighth=rate / 8,
                        default=2 + at % 2, **more) for line in lines]


def crowd_lines(contender: str, shared: bool, rate: float = 20e6) -> list[str]:
    """What puts a contender on c0. shared: whether this tc and kernel know that word."""
    options = "burst 15k limit 100k" if "tbf" in contender else ""
    if "htb" in contender:
        lines = ["qdisc replace dev c0 root handle 1: mq"]
        for queue in range(1, QUEUES + 1):
            lines += filled(TABLES["htb"], queue, rate)
    else:
        lines = contender_lines("c0", contender, rate, QUEUES, options)
    return lines if shared else [line.replace(" shared", "") for line in lines]


def turn(contender: str, number: int, shared: bool) -> list[str]:
    """The lines of one round: its rate, other options, a member that goes and comes."""
    parent, _, words = contender.rpartition(" + ")
    kind = words.split()[0]
    at, rate = number % QUEUES + 1, TABLES["rates"][number % len(TABLES["rates"])]
    queue = f"parent 1:{at:x}"
    first = crowd_lines(contender, shared, rate)
    lines = filled(TABLES["round"][kind.removesuffix("_mq")], at, rate, prio=number % 3,
                   mode=TABLES["modes"][number % 3], where=queue if parent else "root",
                   word=words if shared else kind)
    if parent:
        again = [line for line in first if f" {queue} " in line or f" 1{at:x}:" in line]
        # a class that comes to a queue has to be as on the others
        lines += [line.replace(" add ", " change ") for line in again if line.startswith("class")]
        lines += [f"qdisc del dev c0 {queue}", *again]
    if number % 10 == 9:
        lines += ["qdisc del dev c0 root", *first]
    return lines


def run_crowds(spec: dict) -> Iterator[dict]:
    """A crowd of each kind: rows {"crowd", "packets", "changes", "refused"}.

    spec: crowds, rounds, shared (as for turn()).
    """
    command("ip", "link", "add", "c0", "numtxqueues", str(QUEUES), "type", "dummy")
    command("ip", "link", "set", "c0", "up")
    for contender in spec["crowds"]:
        command("tc", "-batch", "-", text="\n".join(crowd_lines(contender, spec["shared"])))
        sender = send()
        time.sleep(1)
        done = threading.Event()

        def dump(done=done):
            while not done.is_set():
                for what in ("qdisc", "class"):
                    command("tc", "-s", "-j", what, "show", "dev", "c0", check=False)

        dumper = threading.Thread(target=dump)
        dumper.start()
        changes = refused = 0
        for number in range(spec["rounds"]):
            for line in turn(contender, number, spec["shared"]):
                changes += 1
                refused += told("tc", *line.split()).returncode != 0
        done.set()
        dumper.join()
        pktgen("pgctrl", "stop")
        sender.join()
        packets = sum(qdisc["packets"] + qdisc["drops"] for qdisc in json.loads(
            command("tc", "-s", "-j", "qdisc", "show", "dev", "c0")))
        yield {"crowd": contender, "packets": packets, "changes": changes,
               "refused": refused}
        command("tc", "qdisc", "del", "dev", "c0", "root")
        pktgen("pgctrl", "reset")
    command("ip", "link", "del", "c0")


# ----------------------------------------------------------------- data races

def accesses(text: str) -> list[tuple]:
    """The races in a kernel log: [((access, "function+0x1/0x2"), the other)].

    access: "read" or "write", with what KCSAN adds. The second is None where the other
    one was not caught, only that the value had changed.
    """
    races = []
    for report in text.split("BUG: KCSAN: ")[1:]:
        found = re.findall(
            r"((?:read|write)[^\n]*?) to 0x\w+ of \d+ bytes by [^\n]*:\n(?:\[[^\]]*\] ?)?\s*"
            r"([\w.]+\+0x\w+/0x\w+)", report.split("=" * 40)[0])
        if found:
            races.append((found[0], found[1] if len(found) > 1 else None))
    return races


class Lines:
    """Where in the sources a kernel's code is, for objects that say so."""

    def __init__(self, which: str) -> None:
        self.tree = BUILD / kernel.KERNELS[which].tree
        self.out = BUILD / kernel.KERNELS[which].out
        self.vmlinux = self.out / "vmlinux"
        self.known = {}
        symbols = told("nm", self.vmlinux, check=True).stdout
        self.addresses = collections.defaultdict(list)  # a name may be that of several
        for words in map(str.split, symbols.splitlines()):
            if len(words) == 3 and words[1] in "tT":
                self.addresses[words[2]].append(int(words[0], 16))

    def of(self, place: str) -> list[tuple[str, int]]:
        """[(file below the tree, line number)] of "function+0x1/0x2", innermost first."""
        if place not in self.known:
            name, _, rest = place.partition("+")
            if name not in self.addresses:
                raise Die(f"{self.vmlinux} has no function {name}: it is not the kernel "
                          "that ran; build it again")
            # what is on a stack is where it returns to
            offset = int(rest.split("/")[0], 16) - 1
            out = told("addr2line", "-i", "-e", self.vmlinux,
                       *(hex(at + offset) for at in self.addresses[name]), check=True).stdout
            self.known[place] = [
                (os.path.relpath(self.out / path, self.tree), int(number))
                for path, number in re.findall(r"^(?!\?\?)(\S+):(\d+)", out, re.M)]
        return self.known[place]


def sorted_races(which: str,
                 races: list[tuple]) -> tuple[collections.Counter, collections.Counter]:
    """({sentence about a race of the series: times}, {pair of functions: times})."""
    ours, others = collections.Counter(), collections.Counter()
    if not races:
        return ours, others
    lines = Lines(which)
    mine = added() if kernel.KERNELS[which].tree == "linux" else {}
    for race in races:
        places = []
        for access in filter(None, race):
            kind, place = access
            hit = [f"{file}:{number}" for file, number in lines.of(place)
                   if file in HEADERS or number in mine.get(file, ())]
            places.append((kind, place.partition("+")[0], hit))
        if any(hit for *_, hit in places):
            ours[" / ".join(sorted(f"{kind} in {name}() {' < '.join(hit)}".strip()
                                   for kind, name, hit in places))] += 1
        else:
            others[" / ".join(sorted(name for _, name, _ in places))] += 1
    return ours, others


# ------------------------------------------------------------------- the jobs

class Job:
    """What a job of a kernel came to.

    which: the kernel that runs. machine: what it runs on, as for boot().
    """

    def __init__(self, which: str) -> None:
        self.which = which
        self.machine = {"mem": MEM, "cpus": CPUS if kernel.KERNELS[which].arch != "um" else 1}
        self.race = which.startswith("kcsan")
        self.allowed = RACE if self.race else ()
        self.sparse = SPARSE if self.race else ()
        self.passed = 0
        self.failed = []  # sentences
        self.races = []

    def gather(self, guest: Guest) -> None:
        """Keep the races that a guest reported."""
        self.races += accesses(guest.console) if self.race else []

    def look(self, guest: Guest) -> None:
        """gather(), and judge how it ended."""
        self.gather(guest)
        if bad := guest.report(self.allowed):
            self.failed.append(bad)

    def name(self, job: str) -> str:
        """Of the guest."""
        return f"gauntlet-{self.which}-{job}"

    def folder(self) -> str:
        """Of the kernel."""
        return kernel.KERNELS[self.which].out


def kunit(job: Job, _: Any) -> None:
    """The suites of the series."""
    some = ("kunit.filter_glob=qdisc_shared*",) if job.race else ()
    job.passed, bad, guest = judged(job.folder(), job.name("kunit"), job.allowed,
                                    params=(*job.sparse, *some), timeout=3600, **job.machine)
    job.gather(guest)
    job.failed += bad


def halves(names: Sequence[str]) -> tuple[list[str], list[str]]:
    """The suites in two parts that take about as long."""
    size = {name: tdc.suite_file("linux", name).stat().st_size for name in names}
    parts = [], []
    for name in sorted(names, key=size.get, reverse=True):
        min(parts, key=lambda part: sum(map(size.get, part))).append(name)
    return parts


def suites(job: Job, args: SimpleNamespace) -> None:
    """tc-testing beside the record of the base. Most cases are one after the other, and
    leave three CPUs idle: two guests, half of the suites in each."""
    beside = tdc.suites_beside(tdc.NEAR)
    if job.race and not args.long:
        beside = [name for name in beside if name not in tdc.own_suites()]

    def half(part):
        number, names = part
        return tdc.run_suites(job.folder(), "linux", job.name(f"tdc{number}"), names,
                              jobs=job.machine["cpus"], timeout=5400,
                              params=(*job.sparse, NO_PKTGEN), **job.machine)

    for got, guest in parallel(half, enumerate(halves(beside), 1), 2):
        job.look(guest)
        passed, _, bad = tdc.compare(got, tdc.on_base())
        job.passed += passed
        job.failed += bad


def operations(job: Job, args: SimpleNamespace) -> None:
    """Seeds of lab torture, or the file to replay."""
    count = args.ops or OPS[job.which][args.long]
    some = {f"seed {seed}": torture.Plan(seed).lines(min(PART, count))
            for seed in range(1, -(-count // PART) + 1)}
    if file := args.replay:
        some = {file: torture.replayed(file)}
    for name, lines in some.items():
        start = time.monotonic()
        bad, at, row, guest = torture.attempt(job.folder(), lines, allowed=job.allowed,
                                              **job.machine)
        job.gather(guest)
        say(f"{job.which}: {name}, {time.monotonic() - start:.0f} s: {bad or row}")
        if bad:
            torture.save(f"{name} on {job.which}: {bad}", torture.upto(lines, at))
            job.failed.append(f"{bad}; make gauntlet ON={job.which} JOBS=torture REPLAY="
                              f"{torture.FAILING} does it again")
            return
        job.passed += len(lines)


def crowd(job: Job, args: SimpleNamespace, planted: bool = False) -> None:
    """Four CPUs send while a group changes."""
    base = kernel.KERNELS[job.which].tree == "linux-base"
    rows, guest = run_script(
        job.folder(), job.name("crowd"), "tests.gauntlet:run_crowds",
        {"crowds": CROWDS[1:2] if planted else CROWDS, "shared": not base,
         "rounds": args.rounds},
        params=(*PATIENT, *(("sch_rate_group.race=1",) if planted else ())), timeout=3600,
        **job.machine)
    job.look(guest)
    for row in rows:
        say(f"{job.which}: {row}")
        if not row["packets"]:
            job.failed.append(f"{row['crowd']}: nothing was sent")
        job.passed += 1


def control(job: Job, args: SimpleNamespace) -> None:
    """A race of the series' own that must be found: what else was not is worth that."""
    crowd(job, args, planted=True)
    found, _ = sorted_races(job.which, job.races)
    job.races = []
    if not any("rate_group" in race for race in found):
        job.failed.append("the planted race was not found")


WORK = {"KUnit": kunit, "tdc": suites, "torture": operations, "crowd": crowd,
        "control": control}
KERNELS = {"kasan": [name for name in WORK if name != "control"], "kcsan": list(WORK)}
ALONE = {("kasan", "KUnit"): "kasan-um", ("kasan", "tdc"): "kasan-um"}  # one CPU is enough


def measure_base(args: SimpleNamespace) -> None:
    """What the unpatched kernel shows in crowds: gauntlet-base.json."""
    kernel.build("kcsan-base")
    job = Job("kcsan-base")
    crowd(job, args)
    _, others = sorted_races("kcsan-base", job.races)
    if job.failed:
        raise Die(job.failed[0])
    keep_result(BASE, {
        "what": "pairs of functions that race in crowds on the unpatched kernel; times",
        "races": dict(sorted(others.items()))})


TABLE = Table(
    ("kernel", "kernel", "", -8), ("job", "job", "", -10), ("passed", "passed", "", 8),
    ("failed", "failed", "", 8),
    ("races", lambda row: len(row["races"]) if "races" in row else None, "", 7),
    ("elsewhere", lambda row: len(row["elsewhere"]) if "elsewhere" in row else None, "", 11),
    ("s", "seconds", "", 7), ("  sources", lambda row: f"  {row['sources']}", "", -9))


def overview(rows: Collection[dict], known: Collection[str]) -> list[str]:
    """Lines: the table of all rows, and the races that are not in lines of the series.

    known: those that the base shows as well.
    """
    others = sum((collections.Counter(row.get("elsewhere", {})) for row in rows),
                 collections.Counter())
    return [*TABLE.lines(rows),
            *(f"race elsewhere: {pair} ({times} times"
              + (", on the base as well)" if pair in known else ")")
              for pair, times in sorted(others.items()))]


def carry_out(which: str, name: str, runs: str,
              args: SimpleNamespace) -> tuple[dict, list[str]]:
    """Do a job of a kernel: (its row, sentences about what failed). runs: the kernel built."""
    job, start = Job(runs), time.monotonic()
    row = {"kernel": which, "job": name, "sources": sources()}
    try:
        WORK[name](job, args)
    except Die as error:  # the other jobs are as much worth knowing
        job.failed.append(str(error))
    if job.race:
        ours, elsewhere = sorted_races(which, job.races)
        job.failed += [f"data race: {race} ({times} times)" for race, times in ours.items()]
        row |= {"races": dict(ours), "elsewhere": dict(sorted(elsewhere.items()))}
    row |= {"passed": job.passed, "failed": len(job.failed),
            "seconds": round(time.monotonic() - start)}
    return row, [f"{which} {name}: {sentence}" for sentence in job.failed]


def main(on: str = "", jobs: str = ",".join(WORK), ops: int = 0, long: bool = False,
         rounds: int = ROUNDS, base: bool = False, replay: str = "") -> None:
    """Build, run, print, judge; a whole run is stored.

    on: only this kernel. jobs: of these. ops: of torture. long: more of torture, and of tdc.
    rounds: changes in a crowd. base: first, the base's races. replay: a file with operations of
    torture.
    """
    wanted = known("job", jobs.split(","), WORK)
    which = known("kernel", [on] if on else KERNELS, KERNELS)
    args = SimpleNamespace(ops=ops, long=long, rounds=rounds, replay=replay)
    if base:
        measure_base(args)
    chosen = [(one, name) for one in which for name in KERNELS[one]
              if name in wanted]
    usual = (ops, rounds, replay) == (0, ROUNDS, "")
    rows, failed = [], []
    built = set()
    for which, name in chosen:
        runs = ALONE.get((which, name), which)
        if runs not in built:
            kernel.build(runs)
            built.add(runs)
        say(f"{which}: {name}")
        row, sentences = carry_out(which, name, runs, args)
        rows.append(row)
        failed += sentences
        print(TABLE.line(row), flush=True)
        if usual:
            keep_row(RECORD, "kernels that look for mistakes, on four CPUs; races: in lines of the "
                     "series, elsewhere: pairs of functions, times", row, ("kernel", "job"),
                     [(one, job) for one, jobs in KERNELS.items() for job in jobs])
    path = latest_result(BASE)
    old = json.loads(path.read_text())["races"] if path.exists() else ()
    print("\n".join(["", *overview(kept_rows(RECORD), old), ""]))
    verdict(sum(row["passed"] > 0 and not row["failed"] for row in rows), failed)
