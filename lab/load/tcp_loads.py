# SPDX-License-Identifier: GPL-2.0
"""Loads: TCP and UDP flows between network namespaces, the cases of lab/load/tcp.py."""

from collections.abc import Callable

from load import tcp
from load.bed import CROWDED, EF
from load.room import Cell, Row, scenario


def beside_root(name: str, case: Callable[[str], dict], *cells: Cell, root: tuple[Cell, ...] = (),
                slow: bool = False, slow_root: bool = False, brief: bool = False) -> None:
    """Add a scenario, and the same below cake at the root, with which its figures are compared.

    case: of a contender. root: what is shown of the second. slow: which of them take minutes.
    """
    scenario(name, None, *cells, args=case("cake_mq"), slow=slow, brief=brief)
    scenario(f"root {name}", None, *root, args=case("cake"), slow=slow_root,
             brief=brief and not slow_root)


ECHO = Row("UDP echo beside 64 TCP flows, 1 Gbit: p99 above the RTT, us", "p99_us", "{:.1f}")
ECHO_RATES = Row("the same over 8 queues, us", "p99_us", "{:.1f}")
ECHO_HOP = Row("the same at 1 Gbit, with the wait at the next hop, us", "p99_us", "{:.1f}")
for count in (4, 8, 32):
    scenario(f"echo {count}", None, ECHO(f"{count} queues", 23),
             args=tcp.echo("cake_mq", count, 1e9), brief=count == 8)
scenario("echo slow", None, ECHO_RATES("100 Mbit", 1440), args=tcp.echo(
    "cake_mq", 8, 100e6, warm_us=1_500_000, window_us=2_000_000, probe_us=9973, probes=8))
scenario("echo fast", None, ECHO_RATES("5 Gbit", 24), args=tcp.echo(
    "cake_mq", 8, 5e9, warm_us=300_000, window_us=200_000, probe_us=397))
scenario("echo hop", None, ECHO_HOP("32 queues", 64),
         args=tcp.echo("cake_mq", 32, 1e9, next_hop_bps=1e9))

MANY = Row("UDP echo beside TCP flows, 8 queues, 1 Gbit: p50, us", "p50_us", "{:.1f}")
MANY_WORST = Row("the same: p99, us", "p99_us", "{:.1f}")
for count in (64, 256, 1024):
    told, told_root = f"{count}", f"{count}, cake at the root"
    beside_root(f"crowd {count}", lambda contender, count=count: tcp.echo(
                    contender, 8, 1e9, flows=count, probes=8, warm_us=1_200_000,
                    window_us=800_000),
                MANY(told), MANY_WORST(told, 23),
                root=(MANY(told_root), MANY_WORST(told_root)), slow=count != 256,
                slow_root=True, brief=count == 256)

LONE = Row("lone TCP flow beside 31 busy queues: ms to 90 % of its share", "fastest_ms", "{:.0f}")
STARTS = ((500_000, 300), (503_000, 300), (511_000, 310), (507_000, 290), (505_000, 305))
for number, (settle, stagger) in enumerate(STARTS):
    scenario(f"lone {number}", None, args=tcp.lone("cake_mq", settle_us=settle,
                                                   stagger_us=stagger, length_us=250_000))
scenario("lone", None, LONE("1 Gbit, fastest of 5 starts", 130),
         LONE("1 Gbit, slowest of 5 starts", key="slowest_ms"),
         parts=tuple(f"lone {number}" for number in range(len(STARTS))))

FLOWS = Row("16 TCP flows on 8 queues, 200 Mbit: Jain's index", "jain", "{:.5f}", at_least=True)
FLOWS_OFF = Row("the same: off the mean by %", "lowest", "{:.2f}")
beside_root("tcp flows", lambda contender: tcp.fair(contender, CROWDED, options="besteffort flows"),
            FLOWS("5 to none on each", 0.98), FLOWS_OFF("lowest", 10),
            FLOWS_OFF("highest", 10, "highest"),
            root=(FLOWS("5 to none on each, cake at the root"),), brief=True)
HOSTS = Row("hosts of 1 and 15 TCP flows: off root cake by, points", "off", "{:.2f}")
for name, rtt, bound in (("tcp hosts near", 5, 2), ("tcp hosts", 20, 7)):
    beside_root(name, lambda contender, rtt=rtt: tcp.fair(
                    contender, (0,) * 8, hosts={1: (4, *CROWDED[1:]), 2: (0, 0, 0, 1)},
                    options="besteffort dual-srchost", rtt_us=rtt * 1000,
                    window_us=10_000_000),
                HOSTS(f"200 Mbit, dual-srchost, RTT {rtt} ms", bound))

PRIORITY = Row("one priority flow on one of 4 queues, 2350 Mbit: Mbit", "priority_bps", "{:.0f}",
               1e-6)
OF_ROOT = Row("the same: of what it gets below cake at the root, %", "of_root", "{:.1f}",
              at_least=True)
for name, told, what in (
        ("cs5", "CS5, diffserv4", {}), ("cs5-8", "CS5, diffserv8", {"options": "diffserv8"}),
        # where CS5 is best effort
        ("ef-3", "EF, diffserv3", {"options": "diffserv3", "tos": EF})):
    for kind in ("tcp", "udp"):
        label = f"{told}, {kind.upper()}"
        beside_root(f"{name} {kind}", lambda contender, kind=kind, what=what: tcp.priority(
                        contender, kind, **what),
                    PRIORITY(label), OF_ROOT(label, 97), brief=(name, kind) == ("cs5", "udp"))
