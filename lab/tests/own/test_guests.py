# SPDX-License-Identifier: GPL-2.0
"""Bad luck of a guest must end a run with one sentence, never in silence.

Boots the patched kernel a few times, about a second each.
"""

import contextlib
import os
import tempfile
import unittest
import unittest.mock
from pathlib import Path

from guest import boot
from host import common
from series import kernel

from tests.own import sentence

KERNEL = common.BUILD / "um" / "linux"


class Guests(unittest.TestCase):
    """What a guest can do wrong, done on purpose."""

    def complaint(self, command, **kwargs):
        """Boot, run the command, return the complaint."""
        return boot.boot(KERNEL, "tooling", command, timeout=60, **kwargs).complaint()

    def test_good(self):
        """A command that ends well is no complaint."""
        self.assertIsNone(self.complaint("true"))

    def test_failure(self):
        """A command that fails."""
        self.assertIn("failed with 3", self.complaint("exit 3"))

    def test_no_verdict(self):
        """A guest that ends before its command does."""
        self.assertIn("without a verdict", self.complaint("busybox poweroff -f"))

    def test_splat(self):
        """A splat counts although the command ended well."""
        text = self.complaint("echo '<4>WARNING: CPU: 0 PID: 1 at x.c:1' >/dev/kmsg")
        self.assertIn("splat", text)

    def test_trace(self):
        """Of a splat, what the kernel says with it; with lines where vmlinux has them."""
        run = boot.boot(KERNEL, "tooling", "echo '<4>BUG: x' >/dev/kmsg; echo next >/dev/kmsg",
                        timeout=60)
        self.assertRegex(run.report(), "(?s)kernel splat 'BUG: x'.*BUG: x.*next")
        self.assertEqual(run.trace(["BUG: x"]), "")
        with tempfile.TemporaryDirectory() as folder:
            code, program = Path(folder) / "f.c", Path(folder) / "vmlinux"
            code.write_text("int g(int x);\nint f(int x)\n{\n\treturn g(x) + 1;\n}\n"
                            "int main(void) { return f(0); }\nint g(int x) { return x; }\n")
            common.run(["gcc", "-g", "-O0", "-no-pie", "-o", program, code], "tooling")
            log = "one\nWARNING: CPU: 0 at f+0x5/0x20\nCall Trace:\n f+0x15/0x20\n"
            text = boot.decoded(log, program)
            self.assertRegex(text, r"^WARNING: CPU: 0 at f \(.*f.c:[34]\)\nCall Trace:\n *f \(")
            self.assertIn("f+0x15/0x20", boot.decoded(log, Path(folder) / "none"))

    def test_panic(self):
        """A kernel that panics."""
        self.assertIn("Kernel panic", self.complaint("kill -SEGV 1; echo c >/proc/sysrq-trigger"))

    def test_hang(self):
        """A guest that never ends is killed and reported."""
        run = boot.boot(KERNEL, "tooling", "sleep 1000", timeout=4)
        self.assertIn("without a verdict", run.complaint())
        self.assertIn("killed", run.console)

    def test_virtual_time(self):
        """A minute of virtual time is free."""
        run = boot.boot(KERNEL, "tooling", "sleep 60", virtual=True, timeout=50)
        self.assertIsNone(run.complaint())

    def test_repeatable(self):
        """Two runs in virtual time give the same figures to 0.01 %."""
        spec = {"contender": "mq + cake shared", "scenarios": ["two queues"]}
        runs = [boot.boot_script("um", "tooling", "loads.scenarios:run_scenarios", spec,
                                 hop=kernel.module("patched"), virtual=True)[0]
                for _ in range(2)]
        self.assertAlmostEqual(runs[0][0]["deviation"], runs[1][0]["deviation"], 2)

    def test_one_cpu(self):
        """A guest with one CPU has one of the host's to itself, as long as there are some."""
        one, more = boot.Job("tooling", "true"), boot.Job("tooling", "true", cpus=2)
        host = os.sched_getaffinity(0)
        with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack, \
                unittest.mock.patch.object(boot, "BUILD", Path(folder)):
            (Path(folder) / "guest").mkdir()
            self.assertEqual(stack.enter_context(boot.one_cpu(KERNEL, more)), [])
            words = [stack.enter_context(boot.one_cpu(KERNEL, one)) for _ in range(len(host) + 1)]
            self.assertEqual({word[-1] for word in words[:-1]}, set(map(str, host)))
            self.assertEqual(words[-1], [])

    def test_read_only(self):
        """A guest cannot write to the host outside its folder."""
        target = common.BUILD / "tooling-was-here"
        self.complaint(f"touch {target} 2>/dev/null; true")
        self.assertFalse(target.exists())

    def test_no_kernel(self):
        """No kernel to boot."""
        self.assertIn("make build", sentence(self, boot.boot, "/nowhere", "tooling", "true"))
