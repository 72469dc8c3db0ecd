# SPDX-License-Identifier: GPL-2.0-or-later
"""Labs of several hosts on one fabric; here all on one host, by TCP over the loopback."""
import os
import re
import subprocess

from ohca_lab import join, paths

from .harness import DEV, PERF_PORT, Group, find, need, tail, until

GROUP = Group("join", ("-n", "1", "--listen", "127.0.0.1:0"), debug=False)
GROUPS = [GROUP]

LAB = os.path.join(paths.TOP, "tools", "ohca-lab")
SIZE, ROUNDS = 65536, 200
TRAFFIC = f"-d {DEV} -s {SIZE} -n {ROUNDS} -p {PERF_PORT}"
# Commands of node 2: it is a node like any other, and knows the others by their names.
COMMAND = f"""set -e
[ "$(hostname)" = node2 ]
ping -q -c 3 -W 10 node1
ping -q -c 1 -W 10 node1-ib
[ "$(ssh -o ConnectTimeout=20 node1 hostname)" = node1 ]
ib_send_bw {TRAFFIC} node1
"""


def node(b, number, *words):
    """Starts a node that joins; returns its process."""
    return subprocess.Popen([LAB, "node", "--join", join.address(b.lab), "--number", str(number),
                             *words], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                            stderr=subprocess.STDOUT, text=True)


def ended(b, process, seconds):
    """Waits for a process; returns its status and what it printed."""
    try:
        text, _ = process.communicate(timeout=seconds * b.slow)
    except subprocess.TimeoutExpired:
        process.terminate()
        text, _ = process.communicate(timeout=30)
        need(False, f"not done in {seconds} s: {tail(text)}")
    return process.returncode, text


def nodes_of(b):
    """The names of the channel adapters of the subnet."""
    return set(re.findall(r'^Ca.*# "(\S+)"$', b.sh(1, "ibnetdiscover", 60), re.M))


@GROUP.test(timeout=120)
def killed(b):
    """If a lab is killed, its link goes down."""
    process = node(b, 2)
    try:
        until(60 * b.slow, lambda: nodes_of(b) == {"node1", "node2"}, "node2 does not join")
    finally:
        process.kill()
        process.communicate(timeout=30)
    until(30 * b.slow, lambda: nodes_of(b) == {"node1"}, "node2 does not leave")


@GROUP.test(timeout=120)
def command(b):
    """Its number joins again; the command uses the subnet; after that, the node has left."""
    b.background(1, f"ib_send_bw {TRAFFIC}",
                 f"grep -qi ':{PERF_PORT:04X} 0.*:0000 0A' /proc/net/tcp /proc/net/tcp6")
    status, text = ended(b, node(b, 2, "--", COMMAND), 100)
    need(status == 0, f"status {status}: {tail(text)}")
    find(rf"node2: +{SIZE} +{ROUNDS} ", text)
    until(30 * b.slow, lambda: nodes_of(b) == {"node1"}, "node2 does not leave the subnet")
