#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""OpenSM's performance manager at a fabric: perfmgr.py FABRIC [SPEC [SWEEPS]]

OpenSM, at the first host by libumad2sim, asks for the counters of all ports in SWEEPS (10) sweeps,
with 500 queries outstanding. In each it is stopped for a second, so that its answers do not fit its
socket. Each sweep must end with as many queries as the others, and without losses. It prints a line
for each sweep; the status is 0 if all are right.
"""
import glob
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time

LIBRARY = "".join(glob.glob("/usr/lib/*/umad2sim/libumad2sim.so"))
PATIENCE = 60
CONF = """\
perfmgr TRUE
perfmgr_sweep_time_s 3600
perfmgr_max_outstanding_queries 500
event_db_dump_file none
sweep_interval 0
console local
force_log_flush TRUE
"""


def wait_until(true, what, seconds=PATIENCE):
    """Waits until true() is true."""
    end = time.monotonic() + seconds
    while not true():
        if time.monotonic() > end:
            sys.exit(f"FAIL: perfmgr: not within {seconds} s: {what}")
        time.sleep(0.01)


def text(path):
    """The text of a file that may not exist yet."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except FileNotFoundError:
        return ""


class Manager:
    """OpenSM with a console."""

    def __init__(self, env):
        with open("conf", "w", encoding="ascii") as file:
            file.write(CONF)
        # pylint: disable=consider-using-with
        self.process = subprocess.Popen(["opensm", "-F", "conf", "-f", "osm.log"], env=env,
                                        stdin=subprocess.PIPE, stdout=open("console", "wb"),
                                        stderr=subprocess.STDOUT)

    def say(self, line):
        """Sends a command to the console."""
        self.process.stdin.write(line.encode() + b"\n")
        self.process.stdin.flush()

    def outstanding(self):
        """The number of queries without an answer; None if the sweep has not ended."""
        before = len(text("console"))
        self.say("perfmgr")
        wait_until(lambda: "query ClassPortInfo" in text("console")[before:], "OpenSM's console")
        answer = text("console")[before:]
        if re.search(r"sweep state +: Sleeping", answer):
            return int(re.search(r"outstanding queries/max +: (\d+)/", answer)[1])
        return None

    def stop(self):
        """Stops OpenSM for a second."""
        self.process.send_signal(signal.SIGSTOP)
        time.sleep(1)
        self.process.send_signal(signal.SIGCONT)


def status(fabric):
    """The status of the fabric."""
    return json.loads(subprocess.run([fabric, "status", "-c", "control", "-j"], check=True,
                                     capture_output=True).stdout)


def sweep(fabric, manager, number):
    """Runs one sweep, with a stop as soon as its queries arrive. Return: the queries"""
    before = status(fabric)["other_mads"]
    manager.say("perfmgr sweep")
    wait_until(lambda: status(fabric)["other_mads"] > before, "the sweep begins")
    manager.stop()
    begin = time.monotonic()
    wait_until(lambda: manager.outstanding() == 0, "the sweep ends")
    state = status(fabric)
    print(f"perfmgr: sweep {number}: {state['other_mads'] - before} queries, "
          f"{time.monotonic() - begin:.2f} s from the stop to the end, "
          f"{state['lost_mads']} MADs lost", flush=True)
    return state["other_mads"] - before, state["lost_mads"]


def run(fabric, env, sweeps):
    """Runs all sweeps. Return: whether they have the same queries, and nothing is lost"""
    manager = Manager(env)
    try:
        wait_until(lambda: "SUBNET UP" in text("osm.log"), "SUBNET UP")
        # the first one queries ClassPortInfo only
        sweep(fabric, manager, 0)
        results = {sweep(fabric, manager, i + 1) for i in range(sweeps)}
    finally:
        manager.process.kill()
        manager.process.wait()
    errors = [line for line in text("osm.log").splitlines() if " ERR " in line]
    print("\n".join(errors[:10]), end="\n" if errors else "")
    return len(results) == 1 and results.pop()[1] == 0 and not errors


def main():
    """Runs the test."""
    fabric = os.path.abspath(sys.argv[1])
    spec = sys.argv[2] if len(sys.argv) > 2 else "fat-tree:36"
    sweeps = int(sys.argv[3]) if len(sys.argv) > 3 else 10
    name = f"perfmgr-{os.getpid()}"
    with tempfile.TemporaryDirectory() as directory:
        os.chdir(directory)             # libumad2sim makes directories where it is started
        env = {**os.environ, "LD_PRELOAD": LIBRARY, "IBSIM_SOCKNAME": name,
               "OSM_TMP_DIR": ".", "OSM_CACHE_DIR": "."}
        with subprocess.Popen([fabric, "serve", "--generate", spec, f"--umad2sim={name}",
                               "--control", "control"], stdout=subprocess.PIPE) as served:
            try:
                served.stdout.readline()
                good = run(fabric, env, sweeps)
            finally:
                served.kill()
        os.chdir("/")
    print(f"{'PASS' if good else 'FAIL'}: perfmgr: {sweeps} sweeps of {spec}")
    sys.exit(not good)


if __name__ == "__main__":
    main()
