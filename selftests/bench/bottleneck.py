#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""bottleneck.py FILE [--smoke] [--senders LIST] [--rate MBIT]: in a guest, several nodes write to one, whose link is the
bottleneck: SUPERp beside TCP, by each congestion control that the kernel has. Writes FILE, JSON, and prints a table.

    sender 1 --- veth ---+
    ...                  +--- bridge --- port shaped by tbf --- receiver
    sender n --- veth ---+

Requests have 64 KiB. Goodput is measured while all of them send, with 16 requests of each under way; the times of a
request with one of each. Every round takes all systems, one after the other. With --smoke: too short to say anything."""

import argparse
import contextlib
import json
import os
import pathlib
import signal
import statistics
import subprocess
import sys
import time

TOP = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(TOP / "selftests/robust"))

from node import run  # noqa: E402

WRITES = TOP / "build/selftests/bench/writes"
PORT = 4004
BYTES, DEPTH = 64 << 10, 16
MTU = 9000
# Bytes that wait for the shaped link.
QUEUE = 256_000
# Round-trip times of the paths: what veth has, and that of a long one.
PATHS = {"short": 0, "long": 20}
# Encapsulation and pdl_congestion of SUPERp's connections, which keep the parameters that they are made with.
SUPERP = {"sunh": ("sunh", 0), "udp4": ("udp4", 0), "sunh-congestion": ("sunh", 1), "udp4-congestion": ("udp4", 1)}
TCP = ("reno", "cubic", "dctcp", "bbr")
RECEIVER = 250


def within(namespace, *command):
    return ("ip", "netns", "exec", namespace, *map(str, command))


class Bed:
    """Nodes and their network; gone at the end of a "with"."""

    def __init__(self, senders, rate, delay):
        self.rate = rate
        self.senders = [f"sender{number}" for number in range(1, senders + 1)]
        self.servers = []
        self.delay = delay

    def __enter__(self):
        for name in ("switch", "receiver", *self.senders):
            run("ip", "netns", "add", name)
        run("ip", "-n", "switch", "link", "add", "br0", "mtu", str(MTU), "type", "bridge")
        run("ip", "-n", "switch", "link", "set", "br0", "up")
        for number, name in enumerate(self.senders, 1):
            self.plug(name, number)
        self.plug("receiver", RECEIVER)
        shaped = ("rate", f"{self.rate}mbit", "burst", "64kb", "limit", str(QUEUE))
        run("tc", "-n", "switch", "qdisc", "add", "dev", "receiver", "root", "tbf", *shaped)
        self.superp_up()
        self.serve(WRITES, "serve", PORT)
        self.serve("superp", "-j", "perf", "serve", "--size", 16 << 20)
        return self

    def __exit__(self, *_):
        for server in self.servers:
            server.send_signal(signal.SIGTERM)
            server.wait(20)
        for name in ("switch", "receiver", *self.senders):
            with contextlib.suppress(AssertionError):
                run("ip", "netns", "delete", name)

    def plug(self, name, number):
        run("ip", "link", "add", name, "netns", "switch", "mtu", str(MTU), "type", "veth", "peer", "eth0", "netns", name)
        run("ip", "-n", "switch", "link", "set", name, "master", "br0", "mtu", str(MTU), "up")
        run("ip", "-n", name, "address", "add", f"10.24.0.{number}/24", "dev", "eth0")
        for device in ("lo", "eth0"):
            run("ip", "-n", name, "link", "set", device, "up")
        run("ip", "-n", name, "link", "set", "eth0", "mtu", str(MTU))
        if self.delay:
            # Both ways take half of it.
            delay = ("delay", f"{self.delay / 2}ms", "limit", "10000")
            run("tc", "-n", name, "qdisc", "add", "dev", "eth0", "root", "netem", *delay)

    def serve(self, *command):
        server = subprocess.Popen(within("receiver", *command), stdout=subprocess.PIPE, text=True)
        self.servers.append(server)
        if not server.stdout.readline():
            raise AssertionError(f"{command[0]} does not serve")

    def superp_up(self):
        """A connection of each kind from each sender."""
        most = len(SUPERP) * (len(self.senders) + 1)
        receiver = ["dev add eth0", f"param set pdl_conns_per_xpu {most}"]
        for number, name in enumerate(self.senders, 1):
            sender = ["dev add eth0"]
            for index, way in enumerate(SUPERP):
                there, here = len(SUPERP) * number + index, 1 + index
                sender += self.half(here, RECEIVER, there, way, number)
                receiver += self.half(there, number, here, way, RECEIVER)
            self.batch(name, sender)
        self.batch("receiver", receiver)

    @staticmethod
    def half(cid, peer, peer_cid, way, local):
        encap, congestion = SUPERP[way]
        yield f"param set pdl_congestion {congestion}"
        yield (
            f"conn add {cid} peer 10.24.0.{peer} peer-cid {peer_cid} encap {encap} dev eth0 local 10.24.0.{local} ext on"
        )
        yield f"conn start {cid}"

    @staticmethod
    def batch(name, lines):
        run(*within(name, "superp", "batch"), given="\n".join(lines))

    def received(self):
        """Bytes that have come over the shaped link, headers included."""
        run_in = within("receiver", "cat", "/sys/class/net/eth0/statistics/rx_bytes")
        return int(run(*run_in))

    def all_at_once(self, command, seconds):
        """What each sender's command prints, and the bytes a second over the shaped link while all of them send."""
        before = self.received()
        running = [
            subprocess.Popen(within(name, *command(name)), stdout=subprocess.PIPE, text=True) for name in self.senders
        ]
        time.sleep(seconds * 0.3)
        start, first = time.monotonic(), self.received()
        time.sleep(seconds * 0.4)
        end, last = time.monotonic(), self.received()
        printed = [process.communicate(timeout=120)[0] for process in running]
        for process in running:
            if process.returncode:
                raise AssertionError(f"{process.args}: status {process.returncode}")
        return printed, (last - first) / (end - start), self.received() - before

    def superp(self, way, measure, seconds):
        cid = 1 + list(SUPERP).index(way)

        def command(_):
            depth = ("--depth", DEPTH) if measure == "bw" else ()
            return (
                "superp", "-j", "perf", "write", measure, f"10.24.0.{RECEIVER}", "--cid", cid, "--size", BYTES,
                "--duration", seconds, "--events", *depth,
            )  # fmt: skip

        before = self.superp_counters(cid)
        printed, wire, came = self.all_at_once(command, seconds)
        found = [json.loads(text) for text in printed]
        counters = [now - then for now, then in zip(self.superp_counters(cid), before)]
        p99 = max(one["latency-ns"]["p99"] for one in found) if measure == "lat" else None
        return self.figures([one["bytes"] for one in found], wire, came, counters, p99)

    def superp_counters(self, cid):
        """Packets, those that were sent again, and timeouts, of all senders."""
        total = [0, 0, 0]
        for name in self.senders:
            shown = json.loads(run(*within(name, "superp", "-j", "conn", "show", cid, "-s")))
            stats = (shown[0] if isinstance(shown, list) else shown)["stats"]
            again = sum(count for field, count in stats.items() if field.startswith("retrans-"))
            for index, value in enumerate((stats["tx-packets"], again, stats["timeouts"])):
                total[index] += value
        return total

    def tcp(self, control, measure, seconds):
        def command(_):
            depth = DEPTH if measure == "bw" else 1
            return WRITES, "to", f"10.24.0.{RECEIVER}", PORT, control, BYTES, depth, int(seconds * 1000)

        before = self.tcp_counters()
        printed, wire, came = self.all_at_once(command, seconds)
        found = [list(map(int, text.split())) for text in printed]
        counters = [now - then for now, then in zip(self.tcp_counters(), before)]
        p99 = max(one[5] for one in found) if measure == "lat" else None
        return self.figures([one[0] * BYTES for one in found], wire, came, counters, p99)

    def tcp_counters(self):
        total = [0, 0, 0]
        for name in self.senders:
            lines = run(*within(name, "cat", "/proc/net/snmp", "/proc/net/netstat")).splitlines()
            values = {}
            for head, row in zip(lines[::2], lines[1::2]):
                kind = head.split(":")[0]
                values |= {(kind, field): int(value) for field, value in zip(head.split()[1:], row.split()[1:])}
            for index, key in enumerate((("Tcp", "OutSegs"), ("Tcp", "RetransSegs"), ("TcpExt", "TCPTimeouts"))):
                total[index] += values[key]
            # OutSegs are without those that are sent again.
            total[0] += values["Tcp", "RetransSegs"]
        return total

    def figures(self, moved, wire, came, counters, p99):
        """Of what came over the link in the middle of the run, the same part was of use as in all of it."""
        packets, again, timeouts = counters
        goodput = wire * sum(moved) / came
        found = {
            "of-link": goodput * 8 / (self.rate * 1e6),
            "sent-again": again / packets,
            "timeouts": timeouts,
            # Jain's index of what each has moved.
            "fairness": sum(moved) ** 2 / (len(moved) * sum(each * each for each in moved)) if any(moved) else 0,
        }
        return found if p99 is None else {"p99-us": p99 / 1000} | found


