#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Where a node refuses what a scripted peer has it keep, and that others go on. The node is number 1,
CID 47; the script is number 2, CID 64."""

import json
import zlib

from node import *

nodes = Nodes()
results = Results()
LIMIT = 1 << 20
NO_BUFFER = (4, 0)


class Another(Scripted):
    CID = {1: 48, 2: 65}


class Message:
    """A message of several packets, which are one transaction, to a queue pair of the node."""

    def __init__(self, peer, qpn):
        self.peer, self.qpn, self.sent = peer, qpn, b""
        self.seqno = 0

    def part(self, size, eom=False):
        """Sends one more part. The code with which the node refuses it, or None."""
        block = bytes([self.seqno % 251]) * size
        body = struct.pack("<I", self.qpn) + block
        self.peer.send(SEND_QP, body, num_ops=1, seqno=self.seqno, eom=eom)
        psn = self.peer.psn - 1
        answer = self.peer.answer(
            "ACK or error", lambda a: a.ack_psn == psn or a.error() and a.xid == self.peer.xid
        )
        self.seqno += 1
        self.sent += block
        code = answer.error()[3:] if answer.error() else None
        if code or eom:
            self.peer.xid += 1
        return code

    def parts(self, size, most):
        """Sends parts until one is refused, at most so many."""
        for _ in range(most):
            if code := self.part(size):
                return code
        return None

    def arrived(self, region):
        length, crc = region.server.stdout.readline().split()
        same((int(length), int(crc, 16)), (len(self.sent), zlib.crc32(self.sent)), "length and CRC of the message")


def queued(qpn):
    """Memory of what waits in the node for this queue pair."""
    shown = json.loads(nodes.superp(1, "-j", "qp", "show"))
    return next(qp["rx-queued"] for qp in shown if qp["qpn"] == qpn)


def limited():
    nodes.superp(1, "param", "set", "tal_rcvbuf_per_conn", str(LIMIT))
    return Scripted(nodes, 1, "sunh", "tal_max_pkt_per_trans", "4096")


def memory_counts():
    """Very small parts take much more memory than they have bytes, and the memory counts."""
    p = limited()
    with p.region() as region:
        message = Message(p, region.qpn)
        same(message.part(16), None, "the first part")
        assert queued(region.qpn) > 256, f"a part of 16 bytes takes {queued(region.qpn)} bytes"
        same(message.parts(16, LIMIT // 256), NO_BUFFER, "the refusal")
        assert len(message.sent) < LIMIT // 8, f"{len(message.sent)} bytes"
        same(queued(region.qpn), 0, "what is kept of a message that was refused")
        message = Message(p, region.qpn)
        same([message.part(64), message.part(64, eom=True)], [None] * 2, "another message")
        message.arrived(region)
        p.alive()


def half_is_for_those_that_have_begun():
    """Beyond half of the memory no message of several packets begins. Those of one packet arrive,
    and those that have begun go on."""
    p = limited()
    with p.region() as region, p.region() as other:
        q = Another(nodes, 1, "udp4")
        first = Message(p, region.qpn)
        while queued(region.qpn) <= LIMIT // 2:
            same(first.part(8000), None, "a part")
        first_xid, p.xid = p.xid, p.xid + 1
        same(Message(p, other.qpn).part(64), NO_BUFFER, "a message that begins")
        short = Message(p, other.qpn)
        same(short.part(64, eom=True), None, "a message of one packet")
        short.arrived(other)
        # Another connection has memory of its own.
        elsewhere = Message(q, other.qpn)
        same([elsewhere.part(64), elsewhere.part(64, eom=True)], [None] * 2, "a message of another peer")
        elsewhere.arrived(other)
        next_xid, p.xid = p.xid, first_xid
        same([first.part(8000), first.part(16, eom=True)], [None] * 2, "the rest of the first message")
        first.arrived(region)
        p.xid = next_xid
        again = Message(p, other.qpn)
        same([again.part(64), again.part(64, eom=True)], [None] * 2, "a message afterwards")
        again.arrived(other)
        same([queued(qp.qpn) for qp in (region, other)], [0, 0], "what is kept")
        p.alive()


def a_socket_has_one_limit():
    """Parts count to SO_RCVBUF, whichever connection they came by."""
    p = limited()
    q = Another(nodes, 1, "udp4")
    with p.region() as region, p.region() as other:
        first = Message(p, region.qpn)
        while queued(region.qpn) < 212992:
            same(first.part(8000), None, "a part")
        same(Message(q, region.qpn).part(64), NO_BUFFER, "a message by another connection")
        elsewhere = Message(q, other.qpn)
        same([elsewhere.part(64), elsewhere.part(64, eom=True)], [None] * 2, "a message to another socket")
        elsewhere.arrived(other)
        same(first.part(16, eom=True), None, "the end of the first message")
        first.arrived(region)
        again = Message(q, region.qpn)
        same([again.part(64), again.part(64, eom=True)], [None] * 2, "a message afterwards")
        again.arrived(region)
        same([queued(qp.qpn) for qp in (region, other)], [0, 0], "what is kept")


try:
    nodes.superp(1, "dev", "add", "eth0")
    results.case("parts of messages count with their memory", memory_counts)
    results.case("half of it is for messages that have begun", half_is_for_those_that_have_begun)
    results.case("a socket has one limit for all connections", a_socket_has_one_limit)
finally:
    nodes.down()
results.end()
