# SPDX-License-Identifier: GPL-2.0
"""SUPERp packets byte by byte, written from Documentation/protocol.md and from nothing else, and a
link to send and see them on. Shares no code with what it tests."""

import os
import pathlib
import re
import select
import socket
import struct
import time

TOP = pathlib.Path(__file__).resolve().parents[2]

ETHERTYPE = 0x88B5
PORT = 7777
SOL_PACKET, PACKET_IGNORE_OUTGOING = 263, 23
ETHERNET_LEN, SUNH_LEN, PDL_LEN, TAL_LEN = 14, 8, 16, 8
MAC_A, MAC_B = bytes.fromhex("020000000002"), bytes.fromhex("020000000001")

NOOP, LAST_NULL, ERROR, READ, WRITE, RESPONSE, SEND, SEND_QP = 0, 1, 2, 8, 9, 10, 11, 12
WRITE_EXT, SEND_QP_EXT, ATOMIC, ATOMIC_RESPONSE = 0xC0, 0xC1, 0xC2, 0xC3


def golden():
    """The packets of section 9, by name."""
    text = (TOP / "Documentation/protocol.md").read_text()
    text = text[text.index("\n## 9 ") :]
    packets = {}
    for part in re.split(r"\n(?=\*\*G\d\*\*)", text)[1:]:
        lines = [line for line in part.splitlines() if line.startswith("    ")]
        packets[part[2:4]] = bytes.fromhex("".join(lines))
    return packets


def ethernet(destination, source, ethertype=ETHERTYPE):
    return destination + source + struct.pack(">H", ethertype)


def sunh(source, destination, next_header=253, hop_limit=15, flow_label=0xABC, traffic_class=0):
    return struct.pack(">BBHHH", traffic_class, next_header, hop_limit << 12 | flow_label, source, destination)


def pdl(dcid, psn, ack_psn, window=32, sack=0):
    return struct.pack("<HHIII", dcid, window - 1, psn & 0xFFFFFFFF, ack_psn & 0xFFFFFFFF, sack)


def tal(opcode, num_ops=0, seqno=0, xid=0, ack_xid=0xFFFF, eom=True, ext=False):
    return struct.pack("<BBHHH", eom << 7 | ext << 4 | num_ops, opcode, seqno, xid & 0xFFFF, ack_xid & 0xFFFF)


def write_op(address):
    return struct.pack("<Q", address)


def send_op(key, offset):
    return struct.pack("<II", key, offset)


def read_op(address, length):
    return struct.pack("<QI", address, length)


def response_op(offset, seqno=0, opnum=0):
    return struct.pack("<HBxI", seqno, opnum, offset)


def error_op(major, minor, seqno=0, opnum=0):
    return struct.pack("<HBxHH", seqno, opnum, major, minor)


def checksum(data):
    """The Internet checksum."""
    total = sum(struct.unpack(f">{(len(data) + 1) // 2}H", data + bytes(len(data) % 2)))
    while total > 0xFFFF:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def udp4(source, destination, payload, sport=51900, surplus=b"", check=0, tos=0, ttl=64):
    """IPv4 and UDP around a payload; surplus follows what the UDP length covers."""
    length = 8 + len(payload)
    total = 20 + length + len(surplus)
    header = struct.pack(">BBHHHBBH4s4s", 0x45, tos, total, 0, 0, ttl, 17, 0, source, destination)
    header = header[:10] + struct.pack(">H", checksum(header)) + header[12:]
    return header + struct.pack(">HHHH", sport, PORT, length, check) + payload + surplus


def udp6(source, destination, payload, sport=51900, check=None, tclass=0, flow_label=0, hop_limit=64):
    """IPv6 and UDP around a payload, with the right checksum unless told."""
    length = 8 + len(payload)
    datagram = struct.pack(">HHHH", sport, PORT, length, 0) + payload
    if check is None:
        check = checksum(source + destination + struct.pack(">II", length, 17) + datagram) or 0xFFFF
    first = 6 << 28 | tclass << 20 | flow_label
    header = struct.pack(">IHBB16s16s", first, length, 17, hop_limit, source, destination)
    return header + datagram[:6] + struct.pack(">H", check) + datagram[8:]


