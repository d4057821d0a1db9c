# SPDX-License-Identifier: GPL-2.0
"""What sends while make torture works: pktgen, or packet sockets where there are several CPUs."""

import ctypes
import os
import random
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor

from traffic.traffic import random_stream

from tests.torture_plan import DEVICES, QUEUES

LIBC = ctypes.CDLL(None, use_errno=True)


def enter(path: str) -> None:
    """Move this thread into the network namespace of a file."""
    with open(path, "rb") as file:
        if LIBC.setns(file.fileno(), 0x40000000):
            raise OSError(ctypes.get_errno(), path)


def tell_pktgen(space: str | None, *commands: tuple[str, str]) -> None:
    """Write (file, line) pairs to pktgen's files in a namespace.

    space: its name or a file of it, None for the first one.

    The files act on the namespace of the thread that writes. Whatever the kernel
    refuses is left out: a device may be gone by now.
    """
    def work():
        try:
            if space:
                enter(space if "/" in space else f"/run/netns/{space}")
            for target, line in commands:
                with open(f"/proc/thread-self/net/pktgen/{target}", "w",
                          encoding="ascii") as file:
                    file.write(line)
        except OSError:
            pass

    thread = threading.Thread(target=work, daemon=True)  # and so back out of it
    thread.start()
    thread.join()


def send_on(dev: str, space: str | None) -> None:
    """Add two streams, of a priority each, to those that pktgen sends."""
    for number, (priority, tos) in enumerate(((0, "00"), (9, "b8"))):
        stream = f"{dev}@{number}"
        tell_pktgen(space, (f"kpktgend_{number % os.cpu_count()}", f"add_device {stream}"), *(
            (stream, line) for line in (*random_stream(QUEUES[dev], tos, 500_000),
                                        f"skb_priority {priority}")))


class Sender(threading.Thread):
    """Runs pktgen in a namespace, again and again: a link that goes down stops it."""

    def __init__(self, space: str | None) -> None:
        super().__init__(daemon=True)
        self.space = space
        self.quit = False
        self.start()

    def run(self) -> None:
        while not self.quit:
            try:
                with open(f"/run/netns/{self.space}" if self.space else
                          "/proc/self/ns/net", "rb") as file:
                    self.round(f"/proc/self/fd/{file.fileno()}")
            except OSError:  # a namespace that is not there, or only its name
                time.sleep(.05)

    def stop(self) -> None:
        """Forget all streams, when those that are running have sent what they had."""
        self.quit = True
        self.join()
        tell_pktgen(self.space, ("pgctrl", "reset"))

    def round(self, space: str) -> None:
        """Send for a while. The file keeps the namespace until the end of it.

        pktgen is stopped from outside: having counted to the end, it would wait for
        its last packet to leave a queue, which takes as long as the qdisc likes.
        """
        timer = threading.Timer(.25, tell_pktgen, (space, ("pgctrl", "stop")))
        timer.start()
        tell_pktgen(space, ("pgctrl", "start"))
        timer.join()


def frame(rng: random.Random) -> tuple[int, bytes]:
    """(skb priority, Ethernet frame) of random size and flow: UDP, as pktgen's."""
    priority, tos = rng.choice(((0, 0), (9, 0xb8)))
    size = rng.randrange(64, 1500)
    ip = bytes([0x45, tos]) + size.to_bytes(2) + bytes.fromhex("00000000401100000a0000020a000001")
    udp = rng.randbytes(4) + (size - 20).to_bytes(2)
    return priority, (bytes.fromhex("0200000000010200000000020800") + ip + udp).ljust(
        size + 14, b"\0")


class Flood(Sender):
    """Sends by packet sockets instead: with several CPUs, pktgen itself breaks where
    streams are added and devices go while it is told to start and stop.
    """

    def __init__(self, space: str | None) -> None:
        self.rng = random.Random(0)
        self.frames = [frame(self.rng) for _ in range(64)]
        super().__init__(space)

    def round(self, space: str) -> None:
        """Send for a while, from a thread that enters the namespace; OSError if it can't."""
        with ThreadPoolExecutor(1) as thread:
            thread.submit(self.work, space).result()

    def work(self, space: str) -> None:
        """Send to all devices that are there, each now and then, as time is real."""
        enter(space)
        with socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as sender:
            for _ in range(50):
                priority, data = self.rng.choice(self.frames)
                try:
                    sender.setsockopt(socket.SOL_SOCKET, socket.SO_PRIORITY, priority)
                    sender.sendto(data, (self.rng.choice(DEVICES), 0x0800))
                except OSError:  # it is not here, down, or its queue is full
                    pass
                time.sleep(.01)
