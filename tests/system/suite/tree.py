# SPDX-License-Identifier: GPL-2.0-or-later
"""Nodes with places in a fat tree of 20 switches, among hosts without a machine."""
import json
import re
import subprocess

from ohca_lab import paths
from ohca_lab import places as topology

from . import life
from .bring_up import all_active, start_sm, take_over
from .harness import DEV, PERF_PORT, Group, find, need, tail, until

SPEC = "fat-tree:4,3"
PLACES = {1: "host2", 2: "host3", 3: "host16"}
# seconds until a standby OpenSM replaces a master that does not answer, instead of 40 s
POLLS = "sminfo_polling_timeout 500\\npolling_retry_number 3"
BLOCKS = 100000     # words that a port sends: a few blocks of a stream, more than MADs have


def prepare(b):
    """Starts OpenSM on node 1."""
    if not b.state.get("fabric"):
        start_sm(b, setting=POLLS)
        all_active(b)
        b.state["fabric"] = True


GROUP = Group("tree", ("-n", "3", "--no-sm", "--topology", SPEC,
                       *[f"--place=node{k}={name}" for k, name in PLACES.items()]),
              debug=False, prepare=prepare)
GROUPS = [GROUP]


def lid(b, node):
    """The LID of a node."""
    return int(find(r"Base lid:\s+(\d+)", b.sh(node, "ibstat")))


@GROUP.test()
def places(b):
    """Each node has the GUIDs of its host; OpenSM and ibnetdiscover find the whole tree."""
    hosts = {h.name: int(h.guid, 16) for h in topology.hosts(("--generate", SPEC))}
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
    """[(LID, port)]: the outputs of switches from one node to another, as ibtracert says.

    None: it does not arrive, as long as OpenSM leads to a cable that is pulled.
    """
    status, text = b.status(1, f"ibtracert {lid(b, here)} {lid(b, there)}", 60)
    if status:
        return None
    hops = re.findall(r"^\[(\d+)\] -> \w+ port \{\w+\}\[\d+\] lid (\d+)-", text, re.M)
    # the output of a hop is in the line of the next
    return [(int(a), int(hops[i + 1][0])) for i, (_, a) in enumerate(hops[:-1])]


@GROUP.test(timeout=300)
def path(b):
    """Packets use the routes that ibtracert prints, and no other port of a switch sends them."""
    way, home = outputs(b, 1, 3), outputs(b, 3, 1)
    need(way and home and len(way) == len(home) == 5, f"ways: {way}, {home}")
    everywhere = sorted({(a, p) for a, _ in way + home for p in range(1, 5)})
    before = counters(b, everywhere)
    command = "ib_write_bw -F -s 4096 -n 1000 -m 4096"
    b.pair(command, f"{command} node1", PERF_PORT, on=(1, 3))
    b.pair(command, f"{command} node3", PERF_PORT, on=(3, 1))
    after = counters(b, everywhere)
    moved = {x for x in everywhere if after[x] - before[x] >= 1000}
    need(moved == set(way + home), f"moved {sorted(moved)}, ways {way} and {home}")


def ask(b, *words):
    """Runs a verb of the fabric's control socket; returns its output and status."""
    return subprocess.run([paths.FABRIC, *words, "--control", f"{b.lab.dir}/control"], check=False,
                          stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)


def control(b, *words):
    """The output of a verb of the fabric's control socket."""
    done = ask(b, *words)
    need(not done.returncode, f"{words}: {done.stderr}")
    b.note(f"ohca-fabric {' '.join(words)}\n{done.stdout[-2000:]}")
    return done.stdout


@GROUP.test(timeout=400)
def faults(b):
    """A cable loses packets: all arrive, both ends count. Another is pulled: a new route."""
    nodes = [n for line in control(b, "topology", "--json").splitlines()
             for n in json.loads(line)["nodes"]]
    name = {n["ports"][0]["lid"]: n["description"] for n in nodes if n["type"] == "switch"}
    way = outputs(b, 1, 3)
    need(way, "no way from node 1 to node 3")
    cable = f"{name[way[1][0]]}:{way[1][1]}"
    b.sh(1, "ibqueryerrors -k -K", 60, status=None)
    control(b, "loss", cable, "0.02", "7")
    b.peer("stream 3", on=(1, 3))
    control(b, "loss", cable, "0")
    text = b.sh(1, "ibqueryerrors", 60, status=None)
    ports = set(re.findall(r"GUID 0x(\w+) port (\d+): .*SymbolErrorCounter == \d+", text))
    seen = {(int(g, 16), int(p)) for g, p in ports}
    here = next(n for n in nodes if n["description"] == name[way[1][0]])
    port = next(p for p in here["ports"] if p["port"] == way[1][1])
    ends = {(int(here["guid"], 16), port["port"]), (int(port["peer"], 16), port["peer_port"])}
    need(seen and seen <= ends, f"errors at {seen}, not at {ends}: {tail(text)}")
    control(b, "link", "down", cable)
    until(60 * b.slow, lambda: outputs(b, 1, 3) not in (None, way), "OpenSM finds no other way")
    b.peer("verify rc", on=(1, 3))
    control(b, "link", "up", cable)
    until(60 * b.slow, lambda: "Down" not in b.sh(1, "iblinkinfo --switches-only", 60),
          "the cable is plugged, and its link is down")
    b.peer("verify rc", on=(1, 3))


@GROUP.test(timeout=300)
def managers(b):
    """A better OpenSM becomes master, ends, and the first one returns: traffic continues."""
    ends = [b.background(1, "/share/ohca-peer stream 3000"),
            b.background(3, "/share/ohca-peer stream 3000 node1")]
    ends[1].said("streaming")

    def goes_on(who):
        before = life.moved(b, 3)
        until(60 * b.slow, lambda: life.moved(b, 3) > before + BLOCKS, f"{who}: no traffic")
        for end in ends:
            end.verdict()

    def is_master(node):
        file = f"/sys/class/infiniband/{DEV}/ports/1/sm_lid"
        until(60 * b.slow, lambda: int(b.sh(3, f"cat {file}"), 16) == lid(b, node),
              f"OpenSM on node {node} is not the master")
        goes_on(f"OpenSM on node {node}")

    take_over(b, 2)
    is_master(2)
    b.sh(2, "pkill -KILL -x opensm")
    goes_on("nobody manages")
    is_master(1)
    all_active(b)
