#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""make bench works: everything is measured once, too shortly to say anything about speed, every figure is there
or absent with a reason, and the document is valid."""

import contextlib
import io
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import xml.etree.ElementTree

TOP = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(TOP / "selftests/robust"))

import bottleneck  # noqa: E402
import jsonschema  # noqa: E402
import measure  # noqa: E402
import report  # noqa: E402
from node import Results, run, same  # noqa: E402

results = Results()
folder = pathlib.Path(tempfile.mkdtemp())
MACHINE = {
    "cpu": "some", "cpus": 2, "kernel": "1", "source": "none", "load-before": [0, 0, 0], "load-after": [1.5, 0, 0],
}  # fmt: skip
# What must be here: all but RDS and rxe, which this home's kernel does not have.
BOTH_WAYS = (
    "sunh-write-64KiB", "sunh-write-1MiB", "sunh-read-64KiB", "sunh-read-1MiB", "sunh-write-latency", "sunh-write-rate",
    "udp-write-64KiB", "udp-write-1MiB", "udp-read-64KiB", "udp-read-1MiB", "udp-write-latency", "udp-write-rate",
    "sunh-write-rate-unpacked", "sunh-write-rate-packed",
)  # fmt: skip
PERFTEST = (
    "perftest-write-64KiB", "perftest-write-1MiB", "perftest-read-64KiB", "perftest-read-1MiB", "perftest-write-latency",
    "perftest-write-rate",
)  # fmt: skip
PRESENT = (
    "frames-rate", "frames-latency", "frames-64KiB", "frames-1MiB", "tcp-stream", "tcp-pingpong-sleep", "tcp-pingpong-spin",
    "sunh-send-64KiB", "sunh-send-1MiB", "sunh-send-rate", "sunh-send-latency",
    "sunh-write-rate-16qp", "sunh-write-rate-256qp",
    "sunh-write-rate-64conn", "sunh-write-rate-1024conn", "sunh-write-processor", "udp-write-processor", "tcp-processor",
    "datagrams", *PERFTEST, *BOTH_WAYS, *(f"{name}-poller" for name in BOTH_WAYS),
)  # fmt: skip
ABSENT = (
    "rds-rate", "rds-64KiB", "rds-1MiB", "rds-pingpong-sleep", "rds-pingpong-spin",
    "rxe-write-64KiB", "rxe-write-1MiB", "rxe-read-64KiB", "rxe-read-1MiB", "rxe-write-latency", "rxe-write-rate",
)  # fmt: skip


def home():
    return json.loads((folder / "home.json").read_text())


def measured():
    run(str(TOP / "selftests/bench/measure.py"), str(folder / "home.json"), "--smoke")
    found = home()["figures"]
    kept = [name for name in PERFTEST if found[name].get("absent") == measure.NO_REPORT]
    there = sorted(name for name in found if "median" in found[name])
    same(there, sorted(set(PRESENT) - set(kept)), "figures that are there")
    for name in ABSENT:
        module = "rds_tcp" if name.startswith("rds") else "rdma_rxe"
        same(found[name], {"absent": f"this kernel has no {module}"}, name)
    same(len(found), len(PRESENT) + len(ABSENT), "number of figures")


def reported():
    text = io.StringIO()
    with contextlib.redirect_stdout(text):
        document = report.report(folder, MACHINE, [home()])
    for name in PRESENT + ABSENT:
        same(text.getvalue().count(f"| {name} ") > 0, True, f"{name} is in the table")
    same(json.loads((folder / "bench.json").read_text()), document, "bench.json")
    for one in document["homes"][0]["ratios"]:
        gone = one["to"] in ABSENT or "median" not in document["homes"][0]["figures"][one["of"]]
        same("absent" in one, gone, f"{one['of']} to {one['to']} is absent")
    xml.etree.ElementTree.parse(folder / f"bench-{os.environ['SUPERP_HOME']}.svg")


def refused(change):
    """A document with that change is not valid."""
    document = json.loads((folder / "bench.json").read_text())
    change(document["homes"][0])
    schema = report.load(TOP / "Documentation/bench.schema.json")
    try:
        jsonschema.validate(document, schema)
    except jsonschema.ValidationError:
        return
    raise AssertionError("was not refused")


def many_senders():
    """A link that two send to: each system is measured."""
    run(str(TOP / "selftests/bench/bottleneck.py"), str(folder / "rows.json"), "--smoke")
    rows = json.loads((folder / "rows.json").read_text())
    systems = [*bottleneck.SUPERP, "reno", "cubic"]
    same([row["path"] for row in rows], [path for path in bottleneck.PATHS for _ in systems], "paths")
    same({row["system"] for row in rows}, set(systems), "systems")
    same([row["failed"] for row in rows if "failed" in row], [], "what failed")
    for row in rows:
        # Of each sender something has arrived. The run is too short for a part of the link.
        for measure in ("bw", "lat"):
            same(0 < row[measure]["fairness"] < 1.001, True, f"{row}: {measure}")
        same(row["lat"]["p99-us"] > 0, True, f"{row}: times")


def ratios():
    figures = {
        "fast": {"unit": "op/s", "median": 300}, "slow": {"unit": "op/s", "median": 100},
        "short": {"unit": "ns", "median": 10}, "long": {"unit": "ns", "median": 40}, "none": {"absent": "why"},
    }  # fmt: skip
    for arguments, wanted in (
        (("fast", ("slow",), ">= 3"), {"to": "slow", "ratio": 3, "bar": ">= 3", "met": True}),
        (("slow", ("fast", "none"), ">= 0.4"), {"to": "fast", "ratio": 1 / 3, "bar": ">= 0.4", "met": False}),
        (("short", ("long", "short"), "<= 0.2"), {"to": "short", "ratio": 1, "bar": "<= 0.2", "met": False}),
        (("short", ("long", "none"), "<= 0.25"), {"to": "long", "ratio": 0.25, "bar": "<= 0.25", "met": True}),
        (("fast", ("slow",), None), {"to": "slow", "ratio": 3}),
        (("fast", ("none",), ">= 1"), {"to": "none", "bar": ">= 1", "absent": "none: why"}),
        (("none", ("fast",), None), {"to": "fast", "absent": "none: why"}),
    ):
        same(report.ratio(figures, *arguments), {"of": arguments[0]} | wanted, f"ratio {arguments}")


def better():
    """A bar is met if one of the ways is enough, and once however many there are."""

    def one(of, to, ratio, met, bar=">= 0.8"):
        return {"of": of, "to": to, "ratio": ratio, "bar": bar, "met": met}

    worse, best = one("b", "frames", 0.5, False), one("b-poller", "frames", 0.7, False)
    found = report.judge(
        [
            one("a", "frames", 0.7, False), one("a-poller", "frames", 0.9, True), worse, best,
            one("udp-a", "a", 1, True), one("udp-a-poller", "a-poller", 0.1, False),
            one("sunh-lat", "tcp-pingpong-sleep", 3, False, "<= 1"), one("sunh-lat-poller", "tcp-pingpong-spin", 1, True, "<= 1"),
            one("perftest-lat", "rxe", 1, True, "<= 1"), one("sunh-lat-poller", "rxe", 2, False, "<= 1"),
            {"of": "c", "to": "none", "absent": "why", "bar": ">= 1"},
        ]
    )  # fmt: skip
    same(found, (4, 5, [best]), "bars met, bars, and those that are missed")


results.case("everything is measured, or absent with a reason", measured)
subprocess.run(("rmmod", "frames"), capture_output=True)
results.case("many senders at one link are measured", many_senders)
results.case("the report is one valid document, and a plot", reported)
results.case("a figure without a value is refused", refused, lambda home: home["figures"]["tcp-stream"].pop("median"))
results.case("absence without a reason is refused", refused, lambda home: home["figures"].update(none={"absent": ""}))
results.case("a bar without a verdict is refused", refused, lambda home: home["ratios"][0].pop("met"))
results.case("ratios and bars", ratios)
results.case("bars count by the better way", better)
results.end()
