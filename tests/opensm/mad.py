#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""MADs of a program at a host: class Host for tests; as a program the process that Host starts.

The process reads a line of JSON for each MAD, sends it by libibumad, and writes the answer as
another line.
"""
import ctypes
import json
import struct
import subprocess
import sys

GET, SET, DELETE = 1, 2, 0x15
TIMED_OUT = 110
SILENCE_MS = 5000
PORT_INFO, PKEY_TABLE, SL_TO_VL, SM_INFO = 0x15, 0x16, 0x17, 0x20
MCMEMBER, PATH = 0x38, 0x35
QKEY = 0x80010000


class Refused(Exception):
    """The answer to a MAD is an error; status is the MAD's, or a text."""

    def __init__(self, status):
        super().__init__(status if isinstance(status, str) else f"status {status:#06x}")
        self.status = status


class Host:
    """A process at a host that sends MADs one after the other."""

    def __init__(self, environment, directory):
        self.tid = 0
        self.process = subprocess.Popen([sys.executable, "-B", __file__], env=environment,
                                        cwd=directory, stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                                        text=True)

    def end(self):
        """Ends the process."""
        self.process.stdin.close()
        self.process.stdout.close()
        self.process.wait()

    def send(self, lid, mad):
        """Sends a MAD. Return: the answer"""
        self.process.stdin.write(json.dumps({"lid": lid, "mad": mad.hex()}) + "\n")
        self.process.stdin.flush()
        answer = json.loads(self.process.stdout.readline())
        if "error" in answer:
            raise Refused(answer["error"])
        mad = bytes.fromhex(answer["mad"])
        status = struct.unpack_from(">H", mad, 4)[0] & 0x7fff
        if status:
            raise Refused(status)
        return mad

    def header(self, mgmt_class, version, method, attribute, modifier):
        """The first 24 bytes of a MAD."""
        self.tid += 1
        return struct.pack(">BBBBHHQHHI", 1, mgmt_class, version, method, 0, 0, self.tid,
                           attribute, 0, modifier)

    def smp(self, path, attribute, modifier=0, data=None, key=0):
        """A directed route: path has the port by which each node sends it on. Return: 64 bytes"""
        head = bytearray(self.header(0x81, 1, SET if data else GET, attribute, modifier))
        head[6:8] = bytes((0, len(path)))      # HopPointer, HopCount
        mad = (bytes(head) + struct.pack(">Q", key) + b"\xff" * 4 + bytes(28) +
               (data or bytes(64)) + bytes((0, *path)).ljust(64, b"\0") + bytes(64))
        return self.send(0xffff, mad)[64:128]

    def port_info(self, path, port=0, key=0):
        """PortInfo of the node at the end of a route."""
        return self.smp(path, PORT_INFO, port, key=key)

    def set_lid(self, path, lid, lmc=0):
        """PortInfo with another LID; its state stays."""
        info = bytearray(self.port_info(path))
        struct.pack_into(">H", info, 16, lid)
        info[32] &= 0xf0
        info[33] = 0
        info[34] = info[34] & 0xf8 | lmc
        self.smp(path, PORT_INFO, 0, bytes(info))

    def sm_lid(self):
        """The MasterSMLID of this host."""
        return struct.unpack_from(">H", self.port_info(()), 18)[0]

    def sa(self, method, attribute, mask, record, lid=None):
        """Sends a request for a record to the SA. Return: 64 bytes"""
        mad = (self.header(3, 2, method, attribute, 0) + bytes(12) + bytes(12) +
               struct.pack(">Q", mask) + record.ljust(200, b"\0"))
        return self.send(lid or self.sm_lid(), mad)[56:120]

    def path(self, here, there, service=None):
        """PathRecord between two LIDs, of a ServiceID: {"sl", "mtu", "rate", "dlid", "pkey"}"""
        record = bytearray(64)
        struct.pack_into(">Q", record, 0, service or 0)
        struct.pack_into(">HH", record, 40, there, here)
        # DLID, SLID, both parts of ServiceID; NumbPath is 1 for a Get
        found = self.sa(GET, PATH, 1 << 4 | 1 << 5 | (0 if service is None else 3), bytes(record))
        return {"dlid": struct.unpack_from(">H", found, 40)[0],
                "slid": struct.unpack_from(">H", found, 42)[0],
                "pkey": struct.unpack_from(">H", found, 50)[0], "sl": found[53] & 15,
                "mtu": found[54] & 63, "rate": found[55] & 63}

    def member(self, method, mgid, port_guid, state, create):
        """MCMemberRecord of this port. Return: {"mlid", "state"}"""
        record = bytearray(52)
        record[0:16] = mgid
        struct.pack_into(">QQ", record, 16, 0xfe80000000000000, port_guid)
        mask = 1 | 1 << 1 | 1 << 16     # MGID, PortGID, JoinState
        if create:
            mask |= 1 << 2 | 1 << 6 | 1 << 7 | 1 << 12 | 1 << 13
            struct.pack_into(">I", record, 32, 0x0b1b)          # Q_Key
            struct.pack_into(">H", record, 40, 0xffff)          # P_Key; TClass, SL, FlowLabel are 0
        record[48] = state
        found = self.sa(method, MCMEMBER, mask, bytes(record))
        return {"mlid": struct.unpack_from(">H", found, 36)[0], "state": found[48] & 15}

    def join(self, mgid, port_guid, state=1, create=True):
        """Joins a group, and makes it if it does not exist."""
        return self.member(SET, mgid, port_guid, state, create)

    def leave(self, mgid, port_guid, state=1):
        """Leaves the group."""
        return self.member(DELETE, mgid, port_guid, state, False)


