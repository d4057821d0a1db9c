# SPDX-License-Identifier: GPL-2.0
"""Boot a kernel, run one command in it, and judge the outcome.

A kernel is User-Mode Linux, or an x86_64 one in QEMU, which emulates all of it: KVM is
not asked for, so that a run is the same on every host.

A guest passes when its command wrote exit code 0 and its log holds no splat.
Everything else - a panic, a hang, a kernel that never reached the command, a
WARNING in the log of a run that passed - is a failure.
"""

import importlib
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import threading
import time

from tree.common import BUILD, ROOT, Die, command_line, run, say
from tree.kernel import emulated, image

# What a kernel prints when something is wrong.
SPLAT = re.compile(
    r"WARNING: (?!.*(setlocale|locale))|BUG: |\bOops\b|Kernel panic|Call Trace:"
    r"|INFO: (possible|suspicious|trying|task|rcu)|suspicious RCU"
    r"|KASAN|KCSAN|UBSAN|general protection|refcount_t: |DEBUG_LOCKS_WARN"
    r"|unregister_netdevice: waiting|sleeping function called"
    r"|scheduling while atomic|list_(add|del) corruption|kmemleak: \d+ new"
)

START = 600  # s of host time in which an emulated kernel has to begin with its command

# What a kernel, as a program of the host, finds in its environment.
HOST_ENV = {"HOME": "/root", "PATH": os.environ["PATH"]}


def splats(text, allowed=()):
    """Return the lines of a kernel log that report trouble.

    allowed: regular expressions of lines that a run provokes on purpose.
    """
    return [
        line
        for line in text.splitlines()
        if SPLAT.search(line) and not any(re.search(a, line) for a in allowed)
    ]


class Guest:
    """The outcome of one boot: exit code, console and kernel log, job folder."""

    def __init__(self, job, rc, console, dmesg, seconds):
        self.job = job  # folder that the guest saw as /run/job
        self.rc = rc  # exit code of the command, None if there is none
        self.console = console  # text
        self.dmesg = dmesg  # text, empty if the guest died before it
        self.seconds = seconds  # host time, s

    def complaint(self, allowed=()):
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

    def judge(self, allowed=()):
        """Die if there is a complaint."""
        if complaint := self.complaint(allowed):
            raise Die(complaint)


def fixed_random():
    """Path of the shim that pins the guest's random numbers, built when needed."""
    source, shim = ROOT / "lab/guest/fixed_random.c", BUILD / "fixed_random.so"
    if not shim.exists() or shim.stat().st_mtime < source.stat().st_mtime:
        run(["gcc", "-O2", "-shared", "-fPIC", "-o", shim, source], "fixed_random")
    return str(shim)


def unstarted(kernel, job):
    """Whether QEMU runs a kernel that has not got as far as the job's command."""
    return emulated(kernel) and not os.path.exists(os.path.join(job, "started"))


def uml(kernel, mem, cpus, params):
    """The command that starts a UML kernel, with params and those that are its own."""
    args = [kernel, f"mem={mem}", "root=/dev/root", "rootfstype=hostfs", "rootflags=/",
            "con=null", "con0=fd:0,fd:1", "seccomp=on", "SHARE=hostfs"]
    if cpus > 1:
        args.append(f"ncpus={cpus}")
    # The same memory layout every time: part of what makes runs repeatable.
    return ["setarch", "-R", *args, *params]


def qemu(kernel, job, mem, cpus, params):
    """The same for an x86_64 kernel.

    ACPI does not route interrupts: its byte code takes minutes where every access is
    checked.
    """
    args = ["qemu-system-x86_64", "-accel", "tcg,thread=multi", "-cpu", "max", "-m", mem,
            "-smp", str(cpus), "-nodefaults", "-no-user-config", "-no-reboot",
            "-display", "none", "-serial", "stdio", "-kernel", kernel]
    for tag, path, more in (("root", "/", ",readonly=on"), ("job", job, ""),
                            ("checkout", ROOT, ",readonly=on")):
        args += ["-virtfs", f"local,path={path},mount_tag={tag},security_model=none,"
                 f"multidevs=remap{more}"]
    own = ("root=root rootfstype=9p rootflags=trans=virtio,version=9p2000.L,cache=loose,"
           "msize=262144 pci=noacpi console=ttyS0 log_buf_len=16M SHARE=9p")
    return [*args, "-append", " ".join([own, *params])]


def boot(kernel, *args, **more):
    """Run a shell command as root inside a kernel and return a Guest.

    Arguments are those of once(). A kernel in QEMU that does not get as far as the
    command is booted once more, which is said: before, several emulated CPUs sometimes
    wait for each other without end.
    """
    guest = once(kernel, *args, **more)
    if guest and unstarted(kernel, guest.job):
        say(f"{kernel} did not get as far as its command; booting it once more")
        guest = once(kernel, *args, **more)
    return guest


