# SPDX-License-Identifier: GPL-2.0
"""Where series end, and what form they have."""

import pytest
from host import repo
from host.common import Die
from series.export import COVER

from tests import check_patches, check_series


class Ladder(repo.Tree):
    """A small tree: commits a, b, c, d, e on a base.

    Its series are 1-x (one patch; it ends at b), 2-y (none), and 3-z.
    """

    def __init__(self, folder):
        patches = folder / "patches"
        super().__init__("ladder-test", [repo.Series(name, "PATCH").below(patches)
                                         for name in ("1-x", "2-y", "3-z")])
        self.dir = folder / "tree"
        self.dir.mkdir()
        self.git("init", "-q")
        self.commits = {text: self.commit(text) for text in ("base", *"abcde")}
        self.git("tag", "base", self.commits["base"])
        self.tag("1-x", "b")
        (patches / "1-x").mkdir(parents=True)
        (patches / "1-x/0001-x.patch").write_text(
            "From 0\nFrom: T <t@example.com>\nSubject: [PATCH 1/1] net: x\n\n")

    def commit(self, text):
        """An empty commit; its id."""
        env = repo.git_env(**repo.identity("T", "t@example.com"))
        self.git("commit", "-q", "--allow-empty", "-m", text, env=env)
        return self.git("rev-parse", "HEAD")

    def tag(self, folder, text):
        """Say where a series ends."""
        self.git("tag", "-f", f"end/{folder}", self.commits[text])

    def subjects(self):
        """Where the series end, as {folder: subject}."""
        return {tag.removeprefix("end/"): self.git("log", "-1", "--format=%s", end)
                for tag, end in self.ends().items()}


@pytest.fixture
def ladder(tmp_path):
    """A tree of its own."""
    return Ladder(tmp_path)


def test_last(ladder):
    """The last series ends at HEAD, wherever its tag is; a tag makes a series."""
    assert ladder.subjects() == {"1-x": "e"}
    ladder.tag("3-z", "c")
    assert ladder.subjects() == {"1-x": "b", "3-z": "e"}
    ladder.tag("2-y", "d")
    assert ladder.subjects() == {"1-x": "b", "2-y": "d", "3-z": "e"}


def test_rebase(ladder):
    """A tag that a rebase left behind means the commit with its subject."""
    ladder.tag("2-y", "d")
    ladder.tag("3-z", "e")
    ladder.git("reset", "-q", "--hard", ladder.commits["a"])
    for text in "bcxde":
        ladder.commit(text)
    assert ladder.subjects() == {"1-x": "b", "2-y": "d", "3-z": "e"}
    ladder.git("reset", "-q", "--hard", "HEAD~2")
    with pytest.raises(Die, match="set it to"):
        ladder.ends()


def test_order(ladder):
    """A series that ends before the one before it, or nowhere, is refused."""
    ladder.tag("2-y", "a")
    ladder.tag("3-z", "e")
    with pytest.raises(Die, match="before the end"):
        ladder.ends()
    ladder.tag("2-y", "b")
    ladder.git("tag", "-d", "end/1-x")
    with pytest.raises(Die, match="end/1-x is not in the history"):
        ladder.ends()


def test_upto():
    """A series is named by folder or number; of two with the same number the last counts."""
    def upto(name):
        return [series.folder for series in repo.KERNEL.upto(name)]

    assert upto("0") == ["0-fixes", "0-next"]
    assert upto("0-fixes") == ["0-fixes"]
    assert len(upto("2")) == 4
    with pytest.raises(Die, match="no series 'x'"):
        upto("x")


def test_form(ladder, tmp_path):
    """A series has a prefix, a cover letter, and is short; a fix says of what."""
    series = ladder.series[0]
    series.cover = tmp_path / "cover-letter.txt"
    assert "no cover letter" in check_series.series_form(series)[0]
    series.cover.write_text("subject\n" * 71)
    (series.dir / COVER).write_text("Subject: [PATCH 0/1] net: x\n 1 file changed\n")
    assert check_series.series_form(series) == ["1-x: a cover letter of 71 lines, more than 70"]
    patch, = series.patches()
    assert check_patches.lacks_fixes(patch, "PATCH net-next", ["net/x.c"]) == []
    assert check_patches.lacks_fixes(patch, "PATCH net", ["net/x.c"])
