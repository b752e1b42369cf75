#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Runs rdma-core's own tests on the device "superp" and compares with rdma_core.expect what came of each: a
test that is listed has to end as the list says, and one that is not has to be skipped, for a reason of its
own, such as another manufacturer's device. Started by rdma_core.sh."""

import gzip
import pathlib
import shutil
import sys
import tempfile
import unittest

INSTALLED = pathlib.Path("/usr/share/doc/rdma-core/tests")
HERE = pathlib.Path(__file__).parent


def unpack(folder):
    """The package of the tests, which Debian has compressed, file by file."""
    tests = folder / "tests"
    tests.mkdir()
    for path in INSTALLED.iterdir():
        if path.suffix == ".gz":
            (tests / path.stem).write_bytes(gzip.decompress(path.read_bytes()))
        else:
            shutil.copy(path, tests)


def expected():
    """From test to (outcome, why): what rdma_core.expect says."""
    lines = {}
    for line in (HERE / "rdma_core.expect").read_text().splitlines():
        if line and not line.startswith("#"):
            outcome, test, *why = line.split(maxsplit=2)
            lines[test] = (outcome, " ".join(why))
    return lines


class Outcomes(unittest.TestResult):
    """What came of each test, and the text of what did not pass."""

    def __init__(self):
        super().__init__()
        self.of = {}

    def note(self, test, outcome, text=""):
        self.of[test.id().removeprefix("tests.")] = (outcome, text)

    def addSuccess(self, test):
        self.note(test, "pass")

    def addSkip(self, test, reason):
        self.note(test, "skip", reason)

    def addFailure(self, test, err):
        self.note(test, "fail", self._exc_info_to_string(err, test))

    addError = addFailure

    def addSubTest(self, test, subtest, err):
        if err is not None:
            self.addFailure(test, err)


def run(folder):
    unpack(folder)
    sys.path[:0] = [str(folder), str(folder / "tests")]
    from args_parser import parser

    sys.argv[1:] = ["--dev", "superp", "--gid", "0"]
    parser.parse_args()
    from tests.base import RDMATestCase

    # They ask rdma(8), which knows the kernel's devices only.
    RDMATestCase.get_net_name = staticmethod(lambda dev, port=None: "lo")
    outcomes = Outcomes()
    import tests

    unittest.defaultTestLoader.loadTestsFromModule(tests).run(outcomes)
    return outcomes.of


def main():
    with tempfile.TemporaryDirectory() as folder:
        found = run(pathlib.Path(folder))
    wanted = expected()
    skipped = sum(outcome == "skip" for outcome, _ in found.values())
    print("TAP version 13")
    print(f"# {len(found)} tests; {skipped} are skipped, by themselves, for what the device has not")
    failed = number = 0
    surprises = [test for test, (outcome, _) in found.items() if outcome != "skip" and test not in wanted]
    for number, test in enumerate([*wanted, *sorted(surprises)], 1):
        outcome, why = wanted.get(test, ("skip", "not in rdma_core.expect"))
        came, text = found.get(test, ("nothing", ""))
        ok = came == outcome
        failed += not ok
        if not ok:
            for line in f"{came}, and should be: {outcome} {why}\n{text}".splitlines():
                print(f"# {line}")
        name = test if outcome == "pass" else f"{test}: {outcome}, {why}"
        print(f"{'ok' if ok else 'not ok'} {number} {name}")
    print(f"1..{number}")
    sys.exit(failed > 0)


main()
