# SPDX-License-Identifier: GPL-2.0
"""What is told to guests with network cards and to other architectures, and how that is read."""

import json
import unittest

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


class Machines(unittest.TestCase):
    """Cards and architectures."""

    def test_guide(self):
        """The loops of the guide, at the rate of the test, which each set-up ends with."""
        for name, setup in drivers.setups().items():
            self.assertNotIn("gbit", setup["script"], name)
            self.assertEqual(len(setup["changes"]), 50, name)
            if name not in ("cake_mq", "mqprio + cake shared"):
                self.assertIn("tc class show dev card", setup["script"], name)
                self.assertIn(" shared\n", setup["script"], name)
                self.assertIn("20mbit", setup["changes"][-1], name)

    def test_events(self):
        """What is wrong after an event."""
        row = {"event": "down and up", "mbit": 20.05, "said": [], "bad": []}
        self.assertEqual(drivers.wrong(row), "")
        for other in ({"mbit": 19.7}, {"mbit": 66.0}, {"said": ["x"]}, {"bad": ["WARNING: x"]},
                      {"error": "x"}, {"event": "queues without a member"},
                      {"event": "and again", "said": ["x"]}):
            self.assertTrue(drivers.wrong({**row, **other}), other)
        once = {"event": "queues without a member", "mbit": 66.0, "said": ["x"]}
        self.assertEqual(drivers.wrong({**row, **once}), "")

    def test_table(self):
        """A row for each event, a column for each set-up, "-" for what a driver cannot do."""
        rows = [{"driver": "igb", "setup": setup, "event": event, "mbit": mbit}
                for setup, event, mbit in (("cake_mq", "nothing", 20.0), ("cake_mq", "x", 19.5),
                                           ("mq + tbf shared", "nothing", 20.01),
                                           ("mq + tbf shared", "x", None))]
        lines = drivers.table(rows)
        self.assertEqual(lines[1].split(), ["nothing", "20.00", "20.01"])
        self.assertEqual(lines[2].split(), ["x", "19.50", "-"])

    def test_sockets(self):
        """Names of sockets are short."""
        self.assertLessEqual(len(cards.short(drivers.ROOT / "x")), len(str(drivers.ROOT / "x")))

    def test_abroad(self):
        """Rates, and what tc prints."""
        for setup in arches_tc.SETUPS.values():
            self.assertEqual(arches_tc.judged(setup, *printed(setup)), [])
            self.assertTrue(arches_tc.judged(setup, *printed(setup, rate=19.7e6)))
            self.assertTrue(arches_tc.judged(setup, *printed(setup, options={})))
            load, qdiscs, classes = printed(setup)
            self.assertTrue(arches_tc.judged(setup, load, qdiscs[:3], classes))
            qdiscs[0]["bytes"] = 9
            self.assertTrue(arches_tc.judged(setup, load, qdiscs, classes))
        tree = arches_tc.SETUPS["mq + htb shared"]
        load, qdiscs, classes = printed(tree)
        classes[5]["ceil"] = 1
        self.assertIn("ceil is 1", arches_tc.judged(tree, load, qdiscs, classes)[0])

    def test_console(self):
        """What a guest printed."""
        text = "RC 0\n" + "".join(
            f"LOAD - {load[0]} {load[1]}\n{json.dumps(qdiscs)}\n\nRC 0\n"
            f"{json.dumps(classes)}\n\nRC 0\nRC 0\n"
            for load, qdiscs, classes in map(printed, arches_tc.SETUPS.values()))
        self.assertEqual(arches_tc.read("arm", text + "END\n")[:2], (4, []))
        for other in (text, text + "RC 2\nEND\n", text + "WARNING: x\nEND\n", "END\n"):
            self.assertTrue(arches_tc.read("arm", other)[1])