def systems():
    """Those of SUPERp, and of TCP those that this kernel has."""
    for control in TCP:
        subprocess.run(("modprobe", "-q", f"tcp_{control}"), capture_output=True)
    there = pathlib.Path("/proc/sys/net/ipv4/tcp_available_congestion_control").read_text().split()
    yield from ((way, Bed.superp) for way in SUPERP)
    yield from ((control, Bed.tcp) for control in TCP if control in there)


def measured(path, senders, rate, rounds, seconds):
    """A row for each system: the medians of all rounds, or what failed."""
    taken, failed = {}, {}
    with Bed(senders, rate, PATHS[path]) as bed:
        chosen = list(systems())
        for _ in range(rounds):
            for name, take in chosen:
                for measure in ("bw", "lat"):
                    try:
                        taken.setdefault((name, measure), []).append(take(bed, name, measure, seconds))
                    except AssertionError as error:
                        failed[name] = str(error)
                        break
    for name, _ in chosen:
        row = {"path": path, "senders": senders, "rate-mbit": rate, "system": name}
        if name in failed:
            yield row | {"failed": failed[name]}
            continue
        for measure in ("bw", "lat"):
            found = taken[name, measure]
            row[measure] = {field: statistics.median(one[field] for one in found) for field in found[0]}
        yield row


