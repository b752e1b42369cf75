# SPDX-License-Identifier: GPL-2.0
"""What programs that attack have in common: how long they last, random numbers that can be had again,
and a connection of two real nodes whose every byte is looked at meanwhile.

SUPERP_SEED=n gives the seed; without it the seed is 1, and with SUPERP_THOROUGH=1 another one each time."""

import random
import threading

from node import *

THOROUGH = os.environ.get("SUPERP_THOROUGH", "0") == "1"
SECONDS = 3600 if THOROUGH else 10
SEED = int(os.environ.get("SUPERP_SEED") or (random.SystemRandom().getrandbits(32) if THOROUGH else 1))
chance = random.Random(SEED)
print(f"# SUPERP_SEED={SEED}", flush=True)


def edge(bits):
    """A number of so many bits that is often at an edge."""
    top = (1 << bits) - 1
    any_, small = chance.getrandbits(bits), chance.randrange(64)
    return chance.choice((0, 1, 2, top, top - 1, top >> 1, (top >> 1) + 1, any_, small))


class Honest:
    """A connection between both nodes, over which transfers go on while an attack lasts."""

    def __init__(self, nodes, way, cid=7, **settings):
        self.nodes, self.cid, self.way = nodes, str(cid), way
        self.seconds, self.error = [], None
        settings = {"ext": "on", "pdl_dead_time": "30s"} | settings
        options = [word for name, value in settings.items() for word in (name, str(value))]
        for number in (1, 2):
            with contextlib.suppress(AssertionError):
                nodes.superp(number, "conn", "del", self.cid)
            nodes.superp(
                number, "conn", "add", self.cid, "peer", self.address(3 - number), "peer-cid", self.cid,
                "encap", way, "dev", "eth0", "local", self.address(number), *options,
            )  # fmt: skip
            nodes.superp(number, "conn", "start", self.cid)

    def address(self, number):
        return f"fd23::{number}" if self.way == "udp6" else f"10.23.0.{number}"

    def transfer(self, count):
        """Writes, reads and messages of random sizes each way; xfer fails on a wrong byte, on a request
        that fails, and on one that takes 30 s."""
        begin = time.monotonic()
        for number in (1, 2):
            run(XFER, "mixed", self.nodes.name[number], self.nodes.name[3 - number], self.address(3 - number),
                self.cid, "write,read,send", str(count), "20000", "4")  # fmt: skip
        self.seconds.append(time.monotonic() - begin)

    @contextlib.contextmanager
    def going_on(self, count=20):
        """Transfers one after the other beside the block, and one after it."""
        self.transfer(count)
        alone, self.seconds = self.seconds[-1], []
        stop = threading.Event()

        def transfers():
            try:
                while not stop.is_set():
                    self.transfer(count)
            except AssertionError as error:
                self.error = error

        thread = threading.Thread(target=transfers)
        thread.start()
        try:
            yield self
        finally:
            stop.set()
            thread.join()
        if self.error:
            raise self.error
        self.transfer(count)
        slower = sorted(self.seconds)[len(self.seconds) // 2] / alone
        print(f"# {len(self.seconds)} honest transfers meanwhile, {slower:.1f} times as long as alone", flush=True)
        for number in (1, 2):
            same(self.state(number), "established", f"state of the honest connection at node {number}")

    def show(self, number):
        return json.loads(self.nodes.superp(number, "-j", "conn", "show", self.cid, "-s"))[0]

    def state(self, number):
        return self.show(number)["state"]

    def remove(self):
        for number in (1, 2):
            self.nodes.superp(number, "conn", "del", self.cid)


class Served:
    """Users of a node who have a region, and receive messages."""

    def __init__(self, nodes, number):
        self.nodes, self.number = nodes, number

    def region(self, access="rw"):
        return Scripted.region(self, access=access)


def nothing_left(nodes):
    """No region and no queue pair is left. Sockets that were closed are gone after a while."""
    end = time.monotonic() + 30
    for number in (1, 2):
        while True:
            node = json.loads(nodes.superp(number, "-j", "node", "show"))
            if not node["qps"] and not node["regions"]:
                break
            assert time.monotonic() < end, f"node {number} has {node['qps']} queue pairs, {node['regions']} regions"
