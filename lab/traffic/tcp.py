# SPDX-License-Identifier: GPL-2.0
"""The TCP bed: flows through a shaper between network namespaces, virtual time.

    c (client) -- r (router, shaper on r1) -- [h (next hop) --] s (server)

The router's egress r1 has as many TX queues as the case says, everything else
has one. A filter on r1 maps each flow to its queue by the source port. The way
back has a delay of rtt_us and no limit. Segmentation is off, so that the shaper
sees frames of 1514 bytes. lab/traffic/flows.c drives both ends.

On the host, run() boots a kernel and measures a list of cases; echo(), lone(),
priority() and fair() make cases. scenarios.txt has those of the table, and
"lab scenarios KERNEL echo lone cs5" measures just them.

Where code takes no time, what is measured is what the shaper does with time: no
CPU cost is in it.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from guest.boot import boot_script
from host.common import BUILD, ROOT, compiled

from traffic.traffic import CROWDED, FRAME, command, contender_lines, tc

SEGMENT = 1448  # bytes of TCP payload in it
CS5 = 40 << 2  # as TOS byte
CALM = 50_000  # us before the first flow: there the echo has the path for itself
PROBE = 997  # us between echo requests: odd, to fall everywhere between frames
PROBES = 1  # echo flows, each on a queue of its own
BIN = 10_000  # us
HOSTS = 2  # more addresses of the client
CLIENT = "10.0.1.1"


# ------------------------------------------------------------- the cases

def group(name: str, count: int, queues: int, first: int = 0, kind: str = "tcp", tos: int = 0,
          start_us: int = CALM, stagger_us: int = 300, rate_bps: float = 0, bin_us: int = 0,
          host: int = 0) -> dict:
    """A group of flows that case() takes.

    Flow i is for TX queue first + i % queues and starts at start_us +
    i * stagger_us. kind: "tcp" (sends all it can) or "udp" (sends full-size
    datagrams at rate_bps in all, frames counted). tos: the TOS byte. bin_us:
    also count what arrived in each interval of that length, 0: do not. host: 1
    to HOSTS, for an address of the client that is this host's; 0: its own. A case
    takes up to 11 groups, a group 4096 / queues (rounded up to a power of 2)
    flows per queue.
    """
    return {"name": name, "count": count, "queues": queues, "first": first,
            "kind": kind, "tos": tos, "start_us": start_us,
            "stagger_us": stagger_us, "rate_bps": rate_bps, "bin_us": bin_us,
            "host": host}


def case(scenario: str, qdisc: str, queues: int, rate_bps: float, flows: list[dict], warm_us: int,
         window_us: int, options: str = "", rtt_us: int = 20_000, next_hop_bps: float = 0,
         probe_us: int = PROBE, probes: int = PROBES) -> dict:
    """What run() measures: a shaper, its load, and how long to look.

    scenario: "echo", "lone", "priority", "fair" or any other name, for which there is
    no summary. qdisc: a contender as for traffic.contender_lines(). queues: TX
    queues of r1, at least 2. options: more of tc's words. flows: list of group().
    rtt_us: the delay of the way back. next_hop_bps: rate of the FIFO behind
    the shaper, 0: there is none. probe_us: time between two UDP echo requests
    of one flow, 0: none; probes: such flows, spread over the queues, at most
    one per queue. warm_us: from the start of the load to the
    window, window_us: its length; both virtual.
    """
    return {"scenario": scenario, "qdisc": qdisc, "queues": queues,
            "rate_bps": rate_bps, "options": options, "rtt_us": rtt_us,
            "next_hop_bps": next_hop_bps, "probe_us": probe_us,
            "probes": probes, "warm_us": warm_us,
            "window_us": window_us, "flows": flows}


def echo(qdisc: str = "cake_mq", queues: int = 8, rate_bps: float = 1e9, flows: int = 64,
         warm_us: int = 500_000, window_us: int = 700_000, stagger_us: int = 300,
         **more: Any) -> dict:
    """Bulk TCP flows spread over all queues, and a UDP echo beside them.

    stagger_us: between the starts of two flows. more: as for case(). In the
    row: p50_us, p99_us and max_us of the echo above the path's own time,
    bulk_bps and jain over the flows.
    """
    bulk = group("bulk", flows, queues, stagger_us=stagger_us)
    return case("echo", qdisc, queues, rate_bps, [bulk], warm_us, window_us, **more)


def lone(qdisc: str = "cake_mq", queues: int = 32, rate_bps: float = 1e9, each: int = 4,
         settle_us: int = 500_000, length_us: int = 500_000, stagger_us: int = 300,
         **more: Any) -> dict:
    """One TCP flow starts on the last queue when all others are saturated.

    The others have `each` TCP flows per queue. settle_us: when the lone flow
    starts, length_us: for how long it is looked at. more: as for case(). In
    the row: rise_ms from its first byte to the end of the first three bins of
    10 ms with a mean of 90 % of its share (that of a flow, as payload),
    None if it never gets there; lone_bps and bulk_bps from then start on.
    """
    flows = [
        group("bulk", each * (queues - 1), queues - 1, stagger_us=stagger_us),
        group("lone", 1, 1, first=queues - 1, start_us=settle_us, bin_us=BIN),
    ]
    return case("lone", qdisc, queues, rate_bps, flows, settle_us, length_us,
                **{"probe_us": 0, **more})


def priority(qdisc: str = "cake_mq", kind: str = "tcp", queues: int = 4,
             rate_bps: float = 2350e6, flows: int = 16, warm_us: int = 400_000,
             window_us: int = 300_000, stagger_us: int = 300, rtt_us: int = 5_000,
             tos: int = CS5, **more: Any) -> dict:
    """One priority flow on the first queue beside best effort TCP on all, diffserv4.

    rtt_us is short because a single TCP flow that lost a packet at 20 ms takes some
    4 s to fill a share of this size again: that would measure TCP alone.
    kind: of the priority flow, "tcp" or "udp" (1 Gbit/s offered); tos: its TOS
    byte. more: as for case(). In the row: priority_bps and best_effort_bps,
    payload for TCP and frames for UDP, which is what its rate limit counts.
    """
    groups = [
        group("best effort", flows, queues, stagger_us=stagger_us),
        group("priority", 1, 1, kind=kind, tos=tos,
              rate_bps=1e9 if kind == "udp" else 0),
    ]
    return case("priority", qdisc, queues, rate_bps, groups, warm_us, window_us,
                rtt_us=rtt_us, **{"probe_us": 0, "options": "diffserv4", **more})


def fair(qdisc: str, counts: Sequence[int], rate_bps: float = 200e6, warm_us: int = 2_000_000,
         window_us: int = 2_500_000, **more: Any) -> dict:
    """TCP flows that go on for seconds, counts[q] on each queue q.

    more: as for case(), and hosts: {host as for group(): counts of its flows}, beside
    those of host 0. In the row: jain over all flows, lowest and highest, in %
    off their mean; host_bps: payload of each host.
    """
    hosts = {0: counts, **more.pop("hosts", {})}
    groups = [group(f"host {host}", count, 1, first=queue, host=host)
              for host, all_counts in hosts.items()
              for queue, count in enumerate(all_counts) if count]
    return case("fair", qdisc, len(counts), rate_bps, groups, warm_us, window_us,
                **{"probe_us": 0, **more})


def crowded_queues(qdisc: str = "cake_mq") -> dict:
    """16 flows on eight queues, 5 to none on each."""
    return fair(qdisc, CROWDED, options="besteffort flows")


def hosts(rtt_us: int, qdisc: str = "cake_mq") -> dict:
    """A host of 15 flows on eight queues and one of a single flow."""
    return fair(qdisc, (0,) * 8, hosts={1: (4, *CROWDED[1:]), 2: (0, 0, 0, 1)},
                options="besteffort dual-srchost", rtt_us=rtt_us, window_us=10_000_000)


# -------------------------------------------------------- host: measuring

def run(kernel: Path | str, name: str, cases: list[dict], on_row: Callable | None = None,
        allowed: Sequence = ()) -> list[dict]:
    """Boot a kernel, measure cases in it, return their rows in that order.

    The other arguments are those of boot_script(). A row is its case without
    flows, and:

    groups    one dict per group: name, kind, flows; bps, min_bps, max_bps and
              jain of the flows' payload in the window; retransmissions since
              the start (TCP) or frames_bps (UDP); bin_us and bin_bytes from
              the start of the group on, if asked for
    echo      base_us: the shortest echo; count, lost; min_us, p50_us, p99_us
              and max_us of the window above base_us
    and what echo(), lone(), priority() or fair() say.

    A run comes out again to within 0.5 % of rates (1 % at 5 Gbit), 5 % of the
    echo's p50 and 10 % of its p99; its maximum is one packet's luck.

    Die when the guest fails, which includes a shaper that the kernel refuses
    or does not know.
    """
    compiled(BUILD / "flows", ROOT / "lab/traffic/flows.c", "-std=c11")
    return boot_script(kernel, name, "traffic.tcp:measure_cases", cases, allowed=allowed,
                       on_row=on_row, virtual=True)[0]


def summary(row: dict) -> dict:
    """The figures of a scenario, from what the flows and the echo gave."""
    if row["scenario"] == "fair":
        return equality(row["groups"])
    groups = {g["name"]: g for g in row["groups"]}
    if row["scenario"] == "echo":
        bulk = groups["bulk"]
        return {**{key: row["echo"][key] for key in ("p50_us", "p99_us", "max_us")},
                "bulk_bps": bulk["bps"], "jain": bulk["jain"]}
    if row["scenario"] == "lone":
        share = (row["rate_bps"] / sum(g["flows"] for g in row["groups"])
                 * SEGMENT / FRAME)
        bins = groups["lone"]["bin_bytes"]
        wanted = 0.9 * share * 3 * BIN / 8e6  # bytes in three bins
        end = next((i + 3 for i in range(len(bins) - 2)
                    if sum(bins[i:i + 3]) >= wanted), None)
        return {"rise_ms": end and end * BIN / 1000, "share_bps": share,
                "lone_bps": groups["lone"]["bps"], "bulk_bps": groups["bulk"]["bps"]}
    if row["scenario"] == "priority":
        first = groups["priority"]
        return {"priority_bps": first.get("frames_bps", first["bps"]),
                "best_effort_bps": groups["best effort"]["bps"]}
    return {}


def equality(groups: list[dict]) -> dict:
    """What fair() says of all flows of its groups."""
    count, total = (sum(g[key] for g in groups) for key in ("flows", "bps"))
    squares = sum(g["bps"] ** 2 / g["flows"] / g["jain"] for g in groups)
    hosts = {}
    for g in groups:
        hosts[g["name"]] = hosts.get(g["name"], 0) + g["bps"]
    return {"jain": total ** 2 / count / squares,
            "lowest": 100 * (min(g["min_bps"] for g in groups) * count / total - 1),
            "highest": 100 * (max(g["max_bps"] for g in groups) * count / total - 1),
            "host_bps": hosts}


# ------------------------------------------------- guest: the bed, one case

def add_link(number: int, near: str, far: str, queues: int) -> None:
    """Link two namespaces by 10.0.<number>.0/24; queues: for TX, at the near end."""
    tx, rx = f"{near}{1 if number > 1 else 0}", f"{far}0"
    command("ip", "-n", near, "-batch", "-", text=f"""\
