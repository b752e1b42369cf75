#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""What a node sends of itself, byte by byte, and what it makes of a scripted peer's answers, right
and wrong ones. The node is number 2, CID 64; the script is number 1, CID 47."""

from node import *

PACKET_AUXDATA = 8

G = golden()
nodes = Nodes()
results = Results()
ADDRESS = 0x0000123456789AB0


def peer(way="sunh", *options, **start):
    return Scripted(nodes, 2, way, *options, **start)


def same_frame(packet, wanted, what):
    """The frame; the device may not have padded it, as the golden one is."""
    found = packet.frame
    if len(found) < 60:
        found += bytes(min(60, len(wanted)) - len(found))
    same(found, wanted, what)


# ---- what is sent ----


def golden_requests():
    """A No-op transaction and a Read of 4096 bytes, before the peer has said anything."""
    p = peer()
    noop = p.request("write", 0)
    same_frame(p.link.expect("No-op", lambda a: a.psn == 0), G["G1"], "G1")
    read = p.request("read", ADDRESS, bytes(4096))
    same_frame(p.link.expect("Read", lambda a: a.psn == 1), G["G2"], "G2")
    p.ack_psn, p.ack_xid = 1, 0
    p.send(RESPONSE, response_op(0) + b"\x31" * 2048, num_ops=1, xid=1, eom=False)
    ended(noop, "completed 0.0 OK")
    p.send(RESPONSE, response_op(2048) + b"\x32" * 2048, num_ops=1, xid=1, seqno=1)
    same(ended(read, "completed 0.0 OK"), b"\x31" * 2048 + b"\x32" * 2048, "memory")


def golden_response():
    """G3 as it is: the last 16 bytes of 2064."""
    p = peer()
    noop = p.request("write", 0)
    p.answer("No-op", lambda a: a.psn == 0)
    read = p.request("read", ADDRESS, bytes(2064))
    request = p.answer("Read", lambda a: a.psn == 1)
    same(request.body[:12], read_op(ADDRESS, 2064), "operation header")
    p.send(RESPONSE, response_op(0) + b"\x33" * 2048, num_ops=1, xid=1, ack_xid=0, eom=False)
    p.link.send(G["G3"])
    same(ended(read, "completed 0.0 OK"), b"\x33" * 2048 + bytes(range(16)), "memory")
    ended(noop, "completed 0.0 OK")


def golden_error():
    """G6, for the write whose packet 2 it names."""
    p = peer()
    for xid in range(2):
        noop = p.request("write", 0)
        p.answer("No-op", lambda a: a.psn == xid)
        p.ack_xid = xid
        p.send(NOOP, eom=False)
        ended(noop, "completed 0.0 OK")
    write = p.request("write", ADDRESS, bytes(30000))
    packets = [p.answer("Write", lambda a: a.opcode == WRITE and a.psn == 2 + n) for n in range(3)]
    same([(a.xid, a.seqno, a.num_ops) for a in packets], [(2, n, 1) for n in range(3)], "XID, Seqno, Num ops")
    frame = bytearray(G["G6"])
    frame[22 + 24 + 2] = 0  # OpNum: each of these packets has one operation
    p.link.send(bytes(frame))
    ended(write, "completed 1.2 EBADMSG")


def golden_write():
    """The packet inside G7, but for what the peer has not said here: ACK PSN and ACK XID."""
    for way in ("sunh", "udp4", "udp6"):
        p = peer(way, start_psn=4, start_xid=4)
        write = p.request("write", 0x0000DEADBEEF0000, bytes(range(0x10, 0x20)))
        packet = p.answer("Write", lambda a: a.opcode == WRITE)
        wanted = bytearray(G["G7"][42:])
        struct.pack_into("<I", wanted, 8, 3)
        struct.pack_into("<H", wanted, 22, 3)
        same(packet.bytes, bytes(wanted), f"G7 over {way}")
        p.ack_xid = 4
        p.send(NOOP, eom=False)
        ended(write, "completed 0.0 OK")


def send_to_qp():
    p = peer()
    message = bytes(range(40))
    sent = p.request("send", 0x123456, message)
    packet = p.answer("Send to QP", lambda a: a.opcode == SEND_QP)
    same(packet.bytes[16:], tal(SEND_QP, 1, 0, 0) + bytes.fromhex("56341200") + message, "TAL and up")
    p.ack_xid = 0
    p.send(NOOP, eom=False)
    ended(sent, "sent")


def golden_send():
    """G5, whose PSN, XID and ACKs are those of a second transaction of a connection that has seen
    nothing: key and offset, and the data in the block. A refusal becomes an errno."""
    p = peer()
    noop = p.request("write", 0)
    p.answer("No-op", lambda a: a.psn == 0)
    p.ack_xid = 0
    p.send(NOOP, eom=False)
    ended(noop, "completed 0.0 OK")
    sent = p.request("keyed", 0xDEADBEEF << 32 | 0x1000, G["G5"][-16:])
    packet = p.answer("Send", lambda a: a.opcode == SEND)
    same(packet.bytes[16:], tal(SEND, 1, 0, 1) + G["G5"][46:], "TAL and up")
    p.ack_xid = 1
    p.send(NOOP, eom=False)
    ended(sent, "sent")
    sent = p.request("keyed", 7 << 32 | 100, bytes(range(100)) * 200)
    packets = [p.answer("Send", lambda a: a.opcode == SEND and a.xid == 2) for _ in range(3)]
    at = 100
    for n, packet in enumerate(packets):
        same(packet.body[:8], send_op(7, at), f"key and offset of packet {n}")
        same((packet.num_ops, packet.seqno, packet.eom), (1, n, n == 2), "Num ops, Seqno and eom")
        at += len(packet.body) - 8
    same(at, 20100, "end of the data")
    same(b"".join(packet.body[8:] for packet in packets), bytes(range(100)) * 200, "data")
    p.ack_xid = 2
    p.send(NOOP, eom=False)
    ended(sent, "sent")


def extensions():
    """5 bytes, written and sent: 16 with 11 of padding [proto 7]."""
    p = peer("sunh", "ext", "on")
    write = p.request("write", ADDRESS, b"abcde")
    packet = p.answer("Write", lambda a: a.opcode == WRITE_EXT)
    wanted = tal(WRITE_EXT, 1, 0, 0, ext=True) + struct.pack("<QIII", ADDRESS, 0, 0, 0)[:11] + bytes([11]) + bytes(4)
    same(packet.bytes[16:], wanted + b"abcde" + bytes(11), "TAL and up of a Write")
    p.ack_xid = 0
    p.send(NOOP, eom=False)
    ended(write, "completed 0.0 OK")
    sent = p.request("send", 0x123456, b"vwxyz")
    packet = p.answer("Send to QP", lambda a: a.opcode == SEND_QP_EXT)
    flags = packet.body[3]
    same(flags & 0x1F, 11, "pad and immediate bits of the flags")
    wanted = tal(SEND_QP_EXT, 1, 0, 1, ext=True) + bytes.fromhex("563412") + bytes([flags]) + struct.pack("<III", 0, 0, 5)
    same(packet.bytes[16:], wanted + b"vwxyz" + bytes(11), "TAL and up of a message")
    p.ack_xid = 1
    p.send(NOOP, eom=False)
    ended(sent, "sent")


def finds_out():
    """It asks without a sequence number until this script, without extensions, has answered [proto 7]."""
    p = peer("sunh", "ext", "auto")
    written = p.request("write", ADDRESS, bytes(range(32)))
    # What version 0.4 has no way for: nothing of it leaves.
    short, long = p.request("send", 0x123456, b"abcde"), p.request("send", 0x123456, bytes(4_000_000))
    for _ in range(2):
        packet = p.answer("question", lambda a: a.opcode == NOOP and a.eom)
        same((packet.bytes[16], packet.psn), (0x90, 0xFFFFFFFF), "first byte and PSN of the question")
    p.ack_psn = -1
    p.send(NOOP, eom=False)
    packet = p.answer("Write", lambda a: a.opcode == WRITE)
    same(packet.bytes[16], 0x91, "first byte of the Write")
    p.ack_xid = 0
    p.send(NOOP, eom=False)
    ended(written, "completed 0.0 OK")
    for _ in range(20):
        if packet := p.link.receive(0.02):
            same(packet.opcode, NOOP, "opcode of what leaves")
    for message in short, long:
        message.wait()
    shown = json.loads(nodes.superp(2, "-j", "conn", "show", p.cid))
    shown = shown[0] if isinstance(shown, list) else shown
    same((shown["ext"], shown["ext-auto"]), (False, True), "extensions")


def refused_messages():
    """After a refusal one message finds out whether there is a buffer again; the others wait until it has."""
    p = peer("sunh", "ext", "on")
    programs = []
    for n in range(4):
        programs.append(p.request("send", 0x123456, bytes([n]) * 40))
        packet = p.answer("message", lambda a: a.opcode == SEND_QP_EXT and a.xid == n)
        same(packet.body[16:56], bytes([n]) * 40, "data")
        p.send(NOOP, eom=False)
    for n in range(4):
        p.ack_xid = n - 1
        p.send(ERROR, error_op(4, 2 if n else 0), num_ops=1, xid=n)
    p.ack_xid = 3
    for last in 4, 7:
        packet = p.answer("message", lambda a: a.opcode == SEND_QP_EXT and a.xid == p.ack_xid + 1)
        found = {packet.xid: packet.body[16:17]}  # more than once if this script is slow
        wanted = {xid: bytes([xid - 4]) for xid in range(p.ack_xid + 1, last + 1)}
        begin = time.monotonic()
        # Long enough for one more than is allowed; longer on a slow machine.
        while time.monotonic() < begin + (0.3 if len(found) >= len(wanted) else 10):
            p.send(NOOP, eom=False)
            packet = p.link.receive(0.1)
            if packet and packet.opcode == SEND_QP_EXT and packet.xid > p.ack_xid:
                found[packet.xid] = p.see(packet).body[16:17]
        same(found, wanted, "messages before an answer")
        p.ack_xid = last
        p.send(NOOP, eom=False)
    for program in programs:
        ended(program, "sent")


def udp_headers():
    """UDP: a source port of the dynamic range, the same for all packets; a checksum; IPv6's flow
    label."""
    for way, offset in (("udp4", 34), ("udp6", 54)):
        p = peer(way)
        ports = set()
        for xid in range(2):
            noop = p.request("write", 0)
            packet = p.answer("No-op", lambda a: a.psn == xid)
            sport, dport, length, check = struct.unpack_from(">HHHH", packet.frame, offset)
            ports.add(sport)
            same((dport, length), (7777, 8 + 24), "destination port and length")
            assert check or way == "udp4", "no checksum over IPv6"
            p.ack_xid = xid
            p.send(NOOP, eom=False)
            ended(noop, "completed 0.0 OK")
        assert len(ports) == 1 and min(ports) >= 0xC000, f"source ports {ports}"
        if way == "udp6":
            same(struct.unpack_from(">I", packet.frame, 14)[0] & 0xFFFFF, 0xABC, "flow label")


def network_headers():
    """Traffic Class and Flow Label of a connection are those of its packets, whatever carries them."""
    for way, traffic_class, flow_label in (("sunh", 0x28, 0x123), ("udp4", 0xB8, 0x123), ("udp6", 0x68, 0x54321)):
        p = peer(way, "tclass", str(traffic_class), "flow-label", str(flow_label))
        noop = p.request("write", 0)
        frame = p.answer("No-op", lambda a: a.psn == 0).frame
        if way == "sunh":
            same((frame[14], struct.unpack_from(">H", frame, 16)[0] & 0xFFF), (0x28, 0x123), "class and label in SUNH")
        elif way == "udp4":
            same(frame[15], 0xB8, "TOS")
        else:
            word = struct.unpack_from(">I", frame, 14)[0]
            same((word >> 20 & 0xFF, word & 0xFFFFF), (0x68, 0x54321), "class and label in IPv6")
        p.ack_xid = 0
        p.send(NOOP, eom=False)
        ended(noop, "completed 0.0 OK")


def vlan_priority(link, traffic_class):
    """Priority in the VLAN tag of the next SUNH frame of that class, as a connection of before may still repeat its own:
    the kernel tells it beside the frame."""
    link.socket.settimeout(10)
    while True:
        frame, notes, _, _ = link.socket.recvmsg(65536, 256)
        if frame[12:14] != ETHERTYPE.to_bytes(2, "big") or frame[14] != traffic_class:
            continue
        data = next(data for level, kind, data in notes if (level, kind) == (SOL_PACKET, PACKET_AUXDATA))
        return struct.unpack_from("=H", data, 16)[0] >> 13


def priority():
    """The Traffic Class selects the priority that queues and VLANs go by, as IP's type of service does."""
    name = nodes.name[2]
    run("ip", "-n", name, "link", "add", "link", "eth0", "name", "vlan7", "type", "vlan", "id", "7",
        "egress-qos-map", "0:0", "2:1", "4:3", "6:7")  # fmt: skip
    run("ip", "-n", name, "link", "set", "vlan7", "up")
    nodes.superp(2, "dev", "add", "vlan7")
    for traffic_class, wanted in ((0x00, 0), (0x08, 1), (0x18, 3), (0x10, 7)):
        p = peer("sunh", "dev", "vlan7", "lladdr", MAC_B.hex(":"), "tclass", str(traffic_class))
        p.link.socket.setsockopt(SOL_PACKET, PACKET_AUXDATA, 1)
        noop = p.request("write", 0)
        same(vlan_priority(p.link, traffic_class), wanted, f"priority of Traffic Class {traffic_class:#x}")
        noop.kill()
        noop.wait()
        noop.memory.unlink()
    run("ip", "-n", name, "link", "del", "vlan7")


