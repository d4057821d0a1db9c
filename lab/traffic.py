"""Guest side: a device with many TX queues, pktgen on them, and what came out.

Runs as root inside a kernel whose clock is virtual (time-travel=inf-cpu), where
a second lasts as long as the work in it and a load generator is never late.
"""

import json
import subprocess
import threading
import time

FRAME = 1514  # bytes, as the qdisc and the device count a full-size frame


def tc(args, check=True):
    """Run tc, return its standard output; RuntimeError with its message if check."""
    done = subprocess.run(
        ["tc", *args.split()], capture_output=True, text=True, check=False
    )
    if done.returncode and check:
        raise RuntimeError(f"tc {args}: {done.stderr.strip()}")
    return done.stdout


def _write(path, text):
    with open(path, "w") as f:
        f.write(text)


def pktgen(target, command):
    """Give one command to a pktgen control file below /proc/net/pktgen."""
    _write(f"/proc/net/pktgen/{target}", command)


def tx_bytes(dev):
    """Bytes that the device has sent since it was made."""
    with open(f"/sys/class/net/{dev}/statistics/tx_bytes") as f:
        return int(f.read())


class Device:
    """A dummy device d0 of which the first `queues` TX queues get traffic.

    It has one queue more than that: mq refuses a device with a single queue,
    and pktgen never sends to the last one of the range it is given.
    """

    def __init__(self, queues):
        self.name = "d0"
        self.queues = queues
        subprocess.run(
            ["ip", "link", "add", self.name, "numtxqueues", str(queues + 1),
             "type", "dummy"], check=True,
        )
        subprocess.run(["ip", "link", "set", self.name, "up"], check=True)

    def delete(self):
        """Remove the device; pktgen must have let go of it."""
        subprocess.run(["ip", "link", "del", self.name], check=True)

    def offer(self, rates, size=FRAME):
        """Prepare one stream per driven queue; rates in bit/s, size in bytes."""
        pktgen("kpktgend_0", "rem_device_all")
        for q, rate in enumerate(rates):
            stream = f"{self.name}@{q}"
            pktgen("kpktgend_0", f"add_device {stream}")
            for command in (
                "count 0", f"pkt_size {size}", "xmit_mode queue_xmit",
                f"delay {max(1, round(size * 8e9 / rate))}",
                f"dst 10.0.0.{q + 1}", "src_min 10.1.0.1",
                "dst_mac 02:00:00:00:00:01",
                f"queue_map_min {q + 1}", f"queue_map_max {q + 1}",
            ):
                pktgen(stream, command)

    def run(self, warm, seconds):
        """Send for warm + seconds, return (bit/s, active queues) of the last.

        Times are virtual seconds. The number of active queues is the highest
        that any cake of the device reports at the end, None if none does.
        """
        before = tx_bytes(self.name)
        sender = threading.Thread(target=pktgen, args=("pgctrl", "start"))
        sender.start()
        while tx_bytes(self.name) == before:  # pktgen takes a while to start
            time.sleep(0.001)
        time.sleep(warm)
        t0, b0 = time.monotonic_ns(), tx_bytes(self.name)
        time.sleep(seconds)
        t1, b1 = time.monotonic_ns(), tx_bytes(self.name)
        active = self.active_queues()
        pktgen("pgctrl", "stop")
        sender.join()
        pktgen("kpktgend_0", "rem_device_all")
        return (b1 - b0) * 8e9 / (t1 - t0), active

    def active_queues(self):
        """The highest count of active queues in the statistics of the device."""
        stats = json.loads(tc(f"-s -j qdisc show dev {self.name}"))
        counts = [q["active_queues"] for q in stats if "active_queues" in q]
        return max(counts, default=None)
