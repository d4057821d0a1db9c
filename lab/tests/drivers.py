# SPDX-License-Identifier: GPL-2.0
"""make drivers: the patched kernel with drivers of network cards, in QEMU.

igb (8 queues, 4 in use), virtio-net (the same) and vmxnet3 (4) send 20 Mbit/s under a load of
several times that on all queues: through cake_mq, cake, tbf and htb with shared below mq, set
up by the loops of Documentation/networking/qdisc-shared-rate.rst, and cake below mqprio. Then
things happen to the card (ethtool, MTU, down and up, ...) or to the qdiscs. After each, what
the peer's card receives in a second of the guest's time has to be the rate.

Queues that come into use have a member by these loops. Where they do not, the kernel has to
say so in its log, once until another member joins; and nowhere else.

veth, which has 8 queues as well, does that in the kernel of make demo, User-Mode Linux, where time
is virtual and there is no QEMU. Without --on, all are run; a whole run of one replaces its rows
in drivers.json.

A splat in the guest's log is a failure. The last line is 'N passed, N failed'.
"""

import re
from collections.abc import Sequence
from pathlib import Path

from guest import cards
from guest.boot import Job, run_script
from host.common import ROOT, Die, known, parallel, say
from host.results import keep_result, kept_rows, verdict
from host.table import Table
from series import kernel
from series.code import sources

from tests.drivers_guest import EVENTS, MQPRIO_EVENTS

RECORD = "drivers.json"
DRIVERS = (*cards.DRIVERS, "veth")
GUIDE = ROOT / "Documentation/networking/qdisc-shared-rate.rst"
RATE = 20  # Mbit/s
# Of the rate, by which what arrives in a window may differ: it begins and ends between two packets
# (of 64 KB with TCP: 0.5 %), a card holds back some until its next interrupt, and adds 4 bytes
# to each packet on a VLAN, which no qdisc sees (0.3 %).
TOLERANCE = 0.01
OPEN = {"queues without a member": 1, "and again": 0}  # event: lines of the log about it
TIMEOUT = 3600  # s of the host for a driver


def loops() -> tuple[str, str]:
    """The loops over all classes of mq in the guide: (that for cake, that for htb), for $dev."""
    blocks = re.findall(r"::\n\n((?:  .*\n|\n)+)", GUIDE.read_text())
    found = [re.sub(r"(?m)^  ", "", block).replace("eth0", "card") for block in blocks
             if "tc class show" in block]
    cake, htb = found
    # the same relations, at 20 Mbit/s for 10 Gbit/s
    htb = re.sub(r"\b(\d+)([gm])bit", lambda rate: f"{2 * int(rate[1])}"
                 + {"g": "mbit", "m": "kbit"}[rate[2]], htb)
    return cake.replace("10gbit", f"{RATE}mbit"), htb


def changes(kind: str) -> list[str]:
    """50 lines for tc, the last of which bring back what there was."""
    lines = []
    for number in range(50):
        rate = f"{RATE if number >= 40 else 5 + number}mbit"
        queue = f"{number % cards.CPUS + 1:x}"
        mode = ("diffserv4", "besteffort", "diffserv3")[number % 3]
        lines.append("qdisc change dev card " + {
            "cake_mq": f"root cake_mq bandwidth {rate} {mode}",
            "cake": f"parent 1:{queue} cake bandwidth {rate} {mode}",
            "tbf": f"parent 1:{queue} tbf rate {rate} burst {2 + number % 64}kb limit 1mb shared",
        }[kind] if kind != "htb" else
            f"class change dev card parent 1{queue}: classid 1{queue}:1 htb rate {rate}")
    return lines


