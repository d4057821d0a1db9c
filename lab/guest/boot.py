# SPDX-License-Identifier: GPL-2.0
"""Boot a kernel, run one command in it, and judge the outcome.

A kernel is User-Mode Linux, or an x86_64 one in QEMU, which emulates all of it: KVM is
not asked for, so that a run is the same on every host.

A guest passes when its command wrote exit code 0 and its log holds no splat.
Everything else - a panic, a hang, a kernel that never reached the command, a
WARNING in the log of a run that passed - is a failure.
"""

import contextlib
import fcntl
import importlib
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TextIO

from host.common import BUILD, ROOT, Die, compiled, say
from series.kernel import emulated, image, vmlinux

from guest import qemu

# What a kernel prints when something is wrong.
SPLAT = re.compile(
    r"WARNING: (?!.*(setlocale|locale))|BUG: |\bOops\b|Kernel panic|Call Trace:"
    r"|INFO: (possible|suspicious|trying|task|rcu)|suspicious RCU"
    r"|KASAN|KCSAN|UBSAN|general protection|refcount_t: |DEBUG_LOCKS_WARN"
    r"|unregister_netdevice: waiting|sleeping function called"
    r"|scheduling while atomic|list_(add|del) corruption|kmemleak: \d+ new"
)

DECODER = BUILD / "linux/scripts/decode_stacktrace.sh"
TRACE = 60  # lines of a log that are shown of a splat

# What a kernel, as a program of the host, finds in its environment.
HOST_ENV = {"HOME": "/root", "PATH": os.environ["PATH"]}


def splats(text: str, allowed: Sequence[str] = ()) -> list[str]:
    """Return the lines of a kernel log that report trouble.

    allowed: regular expressions of lines that a run provokes on purpose.
    """
    return [
        line
        for line in text.splitlines()
        if SPLAT.search(line) and not any(re.search(a, line) for a in allowed)
    ]


@dataclass
class Job:
    """A command that a kernel is to run, and how.

    name: a folder in build/guest that holds everything it read and wrote. command: for
    the shell. env: of the command. files: copied into that folder first. virtual: use
    deterministic virtual time, which UML has. timeout: s of host time; start: those in which
    an emulated kernel has to begin with the command. on_line: called
    with each line that the guest adds to the file /run/job/progress; not the console,
    whose interrupts come when the host has time for them and would blur virtual time.
    cpus: for a kernel that can have more than
    one. params: more of the kernel's own parameters. machine: for a kernel that QEMU runs.
    """

    name: str
    command: str
    env: dict[str, str] = field(default_factory=dict)
    files: Sequence[Path | str] = ()
    virtual: bool = False
    mem: str = "1G"
    timeout: float = 600
    start: float = 600
    on_line: Callable[[str], None] | None = None
    cpus: int = 1
    params: Sequence[str] = ()
    machine: qemu.Machine = qemu.Machine()

    @property
    def folder(self) -> str:
        """What the guest sees as /run/job."""
        return os.path.join(BUILD, "guest", self.name)


@dataclass
class Guest:
    """The outcome of one boot.

    job: the folder that the guest saw as /run/job. rc: exit code of the command, None if
    there is none. dmesg: empty if the guest died before it. seconds: of host time.
    kernel: what ran.
    """

    job: str
    rc: int | None
    console: str
    dmesg: str
    seconds: float
    kernel: Path | str

    def complaint(self, allowed: Sequence[str] = ()) -> str | None:
        """One sentence about what went wrong, or None."""
        log = os.path.join(self.job, "console.log")
        bad = splats(self.console + "\n" + self.dmesg, allowed)
        if bad:
            return f"kernel splat '{bad[0].strip()}': see {log}"
        if self.rc is None:
            return f"the guest ended without a verdict: see the end of {log}"
        if self.rc:
            return f"the guest's command failed with {self.rc}: see {log}"
        return None

    def trace(self, allowed: Sequence[str] = ()) -> str:
        """The first splat and what the kernel says with it, with lines of the source."""
        text = next((text for text in (self.dmesg, self.console) if splats(text, allowed)), "")
        return decoded(text, vmlinux(self.kernel), allowed)

    def report(self, allowed: Sequence[str] = ()) -> str | None:
        """complaint(), and trace() below it."""
        return "\n".join(filter(None, (self.complaint(allowed), self.trace(allowed)))) or None

    def judge(self, allowed: Sequence[str] = ()) -> None:
        """Die if there is a complaint."""
        if report := self.report(allowed):
            raise Die(report)


def decoded(text: str, symbols: Path, allowed: Sequence[str] = ()) -> str:
    """The first splat of a kernel log and TRACE lines from there, decoded; "" if none.

    symbols: path of the kernel's vmlinux. Without it, the tree's script, or line numbers
    in it (kernels here have them for the code of the series only), the lines are as they
    are in the log.
    """
    lines = text.splitlines()
    first = next((at for at, line in enumerate(lines) if splats(line, allowed)), None)
    if first is None:
        return ""
    raw = "\n".join(lines[first:first + TRACE])
    if not (symbols.exists() and DECODER.exists()):
        return raw
    try:
        done = subprocess.run([DECODER, symbols, DECODER.parents[1]], input=raw + "\n", text=True,
                              capture_output=True, check=False, timeout=60)
    except subprocess.TimeoutExpired:
        return raw
    if not re.search(r"\(\S+:\d", done.stdout):
        return raw
    return re.sub(r" \(\S*:\?\)", "", done.stdout.rstrip())


