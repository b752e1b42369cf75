# SPDX-License-Identifier: GPL-2.0
"""What schemathesis cannot know of an agent: the term and generation in force, and what a node can be configured to."""

import json
import os
import pathlib
import sys
import urllib.request

import schemathesis
from schemathesis.generation import GenerationMode

sys.path.insert(0, str(pathlib.Path(__file__).parent))

from common_hooks import wait_at_most  # noqa: E402

URL, STATE = os.environ["CONTRACT_URL"], os.environ["CONTRACT_STATE"]
BASE = json.loads(os.environ["CONTRACT_CONFIGURATION"])
# What a connection has that goes with anything.
FREE = ("ordered_tx", "ordered_rx", "tclass", "start_psn", "start_xid")

# How far from the term and the generation in force the first requests are that are right but for that.
BESIDE = ((0, 0), (1, 0), (-1, 0), (0, -1), (0, 1))

# The operation that was asked last, at first one that changes something; what is left of BESIDE for it.
last, beside = "POST", iter(())
# What was configured before the request; what it has changed though it was refused.
before = changed = None


def ask(method, path, body=None):
    headers = {} if body is None else {"Content-Type": "application/json"}
    data = None if body is None else json.dumps(body).encode()
    with urllib.request.urlopen(urllib.request.Request(URL + path, data, headers, method=method), timeout=30) as answer:
        return json.load(answer)


def status():
    return ask("GET", "/v1/status?counters=false")


def configured(now):
    """All that a request can change, without what changes by itself: a connection that was stopped ends some time."""
    conns = now["connections"]
    for conn in conns:
        del conn["paths"]
        if conn["state"] not in ("created", "established"):
            conn["state"] = "ended"
            conn.pop("cause", None)
    return {name: now.get(name) for name in ("state", "fabric", "generation", "differences", "devices")} | {"connections": conns}


def restore():
    now = status()
    generation = now.get("generation", 9) + 1
    body = BASE | {"term": now["term"], "configuration": BASE["configuration"] | {"generation": generation}}
    ask("PUT", "/v1/configuration", body)
    ask("POST", "/v1/start", {"term": now["term"], "generation": generation})


@schemathesis.hook
def before_call(context, case, kwargs):
    """Every operation finds the node started, as it was before the one before it."""
    global last, beside, before
    label = case.operation.label
    if label != last:
        if last.startswith(("POST", "PUT")) and STATE == "started":
            restore()
        last, beside = label, iter(BESIDE)
    wait_at_most(case, 1)
    before = None
    if not label.startswith("GET"):
        now = status()
        before = configured(now)
        case.body = whole(case.body)
        if isinstance(case.body, dict):
            in_force(case, now)


def whole(value):
    """With 5 for 5.0, which JSON Schema has among the integers. The agent has not, and no program writes them so."""
    match value:
        case dict():
            return {name: whole(inner) for name, inner in value.items()}
        case list():
            return [whole(inner) for inner in value]
        case float() if value.is_integer():
            return int(value)
    return value


def in_force(case, now):
    """Puts in the term in force, or another manager would be the newest for ever, and the generation."""
    body, generation = case.body, now.get("generation", 9)
    positive = case.meta.generation.mode == GenerationMode.POSITIVE
    later, newer = next(beside, (0, 0)) if positive else (0, 0)
    # A mistake in it is left there.
    if type(body.get("term")) is int and 0 <= body["term"] < 2**63:
        body["term"] = now["term"] + later
    if positive and "generation" in body:
        body["generation"] = generation + newer
    if positive and "configuration" in body:
        possible(body["configuration"])
        body["configuration"]["generation"] = generation + 1 + newer


def possible(config):
    """Makes what the schema allows a configuration that this node can have."""
    base = BASE["configuration"]
    config |= {name: base[name] for name in ("fabric", "node", "ports")}
    conns = config.get("connections", [])[: len(base["connections"])]
    config["connections"] = [
        pattern | {name: conn[name] for name in FREE if name in conn} for pattern, conn in zip(base["connections"], conns)
    ]


@schemathesis.hook
def after_call(context, case, response):
    """For the check below; another check may ask for something else before it."""
    global changed
    changed = None
    if before is not None and response.status_code >= 400:
        now = configured(status())
        changed = [(name, before[name], now[name]) for name in now if before[name] != now[name]]


@schemathesis.check
def refused_changes_nothing(context, response, case):
    """What is refused leaves the node as it was."""
    assert not changed, f"the request was refused with {response.status_code}, and has changed {changed}"
