#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""document.py BENCH.JSON PAGE: puts the figures and ratios of a run in both homes (make bench) into the two tables of
Documentation/performance.md. What the page says about them is for people to write."""

import json
import pathlib
import re
import sys

HOMES = ("uml", "qemu")
BOTH_SIZES = ("64KiB", "1MiB")
TEXT = {"64KiB": "64 KiB", "1MiB": "1 MiB"}
POLLER = "the same, poller"


def superp_rows():
    """Label and figure of what is measured by doorbells and by a poller."""
    for way, name in (("sunh", "SUNH"), ("udp", "UDP")):
        for operation in ("write", "read"):
            for size in BOTH_SIZES:
                yield f"{operation} over {name}, {TEXT[size]}", f"{way}-{operation}-{size}"
        yield f"write of 8 bytes over {name}", f"{way}-write-latency"
        yield f"writes of 64 bytes over {name}", f"{way}-write-rate"
    yield "writes of 64 bytes over SUNH, depth 480, not packed", "sunh-write-rate-unpacked"
    yield "writes of 64 bytes over SUNH, depth 480, 15 in a packet", "sunh-write-rate-packed"


def figure_rows():
    """Label and figures, of which the best counts."""
    yield "frames, 64 KiB", ["frames-64KiB"]
    yield "frames, 1 MiB", ["frames-1MiB"]
    yield "frames of 64 bytes", ["frames-rate"]
    yield "frames of 8 bytes, there and back", ["frames-latency"]
    yield "TCP, one stream", ["tcp-stream"]
    yield "TCP ping-pong, sleeping", ["tcp-pingpong-sleep"]
    yield "TCP ping-pong, spinning", ["tcp-pingpong-spin"]
    yield "RDS, 64 KiB", ["rds-64KiB"]
    yield "RDS, 1 MiB", ["rds-1MiB"]
    yield "RDS, 64 bytes", ["rds-rate"]
    yield "RDS ping-pong, the better one", ["rds-pingpong-sleep", "rds-pingpong-spin"]
    for over, name in (("rxe", "rxe"), ("perftest", "SUPERp")):
        for operation in ("write", "read"):
            for size, text in TEXT.items():
                yield f"perftest over {name}, {operation}, {text}", [f"{over}-{operation}-{size}"]
        yield f"perftest over {name}, write of 8 bytes, there", [f"{over}-write-latency"]
        yield f"perftest over {name}, writes of 64 bytes", [f"{over}-write-rate"]
    for label, name in superp_rows():
        yield label, [name]
        yield POLLER, [f"{name}-poller"]
    yield "writes of 64 bytes, 16 queue pairs", ["sunh-write-rate-16qp"]
    yield "the same, 256 queue pairs", ["sunh-write-rate-256qp"]
    yield "the same, 64 connections", ["sunh-write-rate-64conn"]
    yield "the same, 1024 connections", ["sunh-write-rate-1024conn"]
    yield "message over SUNH, 64 KiB", ["sunh-send-64KiB"]
    yield "message over SUNH, 1 MiB", ["sunh-send-1MiB"]
    yield "messages of 64 bytes", ["sunh-send-rate"]
    yield "message of 8 bytes", ["sunh-send-latency"]
    yield "processor time for a GiB, writes over SUNH", ["sunh-write-processor"]
    yield "the same over UDP", ["udp-write-processor"]
    yield "the same, TCP", ["tcp-processor"]
    yield "datagrams of iperf3", ["datagrams"]


def ratio_rows():
    """Label, the ratios of one cell, whether a poller has them too, and the bar. A ratio is a figure and what it is
    compared with, by its beginning."""
    for operation in ("write", "read"):
        of = [f"sunh-{operation}-{size}" for size in BOTH_SIZES]
        sizes = "64 KiB, 1 MiB"
        yield f"SUNH {operation} to bare frames, {sizes}", [(name, "frames") for name in of], True, "0.8"
        yield f"SUNH {operation} to TCP, {sizes}", [(name, "tcp") for name in of], True, "1.2 in UML, 4 in QEMU"
        yield f"SUNH {operation} to rxe, {sizes}", [(name, "rxe") for name in of], True, "10"
        udp = [(f"udp-{operation}-{size}", "sunh") for size in BOTH_SIZES]
        yield f"UDP to SUNH, {operation}s of 64 KiB, 1 MiB", udp, True, "0.85"
    yield "latency of a write to TCP's", [("sunh-write-latency", "tcp")], True, "0.2"
    yield "latency by perftest to rxe's", [("perftest-write-latency", "rxe")], False, "0.35"
    yield "latency, there and back, to half of that of rxe", [("sunh-write-latency", "rxe")], True, "0.35, poller"
    yield "bare frames there and back, to latency of TCP", [("frames-latency", "tcp")], False, ""
    yield "the same, to half of that of rxe", [("frames-latency", "rxe")], False, ""
    yield "rate of small writes, 15 in a packet, to rxe's", [("sunh-write-rate-packed", "rxe")], True, "20"
    for operation in ("write", "read"):
        of = [(f"perftest-{operation}-{size}", "rxe") for size in BOTH_SIZES]
        yield f"{operation} by perftest to rxe's, 64 KiB, 1 MiB", of, False, ""
    yield "rate of small writes by perftest to rxe's", [("perftest-write-rate", "rxe")], False, ""
    yield "15 in a packet to unpacked rate", [("sunh-write-rate-packed", "sunh")], True, "3"
    yield "UDP's latency to SUNH's", [("udp-write-latency", "sunh")], True, "1.15"
    yield "UDP's rate to SUNH's", [("udp-write-rate", "sunh")], True, "0.85"
    of = [(f"sunh-write-rate-{count}qp", "sunh") for count in (16, 256)]
    yield "16 and 256 queue pairs to one, rate", of, False, "0.83"
    of = [(f"sunh-write-rate-{count}conn", "sunh") for count in (64, 1024)]
    yield "64 and 1024 connections to one, rate", of, False, "0.83"
    of = [(f"sunh-send-{what}", "rds") for what in (*BOTH_SIZES, "rate")]
    yield "messages to RDS, 64 KiB, 1 MiB, rate", of, False, ""
    yield "latency of a message to RDS's", [("sunh-send-latency", "rds")], False, ""


def spoken(value, unit):
    """To three digits."""
    if unit == "ns":
        return f"{value / 1e3:.3g} us"
    if unit == "s/GiB":
        return f"{value:.2f} s"
    if unit == "op/s":
        return f"{value:,.0f}/s" if value < 1000 else f"{int(float(f'{value:.{4 if value >= 1e6 else 3}g}')):,}/s"
    return f"{value / 1e9:.2f} GB/s" if value >= 1e9 else f"{value / 1e6:.0f} MB/s"


def figure_cells(home, names):
    there = [home["figures"][name] for name in names if "median" in home["figures"][name]]
    if not there:
        return ["absent", ""]
    best = min(there, key=lambda figure: figure["median"])
    value, low, high = (spoken(best[which], best["unit"]) for which in ("median", "min", "max"))
    return [value, f"{low} to {high}"]


def ratio_cell(home, wanted, how):
    said = []
    for of, to in wanted:
        one = next(one for one in home["ratios"] if one["of"] == of + how and one["to"].startswith(to))
        if "ratio" in one:
            said.append(f"{one['ratio']:.2f}" + (" (met)" if one.get("met") else ""))
    return ", ".join(said)


def replaced(page, head, rows):
    """The page with the table that begins so."""
    lines = ["| " + " | ".join(cells) + " |" for cells in rows]
    table = re.compile(rf"(^\| {re.escape(head)} \|.*\n\|[-|]+\n)(?:\|.*\n)+", re.MULTILINE)
    page, count = table.subn(lambda found: found.group(1) + "\n".join(lines) + "\n", page)
    assert count == 1, f"there are {count} tables that begin with “{head}”, not one"
    return page


def main(bench, page):
    homes = {home["home"]: home for home in json.loads(bench.read_text())["homes"]}
    homes = [homes[name] for name in HOMES]
    figures = [
        [label, *figure_cells(homes[0], names), *figure_cells(homes[1], names)] for label, names in figure_rows()
    ]
    ratios = [
        [
            label,
            *(ratio_cell(home, of, how) if how == "" or poller else "" for home in homes for how in ("", "-poller")),
            bar,
        ]
        for label, of, poller, bar in ratio_rows()
    ]
    text = replaced(page.read_text(), "figure | User Mode Linux: median", figures)
    page.write_text(replaced(text, "ratio", ratios))


if __name__ == "__main__":
    main(*map(pathlib.Path, sys.argv[1:]))
