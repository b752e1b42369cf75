#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Two nodes, each with its agent: configured, started, used, restarted, refused, shut down, over REST,
with the real module underneath."""

import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "robust"))

from node import XFER, Nodes, Results, run, same  # noqa: E402
from real import RMA_SIZE, TERM, Agent, configuration, rma_base, until  # noqa: E402

nodes = Nodes()
results = Results()
scratch = pathlib.Path(tempfile.mkdtemp())


a, b = (Agent(number, nodes.name[number], scratch) for number in (1, 2))
both = (a, b)


def traffic(count, wait=True):
    """Writes, reads and messages from node 1 to node 2, every byte compared."""
    words = (XFER, "mixed", a.namespace, b.namespace, "10.23.0.2", "1", "write,read,send", str(count), "60000", "8")
    if wait:
        return run(*words)
    return subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def unprotected_only_when_asked():
    done = subprocess.run(a.command("--listen", "10.23.0.1:7779"), capture_output=True, text=True)
    same(done.returncode, 1, f"status of an agent told to serve everybody: {done.stderr}")
    assert "--insecure-listen" in done.stderr, done.stderr


def capabilities():
    for agent in both:
        agent.up()
        told = agent.good("GET", "/v1/capabilities")
        device = [device for device in told["devices"] if device["device"] == "eth0"][0]
        link = json.loads(run("ip", "-j", "-n", agent.namespace, "link", "show", "eth0"))[0]
        same(
            (device["mac"], device["mtu"], device["index"], device["state"], device["port"]),
            (link["address"], link["mtu"], link["ifindex"], "up", []), "eth0",
        )  # fmt: skip
        assert {f"10.23.0.{agent.number}", f"fd23::{agent.number}"} <= set(device["addresses"]), device
        node = agent.superp("node", "show")
        same(told["module"], {"version": node["module-version"], "uapi": node["uapi-version"]}, "module")
        same((told["window_max"], told["cids"]["in_use"]), (1024, []), "windows and ids")
        memory = int(pathlib.Path("/proc/meminfo").read_text().split()[1]) * 1024
        same(told["memory"]["total"], memory, "memory of the host")
        assert 0 < told["memory"]["available"] <= memory, told["memory"]
        same(agent.status()["state"], "unconfigured", "state")
        same(agent.ask("GET", "/v1/configuration")[0], 404, "configuration")
        same(agent.ask("GET", "/readyz")[0], 200, "readyz")


def second_agent():
    words = a.command("--listen", "127.0.0.1:7999", state=scratch / "other")
    done = subprocess.run(words, capture_output=True, text=True)
    same(done.returncode, 1, f"status of a second agent: {done.stderr}")
    assert f"process {a.process.pid}," in done.stderr, done.stderr


def boot():
    for agent in both:
        told = agent.good("PUT", "/v1/configuration", configuration(agent, 1))
        same((told["state"], told["changed"]), ("ready", True), "answer")
        actions = {
            (str(outcome["object"].get("id", outcome["object"]["kind"])), outcome["action"])
            for outcome in told["outcomes"]
        }
        wanted = {("pdl_window_size", "set"), ("rma-space", "set"), ("eth0", "created"), ("1", "created")}
        same(actions, wanted, "outcomes")
        same(agent.rma_space(), (rma_base(agent), RMA_SIZE), "space of RMA addresses")
        same(agent.connection(1)["state"], "created", "state of the connection")
        same(agent.superp("conn", "show", "1")[0]["params"]["pdl_window_size"], 64, "window")
        agent.refused("generation", 409, "POST", "/v1/start", {"term": TERM, "generation": 2})
    done = subprocess.run(
        ("ip", "netns", "exec", a.namespace, "superp", "ping", "10.23.0.2", "-c", "1"), capture_output=True
    )
    assert done.returncode, "a ping before the start has succeeded"
    for agent in both:
        told = agent.good("POST", "/v1/start", {"term": TERM, "generation": 1})
        same((told["state"], told["changed"]), ("started", True), "answer")
        same((agent.status()["state"], agent.connection(1)["state"]), ("started", "established"), "states")


def data_moves():
    nodes.superp(1, "ping", "10.23.0.2", "-c", "3")
    traffic(200)


def same_again():
    before = a.connection(1)["counters"]
    assert before["tx-packets"] > 200, before
    told = a.good("PUT", "/v1/configuration", configuration(a, 1))
    same((told["state"], told["changed"]), ("started", False), "answer")
    after = a.connection(1)["counters"]
    assert after["tx-packets"] >= before["tx-packets"], (before, after)
    told = a.good("POST", "/v1/start", {"term": TERM, "generation": 1})
    same(told["changed"], False, "a second start")


def bad_configuration():
    before = a.kernel()
    body = configuration(a, 2, (1, 2, 3))
    wrong = body["configuration"]
    wrong["node"]["parameters"] |= {"pdl_max_rtx": 3, "pdl_widow_size": 64}
    wrong["node"]["rma"] = {"base": rma_base(a) + 8, "size": 0}
    wrong["ports"].append({"device": "eth9"})
    wrong["connections"][1] |= {"cid": 1, "parameters": {"pdl_window_size": 4}}
    wrong["connections"][2] |= {"spray": True, "partition": 8, "hop_limit": 16, "lladdr": "02:00"}
    problem = a.refused("invalid", 422, "PUT", "/v1/configuration", body)
    found = sorted(fault["pointer"].removeprefix("/configuration/") for fault in problem["faults"])
    at = "connections/2/"
    wanted = ["connections/1/cid", "connections/1/parameters/pdl_window_size", at + "hop_limit", at + "lladdr"]
    wanted += [at + "partition", at + "spray", "node/parameters/pdl_widow_size", "node/rma/base", "node/rma/size"]
    wanted += ["ports/1/device"]
    same(found, wanted, "places of the mistakes")
    assert "eth0" in [fault["detail"] for fault in problem["faults"] if "eth9" in fault["detail"]][0], problem
    body = configuration(a, 2)
    body["configuration"]["connections"][0]["windw"] = 5
    problem = a.refused("malformed", 400, "PUT", "/v1/configuration", body)
    same(problem["faults"][0]["pointer"], "/configuration/connections/0/windw", "place of the mistake")
    a.refused("malformed", 400, "PUT", "/v1/configuration", raw="{")
    same(a.kernel(), before, "what the kernel has")
    same(a.status()["generation"], 1, "generation")


def kernel_refuses():
    before = a.kernel()
    body = configuration(a, 2, (1, 2, 3), parameters={"pdl_window_size": 64, "pdl_receive_budget": 4096})
    del body["configuration"]["node"]["rma"]
    # Only the kernel knows that nothing leads there.
    body["configuration"]["connections"][2] |= {"peer": "192.0.2.1", "encap": "udp4", "device": None}
    problem = a.refused("kernel-refused", 422, "PUT", "/v1/configuration", body)
    actions = {
        str(outcome["object"].get("id", outcome["object"]["kind"])): outcome["action"]
        for outcome in problem["outcomes"]
    }
    told = [actions[of] for of in ("1", "2", "3", "rma-space")]
    same(told, ["unchanged", "undone", "failed", "undone"], "outcomes")
    same(a.kernel(), before, "what the kernel has")
    same((a.status()["generation"], a.status()["state"]), (1, "started"), "generation and state")


def next_generation():
    before = a.connection(1)["counters"]["tx-packets"]
    parameters = {"pdl_window_size": 64, "pdl_receive_budget": 4096}
    for agent in both:
        told = agent.good("PUT", "/v1/configuration", configuration(agent, 2, (1, 2), parameters=parameters))
        actions = {str(outcome["object"].get("id")): outcome["action"] for outcome in told["outcomes"]}
        same((actions["1"], actions["2"], actions["eth0"]), ("unchanged", "created", "unchanged"), "outcomes")
        same((agent.connection(1)["state"], agent.connection(2)["state"]), ("established", "created"), "states")
        told = agent.good("POST", "/v1/start", {"term": TERM, "generation": 2, "hold": [2]})
        same((told["state"], agent.connection(2)["state"]), ("started", "created"), "states with connection 2 held")
        agent.good("POST", "/v1/start", {"term": TERM, "generation": 2})
    assert a.connection(1)["counters"]["tx-packets"] >= before > 0
    nodes.superp(1, "ping", "10.23.0.2", "--cid", "2", "-c", "1")
    a.refused("generation", 409, "PUT", "/v1/configuration", configuration(a, 1))
    a.refused("generation", 409, "PUT", "/v1/configuration", configuration(a, 2))


def stale_term():
    before = a.kernel()
    body = configuration(a, 3) | {"term": TERM - 1}
    for method, path, body in (
        ("PUT", "/v1/configuration", body),
        ("POST", "/v1/start", {"term": TERM - 1, "generation": 2}),
        ("POST", "/v1/connections/1/stop", {"term": TERM - 1, "generation": 2}),
        ("POST", "/v1/shutdown", {"term": TERM - 1}),
    ):
        problem = a.refused("stale-term", 409, method, path, body)
        same((problem["term"], problem["highest_term"]), (TERM - 1, TERM), "terms")
    same(a.kernel(), before, "what the kernel has")


def restart_under_traffic():
    before = a.kernel()
    instance = a.status()["instance"]
    sent = a.connection(1)["counters"]["tx-packets"]
    moving = traffic(4000, wait=False)
    until("traffic", lambda: a.connection(1)["counters"]["tx-packets"] > sent + 100)
    a.process.send_signal(signal.SIGKILL)
    a.process.wait()
    a.up()
    now = a.status()
    same((now["state"], now["generation"], now["differences"]), ("started", 2, []), "state after a restart")
    assert now["instance"] != instance, instance
    told = a.good("PUT", "/v1/configuration", configuration(
        a, 2, (1, 2), parameters={"pdl_window_size": 64, "pdl_receive_budget": 4096}))  # fmt: skip
    same(told["changed"], False, "the same configuration after a restart")
    output, _ = moving.communicate(timeout=100)
    same(moving.returncode, 0, f"status of the traffic: {output}")
    same(a.kernel(), before, "what the kernel has")
    a.refused("stale-term", 409, "POST", "/v1/start", {"term": TERM - 1, "generation": 2})


def difference_is_seen():
    nodes.superp(1, "conn", "del", "2")
    nodes.superp(1, "node", "set", "rma-base", "0")
    now = a.status()
    wanted = [
        f"space of RMA addresses is not as configured: by key -> {RMA_SIZE:#x} bytes from {rma_base(a):#x}",
        "connection 2 is missing",
    ]
    same((now["state"], now["differences"]), ("partial", wanted), "state")
    parameters = {"pdl_window_size": 64, "pdl_receive_budget": 4096}
    told = a.good("PUT", "/v1/configuration", configuration(a, 2, (1, 2), parameters=parameters))
    same((told["state"], told["changed"]), ("ready", True), "answer")
    same(a.rma_space(), (rma_base(a), RMA_SIZE), "space of RMA addresses")
    a.good("POST", "/v1/start", {"term": TERM, "generation": 2})


def soft_restart():
    command = {"term": TERM, "generation": 2}
    a.refused("state", 409, "POST", "/v1/connections/1/reset", command)
    for agent in both:
        agent.good("POST", "/v1/connections/1/stop", command)
    for agent in both:
        until("connection is stopped", lambda agent=agent: agent.connection(1)["state"] == "stopped")
    numbers = {"start_psn": 1 << 30, "start_xid": 77}
    for agent in both:
        told = agent.good("POST", "/v1/connections/1/reset", command | numbers)
        same((told["state"], told["start_psn"], told["start_xid"]), ("created", 1 << 30, 77), "connection")
        same(agent.status()["differences"], [], "differences")
    for agent in both:
        same(agent.good("POST", "/v1/connections/1/start", command)["state"], "established", "state")
    traffic(50)


def hard_restart():
    command = {"term": TERM, "generation": 2}
    for agent in both:
        told = agent.good("POST", "/v1/connections/1/reset", command | {"hard": True, "start_psn": 1 << 31})
        same((told["state"], told["start_psn"]), ("created", 1 << 31), "connection")
    for agent in both:
        agent.good("POST", "/v1/connections/1/start", command)
    traffic(50)
    a.refused("not-found", 404, "POST", "/v1/connections/99/start", command)


def broken_connection():
    after = a.good("GET", "/v1/events")
    body = configuration(a, 3, (1, 2, 66), parameters={"pdl_window_size": 64, "pdl_receive_budget": 4096})
    # The peer has no such connection.
    for conn in body["configuration"]["connections"]:
        conn["start_psn"] = a.connection(1)["start_psn"] if conn["cid"] == 1 else 0
        conn["start_xid"] = a.connection(1)["start_xid"] if conn["cid"] == 1 else 0
    body["configuration"]["connections"][2]["parameters"] = {"tal_transaction_timeout": 20000000}
    told = a.good("PUT", "/v1/configuration", body)
    actions = {str(outcome["object"].get("id")): outcome["action"] for outcome in told["outcomes"]}
    same((actions["1"], actions["66"]), ("unchanged", "created"), "outcomes")
    a.good("POST", "/v1/start", {"term": TERM, "generation": 3})
    ping = subprocess.Popen(
        ("ip", "netns", "exec", a.namespace, "superp", "ping", "10.23.0.2", "--cid", "66", "-c", "1", "-W", "15"),
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip

    def told_of_it():
        nonlocal after
        query = f"after={after['last']}&instance={after['instance']}&wait=5"
        after = a.good("GET", "/v1/events?" + query)
        same(after["lost"], 0, "lost reports")
        return [r for r in after["reports"] if r.get("cid") == 66 and r.get("connection_state") == "broken"]

    report = until("report of the broken connection", told_of_it, 40)[0]
    assert report["cause"] and report["peer"] == "10.23.0.2" and report["peer_cid"] == 66, report
    ping.wait()
    assert ping.returncode, "a ping over a broken connection has succeeded"
    found = a.connection(66)
    same((found["state"], found["cause"]), ("broken", report["cause"]), "state of the connection")
    same(a.status()["last_report"] >= report["seq"], True, "number of the last report")


def document():
    told = a.good("GET", "/openapi.json")
    assert "/v1/configuration" in told["paths"] and "Connection" in told["components"]["schemas"]
    a.refused("not-found", 404, "GET", "/v2/status")
    a.refused("not-found", 405, "DELETE", "/v1/configuration")


def metrics():
    answer, text = a.request("GET", "/metrics")
    same(answer.status, 200, "status")
    numbers = dict(line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))
    same(numbers['superp_node_state{state="started"}'], "1", "state")
    same(numbers['superp_connections{state="broken"}'], "1", "broken connections")
    assert int(numbers['superp_connection_tx_packets_total{cid="1",peer="10.23.0.2"}']) > 0


def told_to_systemd():
    """Readiness, and then signs of life in half the time that the watchdog gives."""
    path = scratch / "notify"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        listener.bind(str(path))
        listener.settimeout(60)
        b.process.terminate()
        same(b.process.wait(), 0, "status of an agent that is told to end")
        b.up(NOTIFY_SOCKET=str(path), WATCHDOG_USEC="200000")
        told = [listener.recv(100).strip() for _ in range(3)]
        same(told, [b"READY=1", b"WATCHDOG=1", b"WATCHDOG=1"], "what systemd is told")


def shutdown():
    moving = traffic(100_000_000, wait=False)
    until("queue pairs", lambda: all(agent.status()["queue_pairs"] for agent in both))
    for agent in both:
        told = agent.good("POST", "/v1/shutdown", {"term": TERM, "grace_ms": 2000})
        same((told["state"], told["ports"]), ("shut-down", 1), "answer")
        node = agent.superp("node", "show")
        left = [node[of] for of in ("conns", "ports", "qps", "regions", "rma-base", "rma-size")]
        same(left, [0] * 6, "what is left")
        same(agent.status()["state"], "shut-down", "state")
        again = agent.good("POST", "/v1/shutdown", {"term": TERM})
        same((again["state"], again["processes"]), ("shut-down", []), "answer to the same again")
        same(agent.process.poll(), None, "status of the agent")
    moving.communicate(timeout=60)
    assert moving.returncode, "the initiator has ended well"


def shutdown_kills():
    """A process that takes no notice of SIGTERM is killed, and named."""
    body = configuration(a, 1)
    body["configuration"]["fabric"] = "another"
    a.good("PUT", "/v1/configuration", body)
    words = ("ip", "netns", "exec", a.namespace, sys.executable, "-c", STUBBORN, str(node_family()))
    stubborn = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
    same(stubborn.stdout.readline(), "bound\n", "what the stubborn process says")
    told = a.good("POST", "/v1/shutdown", {"term": TERM, "grace_ms": 200})
    process = [process for process in told["processes"] if process["pid"] == stubborn.pid]
    assert process and process[0]["killed"] and "python" in process[0]["program"], told
    same(stubborn.wait(), -signal.SIGKILL, "status of the stubborn process")


def node_family():
    return a.superp("node", "show")["family"]


# A queue pair is a socket; connecting or binding one needs an address, of which the number is all.
STUBBORN = """
import ctypes, signal, struct, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
libc = ctypes.CDLL(None, use_errno=True)
family = int(sys.argv[1])
fd = libc.socket(family, 5, 0)
address = struct.pack("=HHI16sI", family, 0, 0, bytes(16), 0xFFFFFFFF)
if fd < 0 or libc.bind(fd, address, len(address)):
    sys.exit(f"errno {ctypes.get_errno()}")
