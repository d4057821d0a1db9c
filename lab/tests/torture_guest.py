# SPDX-License-Identifier: GPL-2.0
"""The guest's side of make torture: carries out operations under traffic, and judges."""

import collections
import enum
import json
import os
import re
import select
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NoReturn

from guest.boot import splats
from traffic.traffic import pktgen, tc

from tests.torture_plan import CLEANUP, QUEUES, SETUP, tour
from tests.torture_senders import LIBC, Flood, Sender, send_on

PATIENCE = 5  # s, with an answer for which there may have been no memory
SWEEP = 100  # allocations of an operation that are made to fail in turn, at most
SPARE = 512  # KiB
# Beside boot.SPLAT: SLUB's own reports, and lockdep that gives up.
MORE = re.compile(r"BUG \S+ \(|\bBUG: MAX_|turning off the locking"
                  r"|Slab \S+ Err|blocked for more than")
# pktgen says so when a device goes, or has less queues than a stream was set up for.
ALLOWED = (r"pktgen: WARNING: (trying to remove a running|Requested queue_map_m)",)
# Functions that own what must be freed with a tree, its device or its namespace.
JUDGED = re.compile(r"_*(qdisc|cake|tbf|mq|mqprio|rate_group|fq_codel|pfifo|bfifo|fifo|htb"
                    r"|netem|tc|tcf|cls|mall|gen|gnet|attach|alloc_netdev|netif_alloc"
                    r"|nsim|dummy|setup_net|copy_net_ns|net_alloc|pktgen)_")
TRACING = Path("/sys/kernel/debug/tracing")


class Log:
    """The kernel log, read on from where the last look ended.

    allowed: beside ALLOWED.
    """

    def __init__(self, allowed: Sequence[str]) -> None:
        self.file = os.open("/dev/kmsg", os.O_RDONLY | os.O_NONBLOCK)
        self.allowed = (*ALLOWED, *allowed)

    def trouble(self) -> str | None:
        """The first line since the last look that reports trouble, or None."""
        found = None
        while True:
            try:
                line = os.read(self.file, 8192).decode(errors="replace").partition(";")[2]
            except BlockingIOError:
                return found
            except BrokenPipeError:  # lines were overwritten: go on with the oldest
                continue
            line = line.split("\n")[0]
            if splats(line, self.allowed) or MORE.search(line):
                found = found or line


class Answer(enum.Enum):
    """What became of a line that a tc or ip was told."""

    YES = "accepted"
    NO = "refused"
    GONE = "the tool has ended"


class Trouble(Exception):
    """An operation did not end, or was refused though it must not be."""


def write(path: Path | str, text: str) -> bool:
    """Whether the kernel took a text for one of its files."""
    try:
        Path(path).write_text(text)
        return True
    except OSError:
        return False


def unload_module(name: str) -> bool:
    """Whether a module was there and went."""
    return not LIBC.syscall(176, name.encode(), os.O_NONBLOCK)  # delete_module() of x86-64


class Batch:
    """A tc or ip that stays, which saves the time of starting one for each line.

    It keeps its namespace alive, and remembers the numbers of devices by name.
    """

    def __init__(self, tool: str, space: str | None, limit: float) -> None:
        self.process = subprocess.Popen(
            [tool, *(["-n", space] if space else []), "-s", "-force", "-batch", "-"],
            stdin=subprocess.PIPE, bufsize=0, stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE)
        self.fail_nth = Path(f"/proc/{self.process.pid}/fail-nth")
        self.limit = limit
        self.count = 0

    def start(self, words: Sequence[str]) -> None:
        """Have it begin with a line. What is unknown marks its end."""
        self.process.stdin.write(f"{' '.join(words)}\nend\n".encode())
        self.count += 2

    def finish(self, patience: float = 0) -> Answer:
        """What became of the line.

        patience: s after which an answer that the kernel could not send does not
        come any more; 0 if that must not happen.
        """
        text, until = b"", time.monotonic() + self.limit
        while b"Command failed -:%d\n" % self.count not in text:
            pipe, left = self.process.stderr, until - time.monotonic()
            if left <= 0:
                hang(self.limit, self.process)
            if not select.select([pipe], [], [], patience or left)[0]:
                if patience and "netlink_recvmsg" in stack(self.process):
                    return Answer.GONE
                continue
            more = os.read(pipe.fileno(), 65536)
            if not more:
                return Answer.GONE
            text += more
        return Answer.NO if b"Command failed -:%d\n" % (self.count - 1) in text else Answer.YES

    def fail(self, nth: int, words: Sequence[str]) -> tuple[Answer, bool]:
        """Do a line whose nth allocation fails: as finish(), and whether it had so many.

        It must not be an allocation of the tool's own beginning, which may be its end.
        """
        if not self.count:
            self.start(["end"])
            self.finish()
        self.fail_nth.write_text(f"{nth}")
        self.start(words)
        answer = self.finish(PATIENCE)
        if answer is Answer.GONE:
            return answer, True
        failed = self.fail_nth.read_text().strip() == "0"
        self.fail_nth.write_text("0")
        return answer, failed

    def end(self) -> None:
        """Let it end."""
        self.process.stdin.close()
        self.process.stderr.close()
        if "netlink_recvmsg" in stack(self.process):
            self.process.kill()
        self.process.wait()


