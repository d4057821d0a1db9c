# SPDX-License-Identifier: GPL-2.0
"""Guest loads of make reported: issues of users of htb, tbf and cake below mq, once more.

In virtual time. Each case loads the device hop0 below one qdisc at the root, below mq with one per
queue, and below mq with qdiscs that share, all on the patched kernel: what does not share is there
as it was (make compat). A case gives figures by name; issues.toml says what was reported, which
figures its row shows, and when what is shared does what is right. Rates are in bit/s.
"""

import json
import socket
import time
from collections.abc import Iterator, Sequence

from host.common import told
from traffic.bed import beside_run, uninstall
from traffic.hop import NAME, Hop
from traffic.traffic import command, tc

QUEUES = 4


def handles(kind: str, queues: int) -> list[str]:
    """Those of the qdiscs that shape."""
    return ["11:"] if kind == "root" else [f"1{queue}:" for queue in range(1, queues + 1)]


def attach(verb: str, kind: str, words: str, queues: int) -> None:
    """Add or replace the qdiscs that shape; words: their own."""
    shared = " shared" if kind == "shared" else ""
    for queue, handle in enumerate(handles(kind, queues), 1):
        where = "root" if kind == "root" else f"parent 1:{queue:x}"
        tc(f"qdisc {verb} dev {NAME} {where} handle {handle} {words}{shared}")


def put(kind: str, words: str, queues: int) -> None:
    """Put a qdisc on hop0, in the way that kind says; words: its own."""
    uninstall()
    if kind != "root":
        tc(f"qdisc replace dev {NAME} root handle 1: mq")
    attach("replace" if kind == "root" else "add", kind, words, queues)


def classes(kind: str, queues: int, lines: Sequence[str]) -> str:
    """Add classes to each htb; lines: of tc, with H for the htb's handle. What tc says of it."""
    text = "\n".join(f"class add dev {NAME} {line.replace('H:', handle)}"
                     for handle in handles(kind, queues) for line in lines)
    done = told("tc", "-batch", "-", input=text)
    if done.returncode:
        raise RuntimeError(f"tc: {done.stderr}")
    return done.stderr + command("dmesg", "-c")


def leaves() -> list[dict]:
    """Statistics of the qdiscs that shape."""
    rows = json.loads(tc(f"-s -j qdisc show dev {NAME}"))
    return [row for row in rows if row["kind"] in ("cake", "tbf", "htb")]


def run(hop: Hop, loads: Sequence[dict], seconds: float, settle: float = 0.0) -> dict:
    """Send, a load per queue."""
    hop.clear()
    for queue, load in enumerate(loads):
        hop.stream(queue, **load)
    return hop.between(0, settle, settle + seconds)


def two_ifb_queues(kind: str, hop: Hop) -> dict:
    """6 Gbit/s offered to each of two queues, under 8 Gbit/s."""
    put(kind, "cake bandwidth 8gbit diffserv3 dual-dsthost ingress no-split-gso rtt 1ms "
              "overhead 38 mpu 84", 2)
    got = run(hop, [{"mode": "paced", "rate": 6e9, "flows": 8}] * 2, 0.3, 0.1)
    drops = sum(row["drops"] for row in leaves())
    packets = sum(row["packets"] for row in leaves())
    return {"sent": got["bps"] * (1514 + 38) / 1514, "dropped": 100 * drops / (drops + packets)}


def quantum_warnings(kind: str, hop: Hop) -> dict:
    """250 classes of 100 Mbit/s below one of 10 Gbit/s on each queue, r2q 10."""
    put(kind, "htb default 2 r2q 10", QUEUES)
    said = classes(kind, QUEUES, ["parent H: classid H:1 htb rate 10gbit",
                                  *(f"parent H:1 classid H:{one:x} htb rate 100mbit ceil 1gbit"
                                    for one in range(2, 252))])
    return {"warnings": said.count("quantum of class")}


def big_burst(kind: str, hop: Hop) -> dict:
    """2 Gbit/s offered to tbf of 10 Mbit/s with a burst of 256 MB, in the first second."""
    put(kind, "tbf rate 10mbit burst 256mb latency 25ms", QUEUES)
    got = run(hop, [{"mode": "paced", "rate": 500e6}] * QUEUES, 1.0)
    return {"sent": got["bps"]}


def wide_rates(kind: str, hop: Hop) -> dict:
    """tbf of 40.96 Gbit/s, saturated by GSO packets; and htb of 400 Gbit/s read back."""
    put(kind, "tbf rate 40.96gbit burst 1mb limit 100mb", QUEUES)
    shown = {8 * row["options"]["rate"] for row in leaves()}
    got = run(hop, [{"mode": "saturate", "size": 64000, "gso": 1448}] * QUEUES, 0.05, 0.01)
    put(kind, "htb default 1", QUEUES)
    classes(kind, QUEUES, ["parent H: classid H:1 htb rate 35gbit ceil 400gbit"])
    rows = json.loads(tc(f"-j class show dev {NAME}"))
    pairs = {(8 * row["rate"], 8 * row["ceil"]) for row in rows if row["class"] == "htb"}
    good = shown == {40_960_000_000} and pairs == {(35_000_000_000, 400_000_000_000)}
    return {"sent": got["bps"], "read back": int(good)}


