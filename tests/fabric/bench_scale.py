#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""How long large fabrics take to load, and their memory: bench_scale.py FABRIC

Each fabric is served from a file that 'ohca-fabric generate' wrote. The time ends when the fabric
prints that it is ready; the memory is VmHWM of the process then. Status 1: a limit is exceeded.
"""
import os
import re
import subprocess
import sys
import tempfile
import time

# SPEC, hosts, seconds, MB
TREES = (("fat-tree:36,3", 11664, 0.3, 64), ("fat-tree:54,3", 39366, 1.0, 300))
ROUNDS = 3


def load(fabric, path):
    """Seconds until the fabric is ready, and its memory in MB."""
    begin = time.monotonic()
    with subprocess.Popen([fabric, "serve", "--topology", path, "--control", "control"],
                          stdout=subprocess.PIPE, text=True) as child:
        try:
            line = child.stdout.readline()
            seconds = time.monotonic() - begin
            if "ready" not in line:
                sys.exit(f"{path} is not served: {line}")
            with open(f"/proc/{child.pid}/status", encoding="ascii") as f:
                memory = int(re.search(r"VmHWM:\s+(\d+) kB", f.read())[1])
        finally:
            child.terminate()
    return seconds, memory * 1024 / 1e6


def main():
    """Loads all trees; returns the exit status."""
    fabric = os.path.abspath(sys.argv[1])
    beyond = 0
    with tempfile.TemporaryDirectory() as where:
        os.chdir(where)
        for spec, hosts, most_s, most_mb in TREES:
            with open("tree", "wb") as f:
                subprocess.run([fabric, "generate", spec], stdout=f, check=True)
            seconds, memory = min(load(fabric, "tree") for _ in range(ROUNDS))
            beyond += seconds > most_s or memory > most_mb
            print(f"{spec}: {hosts} hosts loaded in {seconds:.3f} s (limit {most_s:g}), "
                  f"{memory:.1f} MB (limit {most_mb})", flush=True)
        os.chdir("/")
    return 1 if beyond else 0


sys.exit(main())
