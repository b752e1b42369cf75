# SPDX-License-Identifier: GPL-2.0
"""A client of the netlink family that asks for whatever it is told to, and TAP."""

import errno
import socket
import struct
import sys

GENERIC = 16
REQUEST, ACK, DUMP = 1, 4, 0x300
ERROR, DONE = 2, 3
CONTROLLER, GETFAMILY = 16, 3
NESTED = 0x8000

# Commands and attributes of linux/superp_netlink.h that are used here.
(NODE_GET, NODE_SET, PORT_GET, PORT_NEW, PORT_DEL, CONN_GET, CONN_NEW, CONN_DEL, CONN_START, CONN_RESET,
 PARAM_GET, PARAM_SET, REGION_GET, QP_GET, STATS_GET, EVENT_NTF, CONN_STOP,
 ROUTE_GET, ROUTE_NEW, ROUTE_DEL) = range(1, 21)
NODE_CM_ADDRESS = 13
PORT_IFINDEX, PORT_ENCAP = 1, 3
(CONN_LOCAL_CID, CONN_REMOTE_CID, CONN_ENCAP, CONN_IFINDEX, CONN_IFNAME, CONN_LOCAL_ADDR, CONN_REMOTE_ADDR,
 CONN_LLADDR, CONN_ORDERED_TX) = range(1, 10)
CONN_HOP_LIMIT, CONN_FLOW_LABEL, CONN_MTU = 14, 15, 16
CONN_PARAM, CONN_STATE = 19, 20
CONN_PATH = 26
PATH_IFINDEX, PATH_IFNAME, PATH_LOCAL_ADDR, PATH_REMOTE_ADDR, PATH_LLADDR, PATH_STATE, PATH_TX_PACKETS = range(1, 8)
PARAM_NAME, PARAM_VALUE, PARAM_MIN, PARAM_MAX, PARAM_DEFAULT, PARAM_PER_CONN = 1, 2, 3, 4, 5, 7
ERR_MSG, ERR_OFFSET, ERR_MISS_TYPE = 1, 2, 5


def attr(number, data):
    """An attribute with its padding."""
    return struct.pack("=HH", 4 + len(data), number) + data + bytes(-len(data) % 4)


def attrs(data):
    """Attributes as a dictionary of lists."""
    found = {}
    while len(data) >= 4:
        length, number = struct.unpack_from("=HH", data)
        found.setdefault(number & 0x3fff, []).append(data[4:length])
        data = data[(length + 3) & ~3:]
    return found


def u8(number, value):
    return attr(number, struct.pack("=B", value))


def u16(number, value):
    return attr(number, struct.pack("=H", value))


def u32(number, value):
    return attr(number, struct.pack("=I", value))


def uint(number, value):
    return u32(number, value) if value < 1 << 32 else attr(number, struct.pack("=Q", value))


def integer(data):
    return int.from_bytes(data, sys.byteorder)


def string(data):
    return data.rstrip(b"\0").decode()


def mapped(address):
    """An IPv4 address as the family carries it, or an IPv6 address."""
    if ":" in address:
        return socket.inet_pton(socket.AF_INET6, address)
    return bytes(10) + b"\xff\xff" + socket.inet_aton(address)


def text(number, value):
    return attr(number, value.encode() + b"\0")


class Refused(Exception):
    """The kernel's refusal: errno, sentence, missing attribute, offset of the one at fault."""

    def __init__(self, number, tlvs):
        super().__init__(errno.errorcode.get(number, number), tlvs)
        self.errno = number
        self.text = tlvs.get(ERR_MSG, [b""])[0].rstrip(b"\0").decode()
        self.missing = struct.unpack("=I", tlvs[ERR_MISS_TYPE][0])[0] if ERR_MISS_TYPE in tlvs else None
        self.offset = struct.unpack("=I", tlvs[ERR_OFFSET][0])[0] if ERR_OFFSET in tlvs else None


class Netlink:
    """A generic netlink socket."""

    def __init__(self):
        self.socket = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, GENERIC)
        self.socket.setsockopt(270, 10, 1)  # NETLINK_CAP_ACK
        self.socket.setsockopt(270, 11, 1)  # NETLINK_EXT_ACK
        self.socket.bind((0, 0))
        self.socket.settimeout(10)
        self.sequence = 0
        self.family = CONTROLLER
        self.info = self.ask(GETFAMILY, text(2, "superp"))[0]
        self.family = struct.unpack("=H", self.info[1][0])[0]

    def ask(self, command, payload=b"", flags=0, family=None):
        """The replies to a request."""
        self.sequence += 1
        body = struct.pack("=BBH", command, 1, 0) + payload
        self.socket.send(struct.pack("=IHHII", 16 + len(body), family or self.family, REQUEST | ACK | flags,
                                     self.sequence, 0) + body)
        replies = []
        while True:
            data = self.socket.recv(1 << 17)
            while data:
                length, kind, head, sequence, _ = struct.unpack_from("=IHHII", data)
                body = data[16:length]
                data = data[(length + 3) & ~3:]
                if sequence != self.sequence:
                    continue
                if kind in (ERROR, DONE):
                    number = -struct.unpack_from("=i", body)[0] if len(body) >= 4 else 0
                    if number > 0:
                        start = 20 if kind == ERROR else 4
                        raise Refused(number, attrs(body[start:]) if head & 0x200 else {})
                    if kind == DONE or not flags & DUMP:
                        return replies
                else:
                    replies.append(attrs(body[4:]))

    def refused(self, command, payload=b"", number=errno.EINVAL, part="", flags=0):
        """The request is refused with this errno and a sentence that contains a part."""
        try:
            self.ask(command, payload, flags)
        except Refused as refusal:
            numbers = number if isinstance(number, tuple) else (number,)
            assert refusal.errno in numbers, f"errno {errno.errorcode[refusal.errno]}: {refusal.text}"
            assert part in refusal.text, f"'{refusal.text}' does not say '{part}'"
            return refusal
        raise AssertionError(f"command {command} with {payload.hex()} was not refused")


class Tap:
    """Results."""

    def __init__(self):
        self.number = self.failed = 0
        print("TAP version 13")

    def case(self, name, function):
        self.number += 1
        try:
            function()
            print(f"ok {self.number} {name}", flush=True)
        except (AssertionError, Refused, OSError) as error:
            self.failed += 1
            print(f"# {type(error).__name__} {error}\nnot ok {self.number} {name}", flush=True)

    def end(self):
        print(f"1..{self.number}")
        sys.exit(self.failed != 0)
