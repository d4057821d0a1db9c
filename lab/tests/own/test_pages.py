# SPDX-License-Identifier: GPL-2.0
"""What pages say is in results/, and what they point to is there."""

import inspect
import json
import os
import re
import tempfile
import unittest
import unittest.mock
from pathlib import Path

from host import common, repo, results
from loads.class_table import TREES
from loads.room import SCENARIOS, SHOWN
from report import demo, issues, pages, smp

RESULTS = results.RESULTS
DOCUMENTATION = "Documentation/networking"
WIDE, LONG, WORDS = 100, 90, 900  # README.md has at most so many characters, lines, words


class Results(unittest.TestCase):
    """Tables and figures are made from results/."""

    def test_blocks(self):
        """Marked places say what results/ says."""
        self.assertEqual(pages.stale(), [], "run 'python3 -B lab report'")

    def test_marks(self):
        """A mark that is not known is no success; each that is known is somewhere."""
        with self.assertRaises(common.Die):
            pages.filled("<!-- made: nonsense -->\n<!-- end -->\n", "x.md")
        text = "".join(page.read_text() for page in pages.marked())
        self.assertEqual(set(pages.BLOCKS), {name for _, name, *_ in pages.BLOCK.findall(text)})
        self.assertEqual(set(pages.figures()), {name for _, name, _ in
                                                 pages.FIGURE.findall(text)})

    def test_demo(self):
        """Recorded figures are within their bounds."""
        count, wrong = demo.judged(demo.stored()["patched"])
        self.assertGreater(count, 150)
        self.assertEqual(wrong, [])

    def test_reports(self):
        """A report that is not right fails, unless that is known; becoming right is told."""
        results = json.loads((RESULTS / "reports.json").read_text())["columns"]
        self.assertEqual(issues.judged("reports", results)[0], [])
        results["shared"]["big burst"]["sent"] *= 300
        self.assertEqual(issues.judged("reports", results)[1], [])
        with unittest.mock.patch.dict(issues.ISSUES["quantum warnings"], known="not right"):
            failed, better = issues.judged("reports", results)
            results["shared"]["quantum warnings"]["warnings"] *= 4
            still, none = issues.judged("reports", results)
        self.assertEqual([line.partition(":")[0] for line in failed], ["big burst"])
        self.assertIn("quantum warnings is right now", better[0])
        self.assertEqual((still, none), (failed, []))

    def test_brief(self):
        """What make demo runs by default is there."""
        self.assertGreater(len(demo.BRIEF), 40)
        self.assertFalse([name for name in demo.BRIEF if SCENARIOS[name].slow])

    def test_tables(self):
        """Arguments of scenarios are those of their functions, rows show what there is, and each
        tree of classes sends something."""
        for one in SCENARIOS.values():
            if one.run:
                inspect.signature(one.run).bind(None, **one.args)
        self.assertLessEqual(SHOWN, set(SCENARIOS))
        self.assertEqual([name for name, tree in TREES.items() if not tree().flows], [])

    @unittest.skipUnless((RESULTS / "check.json").exists(), "make check is not recorded yet")
    def test_checks(self):
        """The table of make check is of the patches that are here."""
        results = json.loads((RESULTS / "check.json").read_text())
        there = [f"{p.parent.name}/{p.name}" for tree in (repo.KERNEL, repo.IPROUTE2)
                 for p in tree.patches()]
        self.assertEqual(list(results["patches"]), there, "run 'make check'")

    def test_bound(self):
        """What make bench holds two CPUs to is the bound that the documentation states."""
        text = (common.ROOT / DOCUMENTATION / "qdisc-shared-algorithms.rst").read_text()
        self.assertRegex(text, rf"\b{smp.bound(1e9, 8) / 1000:.0f} KB\b")

    def test_versions(self):
        """Each file of results/ that a page shows is of some version."""
        files = json.loads((RESULTS / "versions.json").read_text())["files"]
        self.assertEqual([name for name in files if not (RESULTS / name).exists()], [])

    def test_kept(self):
        """JSON has a row a line and nine digits, and says what it was given."""
        data = {"what": "x", "rows": [{"a": 1 / 3, "b": "y" * 300}, {"a": 2, "b": None}]}
        text = results.rows_of(data)
        self.assertEqual(json.loads(text)["rows"][1], data["rows"][1])
        self.assertIn("0.333333333,", text)
        self.assertFalse([line for line in text.splitlines() if line.startswith(" ")])
        with tempfile.TemporaryDirectory() as name, \
                unittest.mock.patch.dict(os.environ, {"RECORD": "1"}), \
                unittest.mock.patch.object(results, "RESULTS", Path(name)):
            noted = Path(name) / "versions.json"
            noted.write_text('{"series": 3, "files": {"x.json": 2}}')
            results.keep_result("y.json", data)
            self.assertEqual(json.loads(noted.read_text())["files"], {"x.json": 2, "y.json": 3})


class Front(unittest.TestCase):
    """README.md is short, and points to what is there."""

    def setUp(self):
        """Read it."""
        self.text = (common.ROOT / "README.md").read_text()

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
            common.ROOT / room / "README.md"
            for room in ("lab", "module", "openwrt", "patches"))]
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
