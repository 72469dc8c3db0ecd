# SPDX-License-Identifier: GPL-2.0-or-later
"""Large fabrics in ohca-fabric and in ibsim, with the same OpenSM and the same topology files."""
from bench.report import Table, collect

NAME = "scale"
SPECS = ("fat-tree:36", "fat-tree:64", "fat-tree:36,3")


def tables():
    """The tables of this part."""
    both = ("ohca", "ibsim")
    return [
        Table("sweep", "From OpenSM's begin to SUBNET UP", "fabric", {c: "s" for c in both},
              "bars"),
        Table("smp", "SMPs in a second of processor time of the fabric and, of its sweeps, of "
              "OpenSM", "fabric", {c: "k/s" for c in (*both, "OpenSM")}, "bars"),
        Table("load", "From the begin of the program until it serves its file", "fabric",
              {c: "ms" for c in both}),
        Table("memory", "Memory at the most, for each node", "fabric", {c: "bytes" for c in both}),
        Table("idle", "Processor time when nobody asks", "fabric", {c: "us/s" for c in both}),
    ]


def measure(bench, found):
    """Sweeps all fabrics with both programs in turns."""
    fabric = f"{bench.build}/fabric/ohca-fabric"
    counter = f"{bench.host}/tests/fabric/libcount_smps.so"
    bench.make("fabric", counter)
    for _ in bench.rounds():
        collect(bench.in_root(f"{bench.top}/tests/fabric/bench_opensm.py", fabric, counter,
                              "--rounds", "1", "--report", *SPECS), found)
