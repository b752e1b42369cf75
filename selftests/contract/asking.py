# SPDX-License-Identifier: GPL-2.0
"""A program and the document that it serves: every operation is asked by schemathesis."""

import collections
import os
import pathlib
import subprocess
import sys
import xml.etree.ElementTree

import openapi_spec_validator
from node import same

HERE = pathlib.Path(__file__).resolve().parent
METHODS = ("get", "put", "post", "delete", "options", "head", "patch", "trace")


def valid_document(document):
    same(document["openapi"].rpartition(".")[0], "3.1", "version of OpenAPI")
    openapi_spec_validator.validate(document)


def operations(document):
    return [
        f"{method.upper()} {path}"
        for path, item in document["paths"].items() for method in METHODS if method in item
    ]  # fmt: skip


def ask(url, hooks, left, state, *options, within=()):
    """What schemathesis found, by operation: texts of failures, and the statuses of the answers. What it says is left
    in files named after the state of what is asked."""
    report, answers, log = (left / f"{state}.{kind}" for kind in ("xml", "answers", "log"))
    answers.write_text("")
    command = [
        *within, sys.executable, "-m", "schemathesis.cli", "--config-file", HERE / "schemathesis.toml", "--no-color", "run",
        f"{url}/openapi.json", "--checks", "all", "--report-junit-path", report, *options,
    ]  # fmt: skip
    environment = {
        "CONTRACT_URL": url, "CONTRACT_STATE": state, "SCHEMATHESIS_HOOKS": str(HERE / hooks),
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


def none_failed(found):
    failures = [text for texts, _ in found.values() for text in texts]
    if failures:
        raise AssertionError("\n".join(failures))


def no_panic(log, process):
    same([line for line in log.read_text().splitlines() if "panicked" in line], [], "log")
    same(process.poll(), None, "status of the process")
