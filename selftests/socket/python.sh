#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
# Python's sockets, by the lines that Documentation/uapi.md has for them: messages between two nodes.
set -euo pipefail
cd "$(dirname "$0")/.."
. lib/tap.sh
. lib/nodes.sh
. lib/superp.sh
folder=$(mktemp -d)
trap 'nodes_down; rm -rf "$folder"' EXIT
sed -n '/^```python$/,/^```$/{/^```/!p}' ../Documentation/uapi.md >"$folder/superp_socket.py"

# python NODE: runs the program on standard input there, with those lines as a module.
python() { on "$1" env PYTHONPATH="$folder" PYTHONDONTWRITEBYTECODE=1 timeout 100 python3 -; }

messages() {
	local receiver
	python "$nodeB" >"$folder/received" <<-'END' &
		import select
		from superp_socket import *
		sock = receiver(77)
		print("ready", flush=True)
		for _ in range(2):
		    select.select([sock], [], [])
		    print(sock.recv(1 << 20).decode())
		buffer = bytearray(1 << 20)
		length = sock.recv_into(buffer)
		print(length, set(buffer[:length]))
	END
	receiver=$!
	nodes_wait 20 grep -q ready "$folder/received" || return 1
	python "$nodeA" <<-'END' || return 1
		from superp_socket import *
		sock = sender("10.23.0.2", 77)
		sock.settimeout(50)
		assert sock.send(b"a message") == 9
		assert sock.sendmsg([b"in two", b" parts"]) == 12
		assert sock.send(b"x" * 300000) == 300000
	END
	wait "$receiver" || { cat "$folder/received"; return 1; }
	tap_equal "ready a message in two parts 300000 {120}" "$(xargs <"$folder/received")" received
}

refusals() {
	python "$nodeA" <<-'END'
		import errno
		from superp_socket import *
		def refused(number, function, *args):
		    try:
		        function(*args)
		    except OSError as error:
		        assert error.errno == number, error
		    else:
		        raise AssertionError("was not refused")
		refused(errno.EHOSTUNREACH, sender, "10.23.0.77", 77)
		refused(errno.EADDRNOTAVAIL, call, libc.bind, socket.socket(AF_SUPERP, socket.SOCK_SEQPACKET), address("fd23::77"))
		first = receiver(78)
		refused(errno.EADDRINUSE, receiver, 78)
		sock = sender("fd23::2", 79)
		sock.send(b"to nobody")
		refused(errno.ECONNREFUSED, sock.recv, 1)
	END
}

# What Python does by itself; where it can do more one day, the manual has to say so.
bad_family() {
	python "$nodeA" <<-'END'
		from superp_socket import *
		sock = sender("10.23.0.2", 77)
		name = ("10.23.0.2", 77)
		for function in (lambda: sock.bind(name), lambda: sock.connect(name), lambda: sock.sendto(b"x", name), sock.getsockname,
		                 sock.getpeername, lambda: sock.recvfrom(1), lambda: sock.recvmsg(1), lambda: sock.sendmsg([b"x"], [], 0, name)):
		    try:
		        function()
		    except OSError as error:
		        assert "bad family" in str(error), error
		    else:
		        raise AssertionError("works")
	END
}

nodes_up 9000
ports_up
connect sunh 64 ext on
connect sunh6 65 ext on
tap_case "messages, sent and received" messages
tap_case "refusals have their errors" refusals
tap_case "what Python cannot do is as the manual says" bad_family
tap_end
