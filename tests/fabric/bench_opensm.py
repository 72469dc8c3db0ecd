#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""OpenSM's first sweep of large fabrics: bench_opensm.py FABRIC COUNTER [OPTION...] [SPEC...]

FABRIC is ohca-fabric, COUNTER libcount_smps.so. Each round runs OpenSM once against ohca-fabric
and once against ibsim, on the same topology file. It prints medians, with the least values in
parentheses.
Processor time hardly depends on other work of the machine; elapsed time does. With --report, each
round prints TABLE, ROW, COLUMN and VALUE for tests/bench/run.
"""
import argparse
import contextlib
import glob
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time

LIBRARY = "".join(glob.glob("/usr/lib/*/umad2sim/libumad2sim.so"))
IDLE_S = 2
SOCKET = f"bench-{os.getpid()}"
ATTRIBUTES = {0x10: "NodeDescription", 0x11: "NodeInfo", 0x12: "SwitchInfo", 0x14: "GUIDInfo",
              0x15: "PortInfo", 0x16: "P_KeyTable", 0x17: "SLtoVL", 0x18: "VLArbitration",
              0x19: "LinearForwarding", 0x1b: "MulticastForwarding", 0x20: "SMInfo"}


def start(name, fabric):
    """Starts the simulator with the file "topology"; returns it, and the seconds to load it."""
    argv = [fabric, "serve", "--topology", "topology", f"--umad2sim={SOCKET}"]
    if name == "ibsim":
        argv = ["ibsim", "-s", "-n", "-N", "65536", "-S", "8192", "-P", "400000", "-L", "49151",
                "-M", "1024", "topology"]
    begin = time.monotonic()
    # ibsim reads commands from standard input, and ends at its end
    child = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL,
                             stderr=subprocess.DEVNULL, env={**os.environ,
                                                             "IBSIM_SOCKNAME": SOCKET})
    while True:
        with open("/proc/net/unix", encoding="ascii") as f:
            if f"@{SOCKET}:ctl" in f.read():
                return child, time.monotonic() - begin
        if child.poll() is not None:
            sys.exit(f"bench_opensm: {name} ended")
        time.sleep(0.002)


def usage(pid):
    """Processor time in microseconds, and the number of times that it slept."""
    with open(f"/proc/{pid}/schedstat", encoding="ascii") as f:
        cpu = int(f.read().split()[0]) / 1000
    with open(f"/proc/{pid}/status", encoding="ascii") as f:
        return cpu, int(re.search(r"^voluntary_ctxt_switches:\s+(\d+)", f.read(), re.M)[1])


def peak_mb(pid):
    """The peak of the memory."""
    with open(f"/proc/{pid}/status", encoding="ascii") as f:
        return int(re.search(r"VmHWM:\s+(\d+)", f.read())[1]) * 1024 / 1e6


def opensm(counter):
    """One sweep: seconds to SUBNET UP, OpenSM's processor time in seconds, SMPs by attribute."""
    with contextlib.suppress(FileNotFoundError):
        os.remove("osm.log")
    before = os.times()
    subprocess.run(["opensm", "-o", "-f", "osm.log"], stdout=subprocess.DEVNULL,
                   stderr=subprocess.DEVNULL, timeout=1800, check=False,
                   env={**os.environ, "LD_PRELOAD": f"{counter} {LIBRARY}",
                        "COUNT_SMPS": os.path.abspath("counts"), "IBSIM_SOCKNAME": SOCKET,
                        "OSM_TMP_DIR": ".", "OSM_CACHE_DIR": "."})
    after = os.times()
    with open("osm.log", encoding="utf-8") as f:
        log = f.read()
    times = re.findall(r"^\w+ +\d+ (\d+):(\d+):(\d+) (\d+) .*-> (OpenSM 3|SUBNET UP)", log, re.M)
    if not times or times[-1][-1] != "SUBNET UP":
        sys.exit("bench_opensm: OpenSM did not set the subnet up")
    stamps = [int(h) * 3600 + int(m) * 60 + int(s) + int(us) / 1e6 for h, m, s, us, _ in times]
    with open("counts", encoding="ascii") as f:
        counts = {tuple(line.split()[1:3]): int(line.split()[3]) for line in f}
    cpu = (after.children_user + after.children_system -
           before.children_user - before.children_system)
    return (stamps[-1] - stamps[0]) % 86400, cpu, counts


