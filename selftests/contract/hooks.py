# SPDX-License-Identifier: GPL-2.0
"""What schemathesis cannot know: fabric files, the fabric that requests find, and how refusals look."""

import json
import os
import pathlib
import sys

import schemathesis

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
LISTS = {"node": ("/v1/nodes", "name"), "connection": ("/v1/connections", "connection")}

# The operation that was asked last, at first one that changes something.
last = "POST"


@schemathesis.hook
def before_call(context, case, kwargs):
    """Every operation finds the fabric running, as it was before the one before it. Waits are short."""
    global last
    if case.operation.label != last:
        if last.startswith("POST") and os.environ["CONTRACT_STATE"] == "running":
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
    wait = (case.query or {}).get("wait")
    if isinstance(wait, int) and wait > 0:
        case.query["wait"] = 1


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
