# SPDX-License-Identifier: GPL-2.0
"""A superp-cm of its own, for tests that ask it."""

import contextlib
import json
import pathlib
import signal
import subprocess
import time
import urllib.error
import urllib.request

MANAGER = pathlib.Path(__file__).resolve().parents[2] / "build/userspace/debug/superp-cm"


def until(what, test, seconds=30):
    end = time.monotonic() + seconds
    while not (found := test()):
        if time.monotonic() > end:
            raise AssertionError(f"not within {seconds} s: {what() if callable(what) else what}")
        time.sleep(0.05)
    return found


def same(found, wanted, what):
    if found != wanted:
        raise AssertionError(f"{what}: wanted {wanted!r}, found {found!r}")


class Manager:
    """superp-cm with a store of its own, at a port that nobody else has in this namespace."""

    def __init__(self, folder, port):
        self.store, self.port, self.process = folder / f"manager-{port}.db", port, None
        self.log = open(folder / f"log-{port}", "a")
        self.url = f"http://127.0.0.1:{port}"
        self.options = []

    @classmethod
    def at(cls, url):
        """One that somebody else started."""
        manager = cls.__new__(cls)
        manager.url = url
        return manager

    def up(self, program=MANAGER):
        listen = f"127.0.0.1:{self.port}"
        command = [program, "serve", "--listen", listen, "--store", self.store, *self.options]
        self.process = subprocess.Popen(command, stderr=self.log)
        until("the manager answers", self.alive)

    def alive(self):
        same(self.process.poll(), None, "status of the manager's process")
        with contextlib.suppress(urllib.error.URLError):
            return self.get("/livez")

    def kill(self):
        if self.process:
            self.process.send_signal(signal.SIGKILL)
            self.process.wait()
        self.process = None

    def get(self, path):
        with urllib.request.urlopen(self.url + path, timeout=60) as answer:
            return json.load(answer)

    def apply(self, file):
        return json.loads(self.post("/v1/apply", file))

    def post(self, path, body=""):
        with urllib.request.urlopen(self.url + path, body.encode(), timeout=60) as answer:
            return answer.read()

    def delete(self, path):
        request = urllib.request.Request(self.url + path, method="DELETE")
        with urllib.request.urlopen(request, timeout=60):
            pass

    def make_job(self, name, hosts):
        self.post("/v1/jobs?wait=30", json.dumps({"name": name, "hosts": hosts}))

    def running(self):
        fabric = self.get("/v1/fabric")
        done = fabric["phase"] == "running" and fabric["connections_running"] == fabric["connections"]
        return fabric if done and not fabric["waiting"] else None

    def connection(self, one, other):
        """The connection of two nodes, and the side of the first."""
        for connection in self.get("/v1/connections"):
            nodes = [end["node"] for end in connection["ends"]]
            if {one, other} == set(nodes):
                return connection, nodes.index(one)
        raise AssertionError(f"no connection of {one} and {other}")
