# SPDX-License-Identifier: GPL-2.0
"""Guest side: hop0, a device with many TX queues that loads and measures itself.

The work is done by the kernel module lab/traffic/hop, which says what it can do. Here
rates are in bit/s, times in seconds and sizes in bytes, on both ways.
"""

import json
import os
import time
from collections.abc import Iterable
from typing import Any

from traffic.traffic import FRAME, command

NAME = "hop0"
SEND = 1 << 16  # most bytes of commands in one write


def _ns(seconds):
    return round(seconds * 1e9)


def _byte_rate(bits):
    return round(bits / 8)


class Hop:
    """The device hop0 with `queues` TX queues, up. Needs root, no other hop0, and
    of the environment HOP_KO and HOP_LOCKDEP, as run_script() sets them.

    mq refuses a device with a single queue. unused: TX queues beyond these, which are not
    in use, as ethtool -L leaves them.
    """

    def __init__(self, queues: int, unused: int = 0) -> None:
        self.queues, self.unused = queues, unused
        self._commands = []
        self._streams = 0
        command("insmod", os.environ["HOP_KO"], f"queues={queues}",
                f"unused={unused}", f"lockdep={os.environ['HOP_LOCKDEP']}")
        command("ip", "link", "set", NAME, "up")
        # Under virtual time boot takes no time; until a few ticks have passed,
        # the kernel's timers are not yet of high resolution.
        time.sleep(0.05)
        self.clear()

    def remove(self) -> None:
        """Unload the module, and with it the device and its qdiscs."""
        command("rmmod", "hop")

    def clear(self) -> None:
        """Forget all streams, the meter and faults."""
        self._commands = ["clear"]
        self._streams = 0

    def stream(self, queue: int, mode: str = "saturate", rate: float | None = None,
               size: int = FRAME, *, tos: int = 0, priority: int = 0, flows: int | str = 1,
               src: int | None = None, dst: int | None = None, start: float = 0,
               stop: float | None = None, on: float | None = None, off: float | None = None,
               gso: int = 0, depth: int = 64, refuse: float = 0) -> int:
        """Add a stream; returns its number, the index into run()["streams"].

        queue: TX queue, from 0. mode: "paced" (constant), "poisson", or
        "saturate": keep at least depth packets of this stream in its qdisc
        (and at most a quarter more; where that cannot be had, it tries again
        after 20 us). rate: bit/s of frames. size: bytes of a frame with its
        Ethernet header. tos: byte of the IP header (priority: 0xb8, bulk: 8).
        priority: of the skb, such as a class of htb.
        flows: source ports taken in turn, or "flood": each packet a new one.
        src, dst: host numbers, 1 and queue + 1 if not given. start, stop:
        seconds from the start of the run. on, off: seconds; on and off in
        turn. gso: bytes of payload per segment; size is then that of a TCP
        packet to be segmented. A saturating one counts all packets of its
        qdisc, and looks every 20 us. refuse: seconds for which the device
        stops the queue at each packet, which it refuses once, until stop: so it is requeued.
        """
        words = {
            "queue": queue, "mode": mode, "size": size, "tos": tos, "priority": priority,
            "flows": 0 if flows == "flood" else flows, "start": _ns(start), "gso": gso,
            "depth": depth, "refuse": _ns(refuse),
        }
        if rate is not None:
            words["rate"] = _byte_rate(rate)
        for key, value in (("stop", stop), ("on", on), ("off", off)):
            if value is not None:
                words[key] = _ns(value)
        for key, value in (("src", src), ("dst", dst)):
            if value is not None:
                words[key] = value
        self._command("stream", words)
        self._streams += 1
        return self._streams - 1

    def streams(self, queues: Iterable[int], **load: Any) -> None:
        """Add the same stream to several queues; load: as for stream()."""
        for queue in queues:
            self.stream(queue, **load)

    def between(self, rate_bps: float, begin: float, end: float, **more: Any) -> dict:
        """What run() gives for so many s of a run that are metered; more: as for meter()."""
        self.meter(rate_bps, begin, **more)
        return self.run(end)

    def meter(self, rate_bps: float, from_s: float = 0, bins_us: float = 0,
              stream: int | None = None) -> None:
        """Set up the virtual next hop, which drains at rate_bps (0: none).

        from_s: seconds of the run that do not count (but in the bins).
        bins_us: width of the time bins in microseconds, 0 for none; 100000
        bins are possible. stream: number of one that gets bins of its own.
        """
        words = {"rate": _byte_rate(rate_bps), "from": _ns(from_s),
                 "bins": round(bins_us * 1e3)}
        if stream is not None:
            words["stream"] = stream
        self._command("meter", words)

    def faults(self, stall: float = 0, stall_s: float = 0, stopq: int = 0,
               stopq_s: float = 0) -> None:
        """One in `stall` transmits takes stall_s longer (at most 1 ms), one in
        `stopq` stops its TX queue for stopq_s; 0: none."""
        self._command("fault", {"stall": stall, "stall_ns": _ns(stall_s),
                                "stopq": stopq, "stopq_ns": _ns(stopq_s)})

    def run(self, seconds: float) -> dict:
        """Run the streams for so many seconds and return what was metered.

        seconds (metered), bps, bytes, packets; excess: {"bytes": the most that was sent above
        rate * t in any window}; queues: of each {"bps", "bytes", "packets"}; streams: of each
        {"tos", "bps", "bytes", "packets", "sent", "inflight", "delay", "total"}, where sent and
        inflight (still queued) are of the whole run, delay is in seconds from before the qdisc
        to the device and total is that with the wait at the next hop: {"mean", "max", "p99"},
        the last within 2 %. stalls, stops: how often faults() struck. bin_s, and bins and
        stream_bins: bytes of each bin, from the start of the run. host_s: CPU time in seconds
        that the host spent on the run, with its beginning and end; 0 where that is not known,
        as in QEMU.
        """
        self._command("run", {"ns": _ns(seconds)})
        self._flush()
        with open("/proc/hop", encoding="ascii") as file:
            return _result(json.load(file))

    def _command(self, name, words):
        self._commands.append(
            " ".join([name, *(f"{key}={value}" for key, value in words.items())]))

    def _flush(self):
        commands, self._commands = self._commands, []
        file = os.open("/proc/hop", os.O_WRONLY)
        try:
            while commands:
                count, size = 0, 0
                while count < len(commands) and size + len(commands[count]) < SEND:
                    size += len(commands[count]) + 1
                    count += 1
                text = "\n".join(commands[:count])
                try:
                    os.write(file, text.encode())
                except OSError as err:
                    raise RuntimeError(f"hop: {err.strerror}: see the kernel log; "
                                       f"one of:\n{text[:2000]}") from None
                commands = commands[count:]
        finally:
            os.close(file)


