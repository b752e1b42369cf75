# SPDX-License-Identifier: GPL-2.0
"""A real node and a scripted peer: the node is this machine's module in one network namespace, the
peer is Python on a packet socket in the other. And results as kselftests print them."""

import contextlib
import ipaddress
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time
import traceback

from wire import *

XFER = "/superp/build/selftests/datapath/xfer"
RECEIVER = "/superp/build/selftests/robust/receiver"
GUARD = 4096 + 13  # of xfer

# Headers that packets have; as "ways" in lib/superp.sh.
WAYS = {"0qemu": ("sunh", "udp4"), "0debug": ("sunh", "udp6")}.get(
    os.environ.get("SUPERP_THOROUGH", "0") + os.environ.get("SUPERP_HOME", "uml"), ("sunh", "udp4", "udp6")
)


def run(*command, given=None):
    """Output of a command that is given this text; its error text is the exception's."""
    done = subprocess.run(command, input=given, capture_output=True, text=True)
    if done.returncode:
        raise AssertionError(f"{' '.join(command)}: status {done.returncode}: {done.stderr}{done.stdout}")
    return done.stdout


class Nodes:
    """Two namespaces made by lib/nodes.sh: number 1 and number 2, with the golden packets' MACs. Who looks
    at frames sees each packet by itself, unless there may be bursts. With detail refusals name the reason, for those who
    look at it."""

    def __init__(self, bursts=False, detail=False):
        script = 'set -euo pipefail; . lib/nodes.sh; nodes_up 9000 >&2; echo "$nodeA $nodeB"'
        out = subprocess.run(
            ["bash", "-c", script], cwd=TOP / "selftests", check=True, stdout=subprocess.PIPE, text=True
        ).stdout
        self.name = dict(zip((1, 2), out.split()))
        for number, mac in ((1, MAC_B), (2, MAC_A)):
            run("ip", "-n", self.name[number], "link", "set", "eth0", "address", mac.hex(":"))
            self.whole(number, bursts)
            if detail:
                self.superp(number, "param", "set", "tal_error_detail", "1")

    def whole(self, number, bursts):
        """Whether packets of a node that leave together pass its device as one."""
        run("ip", "-n", self.name[number], "link", "set", "eth0", "gso_max_segs", "65535" if bursts else "1")

    def superp(self, number, *arguments):
        return run("ip", "netns", "exec", self.name[number], "superp", *arguments)

    def drops(self, number):
        return json.loads(self.superp(number, "-j", "stats"))["drops"]

    def down(self):
        for name in self.name.values():
            run("ip", "netns", "delete", name)