# ---- wrong answers ----


def misplaced_responses():
    """Data beyond what was asked for is not placed, whatever the request then becomes."""
    for offset, length in ((4096, 16), (4080, 32), (0xFFFFFFF0, 16), (1 << 31, 2048)):
        p = peer()
        read = p.request("read", ADDRESS, bytes(8192), 4096)
        p.answer("Read", lambda a: a.opcode == READ)
        p.send(RESPONSE, response_op(offset) + b"\x44" * length, num_ops=1, xid=0, eom=False)
        time.sleep(0.1)
        if read.poll() is None:
            for n in range(2):
                p.send(RESPONSE, response_op(2048 * n) + b"\x55" * 2048, num_ops=1, xid=0, seqno=n + 1, eom=n == 1)
        out = read.communicate(timeout=20)[0]
        memory = read.memory.read_bytes()
        read.memory.unlink()
        assert out.startswith("completed 1."), f"offset {offset}, {length} bytes: {out}"
        same(memory.count(0x44), 0, f"bytes of the wrong answer at {offset}")
        same(memory[4096:], bytes(4096), "memory behind the request's")


def wrong_operation():
    """An answer that names an operation which the request does not have."""
    p = peer()
    read = p.request("read", ADDRESS, bytes(64))
    p.answer("Read", lambda a: a.opcode == READ)
    p.send(RESPONSE, response_op(0, seqno=3, opnum=9) + b"\x44" * 64, num_ops=1, xid=0)
    out = read.communicate(timeout=20)[0].strip()
    same(read.memory.read_bytes(), bytes(64), "memory")
    read.memory.unlink()
    assert out.startswith("completed 1."), out


