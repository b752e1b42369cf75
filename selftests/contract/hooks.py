# SPDX-License-Identifier: GPL-2.0
"""What schemathesis cannot know: fabric files, the fabric that requests find, and how refusals look."""

import json
import os
import pathlib
import sys

import schemathesis
from schemathesis.generation import GenerationMode

sys.path[:0] = [str(pathlib.Path(__file__).parent), str(pathlib.Path(__file__).parents[1] / "web")]

import files  # noqa: E402
from agents import fabric  # noqa: E402
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
    wait = str((case.query or {}).get("wait"))
    # A larger one is refused.
    if wait.isdecimal() and 0 < int(wait) < 2**63:
        case.query["wait"] = 30 if case.operation.label == "POST /v1/jobs" else 1


def possible(job):
    """Makes what the schema allows a job that can be: its hosts are there, and it is the only one. It is waited for."""
    for other in manager.get("/v1/jobs"):
        manager.delete(f"/v1/jobs/{other['name']}")
    job["hosts"] = "xpu[01-02]"
    job["settings"] = {name: value for name, value in job.get("settings", {}).items() if name not in TOGETHER}


@schemathesis.hook
def after_call(context, case, response):
    """What was answered, for contract.py: a test whose requests are all refused is none."""
    with open(os.environ["CONTRACT_ANSWERS"], "a") as answers:
        print(response.status_code, case.method, case.operation.label, file=answers)


def restore():
    settled = ("empty", "down", "running")
    until("the fabric is down, or runs", lambda: manager.get("/v1/fabric")["phase"] in settled)
    manager.apply(fabric(files.AGENTS, files.FEWEST))
    manager.post("/v1/fabric/restart")
    until("the fabric runs", manager.running)
    manager.make_job("contract", "xpu[01-03]")


@schemathesis.check
def problem_details(context, response, case):
    """Every refusal, also of what is not in the document, is a problem (RFC 9457) that says what is wrong."""
    if response.status_code < 400:
        return
    kind = response.headers.get("content-type", ["nothing"])[0]
    assert kind == "application/problem+json", f"a refusal is application/problem+json, this is {kind}"
    problem = json.loads(response.content)
    assert problem["status"] == response.status_code, f"status in the problem: {problem['status']}"
    assert problem["title"] and problem["detail"], "a problem has a title and a detail"
