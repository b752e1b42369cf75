#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Sends a raw Ethernet frame: inject.py DEVICE DESTINATION ETHERTYPE PAYLOAD-HEX [COUNT].

The payload is what follows the EtherType; frames are not padded, so that runts can be made.
"""

import socket
import sys


def main(device, destination, ethertype, payload, count="1"):
    link = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
    link.bind((device, 0))
    source = link.getsockname()[4]
    frame = bytes.fromhex(destination.replace(":", "")) + source
    frame += int(ethertype, 0).to_bytes(2, "big") + bytes.fromhex(payload)
    for _ in range(int(count)):
        link.send(frame)


if __name__ == "__main__":
    if len(sys.argv) not in (5, 6):
        sys.exit(__doc__)
    main(*sys.argv[1:])
