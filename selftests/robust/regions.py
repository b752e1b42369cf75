#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""What a node answers to accesses of a scripted peer to its regions and receive contexts, right and
wrong ones. The node is number 1, CID 47; the script is number 2, CID 64."""

import json
import mmap

from node import *

PAGE = mmap.PAGESIZE

nodes = Nodes(detail=True)
results = Results()


def peer(way="sunh", *options, **start):
    return Scripted(nodes, 1, way, *options, **start)


def placed(region, offset, length):
    """The owner of the receive context is told of this message, and of no other before it."""
    same(region.server.stdout.readline(), f"at {offset} {length}\n", "what the owner is told")


def sends(way):
    """A message of three packets in the wrong order, with two operations in the first; the owner is
    told once, when all is there [proto 4.9]."""
    p = peer(way, "ordered", "off")
    with p.region(4096, "s") as region:
        parts = [(1000, b"\x01" * 32, b"\x02" * 32), (1064, b"\x03" * 40), (1104, b"\x04" * 16)]
        for n in (1, 2, 0):
            at, *blocks = parts[n]
            ops = b"".join(send_op(region.key, at + 32 * i) for i in range(len(blocks)))
            p.link.send(p.wrap(p.packet(SEND, ops + b"".join(blocks), num_ops=len(blocks), seqno=n, psn=n, eom=n == 2)))
        p.psn, p.xid = 3, 1
        p.acknowledged(0)
        placed(region, 1000, 120)
        whole = b"".join(block for _, *blocks in parts for block in blocks)
        same(region.bytes(), bytes(1000) + whole + bytes(4096 - 1120), "memory")
        p.send(SEND, send_op(region.key, 4080) + b"\x05" * 16, num_ops=1)
        p.xid += 1
        p.acknowledged(1)
        placed(region, 4080, 16)
        same(region.bytes()[4080:], b"\x05" * 16, "the last bytes")
        p.alive()


# Name, minor code, and key and offset made of the context's.
BAD_SENDS = [
    ("key 0", 1, lambda key: (0, 0)),
    ("another key", 1, lambda key: (key ^ 1, 0)),
    ("a key of more than 24 bits", 1, lambda key: (key | 1 << 24, 0)),
    ("the last key", 1, lambda key: (0xFFFFFFFF, 0)),
    ("one byte behind the context", 2, lambda key: (key, 4096 - 31)),
    ("right behind the context", 2, lambda key: (key, 4096)),
    ("far behind the context", 2, lambda key: (key, 1 << 20)),
    ("an offset that wraps", 2, lambda key: (key, 0xFFFFFFF0)),
]


def bad_sends(way):
    """What the key or the offset makes wrong changes nothing, and nobody is told."""
    p = peer(way, "partition", "7")

    def refused(what, major, minor, body, num_ops=1):
        p.send(SEND, body, num_ops=num_ops)
        error = p.answer("error", lambda a: a.error() and a.xid == p.xid & 0xFFFF).error()
        same(error[2:], (num_ops - 1, major, minor), f"OpNum and code of {what}")
        p.xid += 1

    with p.region(4096, "s") as region, p.region(4096, "s") as other, p.region(4096, "rw") as plain:
        for what, minor, place in BAD_SENDS:
            refused(what, 3, minor, send_op(*place(region.key)) + b"\x99" * 32)
        refused("a region that is no receive context", 3, 3, send_op(plain.key, 0) + b"\x99" * 32)
        for memory in (region, plain):
            same(memory.bytes(), bytes(4096), "memory")
        refused("two contexts", 1, 0, send_op(region.key, 0) + send_op(other.key, 0) + b"\x77" * 32, 2)
        same(other.bytes(), bytes(4096), "memory of the second context")
        # A right to send is none to write or to read.
        p.send(WRITE, write_op(region.address) + bytes(16), num_ops=1)
        same(p.answer("error", lambda a: a.error() and a.xid == p.xid).error()[3:], (3, 3), "code of a write")
        p.xid += 1
        p.send(SEND, send_op(region.key, 64) + b"\x11" * 16, num_ops=1)
        p.xid += 1
        p.acknowledged(p.xid - 1)
        # The first that its owner hears of.
        placed(region, 64, 16)
        key = region.key
    refused("a released context", 3, 1, send_op(key, 0) + bytes(16))
    p.alive()


def refusals_look_the_same(way):
    """What is wrong with an access to memory is told to nobody who guesses addresses [proto 5]. It is
    the default."""
    shown = json.loads(nodes.superp(1, "-j", "param", "show"))
    same([p["default"] for p in shown if p["name"] == "tal_error_detail"], [0], "default of tal_error_detail")
    nodes.superp(1, "param", "set", "tal_error_detail", "0")
    p = peer(way)
    answers = {}

    def refused(what, opcode, body):
        p.send(opcode, body, num_ops=1)
        answers[what] = p.answer(f"error of {what}", lambda a: a.error() and a.xid == p.xid).body
        p.xid += 1

    block = b"\x99" * 32
    with p.region(4096, "rw") as region, p.region(4096, "r") as readable, p.region(4096, "w") as writable, \
            p.region(4096, "s") as context:  # fmt: skip
        absent = region.address ^ 1 << 63
        for what, address in (
            ("no region", absent), ("one byte behind", region.address + 4096 - 31), ("behind", region.address + 4096),
            ("one byte before", region.address - 1), ("no right", readable.address),
        ):  # fmt: skip
            refused(f"write, {what}", WRITE, write_op(address) + block)
        for what, address in (
            ("no region", absent), ("one byte behind", region.address + 4096 - 31), ("no right", writable.address),
        ):  # fmt: skip
            refused(f"read, {what}", READ, read_op(address, 32))
        for what, key, offset in (
            ("no region", context.key ^ 1 << 23, 0), ("behind", context.key, 4096), ("no right", region.key, 0),
        ):  # fmt: skip
            refused(f"send, {what}", SEND, send_op(key, offset) + block)
        for memory in region, readable, context:
            same(memory.bytes(), bytes(4096), "memory")
    kinds = set(answers.values())
    assert len(kinds) == 1, "\n".join(f"{what}: {answer.hex(' ')}" for what, answer in answers.items())
    same(kinds.pop(), error_op(3, 0), "the refusal")
    same(p.stat("access-violations"), len(answers), "refusals that the node has counted")
    nodes.superp(1, "param", "set", "tal_error_detail", "1")


def guess(p, n):
    """One more access to a region, or message to a queue pair, that is not there, and the node's
    refusal."""
    opcode, op, major = (
        (WRITE, write_op((n + 1) << 40 | 0x7FFF), 3),
        (SEND_QP, struct.pack("<I", 0x800000 + n), 5),
    )[n % 2]  # fmt: skip
    p.send(opcode, op + bytes(16), num_ops=1)
    error = p.answer("refusal", lambda a: a.error() and a.xid == p.xid & 0xFFFF).error()
    same(error[3], major, "major code")
    p.xid += 1


def refusals_are_limited_in_rate():
    """A thousand leave at once, further ones at the rate. The bound is that of the node: a slow
    machine has fewer."""
    rate, burst, count = 100, 1000, 1200
    p = peer("sunh", "tal_refusal_rate", str(rate))
    begin = time.monotonic()
    for n in range(count):
        guess(p, n)
    took = time.monotonic() - begin
    assert count <= burst + 1 + rate * took, f"{count} refusals in {took:.2f} s"
    same(p.stat("access-violations"), count // 2, "accesses refused that the node has counted")
    same(p.stat("refused"), count, "refusals that the node has counted")
    p.alive()


def refused_too_often():
    """An administrator has the connection broken after so many."""
    p = peer("sunh", "tal_max_refusals", "3")
    for n in range(2):
        guess(p, n)
    p.alive()
    same(p.stat("state"), "established", "state after two")
    p.send(WRITE, write_op(1 << 40) + bytes(16), num_ops=1)
    end = time.monotonic() + 10
    while p.stat("state") != "broken" and time.monotonic() < end:
        time.sleep(0.01)
    same((p.stat("state"), p.stat("cause")), ("broken", "the peer was refused too often"), "state after three")


def unfinished_send():
    """Released before the last packet: an error, and nobody is told."""
    p = peer()
    with p.region(4096, "s") as region:
        p.send(SEND, send_op(region.key, 0) + bytes(16), num_ops=1, eom=False)
        p.acknowledged()
        key = region.key
    p.send(SEND, send_op(key, 16) + bytes(16), num_ops=1, seqno=1)
    same(p.answer("error", lambda a: a.opcode == ERROR).error(), (0, 1, 0, 3, 1), "XID, Seqno, OpNum, code")
    p.xid += 1
    p.alive()


def global_space(way):
    """Addresses beside a region of a global address space, and where one has been [proto 5]."""
    base, length = 0x4444000000, 4096
    nodes.superp(1, "node", "set", "rma-base", hex(base), "0x100000")
    try:
        p = peer(way)

        def refused(what, minor, opcode, body):
            p.send(opcode, body, num_ops=1)
            error = p.answer("error", lambda a: a.error() and a.xid == p.xid & 0xFFFF).error()
            same(error[1:], (0, 0, 3, minor), f"Seqno, OpNum and code of opcode {opcode}, {what}")
            p.xid += 1

        with p.region(length) as region:
            first = GUARD % PAGE  # as in its page
            behind = base + (first + length + PAGE - 1) // PAGE * PAGE
            same(region.address, base + first, "address of the region")
            wrong = [
                ("a byte before the region", 2, region.address - 1),
                ("the page's first byte", 2, base),
                ("a byte behind the region", 2, region.address + length - 15),
                ("right behind the region", 2, region.address + length),
                ("the page behind", 1, behind),
                ("before the space", 1, base - 16),
                ("behind the space", 1, base + 0x100000),
                ("address 0", 1, 0),
                ("the last address", 1, (1 << 64) - 16),
                ("its key", 1, region.key << 40 | first),
            ]
            for what, minor, address in wrong:
                refused(what, minor, WRITE, write_op(address) + b"\x99" * 16)
                refused(what, minor, READ, read_op(address, 16))
            refused("all but for one byte", 2, READ, read_op(region.address, length + 1))
            same(region.bytes(), bytes(length), "memory")
            p.send(WRITE, write_op(region.address) + b"\x55" * length, num_ops=1)
            p.xid += 1
            p.acknowledged(p.xid - 1)
            same(region.bytes(), b"\x55" * length, "memory that was written")
            address = region.address
        refused("a released region", 1, WRITE, write_op(address) + bytes(16))
        refused("a released region", 1, READ, read_op(address, 16))
        p.alive()
    finally:
        nodes.superp(1, "node", "set", "rma-base", "0")


try:
    nodes.superp(1, "dev", "add", "eth0")
    for way in WAYS:
        results.case(f"{way}: Sends go into their receive context", sends, way)
        results.case(f"{way}: Sends outside of a receive context are refused", bad_sends, way)
        results.case(f"{way}: refusals look the same", refusals_look_the_same, way)
        results.case(f"{way}: a region of a global address space has no neighbours", global_space, way)
    results.case("refusals are limited in rate", refusals_are_limited_in_rate)
    results.case("a peer that is refused too often loses the connection", refused_too_often)
    results.case("a receive context that is released in the middle of a message", unfinished_send)
finally:
    nodes.down()
results.end()
