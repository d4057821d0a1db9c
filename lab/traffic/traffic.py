# SPDX-License-Identifier: GPL-2.0
"""Guest side: commands, qdiscs on a device with many TX queues, and pktgen. Runs as root."""

import json
import subprocess
from pathlib import Path

FRAME = 1514  # bytes, as the qdisc and the device count a full-size frame
CROWDED = (5, 3, 2, 2, 2, 1, 1, 0)  # flows of eight queues


PARENTS = {  # how to make a qdisc that has a child per TX queue
    "mq": "mq",
    "mqprio": f"mqprio num_tc 1 map {'0 ' * 16}queues {{queues}}@0 hw 0",
}
RATE_WORD = {"tbf": "rate"}  # what a qdisc calls its rate, if not bandwidth
EDT = Path(__file__).with_name("edt.c")


def command(*words: str, text: str | None = None, check: bool = True) -> str:
    """Run a command with text as its input, return its standard output.

    RuntimeError with its message if it fails and check is set.
    """
    done = subprocess.run(words, input=text, capture_output=True, text=True,
                          check=False)
    if done.returncode and check:
        raise RuntimeError(
            f"{' '.join(words)}: {done.stderr.strip()}\n{text or ''}".strip())
    return done.stdout


def tc(args: str, text: str | None = None, check: bool = True) -> str:
    """command() for tc, with its words in one string."""
    return command("tc", *args.split(), text=text, check=check)


def contender_lines(dev: str, contender: str, rate: float, queues: int,
                    options: str = "") -> list[str]:
    """What tc -batch reads to put a contender on a device, as root 1:.

    contender: a root qdisc ("cake"), one per TX queue below mq or mqprio
    ("mq + cake", "mq + cake shared"), a rival that needs more ("htb" and
    "htb fq_codel", which is its leaf; "edt 50", with a horizon of 50 ms).
    rate: bit/s, of each qdisc. queues: that get a qdisc, at most as many as the
    device has. options: more of tc's words.
    """
    parent, _, shaper = contender.rpartition(" + ")
    kind, *words = shaper.split()
    if kind == "htb":
        leaf = words[0] if words else "pfifo limit 10000"
        burst = max(1600, rate / 8 * 5e-6)  # bytes: what slack of 5 us needs, as for us
        return [f"qdisc replace dev {dev} root handle 1: htb default 1",
                f"class add dev {dev} parent 1: classid 1:1 htb rate {rate:.0f}bit "
                f"quantum 1514 burst {burst:.0f} cburst {burst:.0f}",
                f"qdisc add dev {dev} parent 1:1 {leaf}"]
    if kind == "edt":
        return edt_lines(dev, rate, queues, int(words[0]))
    shaper = " ".join([kind, RATE_WORD.get(kind, "bandwidth"), f"{rate:.0f}bit", options,
                       *words])
    root = PARENTS[parent].format(queues=queues) if parent else shaper
    lines = [f"qdisc replace dev {dev} root handle 1: {root}"]
    if parent:
        lines += [f"qdisc add dev {dev} parent 1:{q:x} {shaper}"
                  for q in range(1, queues + 1)]
    return lines


def edt_lines(dev: str, rate: float, queues: int, horizon_ms: int) -> list[str]:
    """contender_lines() of the rival in lab/traffic/edt.c, which is compiled here."""
    program = f"/run/edt-{rate:.0f}-{horizon_ms}.o"
    command("clang-19", "-O2", "-target", "bpf", "-I/usr/include/x86_64-linux-gnu",
            f"-DRATE={rate:.0f}ULL", f"-DHORIZON={horizon_ms * 10**6}ULL", "-c", str(EDT),
            "-o", program)
    fq = "fq limit 1000000 flow_limit 1000000"
    return [
        f"qdisc replace dev {dev} root handle 1: mq",
        *(f"qdisc add dev {dev} parent 1:{q:x} {fq}" for q in range(1, queues + 1)),
        f"qdisc replace dev {dev} clsact",
        f"filter add dev {dev} egress prio 2 bpf direct-action obj {program} "
        "section classifier",
    ]


def pktgen(target: str, line: str) -> None:
    """Give one command to a pktgen control file below /proc/net/pktgen."""
    with open(f"/proc/net/pktgen/{target}", "w", encoding="ascii") as f:
        f.write(line)


def random_stream(queues: int, tos: str, gap: int) -> tuple[str, ...]:
    """Lines for a stream of pktgen: random sizes, flows and queues.

    tos: two hex digits. gap: ns from packet to packet.
    """
    return (
        "count 0", "min_pkt_size 64", "max_pkt_size 1500", "flag TXSIZE_RND",
        "xmit_mode queue_xmit", f"delay {gap}", "dst 10.0.0.1",
        "dst_mac 02:00:00:00:00:01", "flag UDPSRC_RND", "udp_src_min 1",
        "udp_src_max 500", f"tos {tos}", "queue_map_min 0",
        f"queue_map_max {queues - 1}", "flag QUEUE_MAP_RND")


def active_queues(dev: str) -> int | None:
    """The highest count of active queues in the statistics of its qdiscs, None if none."""
    stats = json.loads(tc(f"-s -j qdisc show dev {dev}"))
    return max((q["active_queues"] for q in stats if "active_queues" in q), default=None)
