#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""OpenSM's engine ftree on broken fat trees: ftree.py FABRIC

It serves each topology of TOPOLOGIES with a comment "# ftree: ENGINE [ERR]...", and OpenSM sweeps
it once with the engine ftree. ENGINE is the one that must have configured the tables: ftree, or
minhop after it. ERRs are the numbers of all errors in the log. Each host must reach the next one in
either case. It prints a line for each topology.
"""
import glob
import os
import re
import subprocess
import sys
import tempfile

LIBRARY = "".join(glob.glob("/usr/lib/*/umad2sim/libumad2sim.so"))
PATIENCE = 30


def expected():
    """Pairs of a topology and the text of its comment."""
    directory = os.path.abspath(os.environ["TOPOLOGIES"])
    for name in sorted(os.listdir(directory)):
        path = os.path.join(directory, name)
        with open(path, encoding="utf-8", errors="replace") as f:
            said = re.search(r"^# ftree: (.*)$", f.read(), re.M)
        if said:
            yield path, said[1]


def check(fabric, path, socket):
    """The result in the log, in the comment's format; and hosts that do not reach the next."""
    with subprocess.Popen([fabric, "serve", "--topology", path, f"--umad2sim={socket}",
                           "--control", "control"], stdout=subprocess.PIPE) as served:
        try:
            served.stdout.readline()
            env = {**os.environ, "LD_PRELOAD": LIBRARY, "IBSIM_SOCKNAME": socket,
                   "OSM_TMP_DIR": ".", "OSM_CACHE_DIR": "."}
            subprocess.run(["opensm", "-o", "-R", "ftree", "-f", "osm.log"], env=env, check=True,
                           timeout=PATIENCE, capture_output=True)
            hosts = subprocess.run([fabric, "hosts", "--topology", path], check=True,
                                   capture_output=True, encoding="utf-8").stdout.splitlines()
            hosts = [line.split()[0] for line in hosts]
            lost = [a for a, b in zip(hosts, hosts[1:] + hosts[:1])
                    if subprocess.run([fabric, "trace", a, b, "-c", "control"], check=False,
                                      timeout=PATIENCE, capture_output=True).returncode]
        finally:
            served.terminate()
    with open("osm.log", encoding="utf-8", errors="replace") as f:
        log = f.read()
    engines = re.findall(r"(\w+) tables configured on all switches", log)
    return " ".join(engines + sorted(set(re.findall(r" ERR (\w+):", log)))), lost


def main():
    """Checks all topologies."""
    fabric = os.path.abspath(sys.argv[1])
    bad = count = 0
    for path, want in expected():
        count += 1
        with tempfile.TemporaryDirectory() as directory:
            os.chdir(directory)
            said, lost = check(fabric, path, f"ftree-{os.getpid()}")
            os.chdir("/")
        wrong = said != want or lost
        print(f"{'FAIL' if wrong else 'PASS'}: {os.path.basename(path)}: {said}" +
              (f", not {want}" if said != want else "") +
              (f"; not every host reaches the next one: {lost}" if lost else ""))
        bad += bool(wrong)
    sys.exit(bad > 0 or count < 5)


if __name__ == "__main__":
    main()
