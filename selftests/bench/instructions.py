#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""How many instructions an operation takes, told by the plugin of QEMU (count.c); called by selftests/bench/instructions."""

import argparse
import bisect
import collections
import contextlib
import json
import pathlib
import re
import subprocess
import sys
import time

import measure

SHARED = pathlib.Path("/results")


def perf(cid, operation, kind, size, options=()):
    """By superp perf: how many in so many seconds, and packets that were sent again."""

    def measured(bench, seconds):
        found = json.loads(
            bench.nodes.superp(
                1, "-j", "perf", operation, kind, "10.23.0.2", "--cid", str(cid), "--size", str(size),
                "--duration", str(seconds), *options,
            )  # fmt: skip
        )
        return found["operations"], bench.retransmits(cid)

    return measured


def frames(size, answered=""):
    """The limit: nobody asks for them again."""
    return lambda bench, seconds: (next(bench.frames_moved(size, seconds * 1000, answered)), 0)


def connections(count):
    """Small writes, of so many connections; what is sent again is not looked for."""
    return lambda bench, seconds: (bench.superp_connections(count, seconds)["operations"], 0)


OPERATIONS = {
    "frames, 64 KiB": frames(65536),
    "frames of 64 bytes": frames(64),
    "frames of 8 bytes, there and back": frames(8, "answered"),
    "write of 64 KiB, SUNH": perf(measure.SUNH, "write", "bw", 65536),
    "write of 1 MiB, SUNH": perf(measure.SUNH, "write", "bw", 1 << 20),
    "read of 64 KiB, SUNH": perf(measure.SUNH, "read", "bw", 65536),
    "read of 1 MiB, SUNH": perf(measure.SUNH, "read", "bw", 1 << 20),
    "message of 64 KiB, SUNH": perf(measure.SUNH, "send", "bw", 65536),
    "write of 64 KiB, UDP": perf(measure.UDP, "write", "bw", 65536),
    "read of 64 KiB, UDP": perf(measure.UDP, "read", "bw", 65536),
    "write of 64 bytes, packed": perf(measure.SUNH, "write", "rate", 64),
    "write of 64 bytes, not packed": perf(measure.UNPACKED, "write", "rate", 64),
    "write of 64 bytes, 15 in a packet": perf(measure.PACKED, "write", "rate", 64, measure.DEEP),
    "write of 64 bytes, 1024 connections": connections(1024),
    "message of 64 bytes, SUNH": perf(measure.SUNH, "send", "rate", 64),
    "write of 8 bytes, alone, SUNH": perf(measure.SUNH, "write", "lat", 8),
    "write of 8 bytes, alone, UDP": perf(measure.UDP, "write", "lat", 8),
}
# Of a short run and a long one: the difference has nothing of what begins and ends them.
SECONDS = (1, 4)


def counted(places):
    """Instructions of the kernel and of programs until now; where in the kernel goes into a file."""
    # Renamed, because it is gone as soon as it is there.
    (SHARED / "asking").touch()
    (SHARED / "asking").rename(SHARED / "ask")
    told = SHARED / "told"
    end = time.monotonic() + 30
    while not told.exists():
        assert time.monotonic() < end, "QEMU's plugin does not answer: is this guest run by selftests/bench/instructions?"
        time.sleep(0.02)
    kernel, programs = map(int, told.read_text().split())
    told.unlink()
    (SHARED / "places").rename(SHARED / places)
    return kernel, programs


def readable(symbol):
    """The names in a mangled one of Rust (v0), without the crates and what disambiguates."""
    if not symbol.startswith("_R"):
        return symbol
    names, rest = [], re.sub(r"Cs[0-9A-Za-z]+_", "", symbol)
    while found := re.search(r"(?<!\d)(\d+)_?", rest):
        start = found.end()
        end = start + int(found[1])
        name = rest[start:end]
        if len(name) == int(found[1]) and re.fullmatch(r"[A-Za-z_]\w+", name):
            names.append(name)
            rest = rest[end:]
        else:
            rest = rest[found.start(1) + len(found[1]) :]
    return "::".join(name for name in names if name != "superp")


class Functions:
    """Those of the kernel and its modules, by their addresses."""

    def __init__(self):
        with open("/proc/kallsyms") as lines:
            symbols = [line.split()[:3] for line in lines]
        found = {int(address, 16): name for address, kind, name in symbols if kind in "tTwW"}
        self.addresses = sorted(found)
        self.names = [readable(found[address]) for address in self.addresses]

    def spent(self, seconds):
        """Instructions of each in the run of so many seconds."""
        sums = collections.Counter()
        for sign, part in ((-1, "before"), (1, "after")):
            with open(SHARED / f"{part}-{seconds}") as lines:
                for address, count in map(str.split, lines):
                    place = bisect.bisect(self.addresses, int(address, 16)) - 1
                    sums[self.names[place]] += sign * int(count)
        return sums

    def table(self, operations, most):
        """The functions that an operation spends most in; of the difference of both runs."""
        short, long = map(self.spent, SECONDS)
        long.subtract(short)
        for name, count in long.most_common(most):
            print(f"    {count / operations:12,.0f}  {name}", flush=True)


def run(bench, seconds, measured):
    """Instructions, those of programs, operations, and packets that were sent again."""
    before = counted(f"before-{seconds}")
    operations, again = measured(bench, seconds)
    kernel, programs = (after - first for first, after in zip(before, counted(f"after-{seconds}")))
    return kernel, programs, operations, again


def main():
    parser = argparse.ArgumentParser(prog="instructions")
    parser.add_argument("--functions", type=int, default=0, metavar="N", help="the N functions of the kernel that take most, too")
    parser.add_argument("pattern", nargs="?", default="", help="a regular expression in the names of what is to be counted")
    args = parser.parse_args()
    bench = measure.Bench(False)
    with contextlib.ExitStack() as stack:
        stack.callback(bench.down)
        bench.superp_up()
        bench.frames_up()
        functions = Functions()
        print(f"{'':32} {'kernel':>12} {'programs':>12} {'sent again':>12}", flush=True)
        for name, measured in OPERATIONS.items():
            if not re.search(args.pattern, name):
                continue
            short, long = (run(bench, seconds, measured) for seconds in SECONDS)
            kernel, programs, operations, _ = (after - first for first, after in zip(short, long))
            again = short[3] + long[3]
            print(f"{name:32} {kernel / operations:12,.0f} {programs / operations:12,.0f} {again:12}", flush=True)
            functions.table(operations, args.functions)


if __name__ == "__main__":
    try:
        main()
    except (AssertionError, subprocess.CalledProcessError) as error:
        sys.exit(f"error: {error}")