class Port:
    """libibumad at this host's port, as the process uses it."""

    def __init__(self):
        self.lib = ctypes.CDLL("libibumad.so.3")
        self.lib.umad_get_mad.restype = ctypes.c_void_p
        self.lib.umad_get_mad.argtypes = [ctypes.c_void_p]
        self.lib.umad_set_addr.argtypes = [ctypes.c_void_p] + 4 * [ctypes.c_int]
        self.lib.umad_status.argtypes = [ctypes.c_void_p]
        self.lib.umad_send.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_void_p] + 3 * [
            ctypes.c_int]
        self.lib.umad_recv.argtypes = [ctypes.c_int, ctypes.c_void_p,
                                       ctypes.POINTER(ctypes.c_int), ctypes.c_int]
        self.lib.umad_init()
        self.fd = self.lib.umad_open_port(None, 1)
        self.agents = {c: self.lib.umad_register(self.fd, c, v, r, None)
                       for c, v, r in ((0x81, 1, 0), (3, 2, 1))}
        self.umad = ctypes.create_string_buffer(self.lib.umad_size() + 256)
        self.at = self.lib.umad_get_mad(self.umad)

    def call(self, lid, mad):
        """Sends a MAD. Return: the answer as an object"""
        ctypes.memset(self.umad, 0, self.lib.umad_size())
        ctypes.memmove(self.at, mad, 256)
        direct = lid == 0xffff
        # libibumad's addresses are in host order
        self.lib.umad_set_addr(self.umad, lid, 0 if direct else 1, 0, 0 if direct else QKEY)
        if self.lib.umad_send(self.fd, self.agents[mad[1]], self.umad, 256, SILENCE_MS, 0) < 0:
            return {"error": "it cannot be sent"}
        while True:
            size = ctypes.c_int(256)
            if self.lib.umad_recv(self.fd, self.umad, ctypes.byref(size), SILENCE_MS) < 0:
                return {"error": "silence"}
            answer = ctypes.string_at(self.at, 256)
            if answer[12:16] != mad[12:16]:
                continue        # an answer that arrived too late
            if self.lib.umad_status(self.umad):
                return {"error": "undelivered"}
            return {"mad": answer.hex()}


def main():
    """Runs until the end of the input."""
    port = Port()
    for line in sys.stdin:
        request = json.loads(line)
        answer = port.call(request["lid"], bytes.fromhex(request["mad"]))
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
