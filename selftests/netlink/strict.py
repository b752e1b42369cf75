#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Requests that the command never makes: what does not follow the policy is refused and named.

Run as root in a network namespace of its own; prints TAP.
"""

import errno
import os
import random
import socket
import struct

from nl import *

nl = Netlink()
tap = Tap()
refused = nl.refused
LO = socket.if_nametoindex("lo")
LOCAL, PEER = mapped("127.0.0.1"), mapped("127.0.0.2")
# What conn-new needs: UDP over IPv4 by the loopback device.
NEEDED = {
    CONN_REMOTE_CID: u16(CONN_REMOTE_CID, 47),
    CONN_ENCAP: u32(CONN_ENCAP, 1),
    CONN_REMOTE_ADDR: attr(CONN_REMOTE_ADDR, PEER),
}
CONN = b"".join(NEEDED.values())


def new(extra=b""):
    """Creates a connection and deletes it; its local id."""
    cid = struct.unpack("=H", nl.ask(CONN_NEW, CONN + extra)[0][CONN_LOCAL_CID][0])[0]
    nl.ask(CONN_DEL, u16(CONN_LOCAL_CID, cid))
    return cid


def family():
    groups = attrs(nl.info[7][0])
    names = [attrs(group)[1][0].rstrip(b"\0") for members in groups.values() for group in members]
    assert names == [b"events"], names


def commands():
    refused(0, number=errno.EOPNOTSUPP)
    refused(EVENT_NTF, number=errno.EOPNOTSUPP)
    refused(ROUTE_DEL + 1, number=errno.EOPNOTSUPP)
    refused(255, number=errno.EOPNOTSUPP)
    for command in (REGION_GET, QP_GET):
        refused(command, number=errno.EOPNOTSUPP)
    for command in (NODE_GET, NODE_SET, PORT_NEW, CONN_NEW, CONN_DEL, CONN_STOP, PARAM_SET,
                    STATS_GET, ROUTE_NEW, ROUTE_DEL):
        refused(command, flags=DUMP, number=errno.EOPNOTSUPP)


def what_is_needed_is_enough():
    new()
    new(attr(CONN_LOCAL_ADDR, LOCAL))


def missing():
    for number in (CONN_REMOTE_CID, CONN_ENCAP, CONN_REMOTE_ADDR):
        payload = b"".join(data for key, data in NEEDED.items() if key != number)
        assert refused(CONN_NEW, payload, part="is missing").missing == number
    for command, number in ((PORT_GET, PORT_IFINDEX), (PORT_NEW, PORT_IFINDEX), (PORT_DEL, PORT_IFINDEX),
                            (CONN_GET, CONN_LOCAL_CID), (CONN_DEL, CONN_LOCAL_CID),
                            (CONN_START, CONN_LOCAL_CID), (CONN_RESET, CONN_LOCAL_CID),
                            (PARAM_GET, PARAM_NAME), (PARAM_SET, PARAM_NAME),
                            (NODE_SET, NODE_CM_ADDRESS)):
        assert refused(command, part="is missing").missing == number
    assert refused(PARAM_SET, text(PARAM_NAME, "pdl_max_rtx"), part="is missing").missing == PARAM_VALUE


def unknown():
    for command, payload in ((NODE_SET, attr(NODE_CM_ADDRESS, PEER)), (PORT_GET, u32(PORT_IFINDEX, LO)),
                             (CONN_NEW, CONN), (CONN_GET, u16(CONN_LOCAL_CID, 1)),
                             (PARAM_GET, text(PARAM_NAME, "pdl_max_rtx"))):
        for number in (40, 100, 0x3fff):
            refusal = refused(command, payload + u32(number, 1))
            assert refusal.offset == 20 + len(payload), refusal.offset


def output_only():
    refused(CONN_NEW, CONN + u32(CONN_STATE, 1))
    refused(CONN_NEW, CONN + text(CONN_IFNAME, "lo"))
    refused(NODE_SET, attr(NODE_CM_ADDRESS, PEER) + u16(1, 22))


def lengths():
    wrong = (errno.EINVAL, errno.ERANGE)
    for number, sizes in ((CONN_LOCAL_CID, (0, 1, 3, 4, 8)), (CONN_ENCAP, (0, 1, 2, 3, 5, 8)),
                          (CONN_IFINDEX, (0, 3, 8)), (CONN_LOCAL_ADDR, (0, 4, 15, 17, 64)),
                          (CONN_REMOTE_ADDR, (0, 4, 15, 17)), (CONN_LLADDR, (0, 5, 7)),
                          (CONN_ORDERED_TX, (0, 2, 4))):
        for size in sizes:
            refusal = refused(CONN_NEW, CONN + attr(number, bytes(size)), wrong)
            assert refusal.offset == 20 + len(CONN), (number, size, refusal.offset)
    for size in (0, 1, 2, 3, 5, 7, 9):
        refused(PARAM_SET, text(PARAM_NAME, "pdl_max_rtx") + attr(PARAM_VALUE, bytes(size)), wrong)


def names():
    wrong = (errno.EINVAL, errno.ERANGE)
    refused(PARAM_GET, attr(PARAM_NAME, b"pdl_max_rtx"), wrong)
    refused(PARAM_GET, attr(PARAM_NAME, b""), wrong)
    refused(PARAM_GET, text(PARAM_NAME, "p" * 32), wrong)
    refused(PARAM_GET, text(PARAM_NAME, "p" * 31), errno.ENOENT, "no parameter")
    refused(PARAM_GET, text(PARAM_NAME, ""), errno.ENOENT, "no parameter")
    # Names are bytes, whatever they are; a part of a name is not a name.
    refused(PARAM_GET, attr(PARAM_NAME, b"\xff\xfe%s\n\0"), errno.ENOENT, "no parameter")
    refused(PARAM_GET, text(PARAM_NAME, "pdl_max"), errno.ENOENT, "no parameter pdl_max")
    assert nl.ask(PARAM_GET, text(PARAM_NAME, "pdl_max_rtx"))[0][PARAM_NAME][0] == b"pdl_max_rtx\0"


def values_of_four_and_eight_bytes():
    for size in ("=I", "=Q"):
        nl.ask(PARAM_SET, text(PARAM_NAME, "pdl_max_rtx") + attr(PARAM_VALUE, struct.pack(size, 4)))
    refused(PARAM_SET, text(PARAM_NAME, "pdl_max_rtx") + attr(PARAM_VALUE, struct.pack("=Q", (1 << 32) + 4)),
            errno.ERANGE, "pdl_max_rtx 4294967300 is out of range 1..8")


def nested():
    name, value = text(PARAM_NAME, "pdl_window_size"), u32(PARAM_VALUE, 64)
    new(attr(CONN_PARAM | NESTED, name + value))
    # Without the flag, a nested attribute is not one.
    refused(CONN_NEW, CONN + attr(CONN_PARAM, name + value), part="NLA_F_NESTED")
    for inside in (name, value, b""):
        refused(CONN_NEW, CONN + attr(CONN_PARAM | NESTED, inside), part="needs a name and a value")
    refused(CONN_NEW, CONN + attr(CONN_PARAM | NESTED, name + value + u32(3, 1)))
    refused(CONN_NEW, CONN + attr(CONN_PARAM | NESTED, name + value + b"\1"))
    refusal = refused(CONN_NEW, CONN + attr(CONN_PARAM | NESTED, name + u32(PARAM_VALUE, 7)), errno.ERANGE,
                      "pdl_window_size 7 is out of range 16..1024")
    # The attribute at fault is the value inside.
    assert refusal.offset == 20 + len(CONN) + 4 + len(name), refusal.offset


def path(*parts):
    return attr(CONN_PATH | NESTED, b"".join(parts))


def paths():
    """What a path leaves out is the connection's; the rest it has of its own."""
    device, other = u32(PATH_IFINDEX, LO), attr(PATH_REMOTE_ADDR, mapped("127.0.0.3"))
    new(path(device))
    new(path(device) + path(device, other))
    four = path(device) + b"".join(path(device, attr(PATH_REMOTE_ADDR, mapped(f"127.0.0.{n}"))) for n in (3, 4, 5))
    new(four)
    refusal = refused(CONN_NEW, CONN + four + path(device, attr(PATH_REMOTE_ADDR, mapped("127.0.0.6"))),
                      part="4 paths at most")
    assert refusal.offset == 20 + len(CONN + four), refusal.offset
    refused(CONN_NEW, CONN + path(device) + path(device), part="two paths are the same")
    refused(CONN_NEW, CONN + path(other), part="needs its ifindex")
    refused(CONN_NEW, CONN + path(), part="needs its ifindex")
    refused(CONN_NEW, CONN + path(u32(PATH_IFINDEX, 0)), (errno.EINVAL, errno.ERANGE))
    refused(CONN_NEW, CONN + path(u32(PATH_IFINDEX, 0x7fffffff)), errno.ENODEV, "no port")
    refused(CONN_NEW, CONN + path(device, attr(PATH_REMOTE_ADDR, mapped("224.0.0.1"))), part="not an address of one host")
    refused(CONN_NEW, CONN + path(device, attr(PATH_REMOTE_ADDR, mapped("::1"))), part="family of the encapsulation")
    refused(CONN_NEW, CONN + path(device, attr(PATH_LLADDR, b"\2\0\0\0\0\1")), part="lladdr is for encap sunh")
    for told in (text(PATH_IFNAME, "lo"), u32(PATH_STATE, 1), u32(PATH_TX_PACKETS, 1)):
        refused(CONN_NEW, CONN + path(device, told), part="only told")
    refused(CONN_NEW, CONN + u32(CONN_IFINDEX, LO) + path(device), part="of the only path")
    # Without the connection's address each path needs one.
    addressless = b"".join(data for key, data in NEEDED.items() if key != CONN_REMOTE_ADDR)
    assert refused(CONN_NEW, addressless + path(device, other) + path(device), part="is missing").missing == \
        CONN_REMOTE_ADDR
    cid = nl.ask(CONN_NEW, addressless + path(device, other))[0][CONN_LOCAL_CID][0]
    conn = nl.ask(CONN_GET, attr(CONN_LOCAL_CID, cid))[0]
    nl.ask(CONN_DEL, attr(CONN_LOCAL_CID, cid))
    assert conn[CONN_REMOTE_ADDR] == [mapped("127.0.0.3")], conn
    told = attrs(conn[CONN_PATH][0])
    assert told[PATH_REMOTE_ADDR] == [mapped("127.0.0.3")] and integer(told[PATH_STATE][0]) == 1, told
    assert integer(told[PATH_IFINDEX][0]) == LO and string(told[PATH_IFNAME][0]) == "lo", told