def one_classid(kind: str, hop: Hop) -> dict:
    """skb->priority 11:10 on every queue, a class of at most 100 Mbit/s, 200 offered to each."""
    put(kind, "htb default 0", QUEUES)
    classes(kind, QUEUES, ["parent H: classid H:1 htb rate 100mbit",
                           "parent H:1 classid H:10 htb rate 50mbit ceil 100mbit"])
    got = run(hop, [{"mode": "paced", "rate": 200e6, "priority": 0x110010}] * QUEUES, 0.5, 0.1)
    direct = sum(row["options"]["direct_packets_stat"] for row in leaves())
    return {"sent": got["bps"], "direct": direct}


def short_queue(kind: str, hop: Hop) -> dict:
    """txqueuelen 1, htb of 100 Mbit/s without leaves of its own, 50 offered to each queue."""
    command("ip", "link", "set", NAME, "txqueuelen", "1")
    put(kind, "htb default 1", QUEUES)
    classes(kind, QUEUES, ["parent H: classid H:1 htb rate 100mbit"])
    got = run(hop, [{"mode": "paced", "rate": 25.2e6 * 2}] * QUEUES, 0.5, 0.1)
    command("ip", "link", "set", NAME, "txqueuelen", "1000")
    return {"sent": got["bps"]}


def leaf_cakes(kind: str, hop: Hop) -> dict:
    """50 leaf cakes a second made and removed, then all anew, beside 400 Mbit/s and a probe."""
    hop.clear()
    tree = ["parent H: classid H:1 htb rate 100mbit",
            "parent H:1 classid H:2 htb rate 50mbit ceil 100mbit",
            *(f"parent H:1 classid H:{one:x} htb rate 1mbit ceil 100mbit"
              for one in range(3, 12))]
    roots = handles(kind, QUEUES)

    def set_up() -> None:
        put(kind, "htb default 2", QUEUES)
        classes(kind, QUEUES, tree)

    def change() -> None:
        for turn in range(50):
            parent = f"parent {roots[turn % len(roots)]}{3 + turn % 8:x}"
            tc(f"qdisc add dev {NAME} {parent} cake unlimited")
            time.sleep(0.02)
            tc(f"qdisc del dev {NAME} {parent}")
        tc(f"qdisc replace dev {NAME} root handle 7fff: mq")
        set_up()

    set_up()
    for queue in range(QUEUES):
        hop.stream(queue, mode="paced", rate=100e6)
    probe = hop.stream(0, mode="paced", rate=1e6, priority=0x11000B)
    hop.meter(0)
    one = beside_run(hop, 1.5, change)["streams"][probe]
    return {"wait": one["delay"]["max"],
            "lost": 100 * (1 - (one["packets"] + one["inflight"]) / one["sent"])}


def broken_packets() -> list[bytes]:
    """Frames whose headers say what is not so."""
    mac = bytes(12)

    def ip4(ihl, length, protocol, rest):
        return (mac + b"\x08\x00" + bytes([0x40 | ihl, 0]) + length.to_bytes(2, "big")
                + bytes([0, 1, 0, 0, 64, protocol, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]) + rest)

    tcp = bytes([1, 1, 2, 2]) + bytes(8)
    ip6 = bytes([0x60, 0, 0, 0, 0, 20, 250, 64]) + bytes(15) + b"\1" + bytes(15) + b"\2"
    return [ip4(15, 20, 6, b""), ip4(5, 65535, 6, tcp + b"\xf0\x10" + bytes(6)),
            ip4(5, 21, 6, b"\0"), ip4(0, 0, 6, tcp), mac + b"\x86\xdd" + ip6 + bytes(20),
            mac + b"\x86\xdd" + ip6[:6] + b"\6" + ip6[7:] + tcp + b"\xf0\x10" + bytes(6),
            ip4(5, 1020, 17, bytes(1000)), mac + b"\x86\xdd" + ip6[:9],
            mac + b"\x08\x00" + b"\x45", mac + b"\x08\x00"]


def malformed(kind: str, hop: Hop) -> dict:
    """Broken packets, 50 times, through the ACK filter and a negative overhead."""
    put(kind, "cake bandwidth 1mbit ack-filter-aggressive overhead -64 mpu 0 nat", QUEUES)
    refused = 0
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0x0300) as raw:
        raw.bind((NAME, 0))
        for _ in range(50):
            for frame in broken_packets():
                try:
                    raw.send(frame)
                except OSError:
                    refused += 1
    time.sleep(5)
    rows = leaves()
    sizes = [row["max_adj_size"] for row in rows]
    return {"sent": sum(row["packets"] for row in rows),
            "longest": max(sizes), "refused": refused}


