# SPDX-License-Identifier: GPL-2.0
"""What schemathesis cannot know of the manager: fabric files, and the fabric that requests find."""

import json
import os
import pathlib
import sys

import schemathesis
from schemathesis.generation import GenerationMode

sys.path[:0] = [str(pathlib.Path(__file__).parent), str(pathlib.Path(__file__).parents[1] / "web")]

import files  # noqa: E402
from agents import fabric  # noqa: E402
from common_hooks import wait_at_most  # noqa: E402
from manager import Manager, until  # noqa: E402

manager = Manager.at(os.environ["CONTRACT_URL"])
schemathesis.openapi.media_type("application/toml", files.valid())


@schemathesis.serializer("application/toml")
def toml(context, value):
    return value if isinstance(value, (bytes, str)) else json.dumps(value)


# What the words in the dictionaries of schemathesis.toml stand for: a place in a list of the manager.
PLACES = {"first": 0, "last": -1}
LISTS = {"node": ("/v1/nodes", "name"), "connection": ("/v1/connections", "connection"), "job": ("/v1/jobs", "name")}
# What settings of a job have to go with, no schema says.
TOGETHER = ("hop_limit", "spray", "mtu", "window", "parameters")

# The operation that was asked last, at first one that changes something.
last = "POST"


@schemathesis.hook
def before_call(context, case, kwargs):
    """Every operation finds the fabric running, as it was before the one before it. Waits are short."""
    global last
    if case.operation.label != last:
        if last.startswith(("POST", "DELETE")) and os.environ["CONTRACT_STATE"] == "running":
            restore()
        last = case.operation.label
    names = case.path_parameters
    if isinstance(names, dict):
        for parameter, value in names.items():
            which, _, what = str(value).partition("-")
            if which in PLACES and what in LISTS:
                path, name = LISTS[what]
                found = manager.get(path)
                names[parameter] = found[PLACES[which]][name] if found else value
    if case.operation.label == "POST /v1/jobs" and case.meta.generation.mode == GenerationMode.POSITIVE:
        possible(case.body)
    wait_at_most(case, 30 if case.operation.label == "POST /v1/jobs" else 1)


def possible(job):
    """Makes what the schema allows a job that can be: its hosts are there, and it is the only one. It is waited for."""
    for other in manager.get("/v1/jobs"):
        manager.delete(f"/v1/jobs/{other['name']}")
    job["hosts"] = "xpu[01-02]"
    job["settings"] = {name: value for name, value in job.get("settings", {}).items() if name not in TOGETHER}


def restore():
    settled = ("empty", "down", "running")
    until("the fabric is down, or runs", lambda: manager.get("/v1/fabric")["phase"] in settled)
    manager.apply(fabric(files.AGENTS, files.FEWEST))
    manager.post("/v1/fabric/restart")
    until("the fabric runs", manager.running)
    manager.make_job("contract", "xpu[01-03]")