def the_last_of_several_counts():
    assert new(u16(CONN_LOCAL_CID, 5) + u16(CONN_LOCAL_CID, 6) + u16(CONN_LOCAL_CID, 7)) == 7


def cut_off():
    refused(CONN_NEW, CONN + b"\1")
    refused(CONN_NEW, CONN + struct.pack("=HH", 200, CONN_LOCAL_CID) + b"\1\0")
    refused(CONN_NEW, CONN + struct.pack("=HH", 3, CONN_LOCAL_CID))
    refused(CONN_NEW, CONN + struct.pack("=HH", 0, CONN_LOCAL_CID))
    for length in range(1, len(CONN)):
        refused(CONN_NEW, CONN[:length])


def enumerations():
    wrong = (errno.EINVAL, errno.ERANGE)
    for value in (3, 255, 0xffffffff):
        refused(CONN_NEW, CONN + u32(CONN_ENCAP, value), wrong)
    for value in (2, 255):
        refused(CONN_NEW, CONN + u8(CONN_ORDERED_TX, value), wrong)
    refused(PORT_NEW, u32(PORT_IFINDEX, LO) + u32(PORT_ENCAP, 4))
    for value in (0, 0x80000000, 0xffffffff):
        refused(PORT_NEW, u32(PORT_IFINDEX, value), wrong)


