# SPDX-License-Identifier: GPL-2.0
"""The rows of a figure of the evaluation, as results/<figure>.json has them."""

import functools
import json
from typing import Any

from host.results import RESULTS, latest_result

SPEED = "64 bytes, below the rate"  # the case of smp.json that the picture shows


class Rows(list):
    """Rows of a figure."""

    def of(self, **wanted: Any) -> "Rows":
        """Those that have these values, of their own or as arguments."""
        return Rows(r for r in self if all(
            r.get(key, r["args"].get(key)) == value for key, value in wanted.items()))

    def values(self, key: str) -> list:
        """Different values of something, in the order of the rows."""
        return list(dict.fromkeys(r.get(key, r["args"].get(key)) for r in self))

    def column(self, key: str, scale: float = 1) -> list:
        """One value of each."""
        return [r.get(key, r["args"].get(key)) * scale for r in self]


@functools.cache
def load(name: str, recorded: bool = False) -> Rows:
    """The rows of a figure; "cost": of make bench. recorded: not those measured since then."""
    if name == "cost":
        return Rows([*load("bench", recorded), *load("smp", recorded)])
    path = RESULTS / f"{name}.json" if recorded else latest_result(f"{name}.json")
    found = json.loads(path.read_text())
    return Rows(found["speeds"] if name == "smp" else found["rows"])


def intervals(rows: Rows) -> dict[int, list[float]]:
    """By the number of TX queues, the rate that stock reaches at each interval: bit/s."""
    stock = rows.of(what="receive_queues", label="stock cake_mq")
    return {value: [20 * (1 + d / 100) for d in stock.of(value=value).column("deviation")]
            for value in stock.values("value")}


def rate_text(bits: float) -> str:
    """10M, 2G: as tc understands it, without the unit."""
    return f"{bits / 1e9:g}G" if bits >= 1e9 else f"{bits / 1e6:g}M"
