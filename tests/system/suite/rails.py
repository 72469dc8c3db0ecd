# SPDX-License-Identifier: GPL-2.0-or-later
"""Two adapters a node, each at the leaf of its rail, below root ports of two NUMA nodes.

The lab is that of a file, rails.yaml.
"""
import json
import os
import re

from .harness import PERF_PORT, Group, answered, find, need, tail, until
from .tree import control

FILE = os.path.join(os.path.dirname(__file__), "rails.yaml")
GROUP = Group("rails", ("-f", FILE), debug=False)
GROUPS = [GROUP]

HCAS = ("ohca_0", "ohca_1")
NETS = ("10.77.0", "10.78.0")
BOND_NET = "10.79.0"
SIZE, ROUNDS = 65536, 100
# 4-byte words that a port sends for that, and those of MADs and of IPoIB meanwhile
BLOCKS, NOISE = SIZE * ROUNDS // 4, SIZE * ROUNDS // 4 // 50


def ports(b, node):
    """The state of the port of each adapter of a node."""
    return b.sh(node, "cd /sys/class/infiniband && for i in *; do echo $i $(cat $i/ports/1/state); "
                      "done").splitlines()


def all_active(b, seconds=40):
    """Waits until both adapters of both nodes are ACTIVE, and IPoIB has its carriers."""
    want = [f"{hca} 4: ACTIVE" for hca in HCAS]
    until(seconds * b.slow, lambda: all(ports(b, k) == want for k in (1, 2)),
          lambda: f"not ACTIVE: {[ports(b, k) for k in (1, 2)]}")
    until(seconds * b.slow, lambda: all(
        b.sh(k, "cat /sys/class/net/ib*/carrier", status=None).split() == ["1", "1"]
        for k in (1, 2)), "IPoIB has no carrier")


def sent(b, node):
    """The words that each adapter of a node has sent."""
    return [int(x) for x in b.sh(node, "cd /sys/class/infiniband; " + "; ".join(
        f"cat {hca}/ports/1/counters/port_xmit_data" for hca in HCAS)).split()]


def through_spine(b):
    """The words that the spine has sent."""
    lines = control(b, "counters", "spine1", "--json").splitlines()
    return sum(p.get("PortXmitData", 0) for line in lines for n in json.loads(line)["nodes"]
               for p in n["ports"])


@GROUP.test
def from_a_file(b):
    """The nodes have the contents of the file: names, files, P_Keys, and results of commands."""
    for node, name, key in ((1, "left", "0x8021"), (2, "right", "0x0021")):
        need(b.sh(node, "hostname").strip() == name, f"node{node} is not called {name}")
        for hca in HCAS:
            keys = b.sh(node, f"cat /sys/class/infiniband/{hca}/ports/1/pkeys/*").split()
            need(key in keys and "0xffff" in keys, f"node{node}, {hca}: {sorted(set(keys))}")
    find(r"^10\.78\.0\.2 +right-ib1 node2-ib1$", b.sh(1, "cat /etc/hosts"))
    find(r"PING right-ib1 (?:.*\n)+.* 1 received", b.sh(1, "cat /root/from/ping"))


@GROUP.test
def subnet(b):
    """One OpenSM manages all adapters, each with name and GUID of its place, at its rail's leaf."""
    all_active(b)
    text = b.sh(1, "ibnetdiscover", 60)
    need(len(re.findall(r"^Switch", text, re.M)) == 3, "two leaves and a spine")
    for node in (1, 2):
        for rail, hca in enumerate(HCAS):
            place = b.lab.places[node - 1][rail]
            name = f"node{node} {hca}"
            need(place.name == name, f"the place of {name} is {place.name}")
            own = b.sh(node, f"cd /sys/class/infiniband/{hca}; cat node_desc node_guid")
            need(own.split("\n")[0] == name, f"{name} is called {tail(own)}")
            need(int(own.split("\n")[1].replace(":", ""), 16) == int(place.guid, 16), tail(own))
            find(rf'^Ca.*"{name}"\n\[1\].*"unit1 leaf{rail + 1}"', text)
    masters = {b.sh(k, f"cat /sys/class/infiniband/{hca}/ports/1/sm_lid").strip()
               for k in (1, 2) for hca in HCAS}
    own = b.sh(1, f"cat /sys/class/infiniband/{HCAS[0]}/ports/1/lid").strip()
    need(masters == {own}, f"the master of OpenSM is at {masters}, not at ohca_0's {own}")


