# SPDX-License-Identifier: GPL-2.0-or-later
"""Four nodes of a fat tree with three spines all exchange data, while parts of the tree fail
(tests/campaign).

They use RC, its atomics and READs, SRQs, XRC, UC and UD (ohca-peer alltoall), and multicast of
IPoIB. One cable loses packets all the time; another one flaps while a spine is switched off and on;
then the master subnet manager is killed, and starts again after the standby has become master. At
the end, the counters of the fabric show these faults, and ibqueryerrors lists only those ports.
"""
import json
import random
import re
import subprocess
import threading
import time

from ohca_lab import paths

from .bring_up import PATIENT, RESTLESS, all_active, start_sm, stop_sm
from .harness import DEV, Failure, Group, find, need, until
from .soak import Traffic
from .tree import control, lid

NODES = 4
ALL = range(1, NODES + 1)
SPEC = "fat-tree:6"     # 6 leaves with 3 hosts each, 3 spines; port 3 + n of a leaf is to spine n
# at a leaf each; OpenSM routes to the first, second and third host of a leaf by different spines
PLACES = {1: "host1", 2: "host5", 3: "host9", 4: "host11"}
UPLINKS = (4, 5, 6)
LOSS = "0.0001"
LEAST = 200000  # packets of which a cable has certainly lost some
SETTING = RESTLESS + "\\nsweep_interval 5"
PRIORITY = {1: 13, 2: 5}
PATIENCE = 180  # seconds, for four machines on a host with a few processors
GONE = 240      # until a standby has become master, which takes 40 to 50 s
# No port but those of the faults counts these. PortXmitWait is no error, and a packet that is on
# its way while OpenSM rewrites one switch's tables after another's may find no route anywhere.
NO_FAULT = "PortXmitWait,PortRcvSwitchRelayErrors"
ERRORS = ("SymbolErrorCounter", "LinkErrorRecoveryCounter", "LinkDownedCounter", "PortRcvErrors",
          "PortRcvRemotePhysicalErrors", "PortXmitDiscards",
          "PortXmitConstraintErrors", "PortRcvConstraintErrors", "LocalLinkIntegrityErrors",
          "ExcessiveBufferOverrunErrors", "VL15Dropped")

# Datagrams to a group of the interface, each with its number and what follows from that. Those of
# others are compared; a file has how many came from each node.
MULTICAST = """
import os, random, select, socket, struct, sys, time
me, group, size, seen = int(sys.argv[1]), "239.77.0.1", 1900, {}
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
own = socket.inet_aton(f"10.77.0.{me}")
s.bind((group, 7790))
s.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, socket.inet_aton(group) + own)
s.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, own)
s.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_LOOP, 0)
def text(node, number):
    return struct.pack(">II", node, number) + random.Random(node << 32 | number).randbytes(size)
number, due = 0, 0
while True:
    if time.monotonic() >= due:
        try:
            s.sendto(text(me, number), (group, 7790))
        except OSError:     # a link that is down
            pass
        number, due = number + 1, time.monotonic() + 0.05
        with open("/tmp/multicast.new", "w") as f:
            print(*[f"{k}:{len(v)}" for k, v in seen.items()], file=f)
        os.rename("/tmp/multicast.new", "/tmp/multicast.state")
    if select.select([s], [], [], max(0, due - time.monotonic()))[0]:
        data = s.recv(65536)
        node, n = struct.unpack(">II", data[:8])
        assert data == text(node, n), f"wrong data from node {node}, number {n}"
        assert n not in seen.setdefault(node, set()), f"number {n} of node {node} came twice"
        seen[node].add(n)
"""


def manager(b, node):
    """Starts OpenSM on a node, with its priority."""
    start_sm(b, node, f"{SETTING}\\nsm_priority {PRIORITY[node]}")


def prepare(b):
    """Starts a master and a standby."""
    if not b.state.get("storm"):
        manager(b, 1)
        all_active(b, 60)
        manager(b, 2)
        b.state["storm"] = b.state["fabric"] = True


GROUP = Group("storm", ("-n", str(NODES), "--no-sm", "--memory", "512", PATIENT,
                        "--topology", SPEC,
                        *[f"--place=node{k}={name}" for k, name in PLACES.items()]),
              prepare=prepare, campaign=True)
GROUPS = [GROUP]


def answers(b, *words):
    """The objects of all parts of a reply of the control socket."""
    return [json.loads(line) for line in control(b, *words, "--json").splitlines()]


