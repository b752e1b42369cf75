#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""A sender of forged packets that sees none, beside an honest connection of two nodes. It knows or
guesses everything but what only sight of the packets tells: PSN and ACK PSN. Nothing of it is accepted:
each packet is counted as dropped, or as one that has arrived before [proto 3.8]. The connection goes on."""

from attack import *

nodes = Nodes()
results = Results()
BATCH = 400
FORGED = bytes(range(1, 65))


class Forger:
    """Sends to NUMBER in the name of the other node."""

    def __init__(self, honest, number, region):
        self.honest, self.number, self.region = honest, number, region
        self.link = Link(nodes.name[3 - number], honest.way)
        self.scripted = object.__new__(Scripted)  # for its headers; it has no connection
        self.scripted.number, self.scripted.other, self.scripted.way = number, 3 - number, honest.way
        self.sent = 0

    def payload(self):
        """What would be done if the packet were taken: memory written, a message delivered."""
        region = self.region
        return chance.choice((
            lambda: (WRITE, write_op(region.address + 16 * chance.randrange(64)) + FORGED, 1),
            lambda: (SEND_QP, struct.pack("<I", region.qpn) + FORGED, 1),
            lambda: (READ, read_op(region.address, 4096), 1),
            lambda: (RESPONSE, response_op(edge(8)) + FORGED, 1),
            lambda: (ERROR, error_op(chance.randrange(8), chance.randrange(4)), 1),
            lambda: (NOOP, b"", 0),
            lambda: (LAST_NULL, b"", 0),
            lambda: (edge(8), chance.randbytes(chance.randrange(80)), chance.randrange(16)),
        ))()  # fmt: skip

    def frame(self, pure_ack=False):
        """Of pure ACKs those that have arrived before are not counted, so that they are apart."""
        opcode, body, operations = (NOOP, b"", 0) if pure_ack else self.payload()
        cid = int(self.honest.cid) if chance.randrange(8) else chance.randrange(65536)
        fields = {}
        if not chance.randrange(16):
            source = chance.randrange(65536) if self.honest.way == "sunh" else None
            fields = {"source": source} if source is not None else {"sport": chance.randrange(65536)}
        head = pdl(cid, chance.getrandbits(32), chance.getrandbits(32), 1 + edge(16), edge(32))
        eom = not pure_ack and (opcode == NOOP or bool(chance.randrange(2)))
        head += tal(opcode, operations, edge(16), edge(16), edge(16), eom)
        return self.scripted.wrap(head + body, **fields)

    def counted(self):
        """Packets that the node has not taken."""
        return sum(nodes.drops(self.number).values()) + self.honest.show(self.number)["stats"]["rx-duplicates"]

    def batch(self):
        """Forged packets, of which the node takes none."""
        before = self.counted()
        for _ in range(BATCH):
            self.link.send(self.frame())
        for _ in range(BATCH // 8):
            self.link.send(self.frame(pure_ack=True))
        end = time.monotonic() + 30
        while (found := self.counted() - before) < BATCH:
            assert time.monotonic() < end, f"{found} of {BATCH} forged packets were counted"
        self.sent += BATCH


def icmp(kind, code, rest, quoted):
    body = struct.pack(">BBHI", kind, code, 0, rest) + quoted
    return body[:2] + struct.pack(">H", checksum(body)) + body[4:]


def icmp4(number):
    """An ICMP error to a node about a packet that it may have sent."""
    own, peer = (bytes((10, 23, 0, n)) for n in (number, 3 - number))
    datagram = udp4(own, peer, bytes(8), sport=chance.randrange(49152, 65536))[: chance.choice((28, 36))]
    kinds = (3, chance.randrange(16)), (3, 4), (3, 4), (4, 0), (5, chance.randrange(4)), (11, 0), (12, 0)
    kind, code = chance.choice(kinds)
    body = icmp(kind, code, chance.choice((edge(16), 68, 576, 1280, edge(32))), datagram)
    source = chance.choice((peer, bytes((10, 23, 0, 99))))
    header = struct.pack(">BBHHHBBH4s4s", 0x45, 0, 20 + len(body), 0, 0, 64, 1, 0, source, own)
    return 0x0800, header[:10] + struct.pack(">H", checksum(header)) + header[12:] + body


def icmp6(number):
    own, peer, other = (ipaddress.ip_address(f"fd23::{n}").packed for n in (number, 3 - number, 99))
    datagram = udp6(own, peer, bytes(8), sport=chance.randrange(49152, 65536))
    kind, code = chance.choice(((1, chance.randrange(8)), (2, 0), (2, 0), (3, 0), (4, chance.randrange(3))))
    body = struct.pack(">BBHI", kind, code, 0, chance.choice((edge(16), 68, 1280, edge(32)))) + datagram
    source = chance.choice((peer, other))
    sum_of = checksum(source + own + struct.pack(">II", len(body), 58) + body)
    header = struct.pack(">IHBB16s16s", 6 << 28, len(body), 58, 64, source, own)
    return 0x86DD, header + body[:2] + struct.pack(">H", sum_of) + body[4:]


class Tcp:
    """A TCP connection between the nodes, which tells what IP believes of forged errors."""

    def __init__(self, honest):
        family = socket.AF_INET6 if honest.way == "udp6" else socket.AF_INET
        name = (honest.address(2), 7)
        with socket_in(nodes.name[2], family, socket.SOCK_STREAM) as listener:
            listener.bind(name)
            listener.listen()
            self.ends = {1: socket_in(nodes.name[1], family, socket.SOCK_STREAM)}
            self.ends[1].connect(name)
            self.ends[2] = listener.accept()[0]

    def path_mtu(self, number):
        """Of the packets that a node sends now: a route that has changed counts from the second on."""
        for _ in range(3):
            self.ends[number].sendall(b"x")
            self.ends[3 - number].recv(1)
        return struct.unpack_from("=I", self.ends[number].getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 104), 60)[0]

    def close(self):
        for end in self.ends.values():
            end.close()


def lock_mtu(number):
    """Packets over IPv4 have the length that the administrator has set, whatever ICMP says. IPv6 has no such thing."""
    for route in run("ip", "-n", nodes.name[number], "route", "show", "10.23.0.0/16").splitlines():
        run("ip", "-n", nodes.name[number], "route", "replace", *route.split(), "mtu", "lock", "9000")


def errors(link, way, number):
    """Forged ICMP errors; they may shorten packets, as they may those of any socket."""
    macs = (MAC_B, MAC_A) if number == 1 else (MAC_A, MAC_B)
    for _ in range(50):
        kind, packet = (icmp4 if way == "udp4" else icmp6)(number)
        link.send(ethernet(*macs, kind) + packet)


def guesses_acks(way):
    """One who knows PSN and transaction numbers, and not what the node has sent [proto 3.2]."""
    psn, xid = start().values()
    with Served(nodes, 1).region() as region:
        peer = Scripted(nodes, 1, way, start_psn=psn, start_xid=xid)
        refused = nodes.drops(1)["ack_psn_out_of_window"] + BATCH
        for _ in range(BATCH):
            body = write_op(region.address + 16 * chance.randrange(64)) + FORGED
            ack_psn = psn + 4096 + chance.randrange(2**32 - 8192)
            packet = peer.packet(WRITE, body, psn=psn + chance.randrange(16), ack_psn=ack_psn, xid=xid + chance.randrange(16), num_ops=1)
            peer.link.send(peer.wrap(packet))
        end = time.monotonic() + 30
        while (found := nodes.drops(1)["ack_psn_out_of_window"]) < refused and time.monotonic() < end:
            time.sleep(0.1)
        same(region.bytes(), bytes(region.length), "memory that the forger knows")
        same(found, refused, "packets dropped for their ACK PSN")
        peer.alive()


def start():
    return {"start-psn": chance.getrandbits(32), "start-xid": chance.getrandbits(16)}


def forged(way, seconds):
    honest = Honest(nodes, way, **start())
    tcp = Tcp(honest) if way != "sunh" else None
    if way == "udp4":
        lock_mtu(2)
    with Served(nodes, 1).region() as first, Served(nodes, 2).region() as second, honest.going_on():
        forgers = [Forger(honest, 1, first), Forger(honest, 2, second)]
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            for forger in forgers:
                forger.batch()
                if way != "sunh":
                    errors(forger.link, way, forger.number)
        for region in (first, second):
            same(region.bytes(), bytes(region.length), "memory that the forger knows")
            server = region.server.stdout
            assert not select.select([server], [], [], 0)[0], f"a forged message: {server.readline()}"
    for forger in forgers:
        print(f"# node {forger.number} took none of {forger.sent} forged packets")
    if tcp:
        for number in (1, 2):
            shown, mtu = honest.show(number), tcp.path_mtu(number)
            print(f"# node {number}: path MTU {shown['path-mtu']}; with headers, of TCP: {mtu}")
            assert shown["path-mtu"] + (28 if way == "udp4" else 48) >= mtu, "TCP believes less than SUPERp"
        if way == "udp4":
            same(shown["path-mtu"], shown["mtu"], "path MTU where it is locked")
        tcp.close()
    honest.remove()
    nothing_left(nodes)


try:
    for number in (1, 2):
        nodes.superp(number, "dev", "add", "eth0")
    for way in WAYS:
        results.case(f"{way}: none of those who guess ACK PSNs are taken", guesses_acks, way)
        results.case(f"{way}: nothing of a forger is taken, others go on", forged, way, SECONDS / len(WAYS))
finally:
    nodes.down()
results.end()