def show(rows):
    print("| path | senders | system | of the link | fairness | sent again | timeouts | p99 of 64 KiB |")
    print("|---|---|---|---|---|---|---|---|")
    for row in rows:
        if "failed" in row:
            print(f"| {row['path']} | {row['senders']} | {row['system']} | failed | | | | |", flush=True)
            continue
        bw, lat = row["bw"], row["lat"]
        print(
            f"| {row['path']} | {row['senders']} | {row['system']} | {bw['of-link']:.3f} | {bw['fairness']:.3f} | "
            f"{bw['sent-again'] * 100:.2f} % | {bw['timeouts'] + lat['timeouts']:.0f} | {lat['p99-us'] / 1000:.1f} ms |",
            flush=True,
        )


def main():
    options = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    options.add_argument("file", type=pathlib.Path)
    options.add_argument("--smoke", action="store_true")
    options.add_argument("--senders", default="1,8,32", help="how many, a list")
    options.add_argument("--rate", type=int, default=1000 if os.environ.get("SUPERP_HOME") == "uml" else 100, help="Mbit/s")
    options.add_argument("--paths", default=",".join(PATHS), help="of them, a list")
    options.add_argument("--rounds", type=int, default=3)
    options = options.parse_args()
    if options.smoke:
        options.senders, options.rounds = "2", 1
    rows = []
    for path in options.paths.split(","):
        for senders in map(int, options.senders.split(",")):
            print(f"{path} path, {senders} senders", file=sys.stderr, flush=True)
            rows += measured(path, senders, options.rate, options.rounds, 0.2 if options.smoke else 3)
    options.file.write_text(json.dumps(rows, indent=1) + "\n")
    show(rows)


if __name__ == "__main__":
    main()