def fixed_random() -> str:
    """Path of the shim that pins the guest's random numbers, built when needed."""
    return str(compiled(BUILD / "fixed_random.so", ROOT / "lab/guest/fixed_random.c", "-shared",
                        "-fPIC"))


def unstarted(kernel: Path | str, job: Job) -> bool:
    """Whether QEMU runs a kernel that has not got as far as the job's command."""
    return emulated(kernel) and not os.path.exists(os.path.join(job.folder, "started"))


def uml(kernel: Path | str, job: Job, params: Sequence[str]) -> list[str]:
    """The command that starts a UML kernel, with params and those that are its own."""
    args = [str(kernel), f"mem={job.mem}", "root=/dev/root", "rootfstype=hostfs",
            "rootflags=/", "con=null", "con0=fd:0,fd:1", "seccomp=on", "SHARE=hostfs"]
    if job.cpus > 1:
        args.append(f"ncpus={job.cpus}")
    # The same memory layout every time: part of what makes runs repeatable.
    return ["setarch", "-R", *args, *params]


def in_qemu(kernel: Path | str, job: Job, params: Sequence[str]) -> list[str]:
    """The same for an x86_64 kernel.

    ACPI does not route interrupts: its byte code takes minutes where every access is
    checked. On a busy host the TSC seems to run unevenly, and the clock that the kernel
    would take instead is so slow that RCU stalls.
    """
    shares = []
    for tag, path, more in (("root", "/", ",readonly=on"), ("job", job.folder, ""),
                            ("checkout", ROOT, ",readonly=on")):
        shares += ["-virtfs", f"local,path={path},mount_tag={tag},security_model=none,"
                 f"multidevs=remap{more}"]
    own = ("root=root rootfstype=9p rootflags=trans=virtio,version=9p2000.L,cache=loose,"
           "msize=262144 pci=noacpi tsc=reliable console=ttyS0 log_buf_len=16M SHARE=9p")
    machine = job.machine
    return [*machine.before, *qemu.command(
        kernel, (own, *params), "-smp", f"{job.cpus},sockets={job.cpus}", *shares,
        *machine.words, mem=job.mem,
        accel=machine.accel, program=machine.program)]


def boot(kernel: Path | str, name: str, command: str, **how: Any) -> Guest:
    """Run a shell command as root inside a kernel.

    kernel: path as of image(). The rest is as in a Job. A kernel in QEMU that does not
    get as far as the command is booted once more, which is said: before, several
    emulated CPUs sometimes wait for each other without end.
    """
    job = Job(name, command, **how)
    guest = once(kernel, job)
    if unstarted(kernel, job):
        say(f"{kernel} did not get as far as its command; booting it once more")
        guest = once(kernel, job)
    return guest


def interact(kernel: Path | str, name: str, command: str) -> None:
    """As boot(), with the terminal as console."""
    job = Job(name, command)
    prepare(kernel, job)
    with one_cpu(kernel, job) as words:
        subprocess.run([*words, *command_of(kernel, job)], env=host_env(job), check=False)


def once(kernel: Path | str, job: Job) -> Guest:
    """Boot a kernel once: what boot() does."""
    prepare(kernel, job)
    start = time.monotonic()
    with one_cpu(kernel, job) as words:
        console = watched(kernel, job, [*words, *command_of(kernel, job)])
    return Guest(
        job.folder, _number(os.path.join(job.folder, "rc")), console,
        _text(os.path.join(job.folder, "dmesg")), time.monotonic() - start, kernel,
    )


def prepare(kernel: Path | str, job: Job) -> None:
    """Make the job's folder anew, with what the guest reads there; Die without a kernel."""
    if not os.access(kernel, os.R_OK if emulated(kernel) else os.X_OK):
        raise Die(f"there is no kernel at {kernel}: run make build")
    shutil.rmtree(job.folder, ignore_errors=True)
    os.makedirs(job.folder)
    for file in job.files:
        shutil.copy(file, job.folder)
    guest_env = {
        "HOME": "/root",
        "PATH": f"{BUILD}/iproute2/tc:{BUILD}/iproute2/ip:"
        "/usr/sbin:/usr/bin:/sbin:/bin",
        **job.env,
    }
    with open(os.path.join(job.folder, "environment"), "w") as f:
        for key, value in guest_env.items():
            f.write(f"export {key}={shlex.quote(str(value))}\n")
    with open(os.path.join(job.folder, "command"), "w") as f:
        f.write(job.command + "\n")


