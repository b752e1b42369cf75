#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Packets of an earlier life of a connection come late, into the next one [proto 3.19, 3.20]."""

from node import *

AHEAD, BEHIND = 1 << 30, 3 << 30  # start PSNs: old ones are behind these, or beyond
CID = 7  # of the connection with a real node at both ends

nodes = Nodes(detail=True)
results = Results()


class Life(Scripted):
    """A connection that remembers every frame that the script has sent."""

    def __init__(self, *arguments, **options):
        super().__init__(nodes, 1, *arguments, **options)
        self.sent = []
        send = self.link.send
        self.link.send = lambda frame: (self.sent.append(frame), send(frame))

    def write(self, region, offset, value):
        self.send(WRITE, write_op(region.address + offset) + bytes([value]) * 64, num_ops=1)
        self.xid += 1

    def live(self, region):
        """Writes, a read, an acknowledgement of that: everything is answered."""
        for number in range(8):
            self.write(region, 64 * number, 0x11)
        self.send(READ, read_op(region.address, 64), num_ops=1)
        self.xid += 1
        self.answer("Read response", lambda p: p.opcode == RESPONSE)
        self.send(NOOP, eom=False)
        self.alive()
        same(region.bytes()[:512], b"\x11" * 512, "writes of the old life")

    def reset_node(self, *start):
        nodes.superp(1, "conn", "reset", self.cid, *start)
        nodes.superp(1, "conn", "start", self.cid)

    def begin(self, psn, xid):
        """The script's own next life."""
        self.psn, self.xid = psn, xid
        self.ack_psn, self.ack_xid = psn - 1, xid - 1

    def repeat(self, frames):
        self.link.drain()
        for frame in frames:
            self.link.send(frame)


def start(psn, xid):
    return "start-psn", str(psn), "start-xid", str(xid)


def works(p, region):
    """The new life writes and is acknowledged; nothing else has changed."""
    region.fill(0x5A)
    p.write(region, 1000, 0x22)
    p.acknowledged(p.xid - 1 & 0xFFFF)
    same(region.bytes(), b"\x5a" * 1000 + b"\x22" * 64 + b"\x5a" * (region.length - 1064), "memory")


def old_packets(way, psn):
    """Every frame of the old life once more, and nothing comes of it."""
    p = Life(way)
    with p.region() as region:
        p.live(region)
        old = list(p.sent)
        p.reset_node(*start(psn, 0x8000))
        p.begin(psn, 0x8000)
        same((p.stat("start-psn"), p.stat("start-xid")), (psn, 0x8000), "start values")
        region.fill(0x5A)
        before = nodes.drops(1)
        p.repeat(old)
        # Behind them on the same link.
        p.alive()
        same(region.bytes(), b"\x5a" * region.length, "memory")
        after = nodes.drops(1)
        changed = {name: after[name] - before[name] for name in after if after[name] != before[name]}
        if psn == BEHIND:
            same(changed, {"psn_out_of_window": len(old)}, "drop counters that moved")
            same(p.stat("rx-duplicates"), 0, "packets taken for repeated ones")
        else:
            same(changed, {}, "drop counters that moved")
            # All but the pure ACK.
            same(p.stat("rx-duplicates"), len(old) - 1, "packets taken for repeated ones")
        same(p.stat("rx-packets"), 1, "packets of the new life")
        works(p, region)
        p.repeat(old)
        works(p, region)


def old_acknowledgements(psn):
    """They complete nothing: the script has acknowledged a request of each life by the same numbers,
    counted from the start."""
    p = Life("sunh")
    first = p.request("write", 0)
    p.answer("No-op of the old life", lambda a: a.eom and a.opcode == NOOP)
    p.ack_xid = 0
    p.sent.clear()
    p.alive()
    ended(first, "completed 0.0 OK")
    old = list(p.sent)
    p.reset_node(*start(psn, 0x8000))
    p.begin(psn, 0x8000)
    second = p.request("write", 0)
    p.answer("No-op of the new life", lambda a: a.psn == psn and a.eom)
    p.repeat(old)
    p.alive()
    assert second.poll() is None, "an old acknowledgement has completed a request"
    p.ack_xid = 0x8000
    p.alive()
    ended(second, "completed 0.0 OK")


def same_start():
    """What the start values protect from: with those of the old life its packets are taken."""
    p = Life("sunh")
    with p.region() as region:
        p.write(region, 0, 0x11)
        p.acknowledged(0)
        old = list(p.sent)
        region.fill(0x5A)
        p.reset_node()
        p.repeat(old)
        region.wait(0, b"\x11" * 64 + b"\x5a" * 64)


def node_first(way):
    """The node is reset while the peer goes on in its old life."""
    p = Life(way)
    with p.region() as region:
        p.live(region)
        p.reset_node(*start(AHEAD, 5))
        region.fill(0x5A)
        p.link.drain()
        for number in range(3):
            p.write(region, 64 * number, 0x33)
        answer = p.link.expect("an answer of the new life", lambda a: a.ack_psn == AHEAD - 1)
        assert answer.is_pure_ack() and answer.psn >= AHEAD - 1, f"{answer}"
        p.begin(AHEAD, 5)
        p.alive()
        same(region.bytes(), b"\x5a" * region.length, "memory")
        works(p, region)


