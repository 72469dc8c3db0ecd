# SPDX-License-Identifier: GPL-2.0-or-later
"""Nodes with places in a fat tree of 20 switches, among hosts without a machine."""
import re

from ohca_lab import places as topology

from .bring_up import fabric
from .harness import PERF_PORT, Group, find, need, tail

SPEC = "fat-tree:4,3"
PLACES = {1: "host2", 2: "host3", 3: "host16"}
GROUP = Group("tree", ("-n", "3", "--no-sm", "--topology", SPEC,
                       *[f"--place=node{k}={name}" for k, name in PLACES.items()]),
              debug=False, prepare=fabric)
GROUPS = [GROUP]


def lid(b, node):
    """The LID of a node."""
    return int(find(r"Base lid:\s+(\d+)", b.sh(node, "ibstat")))


@GROUP.test()
def places(b):
    """Each node has the GUIDs of its host; OpenSM and ibnetdiscover see the whole tree."""
    hosts = {h.name: int(h.guid, 16) for h in topology.hosts(SPEC)}
    for node, name in PLACES.items():
        text = b.sh(node, "ibstat")
        need(int(find(r"Node GUID: 0x(\w+)", text), 16) == hosts[name], tail(text))
        need(int(find(r"Port GUID: 0x(\w+)", text), 16) == hosts[name] + 1, tail(text))
    text = b.sh(1, "ibnetdiscover", 60)
    need(len(re.findall(r"^Switch", text, re.M)) == 20, "switches")
    need(len(re.findall(r"^Ca", text, re.M)) == 16, "hosts")
    seen = {int(g, 16) for g in re.findall(r"^caguid=0x(\w+)", text, re.M)}
    need(seen == set(hosts.values()), "GUIDs of hosts")


@GROUP.test(timeout=240)
def traffic(b):
    """Verified traffic over 1, 3 and 5 switches, by all transports, and multicast."""
    for on in ((1, 2), (1, 3), (3, 2)):
        b.peer("verify rc", on=on)
        b.peer("verify uc", on=on)
        b.peer("verify ud", on=on)
    for node in (1, 2):
        text = b.sh(node, "ping -c 3 -i 0.2 -W 5 node3-ib", 60)
        need(" 0% packet loss" in text, tail(text))


def counters(b, where):
    """{(LID, port): packets sent} of ports."""
    text = b.sh(1, "for x in " + " ".join(f"{a}:{p}" for a, p in where) + "; do "
                   "echo port $x $(perfquery -x ${x%:*} ${x#*:} | grep UnicastXmitPkts); done", 120)
    found = re.findall(r"port (\d+):(\d+) PortUnicastXmitPkts:\.*(\d+)", text)
    return {(int(a), int(p)): int(n) for a, p, n in found}


def outputs(b, here, there):
    """[(LID, port)]: the outputs of switches from one node to another, as ibtracert says."""
    text = b.sh(1, f"ibtracert {lid(b, here)} {lid(b, there)}", 60)
    hops = re.findall(r"^\[(\d+)\] -> \w+ port \{\w+\}\[\d+\] lid (\d+)-", text, re.M)
    # the output of a hop is in the line of the next
    return [(int(a), int(hops[i + 1][0])) for i, (_, a) in enumerate(hops[:-1])]


@GROUP.test(timeout=300)
def path(b):
    """Packets take the ways that ibtracert names, and no other port of a switch sends them."""
    way, home = outputs(b, 1, 3), outputs(b, 3, 1)
    need(len(way) == 5 and len(home) == 5, f"ways: {way}, {home}")
    everywhere = sorted({(a, p) for a, _ in way + home for p in range(1, 5)})
    before = counters(b, everywhere)
    command = "ib_write_bw -F -s 4096 -n 1000 -m 4096"
    b.pair(command, f"{command} node1", PERF_PORT, on=(1, 3))
    b.pair(command, f"{command} node3", PERF_PORT, on=(3, 1))
    after = counters(b, everywhere)
    moved = {x for x in everywhere if after[x] - before[x] >= 1000}
    need(moved == set(way + home), f"moved {sorted(moved)}, ways {way} and {home}")
