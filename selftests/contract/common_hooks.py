# SPDX-License-Identifier: GPL-2.0
"""What schemathesis is told of the manager and of agents alike: how refusals look, how long requests wait."""

import json
import os

import schemathesis


def wait_at_most(case, seconds):
    """Waits are short, but for one that is too long to be taken: it is refused."""
    wait = str((case.query or {}).get("wait"))
    if wait.isdecimal() and 0 < int(wait) < 2**63:
        case.query["wait"] = seconds


@schemathesis.hook
def after_call(context, case, response):
    """What was answered, for asking.py: a test whose requests are all refused is none."""
    with open(os.environ["CONTRACT_ANSWERS"], "a") as answers:
        print(response.status_code, case.method, case.operation.label, file=answers)


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
