# SPDX-License-Identifier: GPL-2.0
"""superp-cm and the document it serves: every operation is asked in many ways, and answers as the document says.
Started by selftests/contract/run; a network namespace of its own, simulated agents. The log of the manager and what
schemathesis said are left in build/results/contract."""

import collections
import os
import pathlib
import subprocess
import sys
import tempfile
import threading
import xml.etree.ElementTree

import hypothesis
import openapi_spec_validator
import requests

HERE = pathlib.Path(__file__).resolve().parent
TOP = HERE.parents[1]
sys.path[:0] = [str(TOP / "selftests/robust"), str(TOP / "selftests/web"), str(HERE)]
sys.dont_write_bytecode = True

import files  # noqa: E402
from agents import Agents  # noqa: E402
from manager import Manager, same, until  # noqa: E402
from node import Results, run  # noqa: E402

LEFT = TOP / "build/results/contract"
METHODS = ("get", "put", "post", "delete", "options", "head", "patch", "trace")


def valid_document(document):
    same(document["openapi"].rpartition(".")[0], "3.1", "version of OpenAPI")
    openapi_spec_validator.validate(document)


def operations(document):
    return [
        f"{method.upper()} {path}"
        for path, item in document["paths"].items() for method in METHODS if method in item
    ]  # fmt: skip


def ask(manager, state, *options):
    """What schemathesis found, by operation: texts of failures, and the statuses of the answers. What it says is left
    in files named after the state that the fabric is in."""
    report, answers, log = (LEFT / f"{state}.{kind}" for kind in ("xml", "answers", "log"))
    answers.write_text("")
    command = [
        sys.executable, "-m", "schemathesis.cli", "--config-file", HERE / "schemathesis.toml", "--no-color", "run",
        f"{manager.url}/openapi.json", "--checks", "all", "--report-junit-path", report, *options,
    ]  # fmt: skip
    environment = {
        "CONTRACT_URL": manager.url, "CONTRACT_STATE": state, "SCHEMATHESIS_HOOKS": str(HERE / "hooks.py"),
        "CONTRACT_ANSWERS": str(answers), "PYTHONDONTWRITEBYTECODE": "1",
    }  # fmt: skip
    with open(log, "w") as out:
        status = subprocess.run(command, stdout=out, stderr=subprocess.STDOUT, env=os.environ | environment).returncode
    # 1: it found something.
    if status not in (0, 1):
        raise AssertionError(f"schemathesis ended with status {status}:\n{log.read_text()}")
    statuses = collections.defaultdict(collections.Counter)
    for line in answers.read_text().splitlines():
        status, method, operation = line.split(" ", 2)
        # Requests with other methods are made too.
        if operation.startswith(f"{method} "):
            statuses[operation][int(status)] += 1
    cases = xml.etree.ElementTree.parse(report).iter("testcase")
    return {case.get("name"): ([outcome.text for outcome in case], statuses[case.get("name")]) for case in cases}


def answered(found, operation, document):
    if operation not in found:
        raise AssertionError("schemathesis did not ask for it")
    failures, statuses = found[operation]
    print(f"# {operation}: {', '.join(f'{count} of {status}' for status, count in sorted(statuses.items()))}")
    if failures:
        raise AssertionError("\n".join(failures))
    if not any(status < 300 for status in statuses):
        raise AssertionError(f"no request succeeded: {dict(statuses)}")
    method, path = operation.split(" ")
    told = document["paths"][path][method.lower()]
    if ("parameters" in told or "requestBody" in told) and not any(status >= 400 for status in statuses):
        raise AssertionError(f"no request was refused: {dict(statuses)}")


def down(manager):
    """Requests are refused for the state of the fabric, as the document says; applying would end that state."""
    manager.post("/v1/shutdown")
    until("the fabric is down", lambda: manager.get("/v1/fabric")["phase"] == "down")
    found = ask(manager, "down", "--phases", "coverage", "--include-method", "POST", "--exclude-path", "/v1/apply")
    failures = [text for texts, _ in found.values() for text in texts]
    if failures:
        raise AssertionError("\n".join(failures))
    for operation, (_, statuses) in found.items():
        # No text that schemathesis makes up has the form of a connection's name: there is no such thing then.
        commands = "{connection}" not in operation and operation not in ("POST /v1/plan", "POST /v1/shutdown")
        same(409 in statuses, commands, f"whether {operation} is refused with 409, among {dict(statuses)}")


def mistakes(manager, path):
    """Whatever a file has in it, it is taken or refused with what is wrong."""
    statuses = collections.Counter()

    @hypothesis.settings(max_examples=300, derandomize=True, database=None, deadline=None)
    @hypothesis.given(files.mutated())
    def asked(data):
        try:
            answer = requests.post(manager.url + path, data, timeout=30)
        except requests.RequestException as error:
            raise AssertionError(f"{error} for {data!r}") from None
        statuses[answer.status_code] += 1
        if answer.status_code == 200:
            same(answer.headers["content-type"], "application/json", "media type")
            return
        if answer.status_code not in (400, 409, 422):
            raise AssertionError(f"{answer.status_code} for {data!r}: {answer.text}")
        problem = answer.json()
        same(answer.headers["content-type"], "application/problem+json", f"media type of {problem} for {data!r}")
        same((problem["status"], bool(problem["detail"])), (answer.status_code, True), f"status and a detail in {problem}")

    asked()
    print(f"# {path}: {', '.join(f'{count} of {status}' for status, count in sorted(statuses.items()))}")


def chatter(agents, end):
    """A node that tells something twice a second, so that who waits for events gets some."""
    while not end.wait(0.5):
        agents.call(lambda: agents.all[1].report(kind="agent-started"))


def no_panic(manager):
    log = pathlib.Path(manager.log.name).read_text()
    same([line for line in log.splitlines() if "panicked" in line], [], "log of the manager")
    same(manager.process.poll(), None, "status of the manager's process")


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
            results.case("the document is valid OpenAPI 3.1", valid_document, document)
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
            for operation in operations(document):
                results.case(operation, answered, found, operation, document)
            results.case("nothing else was asked for", same, set(found) - set(operations(document)), set(), "operations")
            results.case("commands while the fabric is down", down, manager)
            for path in ("/v1/plan", "/v1/apply"):
                results.case(f"mutated fabric files are taken or refused by {path}", mistakes, manager, path)
            results.case("the manager did not panic", no_panic, manager)
        finally:
            manager.kill()
            (LEFT / "manager.log").write_text(pathlib.Path(manager.log.name).read_text())
    results.end()


main()
