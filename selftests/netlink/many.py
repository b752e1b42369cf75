#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Makes many objects, quickly: many.py conns FIRST LAST STEP | many.py ports DEVICE…

Connections go over the port eth0 to 10.23.0.2.
"""

import socket
import sys

from nl import *

nl = Netlink()
if sys.argv[1] == "conns":
    for cid in range(*map(int, sys.argv[2:5])):
        nl.ask(CONN_NEW, u16(CONN_LOCAL_CID, cid) + u16(CONN_REMOTE_CID, cid) + u32(CONN_ENCAP, 0)
               + u32(CONN_IFINDEX, socket.if_nametoindex("eth0")) + attr(CONN_REMOTE_ADDR, mapped("10.23.0.2")))
elif sys.argv[1] == "ports":
    for device in sys.argv[2:]:
        nl.ask(PORT_NEW, u32(PORT_IFINDEX, socket.if_nametoindex(device)) + u32(PORT_ENCAP, 1))
else:
    sys.exit(__doc__)