def _result(raw):
    seconds = max(raw["end"] - raw["from"], 0) / 1e9

    def rates(packets, size):
        return {"bps": size * 8 / seconds if seconds else 0, "bytes": size,
                "packets": packets}

    def stream(one):
        return {**{key: one[key] for key in ("tos", "sent", "inflight")},
                **rates(one["packets"], one["bytes"]),
                "delay": _waits(one["delay"]), "total": _waits(one["total"])}

    return {
        "seconds": seconds, **rates(raw["packets"], raw["bytes"]),
        "excess": {"bytes": raw["excess"]["max_nanobytes"] / 1e9},
        "stalls": raw["stalls"], "stops": raw["stops"], "host_s": raw["host_ns"] / 1e9,
        "queues": [rates(*queue) for queue in raw["queues"]],
        "streams": [stream(one) for one in raw["streams"]],
        "bin_s": raw["bin_ns"] / 1e9,
        "bins": [both[0] for both in raw["bins"]],
        "stream_bins": [both[1] for both in raw["bins"]],
    }


def _waits(raw):
    """Mean, max and 99th percentile, in seconds, of a histogram as the module gives it."""
    count = sum(n for _, _, n in raw["hist"])
    rest, p99 = count * 99 / 100, 0
    for low, high, n in raw["hist"]:
        p99 = low if high == low + 1 else (low + high) / 2
        rest -= n
        if rest <= 0:
            break
    return {"mean": raw["sum"] / count / 1e9 if count else 0, "max": raw["max"] / 1e9,
            "p99": min(p99, raw["max"]) / 1e9}