def once(
    kernel, name, command, env=None, files=(), virtual=False, mem="1G",
    timeout=600, on_line=None, interactive=False, cpus=1, params=(),
):
    """Boot a kernel once: what boot() does.

    kernel: path as of image(). name: of the job, a folder in
    build/guest that holds everything it read and wrote. files: copied into
    that folder first. virtual: use deterministic virtual time, which UML has.
    cpus: for a kernel that can have more than one. params: more of the kernel's
    own parameters. timeout: host seconds. on_line: called
    with each line that the guest adds to the file /run/job/progress; not the
    console, whose interrupts come when the host has time for them and would
    blur virtual time.
    """
    if not os.access(kernel, os.R_OK if emulated(kernel) else os.X_OK):
        raise Die(f"there is no kernel at {kernel}: run make build")
    job = os.path.join(BUILD, "guest", name)
    shutil.rmtree(job, ignore_errors=True)
    os.makedirs(job)
    for f in files:
        shutil.copy(f, job)
    guest_env = {
        "HOME": "/root",
        "PATH": f"{BUILD}/iproute2/tc:{BUILD}/iproute2/ip:"
        "/usr/sbin:/usr/bin:/sbin:/bin",
        **(env or {}),
    }
    with open(os.path.join(job, "environment"), "w") as f:
        for key, value in guest_env.items():
            f.write(f"export {key}={shlex.quote(str(value))}\n")
    with open(os.path.join(job, "command"), "w") as f:
        f.write(command + "\n")

    more = [
        "ro", f"init={ROOT}/lab/guest/init.sh", "PATH=/usr/sbin:/usr/bin:/sbin:/bin",
        f"JOB={job}", f"CHECKOUT={ROOT}",
        f"loglevel={1 if virtual else 5}", "norandmaps", "kunit.enable=0", "panic=-1",
    ]
    if virtual:
        more += ["time-travel=inf-cpu", "time-travel-start=1000000000"]
    more += params
    args = qemu(kernel, job, mem, cpus, more) if emulated(kernel) else uml(
        kernel, mem, cpus, more)
    host_env = {**HOST_ENV, **({"LD_PRELOAD": fixed_random()} if virtual else {})}

    start = time.monotonic()
    if interactive:
        subprocess.run(args, env=host_env, check=False)
        return None
    proc = subprocess.Popen(
        args, env=host_env, stdin=subprocess.DEVNULL, text=True,
        errors="replace", stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    hung = []

    def kill(after):
        hung.append(after)
        os.killpg(proc.pid, 9)

    def kill_unstarted():
        if unstarted(kernel, job):
            kill(START)

    timers = threading.Timer(timeout, kill, (timeout,)), threading.Timer(START, kill_unstarted)
    for timer in timers:
        timer.start()
    follower = threading.Thread(target=follow, args=(job, proc, on_line))
    if on_line:
        follower.start()
    console = []
    with open(os.path.join(job, "console.log"), "w", buffering=1) as log:
        for line in proc.stdout:
            console.append(line)
            log.write(line)
        proc.wait()
        for timer in timers:
            timer.cancel()
        if hung:
            line = f"lab: no end after {hung[0]} s of host time, killed\n"
            console.append(line)
            log.write(line)
    if on_line:
        follower.join()
    return Guest(
        job, _number(os.path.join(job, "rc")), "".join(console),
        _text(os.path.join(job, "dmesg")), time.monotonic() - start,
    )


def run_script(kernel, name, module, spec, hop=None, on_row=None, **more):
    """Boot a kernel that runs guest(spec) of a module in lab/: (rows, Guest).

    kernel: its folder, below build/ or absolute. name: of the job; two boots at
    the same time need two names. spec: what JSON can carry. rows: the dicts that
    guest() yields, as far as it got. hop: path of the module that lab/load/hop.py
    needs, if it is used. on_row: called with each row as it comes. more: as for
    boot(). Nothing is judged: that is left to the caller, or to boot_script().
    """
    rows = []

    def line(text):
        rows.append(json.loads(text))
        if on_row:
            on_row(rows[-1])

    words = [os.path.realpath(sys.executable), "-B", f"{ROOT}/lab", "inside", module,
             json.dumps(spec)]
    guest = boot(
        image(kernel), name, f"{shlex.join(words)} >/run/job/progress",
        env={"HOP_KO": hop} if hop else None, on_line=line, **more,
    )
    return rows, guest


def boot_script(*args, allowed=(), **more):
    """As run_script(), but Die on a complaint. allowed: as for splats()."""
    rows, guest = run_script(*args, **more)
    guest.judge(allowed)
    return rows, guest


def guest_main(module, spec):
    """What run_script() runs in the guest: print the rows of a module's guest()."""
    for row in importlib.import_module(module).guest(json.loads(spec)):
        print(json.dumps(row), flush=True)


def follow(job, proc, on_line):
    """Hand over the lines of the progress file until the guest has ended."""
    path, done, ended = os.path.join(job, "progress"), 0, False
    while not ended:
        ended = proc.poll() is not None
        whole = _text(path).rpartition("\n")[0].splitlines()
        for line in whole[done:]:
            on_line(line)
        done = len(whole)
        time.sleep(0.1)


def _text(path):
    try:
        with open(path, errors="replace") as f:
            return f.read()
    except FileNotFoundError:
        return ""


def _number(path):
    text = _text(path).strip()
    return int(text) if text.isdigit() else None


def main(argv):
    """lab inside: what run_script() runs in the guest."""
    parser = command_line("inside", "Run by the lab in a guest: guest(SPEC) of a module.")
    parser.add_argument("module", help="like load.scenarios")
    parser.add_argument("spec", help="JSON")
    args = parser.parse_args(argv)
    guest_main(args.module, args.spec)