def configured_twice(kind: str, hop: Hop) -> dict:
    """replace with handles, twice, while packets wait; and tc -j of all."""
    words = "cake bandwidth 1mbit"
    put(kind, words, QUEUES)
    run(hop, [{"mode": "paced", "rate": 10e6}] * QUEUES, 0.1)
    before = sum(row["qlen"] for row in leaves())
    for _ in range(2):
        attach("replace", kind, words, QUEUES)
    after = sum(row["qlen"] for row in leaves())
    command("ip", "link", "add", "one0", "type", "dummy")
    said = told("tc", "qdisc", "add", "dev", "one0", "root", "cake_mq").stderr
    command("ip", "link", "del", "one0")
    return {"kept": 100 * after / before if before else 0, "told": int("queue" in said)}


TUNNELS = {  # name: how it is made, below va
    "ipip": "type ipip local 10.9.0.1 remote 10.9.0.2",
    "gre": "type gre local 10.9.0.1 remote 10.9.0.2",
    "vxlan": "type vxlan id 7 local 10.9.0.1 remote 10.9.0.2 dstport 4789 dev va",
    "wireguard": "type wireguard",
}
SHAPES = ("ethernet overhead 34 mpu 84", "ethernet overhead 34 mpu 84 no-split-gso", "atm", "ptm")
TUNNELED = [*((name, SHAPES[0]) for name in TUNNELS), *(("vxlan", words) for words in SHAPES[1:])]


def make_tunnel(name: str) -> None:
    """A tunnel t0 from this namespace over va to the namespace b, 10.8.0.1 to 10.8.0.2."""
    def swapped(words: str) -> str:
        return words.replace("local 10.9.0.1 remote 10.9.0.2",
                             "local 10.9.0.2 remote 10.9.0.1").replace("va", "vb")

    ends = {(): TUNNELS[name], ("-n", "b"): swapped(TUNNELS[name])}
    for number, (where, words) in enumerate(ends.items(), 1):
        command("ip", *where, "link", "add", "t0", *words.split())
        command("ip", *where, "addr", "add", f"10.8.0.{number}/24", "dev", "t0")
        command("ip", *where, "link", "set", "t0", "up")


def peer_keys() -> None:
    """Let the two ends of a wireguard tunnel know each other."""
    private = [command("wg", "genkey").strip() for _ in range(2)]
    public = [command("wg", "pubkey", text=key).strip() for key in private]
    for number, where in enumerate(((), ("ip", "netns", "exec", "b"))):
        command(*where, "wg", "set", "t0", "private-key", "/proc/self/fd/0", "listen-port", "51820",
                "peer", public[1 - number], "allowed-ips", "0.0.0.0/0", "endpoint",
                f"10.9.0.{2 - number}:51820", text=private[number])


def tunnels(kind: str, hop: Hop) -> dict:
    """TCP through tunnels over a device of 4 queues and 102.4 Mbit/s: the least and the most that
    it gets, bit/s, and the longest packet that any cake saw, bytes."""
    del hop
    command("ip", "netns", "add", "b")
    command("ip", "-batch", "-", text=f"""\
link add va numtxqueues {QUEUES} numrxqueues {QUEUES} type veth peer name vb netns b
addr add 10.9.0.1/24 dev va
link set va up""")
    command("ip", "-n", "b", "-batch", "-", text="addr add 10.9.0.2/24 dev vb\nlink set vb up")
    rates, longest = [], 0
    for port, (name, words) in enumerate(TUNNELED, 5201):
        make_tunnel(name)
        if name == "wireguard":
            peer_keys()
        cake = f"bandwidth 102400kbit {words}"
        tc("qdisc replace dev va root handle 1: " + {
            "root": f"cake {cake}", "shared": f"cake_mq {cake}", "each": "mq"}[kind])
        for queue in range(QUEUES) if kind == "each" else ():
            tc(f"qdisc replace dev va parent 1:{queue + 1:x} cake {cake}")
        command("ip", "netns", "exec", "b", "iperf3", "-s", "-1", "-D", "-B", "10.8.0.2",
                "-p", str(port))
        command("ping", "-c1", "10.8.0.2")
        out = json.loads(command("iperf3", "-c", "10.8.0.2", "-p", str(port), "-J", "-t", "2",
                                 "-O", "1"))
        if "error" in out:
            raise RuntimeError(f"iperf3 through {name}: {out['error']}")
        rates.append(out["end"]["sum_received"]["bits_per_second"])
        rows = json.loads(tc("-s -j qdisc show dev va"))
        longest = max(longest, *(row["max_adj_size"] for row in rows if row["kind"] == "cake"))
        tc("qdisc del dev va root")
        command("ip", "link", "del", "t0")
        command("ip", "-n", "b", "link", "del", "t0")
    command("ip", "link", "del", "va")
    command("ip", "netns", "del", "b")
    return {"least": min(rates), "most": max(rates), "longest": longest}


def run_shared(spec: dict) -> Iterator[dict]:
    """Measure cases in one way, yield their rows. spec: cases ({name: function}), kind."""
    for name, load in spec["cases"].items():
        hop = Hop(2 if name == "two ifb queues" else QUEUES)
        try:
            yield {"case": name, **globals()[load](spec["kind"], hop)}
        finally:
            hop.remove()