@GROUP.test
def slots(b):
    """Each adapter is at its own root port, in its NUMA node; IPoIB has the same order."""
    for node in (1, 2):
        text = b.sh(node, "cat /sys/devices/system/node/online; cd /sys/class/infiniband; "
                          "for i in *; do cat $i/device/numa_node; done; "
                          "for i in *; do readlink -f $i/device/..; done; "
                          "for i in ib0 ib1; do ls /sys/class/net/$i/device/infiniband; done")
        lines = text.split()
        need(lines[:3] == ["0-1", "0", "1"], f"node{node}: NUMA nodes {lines[:3]}")
        need(len(set(lines[3:5])) == 2, f"node{node}: slots {lines[3:5]}")
        need(lines[5:] == list(HCAS), f"node{node}: ib0 and ib1 are of {lines[5:]}")


@GROUP.test(timeout=90)
def traffic(b):
    """The traffic of a rail is counted there, and by no other port, and not by the spine."""
    for rail, hca in enumerate(HCAS):
        before, spine = [sent(b, k) for k in (1, 2)], through_spine(b)
        command = f"ibv_rc_pingpong -c -d {hca} -s {SIZE} -n {ROUNDS}"
        b.pair(command, f"{command} node1", PERF_PORT)
        for node in (1, 2):
            grew = [x - y for x, y in zip(sent(b, node), before[node - 1])]
            need(grew[rail] >= BLOCKS and grew[1 - rail] < NOISE, f"{hca}: node{node} sent {grew}")
        need(through_spine(b) - spine < NOISE, f"{hca}: the spine sent {through_spine(b) - spine}")


@GROUP.test(timeout=90)
def ipoib(b):
    """Each interface has its network; its neighbours are in its rail, also by rdma_cm."""
    for rail, net in enumerate(NETS):
        answered(b, 2, f"{net}.1", 3, "-i 0.2")
        name = f"node1-ib{rail}"
        need(f"({net}.1)" in b.sh(2, f"ping -c 1 -w 20 {name}"), f"{name} is not {net}.1")
        there = b.sh(1, f"cat /sys/class/net/ib{rail}/address").strip()
        here = find(r"lladdr (\S+)", b.sh(2, f"ip neigh show {net}.1 dev ib{rail}"))
        need(here == there, f"{net}.1 is at {here}, and ib{rail} of node1 has {there}")
        before = sent(b, 2)
        b.pair(*(f"rping -{end} -a {net}.1 -C 20 -S 60000 -V" for end in "sc"), "cm")
        grew = [x - y for x, y in zip(sent(b, 2), before)]
        need(grew[rail] > NOISE > grew[1 - rail], f"rdma_cm by {net}.1: node2 sent {grew}")


BOND = """modprobe bonding max_bonds=0 &&
ip link add bond0 type bond mode active-backup miimon 50 && ip link set ib0 down &&
ip link set ib1 down && ip link set ib0 master bond0 && ip link set ib1 master bond0 &&
echo ib0 >/sys/class/net/bond0/bonding/primary &&
ip addr add %s.%d/24 dev bond0 && ip link set bond0 up"""
UNBOND = """ip link del bond0; rmmod bonding
for i in 0 1; do ip addr replace 10.$((77 + i)).0.$OHCA_NODE/24 dev ib$i; ip link set ib$i up
done"""


