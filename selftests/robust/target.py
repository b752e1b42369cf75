#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""What a node answers to the packets of a scripted peer: golden ones, well-formed ones in every
order, malformed and foreign ones. The node is number 1, CID 47; the script is number 2, CID 64."""

import mmap
import random
import socket
import zlib

from node import *

UDP_SEGMENT = 103  # linux/udp.h
PAGE = mmap.PAGESIZE

G = golden()
nodes = Nodes(detail=True)
results = Results()


def peer(way="sunh", *options, **start):
    return Scripted(nodes, 1, way, *options, **start)


# ---- golden packets [proto 9] ----


def same_frame(packet, wanted, what):
    """The frame, which Ethernet may have padded to 60 bytes with zeros."""
    found = packet.frame
    same(found[: len(wanted)], wanted, what)
    same(found[len(wanted) :], bytes(len(found) - len(wanted)), f"padding of {what}")
    assert len(found) <= max(60, len(wanted)), f"{what}: {len(found)} bytes"


def golden_answers():
    """G1, G2, G5 and G8 as they are, to one connection."""
    p = peer()
    head = ethernet(MAC_A, MAC_B) + sunh(1, 2)

    p.link.send(G["G1"])
    ack = p.link.expect("ACK of G1", lambda a: a.ack_psn == 0)
    xid = struct.pack("<H", ack.xid)  # ignored in a pure ACK
    same_frame(ack, head + pdl(64, 0, 0) + tal(NOOP, eom=False)[:4] + xid + bytes(2), "ACK of G1")

    p.link.send(G["G2"])
    error = p.link.expect("answer to G2", lambda a: a.opcode == ERROR)
    same_frame(error, head + pdl(64, 1, 1) + tal(ERROR, 1, 0, 1, 0) + error_op(3, 1), "answer to G2")

    p.link.send(G["G5"])
    error = p.link.expect("answer to G5", lambda a: a.error() and a.xid == 2)
    same_frame(error, head + pdl(64, 2, 2) + tal(ERROR, 1, 0, 2, 1) + error_op(3, 1), "answer to G5")

    # G8 acknowledges transaction 0 of the node. It has PSN 5 and XID 6: held, and told by SACK. Its
    # window of one packet is used up, so the SACK travels under an old PSN [proto 3.11].
    noop = p.request("write", 0)
    p.link.expect("No-op", lambda a: a.psn == 3)
    p.link.send(G["G8"])
    ack = p.link.expect("SACK of G8", lambda a: a.sack)
    same((ack.ack_psn, ack.sack), (2, 1 << 2), "ACK PSN and SACK after G8")
    assert ack.psn in (2, 3), f"a new PSN beyond the window: {ack}"
    p.psn, p.xid, p.ack_psn, p.ack_xid = 3, 3, 3, 0
    for _ in range(2):
        p.send(NOOP)
        p.xid += 1
    p.answer("ACK of PSN 5, XID 4", lambda a: (a.ack_psn, a.ack_xid) == (5, 4))
    ended(noop, "completed 0.0 OK")
    # The Last NULL is not acknowledged before every transaction below it.
    p.psn = 6
    p.send(NOOP)
    p.acknowledged(6)


def last_hop():
    """Only forwarders look at the Hop Limit."""
    p = peer()
    p.link.send(p.wrap(p.packet(NOOP), hop_limit=0))
    p.psn += 1
    p.acknowledged(0)


def golden_write():
    """G4, whose PSN, XID and addresses are made to fit: two blocks to two places."""
    p = peer(start_psn=7, start_xid=0x1234)
    with p.region() as region:
        for seqno in range(3):
            p.send(WRITE, write_op(region.address + 16 * seqno) + bytes([seqno]) * 16, num_ops=1, seqno=seqno, eom=False)
        frame = bytearray(G["G4"])
        struct.pack_into("<IIIBBHHH", frame, 22 + 4, 10, 6, 0, 0x82, WRITE, 3, 0x1234, 0x1233)
        struct.pack_into("<QQ", frame, 22 + 24, region.address + 1001, region.address + 501)
        p.psn += 1
        p.link.send(bytes(frame))
        p.acknowledged(0x1234)
        memory = region.bytes()
        same(memory[:48], bytes(16) + b"\1" * 16 + b"\2" * 16, "first three packets")
        same((memory[1001:1017], memory[501:517]), (b"\xaa" * 16, b"\xbb" * 16), "blocks of G4")
        same(memory.count(0xAA) + memory.count(0xBB), 32, "bytes of G4")


def golden_udp():
    """G7, whose PSN, XID and address are made to fit: UDP over IPv4 without a checksum."""
    p = peer("udp4")
    with p.region() as region:
        frame = bytearray(G["G7"])
        struct.pack_into("<III", frame, 42 + 4, 0, 0xFFFFFFFF, 0)
        struct.pack_into("<HHQ", frame, 42 + 20, 0, 0xFFFF, region.address)
        p.psn += 1
        p.link.send(bytes(frame))
        answer = p.acknowledged(0)
        same(region.bytes()[:17], bytes(range(0x10, 0x20)) + b"\0", "block of G7")
        same(answer.frame[23:36], bytes([17]) + answer.frame[24:26] + p.packed(1) + p.packed(2) + answer.frame[34:36], "IP header")
        same(struct.unpack_from(">H", answer.frame, 36)[0], 7777, "UDP destination port")


# ---- what a peer may do ----


def many_operations(way):
    """15 operations in each of two packets, the most there are."""
    p = peer(way)
    with p.region() as region:
        for seqno in range(2):
            ops = b"".join(write_op(region.address + 100 * (15 * seqno + i)) for i in range(15))
            blocks = b"".join(bytes([15 * seqno + i + 1]) * 24 for i in range(15))
            p.send(WRITE, ops + blocks, num_ops=15, seqno=seqno, eom=seqno == 1)
        p.acknowledged(0)
        wanted = b"".join((bytes([i + 1]) * 24).ljust(100, b"\0") for i in range(30))
        same(region.bytes()[:3000], wanted, "written")


def blocks_of(response):
    """OpNum and block of each operation of a Read response; all are of Seqno 0, from their beginning."""
    ops, size = response.num_ops, len(response.body) // response.num_ops - 8
    for i in range(ops):
        seqno, opnum, offset = struct.unpack_from("<HBxI", response.body, 8 * i)
        same((seqno, offset), (0, 0), "Seqno and Offset")
        yield opnum, response.body[8 * ops + size * i :][:size]


def reads(way):
    """Two reads in a packet are answered by their own Seqno and OpNum, a short one padded to 16."""
    p = peer(way)
    with p.region() as region:
        region.fill(0x42)
        p.send(READ, read_op(region.address, 5) + read_op(region.address + 9, 100), num_ops=2)
        got = {}
        while len(got) < 2:
            r = p.answer("Read response", lambda a: a.opcode == RESPONSE and a.xid == 0)
            got |= blocks_of(r)
            last = r
        same(sorted(got), [0, 1], "operations answered")
        same(got[0][:5] + got[1][:100], b"\x42" * 105, "data")
        assert len(got[0]) >= 16, "a block under 16 bytes"
        assert last.eom, "no end of message"
        p.xid += 1
        p.alive()


def reads_across_pages(way):
    """As many reads as a packet can have, each across the end of a page: more pieces of memory than a
    packet of the kernel."""
    p = peer(way, "tal_max_ops_per_pkt", "15")
    with p.region(16 * PAGE) as region:
        memory = random.randbytes(region.length)
        region.write(memory)
        end = -region.address % PAGE
        places = [end + PAGE * i - 200 for i in range(15)]
        p.send(READ, b"".join(read_op(region.address + at, 400) for at in places), num_ops=15)
        r = p.answer("Read response", lambda a: a.opcode == RESPONSE and a.xid == 0)
        same((r.num_ops, r.eom), (15, True), "operations, end of message")
        for opnum, block in blocks_of(r):
            same(block, memory[places[opnum] :][:400], f"data of operation {opnum}")
        p.xid += 1
        p.alive()


def refused_operation(way):
    """The third operation of the second packet leaves the region: the error names it, and neither it
    nor what follows is done."""
    p = peer(way)
    with p.region(4096) as region:
        for seqno in range(3):
            offsets = [100 * (4 * seqno + i) for i in range(4)]
            if seqno == 1:
                offsets[2] = 4096 - 16
            ops = b"".join(write_op(region.address + offset) for offset in offsets)
            p.send(WRITE, ops + bytes([seqno + 1]) * 32 * 4, num_ops=4, seqno=seqno, eom=seqno == 2)
        error = p.answer("Transaction Error", lambda a: a.opcode == ERROR)
        same(error.error(), (0, 1, 2, 3, 2), "XID, Seqno, OpNum, major, minor")
        same((error.num_ops, error.eom), (1, True), "Num ops and eom")
        memory = region.bytes()
        same(memory[4096 - 16 :], bytes(16), "bytes of the refused operation")
        same(memory.count(3), 0, "bytes of the packet after it")
        p.xid += 1
        p.alive()


def rights_and_partition():
    p = peer("sunh", "partition", "7")
    with p.region(4096, "r") as region:
        p.send(WRITE, write_op(region.address) + bytes(16), num_ops=1)
        same(p.answer("error", lambda a: a.opcode == ERROR).error(), (0, 0, 0, 3, 3), "error of a write")
    with p.region(4096, "w") as region:
        p.xid += 1
        p.send(READ, read_op(region.address, 16), num_ops=1)
        same(p.answer("error", lambda a: a.error() and a.xid == 1).error(), (1, 0, 0, 3, 3), "error of a read")
        p.xid += 1
        p.alive()


def unknown_opcodes(way):
    p = peer(way)
    # The headers and operands of an atomic have 32 bytes, no more.
    for opcode, minor, size in ((0x40, 0, 64), (WRITE_EXT, 1, 64), (SEND_QP_EXT, 1, 64), (ATOMIC, 1, 32)):
        p.send(opcode, bytes(size), num_ops=1)
        error = p.answer("error", lambda a: a.error() and a.xid == p.xid).error()
        same(error[3], 2, f"major code for opcode {opcode:#x}")
        same(error[4], minor, f"minor code for opcode {opcode:#x}")
        p.xid += 1
        p.alive()


def short_blocks(way):
    """Blocks under 16 bytes are refused by name, whatever they are for."""
    p = peer(way)
    for body, num_ops in ((ADDRESS + bytes(15), 1), (ADDRESS, 1), (ADDRESS * 2 + bytes(16), 2)):
        p.refused(p.wrap(p.packet(WRITE, body, num_ops=num_ops)), "short_block")
        p.psn += 1
        error = p.answer("error", lambda a: a.error() and a.xid == p.xid).error()
        same(error[3:], (1, 5), "major and minor code")
        p.xid += 1
        p.alive()


def held_or_delivered(ordered):
    """A write above a hole waits on an ordered connection, and does not on an unordered one; each is
    done once, however often it comes [proto 3.8, 3.9]."""
    p = peer("sunh", "ordered", "on" if ordered else "off")
    with p.region() as region:
        writes = [
            p.packet(WRITE, write_op(region.address) + bytes([n + 1]) * 16, num_ops=1, psn=n, xid=n) for n in range(3)
        ]
        p.link.send(p.wrap(writes[2]))
        ack = p.answer("SACK", lambda a: a.sack)
        same((ack.ack_psn, ack.sack), (0xFFFFFFFF, 1 << 2), "ACK PSN and SACK")
        same(region.bytes()[0], 0 if ordered else 3, "first byte, PSN 0 and 1 missing")
        p.link.send(p.wrap(writes[0]))
        p.link.send(p.wrap(writes[1]))
        p.answer("ACK of all", lambda a: a.ack_psn == 2 and a.ack_xid == 2)
        same(region.bytes()[0], 3 if ordered else 2, "first byte, all there")
        region.fill(0x99)
        for n in (0, 1, 2, 2):
            p.link.drain()
            p.link.send(p.wrap(writes[n]))
            p.answer("answer to an old packet", lambda a: a.ack_psn == 2)
        same(region.bytes()[0], 0x99, "first byte after the same packets again")
        p.psn = p.xid = 3
        p.alive()
        same(p.stat("rx-duplicates"), 4, "duplicates")


def held_at_end():
    """Packets that wait above a hole when their connection goes are counted as dropped."""
    p = peer("sunh", "ordered", "on")
    with p.region() as region:
        for n in (1, 2):
            body = write_op(region.address) + bytes([n]) * 16
            p.link.send(p.wrap(p.packet(WRITE, body, num_ops=1, psn=n, xid=n)))
        p.answer("SACK", lambda a: a.sack == 3 << 1)
        before = nodes.drops(1)
        nodes.superp(1, "conn", "del", "47")
        after = nodes.drops(1)
        changed = {name: after[name] - before[name] for name in after if after[name] != before[name]}
        same(changed, {"held_at_end": 2}, "drop counters that moved")


def pure_acks_are_not_acknowledged():
    """[proto 3.10]: not one by one; one ACK when they have used half the window."""
    p = peer()
    for _ in range(12):
        p.send(NOOP, eom=False, xid=0)
    p.link.nothing(0.3)
    for _ in range(30):
        p.send(NOOP, eom=False, xid=0)
    ack = p.answer("window update", lambda a: a.ack_psn != 0xFFFFFFFF)
    assert ack.is_pure_ack()
    p.alive()


def messages(way):
    """A message of three packets that arrive in the wrong order [proto 4.14]."""
    p = peer(way, "ordered", "off")
    with p.region() as region:
        qp = struct.pack("<I", region.qpn)
        parts = [bytes([n]) * (64 if n < 2 else 40) for n in range(3)]
        packets = [
            p.packet(SEND_QP, qp + part, num_ops=1, seqno=n, psn=n, eom=n == 2) for n, part in enumerate(parts)
        ]
        for n in (1, 2, 0):
            p.link.send(p.wrap(packets[n]))
        p.psn, p.xid = 3, 1
        p.acknowledged(0)
        length, crc = region.server.stdout.readline().split()
        same((int(length), int(crc, 16)), (168, zlib.crc32(b"".join(parts))), "length and CRC of the message")
        p.send(SEND_QP, struct.pack("<I", (region.qpn + 1) % 0xFFFFFF or 1) + bytes(16), num_ops=1)
        error = p.answer("error", lambda a: a.opcode == ERROR).error()
        same(error[3], 5, "major code for a queue pair that is not there")
        p.xid += 1
        p.alive()


def left_over(way):
    """What came of a message without its first part is not joined to the next one [proto 7]."""
    p = peer(way, "ext", "on")
    with p.region() as region:
        for offset, byte in ((64, b"a"), (0, b"b"), (64, b"c")):
            p.send(SEND_QP_EXT, struct.pack("<IIII", region.qpn, 0, offset, 128) + byte * 64, num_ops=1)
            p.acknowledged(p.xid)
            p.xid += 1
        length, crc = region.server.stdout.readline().split()
        wanted = (128, zlib.crc32(b"b" * 64 + b"c" * 64))
        same((int(length), int(crc, 16)), wanted, "length and CRC of the message")
        p.alive()


def given_up(way):
    """A message of several transactions ends when another one to its queue pair begins [proto 7]."""
    p = peer(way, "ext", "on")
    with p.region() as region:
        parts = ((0, 128, b"a"), (0, 64, b"s"), (64, 128, b"b"), (0, 128, b"c"), (64, 128, b"d"))
        for offset, length, byte in parts:
            p.send(SEND_QP_EXT, struct.pack("<IIII", region.qpn, 0, offset, length) + byte * 64, num_ops=1)
            p.acknowledged(p.xid)
            p.xid += 1
        for wanted in b"s" * 64, b"c" * 64 + b"d" * 64:
            length, crc = region.server.stdout.readline().split()
            same((int(length), int(crc, 16)), (len(wanted), zlib.crc32(wanted)), "length and CRC of the message")
        p.alive()


def given_up_at_receive_entry(way):
    """A message that is given up half way leaves the receive entry that it had, and the entry's
    place in the completion queue, to the next message."""
    p = peer(way, "ext", "on")

    def part(qpn, offset, length):
        p.send(SEND_QP_EXT, struct.pack("<IIII", qpn, 0, offset, length) + bytes(64), num_ops=1)
        p.acknowledged(p.xid)
        p.xid += 1

    with p.receiver(256) as (qpn, program):
        for length in 128, 192, 256:
            part(qpn, 0, length)
        for offset in 64, 128, 192:
            part(qpn, offset, 256)
        same(program.stdout.readline(), "0 256\n", "the receive that completes")
        part(qpn, 0, 64)
        same(program.stdout.readline(), "0 64\n", "the receive behind it")
        p.alive()


def told(way):
    """An immediate of a write comes once, as an empty message, and there is one in a transaction [proto 7]."""
    p = peer(way, "ext", "on")

    def write(region, flags=0x10):
        return write_op(region.address) + struct.pack("<II", region.qpn | flags << 24, 7)

    def tells(region, flags=0x9F):
        return struct.pack("<IIII", region.qpn | flags << 24, 7, 0, 1 << 24)

    with p.region(access="rwi") as region:
        for what, minor, opcode, ops in (
            ("two immediates of writes", 3, WRITE_EXT, [write(region)] * 2),
            ("two writes told of", 3, SEND_QP_EXT, [tells(region)] * 2),
            ("a write told of without immediate", 0, SEND_QP_EXT, [tells(region, 0x8F)]),
        ):
            p.send(opcode, b"".join(ops) + b"\x99" * 16 * len(ops), num_ops=len(ops))
            error = p.answer("error", lambda a: a.error() and a.xid == p.xid).error()
            same(error[2:], (len(ops) - 1, 1, minor), f"OpNum and code of {what}")
            p.xid += 1
        # The writes before an error are done, nobody is told of them.
        same(region.bytes()[:32], b"\x99" * 16 + bytes(16), "memory")
        for opcode, op in ((SEND_QP_EXT, tells(region)), (WRITE_EXT, write(region))):
            p.send(opcode, op + b"\x77" * 16, num_ops=1)
            p.acknowledged(p.xid)
            p.xid += 1
            same(region.server.stdout.readline(), "0 number 7\n", "the message")
        same(region.bytes()[:32], b"\x77" * 16 + bytes(16), "memory")
        p.alive()


# ---- what must be dropped ----

# Name, counter, and how the frame is made by the peer of a SUNH connection.
ADDRESS = write_op(1 << 40)


MALFORMED = [
    ("a frame of 7 bytes", "too_short", lambda p: p.wrap(b"")[:-1]),
    ("SUNH alone", "too_short", lambda p: p.wrap(b"")),
    ("half a PDL header", "too_short", lambda p: p.wrap(p.packet(NOOP)[:8])),
    ("PDL without TAL", "too_short", lambda p: p.wrap(p.packet(NOOP)[:16])),
    ("a TAL header of 7 bytes", "too_short", lambda p: p.wrap(p.packet(NOOP)[:23])),
    ("G2 cut to 57 bytes", "too_short", lambda p: G["G2"][:57]),
    ("a second operation header cut", "too_short", lambda p: p.wrap(p.packet(READ, read_op(0, 1) + bytes(11), num_ops=2))),
    ("no operation header where 15 are told", "too_short", lambda p: p.wrap(p.packet(WRITE, num_ops=15))),
    ("G4 less one byte of data", "uneven_blocks", lambda p: G["G4"][:-1]),
    ("a byte too many for three blocks", "uneven_blocks", lambda p: p.wrap(p.packet(WRITE, ADDRESS * 3 + bytes(49), num_ops=3))),
    ("opcode 9 with Num ops 0", "num_ops", lambda p: p.wrap(p.packet(WRITE, ADDRESS + bytes(16), num_ops=0))),
    ("a Read with Num ops 0", "num_ops", lambda p: p.wrap(p.packet(READ, read_op(0, 1), num_ops=0))),
    ("a No-op with Num ops 1", "num_ops", lambda p: p.wrap(p.packet(NOOP, bytes(16), num_ops=1))),
    ("a Transaction Error of two operations", "num_ops", lambda p: p.wrap(p.packet(ERROR, error_op(1, 0) * 2, num_ops=2))),
]

FOREIGN = [
    ("an unknown DCID", "no_connection", lambda p: p.wrap(p.packet(NOOP, dcid=4711))),
    ("DCID 0", "no_connection", lambda p: p.wrap(p.packet(NOOP, dcid=0))),
    ("another source address", "wrong_source", lambda p: p.wrap(p.packet(NOOP), source=3)),
    ("source and destination exchanged", "wrong_destination", lambda p: p.wrap(p.packet(NOOP), source=1, destination=2)),
    ("another destination address", "wrong_destination", lambda p: p.wrap(p.packet(NOOP), destination=3)),
    ("another Next Header", "foreign_next_header", lambda p: p.wrap(p.packet(NOOP), next_header=17)),
    ("the connection's packet in UDP", "wrong_path", lambda p: ethernet(MAC_B, MAC_A, 0x0800)
        + udp4(p.packed(2), p.packed(1), p.packet(NOOP))),
]  # fmt: skip

OUT_OF_WINDOW = [
    ("a PSN one beyond the window", "psn_out_of_window", lambda p: p.wrap(p.packet(NOOP, psn=p.psn + 32))),
    ("a PSN far beyond", "psn_out_of_window", lambda p: p.wrap(p.packet(NOOP, psn=p.psn + 0x7FFFFFFF))),
    ("an ACK PSN of a packet never sent", "ack_psn_out_of_window", lambda p: p.wrap(p.packet(NOOP, ack_psn=p.ack_psn + 1000))),
    ("an ACK PSN older than any late packet's", "ack_psn_out_of_window", lambda p: p.wrap(p.packet(NOOP, ack_psn=p.ack_psn - 5000 & 0xFFFFFFFF))),
    ("an ACK PSN that was guessed", "ack_psn_out_of_window", lambda p: p.wrap(p.packet(NOOP, ack_psn=p.ack_psn - (1 << 30) & 0xFFFFFFFF))),
    ("an ACK XID of a transaction never started", "ack_xid_out_of_window", lambda p: p.wrap(p.packet(NOOP, ack_xid=77))),
    ("G4: a PSN of another time", "psn_out_of_window", lambda p: G["G4"]),
]


def dropped(p, reason, frame):
    """Dropped before anything changes [proto 3.3]: the PSN is still free."""
    p.refused(frame(p), reason)
    p.alive()


# What PDL takes and TAL drops: name, counter, the packet.
TRANSACTION = [
    ("an XID beyond the window", "xid_out_of_window", dict(opcode=NOOP, xid=40)),
    ("a Read response to nothing", "xid_out_of_window", dict(opcode=RESPONSE, body=response_op(0) + bytes(16), num_ops=1)),
    ("a Transaction Error for nothing", "xid_out_of_window", dict(opcode=ERROR, body=error_op(1, 0), num_ops=1)),
    ("an Atomic response to nothing", "xid_out_of_window", dict(opcode=ATOMIC_RESPONSE, body=bytes(32), num_ops=1)),
]


def transaction_dropped(p, reason, fields):
    """PDL takes it, TAL drops it: the PSN is used up, the transaction is not."""
    fields = dict(fields)
    body, opcode = fields.pop("body", b""), fields.pop("opcode")
    if "xid" in fields:
        fields["xid"] += p.xid
    p.refused(p.wrap(p.packet(opcode, body, **fields)), reason)
    p.psn += 1
    p.alive()


# Name, counter, and (Seqno, eom) of packets before, of the wrong one, and of those that then end it.
SEQNOS = [
    ("a Seqno twice", "seqno_duplicate", [(0, False)], (0, False), [(1, True)]),
    ("a second end of message", "eom_duplicate", [(2, True)], (1, True), [(0, False), (1, False)]),
    ("a Seqno beyond the end", "seqno_beyond_eom", [(1, True)], (2, False), [(0, False)]),
    ("an end before a Seqno already seen", "seqno_beyond_eom", [(2, False)], (1, True), [(0, False), (1, False), (3, True)]),
]


def seqno_dropped(p, reason, before, wrong, after):
    """[proto 4.2]; the rest of the transaction still counts."""
    with p.region() as region:

        def part(seqno, eom):
            body = write_op(region.address + 16 * seqno) + bytes([seqno + 1]) * 16
            return p.packet(WRITE, body, num_ops=1, seqno=seqno, eom=eom)

        for packet in before:
            p.link.send(p.wrap(part(*packet)))
            p.psn += 1
        p.refused(p.wrap(part(*wrong)), reason)
        p.psn += 1
        for packet in after:
            p.link.send(p.wrap(part(*packet)))
            p.psn += 1
        p.acknowledged(p.xid & 0xFFFF)
        p.xid += 1
        count = len(before) + len(after)
        same(region.bytes()[: 16 * count], b"".join(bytes([n + 1]) * 16 for n in range(count)), "written")
        p.alive()


def too_many_packets():
    """A Seqno at tal_max_pkt_per_trans is dropped, and ends its transaction by an error."""
    p = peer()
    p.refused(p.wrap(p.packet(NOOP, seqno=32)), "seqno_too_large")
    p.psn += 1
    error = p.answer("error", lambda a: a.opcode == ERROR).error()
    same((error[0], error[3], error[4]), (0, 6, 2), "XID, major, minor")
    p.xid += 1
    p.alive()


def completed_xid():
    """A transaction that is complete while a lower one is open comes again under a new PSN."""
    p = peer("sunh", "ordered", "off")
    p.send(READ, read_op(0, 1), num_ops=1, eom=False)
    p.send(NOOP, xid=1)
    p.refused(p.wrap(p.packet(NOOP, xid=1)), "xid_completed")


def not_for_this_machine():
    """A frame to another station that reaches the device is none of ours."""
    p = peer()
    before = nodes.drops(1)
    frame = bytearray(p.wrap(p.packet(NOOP)))
    frame[5] = 0x77
    p.link.send(bytes(frame))
    p.link.nothing(0.3)
    same(nodes.drops(1), before, "drop counters")
    p.alive()


def foreign_udp(way):
    """A datagram to the connection from an address that is not the peer's."""
    p = peer(way)
    p.refused(p.wrap(p.packet(NOOP), source=p.packed(3)), "wrong_source")
    p.alive()


