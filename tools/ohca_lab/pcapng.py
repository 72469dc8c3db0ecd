# SPDX-License-Identifier: GPL-2.0-or-later
"""Reads the data packets of a capture that 'ohca-fabric capture' has written."""
import struct
from collections import namedtuple

PACKET_BLOCK = 6    # type of an Enhanced Packet Block
BLOCK_HEAD = 28     # its bytes in front of the packet
ERF = 16            # bytes of the ERF record's header at the beginning of the packet
LRH, BTH = 8, 12
BTH_NEXT = 2        # LNH of the LRH: a BTH follows, no GRH

# slid, dlid, opcode, qp (of the destination) and psn are numbers; rest is what follows the BTH.
Packet = namedtuple("Packet", "slid dlid opcode qp psn rest")


def packets(data):
    """Yields the Packets of a pcapng file, except MADs; ends at the first damaged block."""
    at = 0
    while at + 12 <= len(data):
        kind, size = struct.unpack_from("<II", data, at)
        if size < 12 or at + size > len(data):
            return
        if kind == PACKET_BLOCK and size >= BLOCK_HEAD + 4:
            length = min(struct.unpack_from("<I", data, at + 20)[0], size - BLOCK_HEAD - 4)
            packet = data[at + BLOCK_HEAD + ERF:at + BLOCK_HEAD + length]
            # queue pairs 0 and 1 are for MADs
            if (len(packet) >= LRH + BTH and packet[1] & 3 == BTH_NEXT
                    and int.from_bytes(packet[13:16], "big") > 1):
                dlid, _, slid = struct.unpack_from(">HHH", packet, 2)
                yield Packet(slid, dlid, packet[LRH], int.from_bytes(packet[13:16], "big"),
                             int.from_bytes(packet[17:20], "big"), packet[LRH + BTH:])
        at += size