@GROUP.test(timeout=120)
def bond(b):
    """Both rails are one interface: its cable is cut; packets use the other one, and come back."""
    def has(node, slave):
        until(30 * b.slow, lambda: b.sh(node, "cat /sys/class/net/bond0/bonding/active_slave")
              .strip() == slave, f"node{node}: {slave} does not get the bond's packets")

    try:
        for node in (1, 2):
            b.sh(node, BOND % (BOND_NET, node))
            has(node, "ib0")
        answered(b, 2, f"{BOND_NET}.1", 3, "-i 0.2")
        pings = b.background(2, f"ping -i 0.1 {BOND_NET}.1", ends=(0, 1))
        control(b, "link", "down", "node2 ohca_0:1")
        has(2, "ib1")
        before = sent(b, 2)
        answered(b, 2, f"{BOND_NET}.1", 10, "-i 0.1 -s 4000")
        grew = [x - y for x, y in zip(sent(b, 2), before)]
        need(grew[1] > 10 * 4000 // 4 and not grew[0], f"node2 sent {grew} with ib0's cable cut")
        control(b, "link", "up", "node2 ohca_0:1")
        has(2, "ib0")
        answered(b, 2, f"{BOND_NET}.1", 5, "-i 0.1")
        pings.kill("INT")
        got = re.findall(r"icmp_seq=(\d+) ttl", pings.log())
        need(len(got) == len(set(got)) > 10, f"{len(got)} answers, {len(set(got))} of them first")
    finally:
        control(b, "link", "up", "node2 ohca_0:1")
        for node in (1, 2):
            b.sh(node, UNBOND, status=None)
    all_active(b)


@GROUP.test(timeout=120)
def one_goes(b):
    """An adapter is removed and comes back, and traffic over the other one continues."""
    command = f"ib_write_bw -d {HCAS[0]} --run_infinitely -s 4096"
    # the server exits with 1 without its client
    ends = [b.background(1, command, f"ss -Hltn | grep -q :{PERF_PORT}", ends=(1,)),
            b.background(2, f"{command} node1")]

    def goes_on(why):
        before = sent_by_first()
        until(30 * b.slow, lambda: sent_by_first() > before + BLOCKS, f"{why}: no traffic")
        for end in ends:
            end.verdict()

    def sent_by_first():
        return int(b.sh(2, f"cat /sys/class/infiniband/{HCAS[0]}/ports/1/counters/port_xmit_data"))

    goes_on("both are there")
    b.sh(2, f"d=$(basename $(readlink /sys/class/infiniband/{HCAS[1]}/device)); "
            "echo $d >/tmp/function; echo $d >/sys/bus/pci/drivers/ohca/unbind", 60)
    need(b.sh(2, "ls /sys/class/infiniband; ls -d /sys/class/net/ib*").split() ==
         [HCAS[0], "/sys/class/net/ib0"], "the other one is not alone")
    goes_on("one has gone")
    b.sh(2, "cat /tmp/function >/sys/bus/pci/drivers/ohca/bind", 60)
    goes_on("it is back")
    ends[1].kill()
    all_active(b)
    answered(b, 2, f"{NETS[1]}.1", 3, "-i 0.2")


@GROUP.test(timeout=120)
def reload(b):
    """The driver is unloaded under both and loaded: each adapter has its old name."""
    show = ("cd /sys/class/infiniband; for i in *; do echo $i $(cat $i/node_guid) "
            "$(cat $i/device/numa_node); done; for i in ib0 ib1; do "
            "echo $i $(cat /sys/class/net/$i/address | cut -d: -f5-); done")
    before = b.sh(2, show)
    b.sh(2, "modprobe -r ohca && [ -z \"$(ls /sys/class/infiniband)\" ] && modprobe ohca", 60)
    all_active(b)
    after = b.sh(2, show)
    need(after == before, f"before: {tail(before)}; after: {tail(after)}")
    for rail, net in enumerate(NETS):
        answered(b, 2, f"{net}.1", 3, f"-i 0.2 -I ib{rail}")
    for hca in HCAS:
        command = f"ibv_rc_pingpong -c -d {hca} -n 50"
        b.pair(command, f"{command} node1", PERF_PORT)