print("bound", flush=True)
time.sleep(600)
"""

try:
    results.case("an agent that would serve everybody must be asked to", unprotected_only_when_asked)
    results.case("capabilities", capabilities)
    results.case("a second agent is refused", second_agent)
    results.case("configure, ready, start", boot)
    results.case("data moves", data_moves)
    results.case("the same configuration again changes nothing", same_again)
    results.case("a bad configuration is refused as a whole", bad_configuration)
    results.case("what the kernel refuses is undone", kernel_refuses)
    results.case("the next generation leaves what is the same alone", next_generation)
    results.case("a stale term is refused", stale_term)
    results.case("an agent that is killed under traffic and starts again", restart_under_traffic)
    results.case("what somebody else changed is seen and mended", difference_is_seen)
    results.case("soft restart of a connection", soft_restart)
    results.case("hard restart of a connection", hard_restart)
    results.case("a broken connection is reported", broken_connection)
    results.case("the document of the interface", document)
    results.case("metrics", metrics)
    results.case("systemd is told that the agent is ready and lives", told_to_systemd)
    results.case("shutdown ends the applications and frees everything", shutdown)
    results.case("shutdown kills who does not end", shutdown_kills)
finally:
    for agent in both:
        agent.down()
    if results.failed:
        for log in sorted(scratch.glob("log*")):
            print("".join(f"# {log.name}: {line}" for line in log.read_text().splitlines(keepends=True)[-30:]))
    nodes.down()
results.end()
