#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Single packets through the gateway of gateway.sh: gateway.py CASE NODE-A GATEWAY NODE-B.

Node A speaks SUNH and is 1; node B speaks UDP and is 2 over IPv4, 3 over IPv6. The script sends and
sees frames on packet sockets in both.
"""

import ipaddress
import itertools
import json
import pathlib
import struct
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "robust"))
from node import run, same
from wire import *

DCID = 0x7777
LITE = 0x88B6
NUMBER = {"udp4": 2, "udp6": 3}
HEADERS = {"udp4": 28, "udp6": 48}
psns = itertools.count(1)


def ip(way, number):
    return ipaddress.ip_address(f"fd23::{number:x}" if way == "udp6" else f"10.23.0.{number}").packed


def mac(node, device):
    return bytes.fromhex(json.loads(run("ip", "-n", node, "-j", "link", "show", device))[0]["address"].replace(":", ""))


class Gateway:
    def __init__(self, a, gateway, b):
        self.gateway = gateway
        self.a = Link(a, "sunh")
        self.b = {way: Link(b, way) for way in NUMBER}
        self.mac = {"a": mac(a, "eth0"), "to_a": mac(gateway, "toA"), "to_b": mac(gateway, "toB"), "b": mac(b, "eth0")}

    def superp(self, *arguments):
        return json.loads(run("ip", "netns", "exec", self.gateway, "superp", "-j", *arguments))

    def sunh(self, way, payload, **fields):
        """A frame of A to B."""
        fields = {"source": 1, "destination": NUMBER[way]} | fields
        return ethernet(self.mac["to_a"], self.mac["a"]) + sunh(**fields) + payload

    def udp(self, way, payload, **fields):
        """A datagram of B to A."""
        fields = {"source": ip(way, NUMBER[way]), "destination": ip(way, 1)} | fields
        wrap, kind = {"udp4": (udp4, 0x0800), "udp6": (udp6, 0x86DD)}[way]
        return ethernet(self.mac["to_b"], self.mac["b"], kind) + wrap(payload=payload, **fields)

    def arrives(self, sender, frame, receiver, payload):
        """The frame that the receiver gets for it."""
        dcid, _, psn = struct.unpack_from("<HHI", payload)
        sender.send(frame)
        test = lambda packet: (packet.dcid, packet.psn) == (dcid, psn)
        return receiver.expect(f"packet {psn}", test, seconds=30).frame

    def refused(self, what, sender, frame, reason):
        """The gateway drops the frame and counts it under this reason alone."""
        forwarded = self.superp("node", "show")["forwarded"]
        before = self.superp("stats")["drops"]
        sender.send(frame)
        end = time.monotonic() + 30
        while (after := self.superp("stats")["drops"]) == before and time.monotonic() < end:
            pass
        changed = {name: after[name] - before[name] for name in after if after[name] != before[name]}
        same(changed, {reason: 1}, f"{what}: drop counters that moved")
        same(self.superp("node", "show")["forwarded"], forwarded, f"{what}: packets forwarded")


def packet(length=48):
    """A Write, from the PDL header on, with a PSN of its own."""
    head = pdl(DCID, next(psns), -1) + tal(WRITE, 1) + write_op(0x123456789)
    return (head + bytes(i & 0xFF for i in range(length)))[:length]


def expanded(gateway, way):
    for traffic_class, hop_limit, label in (0, 15, 0xABC), (0xB9, 2, 0), (0xFF, 9, 0xFFF):
        payload = packet()
        fields = {"traffic_class": traffic_class, "hop_limit": hop_limit, "flow_label": label}
        frame = gateway.arrives(gateway.a, gateway.sunh(way, payload, **fields), gateway.b[way], payload)[ETHERNET_LEN:]
        if way == "udp4":
            fixed = {"tos": traffic_class, "ttl": hop_limit - 1}
            same(frame[6:8], b"\x40\0", "Don't Fragment, no offset")
            same(checksum(frame[:20]), 0, "checksum of the IPv4 header")
            # Whatever the identification is; the checksum that follows from it was looked at.
            frame = frame[:4] + bytes(4) + frame[8:10] + bytes(2) + frame[12:]
        else:
            fixed = {"tclass": traffic_class, "hop_limit": hop_limit - 1, "flow_label": label}
        at = HEADERS[way] - 8
        check = struct.unpack_from(">H", frame, at + 6)[0]
        source, destination = ip(way, 1), ip(way, NUMBER[way])
        pseudo = source + destination + struct.pack(">II", 8 + len(payload), 17)
        assert check, "no checksum"
        same(checksum(pseudo + frame[at:]), 0, "checksum of the datagram")
        wrap = {"udp4": udp4, "udp6": udp6}[way]
        wanted = wrap(source, destination, payload, sport=0xC000 | label, check=check, **fixed)
        if way == "udp4":
            wanted = wanted[:10] + bytes(2) + wanted[12:]
        same(frame, wanted, f"Traffic Class {traffic_class:#x}, Hop Limit {hop_limit}, Flow Label {label:#x}")


def compressed(gateway, way):
    hops, traffic = {"udp4": ("ttl", "tos"), "udp6": ("hop_limit", "tclass")}[way]
    cases = [(0, 64, {"sport": 51900}, 14, 0xABC), (0xB9, 2, {"sport": 0xCFFF}, 1, 0xFFF),
             (0xFF, 15, {"sport": 49152}, 14, 0), (0x2B, 255, {"sport": 50}, 14, 50)]  # fmt: skip
    if way == "udp6":
        cases.append((3, 9, {"sport": 51900, "flow_label": 0x98765}, 8, 0x765))
    for traffic_class, ttl, fields, hop_limit, label in cases:
        payload = packet()
        datagram = gateway.udp(way, payload, **{hops: ttl, traffic: traffic_class}, **fields)
        frame = gateway.arrives(gateway.b[way], datagram, gateway.a, payload)
        wanted = ethernet(gateway.mac["a"], gateway.mac["to_a"])
        wanted += sunh(NUMBER[way], 1, 253, hop_limit, label, traffic_class) + payload
        same(frame, wanted, f"Traffic Class {traffic_class:#x}, TTL {ttl}, {fields}")


def padded(gateway):
    """The padding of a short frame goes along; that of a datagram, which has none, is the device's."""
    noop = pdl(DCID, next(psns), -1) + tal(NOOP)
    frame = gateway.arrives(gateway.a, gateway.sunh("udp4", noop + bytes(14)), gateway.b["udp4"], noop)
    same(frame[ETHERNET_LEN + 28 :], noop + bytes(14), "No-op with padding")
    noop = pdl(DCID, next(psns), -1) + tal(NOOP)
    frame = gateway.arrives(gateway.b["udp4"], gateway.udp("udp4", noop), gateway.a, noop)
    same(frame[ETHERNET_LEN + SUNH_LEN :].rstrip(b"\0"), noop.rstrip(b"\0"), "No-op without")