def damaged_udp(way):
    """What the checksum covers is dropped by UDP itself; over IPv6 a missing one is, too."""
    p = peer(way)
    with p.region() as region:
        payload = p.packet(WRITE, write_op(region.address) + b"\x55" * 16, num_ops=1)
        frame = bytearray(p.wrap(payload, **({"check": 0x1234} if way == "udp4" else {})))
        frame[-1] ^= 1
        p.link.send(bytes(frame))
        if way == "udp6":
            p.link.send(p.wrap(payload, check=0))
        p.link.nothing(0.3)
        same(region.bytes()[:16], bytes(16), "memory")
        p.alive()


def surplus():
    """Bytes behind the end that the UDP length tells are no data."""
    p = peer("udp4")
    with p.region() as region:
        p.link.send(p.wrap(p.packet(WRITE, write_op(region.address) + b"\x66" * 16, num_ops=1), surplus=b"\x77" * 16))
        p.psn += 1
        p.acknowledged(0)
        same(region.bytes()[:40], b"\x66" * 16 + bytes(24), "memory")


def segmented(way):
    """A sender whose device or kernel cuts datagrams out of one packet: here it arrives uncut."""
    p = peer(way)
    family = socket.AF_INET6 if way == "udp6" else socket.AF_INET
    with p.region() as region, socket_in(nodes.name[2], family, socket.SOCK_DGRAM) as sender:
        before, packets = p.stat("rx-packets"), []
        for psn in range(20):
            block = bytes([psn + 1]) * (100 if psn < 19 else 60)  # the last one may be shorter
            body = write_op(region.address + 100 * psn) + block
            packets.append(p.packet(WRITE, body, num_ops=1, psn=psn, xid=psn))
        sender.setsockopt(socket.SOL_UDP, UDP_SEGMENT, len(packets[0]))
        nodes.whole(2, True)
        sender.sendto(b"".join(packets), (p.address(1), PORT))
        nodes.whole(2, False)
        p.psn, p.xid = len(packets), len(packets)
        p.acknowledged(len(packets) - 1)
        same(p.stat("rx-packets") - before, len(packets), "packets received")
        wanted = b"".join(bytes([psn + 1]) * 100 for psn in range(19)) + b"\x14" * 60
        same(region.bytes()[: len(wanted) + 8], wanted + bytes(8), "memory")
        p.alive()