def response_to_write():
    p = peer()
    write = p.request("write", ADDRESS, bytes(64))
    p.answer("Write", lambda a: a.opcode == WRITE)
    p.refused(p.wrap(p.packet(RESPONSE, response_op(0) + bytes(64), num_ops=1, xid=0)), "reply_mismatch")
    p.psn += 1
    p.ack_xid = 0
    p.send(NOOP, eom=False)
    ended(write, "completed 0.0 OK")


def early_response():
    """Before the request was sent to its end: the window of 16 holds back the rest. A Transaction
    Error is valid then [proto 4.6], nothing else is."""
    p = peer("sunh", "pdl_window_size", "16")
    write = p.request("write", ADDRESS, bytes(200000))
    for psn in range(15):
        p.answer("Write", lambda a: a.psn == psn)
    p.ack_psn = -1
    p.refused(p.wrap(p.packet(RESPONSE, response_op(0) + bytes(64), num_ops=1, xid=0)), "reply_mismatch")
    p.psn += 1
    p.send(ERROR, error_op(3, 2), num_ops=1, xid=0)
    ended(write, "completed 3.2 EACCES")


def acknowledgement_alone():
    """ACK XID never completes a read [proto 4.4]."""
    p = peer()
    read = p.request("read", ADDRESS, bytes(64))
    p.answer("Read", lambda a: a.opcode == READ)
    p.ack_xid = 0
    p.send(NOOP, eom=False)
    time.sleep(0.3)
    assert read.poll() is None, f"completed: {read.communicate()[0]}"
    p.send(RESPONSE, response_op(0) + b"\x66" * 64, num_ops=1, xid=0)
    same(ended(read, "completed 0.0 OK"), b"\x66" * 64, "memory")


