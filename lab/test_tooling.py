# SPDX-License-Identifier: GPL-2.0
"""Tests of the lab: bad luck must end a run with one sentence, never in silence.

Boots the patched kernel a few times, about a second each.
"""

import ast
import contextlib
import graphlib
import importlib.util
import io
import json
import os
import re
import runpy
import sys
import tempfile
import unittest
import unittest.mock
from pathlib import Path

import miniature
from gates import (
    changes,
    check,
    check_patches,
    check_series,
    coverage,
    gauntlet,
    kunit,
    mutants,
    tdc,
    torture,
)
from guest import boot
from load import scenarios, table
from measure import reported, smp
from tree import common, kernel, setup, tree
from tree.kernel import BROKEN
from tree.mutate import mutated, read_list

KERNEL = common.BUILD / "um" / "linux"
RESULTS = common.ROOT / "results"
DOCUMENTATION = "Documentation/networking"


def sentence(case, call, *args, **kwargs):
    """Call something that must Die; return what it says."""
    with case.assertRaises(common.Die) as caught:
        call(*args, **kwargs)
    return str(caught.exception)


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
        runs = [boot.boot_script("um", "tooling", "measure.demo", ["mq + cake shared"],
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


class Inputs(unittest.TestCase):
    """Bad input and missing things."""

    def test_wrong_sha(self):
        """A damaged download is deleted and reported."""
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "half.deb"
            path.write_bytes(b"half a download")
            self.assertIn("damaged", sentence(self, setup.verified, path, "0" * 64))
            self.assertFalse(path.exists())

    def test_not_a_tree(self):
        """KERNEL= names something that is no kernel tree."""
        self.assertIn("not a Linux source tree",
                      sentence(self, setup.kernel, "/tmp"))

    def test_missing_tool(self):
        """A program that is not there."""
        self.assertIn("missing", sentence(self, common.run, ["no-such-program"], "tooling"))

    def test_full_disk(self):
        """A disk without the space that a step needs."""
        self.assertIn("free", sentence(self, common.need_disk, 10**6))

    def test_patch_does_not_apply(self):
        """git am of a patch that does not fit leaves nothing behind."""
        patch = next(p for p in common.KERNEL.patches() if "\n--- a/" in p.read_text())
        with tempfile.TemporaryDirectory() as folder:
            env = common.git_env(**common.identity("T", "t@example.com"))
            common.git(folder, "init", "-q")
            common.git(folder, "commit", "-q", "--allow-empty", "-m", "x", env=env)
            applied, _ = common.am_patch(folder, patch)
            self.assertFalse(applied)
            self.assertFalse((Path(folder) / ".git/rebase-apply").exists())


class NextYear(unittest.TestCase):
    """What happens when the pinned kernel is gone, in a miniature without a network."""

    def setUp(self):
        """A checkout of its own."""
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.mini = miniature.Miniature(Path(folder.name))

    def line(self, number):
        """A line of the source in build/linux."""
        return (self.mini.linux / miniature.FILE).read_text().splitlines()[number]

    def applied(self, **env):
        """What applying says, which has to succeed."""
        status, text = self.mini.apply(**env)
        self.assertEqual(status, 0, text)
        self.assertEqual(self.line(20), "int series;")
        return text

    def test_pinned(self):
        """The pinned file in the cache is taken as it is."""
        self.mini.pinned.rename(self.mini.downloads / self.mini.pinned.name)
        text = self.applied()
        self.assertIn("Linux 7.3.4", text)
        self.assertNotIn("NOTE", text)

    def test_newest(self):
        """The archive's newest 7.x instead of what is gone, with a merge, said loudly."""
        offered = [self.mini.package(*what) for what in
                   (("7.2.9",), ("7.4.1",), ("7.10.2", "near"), ("8.0.1", "same"))]
        self.mini.offer(*offered)
        text = self.applied()
        for words in ("IS GONE FROM THE ARCHIVE; TAKING linux-source-7.10_7.10.2",
                      "build/linux IS Linux 7.10.2", "needed a 3-way merge"):
            self.assertIn(words, text)
        self.assertEqual(self.line(17), "int changed_in_7_10_2;")
        text = self.applied()  # once more
        self.assertIn("build/linux IS Linux 7.10.2", text)
        self.assertNotIn("unpacking", text)
        self.mini.pinned.rename(self.mini.downloads / self.mini.pinned.name)
        self.assertNotIn("7.10.2", self.applied().partition("anew from pin")[2])

    def test_fresh(self):
        """A machine that never had the pinned kernel: the series applies as it is."""
        (self.mini.downloads.parent / tree.BASE_FILES.name).unlink()
        self.mini.offer(self.mini.package("7.4.1"))
        text = self.applied()
        self.assertIn("build/linux IS Linux 7.4.1", text)
        self.assertIn("have to apply as they are", text)

    def test_fresh_conflict(self):
        """The same, where only a merge would do: the sentence says what to put where."""
        (self.mini.downloads.parent / tree.BASE_FILES.name).unlink()
        self.mini.offer(self.mini.package("7.4.1", "near"))
        status, text = self.mini.apply()
        self.assertEqual(status, 1)
        self.assertIn(f"put {self.mini.pinned.name} (SHA-256", text)

    def test_gone(self):
        """An archive with nothing of use: the sentence says what to put where."""
        self.mini.offer(self.mini.package("8.0.1"))
        status, text = self.mini.apply()
        self.assertEqual(status, 1)
        self.assertIn(f"put {self.mini.pinned.name} (SHA-256", text)

    def test_conflict(self):
        """The series does not fit the newest."""
        self.mini.offer(self.mini.package("7.9.1", "same"))
        status, text = self.mini.apply()
        self.assertEqual(status, 1)
        self.assertIn("does not apply to the base", text)
        self.assertIn(f"put {self.mini.pinned.name} (SHA-256", text)

    def test_tarball(self):
        """LINUX_TARBALL= is a pristine kernel: the same version, and another one."""
        text = self.applied(LINUX_TARBALL=str(self.mini.tarball("7.3.4")))
        self.assertIn("build/linux IS Linux 7.3.4", text)
        self.assertNotIn("merge", text)
        text = self.applied(LINUX_TARBALL=str(self.mini.tarball("7.8.0", "near")))
        self.assertIn("build/linux IS Linux 7.8.0", text)
        self.assertIn("needed a 3-way merge", text)

    def test_hosts(self):
        """Debian and what is like it will do; others are told of the container."""
        for good in ("ID=debian", 'ID=devuan\nID_LIKE="debian"'):
            self.assertEqual(setup.wrong_host(good), "")
        for bad in ('ID=ubuntu\nID_LIKE=debian\nPRETTY_NAME="Ubuntu 26.04"',
                    "ID=fedora\nPRETTY_NAME=Fedora", ""):
            self.assertIn("Containerfile", setup.wrong_host(bad))
        self.assertTrue((common.ROOT / "Containerfile").exists())


class Ladder(unittest.TestCase):
    """Where series end, in a small tree: commits a, b, c, d, e on a base."""

    def setUp(self):
        """A tree with the series 1-x (one patch; it ends at b), 2-y (none), and 3-z."""
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        series = [common.Series(name, "PATCH").below(self.folder / "patches")
                  for name in ("1-x", "2-y", "3-z")]
        self.tree = common.Tree("ladder-test", series)
        self.tree.dir = self.folder / "tree"
        self.tree.dir.mkdir()
        self.tree.git("init", "-q")
        self.commits = {text: self.commit(text) for text in ("base", *"abcde")}
        self.tree.git("tag", "base", self.commits["base"])
        self.tag("1-x", "b")
        self.patch("1-x", "[PATCH 1/1] net: x\n")

    def commit(self, text):
        """An empty commit; its id."""
        env = common.git_env(**common.identity("T", "t@example.com"))
        self.tree.git("commit", "-q", "--allow-empty", "-m", text, env=env)
        return self.tree.git("rev-parse", "HEAD")

    def tag(self, folder, text):
        """Say where a series ends."""
        self.tree.git("tag", "-f", f"end/{folder}", self.commits[text])

    def patch(self, folder, subject):
        """Give a series a patch."""
        path = self.folder / "patches" / folder / "0001-x.patch"
        path.parent.mkdir(parents=True)
        path.write_text(f"From 0\nFrom: T <t@example.com>\nSubject: {subject}\n")

    def ends(self):
        """Where the series end, as {folder: subject}."""
        return {tag.removeprefix("end/"): self.tree.git("log", "-1", "--format=%s", end)
                for tag, end in self.tree.ends().items()}

    def test_last(self):
        """The last series ends at HEAD, wherever its tag is; a tag makes a series."""
        self.assertEqual(self.ends(), {"1-x": "e"})
        self.tag("3-z", "c")
        self.assertEqual(self.ends(), {"1-x": "b", "3-z": "e"})
        self.tag("2-y", "d")
        self.assertEqual(self.ends(), {"1-x": "b", "2-y": "d", "3-z": "e"})

    def test_rebase(self):
        """A tag that a rebase left behind means the commit with its subject."""
        self.tag("2-y", "d")
        self.tag("3-z", "e")
        self.tree.git("reset", "-q", "--hard", self.commits["a"])
        for text in "bcxde":
            self.commit(text)
        self.assertEqual(self.ends(), {"1-x": "b", "2-y": "d", "3-z": "e"})
        self.tree.git("reset", "-q", "--hard", "HEAD~2")
        self.assertIn("set it to", sentence(self, self.tree.ends))

    def test_order(self):
        """Series that end before those before them, or nowhere."""
        self.tag("2-y", "a")
        self.tag("3-z", "e")
        self.assertIn("before the end", sentence(self, self.tree.ends))
        self.tag("2-y", "b")
        self.tree.git("tag", "-d", "end/1-x")
        self.assertIn("end/1-x is not in the history", sentence(self, self.tree.ends))

    def test_upto(self):
        """A series by folder or number; of two with the same number the last one."""
        def upto(name):
            return [series.folder for series in common.KERNEL.upto(name)]

        self.assertEqual(upto("0"), ["0-fixes", "0-next"])
        self.assertEqual(upto("0-fixes"), ["0-fixes"])
        self.assertEqual(len(upto("2")), 4)
        self.assertIn("no series 'x'", sentence(self, common.KERNEL.upto, "x"))

    def test_form(self):
        """A series has a prefix, a cover letter, and is short; a fix says of what."""
        series = self.tree.series[0]
        series.cover = self.folder / "cover-letter.txt"
        self.assertIn("no cover letter", check_series.series_form(series)[0])
        series.cover.write_text("subject\n" * 71)
        (series.dir / tree.COVER).write_text("Subject: [PATCH 0/1] net: x\n 1 file changed\n")
        self.assertEqual(check_series.series_form(series),
                         ["1-x: a cover letter of 71 lines, more than 70"])
        patch, = series.patches()
        self.assertEqual(check_patches.lacks_fixes(patch, "PATCH net-next", ["net/x.c"]), [])
        self.assertTrue(check_patches.lacks_fixes(patch, "PATCH net", ["net/x.c"]))


class Documents(unittest.TestCase):
    """Figures in texts are those in results/."""

    def test_demo(self):
        """The transcript of make demo has every line of the table, and figures like these.

        A recorded figure must be the same, one that this machine measured again
        is on the same side of its bound, if it has one.
        """
        results = table.stored()
        lines = iter((RESULTS / "demo.md").read_text().splitlines())
        for row in table.ROWS:
            self.assertIn(row.title, lines)
            for label, bound in zip(row.cells, row.bounds):
                told = next(lines)
                self.assertEqual(told[4:42].strip(), label)
                for at, which in zip((42, 54), table.COLUMNS):
                    self.assertEqual(told[at:at + 12].strip(), row.text(label, results[which]))
                if bound is not None:
                    value = float(told[66:78])
                    good = value >= bound if row.at_least else abs(value) <= bound
                    self.assertTrue(good, told)

    def test_brief(self):
        """What make demo runs by default is there."""
        there = {*scenarios.CAKE_MQ, *scenarios.tcp_cases()} | {
            f"{contender}: {name}" for contender, names in table.also_run().items()
            for name in names}
        self.assertEqual(table.BRIEF - there, set())

    @unittest.skipUnless(reported.RESULTS.exists(), "make reported has not been recorded yet")
    def test_reported(self):
        """The guide has the table of make reported."""
        lines = reported.table(json.loads(reported.RESULTS.read_text())["columns"])
        self.assertTrue("\n".join(lines) in reported.GUIDE.read_text(),
                        "put this into module/README.md:\n" + "\n".join(lines))

    def test_coverage(self):
        """results/tests.md has the table of coverage."""
        figures = json.loads(coverage.RESULTS.read_text())["files"]
        table = "\n".join(coverage.table(figures, coverage.explanations()))
        self.assertTrue(table in (RESULTS / "tests.md").read_text(),
                        "run 'python3 -B lab coverage --again --record'")

    @unittest.skipUnless(check.RESULTS.exists(), "no whole make check has been recorded yet")
    def test_checks(self):
        """The table of make check: as recorded, for the patches that are here."""
        results = json.loads(check.RESULTS.read_text())
        text = "\n".join(check.table_lines(results))
        self.assertTrue(f"```\n{text}\n```\n" in (RESULTS / "tests.md").read_text(),
                        "run 'make check RECORD=1'")
        there = [f"{p.parent.name}/{p.name}" for tree in (common.KERNEL, common.IPROUTE2)
                 for p in tree.patches()]
        self.assertEqual(list(results["patches"]), there, "run 'make check'")

    def test_counts(self):
        """What results/tests.md counts is what is recorded."""
        def read(name):
            return json.loads((RESULTS / f"{name}.json").read_text())

        suites, old = read("tdc")["suites"], read("tdc-base")["suites"]
        whose = tdc.owners(suites, old)
        gauntlet_jobs = read("gauntlet")["rows"]
        text = (RESULTS / "tests.md").read_text()
        for words in (
                f"| {read('kunit')['passed']} cases pass",
                f"| {len(read('mutants')['mutants'])} rules broken",
                f"| {sum(map(len, old.values()))} cases of the base's own suites",
                f"unpatched kernel; {whose['the series'] + whose['the lab']} new cases pass: "
                f"{whose['the series']} of the series, {whose['the lab']} of the lab |",
                f"| {len(read('compat-base')['commands'])} old commands",
                f"| {read('torture')['operations']:,} operations in "
                f"{read('torture')['seconds'] / 60:.0f} minutes",
                *(f"{r['kernel']:<8}{r['job']:<8}{r['passed']:>10}{r['failed']:>8}"
                  for r in gauntlet_jobs)):
            self.assertIn(words, text)

    def test_bench(self):
        """results/bench.md has the figures that make bench and make cost recorded."""
        text = (RESULTS / "bench.md").read_text()
        for row in json.loads((RESULTS / "bench.json").read_text())["rows"]:
            self.assertRegex(text, rf"(?m)^{row['case']} .* {row['ratio']:.2f} ")
        for row in json.loads((RESULTS / "cost.json").read_text())["rows"]:
            counts = f"| {row['base']:.0f} | {row['patched']:.0f} | {row['ratio']:.4f} |"
            self.assertIn(counts, text)
        speeds = json.loads((RESULTS / "smp.json").read_text())["speeds"]
        for row in speeds:
            self.assertRegex(text, rf"(?m)^{row['case']} +{row['label']} .* {row['ratio']:.2f} ")

    def test_bound(self):
        """What make bench holds two CPUs to is the bound that the documentation states."""
        text = (common.ROOT / DOCUMENTATION / "qdisc-shared-algorithms.rst").read_text()
        self.assertRegex(text, rf"\b{smp.bound(1e9, 8) / 1000:.0f} KB\b")


FRONT = (  # the rows of README.md's table: where their two figures are in results/
    ("scenarios", "flood 500", "small_p99", 1e6), ("scenarios", "flood 500", "bulk_off", 1),
    ("speeds", "1514 bytes, at 2 Gbit", "root htb", "shared htb"))
WIDE, LONG, WORDS = 100, 90, 900  # README.md has at most so many characters, lines, words


class Front(unittest.TestCase):
    """README.md says what is in results/, is short, and points to what is there."""

    def setUp(self):
        """Read it."""
        self.text = (common.ROOT / "README.md").read_text()

    def recorded(self, kind, name, *what):
        """The two figures of results/ that a row of FRONT names."""
        smp_rows = json.loads((RESULTS / "smp.json").read_text())
        if kind == "smp":
            row = next(row for row in smp_rows["bounds"] if row["case"] == name)
            return [row[key] / 1e9 * 100 for key in ("stock_bps", "bps")]
        if kind == "speeds":
            rate = smp.SPEEDS[name]
            speeds = {row["label"]: row["pps_2"] for row in smp_rows["speeds"]
                      if row["case"] == name}
            return [speeds[label] * rate[1] * 8 / rate[0] * 100 for label in what]
        stored, (key, unit) = table.stored(), what
        return [stored[which][name][key] * unit for which in ("base", "patched")]

    def test_table(self):
        """Each figure of the table is that of results/, rounded."""
        rows = re.findall(r"(?m)^\|[^|]*\| ([-+]?[\d.]+)[^|]*\| ([-+]?[\d.]+)[^|]*\|$", self.text)
        for figures, where in zip(rows, FRONT, strict=True):
            for figure, value in zip(figures, self.recorded(*where), strict=True):
                unit = 10 ** -len(figure.partition(".")[2])
                self.assertLessEqual(abs(float(figure) - value), 0.51 * unit,
                                     f"README.md has {figure}, results/ {value:.4f}: {where}")

    def test_commands(self):
        """Programs and make targets in README.md's blocks and inline commands exist."""
        targets = re.findall(r"(?m)^([a-z]+):.*## ", (common.ROOT / "Makefile").read_text())
        blocks = re.findall(r"(?ms)^```\n(.*?)^```$", self.text)
        lines = [line.partition("  #")[0] for block in blocks for line in block.splitlines()]
        lines += re.findall(r"`((?:sudo|make) [^`]+)`", self.text)
        known = {"apt", "ls", "make", "rmmod", "cake-tc", "tc"}
        run = [line.split() for line in lines if re.match(r"(sudo|ls|make) ", line)]
        self.assertGreater(len(run), 6)
        for words in run:
            program, *rest = words[1:] if words[0] == "sudo" else words
            self.assertIn(program, known, words)
            if program == "make":
                self.assertIn(rest[0], targets)
        for path in re.findall(r"(?<![\w/])\./(\w+)/", "\n".join(lines)):
            self.assertEqual(path, "build")

    def test_times(self):
        """How long the two commands take is what was recorded and committed."""
        recorded = common.git(common.ROOT, "show", "HEAD:results/times.json", check=False)
        if not recorded:
            self.skipTest("not a git repo")
        for target, times in json.loads(recorded).items():
            told = re.search(rf"`make {target}`[^()]*\((\d+) minutes\s+cold, (\d+)\s+warm\)",
                             self.text)
            self.assertTrue(told, f"README.md has no minutes of make {target}")
            for minutes, kind in zip(told.groups(), ("cold", "warm")):
                self.assertAlmostEqual(int(minutes), times[kind]["total_s"] / 60, delta=1,
                                       msg=f"make {target}, {kind}")

    def test_length(self):
        """A front page is one page."""
        lines = self.text.splitlines()
        self.assertLessEqual(len(lines), LONG)
        self.assertLessEqual(len(self.text.split()), WORDS)
        self.assertEqual([line for line in lines if len(line) > WIDE], [])

    def test_links(self):
        """What the pages link to is there, headings included."""
        def anchors(page):
            lines = page.read_text().splitlines()
            rst = page.suffix == ".rst"
            heads = (line.lstrip("# ").lower() for line, below in zip(lines, [*lines[1:], ""])
                     if (below[:1] in {"-", "="} if rst else line.startswith("#")))
            return {re.sub(r"[^\w -]", "", head).strip().replace(" ", "-") for head in heads}

        pages = [common.ROOT / "README.md", *RESULTS.glob("*.md"), *(
            common.ROOT / room / "README.md" for room in ("lab", "module", "patches"))]
        for page in pages:
            for link in re.findall(r"(?m)(?:\]\(|^\[\w+\]: )([^)\s]+)", page.read_text()):
                path, _, anchor = link.partition("#")
                if "://" in link:
                    continue
                target = (page.parent / path).resolve() if path else page
                self.assertTrue(target.exists(), f"{page.name}: {link}")
                if anchor:
                    self.assertIn(anchor, anchors(target), f"{page.name}: {link}")

    def test_targets(self):
        """lab/README.md has every target of the Makefile, and no other."""
        makefile = (common.ROOT / "Makefile").read_text()
        targets = re.findall(r"(?m)^([a-z]+):.*## ", makefile)
        told = re.findall(r"(?m)^\| `make ([a-z]+)` \|",
                          (common.ROOT / "lab/README.md").read_text())
        self.assertEqual(sorted(targets), sorted(told))


class Torture(unittest.TestCase):
    """What make torture does follows from a seed, and its faults fit the series."""

    def test_plan(self):
        """A seed gives the same operations again, of every kind."""
        lines = torture.Plan(1).lines(3000)
        self.assertEqual(lines, torture.Plan(1).lines(3000))
        self.assertNotEqual(lines, torture.Plan(2).lines(3000))
        for start in ("tc qdisc", "tc -n", "ip link", "ip netns", "ethtool", "sysctl", "send",
                      "nsim", "fail all", "both", "rmmod", "unload", "tc filter"):
            self.assertTrue(any(line.startswith(start) for line in lines), start)

    def test_faults(self):
        """The text of each fault is in the tree, and the loads that are to find it exist."""
        tree = common.BUILD / "linux"
        for listed in BROKEN.values():
            entries = read_list(listed)
            for path, text in mutated(tree, entries).items():
                self.assertNotEqual(text, (tree / path).read_text(), path)
            for load in {load for entry in entries for load in entry["loads"]}:
                self.assertTrue(load.startswith("changes ") or mutants.cells(load), load)


class Changes(unittest.TestCase):
    """What make changes does follows from a seed, and what is wrong is seen."""

    def test_plan(self):
        """A seed gives the same changes again, and all seeds those of every kind."""
        lines = [line for seed in range(40) for line in changes.Plan(seed, 40).ops]
        self.assertEqual(lines[:40], changes.Plan(0, 40).ops)
        for words in ("cake_mq", "ingress", "noshared", " mtu ", " down", "tbf rate", "inner",
                      "unlimited", "replace", "del", "overhead", "precedence"):
            self.assertTrue(any(words in line for line in lines), words)
        self.assertEqual(changes.slept(["a b; sleep 0.5; c", "sleep 1"]), 1.5)

    def test_judgement(self):
        """A rate that is not used, or exceeded, a share too small, a queue at the next hop."""
        good = {"kind": "cake", "deviation": .05, "jain": .995}
        self.assertEqual(changes.wrong({"excess": 2e4, "groups": [good, good]}), "")
        for bad, excess in (({"deviation": -.2}, 0), ({"deviation": .2}, 0), ({"jain": .98}, 0),
                            ({}, 5e4)):
            row = {"excess": excess, "groups": [good, {**good, **bad}]}
            self.assertTrue(changes.wrong(row), bad)


ROOMS = {  # room: rooms that it may import from, which are below it
    "tree": (),
    "guest": ("tree",),
    "load": ("tree", "guest"),
    "gates": ("tree", "guest", "load"),
    "measure": ("tree", "guest", "load"),
}


class Rooms(unittest.TestCase):
    """Who imports whom in lab/, and what each file begins with."""

    def uses(self):
        """{room.module: modules of rooms that it imports, or names to a guest}."""
        found = {}
        for path in (common.ROOT / "lab").glob("*/*.py"):
            name = f"{path.parent.name}.{path.stem}"
            found[name] = set()
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.Import):
                    found[name] |= {alias.name for alias in node.names}
                elif isinstance(node, ast.ImportFrom):
                    found[name] |= ({f"{node.module}.{alias.name}" for alias in node.names}
                                    if node.module in ROOMS else {node.module})
                elif isinstance(node, ast.Constant) and re.fullmatch(
                        rf"({'|'.join(ROOMS)})\.[a-z_]+", str(node.value)):
                    found[name].add(node.value)
        return {name: {use for use in uses if use in found} for name, uses in found.items()}

    def test_downward(self):
        """A room imports from itself and those below it."""
        uses = self.uses()
        self.assertEqual({name.partition(".")[0] for name in uses}, set(ROOMS))
        for name, used in uses.items():
            room = name.partition(".")[0]
            for use in used:
                self.assertIn(use.partition(".")[0], (room, *ROOMS[room]), f"{name}: {use}")

    def test_cycles(self):
        """No module needs itself."""
        order = graphlib.TopologicalSorter(
            {name: used - {name} for name, used in self.uses().items()})
        self.assertGreater(len(list(order.static_order())), 30)

    def test_hints(self):
        """Public functions say what they take and give."""
        for path in (common.ROOT / "lab").glob("*/*.py"):
            for node in ast.walk(ast.parse(path.read_text())):
                if not isinstance(node, ast.ClassDef | ast.Module):
                    continue
                for one in node.body:
                    if isinstance(one, ast.FunctionDef) and not one.name.startswith("_"):
                        args = one.args.args + one.args.kwonlyargs
                        self.assertTrue(one.returns and all(
                            arg.annotation for arg in args if arg.arg != "self"),
                            f"{path.name}: {one.name}")

    def test_licence(self):
        """Every file of lab/ that can have a comment begins with its licence."""
        for path in common.git(common.ROOT, "ls-files", "lab").split():
            if not path.endswith((".json", ".md")):
                head = (common.ROOT / path).read_text().splitlines()[:2]
                self.assertIn("SPDX-License-Identifier: ", " ".join(head), path)


class CommandLine(unittest.TestCase):
    """Verbs of lab/ say what they do, and understand what make tells them."""

    lab = runpy.run_path(str(common.ROOT / "lab/__main__.py"))

    def told(self, verb, *words):
        """What a verb prints that ends at once, and its status."""
        text = io.StringIO()
        with contextlib.redirect_stdout(text), contextlib.redirect_stderr(text), \
                self.assertRaises(SystemExit) as end:
            self.lab["run"](verb, words)
        return text.getvalue(), end.exception.code

    def test_help(self):
        """--help prints help and does nothing."""
        for verb, (module, _) in self.lab["VERBS"].items():
            if module != "measure.plots" or importlib.util.find_spec("matplotlib"):
                text, status = self.told(verb, "--help")
                self.assertEqual(status, 0, verb)
                self.assertIn(f"usage: python3 -B lab {verb}", text)

    def test_unknown(self):
        """A word that a verb does not know, and a number that is none."""
        self.assertEqual(self.told("bench", "--round", "1")[1], 2)
        self.assertIn("invalid int", self.told("torture", "--seed", "x")[0])
        self.assertIn("no kernel", self.told("kernel", "nonsense")[0])

    def test_record(self):
        """Nothing is written to results/ but with RECORD=1 or --record."""
        with unittest.mock.patch.dict(os.environ):
            os.environ.pop("RECORD", None)
            self.assertEqual(common.result_file("x"), common.BUILD / "results/x")
            self.assertEqual(common.latest_result("never.json"), RESULTS / "never.json")
            common.command_line("x", "", record=True).parse_args(["--record"])
            self.assertEqual(common.result_file("x"), RESULTS / "x")
        writes = re.compile(r"RESULTS|RECORD\b|REPORT|TEXT|\"results|results/")
        for path in (common.ROOT / "lab").glob("*/*.py"):
            for line in path.read_text().splitlines():
                if re.search(r"write_(text|bytes)\(|savefig\(|open\(.*\"[wa]", line):
                    other = re.sub(r"result_file\([^)]*\)", "", line)
                    self.assertFalse(writes.search(other), f"{path.name}: {line}")

    def test_tables(self):
        """Tables take the place of those that begin alike, all of them; others stay."""
        with tempfile.TemporaryDirectory() as name, \
                unittest.mock.patch.dict(os.environ, {"RECORD": "1"}), \
                unittest.mock.patch.object(common, "RESULTS", Path(name)):
            page = Path(name) / "x.md"
            page.write_text("```\na\n1\n```\n```\nb\n2\n```\n```\nc\n3\n```\n")
            common.put_tables(["a", "4"], ["c", "5"], report="x.md")
            self.assertEqual(page.read_text(),
                             "```\na\n4\n```\n```\nb\n2\n```\n```\nc\n5\n```\n")
            with self.assertRaises(common.Die):
                common.put_tables(["d"], report="x.md")

    def test_make(self):
        """The Makefile gives verbs only options that they have."""
        lines = re.findall(r"(?m)^\t@\$\(LAB\) (.*)$", (common.ROOT / "Makefile").read_text())
        for line in lines:
            verb, *words = re.sub(r"\$\(.*", "", line).split()
            told, _ = self.told(verb, *(words if verb == "tree" else ()), "--help")
            wanted = [word for word in words if word.startswith("-")]
            for some in re.findall(r"\$\(call (?:options|flags),([A-Z ]+)\)", line):
                wanted += [f"--{name.lower()}" for name in some.split()]
            for word in wanted:
                self.assertIn(word, told, line)
        self.assertGreater(len(lines), 30)


class Reading(unittest.TestCase):
    """Parsing of logs and results."""

    def test_splats(self):
        """What counts as trouble in a kernel log, and what does not."""
        for bad in ("WARNING: suspicious RCU usage", "BUG: KASAN: use-after-free",
                    "INFO: task tc:1 blocked", "refcount_t: underflow",
                    "WARNING: ../net/sched/sch_cake.c:1 at cake_dequeue+0x1/0x2"):
            self.assertTrue(boot.splats(bad), bad)
        for good in ("pktgen: Packet Generator", "NET: Registered PF_INET", ""):
            self.assertFalse(boot.splats(good), good)
        self.assertFalse(boot.splats("BUG: planned", allowed=["planned"]))

    def test_coverage(self):
        """A line that does not run has to be explained, one that does must not be."""
        rows = [[n, "f", f"x{n};", ["tdc"]] for n in range(99)] + [[99, "f", "y;", []]]
        why = {("a.c", "f", "y;"): "because"}
        self.assertEqual(coverage.judge({"a.c": rows}, why), (2, []))
        self.assertIn("does not run", coverage.judge({"a.c": rows}, {})[1][0])
        stale = {**why, ("a.c", "f", "x1;"): "because"}
        self.assertIn("that runs", coverage.judge({"a.c": rows}, stale)[1][0])
        lucky = {**why, ("a.c", "f", "x1;"): "sometimes"}
        self.assertEqual(coverage.judge({"a.c": rows}, lucky), (2, []))
        self.assertIn("less than", coverage.judge({"a.c": rows[-5:]}, why)[1][0])

    def test_races(self):
        """Who reads and writes, of KCSAN's reports in a log with times."""
        log = "".join(f"[ 25.400000] {line}\n" for line in (
            "=" * 66, "BUG: KCSAN: data-race in f / g", "",
            "write to 0xff of 8 bytes by task 9 on cpu 1:", " f+0x2/0x5", " h+0x1/0x9", "",
            "read (marked) to 0xff of 8 bytes by interrupt on cpu 0:", " g.isra.0+0x3/0x5", "",
            "value changed: 0x1 -> 0x2", "=" * 66,
            "BUG: KCSAN: data-race in k", "",
            "race at unknown origin, with read to 0xff of 4 bytes by task 1 on cpu 1:",
            " k+0x1/0x2", "=" * 66))
        self.assertEqual(gauntlet.accesses(log), [
            (("write", "f+0x2/0x5"), ("read (marked)", "g.isra.0+0x3/0x5")),
            (("read", "k+0x1/0x2"), None)])

    def test_shrunk(self):
        """What a failure needs is left, and no less than asked for, in so many tries."""
        def fails(items):
            return items if {3, 17} <= set(items) else None

        self.assertEqual(common.shrunk(list(range(20)), 0, 99, fails), [3, 17])
        self.assertEqual(common.shrunk(list(range(9)), 9, 99, fails), list(range(9)))
        self.assertEqual(common.shrunk([1, 2], 0, 0, fails), [1, 2])

    def test_suites(self):
        """Where suites of tc-testing are, by their names."""
        base = common.BUILD / "linux-base/tools/testing/selftests/tc-testing/tc-tests"
        for name, path in (("mq", base / "qdiscs/mq.json"),
                           ("cases/shared", common.BUILD / "cases/shared.json"),
                           ("infra/qdiscs", base / "infra/qdiscs.json")):
            self.assertEqual(tdc.suite_file("linux-base", name), path)
        self.assertEqual(tdc.touched_suites("linux-base"), [])
        self.assertIn("the lab", tdc.owners({"mq": {"86ac": ("ok", "")}}, {}))

    def test_kunit(self):
        """Cases in the JSON of kunit.py, parameters included."""
        found = list(kunit.cases({"test_cases": [], "sub_groups": [{
            "name": "s", "test_cases": [{"name": "a", "status": "PASS"}],
            "sub_groups": [{"name": "p", "sub_groups": [], "test_cases": [
                {"name": "x", "status": "FAIL"}, {"name": "y", "status": "SKIP"}]}]}]}))
        self.assertEqual(found, [("s/a", "PASS"), ("s/p/x", "FAIL"), ("s/p/y", "SKIP")])
        self.assertEqual(kunit.counted(found), (1, 1))

    def test_tap(self):
        """Lines of tdc's TAP output."""
        found = tdc.LINE.findall("ok 1 86ac - Replace\nnot ok 2 041a - Other\n"
                                 "ok 3 5a19 - Third # skipped - x\n")
        self.assertEqual([f[0] for f in found], ["ok", "not ok", "ok"])
        self.assertTrue(found[2][3])

    def test_sign(self):
        """Another person stands for the author: From:, sign-off and MAINTAINERS."""
        old = ("From: A B <a@b.example>\nSubject: [PATCH] x\n\nwhy\n\n"
               "Signed-off-by: A B <a@b.example>\n---\n+M:\tA B <a@b.example>\n"
               " M:\tA Bee <a@b.example>\n")
        self.assertEqual(
            tree.sign(old, ("A B", "a@b.example"), "C", "c@d.example"),
            old.replace("A B <a@b.example>", "C <c@d.example>"))


if __name__ == "__main__":
    outcome = unittest.TextTestRunner(verbosity=2).run(
        unittest.defaultTestLoader.loadTestsFromModule(sys.modules["__main__"]))
    wrong = len(outcome.failures) + len(outcome.errors)
    print(f"{outcome.testsRun - wrong} passed, {wrong} failed")
    sys.exit(bool(wrong))
