# SPDX-License-Identifier: GPL-2.0-or-later
"""Two machines of this checkout and two of another one, in turns.

Each turn has a lab of its own, in a process of its own (tests/bench/turn.py). The other checkout,
BENCH_BESIDE, is built already.
"""
import json
import os
import subprocess
import sys

from bench.parts import machines
from bench.report import Table, collect

NAME = "beside"
OURS, BESIDE = "ours", "beside"
COLUMNS = (OURS, BESIDE)
TURN = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "turn.py")
TCP_S = 3
TCP_PORT = 5201


def beside():
    """The path of the other checkout, or an empty text."""
    return os.environ.get("BENCH_BESIDE", "")


def note():
    """The commit of the other checkout."""
    try:
        commit = subprocess.run(["git", "-C", beside() or "/", "rev-parse", "--short=12", "HEAD"],
                                stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
                                check=False).stdout.strip()
    except FileNotFoundError:   # the build root has no git
        commit = ""
    return f"Beside it is commit {commit or 'unknown'}."


def tables():
    """The tables of this part."""
    return [
        Table("bandwidth", "This commit and another one: bandwidth", "program",
              {c: "GB/s" for c in COLUMNS}, "bars", note=note()),
        Table("rate", "This commit and another one: messages", "program",
              {c: "k/s" for c in COLUMNS}),
        Table("latency", "This commit and another one: one way, 8 bytes", "program",
              {c: "us" for c in COLUMNS}, "bars", "y"),
        Table("cpu", "Processor time of both QEMUs and of the fabric for a GB: of ib_write_bw, "
              "1 MiB, by process, and of TCP", "process", {c: "s/GB" for c in COLUMNS}),
        Table("threads", "What threads did for a message of ib_send_lat: they ran, and waited "
              "for a processor", "thread",
              {f"{c}, {w}": "us" for c in COLUMNS for w in ("ran", "waited")}),
    ]


def tcp(pair, by_name, column):
    """A stream over IPoIB, and the processor time for its bytes."""
    for k in (1, 2):
        status, text = pair.lab.capture(k, f"ip addr replace 10.77.0.{k}/24 dev ib0")
        if status:
            raise SystemExit(f"bench: node{k}: {text}")
    before = pair.threads()
    status, server, client = pair.lab.pair("iperf3 -s -1", f"iperf3 -c 10.77.0.1 -J -t {TCP_S}",
                                           TCP_PORT, machines.LIMIT_S)
    if status:
        raise SystemExit(f"bench: iperf3: status {status}\n{server}\n{client}")
    spent = machines.used(before, pair.threads())
    received = json.loads(client[client.index("{"):])["end"]["sum_received"]
    by_name["bandwidth"].add("TCP over IPoIB", column, received["bits_per_second"] / 8e9)
    by_name["cpu"].add("all, TCP", column,
                       sum(ran for ran, _ in spent.values()) / (received["bytes"] / 1e9))


def one(pair, by_name, column):
    """Runs all programs in one lab."""
    machines.bandwidth(pair, by_name, column, "ib_write_bw", "ohca")
    machines.rate(pair, by_name, column, "ib_write_bw", "ohca")
    machines.latencies(pair, by_name, column, "ohca")
    tcp(pair, by_name, column)


def turn(column, top):
    """The output of turn.py for a column, as collect() reads it."""
    env, tree = dict(os.environ), top
    if column == BESIDE:
        # it has a build of its own
        env.pop("OHCA_BUILD", None)
        tree = os.path.realpath(beside())
    with subprocess.Popen([sys.executable, "-B", TURN, tree, column],
                          stdout=subprocess.PIPE, text=True, env=env) as process:
        try:
            text, _ = process.communicate()
        finally:
            # it ends its lab
            if process.poll() is None:
                process.terminate()
    if process.returncode:
        raise SystemExit(f"bench: {column}: status {process.returncode}")
    return text


def fault():
    """The reason why this part cannot run here, or None."""
    if beside() and os.path.exists(os.path.join(beside(), "tools", "ohca-lab")):
        return None
    return f"needs another checkout: BENCH_BESIDE={beside()} is none"


def measure(bench, found):
    """Measures both in turns: A B, B A."""
    for n in bench.rounds():
        for column in COLUMNS[::1 if n % 2 else -1]:
            collect(turn(column, bench.top), found)
