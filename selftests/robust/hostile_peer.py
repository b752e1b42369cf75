#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""A peer that does not keep the protocol, with connections that the node has with it: every field, every
order, refusals without end, messages that do not end, tiny blocks, lies about windows and
acknowledgements. The node, number 1, has an honest connection beside it, and users who send to the
hostile peer."""

from attack import *

nodes = Nodes()
results = Results()
PACKETS = 400 if THOROUGH or os.environ.get("SUPERP_HOME", "uml") == "uml" else 120
OPCODES = (
    NOOP, LAST_NULL, ERROR, READ, WRITE, RESPONSE, SEND, SEND_QP, WRITE_EXT, SEND_QP_EXT, ATOMIC, ATOMIC_RESPONSE,
)  # fmt: skip


class Hostile(Scripted):
    """A connection of the node with the hostile peer, and memory of users of the node."""

    def __init__(self, way, open_, closed):
        options = ["ext", chance.choice(("on", "off"))]
        options += ["ordered", chance.choice(("on", "off"))]
        if not chance.randrange(4):
            options += ["tal_max_refusals", "50"]
        start = {"start_psn": edge(32), "start_xid": edge(16)} if chance.randrange(2) else {}
        super().__init__(nodes, 1, way, *options, **start)
        self.first = self.psn
        self.region, self.closed = open_, closed
        self.programs, self.frames = [], []

    def out(self, frame):
        self.frames.append(frame)
        self.link.send(frame)

    def listen(self):
        """Takes what the node has sent, and keeps what it would have acknowledged."""
        seen = []
        while packet := self.link.receive(0):
            seen.append(self.see(packet))
        return seen

    def address_of(self):
        """An RMA address, mostly of a region."""
        region = chance.choice((self.region, self.closed))
        offset = chance.choice((0, 8, 4095, region.length - 16, region.length, edge(16)))
        return region.address + offset if chance.randrange(8) else edge(64)

    def body(self, opcode, operations):
        """Operation headers that may be right, and data."""
        sizes = chance.choice((0, 1, 15, 16, 16, 17, 64, 300, 1400, 8000))
        keys, qpns = (self.region.key, self.closed.key, edge(24)), (self.region.qpn, self.closed.qpn, edge(24))
        heads = {
            READ: lambda: read_op(self.address_of(), edge(chance.choice((8, 16, 32)))),
            WRITE: lambda: write_op(self.address_of()),
            RESPONSE: lambda: response_op(edge(chance.choice((8, 16, 32))), chance.randrange(3), chance.randrange(16)),
            ERROR: lambda: error_op(*(chance.randrange(top) for top in (9, 9, 3, 16))),
            SEND: lambda: send_op(chance.choice(keys), edge(chance.choice((4, 16, 32)))),
            SEND_QP: lambda: struct.pack("<I", chance.choice(qpns)),
            SEND_QP_EXT: lambda: struct.pack(
                "<IIII", chance.choice(qpns) | edge(8) << 24, edge(32), edge(16), chance.getrandbits(32)
            ),
            WRITE_EXT: lambda: struct.pack("<QII", self.address_of(), chance.choice(qpns), edge(32)),
            ATOMIC: lambda: struct.pack("<QQ", self.address_of(), chance.choice((1, 2, 3, 3, edge(64)))),
        }
        head = heads.get(opcode, lambda: chance.randbytes(chance.randrange(24)))
        body = b"".join(head() for _ in range(operations)) + bytes([opcode & 0xFF]) * (sizes * max(1, operations))
        body = body[:8700]  # what a frame can carry
        return body[: chance.randrange(len(body) + 1)] if not chance.randrange(12) else body

    # ---- what it does; each is given back to an honest order by a new connection ----

    def any_field(self):
        """Packets whose fields are right, nearly right, or at an edge."""
        for _ in range(PACKETS):
            opcode = chance.choice(OPCODES) if chance.randrange(10) else edge(8)
            operations = chance.choice((0, 1, 1, 1, 2, 3, 15))
            fields = {
                "psn": self.psn + chance.choice((0, 0, 0, 0, 1, 2, -1, 31, 255, 1023, -1024, edge(32))),
                "ack_psn": self.ack_psn + chance.choice((0, 0, 0, 0, 0, 1, -1, 16, -1024, edge(32))),
                "window": 1 + chance.choice((0, 1, 31, 31, 31, edge(16))),
                "sack": chance.choice((0, 0, 1, edge(32))),
                "xid": self.xid + chance.choice((0, 0, 0, 1, -1, 7, 512, edge(16))),
                "ack_xid": self.ack_xid + chance.choice((0, 0, 0, 0, 1, -1, edge(16))),
                "seqno": chance.choice((0, 0, 0, 1, 2, edge(16))),
                "eom": bool(chance.randrange(3)),
                "ext": not chance.randrange(20),
            }
            self.out(self.wrap(self.packet(opcode, self.body(opcode, operations), num_ops=operations, **fields)))
            if chance.randrange(2):
                self.psn += 1
                self.xid += fields["eom"]
            self.listen()

    def refusals(self):
        """Accesses that are refused, one after the other, and no answer is acknowledged."""
        for _ in range(PACKETS):
            self.out(self.wrap(self.packet(READ, read_op(edge(64), 64) * 15, num_ops=15)))
            self.psn, self.xid = self.psn + 1, self.xid + 1
            if not chance.randrange(4):
                self.listen()

    def parts(self):
        """Messages that begin and do not end, with as little data as possible."""
        for _ in range(PACKETS):
            size, qpn = chance.choice((16, 16, 16, 17, 300)), chance.choice((self.region.qpn, self.closed.qpn))
            self.out(self.wrap(self.packet(SEND_QP, struct.pack("<I", qpn) + bytes(size), num_ops=1,
                                           seqno=chance.choice((0, 0, 1, 2)), eom=False)))  # fmt: skip
            self.psn, self.xid = self.psn + 1, self.xid + chance.randrange(2)
            self.listen()

    def tiny_blocks(self):
        """15 writes, or messages, of 0 to 17 bytes in each packet."""
        for _ in range(PACKETS):
            heads = b"".join(write_op(self.address_of()) for _ in range(15))
            self.out(self.wrap(self.packet(chance.choice((WRITE, WRITE_EXT)), heads + bytes(15 * chance.randrange(18)),
                                           num_ops=15)))  # fmt: skip
            self.psn, self.xid = self.psn + 1, self.xid + 1
            self.listen()

    def again_in_any_order(self):
        """What was sent before, and long before, in another order."""
        self.any_field()
        self.tiny_blocks()
        for _ in range(2 * PACKETS):
            self.link.send(chance.choice(self.frames))
            self.listen()

    def all_reads(self):
        """Reads of as much as there is, 15 in each packet, into a window of one packet, unacknowledged."""
        for _ in range(PACKETS // 4):
            heads = b"".join(read_op(self.region.address, self.region.length) for _ in range(15))
            self.out(self.wrap(self.packet(READ, heads, num_ops=15, window=1)))
            self.psn, self.xid = self.psn + 1, self.xid + 1
            self.listen()

    def lies_to_requests(self):
        """Users of the node read from the peer, write and send to it. It says that it has everything, or
        nothing; it answers with what was not asked for."""
        for operation in ("read", "write", "send"):
            self.programs.append(self.request(operation, edge(24), bytes(chance.choice((64, 5000, 60000)))))
        end = time.monotonic() + 2
        while time.monotonic() < end:
            packet = self.link.receive(0.2)
            if not packet:
                continue
            lie = chance.choice((
                lambda: {"window": chance.choice((1, 2, 65536))},
                lambda: {"ack_psn": packet.psn + chance.choice((0, 1, 100, -1, edge(32))), "sack": edge(32)},
                lambda: {"ack_psn": packet.psn, "ack_xid": packet.xid + chance.choice((0, 1, -1))},
                lambda: {"ack_psn": self.ack_psn, "sack": edge(32)},
            ))()  # fmt: skip
            answers = (NOOP, 0), (RESPONSE, 1), (RESPONSE, 15), (ERROR, 1), (ATOMIC_RESPONSE, 1)
            opcode, operations = chance.choice(answers)
            fields = {
                "xid": packet.xid + chance.choice((0, 0, 0, 1)),
                "seqno": chance.choice((0, 0, packet.seqno, edge(16))),
                "eom": bool(chance.randrange(2)),
            } | lie
            self.out(self.wrap(self.packet(opcode, self.body(opcode, operations), num_ops=operations, **fields)))
            self.psn += chance.randrange(2)

    def end(self):
        """Without the connection every request ends."""
        nodes.superp(1, "conn", "del", self.cid)
        for program in self.programs:
            out = program.communicate(timeout=60)[0]
            assert program.returncode >= 0, f"a request's program died: {program.returncode} {out}"
            program.memory.unlink()


ATTACKS = (
    Hostile.any_field, Hostile.refusals, Hostile.parts, Hostile.tiny_blocks, Hostile.again_in_any_order,
    Hostile.all_reads, Hostile.lies_to_requests,
)  # fmt: skip


def hostile(way, seconds):
    honest = Honest(nodes, way)
    servers = Served(nodes, 1)
    counts = dict.fromkeys((attack.__name__ for attack in ATTACKS), 0)
    with servers.region() as open_, servers.region("r") as closed, honest.going_on():
        closed.fill(0x5A)
        end, order = time.monotonic() + seconds, []
        while time.monotonic() < end or not all(counts.values()):
            order = order or chance.sample(ATTACKS, len(ATTACKS))
            attack = order.pop()
            peer = Hostile(way, open_, closed)
            attack(peer)
            peer.end()
            counts[attack.__name__] += 1
            open_.bytes()
            same(closed.bytes(), b"\x5a" * closed.length, "memory that peers may not write")
            assert closed.server.poll() is None and open_.server.poll() is None, "a user's program has ended"
        # Who keeps the protocol is served.
        peer = Scripted(nodes, 1, way)
        peer.send(WRITE, write_op(open_.address) + b"\x77" * 64, num_ops=1)
        peer.xid += 1
        peer.acknowledged(peer.xid - 1)
        same(open_.bytes()[:64], b"\x77" * 64, "memory that an honest peer wrote")
        nodes.superp(1, "conn", "del", peer.cid)
    print(f"# attacks: {counts}")
    honest.remove()
    nothing_left(nodes)


try:
    for number in (1, 2):
        nodes.superp(number, "dev", "add", "eth0")
    for way in WAYS:
        results.case(f"{way}: a hostile peer hurts nobody else", hostile, way, SECONDS / len(WAYS))
finally:
    nodes.down()
results.end()