link set lo up
link add {tx} numtxqueues {queues} numrxqueues 1 type veth \
 peer name {rx} numtxqueues 1 numrxqueues {queues} netns {far}
addr add 10.0.{number}.1/24 dev {tx}
link set {tx} up""")
    command("ip", "-n", far, "-batch", "-", text=f"""\
addr add 10.0.{number}.2/24 dev {rx}
link set {rx} up""")


def add_routes(names: Sequence[str], at: int) -> None:
    """Give names[at], which is 10.0.(at).2 to its left and 10.0.(at + 1).1 to its right, routes."""
    routes = [f"10.0.{net}.0/24 via 10.0.{at + 1}.2" for net in range(at + 2, len(names))]
    routes += [f"10.0.{net}.0/24 via 10.0.{at}.1" for net in range(1, at)]
    command("ip", "-n", names[at], "-batch", "-",
            text="".join(f"route add {route}\n" for route in routes))


def tune(name: str, devices: Sequence[str], segments: bool) -> None:
    """Have a namespace forward, and use large windows; segments: as for build_bed()."""
    offload = "on" if segments else "off"
    command("ip", "netns", "exec", name, "sh", "-ec", f"""
cd /proc/sys/net/ipv4
echo 1 >ip_forward
echo 1 >tcp_no_metrics_save
echo 4096 131072 33554432 >tcp_rmem
echo 4096 65536 33554432 >tcp_wmem
for dev in {' '.join(devices)}; do ethtool -K $dev tso {offload} gso {offload} gro {offload}
done""")


def build_bed(queues: int, next_hop_bps: float, rtt_us: int,
              segments: bool = False) -> tuple[list[str], str]:
    """Make the namespaces and links; return the names and the server's address.

    segments: leave it to the links to divide what TCP sends into frames.
    """
    with open("/proc/sys/net/core/netdev_max_backlog", "w", encoding="ascii") as f:
        f.write("100000")
    names = ["c", "r", "h", "s"] if next_hop_bps else ["c", "r", "s"]
    for name in names:
        command("ip", "netns", "add", name)
    for number, (near, far) in enumerate(zip(names, names[1:]), 1):
        add_link(number, near, far, queues if near == "r" else 1)
    for at, name in enumerate(names):
        add_routes(names, at)
        devices = [f"{name}0"] if at or name == "c" else []
        devices += [f"{name}1"] if 0 < at < len(names) - 1 else []
        tune(name, devices, segments)
    for host in range(1, HOSTS + 1):
        command("ip", "-n", "c", "addr", "add", f"10.0.1.{host + 10}/24", "dev", "c0")
    tc(f"-n s qdisc replace dev s0 root netem delay {rtt_us}us limit 1000000")
    if next_hop_bps:
        tc(f"-n h qdisc replace dev h1 root netem rate {next_hop_bps:.0f}bit limit 1000000")
    return names, f"10.0.{len(names) - 1}.2"


def port_mask(queues: int) -> int:
    """The bits of a source port that say which queue it is for."""
    return (1 << (queues - 1).bit_length()) - 1


def shape(qdisc: str, queues: int, rate_bps: float, options: str) -> None:
    """Put the shaper on r1 and map source ports to its queues."""
    lines = contender_lines("r1", qdisc, rate_bps, queues, options)
    lines.append("qdisc replace dev r1 clsact")
    lines += [f"filter add dev r1 egress protocol ip prio 1 u32 match ip sport {q} "
              f"{port_mask(queues):#06x} action skbedit queue_mapping {q} continue"
              for q in range(queues)]
    tc("-n r -batch -", "\n".join(lines))
    if "shared" in qdisc.split():  # a kernel that does not know the option ignores it
        shown = tc("-n r qdisc show dev r1")
        if shown.count(" shared ") != queues:
            raise RuntimeError(f"this kernel does not know '{qdisc}'")


def flows_arguments(spec: dict) -> list[str]:
    """The command line of lab/traffic/flows.c for a case."""
    step = port_mask(spec["queues"]) + 1
    args = [f"warm={spec['warm_us']},window={spec['window_us']}"]
    if spec["probe_us"]:
        probes = min(spec["probes"], spec["queues"])
        args.append(f"probe={spec['probe_us']},port=61440,probes={probes},"
                    f"step={spec['queues'] // probes}")
    for number, g in enumerate(spec["flows"]):
        args.append(
            f"{g['kind']}={g['name']},port={16384 + 4096 * number + g['first']},"
            f"count={g['count']},per={g['queues']},step={step},tos={g['tos']},"
            f"start={g['start_us']},stagger={g['stagger_us']},bin={g['bin_us']},"
            f"rate={g['rate_bps']:.0f},host={g['host'] and g['host'] + 10 - 1}")
    return args


def measure_cases(cases: list[dict]) -> Iterator[dict]:
    """Measure each case, yield its row. Runs in the guest."""
    for spec in cases:
        names, server = build_bed(spec["queues"], spec["next_hop_bps"], spec["rtt_us"])
        shape(spec["qdisc"], spec["queues"], spec["rate_bps"], spec["options"])
        result = command(str(BUILD / "flows"), "client=c", "server=s",
                         f"addr={server}", f"from={CLIENT}", *flows_arguments(spec))
        for name in names:
            command("ip", "netns", "del", name)
        row = {key: value for key, value in spec.items() if key != "flows"}
        row.update(json.loads(result))
        yield {**row, **summary(row)}