class Packet:
    """A received packet, from the packet delivery header on."""

    def __init__(self, frame, offset):
        self.frame = frame
        self.bytes = frame[offset:]
        self.dcid, window, self.psn, self.ack_psn, self.sack = struct.unpack_from("<HHIII", self.bytes)
        self.window = window + 1
        first, self.opcode, self.seqno, self.xid, self.ack_xid = struct.unpack_from("<BBHHH", self.bytes, PDL_LEN)
        self.eom, self.num_ops = bool(first & 0x80), first & 0x0F
        self.body = self.bytes[PDL_LEN + TAL_LEN :]

    def is_pure_ack(self):
        return self.opcode == NOOP and not self.eom

    def error(self):
        """(XID, Seqno, OpNum, major, minor) of a Transaction Error, else None."""
        if self.opcode != ERROR:
            return None
        seqno, opnum, major, minor = struct.unpack_from("<HBxHH", self.body)
        return self.xid, seqno, opnum, major, minor

    def __repr__(self):
        return (
            f"opcode {self.opcode} PSN {self.psn} ACK PSN {self.ack_psn} SACK {self.sack:#x} "
            f"XID {self.xid} ACK XID {self.ack_xid} Seqno {self.seqno} eom {self.eom} {self.body[:24].hex(' ')}"
        )


def socket_in(node, *arguments):
    """A socket of a network namespace."""
    home = os.open("/proc/self/ns/net", os.O_RDONLY)
    there = os.open(f"/run/netns/{node}", os.O_RDONLY)
    os.setns(there, os.CLONE_NEWNET)
    try:
        return socket.socket(*arguments)
    finally:
        os.setns(home, os.CLONE_NEWNET)
        os.close(home)
        os.close(there)


class Link:
    """A packet socket on eth0 of a network namespace."""

    def __init__(self, node, way):
        self.way = way
        self.socket = socket_in(node, socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 << 20)
        self.socket.setsockopt(SOL_PACKET, PACKET_IGNORE_OUTGOING, 1)
        self.socket.bind(("eth0", 3))

    def send(self, frame):
        self.socket.send(frame)

    def _packet(self, frame):
        kind = struct.unpack_from(">H", frame, 12)[0]
        if self.way == "sunh" and kind == ETHERTYPE:
            return Packet(frame, ETHERNET_LEN + SUNH_LEN)
        if self.way == "udp4" and kind == 0x0800 and frame[23] == 17:
            return Packet(frame, ETHERNET_LEN + 28)
        if self.way == "udp6" and kind == 0x86DD and frame[20] == 17:
            return Packet(frame, ETHERNET_LEN + 48)
        return None

    def receive(self, seconds):
        """The next SUPERp packet that arrives here. None when no frame waits after this time:
        those that wait are looked at however long the machine has stood still."""
        end = time.monotonic() + seconds
        while select.select([self.socket], [], [], max(0, end - time.monotonic()))[0]:
            if packet := self._packet(self.socket.recv(65536)):
                return packet
        return None

    def expect(self, what, test, seconds=10):
        """The next packet that passes the test; others are skipped. AssertionError without one."""
        end = time.monotonic() + seconds
        seen = []
        while packet := self.receive(end - time.monotonic()):
            if test(packet):
                return packet
            seen.append(repr(packet))
        raise AssertionError(f"no {what} within {seconds} s, but: " + ("; ".join(seen[-5:]) or "nothing"))

    def nothing(self, seconds=0.1):
        """AssertionError if a packet comes."""
        if packet := self.receive(seconds):
            raise AssertionError(f"unexpected packet: {packet}")

    def drain(self):
        while self.receive(0.02):
            pass
