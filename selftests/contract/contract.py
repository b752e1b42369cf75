# SPDX-License-Identifier: GPL-2.0
"""superp-cm and the document it serves: every operation is asked in many ways, and answers as the document says.
Started by selftests/contract/run; a network namespace of its own, simulated agents. The log of the manager and what
schemathesis said are left in build/results/contract."""

import os
import pathlib
import sys
import tempfile
import threading

import requests

HERE = pathlib.Path(__file__).resolve().parent
TOP = HERE.parents[1]
sys.path[:0] = [str(TOP / "selftests/robust"), str(TOP / "selftests/web"), str(HERE)]
sys.dont_write_bytecode = True

import asking  # noqa: E402
import files  # noqa: E402
from agents import Agents  # noqa: E402
from manager import Manager, same, until  # noqa: E402
from mistakes import answered, mutated  # noqa: E402
from node import Results, run  # noqa: E402

LEFT = TOP / "build/results/contract"


def ask(manager, state, *options):
    return asking.ask(manager.url, "hooks.py", LEFT, state, *options)


def down(manager):
    """Requests are refused for the state of the fabric, as the document says; applying would end that state."""
    manager.post("/v1/shutdown")
    until("the fabric is down", lambda: manager.get("/v1/fabric")["phase"] == "down")
    found = ask(manager, "down", "--phases", "coverage", "--include-method", "POST", "--exclude-path", "/v1/apply")
    asking.none_failed(found)
    for operation, (_, statuses) in found.items():
        # No text that schemathesis makes up has the form of a connection's name: there is no such thing then.
        commands = "{connection}" not in operation and operation not in ("POST /v1/plan", "POST /v1/shutdown")
        same(409 in statuses, commands, f"whether {operation} is refused with 409, among {dict(statuses)}")


def mistakes(manager, path):
    def ask(data):
        try:
            answer = requests.post(manager.url + path, data, timeout=30)
        except requests.RequestException as error:
            raise AssertionError(f"{error} for {data!r}") from None
        return answer.status_code, answer.headers["content-type"], answer.text

    answered(mutated(files.valid()), 300, ask)


def chatter(agents, end):
    """A node that tells something twice a second, so that who waits for events gets some."""
    while not end.wait(0.5):
        agents.call(lambda: agents.all[1].report(kind="agent-started"))


def main():
    os.unshare(os.CLONE_NEWNET)
    run("ip", "link", "set", "lo", "up")
    LEFT.mkdir(parents=True, exist_ok=True)
    results = Results()
    with tempfile.TemporaryDirectory() as scratch:
        os.chdir(scratch)
        agents, manager = Agents(files.AGENTS), Manager(pathlib.Path(scratch), 7778)
        try:
            manager.up(*sys.argv[1:])
            document = manager.get("/openapi.json")
            results.case("the document is valid OpenAPI 3.1", asking.valid_document, document)
            agents.start(*range(1, files.MOST + 1), rate=1000)
            manager.apply(agents.fabric(files.FEWEST))
            until("the fabric runs", manager.running)
            manager.make_job("contract", "xpu[01-03]")
            # Something to tell: events, a life more.
            agents.break_connection(1, 1, "the peer does not answer")
            end = threading.Event()
            threading.Thread(target=chatter, args=(agents, end)).start()
            try:
                found = ask(manager, "running")
            finally:
                end.set()
            for operation in asking.operations(document):
                results.case(operation, asking.answered, found, operation, document)
            results.case("nothing else was asked for", same, set(found) - set(asking.operations(document)), set(), "operations")
            results.case("commands while the fabric is down", down, manager)
            for path in ("/v1/plan", "/v1/apply"):
                results.case(f"mutated fabric files are taken or refused by {path}", mistakes, manager, path)
            log = pathlib.Path(manager.log.name)
            results.case("the manager did not panic", asking.no_panic, log, manager.process)
        finally:
            manager.kill()
            (LEFT / "manager.log").write_text(pathlib.Path(manager.log.name).read_text())
    results.end()


main()
