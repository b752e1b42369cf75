# SPDX-License-Identifier: GPL-2.0
"""Agents without kernels for the tests of the page: each speaks the interface of superp-agent over TCP, holds
what a kernel would hold, and counts packets as if there were traffic."""

import asyncio
import json
import threading
import time
import urllib.parse


class Refused(Exception):
    def __init__(self, status, kind, detail):
        super().__init__(detail)
        title = "The simulated agent refuses"
        self.status = status
        self.problem = {"type": f"urn:superp:problem:{kind}", "title": title, "status": status, "detail": detail}


class Agent:
    """An agent at an address; everything in it runs in the thread of its Agents."""

    def __init__(self, address, version):
        self.address, self.version = address, version
        self.instance = f"{address}-{time.monotonic_ns()}"
        self.state, self.term, self.configuration = "unconfigured", 0, None
        self.conns, self.since, self.reports = {}, {}, []
        self.told = asyncio.Event()
        # Packets per second of every connection, and of a thousand those that are sent again.
        self.rate, self.again = 0, 0
        self.ports_down = set()

    def report(self, **fields):
        number = len(self.reports) + 1
        self.reports.append({"seq": number, "time_ms": int(time.time() * 1000)} | fields)
        self.told.set()
        self.told = asyncio.Event()

    def report_state(self, conn):
        self.report(
            kind="connection-state", cid=conn["cid"], peer_cid=conn["peer_cid"], peer=conn["peer"],
            connection_state=conn["state"], **({"cause": conn["cause"]} if "cause" in conn else {}),
        )  # fmt: skip

    def set_state(self, conn, state):
        conn["state"] = state
        self.since[conn["cid"]] = time.monotonic()

    def counters(self, conn):
        names = (
            "tx-packets rx-packets tx-bytes rx-bytes tx-ops rx-ops retrans-fast retrans-rto retrans-full timeouts "
            "srtt-ns rttvar-ns rto-ns transactions completed failed refused rx-duplicates rx-window tx-messages"
        ).split()
        counters = dict.fromkeys(names, 0)
        if conn["state"] == "established":
            packets = int(self.rate * (time.monotonic() - self.since[conn["cid"]]))
            again = packets * self.again // 1000
            counters |= {
                "tx-packets": packets, "rx-packets": packets, "tx-bytes": packets * 1024, "rx-bytes": packets * 1024,
                "retrans-fast": again, "srtt-ns": 21_000, "rto-ns": 1_500_000_000, "rx-window": 256,
            }  # fmt: skip
        return counters

    def status(self, counters):
        conns = [conn | ({"counters": self.counters(conn)} if counters else {}) for conn in self.conns.values()]
        wanted = self.configuration
        devices = [
            {
                "device": port["device"], "index": number, "mtu": 9000, "addresses": [], "port": port["encap"],
                "state": "down" if port["device"] in self.ports_down else "up",
            }
            for number, port in enumerate(wanted["ports"] if wanted else [], 2)
        ]  # fmt: skip
        return {
            "instance": self.instance, "state": self.state, "term": self.term, "differences": [], "devices": devices,
            "connections": conns, "queue_pairs": 0, "regions": 0, "drops": {}, "last_report": len(self.reports),
        } | ({"fabric": wanted["fabric"], "generation": wanted["generation"]} if wanted else {})  # fmt: skip

    def capabilities(self):
        return {
            "api_version": "1.0", "agent_version": self.version, "instance": self.instance, "host": self.address,
            "module": {"version": "simulated", "uapi": 2},
            "protocol": {
                "version": "0.4", "features": ["sunh"], "ethertype": 0x88B5, "next_header": 253, "udp_port": 7777,
                "caddr_bits": 12,
            },
            "devices": [], "memory": {"total": 1 << 30, "available": 1 << 29}, "window_max": 1024,
            "cids": {"first": 1, "last": 65535, "connections_max": 4096, "in_use": []}, "parameters": [],
        }  # fmt: skip

    def configured(self):
        return {"state": self.state, "generation": self.configuration["generation"], "changed": True, "outcomes": []}

    def configure(self, wanted):
        conns = {}
        for conn in wanted["connections"]:
            old = self.conns.get(conn["cid"])
            if old and all(old[name] == conn[name] for name in ("peer", "peer_cid", "start_psn")):
                conns[conn["cid"]] = old
                continue
            conns[conn["cid"]] = {
                "cid": conn["cid"], "peer": conn["peer"], "peer_cid": conn["peer_cid"], "encap": conn["encap"],
                "local": conn["local"], "state": "created", "mtu": 1484, "start_psn": conn["start_psn"],
                "start_xid": 0, "paths": [],
            }  # fmt: skip
        self.conns, self.configuration, self.state = conns, wanted, "ready"
        return self.configured()

    def command(self, path, body):
        if body["term"] < self.term:
            raise Refused(409, "stale-term", "a newer manager has been seen")
        self.term = body["term"]
        if path == ["configuration"]:
            return self.configure(body["configuration"])
        if path == ["shutdown"]:
            self.conns, self.configuration, self.state = {}, None, "shut-down"
            return {"state": self.state, "connections": 0, "ports": 0, "processes": []}
        if not self.configuration or self.configuration["generation"] != body["generation"]:
            raise Refused(409, "generation", "another configuration is in force")
        if path == ["start"]:
            for cid, conn in self.conns.items():
                if conn["state"] == "created" and cid not in body.get("hold", []):
                    self.set_state(conn, "established")
            self.state = "started"
            return self.configured()
        conn = self.conns.get(int(path[1]))
        if conn is None:
            raise Refused(404, "not-found", "no such connection")
        if path[2] == "reset":
            conn.pop("cause", None)
            # The new life is what is configured from now on.
            for kept in (conn, *self.configuration["connections"]):
                if kept["cid"] == conn["cid"]:
                    kept["start_psn"] = body["start_psn"]
        self.set_state(conn, {"start": "established", "stop": "stopped", "reset": "created"}[path[2]])
        return conn

    async def events(self, query):
        def told():
            after = int(query.get("after", 0)) if query.get("instance", self.instance) == self.instance else 0
            return [report for report in self.reports if report["seq"] > after]

        if not told():
            try:
                await asyncio.wait_for(self.told.wait(), min(int(query.get("wait", 0)), 60))
            except asyncio.TimeoutError:
                pass
        return {"instance": self.instance, "last": len(self.reports), "lost": 0, "reports": told()}

    async def answer(self, method, target, body):
        url = urllib.parse.urlsplit(target)
        query = dict(urllib.parse.parse_qsl(url.query))
        path = url.path.strip("/").split("/")[1:]
        try:
            if method != "GET":
                return 200, self.command(path, json.loads(body))
            if path == ["status"]:
                return 200, self.status(query.get("counters") != "false")
            if path == ["capabilities"]:
                return 200, self.capabilities()
            if path == ["events"]:
                return 200, await self.events(query)
            if path == ["configuration"] and self.configuration:
                return 200, {"term": self.term, "configuration": self.configuration}
            raise Refused(404, "not-found", "the node has no configuration")
        except Refused as refused:
            return refused.status, refused.problem

    async def serve(self, reader, writer):
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                first, *lines = head.decode().split("\r\n")
                method, target, _ = first.split(" ")
                length = [line for line in lines if line.lower().startswith("content-length:")]
                body = await reader.readexactly(int(length[0].split(":")[1])) if length else b""
                status, document = await self.answer(method, target, body)
                text = json.dumps(document).encode()
                kind = "application/json" if status == 200 else "application/problem+json"
                head = f"HTTP/1.1 {status} -\r\nContent-Type: {kind}\r\nContent-Length: {len(text)}\r\n\r\n"
                writer.write(head.encode() + text)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()


