#!/superp/build/selftests/venv/bin/python
# SPDX-License-Identifier: GPL-2.0
"""superp-agent and the document it serves, over the real module: every operation is asked in many ways, and answers as
the document says. What schemathesis said is left in the results of the run, in contract."""

import collections
import json
import os
import pathlib
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "robust"), str(HERE.parent / "control"), str(HERE)]
sys.dont_write_bytecode = True

import asking  # noqa: E402
import configurations  # noqa: E402
import mistakes  # noqa: E402
from hypothesis import strategies as st  # noqa: E402
from node import Nodes, Results, same  # noqa: E402
from real import TERM, Agent, configuration  # noqa: E402

LEFT = pathlib.Path("/results/contract")
URL = "http://127.0.0.1:7779"
# This agent asks nobody for a certificate; those that do: userspace/agent/src/api/roles.rs.
REVOKE = "PUT /v1/revocations"
scratch = pathlib.Path(tempfile.mkdtemp())
os.chdir(scratch)
nodes = Nodes()
agent = Agent(1, nodes.name[1], scratch)
base = configuration(agent, 1, (1, 2))


def ask(state, *options):
    os.environ["CONTRACT_CONFIGURATION"] = json.dumps(base)
    within = ("ip", "netns", "exec", agent.namespace)
    return asking.ask(URL, "agent_hooks.py", LEFT, state, *options, within=within)


def unconfigured():
    """Commands are refused, as the document says."""
    found = ask("unconfigured", "--phases", "coverage", "--include-method", "POST", "--exclude-path", "/v1/shutdown")
    asking.none_failed(found)
    for operation, (_, statuses) in found.items():
        same((200 in statuses, 409 in statuses), (False, True), f"whether {operation} is done, and refused with 409")
    agent.refused("not-found", 404, "GET", "/v1/configuration")
    same(agent.status()["state"], "unconfigured", "state")


def answered(found, operation, document):
    if operation == REVOKE:
        asking.none_failed({operation: found[operation]})
        statuses = found[operation][1]
        same((200 in statuses, 409 in statuses), (False, True), f"whether it is done, and refused with 409, in {dict(statuses)}")
        return
    asking.answered(found, operation, document)
    if not operation.startswith("GET"):
        same(409 in found[operation][1], True, "whether a request of a term before is refused with 409")


class Configured:
    """Sends configurations in the term in force, each as the next generation."""

    def __init__(self):
        self.kernel = agent.kernel()
        self.kinds = collections.Counter()

    def ask(self, data):
        now = agent.status()
        if now.get("generation", 0) > 2**62:
            agent.good("POST", "/v1/shutdown", {"term": now["term"]})
            self.kernel, now["generation"] = agent.kernel(), 0
        for word, number in ((configurations.TERM, now["term"]), (configurations.GENERATION, now.get("generation", 0) + 1)):
            data = data.replace(word.encode(), str(number).encode())
        answer, text = agent.request("PUT", "/v1/configuration", raw=data)
        kernel = agent.kernel()
        if answer.status == 200:
            self.kernel = kernel
        else:
            problem = json.loads(text)
            self.kinds[problem["type"].rpartition(":")[2]] += 1
            same(kernel, self.kernel, f"what the kernel has after {problem} for {data!r}")
        return answer.status, answer.getheader("Content-Type"), text


def valid_are_taken():
    statuses = mistakes.answered(configurations.valid(base), 15, Configured().ask)
    same(set(statuses), {200}, "statuses")


def wrong_are_refused():
    sender = Configured()
    wrong = st.integers(0, 3).flatmap(
        lambda which: configurations.misplaced(base) if which else mistakes.mutated(configurations.valid(base))
    )
    statuses = mistakes.answered(wrong, 120, sender.ask)
    print(f"# {dict(sender.kinds)}")
    same({200, 400, 422} <= set(statuses), True, f"whether some are taken and some are refused of {dict(statuses)}")


def main():
    LEFT.mkdir(parents=True, exist_ok=True)
    results = Results()
    try:
        agent.up()
        document = agent.good("GET", "/openapi.json")
        results.case("the document is valid OpenAPI 3.1", asking.valid_document, document)
        results.case("an agent without a configuration", unconfigured)
        base["configuration"]["generation"] = 10
        agent.good("PUT", "/v1/configuration", base)
        agent.good("POST", "/v1/start", {"term": TERM, "generation": 10})
        found = ask("started")
        for operation in asking.operations(document):
            results.case(operation, answered, found, operation, document)
        results.case("nothing else was asked for", same, set(found) - set(asking.operations(document)), set(), "operations")
        results.case("valid configurations are taken", valid_are_taken)
        results.case("mutated configurations are taken or refused, and what is refused changes nothing", wrong_are_refused)
        results.case("the agent did not panic", asking.no_panic, agent.log, agent.process)
    finally:
        agent.down()
        (LEFT / "agent.log").write_text(agent.log.read_text())
        nodes.down()
    results.end()


main()