def measure(name, fabric, counter):
    """One round of one simulator."""
    child, load = start(name, fabric)
    try:
        cpu, slept = usage(child.pid)
        sweep, sm_cpu, counts = opensm(counter)
        cpu_after, slept_after = usage(child.pid)
        smps = sum(counts.values())
        begin, idle = time.monotonic(), cpu_after
        time.sleep(IDLE_S)
        idle = (usage(child.pid)[0] - idle) / (time.monotonic() - begin)
        return {"idle": idle, "load": load, "sweep": sweep, "sm_cpu": sm_cpu, "smps": smps,
                "counts": counts,
                "us": (cpu_after - cpu) / smps, "sm_us": sm_cpu * 1e6 / smps,
                "sleeps": (slept_after - slept) / smps, "mb": peak_mb(child.pid)}
    finally:
        child.kill()
        child.communicate()


def report(spec, nodes, name, run):
    """The lines of a round of a simulator."""
    column = {"ohca-fabric": "ohca"}.get(name, name)
    for table, value in (("load", run["load"] * 1000), ("sweep", run["sweep"]),
                         ("smp", 1000 / run["us"]), ("memory", run["mb"] * 1e6 / nodes),
                         ("idle", run["idle"])):
        print(f"{table}\t{spec}\t{column}\t{value:.6g}", flush=True)
    if name == "ohca-fabric":
        print(f"smp\t{spec}\tOpenSM\t{1000 / run['sm_us']:.6g}", flush=True)


def say(spec, name, runs):
    """Prints a line for one simulator."""
    def both(key, form):
        values = [run[key] for run in runs]
        return f"{statistics.median(values):{form}} ({min(values):{form}})"
    print(f"{spec} {name}: load {both('load', '.3f')} s, SUBNET UP {both('sweep', '.3f')} s, "
          f"{runs[0]['smps']} SMPs; an SMP costs {both('us', '.2f')} us and "
          f"{both('sleeps', '.2f')} sleeps, and OpenSM {both('sm_us', '.2f')} us; "
          f"{runs[0]['mb']:.1f} MB", flush=True)


def say_counts(runs):
    """Prints the SMPs by attribute, of both simulators."""
    for key in sorted(set().union(*(run["counts"] for run in runs.values()))):
        numbers = ", ".join(f"{name} {run['counts'].get(key, 0)}" for name, run in runs.items())
        print(f"    {key[1]} {ATTRIBUTES.get(int(key[0], 16), key[0])}: {numbers}", flush=True)


def main():
    """Runs the rounds."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("fabric", type=os.path.abspath)
    parser.add_argument("counter", type=os.path.abspath)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--report", action="store_true")
    parser.add_argument("spec", nargs="*", default=["fat-tree:36", "fat-tree:64", "fat-tree:36,3"])
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        os.chdir(directory)             # libumad2sim makes directories where it is started
        for spec in args.spec:
            with open("topology", "w", encoding="ascii") as f:
                subprocess.run([args.fabric, "generate", spec], stdout=f, check=True)
            with open("topology", encoding="ascii") as f:
                nodes = len(re.findall("^(?:Switch|Ca)\\s", f.read(), re.M))
            runs = {"ohca-fabric": [], "ibsim": []}
            for _ in range(args.rounds):
                for name, of in runs.items():
                    of.append(measure(name, args.fabric, args.counter))
                    if args.report:
                        report(f"{spec}: {nodes:,} nodes", nodes, name, of[-1])
            if args.report:
                continue
            for name, of in runs.items():
                say(spec, name, of)
            say_counts({name: of[0] for name, of in runs.items()})
        os.chdir("/")


if __name__ == "__main__":
    main()
