#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Every value outside its range is refused with a sentence that names it; the ends of the range are
taken.

Run as root in a network namespace of its own whose device "port" has 10.23.0.1/16, fd23::1/64 and an
MTU of 9000; prints TAP.
"""

import errno
import socket

from nl import *

U64_MAX = (1 << 64) - 1

nl = Netlink()
tap = Tap()
refused = nl.refused
PORT = socket.if_nametoindex("port")


def params():
    """All parameters: name, smallest, largest, default, whether for a connection."""
    for param in nl.ask(PARAM_GET, flags=DUMP):
        number = [integer(param[key][0]) for key in (PARAM_MIN, PARAM_MAX, PARAM_DEFAULT)]
        yield string(param[PARAM_NAME][0]), *number, PARAM_PER_CONN in param


def value(name):
    return integer(nl.ask(PARAM_GET, text(PARAM_NAME, name))[0][PARAM_VALUE][0])


def setting(name, number):
    return text(PARAM_NAME, name) + uint(PARAM_VALUE, number)


def beyond(low, high):
    """Values outside of a range."""
    return [low - 1] * (low > 0) + [high + 1, U64_MAX] * (high < U64_MAX)


def parameter(name, low, high, default):
    for end in (low, high):
        nl.ask(PARAM_SET, setting(name, end))
        assert value(name) == end, value(name)
    for number in beyond(low, high):
        refusal = refused(PARAM_SET, setting(name, number), errno.ERANGE,
                          f"{name} {number} is out of range {low}..{high}")
        assert refusal.offset == 20 + len(text(PARAM_NAME, name)), refusal.offset
    assert value(name) == high, "a refusal changed it"
    nl.ask(PARAM_SET, setting(name, default))


def conn(encap=0, peer="10.23.0.2", extra=b""):
    """What asks for a connection."""
    return (u16(CONN_LOCAL_CID, 64) + u16(CONN_REMOTE_CID, 47) + u32(CONN_ENCAP, encap)
            + u32(CONN_IFINDEX, PORT) + attr(CONN_REMOTE_ADDR, mapped(peer)) + extra)


def taken(extra, encap=0):
    nl.ask(CONN_NEW, conn(encap, extra=extra))
    found = nl.ask(CONN_GET, u16(CONN_LOCAL_CID, 64))[0]
    nl.ask(CONN_DEL, u16(CONN_LOCAL_CID, 64))
    return found


def conn_parameter(name, low, high):
    def nest(number):
        return attr(CONN_PARAM | NESTED, setting(name, number))

    for number in beyond(low, high):
        refused(CONN_NEW, conn(extra=nest(number)), errno.ERANGE,
                f"{name} {number} is out of range {low}..{high}")
    for end in (low, high):
        # The largest windows take the most memory; all must be had.
        found = taken(nest(end))
        told = {string(p[PARAM_NAME][0]): integer(p[PARAM_VALUE][0])
                for p in (attrs(param) for param in found[CONN_PARAM])}
        assert told[name] == end, told


def parameter_of_the_node(name, low):
    nest = attr(CONN_PARAM | NESTED, setting(name, low))
    refused(CONN_NEW, conn(extra=nest), part=f"{name} is the node's")


def hop_limit():
    refused(CONN_NEW, conn(extra=u8(CONN_HOP_LIMIT, 0)), errno.ERANGE)
    refused(CONN_NEW, conn(extra=u8(CONN_HOP_LIMIT, 16)), errno.ERANGE,
            "hop-limit 16 is out of range 1..15 of sunh")
    for number in (1, 15):
        assert integer(taken(u8(CONN_HOP_LIMIT, number))[CONN_HOP_LIMIT][0]) == number
    taken(u8(CONN_HOP_LIMIT, 255), encap=1)


def flow_label():
    refused(CONN_NEW, conn(extra=u32(CONN_FLOW_LABEL, 0x1000)), errno.ERANGE,
            "flow-label 4096 is out of range 0..4095 of sunh")
    refused(CONN_NEW, conn(1, extra=u32(CONN_FLOW_LABEL, 0x100000)), errno.ERANGE)
    assert integer(taken(u32(CONN_FLOW_LABEL, 0xfff))[CONN_FLOW_LABEL][0]) == 0xfff
    taken(u32(CONN_FLOW_LABEL, 0xfffff), encap=1)


def mtu():
    for number in (0, 127, 65536, 0xffffffff):
        refused(CONN_NEW, conn(extra=u32(CONN_MTU, number)), errno.ERANGE)
    # Behind the SUNH header, behind IPv4 and UDP.
    for encap, most in ((0, 8992), (1, 8972)):
        refused(CONN_NEW, conn(encap, extra=u32(CONN_MTU, most + 1)), part="mtu is larger than the path carries")
        for number in (128, most):
            assert integer(taken(u32(CONN_MTU, number), encap)[CONN_MTU][0]) == number
        assert integer(taken(b"", encap)[CONN_MTU][0]) == most


def addresses():
    for peer in ("0.0.0.0", "0.1.2.3", "224.0.0.1", "255.255.255.255", "::", "ff02::1"):
        refused(CONN_NEW, conn(peer=peer), part="not an address of one host")
        refused(CONN_NEW, conn(extra=attr(CONN_LOCAL_ADDR, mapped(peer))), part="not an address of one host")
    refused(CONN_NEW, conn(extra=attr(CONN_LOCAL_ADDR, mapped("fd23::1"))), part="different families")
    family = "remote-addr is not of the family of the encapsulation"
    refused(CONN_NEW, conn(2), part=family)
    refused(CONN_NEW, conn(1, "fd23::2"), part=family)
    assert taken(b"")[CONN_LOCAL_ADDR][0] == mapped("10.23.0.1")


def link_addresses():
    for mac in (b"\xff" * 6, b"\1\0\x5e\0\0\1", bytes(6)):
        refused(CONN_NEW, conn(extra=attr(CONN_LLADDR, mac)), part="lladdr is not an address of one station")
    station = b"\2\0\0\0\0\1"
    refused(CONN_NEW, conn(1, extra=attr(CONN_LLADDR, station)), part="lladdr is for encap sunh only")
    assert taken(attr(CONN_LLADDR, station))[CONN_LLADDR][0] == station


def twice():
    nl.ask(CONN_NEW, conn())
    refused(CONN_NEW, conn(), errno.EEXIST, "a connection with this local-cid exists")
    nl.ask(CONN_DEL, u16(CONN_LOCAL_CID, 64))


def as_many_as_allowed():
    nl.ask(PARAM_SET, setting("pdl_conns_per_xpu", 1))
    nl.ask(CONN_NEW, conn())
    refused(CONN_NEW, conn(extra=u16(CONN_LOCAL_CID, 65)), errno.ENOSPC, "pdl_conns_per_xpu")
    nl.ask(CONN_DEL, u16(CONN_LOCAL_CID, 64))
    nl.ask(PARAM_SET, setting("pdl_conns_per_xpu", 64))


ALL = list(params())
for param in ALL:
    tap.case(f"{param[0]} takes {param[1]} to {param[2]}", lambda: parameter(*param[:4]))
nl.ask(PORT_NEW, u32(PORT_IFINDEX, PORT))
for param in ALL:
    if param[4]:
        tap.case(f"{param[0]} of one connection", lambda: conn_parameter(*param[:3]))
    else:
        tap.case(f"{param[0]} is not a connection's", lambda: parameter_of_the_node(*param[:2]))
tap.case("hop-limit", hop_limit)
tap.case("flow-label", flow_label)
tap.case("mtu", mtu)
tap.case("addresses", addresses)
tap.case("link addresses", link_addresses)
tap.case("an id that is taken", twice)
tap.case("no more connections than allowed", as_many_as_allowed)
tap.end()