def command_of(kernel: Path | str, job: Job) -> list[str]:
    """The words that start a kernel for a job."""
    params = [
        "ro", f"init={ROOT}/lab/guest/init.sh", "PATH=/usr/sbin:/usr/bin:/sbin:/bin",
        f"JOB={job.folder}", f"CHECKOUT={ROOT}",
        f"loglevel={1 if job.virtual else 5}", "norandmaps", "kunit.enable=0", "panic=-1",
    ]
    if job.virtual:
        params += ["time-travel=inf-cpu", "time-travel-start=1000000000"]
    params += job.params
    return (in_qemu if emulated(kernel) else uml)(kernel, job, params)


@contextlib.contextmanager
def one_cpu(kernel: Path | str, job: Job) -> Iterator[list[str]]:
    """Words before the command of a guest that keep it on a CPU which no other guest has.

    UML and the programs in it take turns, and to hand over to another CPU takes the host twice
    as long. None, if the guest has several CPUs, runs in QEMU, or there is no CPU left.
    """
    if job.cpus > 1 or emulated(kernel):
        yield []
        return
    with contextlib.ExitStack() as stack:
        free = (cpu for cpu in sorted(os.sched_getaffinity(0))
                if claimed(stack.enter_context(open(BUILD / f"guest/cpu{cpu}", "w"))))
        cpu = next(free, None)
        yield [] if cpu is None else ["taskset", "-c", str(cpu)]


def claimed(file: TextIO) -> bool:
    """Lock an open file until it is closed, unless another has it locked."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def host_env(job: Job) -> dict[str, str]:
    """The environment in which the host starts a kernel for a job."""
    return {**HOST_ENV, **job.machine.env,
            **({"LD_PRELOAD": fixed_random()} if job.virtual else {})}


def watched(kernel: Path | str, job: Job, args: list[str]) -> str:
    """Start a kernel and read along until its end, or kill it; its console."""
    path, start, told = Path(job.folder, "console.log"), time.monotonic(), 0
    with open(path, "w") as log:
        proc = subprocess.Popen(args, env=host_env(job), stdin=subprocess.DEVNULL, stdout=log,
                                stderr=subprocess.STDOUT, start_new_session=True)
        try:
            while proc.returncode is None:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    proc.wait(0.1)
                if job.on_line:
                    told = hand_over(job, told)
                seconds = time.monotonic() - start
                if seconds > job.timeout or (seconds > job.start and unstarted(kernel, job)):
                    break
        finally:
            if proc.returncode is None:
                os.killpg(proc.pid, 9)
                proc.wait()
                log.seek(0, os.SEEK_END)
                log.write(f"lab: no end after {time.monotonic() - start:.0f} s of host time, "
                          "killed\n")
    return path.read_text(errors="replace")


def hand_over(job: Job, told: int) -> int:
    """Hand over the lines that the guest has added to its progress file; how many it has."""
    whole = _text(os.path.join(job.folder, "progress")).rpartition("\n")[0].splitlines()
    for line in whole[told:]:
        job.on_line(line)
    return len(whole)


def run_script(kernel: Path | str, name: str, module: str, spec: Any,
               hop: Path | str | None = None,
               on_row: Callable[[dict], None] | None = None, lockdep: bool = False,
               **more: Any) -> tuple[list, Guest]:
    """Boot a kernel that runs a function of a module in lab/ with a spec: (rows, Guest).

    kernel: its folder, below build/ or absolute. name: of the job; two boots at
    the same time need two names. spec: what JSON can carry. rows: the dicts that
    it yields, as far as it got. hop: path of the module that lab/traffic/hop.py
    needs, if it is used. on_row: called with each row as it comes. lockdep: whether that
    module leaves it on, which doubles the time that a load takes. more: as for
    boot(). Nothing is judged: that is left to the caller, or to boot_script().
    """
    rows = []

    def line(text):
        rows.append(json.loads(text))
        if on_row:
            on_row(rows[-1])

    words = [os.path.realpath(sys.executable), "-B", f"{ROOT}/lab", "boot", module,
             json.dumps(spec)]
    guest = boot(
        image(kernel), name, f"{shlex.join(words)} >/run/job/progress",
        env={"HOP_KO": hop, "HOP_LOCKDEP": int(lockdep)} if hop else {}, on_line=line, **more,
    )
    return rows, guest


def boot_script(*args: Any, allowed: Sequence[str] = (), **more: Any) -> tuple[list, Guest]:
    """As run_script(), but Die on a complaint. allowed: as for splats()."""
    rows, guest = run_script(*args, **more)
    guest.judge(allowed)
    return rows, guest


def _text(path):
    try:
        with open(path, errors="replace") as f:
            return f.read()
    except FileNotFoundError:
        return ""


def _number(path):
    text = _text(path).strip()
    return int(text) if text.isdigit() else None


def main(module: str, spec: str) -> None:
    """What run_script() runs in the guest: print the rows that a function yields.

    module: like traffic.tcp:measure_cases. spec: JSON.
    """
    name, _, function = module.partition(":")
    for row in getattr(importlib.import_module(name), function)(json.loads(spec)):
        print(json.dumps(row), flush=True)
