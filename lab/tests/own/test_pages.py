# SPDX-License-Identifier: GPL-2.0
"""What pages say is in results/, and what they point to is there."""

import inspect
import json
import re

import pytest
from host import common, repo, results
from loads.class_table import TREES
from loads.room import SCENARIOS, SHOWN
from report import demo, issues, pages, smp

RESULTS = results.RESULTS
DOCUMENTATION = "Documentation/networking"
WIDE, LONG, WORDS = 100, 90, 900  # README.md has at most so many characters, lines, words


@pytest.fixture
def front():
    """The front page."""
    return (common.ROOT / "README.md").read_text()


def test_blocks():
    """Marked places say what results/ says."""
    assert pages.stale() == [], "run 'python3 -B lab report'"


def test_marks():
    """A mark that is not known is no success; each that is known is somewhere."""
    with pytest.raises(common.Die, match="has a mark 'nonsense'"):
        pages.filled("<!-- made: nonsense -->\n<!-- end -->\n", "x.md")
    text = "".join(page.read_text() for page in pages.marked())
    assert set(pages.BLOCKS) == {name for _, name, *_ in pages.BLOCK.findall(text)}
    assert set(pages.figures()) == {name for _, name, _ in pages.FIGURE.findall(text)}


def test_demo():
    """Recorded figures are within their bounds."""
    count, wrong = demo.judged(demo.stored()["patched"])
    assert count > 150
    assert wrong == []


def test_reports():
    """A report that is not right fails."""
    results = json.loads((RESULTS / "reports.json").read_text())["columns"]
    assert issues.judged("reports", results) == []
    results["shared"]["big burst"]["sent"] *= 300
    failed, = issues.judged("reports", results)
    assert failed.startswith("big burst: ")


def test_brief():
    """What make demo runs by default is there."""
    assert len(demo.BRIEF) > 40
    assert not [name for name in demo.BRIEF if SCENARIOS[name].slow]


def test_tables():
    """Scenarios fit their functions, rows show what there is, each tree of classes sends."""
    for one in SCENARIOS.values():
        if one.run:
            inspect.signature(one.run).bind(None, **one.args)
    assert not SHOWN - set(SCENARIOS)
    assert [name for name, tree in TREES.items() if not tree().flows] == []


@pytest.mark.skipif(not (RESULTS / "check.json").exists(), reason="make check is not recorded yet")
def test_checks():
    """The table of make check is of the patches that are here."""
    results = json.loads((RESULTS / "check.json").read_text())
    there = [f"{p.parent.name}/{p.name}" for tree in (repo.KERNEL, repo.IPROUTE2)
             for p in tree.patches()]
    assert list(results["patches"]) == there, "run 'make check'"


def test_bound():
    """What make bench holds two CPUs to is the bound that the documentation states."""
    text = (common.ROOT / DOCUMENTATION / "qdisc-shared-algorithms.rst").read_text()
    assert re.search(rf"\b{smp.bound(1e9, 8) / 1000:.0f} KB\b", text)


def test_versions():
    """Each file of results/ that a page shows is of some version."""
    files = json.loads((RESULTS / "versions.json").read_text())["files"]
    assert [name for name in files if not (RESULTS / name).exists()] == []


def test_kept(tmp_path, monkeypatch):
    """JSON has a row a line and nine digits, and says what it was given."""
    data = {"what": "x", "rows": [{"a": 1 / 3, "b": "y" * 300}, {"a": 2, "b": None}]}
    text = results.rows_of(data)
    assert json.loads(text)["rows"][1] == data["rows"][1]
    assert "0.333333333," in text
    assert not [line for line in text.splitlines() if line.startswith(" ")]
    monkeypatch.setenv("RECORD", "1")
    monkeypatch.setattr(results, "RESULTS", tmp_path)
    noted = tmp_path / "versions.json"
    noted.write_text('{"series": 3, "files": {"x.json": 2}}')
    results.keep_result("y.json", data)
    assert json.loads(noted.read_text())["files"] == {"x.json": 2, "y.json": 3}


def test_commands(front):
    """Programs and make targets in README.md's blocks and inline commands exist."""
    targets = re.findall(r"(?m)^([a-z]+):.*## ", (common.ROOT / "Makefile").read_text())
    blocks = re.findall(r"(?ms)^```\n(.*?)^```$", front)
    lines = [line.partition("  #")[0] for block in blocks for line in block.splitlines()]
    lines += re.findall(r"`((?:sudo|make) [^`]+)`", front)
    known = {"apt", "ls", "make", "rmmod", "cake-tc", "tc"}
    run = [line.split() for line in lines if re.match(r"(sudo|ls|make) ", line)]
    assert len(run) > 6
    for words in run:
        program, *rest = words[1:] if words[0] == "sudo" else words
        assert program in known, words
        if program == "make":
            assert rest[0] in targets
    for path in re.findall(r"(?<![\w/])\./(\w+)/", "\n".join(lines)):
        assert path == "build"


def test_length(front):
    """A front page is one page."""
    lines = front.splitlines()
    assert len(lines) <= LONG
    assert len(front.split()) <= WORDS
    assert [line for line in lines if len(line) > WIDE] == []


def test_links():
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
            assert target.exists(), f"{page.name}: {link}"
            if anchor:
                assert anchor in anchors(target), f"{page.name}: {link}"


def test_targets():
    """lab/README.md has every target of the Makefile, and no other."""
    makefile = (common.ROOT / "Makefile").read_text()
    targets = re.findall(r"(?m)^([a-z]+):.*## ", makefile)
    told = re.findall(r"(?m)^\| `make ([a-z]+)` \|",
                      (common.ROOT / "lab/README.md").read_text())
    assert sorted(targets) == sorted(told)
