# SPDX-License-Identifier: GPL-2.0
"""The command line of lab/, and the Makefile that calls it."""

import contextlib
import importlib.util
import io
import os
import re
import runpy
import unittest
import unittest.mock

from host import common, results

RESULTS = results.RESULTS


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
        for verb in self.lab["VERBS"]:
            if verb != "plots" or importlib.util.find_spec("matplotlib"):
                text, status = self.told(verb, "--help")
                self.assertEqual(status, 0, verb)
                self.assertIn(f"usage: python3 -B lab {verb}", text)

    def test_unknown(self):
        """A word that a verb does not know, and a number that is none."""
        self.assertEqual(self.told("bench", "--round", "1")[1], 2)
        self.assertIn("invalid int", self.told("torture", "--seed", "x")[0])
        self.assertIn("no kernel", self.told("kernel", "nonsense")[1])

    def test_record(self):
        """Nothing is written to results/ but with RECORD=1 or --record."""
        with unittest.mock.patch.dict(os.environ):
            os.environ.pop("RECORD", None)
            self.assertEqual(results.result_file("x"), common.BUILD / "results/x")
            self.assertEqual(results.latest_result("never.json"), RESULTS / "never.json")
            os.environ["RECORD"] = "1"
            self.assertEqual(results.result_file("x"), RESULTS / "x")
        writes = re.compile(r"RESULTS|RECORD\b|REPORT|TEXT|\"results|results/")
        for path in (common.ROOT / "lab").glob("*/*.py"):
            for line in path.read_text().splitlines():
                if re.search(r"write_(text|bytes)\(|savefig\(|open\(.*\"[wa]", line):
                    other = re.sub(r"result_file\([^)]*\)", "", line)
                    self.assertFalse(writes.search(other), f"{path.name}: {line}")

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
