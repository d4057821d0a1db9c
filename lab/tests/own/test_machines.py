# SPDX-License-Identifier: GPL-2.0
"""What is told to guests with network cards and to other architectures, and how that is read."""

import json

from guest import cards

from tests import arches_tc, drivers


def printed(setup, rate=arches_tc.RATE, **other):
    """(load, qdiscs, classes) as a guest prints them that has all as it should be."""
    sent = int(rate / 8 * 2)
    qdiscs = [{"kind": setup.kind, "parent": f"1:{queue}", "options": setup.options,
               "bytes": sent // 4, "group_rate": 2.5e6, "active_queues": 4, **other}
              for queue in range(1, 5)]
    classes = [{"class": "htb", "handle": f"1{queue}:{minor}", **wanted}
               for minor, wanted in setup.classes.items() for queue in range(1, 5)]
    return (2 * 10**9, sent), qdiscs, classes


def test_guide():
    """Set-ups are the guide's loops at the rate of the test, and each ends with that rate."""
    for name, setup in drivers.setups().items():
        assert "gbit" not in setup["script"], name
        assert len(setup["changes"]) == 50, name
        if name not in ("cake_mq", "mqprio + cake shared"):
            assert "tc class show dev card" in setup["script"], name
            assert " shared\n" in setup["script"], name
            assert "20mbit" in setup["changes"][-1], name


def test_events():
    """What is wrong after an event is said, and what is right is not."""
    row = {"event": "down and up", "mbit": 20.05, "said": [], "bad": []}
    assert drivers.wrong(row) == ""
    for other in ({"mbit": 19.7}, {"mbit": 66.0}, {"said": ["x"]}, {"bad": ["WARNING: x"]},
                  {"error": "x"}, {"event": "queues without a member"},
                  {"event": "and again", "said": ["x"]}):
        assert drivers.wrong({**row, **other}), other
    once = {"event": "queues without a member", "mbit": 66.0, "said": ["x"]}
    assert drivers.wrong({**row, **once}) == ""


def test_table():
    """Each event has a row, each set-up a column, and "-" is what a driver cannot do."""
    rows = [{"driver": "igb", "setup": setup, "event": event, "mbit": mbit}
            for setup, event, mbit in (("cake_mq", "nothing", 20.0), ("cake_mq", "x", 19.5),
                                       ("mq + tbf shared", "nothing", 20.01),
                                       ("mq + tbf shared", "x", None))]
    lines = drivers.table(rows)
    assert lines[1].split() == ["nothing", "20.00", "20.01"]
    assert lines[2].split() == ["x", "19.50", "-"]


def test_sockets(tmp_path, monkeypatch):
    """In a folder with a long name, names of sockets are still short."""
    deep = tmp_path / ("d" * 100)
    deep.mkdir()
    monkeypatch.chdir(deep)
    assert cards.short(deep / "socket") == "socket"


def test_abroad():
    """A wrong rate, option, count, or class is seen in what a guest prints."""
    for setup in arches_tc.SETUPS.values():
        assert arches_tc.judged(setup, *printed(setup)) == []
        assert arches_tc.judged(setup, *printed(setup, rate=19.7e6))
        assert arches_tc.judged(setup, *printed(setup, options={}))
        load, qdiscs, classes = printed(setup)
        assert arches_tc.judged(setup, load, qdiscs[:3], classes)
        qdiscs[0]["bytes"] = 9
        assert arches_tc.judged(setup, load, qdiscs, classes)
    tree = arches_tc.SETUPS["mq + htb shared"]
    load, qdiscs, classes = printed(tree)
    classes[5]["ceil"] = 1
    assert "ceil is 1" in arches_tc.judged(tree, load, qdiscs, classes)[0]


def test_console():
    """A console is read to its end; one that is cut off, or tells of a failure, is refused."""
    text = "RC 0\n" + "".join(
        f"LOAD - {load[0]} {load[1]}\n{json.dumps(qdiscs)}\n\nRC 0\n"
        f"{json.dumps(classes)}\n\nRC 0\nRC 0\n"
        for load, qdiscs, classes in map(printed, arches_tc.SETUPS.values()))
    assert arches_tc.read("arm", text + "END\n")[:2] == (4, [])
    for other in (text, text + "RC 2\nEND\n", text + "WARNING: x\nEND\n", "END\n"):
        assert arches_tc.read("arm", other)[1]