def stack(process: subprocess.Popen) -> list[str]:
    """The functions that a process sleeps in, the innermost one first."""
    return re.findall(r"(\w+)\+0x", Path(f"/proc/{process.pid}/stack").read_text())


def hang(limit: float, process: subprocess.Popen) -> NoReturn:
    """Have the kernel log who waits for what, and give up."""
    Path("/proc/sysrq-trigger").write_text("w")
    raise Trouble(f"no end after {limit} s, in {' < '.join(stack(process)[:12])}")


class Operator:
    """Carries out lines.

    limit: s that one may take. several: whether there are CPUs, and pktgen does not
    send. fail_nth: whether the kernel has allocations fail. failed: how many did.
    """

    def __init__(self, limit: float, several: bool) -> None:
        self.limit = limit
        self.several = several
        self.fail_nth = os.path.exists("/proc/self/fail-nth")
        self.failed = 0
        self.batches = {}

    def do(self, line: str) -> bool:
        """Whether a line was accepted. Trouble if it does not end."""
        words = line.split()
        if words[0] == "nsim":
            self.end(None)
        if words[-3:] == ["netns", "del", "n0"]:
            self.end("n0")
        good = self.carry_out(words)
        if "netns" in words and ("ip", None, 0) in self.batches:  # it keeps that open
            self.batches.pop(("ip", None, 0)).end()
        return good

    def carry_out(self, words: list[str]) -> bool:
        """do() for words."""
        if words[0] in ("tc", "ip"):
            return self.finish(self.start(words))
        if words[0] == "fail":
            return self.fail(words[1], words[2:])
        if words[0] == "both":
            middle = words.index("|")
            keys = self.start(words[1:middle]), self.start(words[middle + 1:], 1)
            done = [self.finish(key) for key in keys]  # wait for both, whatever the first did
            return all(done)
        if words[0] == "send":
            if not self.several:
                send_on(words[1], words[2] if len(words) > 2 else None)
            return True
        if words[0] == "nsim":
            return self.nsim(words[1])
        if words[0] == "rmmod":
            return unload_module(words[1])
        if words[0] == "unload":
            return self.unload(words[1])
        if words[0] == "sysctl":
            name, _, value = words[2].partition("=")
            return write(Path("/proc/sys", *name.split(".")), value)
        done = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        try:
            done.communicate(timeout=self.limit)
        except subprocess.TimeoutExpired:
            hang(self.limit, done)
        return done.returncode == 0

    def batch(self, words: list[str], number: int = 0) -> tuple[tuple, list[str]]:
        """The key of the process that a line of tc or ip is for, and what to tell it.

        number: 1 for a second process of this kind.
        """
        space, rest = (words[2], words[3:]) if words[1] == "-n" else (None, words[1:])
        key = words[0], space, number
        if key not in self.batches:
            self.batches[key] = Batch(words[0], space, self.limit)
        return key, rest

    def start(self, words: list[str], number: int = 0) -> tuple:
        """Begin with a line; the key of the process that carries it out."""
        key, rest = self.batch(words, number)
        self.batches[key].start(rest)
        return key

    def finish(self, key: tuple) -> bool:
        """Whether the line was accepted."""
        answer = self.batches[key].finish()
        if answer is Answer.GONE:
            raise Trouble(f"{key[0]} has ended")
        return answer is Answer.YES

    def fail(self, nth: str, words: list[str]) -> bool:
        """Do a line whose nth allocation fails, or the 1st, 2nd, 3rd and so on in turn."""
        if not self.fail_nth:
            return self.carry_out(words)
        for number in range(1, SWEEP) if nth == "all" else [int(nth)]:
            key, rest = self.batch(words)
            answer, failed = self.batches[key].fail(number, rest)
            if answer is Answer.GONE or "netns" in words:  # it needed that, or is in the wrong one
                self.batches.pop(key).end()
            if not failed:
                return answer is Answer.YES
            self.failed += 1
        return answer is Answer.YES if nth != "all" else self.carry_out(words)

    def nsim(self, word: str) -> bool:
        """Whether s0 was created, with queues that ethtool -L can take away, or deleted."""
        if word == "del":
            return write("/sys/bus/netdevsim/del_device", "1")
        if not write("/sys/bus/netdevsim/new_device", "1 1 4"):
            return False
        name = os.listdir("/sys/bus/netdevsim/devices/netdevsim1/net")[0]
        return self.carry_out(f"ip link set {name} name s0".split())

    def unload(self, module: str) -> bool:
        """Unload a module that nothing uses any more; Trouble if that is refused.

        Whether it was loaded.
        """
        write("/proc/sys/net/core/default_qdisc", "pfifo_fast")
        for space in ("", "-n n0 "):
            for dev in QUEUES:
                self.carry_out(f"tc {space}qdisc replace dev {dev} root pfifo".split())
        users = Path(f"/sys/module/{module}/refcnt")
        for _ in range(20):
            if module.startswith("sch_rate_group"):
                unload_module("sch_cake")
                unload_module("sch_tbf")
            if module == "sch_rate_group":
                unload_module("sch_rate_group_qdisc")
            if not users.exists():
                return False
            if unload_module(module):
                return True
            time.sleep(.25)  # a namespace that went takes its time
        raise Trouble(f"{module} cannot be unloaded: " + "; ".join(re.findall(
            r"^(sch_\w+ \d+ \d+ \S+)", Path("/proc/modules").read_text(), re.M)))

    def end(self, space: str | None) -> None:
        """End all processes in a namespace."""
        for key in [key for key in self.batches if key[1] == space]:
            self.batches.pop(key).end()


