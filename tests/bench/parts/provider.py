# SPDX-License-Identifier: GPL-2.0-or-later
"""Instructions of our provider and of others in the same rdma-core, with fake queues."""
from bench.report import Table, collect

NAME = "provider"
PROVIDERS = ("ohca", "mlx5", "efa", "erdma", "rxe")
# The counts do not change: a second run checks that.
RUNS = 2


def tables():
    """The tables of this part."""
    return [Table("instructions", "User instructions of an operation", "operation",
                  {p: "" for p in PROVIDERS}, "bars",
                  note="The marginal WR of efa is a SEND of a datagram.")]


def measure(bench, found):
    """Counts all instructions."""
    bench.make("bench/provider", "peers")
    for _ in bench.rounds(RUNS):
        collect(bench.in_root(f"{bench.top}/tests/bench/provider/run", "--report",
                              f"{bench.host}/tests/bench-provider/bench"), found)