def peer_first(way):
    """The peer is in its new life already; the node takes nothing of that before it is reset."""
    p = Life(way)
    with p.region() as region:
        p.live(region)
        region.fill(0x5A)
        frame = p.wrap(
            p.packet(WRITE, write_op(region.address) + b"\x44" * 64, num_ops=1,
                     psn=AHEAD, ack_psn=AHEAD - 1, xid=5, ack_xid=4)
        )  # fmt: skip
        p.refused(frame, "psn_out_of_window")
        p.alive()
        same(region.bytes(), b"\x5a" * region.length, "memory")
        p.reset_node(*start(AHEAD, 5))
        p.begin(AHEAD, 5)
        p.link.send(frame)
        p.psn, p.xid = p.psn + 1, p.xid + 1
        p.acknowledged(5)
        same(region.bytes()[:65], b"\x44" * 64 + b"\x5a", "memory")
        works(p, region)


def traffic():
    run(XFER, "mixed", nodes.name[1], nodes.name[2], "10.23.0.2", str(CID), "write,read,send", "20", "30000", "4")


def captured(order):
    """Two real nodes. What both have sent comes once more when one is reset, and when both are."""
    for number in (1, 2):
        other = 3 - number
        nodes.superp(
            number, "conn", "add", str(CID), "peer", f"10.23.0.{other}", "peer-cid", str(CID),
            "encap", "sunh", "dev", "eth0", "ext", "on",
        )  # fmt: skip
        nodes.superp(number, "conn", "start", str(CID))
    links = {number: Link(nodes.name[number], "sunh") for number in (1, 2)}
    traffic()
    # By receiver: what came in at the device of each.
    frames = {1: [], 2: []}
    for number, link in links.items():
        while packet := link.receive(0.3):
            frames[number].append(packet.frame)
        assert len(frames[number]) >= 10, f"{len(frames[number])} frames to node {number}"

    def repeat():
        for number in (1, 2):
            for frame in frames[number]:
                links[3 - number].send(frame)

    for number in order:
        nodes.superp(number, "conn", "reset", str(CID), *start(BEHIND, 0x8000))
        nodes.superp(number, "conn", "start", str(CID))
        before = {number: nodes.drops(number) for number in (1, 2)}
        repeat()
    for number in (1, 2):
        end = time.monotonic() + 20
        while True:
            after = nodes.drops(number)
            count = after["psn_out_of_window"] - before[number]["psn_out_of_window"]
            if count >= len(frames[number]) or time.monotonic() > end:
                break
        assert count >= len(frames[number]), f"{count} of {len(frames[number])} frames dropped by node {number}"
        after["psn_out_of_window"] = before[number]["psn_out_of_window"]
        same(after, before[number], "other drop counters")
        stats = json.loads(nodes.superp(number, "-j", "conn", "show", str(CID), "-s"))[0]["stats"]
        same((stats["rx-packets"], stats["rx-duplicates"]), (0, 0), "packets received in the new life")
    # Every byte is compared.
    traffic()
    repeat()
    traffic()
    for number in (1, 2):
        nodes.superp(number, "conn", "del", str(CID))


def identifiers():
    """A removed connection's id is not chosen for as long as packets for it may come."""
    settings = ("peer", "10.23.0.2", "peer-cid", "64", "encap", "sunh", "dev", "eth0",
                "pdl_dead_time", "1000000", "pdl_max_rtx", "1")  # fmt: skip

    def add(*cid):
        return json.loads(nodes.superp(1, "-j", "conn", "add", *cid, *settings))["local-cid"]

    def remove(cid):
        nodes.superp(1, "conn", "del", str(cid))

    p = Scripted(nodes, 1, "sunh")
    first = add()
    removed = time.monotonic()
    remove(first)
    p.refused(p.wrap(p.packet(NOOP, dcid=first)), "no_connection")
    second = add()
    assert second > first, f"{second} was chosen after {first} was removed"
    remove(second)
    # Whoever names it has it.
    same(add(str(first)), first, "id that was named")
    removed = time.monotonic()
    remove(first)
    # Two packet lives, the dead time, and two timeouts: 4.401 s.
    while (chosen := add()) != first:
        remove(chosen)
        assert time.monotonic() < removed + 60, f"{first} is not chosen again"
        time.sleep(0.2)
    kept = time.monotonic() - removed
    assert kept >= 4.4, f"chosen again after {kept} s"
    remove(first)


try:
    for number in (1, 2):
        nodes.superp(number, "dev", "add", "eth0")
    for way in WAYS:
        results.case(f"{way}: old packets, the new start PSN is beyond theirs", old_packets, way, AHEAD)
        results.case(f"{way}: old packets, the new start PSN is below theirs", old_packets, way, BEHIND)
        results.case(f"{way}: the node is reset first", node_first, way)
        results.case(f"{way}: the peer is reset first", peer_first, way)
    for psn in (AHEAD, BEHIND):
        results.case(f"old acknowledgements, start PSN {psn:#x}", old_acknowledgements, psn)
    results.case("with the old start values old packets are taken", same_start)
    results.case("two nodes, the first is reset first, what they sent comes again", captured, (1, 2))
    results.case("two nodes, the second is reset first, what they sent comes again", captured, (2, 1))
    results.case("the id of a removed connection is kept back", identifiers)
finally:
    nodes.down()
results.end()