def allow_failures() -> None:
    """Have fail-nth act on all allocations from slabs, without a word in the log."""
    folder = Path("/sys/kernel/debug/failslab")
    for file, value in (("ignore-gfp-wait", "N"), ("cache-filter", "N"), ("verbose", "0")):
        write(folder / file, value)


def load_on_demand(folder: str) -> None:
    """Have the kernel find the modules that it was built with, in a folder."""
    script = Path("/run/modprobe")
    text = Path(__file__).with_name("torture-modprobe.sh").read_text()
    script.write_text(text.replace("@FOLDER@", folder))
    script.chmod(0o755)
    write("/proc/sys/kernel/modprobe", str(script))


def owners() -> collections.Counter:
    """Slab objects of each function that allocated some: Counter."""
    count = collections.Counter()
    for path in Path("/sys/kernel/debug/slab").glob("*/alloc_traces"):
        try:
            text = path.read_text(errors="replace")
        except OSError:
            continue
        for number, owner in re.findall(r"^ *(\d+) (\w[\w.]*)\+0x", text, re.M):
            count[owner] += int(number)
    return count


def large() -> int:
    """KiB of allocations too large for a slab, and of memory per CPU.

    The kernel counts the former with the slabs, which grow by being half empty.
    """
    text = Path("/proc/meminfo").read_text()
    slabs = [line.split() for line in Path("/proc/slabinfo").read_text().splitlines()[2:]]
    return sum(int(re.search(rf"^{key}: *(\d+)", text, re.M)[1])
               for key in ("Slab", "Percpu", "VmallocUsed")) - sum(
        4 * int(words[5]) * int(words[14]) for words in slabs)


def watch_frees() -> None:
    """Have the kernel trace what the code of shared blocks allocates and frees."""
    names = set(re.findall(r" (qdisc_shared_\w+)$", Path("/proc/kallsyms").read_text(), re.M))
    (TRACING / "buffer_size_kb").write_text("8192")
    for event in ("kmalloc", "kfree"):
        folder = TRACING / "events/kmem" / event
        (folder / "filter").write_text(
            " || ".join(f"call_site.function == {name}" for name in sorted(names)))
        (folder / "enable").write_text("1")


def freed_at_once() -> str:
    """Who freed a block that had had members without a grace period, or "" if nobody.

    One CPU shows no reader that suffers from this. A block is what takes more than
    a cache line; a new one may be freed where it was made.
    """
    large_ones, seen = set(), 0
    for event, site, pointer, size in re.findall(
            r"(kmalloc|kfree): call_site=(\w+)\S* ptr=(\S+)(?: bytes_req=(\d+))?",
            (TRACING / "trace").read_text()):
        seen += 1
        if event == "kmalloc" and int(size) > 64:
            large_ones.add(pointer)
        elif event == "kfree" and pointer in large_ones and site != "qdisc_shared_prepare":
            return site
        else:
            large_ones.discard(pointer)
    return "" if seen else "nobody, as nothing was traced"


def lockdep_on() -> bool:
    """Whether lockdep still checks, if there is one."""
    stats = Path("/proc/lockdep_stats")
    return not stats.exists() or bool(re.search(r"debug_locks: +1", stats.read_text()))


