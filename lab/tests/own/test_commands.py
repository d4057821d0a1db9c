# SPDX-License-Identifier: GPL-2.0
"""The command line of lab/, and the Makefile that calls it."""

import importlib.util
import re
import runpy

import pytest
from host import common, results

RESULTS = results.RESULTS
LAB = runpy.run_path(str(common.ROOT / "lab/__main__.py"))


@pytest.fixture
def told(capsys):
    """What a verb prints that ends at once, and its status."""
    def run(verb, *words):
        with pytest.raises(SystemExit) as end:
            LAB["run"](verb, words)
        return "".join(capsys.readouterr()), end.value.code

    return run


def test_help(told):
    """--help prints help and does nothing."""
    for verb in LAB["VERBS"]:
        if verb != "plots" or importlib.util.find_spec("matplotlib"):
            text, status = told(verb, "--help")
            assert status == 0, verb
            assert f"usage: python3 -B lab {verb}" in text


def test_unknown(told):
    """A word that a verb does not know, and a number that is none, are refused."""
    assert told("bench", "--round", "1")[1] == 2
    assert "invalid int" in told("torture", "--seed", "x")[0]
    assert "no kernel" in told("kernel", "nonsense")[1]


def test_record(monkeypatch):
    """Nothing is written to results/ but with RECORD=1 or --record."""
    monkeypatch.delenv("RECORD", raising=False)
    assert results.result_file("x") == common.BUILD / "results/x"
    assert results.latest_result("never.json") == RESULTS / "never.json"
    monkeypatch.setenv("RECORD", "1")
    assert results.result_file("x") == RESULTS / "x"
    writes = re.compile(r"RESULTS|RECORD\b|REPORT|TEXT|\"results|results/")
    for path in (common.ROOT / "lab").glob("*/*.py"):
        for line in path.read_text().splitlines():
            if re.search(r"write_(text|bytes)\(|savefig\(|open\(.*\"[wa]", line):
                other = re.sub(r"result_file\([^)]*\)", "", line)
                assert not writes.search(other), f"{path.name}: {line}"


def test_make(told):
    """The Makefile gives verbs only options that they have."""
    lines = re.findall(r"(?m)^\t@\$\(LAB\) (.*)$", (common.ROOT / "Makefile").read_text())
    for line in lines:
        verb, *words = re.sub(r"\$\(.*", "", line).split()
        text, _ = told(verb, *(words if verb == "tree" else ()), "--help")
        wanted = [word for word in words if word.startswith("-")]
        for some in re.findall(r"\$\(call (?:options|flags),([A-Z ]+)\)", line):
            wanted += [f"--{name.lower()}" for name in some.split()]
        for word in wanted:
            assert word in text, line
    assert len(lines) > 30
