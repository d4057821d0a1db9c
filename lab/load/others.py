# SPDX-License-Identifier: GPL-2.0
"""Loads: the same group by other means than cake_mq, with figures of their own in the table."""

from load import trouble  # noqa: F401  some of its loads run here as well
from load.rates import SIZE, TWO, mixed, modes
from load.room import Row, again, scenario

TBF_OFF = 0.25  # %: what a tbf promises of the rate


def bound_below(contender: str, key: str, own: float | None) -> float | None:
    """What a figure of cake_mq may be below another contender: a tbf promises the rate only."""
    if own is None or "tbf" not in contender:
        return own
    return max(own, TBF_OFF) if key == "deviation" else None


def rows(contender: str) -> tuple[Row, Row]:
    """The rows of a contender: how far off the rate, and what a next hop has to queue."""
    return (Row(f"{contender}: off the rate by, %", "deviation"),
            Row("the same: 4 queues become 40, KB", "excess", **SIZE))


def add(contender: str, off: Row, join: Row, bounds: tuple[float, float], excess: float) -> None:
    """Add what each of them runs; bounds: of 80/20, and of saturated queues; excess: KB."""
    again(contender, "80/20", off("8 + 2 Gbit", bounds[0]), brief=True,
          coverage="tbf" in contender)
    again(contender, "saturated 10", off("40 saturated, 10 Gbit", bounds[1]))
    again(contender, "switch 8", join("8 Gbit", excess), brief=True)


CAKE, CAKE_JOIN = rows("mq + cake shared")
MQPRIO, MQPRIO_JOIN = rows("mqprio + cake shared")
TBF, TBF_JOIN = rows("mq + tbf shared")
add("mq + cake shared", CAKE, CAKE_JOIN, (0.01, 0.005), 8)
# Of members that are configured one by one, unlike cake_mq's
scenario("modes", modes, CAKE("4 queues of 4 modes, 1 Gbit", 0.01), contender="mq + cake shared",
         coverage=True)
scenario("mixed", mixed, CAKE("8 saturated, 4 of them tbf, 10 Gbit", 0.01),
         args={"loads": [{}] * 8}, contender="mq + cake shared")
scenario("mixed 80/20", mixed, CAKE("8 Gbit by cake + 2 Gbit by tbf", 0.01), args={"loads": TWO},
         contender="mq + cake shared")
add("mqprio + cake shared", MQPRIO, MQPRIO_JOIN, (0.01, 0.005), 8)
add("mq + tbf shared", TBF, TBF_JOIN, (TBF_OFF, TBF_OFF), 8 + 16)  # with its burst
for name in ("gso split", "rate changes"):
    again("mq + tbf shared", name, coverage=True)
ALSO = ("mq + cake shared", "mqprio + cake shared", "mq + tbf shared")
