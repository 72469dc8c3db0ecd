# SPDX-License-Identifier: GPL-2.0-or-later
"""Two nodes in two subnets, each with its own OpenSM, and a router between them.

Programs name each other by GIDs (AF_IB): addresses of IPoIB do not resolve over a router.
"""
import os
import re

from ohca_lab import paths

from .bring_up import all_active, start_sm, swept
from .harness import DEV, Group, find, need, tail
from .tree import control

TOPOLOGY = os.path.join(paths.TOP, "tests", "opensm", "two-subnets")
# node: the prefix of its subnet, and the PortGUID of the router there
SUBNET = {1: (0xfec0000000000001, 0xc1), 2: (0xfec0000000000002, 0xc2)}
COUNT = 20      # messages in each direction


def prepare(b):
    """Starts OpenSM on both nodes."""
    if b.state.get("fabric"):
        return
    for node, (prefix, router) in SUBNET.items():
        b.sh(node, f"echo '{SUBNET[3 - node][0]:#x} {router:#x}' >/tmp/prefix-routes")
        start_sm(b, node, f"subnet_prefix {prefix:#x}\\nprefix_routes_file /tmp/prefix-routes")
    for node in SUBNET:
        swept(b, node)
    all_active(b)
    b.state["fabric"] = True


GROUP = Group("routed", ("-n", "2", "--no-sm", "--topology", TOPOLOGY, "--place=node1=host1",
                         "--place=node2=host3"), debug=False, prepare=prepare)
GROUPS = [GROUP]


def gid(b, node):
    """The GID of a node."""
    return b.sh(node, f"cat /sys/class/infiniband/{DEV}/ports/1/gids/0").strip()


def routed(b):
    """Packets that the router has sent into each subnet."""
    sent = re.findall(r"PortUnicastXmitPkts (\d+)", control(b, "counters", "router1"))
    need(len(sent) == 2, f"the router's ports: {sent}")
    return [int(n) for n in sent]


def across(b, program):
    """Runs a program on both nodes. The client retries: rdma does not show AF_IB listeners."""
    here, there = gid(b, 1), gid(b, 2)
    before = routed(b)
    server = b.background(2, f"{program} -f gid -b {there}")
    b.sh(1, f"n=0; until timeout 60 {program} -f gid -b {here} -s {there}; do "
            "n=$((n + 1)); [ $n -lt 50 ] || exit 1; sleep 0.2; done", 120)
    server.said("return status 0")
    moved = [x - y for x, y in zip(routed(b), before)]
    need(min(moved) >= COUNT, f"the router has sent {moved} packets")


@GROUP.test(timeout=120)
def subnets(b):
    """Each OpenSM has its own subnet, up to the router, and has paths to the other one."""
    for node in SUBNET:
        text = b.sh(node, "ibnetdiscover", 60)
        need([len(re.findall(f"(?m)^{kind}\\s", text)) for kind in ("Switch", "Ca", "Rt")] ==
             [1, 2, 1], tail(text))
        router = find(r'"router1" lid (\d+) ', text)
        text = b.sh(node, f"saquery PR --sgid {gid(b, node)} --dgid {gid(b, 3 - node)}")
        need(find(r"dlid\.+(\d+)", text) == router, tail(text))
    # both subnets use the same LIDs
    need(len({find(r"Base lid:\s+(\d+)", b.sh(k, "ibstat")) for k in SUBNET}) == 1, "LIDs")


@GROUP.test(timeout=200)
def connections(b):
    """Connections by the CM, and messages by RC."""
    across(b, f"ucmatose -C {COUNT}")


@GROUP.test(timeout=200)
def datagrams(b):
    """Service IDs that the CM resolves, and messages by UD."""
    across(b, f"udaddy -C {COUNT}")