class Fabric:
    """The graph and the counters of the control socket."""

    def __init__(self, b):
        self.b, self.peer, self.name = b, {}, {}
        for n in [n for part in answers(b, "topology") for n in part["nodes"]]:
            self.name[n["description"]] = n["guid"]
            self.peer |= {(n["guid"], p["port"]): (p["peer"], p["peer_port"])
                          for p in n["ports"] if "peer" in p}
        self.machines = {self.name[x] for x in PLACES.values()}
        self.begin = self.read()

    def port(self, cable):
        """(NodeGUID, port) of "NAME:PORT"."""
        name, port = cable.rsplit(":", 1)
        return self.name[name], int(port)

    def ends(self, cable):
        """Both ends of a cable."""
        return {self.port(cable), self.peer[self.port(cable)]}

    def around(self, name):
        """All ends of all cables of a node."""
        return {x for p, q in self.peer.items() if p[0] == self.name[name] for x in (p, q)}

    def read(self):
        """{port: {counter: n}}"""
        return {(n["guid"], p["port"]): p for part in answers(self.b, "counters")
                for n in part["nodes"] for p in n["ports"]}

    def grown(self):
        """The increase of the counters since the beginning."""
        return {port: {x: n - self.begin[port].get(x, 0) for x, n in now.items() if x != "port"}
                for port, now in self.read().items()}

    def used(self, leaf, lids):
        """The uplinks of a leaf that lead to these LIDs."""
        part = answers(self.b, "lft", leaf)[0]["lft"]
        return sorted({f"{leaf}:{part[x]}" for x in lids if part[x] in UPLINKS})

    def whole(self):
        """Whether all links of switches are Active."""
        return all(p["state"] == "Active" for part in answers(self.b, "topology")
                   for n in part["nodes"] if n["type"] == "switch" for p in n["ports"])


class Flapping:
    """A cable that is pulled and plugged in about once a second, during a 'with'."""

    def __init__(self, b, cable, seed):
        self.b, self.cable, self.dice = b, cable, random.Random(seed)
        self.times, self.error = 0, None
        self.over = threading.Event()

    def _say(self, state):
        done = subprocess.run([paths.FABRIC, "link", state, self.cable, "--control",
                               f"{self.b.lab.dir}/control"], stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, timeout=60, check=False)
        if done.returncode:
            self.error = done.stderr

    def _run(self):
        while not self.over.is_set() and not self.error:
            down = self.dice.uniform(0.2, 0.8)
            self._say("down")
            time.sleep(down)
            self._say("up")
            self.times += 1
            time.sleep(1 - down)

    def __enter__(self):
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.over.set()
        self.thread.join(120)
        need(not self.error, self.error)


class Everything(Traffic):
    """All traffic, including multicast."""

    def __init__(self, b):
        super().__init__(b)
        self.ends = []
        for k in ALL:
            self.ends.append(b.background(k, f"/share/ohca-peer alltoall 80000 {k} {NODES}"))
            b.sh(k, f"cat >/tmp/multicast.py <<'END'\n{MULTICAST}END")
            self.ends.append(b.background(k, f"python3 /tmp/multicast.py {k}"))

    def multicast(self, node):
        """The number of datagrams that arrived from each other node."""
        text = self.b.sh(node, "cat /tmp/multicast.state 2>/dev/null; true")
        return {int(k): int(n) for k, n in re.findall(r"(\d):(\d+)", text)}

    def goes_on(self, among=ALL):
        """Waits until these nodes have verified more data of each other."""
        b = self.b
        before = {k: (self.look(k), self.multicast(k)) for k in among}

        def more(k):
            blocks, datagrams = self.look(k), self.multicast(k)
            # the successor of a killed process begins with 0
            return all(blocks.get(x, (0,))[0] not in (0, before[k][0].get(x, (0,))[0]) and
                       datagrams.get(x, 0) > before[k][1].get(x, 0) for x in among if x != k)

        for k in among:
            until(PATIENCE * b.slow, lambda k=k: more(k), lambda k=k:
                  f"node{k} of {among}: {self.look(k)}, {self.multicast(k)}, not more than "
                  f"{before[k]}")
        for p in self.ends:
            p.verdict()
        for k in ALL:
            b.kernel_said(k)


def is_master(b, node):
    """Whether the nodes' ports have OpenSM on a node as their master."""
    want = lid(b, node)
    return all(int(b.sh(k, f"cat /sys/class/infiniband/{DEV}/ports/1/sm_lid"), 16) == want
               for k in ALL)