def free_all() -> None:
    """Free what is kept for its own sake: dentries, and KASAN's quarantine."""
    write("/proc/sys/vm/drop_caches", "2")
    for cache in Path("/sys/kernel/slab").iterdir():
        write(cache / "shrink", "1")


def leaks(before: collections.Counter, size: int) -> str:
    """What is there beyond the first count, as text; "" if nothing is."""
    more = owners() - before
    found = [f"{owner} +{number}" for owner, number in sorted(more.items())
             if JUDGED.match(owner)]
    grown = large() - size
    if grown > SPARE:
        found.append(f"{grown} KiB of memory")
    return ", ".join(found)


def settle(before: collections.Counter, size: int) -> str:
    """leaks(), once what is on its way to be freed has been: at most 20 s."""
    for _ in range(20):
        time.sleep(1)  # grace periods, and the work that frees a namespace
        free_all()
        found = leaks(before, size)
        if not found:
            break
    return found


def packets() -> int:
    """Packets that the qdiscs of devices in the first namespace have seen."""
    time.sleep(0.1)  # they may be new
    return sum(qdisc["packets"] for qdisc in json.loads(tc("-s -j qdisc show")))


def whole_run(lines: Sequence[str], log: Log, operator: Operator,
              on_line: Callable[[bool], None] | None = None) -> Iterator[dict]:
    """Set up, carry out, clean up. Stops at the first trouble: yields its row.

    on_line: called with whether each of the lines was accepted.
    """
    stages = ((SETUP, None), (lines, on_line), (CLEANUP, None))
    senders = [(Flood if operator.several else Sender)(space) for space in (None, "n0")]
    for stage, report in stages:
        if stage is CLEANUP:
            if not on_line and not packets():
                yield {"trouble": "nothing is sent", "at": None}
            for sender in senders:
                sender.stop()
        for number, line in enumerate(stage):
            try:
                good = operator.do(line)
                bad = log.trouble()
            except Trouble as trouble:
                good, bad = False, str(trouble)
            if report:
                report(good)
            if bad:
                yield {"trouble": f"{bad.strip()} (after '{line}')",
                       "at": number if stage is lines else None}
                return
    operator.end("n0")
    operator.end(None)


def knows_shared() -> bool:
    """Whether tc knows what is to be tested."""
    done = subprocess.run(["tc", "qdisc", "add", "cake", "help"], capture_output=True, check=False)
    return b"shared" in done.stderr


def ready(spec: dict) -> tuple[Log, Operator]:
    """Have the kernel trace, find modules and let allocations fail; its log from now on, and what
    carries out lines. spec: as for run_lines()."""
    log, operator = Log(spec["allowed"]), Operator(spec["limit"], spec["several"])
    pktgen("pgctrl", "reset")
    allow_failures()
    watch_frees()
    if spec["modules"]:
        load_on_demand(spec["modules"])
    else:  # none to look for, which takes long where devices are not there
        write("/proc/sys/kernel/modprobe", "\n")  # of which Flood asks a lot
    log.trouble()  # from boot
    return log, operator


def left_behind(before: collections.Counter, size: int) -> Iterator[str]:
    """What is wrong when all has been cleaned up, in sentences.

    before, size: what owners() and large() gave at first.
    """
    if found := settle(before, size):
        yield f"not freed: {found}"
    elif not before:
        yield "the kernel does not say who owns slab objects"
    if who := freed_at_once():
        yield f"a block was freed without a grace period, by {who}"
    if not lockdep_on():
        yield "lockdep has switched itself off"


def run_lines(spec: dict) -> Iterator[dict]:
    """Carry out the lines of /run/job/lines.txt and judge. Runs in the guest.

    spec: limit (s that an operation may take), modules (the folder that has them,
    None if they are built in), allowed (lines of the log that the caller looks at,
    beside ALLOWED), several (CPUs, in real time). Rows: {"trouble": text, "at": index
    of the line or None}, and at the end {"accepted": number, "refused": number,
    "failed": allocations that were made to}.
    """
    lines = Path("/run/job/lines.txt").read_text().splitlines()
    if not knows_shared():
        yield {"trouble": "this tc does not know what is to be tested", "at": None}
        return
    log, operator = ready(spec)
    for row in whole_run(tour(), log, operator):
        yield {**row, "at": None}
        return
    time.sleep(5)
    free_all()
    before, size = owners(), large()
    operator.failed = 0
    count = collections.Counter()

    def report(good):
        count[good] += 1

    bad = False
    for row in whole_run(lines, log, operator, report):
        bad = True
        yield row
    for sentence in () if bad else left_behind(before, size):
        yield {"trouble": sentence, "at": None}
    yield {"accepted": count[True], "refused": count[False], "failed": operator.failed}