def sunh_refused(gateway):
    refused = lambda what, frame, reason: gateway.refused(what, gateway.a, frame, reason)
    for way in NUMBER:
        make = lambda payload=packet(), **fields: gateway.sunh(way, payload, **fields)
        for hop_limit in 0, 1:
            refused(f"Hop Limit {hop_limit}", make(hop_limit=hop_limit), "hop_limit")
        refused("UDP in SUNH", make(next_header=17), "foreign_next_header")
        refused("SUPERp-lite", make()[:12] + struct.pack(">H", LITE) + make()[ETHERNET_LEN:], "not_forwarded")
        # In the name of a node beyond SUNH, of none, beyond 12 bits.
        for source in 2, 3, 9, 0, 0x1001:
            refused(f"source {source}", make(source=source), "wrong_source")
        refused("without a whole TAL header", make(packet(23)), "too_short")
        refused("without a PDL header", make(b""), "too_short")
        most = 9000 - HEADERS[way]
        refused("longer than a datagram may be", make(packet(most + 1)), "too_long")
        longest = packet(most)
        frame = gateway.arrives(gateway.a, make(longest), gateway.b[way], longest)
        same(frame[ETHERNET_LEN + HEADERS[way] :], longest, "the longest datagram")
    refused("without a whole SUNH header", make()[: ETHERNET_LEN + 7], "too_short")


def udp_refused(gateway):
    for way, link in gateway.b.items():
        hops = {"udp4": "ttl", "udp6": "hop_limit"}[way]
        make = lambda payload=packet(), **fields: gateway.udp(way, payload, **fields)
        refused = lambda what, frame, reason: gateway.refused(f"{way}, {what}", link, frame, reason)
        refused("TTL 1", make(**{hops: 1}), "hop_limit")
        refused("without a whole TAL header", make(packet(23)), "too_short")
        refused("empty", make(b""), "too_short")
        # What is not to be passed on is for the gateway itself, which has no such connection.
        refused("source without a route", make(source=ip(way, 9)), "no_connection")
        refused("source in SUNH", make(source=ip(way, 5)), "no_connection")
        refused("another node's family", make(source=ip(way, 5 - NUMBER[way])), "no_connection")
        longest = packet(1492)
        refused("longer than the next frame may be", make(packet(1493)), "too_long")
        frame = gateway.arrives(link, make(longest), gateway.a, longest)
        same(frame[ETHERNET_LEN + SUNH_LEN :], longest, "the longest frame")
    for what, fields, reason in (
        ("source of another prefix", {"source": b"\x0a\x18\0\2"}, "no_connection"),
        ("source with bits beyond a SUNH address", {"source": b"\x0a\x17\x10\2"}, "no_connection"),
        ("destination of another prefix", {"destination": b"\x0a\x18\0\1"}, "no_connection"),
        ("destination without a route", {"destination": b"\x0a\x17\0\6"}, "no_connection"),
        ("destination beyond UDP", {"destination": b"\x0a\x17\0\x08"}, "not_forwarded"),
    ):
        gateway.refused(what, gateway.b["udp4"], gateway.udp("udp4", packet(), **fields), reason)


def off(gateway):
    """Each side's packets are for the gateway itself, which has no such connection."""
    for way, link in gateway.b.items():
        gateway.refused(f"SUNH to {way}", gateway.a, gateway.sunh(way, packet()), "no_connection")
        gateway.refused(f"{way} to SUNH", link, gateway.udp(way, packet()), "no_connection")


CASES = {
    "off": off,
    "expanded4": lambda gateway: expanded(gateway, "udp4"),
    "expanded6": lambda gateway: expanded(gateway, "udp6"),
    "compressed4": lambda gateway: compressed(gateway, "udp4"),
    "compressed6": lambda gateway: compressed(gateway, "udp6"),
    "padded": padded,
    "sunh_refused": sunh_refused,
    "udp_refused": udp_refused,
}

if __name__ == "__main__":
    if len(sys.argv) != 5:
        sys.exit(__doc__)
    CASES[sys.argv[1]](Gateway(*sys.argv[2:]))