def codes():
    """Each code becomes its errno; that of success is none."""
    names = {
        0: "1.2 EBADMSG", 1: "1.0 EBADMSG", 2: "2.0 EOPNOTSUPP", 3: "3.0 EACCES", 5: "5.0 ECONNREFUSED",
        6: "6.0 ENOMEM", 7: "7.0 ECONNRESET",
    }  # fmt: skip
    p = peer()
    for xid, (major, name) in enumerate(names.items()):
        write = p.request("write", ADDRESS, bytes(64))
        p.answer("Write", lambda a: a.opcode == WRITE and a.xid == xid)
        # The error itself acknowledges what is below, not its own transaction [proto 4.15].
        p.ack_xid = xid - 1
        p.send(ERROR, error_op(major, 0), num_ops=1, xid=xid)
        ended(write, f"completed {name}")


def selective_acknowledgement():
    """Holes that a SACK shows are sent again before any timeout, and nothing else is."""
    p = peer("sunh", "pdl_retrans_time_out", "1900000000")
    write = p.request("write", ADDRESS, bytes(70000))
    packets = [p.link.expect("Write", lambda a: a.psn == psn) for psn in range(8)]
    assert packets[7].eom
    p.ack_psn = 0
    p.send(NOOP, eom=False, sack=0b1111010)  # 2, 4, 5, 6, 7 arrived; 1 and 3 did not
    again = [p.link.expect("retransmission", lambda a: True, seconds=1).psn for _ in range(2)]
    same(sorted(again), [1, 3], "packets sent again")
    p.link.nothing(0.3)
    p.ack_psn, p.ack_xid = 7, 0
    p.send(NOOP, eom=False)
    ended(write, "completed 0.0 OK")
    same((p.stat("retrans-fast"), p.stat("retrans-rto")), (2, 0), "counted")