def fuzz(way):
    """Random damage to packets of all kinds, from a seed that is printed on failure."""
    p = peer(way, "ext", "on")
    seed = 20240229
    chance = random.Random(seed)
    with p.region(4096, "rws") as region:
        kinds = [
            p.packet(NOOP),
            p.packet(SEND, send_op(region.key, 0) + send_op(region.key, 4080) + bytes(32), num_ops=2),
            p.packet(READ, read_op(region.address, 4096), num_ops=1),
            p.packet(WRITE, (write_op(region.address) + write_op(region.address + 4080)) + bytes(32), num_ops=2),
            p.packet(SEND_QP, struct.pack("<I", region.qpn) + bytes(64), num_ops=1),
            p.packet(SEND_QP_EXT, struct.pack("<IIII", region.qpn | 11 << 24, 0, 0, 5) + bytes(16), num_ops=1),
            p.packet(WRITE_EXT, struct.pack("<QIII", region.address, 0, 0, 0)[:16] + bytes(16), num_ops=1),
            p.packet(RESPONSE, response_op(0) + bytes(16), num_ops=1),
            p.packet(ERROR, error_op(1, 1), num_ops=1),
        ]
        for _ in range(2000):
            packet = bytearray(chance.choice(kinds))
            # PSN and XID in and near the window, so that the damage gets far.
            struct.pack_into("<I", packet, 4, chance.randrange(64))
            struct.pack_into("<H", packet, 20, chance.randrange(40))
            for _ in range(chance.randrange(3)):
                packet[chance.randrange(len(packet))] = chance.randrange(256)
            packet = packet[: len(packet) - chance.choice((0, 0, 0, 1, 7, 20))]
            p.link.send(p.wrap(bytes(packet)))
        region.bytes()
    try:
        peer(way).alive()
    except AssertionError as error:
        raise AssertionError(f"seed {seed}: {error}") from error