class Scripted:
    """A connection between the node NUMBER and this script, which plays the other one. The script's
    state is the least there is: its next PSN and XID, and what it has seen."""

    CID = {1: 47, 2: 64}

    def __init__(self, nodes, number, way, *options, start_psn=0, start_xid=0):
        self.nodes, self.number, self.way = nodes, number, way
        self.other = 3 - number
        self.link = Link(nodes.name[self.other], way)
        self.psn, self.xid = start_psn, start_xid
        self.ack_psn, self.ack_xid = start_psn - 1, start_xid - 1
        self.cid = str(self.CID[number])
        if start_psn or start_xid:
            options += ("start-psn", str(start_psn), "start-xid", str(start_xid))
        with contextlib.suppress(AssertionError):
            nodes.superp(number, "conn", "del", self.cid)
        settings = {
            "peer": self.address(self.other), "peer-cid": str(self.CID[self.other]), "encap": way, "dev": "eth0",
            "local": self.address(number), "flow-label": str(0xABC), "ext": "off",
            # A script is slow on a machine that does other things.
            "pdl_dead_time": "30s",
        }  # fmt: skip
        settings |= dict(zip(options[::2], options[1::2], strict=True))
        words = (word for setting in settings.items() for word in setting)
        nodes.superp(number, "conn", "add", self.cid, *words)
        nodes.superp(number, "conn", "start", self.cid)
        self.link.drain()

    def address(self, number):
        return f"fd23::{number}" if self.way == "udp6" else f"10.23.0.{number}"

    def packed(self, number):
        return ipaddress.ip_address(self.address(number)).packed

    def wrap(self, payload, **fields):
        """A frame from the script to the node; fields are those of the network header."""
        macs = (MAC_B, MAC_A) if self.number == 1 else (MAC_A, MAC_B)
        if self.way == "sunh":
            fields = {"source": self.other, "destination": self.number} | fields
            return ethernet(*macs) + sunh(**fields) + payload
        fields = {"source": self.packed(self.other), "destination": self.packed(self.number)} | fields
        if self.way == "udp4":
            return ethernet(*macs, 0x0800) + udp4(payload=payload, **fields)
        return ethernet(*macs, 0x86DD) + udp6(payload=payload, **fields)

    def packet(self, opcode, body=b"", *, dcid=None, psn=None, ack_psn=None, window=32, sack=0, **fields):
        """PDL header and up; what is not told is what a correct peer would send next."""
        fields = {"xid": self.xid, "ack_xid": self.ack_xid} | fields
        head = pdl(
            self.CID[self.number] if dcid is None else dcid,
            self.psn if psn is None else psn,
            self.ack_psn if ack_psn is None else ack_psn,
            window,
            sack,
        )
        return head + tal(opcode, **fields) + body

    def send(self, *arguments, **fields):
        """Sends the packet and takes its PSN."""
        self.link.send(self.wrap(self.packet(*arguments, **fields)))
        self.psn += 1

    def see(self, packet):
        """Acknowledges what was received, from the next packet on. Nothing is lost on this link."""
        self.ack_psn = max(self.ack_psn, packet.psn)
        return packet

    def answer(self, what, test, **limits):
        return self.see(self.link.expect(what, test, **limits))

    def acknowledged(self, xid=None):
        """Waits until the node acknowledges the script's last packet, and, if told, transaction."""
        return self.answer(
            f"ACK of PSN {self.psn - 1}, XID {xid}",
            lambda p: p.ack_psn == (self.psn - 1) & 0xFFFFFFFF and xid in (None, p.ack_xid),
        )

    def alive(self):
        """A transaction succeeds."""
        self.send(NOOP)
        self.xid += 1
        return self.acknowledged(self.xid - 1 & 0xFFFF)

    def refused(self, frame, reason):
        """The node drops the frame and counts it under this reason alone, and goes on."""
        before = self.nodes.drops(self.number)
        self.link.send(frame)
        end = time.monotonic() + 5
        while True:
            after = self.nodes.drops(self.number)
            if after[reason] > before[reason] or time.monotonic() > end:
                break
        changed = {name: after[name] - before[name] for name in after if after[name] != before[name]}
        same(changed, {reason: 1}, "drop counters that moved")

    def stat(self, name):
        found = json.loads(self.nodes.superp(self.number, "-j", "conn", "show", self.cid, "-s"))
        found = found[0] if isinstance(found, list) else found
        return found[name] if name in found else found["stats"][name]

    @contextlib.contextmanager
    def region(self, length=65536, access="rw"):
        """A region of the node: gives its memory, RMA address, and the running program."""
        with tempfile.NamedTemporaryFile(dir="/dev/shm") as file:
            file.truncate(length + 2 * GUARD)
            server = subprocess.Popen(
                [XFER, "serve", self.nodes.name[self.number], file.name, access],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            )  # fmt: skip
            try:
                qpn, address, key = map(int, server.stdout.readline().split())
                yield Region(pathlib.Path(file.name), length, qpn, address, key, server)
            finally:
                server.stdin.close()
                same(server.wait(10), 0, "status of the region's program")

    @contextlib.contextmanager
    def receiver(self, length):
        """A queue pair of the node with one receive entry: gives its number, and the program."""
        command = [RECEIVER, self.nodes.name[self.number], self.address(self.other), str(length)]
        program = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        try:
            yield int(program.stdout.readline()), program
        finally:
            program.stdin.close()
            same(program.wait(10), 0, "status of the receiver")

    def request(self, operation, remote, memory=None, length=None):
        """A request of the node to the script, as a running program."""
        command = [XFER, "op", self.nodes.name[self.number], self.address(self.other), self.cid, operation, str(remote)]
        command += [str(len(memory) if length is None and memory else length or 0)]
        file = tempfile.NamedTemporaryFile(dir="/dev/shm", delete=False)
        if memory is not None:
            file.write(memory)
            file.flush()
            command += [file.name]
        program = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        program.memory = pathlib.Path(file.name)
        return program


class Region:
    def __init__(self, path, length, qpn, address, key, server):
        self.path, self.length, self.server = path, length, server
        self.qpn, self.address, self.key = qpn, address, key

    def bytes(self):
        """What is in the region; AssertionError if anything beside it has changed."""
        whole = self.path.read_bytes()
        same(whole[:GUARD] + whole[-GUARD:], bytes(2 * GUARD), "memory beside the region")
        return whole[GUARD:-GUARD]

    def fill(self, value):
        self.write(bytes([value]) * self.length)

    def write(self, data):
        with open(self.path, "r+b") as file:
            file.seek(GUARD)
            file.write(data)

    def wait(self, offset, wanted):
        """Waits until the bytes are there."""
        end = time.monotonic() + 10
        while (found := self.bytes()[offset : offset + len(wanted)]) != wanted:
            if time.monotonic() > end:
                same(found, wanted, f"bytes at {offset}")
            time.sleep(0.01)


def ended(program, wanted, seconds=20):
    """The request's program has printed this; gives its memory."""
    out = program.communicate(timeout=seconds)[0].strip()
    same(out, wanted, "outcome of the request")
    memory = program.memory.read_bytes()
    program.memory.unlink()
    return memory


def same(found, wanted, what):
    if found == wanted:
        return
    if isinstance(found, bytes):
        at = next((i for i, (a, b) in enumerate(zip(found, wanted)) if a != b), min(len(found), len(wanted)))
        raise AssertionError(
            f"{what}: {len(found)} bytes, wanted {len(wanted)}, differ at {at}: "
            f"found {found[at:][:32].hex(' ')}, wanted {wanted[at:][:32].hex(' ')}"
        )
    raise AssertionError(f"{what}: found {found!r}, wanted {wanted!r}")


class Results:
    """TAP."""

    def __init__(self):
        self.number = self.failed = 0
        print("TAP version 13", flush=True)

    def case(self, name, function, *arguments):
        self.number += 1
        try:
            function(*arguments)
            print(f"ok {self.number} {name}", flush=True)
        except Exception as error:  # a failed case must not hide the others
            self.failed += 1
            if not isinstance(error, AssertionError):
                print("".join("# " + line for line in traceback.format_exc().splitlines(keepends=True)))
            for line in str(error).splitlines():
                print(f"# {line}")
            print(f"not ok {self.number} {name}", flush=True)

    def end(self):
        print(f"1..{self.number}")
        sys.exit(1 if self.failed else 0)
