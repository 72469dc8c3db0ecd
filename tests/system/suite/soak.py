# SPDX-License-Identifier: GPL-2.0-or-later
"""Eight small nodes that all exchange data while many kinds of faults happen (tests/campaign).

Each pair of nodes has two processes (ohca-peer alltoall), which send blocks by RC, its atomics and
READs, through SRQs, XRC, UC and UD, compare them, and connect again after each loss. Meanwhile
links go down and up, OpenSM is killed, devices are reset, processes are killed, and others send
wrong calls to uverbs. The memory of every process must not grow.
"""
import random
import re
import time

from .bring_up import PATIENT, RESTLESS, all_active, start_sm, stop_sm
from .faults import PCI
from .harness import Failure, Group, find, need
from .life import resources, settle

NODES = 8
LAB = ("-n", str(NODES), "--no-sm", "--memory", "512", PATIENT)
SETTING = RESTLESS + "\\nsweep_interval 5"
# What processes may grow by, in KiB: a machine, the fabric, the hub of the management network,
# OpenSM, one that talks
BOUNDS = {"node": 16384, "fabric": 4096, "hub": 4096, "opensm": 8192, "ohca-peer": 1024}
PATIENCE = 180  # seconds, for eight machines on a host with a few processors
SHARE = 0.3     # of the time, after which memory is checked for the first time


def prepare(b):
    """Brings up all nodes on a fabric that is swept often."""
    if not b.state.get("soak"):
        start_sm(b, setting=SETTING)
        all_active(b, 60)
        b.state["soak"] = b.state["fabric"] = True


GROUP = Group("soak", LAB, prepare=prepare, campaign=True)
GROUPS = [GROUP]


def private(pid):
    """KiB of a process's own memory, without code that was made at run time (TCG's)."""
    total, code = 0, False
    with open(f"/proc/{pid}/smaps", encoding="ascii", errors="replace") as f:
        for line in f:
            if m := re.match(r"[0-9a-f]+-[0-9a-f]+ (\S+) ", line):
                code = "x" in m[1]
            elif line.startswith("Anonymous:") and not code:
                total += int(line.split()[1])
    return total


def memory(b):
    """{name: KiB} of every process."""
    sizes = {vm.name: private(vm.process.pid) for vm in b.lab.vms}
    sizes |= {p.what: private(p.pid) for p in b.lab.helpers}
    for node in range(1, NODES + 1):
        text = b.sh(node, "for p in $(pgrep -x 'ohca-peer|opensm'); do "
                          "echo $(cat /proc/$p/comm) $(awk '/^VmRSS/ {print $2}' /proc/$p/status); "
                          "done", 60)
        for name, size in re.findall(r"^(ohca-peer|opensm) (\d+)$", text, re.M):
            key = f"{name} of node{node}"
            sizes[key] = max(sizes.get(key, 0), int(size))
    return sizes


def moved(b, node):
    """What a node's processes have verified: by the other node, (blocks, messages).

    A process that has only just begun may have no file yet, or an empty one.
    """
    text = b.sh(node, "grep -H . /tmp/endure.state.*; true", 60)
    return {int(other): (int(blocks), int(messages)) for other, blocks, messages in
            re.findall(r"state\.(\d): *\d+ +(\d+) +(\d+)$", text, re.M)}


class Traffic:
    """The data that all processes have moved, also those that were killed since."""

    def __init__(self, b):
        self.b, self.messages, self.last = b, 0, {}

    def look(self, node):
        """Reads what a node's processes have verified; counts the new part."""
        now = moved(self.b, node)
        for other, (_, messages) in now.items():
            before = self.last.get((node, other), 0)
            self.messages += messages - before if messages >= before else messages
            self.last[node, other] = messages
        return now

    def go_on(self, limit):
        """Waits until all processes of all nodes have verified more blocks."""
        b, end = self.b, time.monotonic() + limit * self.b.slow
        before = {k: self.look(k) for k in range(1, NODES + 1)}
        left = set(before)
        while left:
            late = time.monotonic() > end
            for node in sorted(left):
                now = self.look(node)
                # the successor of a process that was killed begins with 0
                if len(now) == NODES - 1 and all(
                        blocks not in (0, before[node].get(other, (0, 0))[0])
                        for other, (blocks, _) in now.items()):
                    left.remove(node)
            if left and late:
                raise Failure(f"no blocks between nodes: {[(k, moved(b, k)) for k in left]}",
                              "time")


def flap(b, node, dice):
    """A link goes down and up, at the switch."""
    port = find(r"LocalPort:\.*(\d+)", b.sh(node, "smpquery -D nodeinfo 0,1", 60))
    by = 1 if node != 1 else 2
    b.sh(by, f"ibportstate -D 0,1 {port} disable >/dev/null && sleep {dice.choice((0.1, 1, 5))} && "
             f"ibportstate -D 0,1 {port} enable >/dev/null", 90)


def manager(b, _node, _dice):
    """OpenSM is killed, and a new one starts."""
    stop_sm(b, signal="KILL")
    start_sm(b, setting=SETTING)


def reset(b, node, dice):
    """A device is reset, except that of OpenSM's port."""
    if node == 1:
        node = dice.randrange(2, NODES + 1)
    b.sh(node, f"d={PCI}; echo flr >$d/reset_method && echo 1 >$d/reset", 60)


def kill(b, node, dice):
    """One or all processes that exchange data with other nodes are killed, and started again."""
    b.sh(node, f"pgrep -P $(pgrep -o -x ohca-peer) | shuf -n {dice.choice((1, NODES))} | "
               "xargs kill -KILL")


def lie(b, node, dice):
    """A process without privileges sends wrong calls to uverbs."""
    text = b.sh(node, f"/share/ohca-liar {dice.randrange(1 << 20)} 150", 120)
    need(int(find(r"(\d+) calls", text)) > 0, text)


ACTS = (flap, flap, manager, reset, reset, kill, kill, lie)


@GROUP.test(timeout=86400, says="lost its HCA")
def alltoall(b):
    """Performs all of this at random for --seconds."""
    seconds, dice = b.run.opt.seconds, random.Random(b.run.opt.seed)
    nodes = range(1, NODES + 1)
    idle = {k: resources(b, k) for k in nodes}
    ends = [b.background(k, f"/share/ohca-peer alltoall 80000 {k} {NODES}") for k in nodes]
    traffic = Traffic(b)
    traffic.go_on(PATIENCE)
    begin, n, before = time.monotonic(), 0, None
    while time.monotonic() < begin + seconds:
        act, node = dice.choice(ACTS), dice.choice(nodes)
        b.note(f"act {n}: {act.__name__} of node{node}")
        try:
            act(b, node, dice)
            all_active(b, PATIENCE)
            traffic.go_on(PATIENCE)
        except Failure as e:
            raise Failure(f"act {n}, {act.__name__} of node{node}: {e}", e.kind) from None
        for p in ends:
            p.verdict()
        for k in nodes:
            b.kernel_said(k)
        n += 1
        if before is None and time.monotonic() > begin + SHARE * seconds:
            before = memory(b)
            b.note(f"memory: {before}")
    after = memory(b)
    b.note(f"memory: {after}")
    grown = {k: (before[k], after[k]) for k in after if k in before and after[k] - before[k] >
             next(v for name, v in BOUNDS.items() if k.startswith(name))}
    need(not grown, f"processes have grown, KiB: {grown}")
    for p in ends:
        p.finish()
    for k in nodes:
        settle(b, k, idle[k])
    b.peer("verify rc")
    b.note(f"{n} acts")
    print(f"campaign: {traffic.messages} messages", flush=True)
