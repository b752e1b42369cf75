# SPDX-License-Identifier: GPL-2.0
"""A real superp-agent in one of the nodes of node.py, and configurations for it."""

import http.client
import json
import os
import pathlib
import re
import subprocess
import time

from node import run, same

HOME = os.open("/proc/self/ns/net", os.O_RDONLY)
AGENT = os.environ["SUPERP_PROGRAMS"] + "/superp-agent"
UNIT = pathlib.Path("/superp/userspace/agent/superp-agent.service").read_text()
# It is run with the capabilities that its unit leaves it.
CAPABILITIES = re.search(r"^CapabilityBoundingSet=(.+)$", UNIT, re.MULTILINE)[1].lower().replace("cap_", "").split()
BOUNDING_SET = "--bounding-set=" + ",".join(["-all", *(f"+{name}" for name in CAPABILITIES)])


def until(what, test, seconds=20):
    end = time.monotonic() + seconds
    while True:
        found = test()
        if found:
            return found
        if time.monotonic() > end:
            raise AssertionError(f"not within {seconds} s: {what}")
        time.sleep(0.05)


class Agent:
    """The agent of one node, and the manager that speaks to it."""

    def __init__(self, number, namespace, scratch):
        self.number, self.namespace, self.scratch = number, namespace, scratch
        self.state, self.log = scratch / f"state{number}", scratch / f"log{number}"
        self.process = None

    def command(self, *arguments, state=None):
        return (
            "ip", "netns", "exec", self.namespace, "setpriv", "--no-new-privs", "--inh-caps=-all", BOUNDING_SET, AGENT,
            "--state-dir", str(state or self.state), "--run-dir", str(self.scratch / "run"), *arguments,
        )  # fmt: skip

    def up(self, **environment):
        with open(self.log, "a") as log:
            self.process = subprocess.Popen(self.command(), stderr=log, env=os.environ | environment)
        until("agent answers", self.alive)

    def down(self):
        if self.process and self.process.poll() is None:
            self.process.kill()
            self.process.wait()

    def alive(self):
        if self.process.poll() is not None:
            raise AssertionError(f"agent ended: {self.log.read_text()}")
        try:
            return self.ask("GET", "/livez")[0] == 200
        except ConnectionRefusedError:
            return False

    def ask(self, *arguments, **more):
        """Status and document of the answer."""
        answer, text = self.request(*arguments, **more)
        document = json.loads(text)
        if answer.status >= 400:
            same(answer.getheader("Content-Type"), "application/problem+json", "media type of a problem")
            same(document["status"], answer.status, "status in the problem")
        return answer.status, document

    def request(self, method, path, body=None, raw=None, seconds=90):
        connection = http.client.HTTPConnection("127.0.0.1", 7779, timeout=seconds)
        namespace = os.open(f"/run/netns/{self.namespace}", os.O_RDONLY)
        os.setns(namespace, os.CLONE_NEWNET)
        try:
            connection.connect()
        finally:
            os.setns(HOME, os.CLONE_NEWNET)
            os.close(namespace)
        data = raw if raw is not None else None if body is None else json.dumps(body)
        headers = {} if data is None else {"Content-Type": "application/json"}
        connection.request(method, path, data, headers)
        answer = connection.getresponse()
        text = answer.read().decode()
        connection.close()
        return answer, text

    def good(self, method, path, body=None):
        status, document = self.ask(method, path, body)
        same(status, 200, f"status of {method} {path}: {document}")
        return document

    def refused(self, kind, status, method, path, body=None, **more):
        found, document = self.ask(method, path, body, **more)
        same((document.get("type"), found), (f"urn:superp:problem:{kind}", status), f"answer {document}")
        return document

    def superp(self, *words):
        return json.loads(run("ip", "netns", "exec", self.namespace, "superp", "-j", *words))

    def status(self):
        return self.good("GET", "/v1/status")

    def connection(self, cid):
        found = [conn for conn in self.status()["connections"] if conn["cid"] == cid]
        return found[0] if found else None

    def kernel(self):
        """Everything that is configured, as the kernel tells it."""
        shown = "conn show\ndev show\nparam show\nnode show\n"
        told = run("ip", "netns", "exec", self.namespace, "superp", "-j", "batch", "-", given=shown)
        conns, ports, params, node = (json.loads(line) for line in told.splitlines())
        for conn in conns:
            for path in conn["paths"]:
                del path["tx-packets"], path["rx-packets"]
        ports = [{key: port[key] for key in ("name", "encap")} for port in ports]
        params = [(param["name"], param["value"]) for param in params]
        return conns, ports, params, (node["rma-base"], node["rma-size"])

    def rma_space(self):
        node = self.superp("node", "show")
        return node["rma-base"], node["rma-size"]


TERM = 5
# The part of each node of a global address space, which all traffic here uses.
RMA_SIZE = 1 << 32


def rma_base(agent):
    return 0x1234 << 44 | agent.number << 32


def configuration(agent, generation, cids=(1,), **node):
    other = 3 - agent.number
    return {
        "term": TERM,
        "configuration": {
            "fabric": "lab",
            "generation": generation,
            "node": {
                "partitions": [7],
                "parameters": {"pdl_window_size": 64},
                "rma": {"base": rma_base(agent), "size": RMA_SIZE},
            }
            | node,
            "ports": [{"device": "eth0"}],
            "connections": [
                {"cid": cid, "peer": f"10.23.0.{other}", "peer_cid": cid, "device": "eth0", "ext": True}
                for cid in cids
            ],
        },
    }
