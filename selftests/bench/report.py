#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""report.py FOLDER MACHINE HOME…: makes of what measure.py wrote in each home, and of a description of the
machine, FOLDER/bench.json, one document that Documentation/bench.schema.json describes; a plot for each home,
FOLDER/bench-HOME.svg; and prints the tables. MACHINE and HOME are JSON files."""

import json
import pathlib
import sys

import jsonschema
import pygal
from pygal.style import Style

TOP = pathlib.Path(__file__).resolve().parent.parent.parent
SIZES = ("64KiB", "1MiB")
OPERATIONS = ("write", "read")
# How requests get to the kernel: by doorbells, or taken in by a thread.
HOW = ("", "-poller")


def bars(home):
    """Of one figure to another, and what the ratio should be. Where there is more than one to compare with,
    the best of them counts."""
    for how in HOW:
        for operation in OPERATIONS:
            for size in SIZES:
                of = f"sunh-{operation}-{size}{how}"
                yield of, (f"frames-{size}",), ">= 0.8"
                yield of, ("tcp-stream",), ">= 4" if home == "qemu" else ">= 1.2"
                yield of, (f"rxe-{operation}-{size}",), ">= 10"
                yield f"udp-{operation}-{size}{how}", (of,), ">= 0.85"
        latency, rate, packed = f"sunh-write-latency{how}", f"sunh-write-rate{how}", f"sunh-write-rate-packed{how}"
        yield latency, ("tcp-pingpong-sleep", "tcp-pingpong-spin"), "<= 0.2"
        # By a poller there is no figure of the same program: a whole round trip, where rxe's is half of one.
        yield latency if how else "perftest-write-latency", ("rxe-write-latency",), "<= 0.35"
        yield packed, ("rxe-write-rate",), ">= 20"
        yield packed, (f"sunh-write-rate-unpacked{how}",), ">= 3"
        yield f"udp-write-latency{how}", (latency,), "<= 1.15"
        yield f"udp-write-rate{how}", (rate,), ">= 0.85"
    for what in (*(f"{operation}-{size}" for operation in OPERATIONS for size in SIZES), "write-rate"):
        yield f"perftest-{what}", (f"rxe-{what}",), None
        yield f"perftest-{what}", (f"sunh-{what}",), None
    yield "sunh-write-latency", ("rxe-write-latency",), None
    yield "sunh-write-rate", ("frames-rate",), None
    # What no protocol could do better, beside the bars for it.
    yield "frames-latency", ("tcp-pingpong-sleep", "tcp-pingpong-spin"), None
    yield "frames-latency", ("rxe-write-latency",), None
    for queue_pairs in (16, 256):
        yield f"sunh-write-rate-{queue_pairs}qp", ("sunh-write-rate",), ">= 0.83"
    for connections in (64, 1024):
        yield f"sunh-write-rate-{connections}conn", ("sunh-write-rate",), ">= 0.83"
    for way in ("sunh", "udp"):
        yield f"{way}-write-processor", ("tcp-processor",), None
    yield "udp-write-1MiB", ("datagrams",), None
    for size in SIZES:
        yield f"sunh-send-{size}", (f"sunh-write-{size}",), None
        yield f"sunh-send-{size}", (f"rds-{size}",), None
    yield "sunh-send-rate", ("rds-rate",), None
    yield "sunh-send-latency", ("sunh-write-latency",), None
    yield "sunh-send-latency", ("rds-pingpong-sleep", "rds-pingpong-spin"), None


def group(of):
    """What a figure is of, however requests get to the kernel, and whichever program asks."""
    return of.removesuffix("-poller").replace("perftest-", "sunh-")


def judge(ratios):
    """How many bars are met if what is better counts of what can be chosen, doorbells or a poller; how many there are;
    and those that are missed, the better ratio of each."""
    bars = {}
    for one in ratios:
        if "met" in one:
            to = one["to"].removesuffix("-poller").replace("-spin", "-sleep")
            bars.setdefault((group(one["of"]), to, one["bar"]), []).append(one)
    missed = [
        (max if key[2].startswith(">") else min)(ones, key=lambda one: one["ratio"])
        for key, ones in bars.items()
        if not any(one["met"] for one in ones)
    ]
    return len(bars) - len(missed), len(bars), missed


def met(ratio, bar):
    sign, value = bar.split()
    return ratio >= float(value) if sign == ">=" else ratio <= float(value)


def ratio(figures, of, others, bar):
    found = {"of": of, "to": others[0]} | ({"bar": bar} if bar else {})
    there = [name for name in others if "median" in figures[name]]
    if "absent" in figures[of]:
        return found | {"absent": f"{of}: {figures[of]['absent']}"}
    if not there:
        return found | {"absent": f"{others[0]}: {figures[others[0]]['absent']}"}
    best = min if figures[of]["unit"] in ("ns", "s/GiB") else max
    to = best(there, key=lambda name: figures[name]["median"])
    value = figures[of]["median"] / figures[to]["median"]
    return found | {"to": to, "ratio": value} | ({"met": met(value, bar)} if bar else {})


def spoken(value, unit):
    """A figure for people, to three digits."""
    if unit == "ns":
        return f"{value / 1e3:.3g} us"
    for factor, prefix in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= factor:
            return f"{value / factor:.3g} {prefix}{unit}"
    return f"{value:.3g} {unit}"


def table(rows, head):
    widths = [max(len(row[column]) for row in [head, *rows]) for column in range(len(head))]
    for row in [head, ["-" * width for width in widths], *rows]:
        print("| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths)) + " |")
    print()


def show(home):
    figures = home["figures"]
    versions = ", ".join(f"{name} {version}" for name, version in home["versions"].items())
    print(
        f"{home['home']}: {home['cpus']} CPUs, MTU {home['mtu']}, {home['rounds']} rounds of {home['milliseconds']} ms "
        f"each, {home['seconds']:.0f} s in all; {versions}"
    )
    if home["smoke"]:
        print("This run was too short to say anything about speed.")
    print()
    rows = []
    for name, figure in figures.items():
        if "absent" in figure:
            rows.append([name, "absent", figure["absent"].splitlines()[0][:60], ""])
        else:
            low, high = spoken(figure["min"], figure["unit"]), spoken(figure["max"], figure["unit"])
            again = str(figure.get("retransmits", ""))
            rows.append([name, spoken(figure["median"], figure["unit"]), f"{low} to {high}", again])
    table(rows, ["figure", "median", "least to most", "sent again"])
    rows = []
    for one in home["ratios"]:
        if "absent" in one:
            rows.append([one["of"], one["to"], "absent", one.get("bar", ""), ""])
        else:
            verdict = {True: "met", False: "missed", None: ""}[one.get("met")]
            rows.append([one["of"], one["to"], f"{one['ratio']:.3g}", one.get("bar", ""), verdict])
    table(rows, ["figure", "compared with", "ratio", "bar", ""])
    ok, bars, missed = judge(home["ratios"])
    each = [one["met"] for one in home["ratios"] if "met" in one]
    print(f"Bars met: {sum(each)} of {len(each)}; {ok} of {bars} by the better of doorbells and poller.")
    for one in missed:
        print(f"Missed: {one['of']} to {one['to']}, {one['ratio']:.3g}, bar {one['bar']}")
    print()
    again = sum(
        figure.get("retransmits", 0) for name, figure in figures.items() if name.startswith(("sunh", "udp"))
    )
    print(f"SUPERp packets sent again on a clean link: {again}; bar: 0, {'missed' if again else 'met'}\n")


def plot(home, file):
    """Bandwidth of all systems that were there."""
    chart = pygal.HorizontalBar(
        js=[], width=860, height=560, legend_at_bottom=True, print_values=True, show_legend=True,
        style=Style(background="white", plot_background="white", font_family="sans-serif"),
        title=f"{home['home']}: GB/s on one veth pair, MTU {home['mtu']}, median of {home['rounds']} rounds",
        value_formatter=lambda value: f"{value:.2f}",
    )  # fmt: skip
    figures = home["figures"]
    kinds = [(operation, size) for operation in OPERATIONS for size in SIZES]
    chart.x_labels = [f"{operation} {size}" for operation, size in kinds]
    names = {
        "bare frames": "frames-{size}", "SUPERp, SUNH": "sunh-{operation}-{size}", "SUPERp, UDP": "udp-{operation}-{size}",
        "SUPERp, SUNH, poller": "sunh-{operation}-{size}-poller", "SUPERp, UDP, poller": "udp-{operation}-{size}-poller",
        "perftest, SUPERp": "perftest-{operation}-{size}", "TCP": "tcp-stream", "RDS": "rds-{size}", "rxe": "rxe-{operation}-{size}",
    }  # fmt: skip
    for system, pattern in names.items():
        found = [figures[pattern.format(operation=operation, size=size)] for operation, size in kinds]
        if all("median" in figure for figure in found):
            chart.add(system, [figure["median"] / 1e9 for figure in found])
    file.write_bytes(chart.render())


def load(file):
    return json.loads(pathlib.Path(file).read_text())


def report(folder, machine, homes):
    """The document, when it is valid and written."""
    for home in homes:
        home["ratios"] = [ratio(home["figures"], *bar) for bar in bars(home["home"])]
    document = {"version": 1, "machine": machine, "homes": homes}
    jsonschema.validate(document, load(TOP / "Documentation/bench.schema.json"))
    (folder / "bench.json").write_text(json.dumps(document, indent=1) + "\n")
    print(
        f"{machine['cpu']}, {machine['cpus']} CPUs, Linux {machine['kernel']}, source {machine['source']}; load average "
        f"{machine['load-before'][0]:.2f} before, {machine['load-after'][0]:.2f} after\n"
    )
    for home in homes:
        show(home)
        plot(home, folder / f"bench-{home['home']}.svg")
    return document


if __name__ == "__main__":
    folder, machine, *homes = sys.argv[1:]
    report(pathlib.Path(folder), load(machine), list(map(load, homes)))
