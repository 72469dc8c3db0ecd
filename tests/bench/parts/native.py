# SPDX-License-Identifier: GPL-2.0-or-later
"""Engines and fabric in one thread of one process, and a wire between two fabrics. No machine.

Rates are by processor time, except those of the wire; one-way times are by the clock.
"""
from bench.report import Table, collect

NAME = "native"
PROGRAMS = (("engine_bench", "report"), ("hops_bench",), ("wire_bench",))


def tables():
    """The tables of this part."""
    return [
        Table("rate", "Messages of two engines back to back, and copies of the same bytes between "
              "the same buffers", "operation", {"ohca": "k/s", "memcpy": "k/s"}),
        Table("bandwidth", "RC between two engines back to back, beside memcpy() of the same "
              "buffers", "bytes", {"write": "GB/s", "read": "GB/s", "memcpy": "GB/s"}, "lines",
              "xy"),
        Table("one-way", "From a WQE to its CQE, one message at a time", "operation",
              {"p50": "ns", "p99": "ns", "memcpy": "ns"}),
        Table("queues", "RC writes of 8 bytes by many QPs", "QPs",
              {"all active": "k/s", "in turn": "k/s", "memcpy": "k/s", "memory": "bytes a QP"},
              "lines", "x", ["all active", "in turn"],
              note="all active: each QP always has 16 WQEs. in turn: 64 WQEs are under way, and a "
                   "QP gets its next WQE after all other QPs, so each message activates an idle "
                   "QP. memory: what a QP needs of the device's memory."),
        Table("hosted", "RC between HCAs that the fabric's process hosts, through switches; 0: "
              "back to back", "switches",
              {"8 B": "k/s", "1 MiB": "GB/s", "memcpy": "GB/s", "one way": "ns"}, "lines", "",
              ["1 MiB", "memcpy"],
              note="One thread takes a message over all switches. 8 B and 1 MiB are writes, and "
                   "one way is that of a SEND of 8 bytes."),
        Table("wire", "Packets from one process to another over a wire by TCP, on loopback",
              "bytes", {"wire": "GB/s", "TCP": "GB/s"},
              note="By the clock. TCP is one stream of blocks of 128 KiB between two processes, "
                   "as iperf3 has it. Both leave what they carry unread."),
    ]


def measure(bench, found):
    """Runs all programs in turns, as often as the bench has rounds."""
    bench.make("bench", "all")
    for _ in bench.rounds():
        for program, *more in PROGRAMS:
            collect(bench.in_root(f"{bench.host}/tests/bench/{program}", str(bench.seconds),
                                  *more), found)