def serves_nothing():
    refused(PORT_GET, u32(PORT_IFINDEX, 0x7fffffff), errno.ENOENT, "not a port")
    refused(PORT_NEW, u32(PORT_IFINDEX, 0x7fffffff), errno.ENODEV, "no such device")


def noise():
    """Random requests: each is answered, and the node works afterwards."""
    seed = int(os.environ.get("SEED", "0")) or random.SystemRandom().getrandbits(32)
    print(f"# SEED={seed}", flush=True)
    rng = random.Random(seed)
    known = [text(1, "pdl_window_size"), u32(1, LO), u16(1, 1), CONN, attr(NODE_CM_ADDRESS, PEER)]
    counts = {"taken": 0, "refused": 0}
    for _ in range(5000):
        payload = rng.choice([b"", rng.choice(known)])
        for _ in range(rng.randrange(4)):
            number = rng.randrange(28) | rng.choice([0, 0, NESTED])
            data = rng.choice([rng.randbytes(rng.randrange(40)), rng.choice(known), bytes(4), PEER])
            payload += attr(number, data)
        if rng.randrange(4) == 0:
            payload = payload[:rng.randrange(len(payload) + 1)]
        try:
            nl.ask(rng.randrange(22), payload, rng.choice([0, 0, 0, DUMP]))
            counts["taken"] += 1
        except Refused:
            counts["refused"] += 1
    print(f"# {counts}", flush=True)
    # Some hundred are taken on average; none at all would be a generator that makes nothing good.
    assert counts["taken"] and counts["refused"], counts
    assert nl.ask(NODE_GET)


nl.ask(PORT_NEW, u32(PORT_IFINDEX, LO))
tap.case("the family has one group", family)
tap.case("unknown commands and wrong kinds of commands", commands)
tap.case("a connection with only what is needed", what_is_needed_is_enough)
tap.case("what is missing is named", missing)
tap.case("unknown attributes are refused and pointed at", unknown)
tap.case("attributes of replies are refused in requests", output_only)
tap.case("wrong lengths are refused and pointed at", lengths)
tap.case("names", names)
tap.case("values of four and eight bytes", values_of_four_and_eight_bytes)
tap.case("nested attributes", nested)
tap.case("paths of a connection", paths)
tap.case("the last of several counts", the_last_of_several_counts)
tap.case("requests that are cut off", cut_off)
tap.case("values outside of their enumeration", enumerations)
tap.case("devices that are not there", serves_nothing)
tap.case("noise", noise)
tap.end()