def setups() -> dict[str, dict]:
    """What drivers_guest.run() is to set up."""
    cake, htb = loops()
    half = cards.CPUS // 2
    queues = f"{half}@0 {half}@{half}"
    found = {
        "cake_mq": {
            "script": f"tc qdisc replace dev card root handle 1: cake_mq bandwidth {RATE}mbit",
            "modules": ["sch_cake"], "changes": changes("cake_mq")},
        "mq + cake shared": {"script": cake, "modules": ["sch_cake"],
                             "changes": changes("cake")},
        "mq + tbf shared": {
            "script": cake.replace(f"cake bandwidth {RATE}mbit",
                                   f"tbf rate {RATE}mbit burst 64k limit 1m"),
            "modules": ["sch_tbf"], "changes": changes("tbf")},
        "mq + htb shared": {"script": htb, "modules": ["sch_htb"],
                            "changes": changes("htb"), "priorities": [0, 0x10020]},
        "mqprio + cake shared": {
            "script": "tc qdisc replace dev card root handle 1: mqprio num_tc 2 map "
                      f"0 0 0 0 0 0 0 0 1 1 1 1 1 1 1 1 queues {queues} hw 0\n"
                      + "".join(f"tc qdisc replace dev card parent 1:{n:x} cake bandwidth "
                                f"{RATE * 3 // 5 if n <= half else RATE * 2 // 5}mbit "
                                f"shared {1 if n <= half else 2}\n"
                                for n in range(1, cards.CPUS + 1)),
            "modules": ["sch_cake", "sch_mqprio"], "changes": [
                f"qdisc change dev card parent 1:{1 + n % 2 * half:x} cake bandwidth {rate}mbit"
                for n in range(50) for rate in [(RATE * (3 - n % 2) // 5) + (n < 40)]],
            "events": list(MQPRIO_EVENTS)},
    }
    return {name: {"events": list(EVENTS), "priorities": [0], "below": name != "cake_mq", **setup}
            for name, setup in found.items()}


def kernel_of(driver: str) -> str:
    """The kernel that a driver is run in."""
    return "patched" if driver == "veth" else "drivers"


def carry_out(driver: str, names: Sequence[str], events: Sequence[str]) -> tuple[list, list]:
    """Boot with a card: (rows of drivers_guest.run(), sentences about what went wrong)."""
    job = f"drivers-{driver}"
    monitor = Path(Job(job, "").folder) / "monitor"
    wanted = {name: {**setup, "events": [event for event in setup["events"]
                                         if not events or event in events]}
              for name, setup in setups().items() if name in names}

    def on_row(row: dict) -> None:
        if "link" in row:
            cards.plug(monitor, row["link"])
        else:
            print(told(driver, row), flush=True)

    try:
        which = kernel_of(driver)
        how = {"virtual": True} if driver == "veth" else {
            "cpus": cards.CPUS, "machine": cards.machine(driver, monitor)}
        rows, guest = run_script(
            kernel.KERNELS[which].out, job, "tests.drivers_guest:run",
            {"driver": driver, "setups": wanted}, on_row=on_row, timeout=TIMEOUT, **how)
    except Die as error:
        return [], [f"{driver}: {error}"]
    bad = guest.report()
    return ([row for row in rows if "link" not in row],
            [f"{driver}: {bad}"] if bad else [])


def wrong(row: dict) -> str:
    """What is wrong with a row, in words; "" if nothing is."""
    expected = OPEN.get(row["event"], 0)
    if "error" in row:
        return row["error"]
    if row["bad"]:
        return f"the kernel's log says '{row['bad'][0]}'"
    if len(row["said"]) != expected:
        return f"{len(row['said'])} warnings about queues without a limit, {expected} expected"
    if row["mbit"] is None or row["event"] in OPEN:
        return ""
    return "" if abs(row["mbit"] / RATE - 1) <= TOLERANCE else f"not within {TOLERANCE:.0%}"


def told(driver: str, row: dict) -> str:
    """A line about a row."""
    what = row.get("missing") or (f"{row['mbit']:8.3f} Mbit/s" if row["mbit"] is not None else "")
    said = f", warned of {len(row['said'])}" if row["said"] else ""
    return (f"{driver:<12}{row['setup']:<22}{row['event']:<32}{what}{said}"
            + (f"  FAIL: {wrong(row)}" if wrong(row) else ""))


def table(rows: Sequence[dict]) -> list[str]:
    """Lines: events, and what was sent after each, by driver and set-up."""
    head = list(dict.fromkeys((row["driver"], row["setup"]) for row in rows))
    found = {(row["driver"], row["setup"], row["event"]): row for row in rows}
    events = dict.fromkeys(row["event"] for row in rows if "missing" not in row)
    lines = []
    for driver in DRIVERS:
        names = [setup for one, setup in head if one == driver]
        if not names:
            continue
        shape = Table((f"{driver}, Mbit/s of {RATE}", "event", "", -30), *(
            (name.replace(" shared", ""), name, ".2f", 15) for name in names))
        lines += [*([""] if lines else []), *shape.head()]
        for event in events:
            values = {name: found.get((driver, name, event), {}).get("mbit") for name in names}
            if any(value is not None for value in values.values()):
                lines.append(shape.line({"event": event, **values}))
    return lines


def store(rows: Sequence[dict], drivers: Sequence[str]) -> None:
    """Replace the rows of drivers in drivers.json."""
    new = [{**{key: row[key] for key in ("driver", "setup", "event", "mbit")},
            "said": len(row["said"]), "sources": sources(),
            **({"missing": row["missing"]} if "missing" in row else {})} for row in rows]
    all_ = [row for row in kept_rows(RECORD) if row["driver"] not in drivers] + new
    keep_result(RECORD, {
        "what": f"what a card sends in a second after each event, Mbit/s; the rate is {RATE}, "
        f"within {TOLERANCE:.0%}; said: lines of the kernel's log about queues without a limit",
        "rows": [row for driver in DRIVERS for row in all_ if row["driver"] == driver]})


def main(on: str = "", setups_: str = "", events_: str = "") -> None:
    """Build, boot, judge; a whole run is kept.

    on: of igb, vmxnet3, virtio_net and veth, with commas between them (all). setups: of the
    set-ups, likewise. events: of the events, likewise.
    """
    drivers = known("driver", on.split(",") if on else DRIVERS, DRIVERS)
    names = known("set-up", setups_.split(",") if setups_ else setups(), setups())
    events = known("event", events_.split(",") if events_ else (), EVENTS)
    for which in {kernel_of(driver): None for driver in drivers}:
        kernel.build(which)
    if set(drivers) & set(cards.DRIVERS):
        cards.program()
    say(f"booting with {', '.join(drivers)}")
    found = list(parallel(lambda driver: carry_out(driver, names, events), drivers))
    rows = [{"driver": driver, **row} for driver, (part, _) in zip(drivers, found, strict=True)
            for row in part]
    failed = [sentence for _, sentences in found for sentence in sentences]
    failed += [f"{row['driver']}, {row['setup']}, {row['event']}: {wrong(row)}" for row in rows
               if wrong(row)]
    print("\n".join(["", *table(rows), ""]))
    if not (setups_ or events_):
        store(rows, drivers)
    tried = sum("missing" not in row for row in rows)
    skipped = len(rows) - tried
    verdict(sum("missing" not in row and not wrong(row) for row in rows), failed, skipped)
