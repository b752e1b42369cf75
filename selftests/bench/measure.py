#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""measure.py FILE [--smoke]: in a guest, measures SUPERp beside what a user would pick instead, between two
nodes on one veth pair, and writes what it found to FILE, as JSON: a home of Documentation/bench.schema.json
without its ratios. Each figure is taken once in each of several rounds, all after one another, so that what
else the machine does meets all alike. With --smoke: one round, too short to say anything about speed."""

import argparse
import contextlib
import datetime
import functools
import json
import os
import pathlib
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time

TOP = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(TOP / "selftests/robust"))

from node import Nodes, run  # noqa: E402

MTU = 9000
# Bytes of a frame's payload in the measurement of bare frames.
FRAME = 8900
KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30
SIZES = {"64KiB": 64 * KIB, "1MiB": MIB}
# Memory that messages go round in: of superp perf, and so of bare frames.
SPAN = {8: 4 * KIB, 64: 4 * KIB, 64 * KIB: 4 * MIB, MIB: 16 * MIB}
# The second node's memory is used from here on. QEMU's emulation finds a page by the low bits of its number. Those of
# both ends, at one place in their huge pages, would be in each other's way in some runs and not in others, and a copy
# from one to the other take twice as long.
SKEW = 17 * 4096
# Besides one.
QUEUE_PAIRS = (16, 256)
# Besides one, each with a queue pair; of a pair of addresses of their own.
CONNECTIONS = (64, 1024)
MANY = "10.23.1"
PINGPONG = TOP / "build/selftests/bench/pingpong"
PORTS = {"sleep": 4001, "spin": 4002}
RDS = TOP / "build/selftests/bench/rds"
RDS_PORT = 4003
# How requests get to the kernel: by doorbells, or taken in by a thread.
HOW = {"": (), "-poller": ("--poller",)}
# Of perftest, by the beginning of their names: what is measured beside SUPERp, and its device.
PERFTEST = {"perftest": "superp", "rxe": "rxe"}
# perftest measures the clock of the processor, too, and reports nothing where it cannot, as on a busy machine.
NO_REPORT = "perftest reports nothing"
# Connections: of each encapsulation, one that does not pack requests, and one that packs as many as can be.
SUNH, UDP, UNPACKED, PACKED = 1, 2, 3, 4
# Those two are compared where a doorbell is for many requests: whole packets of the second, in each quarter.
DEEP = ("--depth", "480")


class Absent(Exception):
    """Why something is not measured here."""


def within(namespace, *command):
    return ("ip", "netns", "exec", namespace, *map(str, command))


class Bench:
    def __init__(self, smoke):
        self.smoke = smoke
        self.rounds = 1 if smoke else 7
        # Milliseconds of a measurement.
        self.ms = 20 if smoke else 400
        self.nodes = Nodes(bursts=True)
        self.a, self.b = self.nodes.name[1], self.nodes.name[2]
        self.servers = []
        # Packets that each connection has sent again so far, at both ends.
        self.sent_again = {SUNH: 0, UDP: 0, UNPACKED: 0, PACKED: 0}
        self.versions = {"kernel": os.uname().release}

    def down(self):
        for server in self.servers:
            server.send_signal(signal.SIGTERM)
            server.wait(20)
        self.nodes.down()

    def serve(self, *command):
        """Starts a program at the second node that ends with the bench; gives its standard output."""
        server = subprocess.Popen(
            within(self.b, *command), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        self.servers.append(server)
        return server.stdout

    # SUPERp

    def superp_up(self):
        for number in (1, 2):
            self.nodes.superp(number, "dev", "add", "eth0")
        for cid, encapsulation in ((SUNH, "sunh"), (UDP, "udp4")):
            self.connection_up(cid, encapsulation)
        self.connections_up()
        # The last: connections keep the parameters they are made with.
        for cid, most in ((UNPACKED, 1), (PACKED, 15)):
            for number in (1, 2):
                self.nodes.superp(number, "param", "set", "tal_max_ops_per_pkt", str(most))
            self.connection_up(cid, "sunh")
        served = self.serve("superp", "-j", "perf", "serve", "--size", str(16 * MIB + SKEW)).readline()
        self.remote = json.loads(served)["rma_addr"] + SKEW
        self.versions["superp"] = run("superp", "--version").split()[-1]

    def connection_up(self, cid, encapsulation):
        for number in (1, 2):
            self.nodes.superp(
                number, "conn", "add", str(cid), "peer", f"10.23.0.{3 - number}", "peer-cid", str(cid),
                "encap", encapsulation, "dev", "eth0", "local", f"10.23.0.{number}", "ext", "on",
            )  # fmt: skip
            self.nodes.superp(number, "conn", "start", str(cid))

    def connections_up(self):
        """Many connections between two more addresses."""
        for number, namespace in ((1, self.a), (2, self.b)):
            run("ip", "-n", namespace, "address", "add", f"{MANY}.{number}/24", "dev", "eth0")
        for number, namespace in ((1, self.a), (2, self.b)):
            lines = [f"param set pdl_conns_per_xpu {PACKED + max(CONNECTIONS)}"]
            for cid in range(PACKED + 1, PACKED + 1 + max(CONNECTIONS)):
                lines.append(
                    f"conn add {cid} peer {MANY}.{3 - number} peer-cid {cid} encap sunh dev eth0 local {MANY}.{number} ext on"
                )
                lines.append(f"conn start {cid}")
            subprocess.run(
                within(namespace, "superp", "batch"), input="\n".join(lines), text=True, check=True, stdout=subprocess.DEVNULL
            )

    def retransmits(self, cid):
        """Packets that a connection has sent again since this was asked last."""
        before, total = self.sent_again[cid], 0
        for number in (1, 2):
            shown = json.loads(self.nodes.superp(number, "-j", "conn", "show", str(cid), "-s"))
            stats = (shown[0] if isinstance(shown, list) else shown)["stats"]
            total += sum(count for name, count in stats.items() if name.startswith("retrans-"))
        self.sent_again[cid] = total
        return total - before

    def superp(self, cid, operation, measure, size, queue_pairs=1, options=()):
        """One run, in which all that is moved is compared with what should be moved."""
        if operation != "send":
            options = (*options, "--remote", str(self.remote))
        found = json.loads(
            self.nodes.superp(
                1, "-j", "perf", operation, measure, "10.23.0.2", "--cid", str(cid), "--qps", str(queue_pairs),
                "--size", str(size), "--duration", str(self.ms / 1000), "--verify", *options,
            )  # fmt: skip
        )
        if not found["verified"]:
            raise AssertionError(f"{operation} {measure}: nothing was compared")
        value = {
            "bw": lambda: found["bytes-per-second"],
            "rate": lambda: found["operations-per-second"],
            "lat": lambda: found["latency-ns"]["p50"],
        }[measure]()
        return value, self.retransmits(cid)

    def superp_connections(self, count, seconds):
        """Small writes of as many connections, each with a queue pair."""
        return json.loads(
            self.nodes.superp(
                1, "-j", "perf", "write", "rate", f"{MANY}.2", "--connections", str(count), "--qps", str(count),
                "--size", "64", "--duration", str(seconds), "--verify",
            )  # fmt: skip
        )

    def superp_processor(self, cid):
        """Seconds of processor time for each GiB written. Who waits sleeps; comparing would cost, too."""
        return processor_time(
            lambda: json.loads(
                self.nodes.superp(
                    1, "-j", "perf", "write", "bw", "10.23.0.2", "--cid", str(cid), "--size", str(MIB), "--events",
                    "--remote", str(self.remote), "--duration", str(max(4 * self.ms, 200) / 1000),
                )  # fmt: skip
            )["bytes"]
        )

    # The limit

    def frames_up(self):
        module = TOP / "build" / os.environ["SUPERP_HOME"].replace("qemu", "stock") / "selftests/modules/frames.ko"
        if not module.exists():
            raise Absent("selftests/modules/frames.ko is not built")
        run("insmod", str(module))

    def frames_moved(self, size, ms, answered=""):
        """Messages, bytes and ns; the module compares them. `answered`: one after the other."""
        control = "/sys/module/frames/parameters/run"
        order = f"eth0 {size} {min(size, FRAME)} {SPAN[size]} {ms} {answered}"
        run(*within(self.a, "sh", "-c", f"echo '{order}' >{control}"))
        return map(int, pathlib.Path(control).read_text().split())

    def frames(self, size):
        """Messages and bytes a second."""
        messages, moved, ns = self.frames_moved(size, self.ms)
        return messages / ns * 1e9, moved / ns * 1e9

    def frames_latency(self):
        """A frame there and one back, ns: the mean."""
        messages, _, ns = self.frames_moved(8, self.ms, "answered")
        return ns / messages

    # TCP

    def tcp_up(self):
        for way, port in PORTS.items():
            self.serve(PINGPONG, "listen", port, way).readline()
        self.serve("iperf3", "--server", "--logfile", "/dev/null")
        end = time.monotonic() + 20
        while ":5201" not in run(*within(self.b, "ss", "-Hltn")):
            if time.monotonic() > end:
                raise Absent("iperf3 does not listen")
            time.sleep(0.05)
        self.versions["iperf3"] = run("iperf3", "--version").split()[1]

    def iperf3(self, *options):
        much = ("--bytes", "1M") if self.smoke else ("--time", "1")
        found = json.loads(run(*within(self.a, "iperf3", "--json", "--client", "10.23.0.2", *much, *options)))
        return found["end"]

    def tcp_stream(self):
        found = self.iperf3()
        return found["sum_received"]["bits_per_second"] / 8, found["sum_sent"]["retransmits"]

    def tcp_processor(self):
        return processor_time(lambda: self.iperf3()["sum_received"]["bytes"])

    def datagrams(self):
        """Bytes a second that arrive, of datagrams sent as fast as they can be."""
        found = self.iperf3("--udp", "--bitrate", "0", "--length", str(FRAME))["sum_received"]
        return found["bytes"] / found["seconds"]

    def tcp_pingpong(self, way):
        """Median of whole round trips, ns."""
        out = run(*within(self.a, PINGPONG, "connect", "10.23.0.2", PORTS[way], way, 8, self.ms))
        return int(out.split()[2])

    # RDS

    def rds_up(self):
        """Its sockets, by TCP; the kernel makes the connections, which are of each pair of addresses."""
        if subprocess.run(("modprobe", "rds_tcp"), capture_output=True).returncode:
            raise Absent("this kernel has no rds_tcp")
        if not self.serve(RDS, "serve", "10.23.0.2", RDS_PORT).readline():
            raise Absent("rds does not listen")

    def rds(self, *command):
        """What our program prints at the first node; it compares all bytes, at both ends."""
        kind, *options = command
        out = run("timeout", "60", *within(self.a, RDS, kind, "10.23.0.1", "10.23.0.2", RDS_PORT, *options, self.ms))
        return list(map(int, out.split()))

    def rds_stream(self, size):
        """Datagrams and bytes a second."""
        count, ns = self.rds("stream", size)
        return count / ns * 1e9, count * size / ns * 1e9

    def rds_pingpong(self, way):
        """Median of whole round trips, ns."""
        return self.rds("pingpong", way, 8)[2]

    # perftest, the same programs over SUPERp and over rxe

    def perftest_up(self):
        """Over SUPERp; of the connections to the peer the one with the least id is taken."""
        # Its status is 1.
        version = subprocess.run(("ib_write_bw", "--version"), capture_output=True, text=True).stdout
        self.versions["perftest"] = version.split()[-1]

    def rxe_up(self):
        if subprocess.run(("modprobe", "rdma_rxe"), capture_output=True).returncode:
            raise Absent("this kernel has no rdma_rxe")
        for node, namespace in (("a", self.a), ("b", self.b)):
            try:
                run(*within(namespace, "rdma", "link", "add", f"rxe{node}", "type", "rxe", "netdev", "eth0"))
            except AssertionError as error:
                raise Absent(str(error)) from None
        gids = pathlib.Path("/sys/class/infiniband/rxea/ports/1/gids").iterdir()
        self.gid = next(gid.name for gid in gids if gid.read_text().strip().endswith("ffff:0a17:0001"))

    def perftest_command(self, node, over, program, *options):
        namespace = {"a": self.a, "b": self.b}[node]
        if over == "rxe":
            return within(namespace, program, "-d", f"rxe{node}", "-x", self.gid, *options)
        script = f". {TOP}/selftests/lib/perftest.sh; run \"$@\""
        return within(namespace, "bash", "-c", script, "run", program, "-d", "superp", "-x", 0, *options)

    def perftest(self, result, over, program, size, iterations):
        """That result of those that perftest prints, of so many requests, over SUPERp or rxe."""
        iterations = 50 if self.smoke else iterations
        for _ in range(5):
            found = self.perftest_once(over, program, size, iterations)[result]
            if found:
                return found
        raise Absent(NO_REPORT)

    def perftest_once(self, over, program, size, iterations):
        with tempfile.NamedTemporaryFile() as file:
            options = ("-s", size, "-n", iterations, "-F")
            if program.endswith("bw"):
                options += ("--report_gbits",)
            server = subprocess.Popen(
                self.perftest_command("b", over, program, *options),
                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            )  # fmt: skip
            try:
                end = time.monotonic() + 20
                while ":18515" not in run(*within(self.b, "ss", "-Hltn")):
                    if server.poll() is not None or time.monotonic() > end:
                        raise Absent(f"{program} does not listen")
                    time.sleep(0.02)
                options += ("--out_json", f"--out_json_file={file.name}", "10.23.0.2")
                run("timeout", "60", *self.perftest_command("a", over, program, *options))
                server.wait(20)
            finally:
                server.kill()
                server.communicate()
            # It writes numbers that it has none for as C does.
            return json.loads(re.sub(r":\s*-?(nan|inf)\b", ": null", file.read().decode()))["results"]

    def perftest_bytes(self, over, operation, size):
        return self.perftest("BW_average", over, f"ib_{operation}_bw", size, 64 * MIB // size) * 1e9 / 8

    def perftest_rate(self, over):
        return self.perftest("MsgRate", over, "ib_write_bw", 64, 20000) * 1e6

    def perftest_latency(self, over):
        """perftest tells half of a round trip."""
        return self.perftest("t_typical", over, "ib_write_lat", 8, 1000) * 1e3


def processors_busy():
    """Seconds that all processors of this guest have worked since it started."""
    first = pathlib.Path("/proc/stat").read_text().split("\n", 1)[0].split()
    user, nice, system, _idle, _iowait, irq, softirq, steal = map(int, first[1:9])
    return (user + nice + system + irq + softirq + steal) / os.sysconf("SC_CLK_TCK")


def processor_time(move):
    """Seconds of processor time for each GiB, of what moves bytes and tells how many."""
    before = processors_busy()
    moved = move()
    # A tick is the least that can be seen.
    return max(processors_busy() - before, 1 / os.sysconf("SC_CLK_TCK")) / (moved / GIB)


def figures(bench):
    """Name, unit, system, and what measures it: gives a value, or that and the retransmissions."""
    yield "frames-rate", "op/s", "frames", lambda: bench.frames(64)[0]
    yield "frames-latency", "ns", "frames", bench.frames_latency
    for name, size in SIZES.items():
        yield f"frames-{name}", "B/s", "frames", lambda size=size: bench.frames(size)[1]
    for how, options in HOW.items():
        for way, cid in (("sunh", SUNH), ("udp", UDP)):
            one = functools.partial(bench.superp, cid, options=options)
            for operation in ("write", "read"):
                for name, size in SIZES.items():
                    yield f"{way}-{operation}-{name}{how}", "B/s", "superp", functools.partial(one, operation, "bw", size)
            yield f"{way}-write-latency{how}", "ns", "superp", functools.partial(one, "write", "lat", 8)
            yield f"{way}-write-rate{how}", "op/s", "superp", functools.partial(one, "write", "rate", 64)
        for packing, cid in (("unpacked", UNPACKED), ("packed", PACKED)):
            one = functools.partial(bench.superp, cid, "write", "rate", 64, options=(*DEEP, *options))
            yield f"sunh-write-rate-{packing}{how}", "op/s", "superp", one
    for name, size in SIZES.items():
        yield f"sunh-send-{name}", "B/s", "superp", lambda size=size: bench.superp(SUNH, "send", "bw", size)
    yield "sunh-send-rate", "op/s", "superp", lambda: bench.superp(SUNH, "send", "rate", 64)
    yield "sunh-send-latency", "ns", "superp", lambda: bench.superp(SUNH, "send", "lat", 8)
    for queue_pairs in QUEUE_PAIRS:
        yield (
            f"sunh-write-rate-{queue_pairs}qp", "op/s", "superp",
            lambda queue_pairs=queue_pairs: bench.superp(SUNH, "write", "rate", 64, queue_pairs),
        )  # fmt: skip
    for connections in CONNECTIONS:
        yield (
            f"sunh-write-rate-{connections}conn", "op/s", "superp",
            lambda count=connections: bench.superp_connections(count, bench.ms / 1000)["operations-per-second"],
        )  # fmt: skip
    for way, cid in (("sunh", SUNH), ("udp", UDP)):
        yield f"{way}-write-processor", "s/GiB", "superp", lambda cid=cid: bench.superp_processor(cid)
    yield "tcp-stream", "B/s", "tcp", bench.tcp_stream
    yield "tcp-processor", "s/GiB", "tcp", bench.tcp_processor
    yield "datagrams", "B/s", "tcp", bench.datagrams
    for way in PORTS:
        yield f"tcp-pingpong-{way}", "ns", "tcp", lambda way=way: bench.tcp_pingpong(way)
    yield "rds-rate", "op/s", "rds", lambda: bench.rds_stream(64)[0]
    for name, size in SIZES.items():
        yield f"rds-{name}", "B/s", "rds", lambda size=size: bench.rds_stream(size)[1]
    for way in PORTS:
        yield f"rds-pingpong-{way}", "ns", "rds", lambda way=way: bench.rds_pingpong(way)
    for system, over in PERFTEST.items():
        for operation in ("write", "read"):
            for name, size in SIZES.items():
                moved = functools.partial(bench.perftest_bytes, over, operation, size)
                yield f"{system}-{operation}-{name}", "B/s", system, moved
        yield f"{system}-write-latency", "ns", system, functools.partial(bench.perftest_latency, over)
        yield f"{system}-write-rate", "op/s", system, functools.partial(bench.perftest_rate, over)


def measured(unit, values, retransmits):
    figure = {
        "unit": unit, "values": values, "median": statistics.median(values),
        "min": min(values), "max": max(values),
    }  # fmt: skip
    return figure if retransmits is None else figure | {"retransmits": retransmits}


def measure(bench):
    """All figures, by name."""
    absent = {}
    for system in ("superp", "frames", "tcp", "rds", "perftest", "rxe"):
        try:
            getattr(bench, f"{system}_up")()
        except Absent as why:
            absent[system] = str(why)
    wanted = list(figures(bench))
    values = {name: [] for name, *_ in wanted}
    retransmits, failed = {}, {}
    for number in range(bench.rounds):
        print(f"round {number + 1} of {bench.rounds}", file=sys.stderr, flush=True)
        for name, _, system, take in wanted:
            if system in absent or name in failed:
                continue
            try:
                value = take()
            except (Absent, AssertionError) as error:
                # SUPERp, and the module that measures the limit, must work.
                if system in ("superp", "frames"):
                    raise
                failed[name] = str(error)
                continue
            if isinstance(value, tuple):
                value, count = value
                retransmits[name] = retransmits.get(name, 0) + count
            values[name].append(value)
    found = {}
    for name, unit, system, _ in wanted:
        why = absent.get(system) or failed.get(name)
        found[name] = {"absent": why} if why else measured(unit, values[name], retransmits.get(name))
    return found


def main():
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("file", type=pathlib.Path)
    options.add_argument("--smoke", action="store_true")
    options = options.parse_args()
    start = time.monotonic()
    bench = Bench(options.smoke)
    with contextlib.ExitStack() as stack:
        stack.callback(subprocess.run, ("rmmod", "frames"), capture_output=True)
        stack.callback(bench.down)
        found = measure(bench)
    home = {
        "home": os.environ["SUPERP_HOME"], "smoke": options.smoke,
        "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        "cpus": os.cpu_count(), "mtu": MTU, "rounds": bench.rounds, "milliseconds": bench.ms,
        "seconds": time.monotonic() - start, "versions": bench.versions, "figures": found,
    }  # fmt: skip
    options.file.write_text(json.dumps(home, indent=1) + "\n")


if __name__ == "__main__":
    main()
