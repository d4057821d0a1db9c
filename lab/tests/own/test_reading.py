# SPDX-License-Identifier: GPL-2.0
"""Parsing of logs and results."""

import pytest
from guest import boot
from host import common
from series import export

from tests import cases, coverage, gauntlet, kunit, litmus, tdc
from tests.shrink import shrunk


def test_splats():
    """Trouble in a kernel log is found, and what is none is not taken for it."""
    for bad in ("WARNING: suspicious RCU usage", "BUG: KASAN: use-after-free",
                "INFO: task tc:1 blocked", "refcount_t: underflow",
                "WARNING: ../net/sched/sch_cake.c:1 at cake_dequeue+0x1/0x2"):
        assert boot.splats(bad), bad
    for good in ("pktgen: Packet Generator", "NET: Registered PF_INET", ""):
        assert not boot.splats(good), good
    assert not boot.splats("BUG: planned", allowed=["planned"])


def test_coverage():
    """A line that does not run has to be explained, one that does must not be."""
    rows = [[n, "f", f"x{n};", ["tdc"]] for n in range(99)] + [[99, "f", "y;", []]]
    why = {("a.c", "f", "y;"): "because"}
    assert coverage.judge({"a.c": rows}, why) == (2, [])
    assert "does not run" in coverage.judge({"a.c": rows}, {})[1][0]
    stale = {**why, ("a.c", "f", "x1;"): "because"}
    assert "that runs" in coverage.judge({"a.c": rows}, stale)[1][0]
    lucky = {**why, ("a.c", "f", "x1;"): "sometimes"}
    assert coverage.judge({"a.c": rows}, lucky) == (2, [])
    assert "less than" in coverage.judge({"a.c": rows[-5:]}, why)[1][0]
    kept = coverage.summary({"a.c": rows})
    assert kept["a.c"] == {"lines": 100, "run by": {"tdc": 99}, "missed": [[99, "f", "y;"]]}
    assert coverage.table(kept, why)[1].split() == ["a.c", "100", "99", "99.0", "1"]


def test_races():
    """Who reads and who writes is found in KCSAN's reports, in a log with times."""
    log = "".join(f"[ 25.400000] {line}\n" for line in (
        "=" * 66, "BUG: KCSAN: data-race in f / g", "",
        "write to 0xff of 8 bytes by task 9 on cpu 1:", " f+0x2/0x5", " h+0x1/0x9", "",
        "read (marked) to 0xff of 8 bytes by interrupt on cpu 0:", " g.isra.0+0x3/0x5", "",
        "value changed: 0x1 -> 0x2", "=" * 66,
        "BUG: KCSAN: data-race in k", "",
        "race at unknown origin, with read to 0xff of 4 bytes by task 1 on cpu 1:",
        " k+0x1/0x2", "=" * 66))
    assert gauntlet.accesses(log) == [
        (("write", "f+0x2/0x5"), ("read (marked)", "g.isra.0+0x3/0x5")),
        (("read", "k+0x1/0x2"), None)]


def test_barriers():
    """Barriers are of the function that they are in, and not in comments."""
    text = ("static int f(int a,\n\t     int b)\n{\n\tsmp_rmb();\n}\n\n/* smp_mb() in\n"
            " * smp_wmb()\n */\nvoid g(void)\n{\n\trcu_read_lock(); /* smp_mb() */\n}\n")
    assert list(litmus.barriers(text)) == [("f", "smp_rmb"), ("g", "rcu_read_lock")]


def test_shrunk():
    """What a failure needs is left, and no less than asked for, in so many tries."""
    def fails(items):
        return items if {3, 17} <= set(items) else None

    assert shrunk(list(range(20)), 0, 99, fails) == [3, 17]
    assert shrunk(list(range(9)), 9, 99, fails) == list(range(9))
    assert shrunk([1, 2], 0, 0, fails) == [1, 2]


def test_suites():
    """Suites of tc-testing are found by their names, and so is who a case belongs to."""
    base = common.BUILD / "linux-base/tools/testing/selftests/tc-testing/tc-tests"
    for name, path in (("mq", base / "qdiscs/mq.json"),
                       ("cases/shared", common.BUILD / "cases/shared.json"),
                       ("infra/qdiscs", base / "infra/qdiscs.json")):
        assert tdc.suite_file("linux-base", name) == path
    assert tdc.touched_suites("linux-base") == []
    assert tdc.owners({"mq": {"86ac": ("ok", "")}}, {}) == {
        "the base": 0, "the series": 1, "the lab": 0}


def test_cases():
    """A case of a table takes tdc's form, has its own id, and has to test something."""
    made = cases.case("0a1b Do it", ["mq", "[0 1] del root", "do 2 add root cake",
                                     "3 times cake 1:[ ]", "end up"], "x")
    assert made["setup"] == [cases.DEVICE, cases.SHORT["mq"],
                             ["$TC qdisc del dev $ETH root", 0, 1]]
    assert made["cmdUnderTest"] == "$TC qdisc add dev $ETH root cake"
    assert (made["expExitCode"], made["matchCount"]) == ("2", "3")
    assert made["teardown"] == [cases.SHORT["up"]]
    with pytest.raises(common.Die, match="no 'do', or nothing"):
        cases.case("0a1b Do it", ["mq", "1 times x"], "x")
    idents = [case["id"] for name in cases.names() for case in cases.suite(name)]
    assert len(idents) == len(set(idents))


def test_kunit():
    """Cases in the JSON of kunit.py are read, parameters included."""
    found = list(kunit.cases({"test_cases": [], "sub_groups": [{
        "name": "s", "test_cases": [{"name": "a", "status": "PASS"}],
        "sub_groups": [{"name": "p", "sub_groups": [], "test_cases": [
            {"name": "x", "status": "FAIL"}, {"name": "y", "status": "SKIP"}]}]}]}))
    assert found == [("s/a", "PASS"), ("s/p/x", "FAIL"), ("s/p/y", "SKIP")]
    assert kunit.counted(found) == (1, 1)


def test_kunit_log(tmp_path):
    """A suite of which the log lacks the end is a failure."""
    lines = ["TAP version 14", "1..1", "    KTAP version 1", "    # Subtest: s", "    1..2",
             "    ok 1 a", "    ok 2 b", "ok 1 s"]
    for part, want in ((lines, (2, 0)), (lines[:-2], (1, 1))):
        (tmp_path / "dmesg").write_text("".join(f"[    0.1] {line}\n" for line in part))
        got = kunit.parsed(tmp_path / "dmesg", tmp_path / "json")
        assert (got[0], bool(got[1])) == (want[0], bool(want[1])), part


def test_tap():
    """Lines of tdc's TAP output are read: what passed, failed, and was skipped."""
    found = tdc.LINE.findall("ok 1 86ac - Replace\nnot ok 2 041a - Other\n"
                             "ok 3 5a19 - Third # skipped - x\n")
    assert [f[0] for f in found] == ["ok", "not ok", "ok"]
    assert found[2][3]


def test_sign():
    """Another person can stand for the author, in From:, sign-off and MAINTAINERS."""
    old = ("From: A B <a@b.example>\nSubject: [PATCH] x\n\nwhy\n\n"
           "Signed-off-by: A B <a@b.example>\n---\n+M:\tA B <a@b.example>\n"
           " M:\tA Bee <a@b.example>\n")
    new = export.sign(old, ("A B", "a@b.example"), "C", "c@d.example")
    assert new == old.replace("A B <a@b.example>", "C <c@d.example>")