def stopped():
    """A connection that was removed is unknown."""
    p = peer()
    p.alive()
    nodes.superp(1, "conn", "del", "47")
    p.refused(p.wrap(p.packet(NOOP)), "no_connection")


try:
    nodes.superp(1, "dev", "add", "eth0")
    results.case("G1, G2, G5 and G8 are answered byte by byte as they should be", golden_answers)
    results.case("a frame with Hop Limit 0 has arrived", last_hop)
    results.case("G4 writes its two blocks", golden_write)
    results.case("G7 writes its block", golden_udp)
    for way in WAYS:
        results.case(f"{way}: 15 operations in a packet", many_operations, way)
        results.case(f"{way}: two reads in a packet", reads, way)
        results.case(f"{way}: 15 reads in a packet, each across the end of a page", reads_across_pages, way)
        results.case(f"{way}: an error names the operation that failed", refused_operation, way)
        results.case(f"{way}: unknown and disabled opcodes are answered by errors", unknown_opcodes, way)
        results.case(f"{way}: blocks under 16 bytes are answered by errors", short_blocks, way)
        results.case(f"{way}: a message whose packets arrive out of order", messages, way)
        results.case(f"{way}: what is left of a message is not joined to the next one", left_over, way)
        results.case(f"{way}: a message of several transactions ends when another one begins", given_up, way)
        results.case(f"{way}: a message that is given up leaves its receive entry", given_up_at_receive_entry, way)
        results.case(f"{way}: an immediate of a write comes once, as an empty message", told, way)
    results.case("a region's rights hold", rights_and_partition)
    results.case("ordered: held above a hole, and done once", held_or_delivered, True)
    results.case("unordered: delivered above a hole, and done once", held_or_delivered, False)
    results.case("packets that are held when their connection goes are counted", held_at_end)
    results.case("pure ACKs are not acknowledged, but move the window", pure_acks_are_not_acknowledged)
    shared = peer()
    for name, reason, frame in MALFORMED + FOREIGN + OUT_OF_WINDOW:
        results.case(f"dropped: {name}", dropped, shared, reason, frame)
    for name, reason, fields in TRANSACTION:
        results.case(f"dropped: {name}", transaction_dropped, shared, reason, fields)
    for name, *rest in SEQNOS:
        results.case(f"dropped: {name}", seqno_dropped, peer(), *rest)
    results.case("dropped: a Seqno at tal_max_pkt_per_trans; its transaction fails", too_many_packets)
    results.case("dropped: a completed XID under a new PSN", completed_xid)
    results.case("ignored: a frame to another station", not_for_this_machine)
    for way in WAYS[1:]:
        results.case(f"dropped: {way}: another source address", foreign_udp, way)
    results.case("udp4: a wrong checksum", damaged_udp, "udp4")
    results.case("udp6: a wrong checksum, and none", damaged_udp, "udp6")
    results.case("udp4: bytes behind the UDP length are no data", surplus)
    for way in WAYS[1:]:
        results.case(f"{way}: datagrams that arrive as one packet are as many", segmented, way)
    for way in WAYS:
        results.case(f"{way}: 2000 packets with random damage", fuzz, way)
    results.case("dropped: a packet for a removed connection", stopped)
finally:
    nodes.down()
results.end()