def managers(b, traffic):
    """The master is killed; traffic continues without it, under the standby, and afterwards."""
    begin, rounds = time.monotonic(), 0
    stop_sm(b, signal="KILL")
    while not is_master(b, 2):
        need(time.monotonic() < begin + GONE * b.slow, "the standby does not take over")
        traffic.goes_on()
        rounds += 1
    b.note(f"the standby has taken over after {time.monotonic() - begin:.0f} s, {rounds} looks")
    need(rounds > 1, "nobody looked at the traffic while there was no master")
    traffic.goes_on()
    manager(b, 1)
    until(GONE * b.slow, lambda: is_master(b, 1), "the standby does not hand over")
    traffic.goes_on()


def story(b, fabric, lossy, flapping, dying, downs, kills):
    """The counters, and ibqueryerrors, show the faults at the right ports."""
    grown = fabric.grown()

    def counted(name):
        return {port: c[name] for port, c in grown.items() if c.get(name)}

    lost = counted("SymbolErrorCounter")
    for port, c in grown.items():
        peer = fabric.peer.get(port)
        if peer and not fabric.machines & {port[0], peer[0]}:
            missing = c.get("PortXmitPkts", 0) - grown[peer].get("PortRcvPkts", 0)
            need(missing == lost.get(peer, 0),
                 f"{missing} packets are missing between {port} and {peer}")
    ends = fabric.ends(lossy)
    enough = {x for x in ends if grown[x].get("PortRcvPkts", 0) >= LEAST}
    need(lost and enough <= set(lost) <= ends, f"lost at {lost}, not at {ends}")
    want = {**{x: downs for x in fabric.ends(flapping)},
            **{x: kills for x in fabric.around(dying)}}
    need(counted("LinkDownedCounter") == want, f"{counted('LinkDownedCounter')}, not {want}")
    faulty = set(want) | set(lost)
    bad = {port: {x: c[x] for x in ERRORS if c.get(x)} for port, c in grown.items()}
    bad = {port: c for port, c in bad.items() if c}
    b.note(f"counted: {bad}")
    need(set(bad) == faulty, f"errors at {[(x, bad[x]) for x in set(bad) - faulty]}")
    text = b.sh(1, f"ibqueryerrors --threshold-file /dev/null -s {NO_FAULT}", 120, status=None)
    named = {(f"0x{int(g, 16):016x}", int(p)) for g, p in
             re.findall(r"GUID 0x(\w+) port (\d+): \[", text)}
    need(named == faulty, f"ibqueryerrors names {named - faulty} as well and not {faulty - named}")


@GROUP.test(timeout=86400, debug=False)
def alltoall(b):
    """Performs all of this at random for --seconds."""
    opt, dice = b.run.opt, random.Random(b.run.opt.seed)
    until(60 * b.slow, lambda: Fabric(b).whole(), "a link is not Active")
    lids = [lid(b, k) for k in ALL]
    traffic = Everything(b)
    traffic.goes_on()
    b.sh(1, "ibqueryerrors -k -K", 120, status=None)
    fabric = Fabric(b)
    cables = [x for k in ALL for x in fabric.used(f"leaf{k}", lids)]
    lossy = dice.choice(cables)
    flapping = dice.choice([x for x in cables if x[-1] != lossy[-1]])
    dying = "spine" + next(str(p - 3) for p in UPLINKS if str(p) not in lossy[-1] + flapping[-1])
    # OpenSM may route over a link that it has just found, but cannot make it Active in time
    others = [k for k in ALL if f"leaf{k}" != flapping[:-2]]
    b.note(f"lossy {lossy}, flapping {flapping}, dying {dying}")
    print(f"campaign: {lossy} loses packets, {flapping} flaps, {dying} dies", flush=True)
    control(b, "loss", lossy, LOSS, str(opt.seed))
    begin, downs, kills = time.monotonic(), 0, 0
    while not kills or time.monotonic() < begin + opt.seconds:
        try:
            with Flapping(b, flapping, dice.random()) as flaps:
                traffic.goes_on(others)
                control(b, "node", "kill", dying)
                traffic.goes_on(others)
                control(b, "node", "revive", dying)
                kills += 1
                traffic.goes_on(others)
            downs += flaps.times
            until(PATIENCE * b.slow, fabric.whole, "a link is not Active again")
            traffic.goes_on()
            managers(b, traffic)
            until(PATIENCE * b.slow, fabric.whole, "a link is not Active under the new master")
        except Failure as e:
            raise Failure(f"round {kills}: {e}", e.kind) from None
    control(b, "loss", lossy, "0")
    for p in traffic.ends:
        p.finish()
    b.note(f"{kills} rounds, {downs} flaps")
    story(b, fabric, lossy, flapping, dying, downs, kills)
    find("verified", b.peer("verify rc", on=(1, 3))[1])
    print(f"campaign: {traffic.messages} messages", flush=True)
