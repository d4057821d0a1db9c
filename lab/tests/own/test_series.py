# SPDX-License-Identifier: GPL-2.0
"""Where series end, and what form they have."""

import tempfile
import unittest
from pathlib import Path

from host import repo
from series.export import COVER

from tests import check_patches, check_series
from tests.own import sentence


class Ladder(unittest.TestCase):
    """Where series end, in a small tree: commits a, b, c, d, e on a base."""

    def setUp(self):
        """A tree with the series 1-x (one patch; it ends at b), 2-y (none), and 3-z."""
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        series = [repo.Series(name, "PATCH").below(self.folder / "patches")
                  for name in ("1-x", "2-y", "3-z")]
        self.tree = repo.Tree("ladder-test", series)
        self.tree.dir = self.folder / "tree"
        self.tree.dir.mkdir()
        self.tree.git("init", "-q")
        self.commits = {text: self.commit(text) for text in ("base", *"abcde")}
        self.tree.git("tag", "base", self.commits["base"])
        self.tag("1-x", "b")
        self.patch("1-x", "[PATCH 1/1] net: x\n")

    def commit(self, text):
        """An empty commit; its id."""
        env = repo.git_env(**repo.identity("T", "t@example.com"))
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
            return [series.folder for series in repo.KERNEL.upto(name)]

        self.assertEqual(upto("0"), ["0-fixes", "0-next"])
        self.assertEqual(upto("0-fixes"), ["0-fixes"])
        self.assertEqual(len(upto("2")), 4)
        self.assertIn("no series 'x'", sentence(self, repo.KERNEL.upto, "x"))

    def test_form(self):
        """A series has a prefix, a cover letter, and is short; a fix says of what."""
        series = self.tree.series[0]
        series.cover = self.folder / "cover-letter.txt"
        self.assertIn("no cover letter", check_series.series_form(series)[0])
        series.cover.write_text("subject\n" * 71)
        (series.dir / COVER).write_text("Subject: [PATCH 0/1] net: x\n 1 file changed\n")
        self.assertEqual(check_series.series_form(series),
                         ["1-x: a cover letter of 71 lines, more than 70"])
        patch, = series.patches()
        self.assertEqual(check_patches.lacks_fixes(patch, "PATCH net-next", ["net/x.c"]), [])
        self.assertTrue(check_patches.lacks_fixes(patch, "PATCH net", ["net/x.c"]))