def fabric(prefix, count, name="lab", more=""):
    """A fabric file: so many nodes, all connected to all."""
    return (
        f'fabric = "{name}"\n{more}[[nodes]]\nhosts = "xpu[01-{count:02}]"\nagent = "{prefix}.{{n}}:7779"\n'
        'address = "10.23.0.{n}"\nports = [{ dev = "eth0" }, { dev = "eth1", encap = ["udp"] }]\n'
        f'[[connections]]\nmesh = "xpu[01-{count:02}]"\next = true\n'
    )


class Agents:
    """Agents in a thread of their own: NUMBER is at PREFIX.NUMBER:7779."""

    def __init__(self, prefix, version="simulated"):
        self.prefix, self.version, self.all = prefix, version, {}
        self.loop = asyncio.new_event_loop()
        threading.Thread(target=self.loop.run_forever, daemon=True).start()

    def call(self, function, *arguments):
        """Runs a function, or a coroutine, in the thread of the agents."""

        async def run():
            result = function(*arguments)
            return await result if asyncio.iscoroutine(result) else result

        return asyncio.run_coroutine_threadsafe(run(), self.loop).result(60)

    def start(self, *numbers, rate=0):
        async def start(number):
            agent = Agent(f"{self.prefix}.{number}", self.version)
            agent.rate = rate
            await asyncio.start_server(agent.serve, agent.address, 7779)
            self.all[number] = agent

        for number in numbers:
            self.call(start, number)

    def break_connection(self, number, cid, cause):
        def act(agent):
            agent.set_state(agent.conns[cid], "broken")
            agent.conns[cid]["cause"] = cause
            agent.report_state(agent.conns[cid])

        self.call(act, self.all[number])

    def fabric(self, count, name="lab", more=""):
        return fabric(self.prefix, count, name, more)
