# SPDX-License-Identifier: GPL-2.0
"""Bad luck of a guest must end a run with one sentence, never in silence.

Boots the patched kernel a few times, about a second each.
"""

import contextlib
import os
import re

import pytest
from guest import boot
from host import common
from series import kernel

KERNEL = common.BUILD / "um" / "linux"


def complaint(command, **kwargs):
    """Boot, run the command, return the complaint."""
    return boot.boot(KERNEL, "tooling", command, timeout=60, **kwargs).complaint()


def test_good():
    """A command that ends well is no complaint."""
    assert complaint("true") is None


@pytest.mark.parametrize(("command", "words"), [
    ("exit 3", "failed with 3"),
    ("busybox poweroff -f", "without a verdict"),
    ("echo '<4>WARNING: CPU: 0 PID: 1 at x.c:1' >/dev/kmsg", "splat"),
    ("kill -SEGV 1; echo c >/proc/sysrq-trigger", "Kernel panic"),
], ids=["failure", "no verdict", "splat", "panic"])
def test_bad(command, words):
    """A failure, an end before the command's, a splat although that went well, a panic are told."""
    assert words in complaint(command)


def test_trace(tmp_path):
    """What the kernel says with a splat is shown, with lines of the source if vmlinux has them."""
    run = boot.boot(KERNEL, "tooling", "echo '<4>BUG: x' >/dev/kmsg; echo next >/dev/kmsg",
                    timeout=60)
    assert re.search("(?s)kernel splat 'BUG: x'.*BUG: x.*next", run.report())
    assert run.trace(["BUG: x"]) == ""
    code, program = tmp_path / "f.c", tmp_path / "vmlinux"
    code.write_text("int g(int x);\nint f(int x)\n{\n\treturn g(x) + 1;\n}\n"
                    "int main(void) { return f(0); }\nint g(int x) { return x; }\n")
    common.run(["gcc", "-g", "-O0", "-no-pie", "-o", program, code], "tooling")
    log = "one\nWARNING: CPU: 0 at f+0x5/0x20\nCall Trace:\n f+0x15/0x20\n"
    assert re.search(r"^WARNING: CPU: 0 at f \(.*f.c:[34]\)\nCall Trace:\n *f \(",
                     boot.decoded(log, program))
    assert "f+0x15/0x20" in boot.decoded(log, tmp_path / "none")


def test_hang():
    """A guest that never ends is killed and reported."""
    run = boot.boot(KERNEL, "tooling", "sleep 1000", timeout=4)
    assert "without a verdict" in run.complaint()
    assert "killed" in run.console


def test_virtual_time():
    """A minute of virtual time is free."""
    run = boot.boot(KERNEL, "tooling", "sleep 60", virtual=True, timeout=50)
    assert run.complaint() is None


def test_repeatable():
    """Two runs in virtual time give the same figures to 0.01 %."""
    spec = {"contender": "mq + cake shared", "scenarios": ["two queues"]}
    one, other = (boot.boot_script("um", "tooling", "loads.scenarios:run_scenarios", spec,
                                   hop=kernel.module("patched"), virtual=True)[0]
                  for _ in range(2))
    assert one[0]["deviation"] == pytest.approx(other[0]["deviation"], abs=.005)


def test_one_cpu(tmp_path, monkeypatch):
    """A guest with one CPU has one of the host's to itself, as long as there are some."""
    monkeypatch.setattr(boot, "BUILD", tmp_path)
    (tmp_path / "guest").mkdir()
    one, more = boot.Job("tooling", "true"), boot.Job("tooling", "true", cpus=2)
    host = os.sched_getaffinity(0)
    with contextlib.ExitStack() as stack:
        assert stack.enter_context(boot.one_cpu(KERNEL, more)) == []
        words = [stack.enter_context(boot.one_cpu(KERNEL, one)) for _ in range(len(host) + 1)]
    assert {word[-1] for word in words[:-1]} == set(map(str, host))
    assert words[-1] == []


def test_read_only():
    """A guest cannot write to the host outside its folder."""
    target = common.BUILD / "tooling-was-here"
    complaint(f"touch {target} 2>/dev/null; true")
    assert not target.exists()


def test_no_kernel():
    """Without a kernel to boot, the sentence says what makes one."""
    with pytest.raises(common.Die, match="make build"):
        boot.boot("/nowhere", "tooling", "true")