def closed_window():
    """An advertised window of one packet is kept [proto 3.7]."""
    p = peer()
    noop = p.request("write", 0)
    p.answer("No-op", lambda a: a.psn == 0)
    p.ack_xid = 0
    p.send(NOOP, eom=False, window=1)
    ended(noop, "completed 0.0 OK")
    write = p.request("write", ADDRESS, bytes(40000))
    for psn in range(1, 6):
        packet = p.link.expect("Write", lambda a: a.psn >= psn)
        same(packet.psn, psn, "PSN")
        for _ in range(3):
            if again := p.link.receive(0.02):
                # One before it was sent again while this script was slow.
                assert again.psn <= psn, f"PSN {again.psn} while the window ends at {psn}"
        p.see(packet)
        p.ack_xid = 1 if packet.eom else 0
        p.send(NOOP, eom=False, window=1)
    ended(write, "completed 0.0 OK")


def silence(way):
    """A peer that answers no more: sent again with growing pauses, then given up by name."""
    p = peer(way, "pdl_dead_time", "5s")
    # It was there: a pure ACK without news.
    p.link.send(p.wrap(p.packet(NOOP, eom=False, psn=0xFFFFFFFF)))
    limit = time.monotonic() + 20
    while not p.stat("heard"):
        assert time.monotonic() < limit, "the peer is not heard"
    write = p.request("write", ADDRESS, bytes(64))
    begin = time.monotonic()
    count = 0
    while write.poll() is None and time.monotonic() < begin + 20:
        if packet := p.link.receive(0.2):
            same((packet.psn, packet.opcode), (0, WRITE), "PSN and opcode")
            count += 1
    took = time.monotonic() - begin
    out = write.communicate(timeout=20)[0].strip()
    write.memory.unlink()
    assert out in ("completed 7.2 ETIMEDOUT", "completed 7.0 ETIMEDOUT"), out
    assert 5 <= count <= 40, f"sent {count} times"
    assert took >= 1.9, f"given up after {took:.1f} s"
    same(p.stat("state"), "broken", "state")
    assert p.stat("cause"), "no cause"
    p.refused(p.wrap(p.packet(NOOP)), "not_running")


try:
    nodes.superp(2, "dev", "add", "eth0")
    results.case("a No-op and a Read leave as G1 and G2", golden_requests)
    results.case("G3 ends a Read", golden_response)
    results.case("G6 fails a Write", golden_error)
    results.case("a Write leaves as in G7, over every encapsulation", golden_write)
    results.case("a message leaves as Send to QP", send_to_qp)
    results.case("a message to a receive context leaves as in G5", golden_send)
    results.case("5 bytes leave as extensions, padded", extensions)
    results.case("after a refusal one message goes alone", refused_messages)
    results.case("extensions that a peer has not are found out", finds_out)
    results.case("UDP ports, length, checksum and flow label", udp_headers)
    results.case("Traffic Class and Flow Label of the connection", network_headers)
    results.case("the Traffic Class selects the priority in queues and VLANs", priority)
    results.case("responses beyond the request are not placed", misplaced_responses)
    results.case("a response for an operation that was not asked", wrong_operation)
    results.case("dropped: a response to a Write", response_to_write)
    results.case("an error ends a request that is not yet sent", early_response)
    results.case("ACK XID alone completes no Read", acknowledgement_alone)
    results.case("codes of Transaction Errors become errnos", codes)
    results.case("a SACK has its holes filled at once, and only these", selective_acknowledgement)
    results.case("a window of one packet is kept", closed_window)
    for way in WAYS:
        results.case(f"{way}: a silent peer is given up by name", silence, way)
finally:
    nodes.down()
results.end()
