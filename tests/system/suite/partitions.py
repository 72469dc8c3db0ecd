# SPDX-License-Identifier: GPL-2.0-or-later
"""Two tenants in a fat tree, 128 P_Keys at each port, and M_Keys: which nodes can communicate.

Nodes 1 and 2 are in partition 0x0001, node 3 is in 0x0002; nodes 2 and 3 are limited members of
the default partition, and node 2 of its own, too. Packets of one tenant to the other are discarded
and counted at the port that the specification defines, and at no other one.
"""
import contextlib
import itertools
import json
import os
import re
import shlex
import tempfile

from ohca_lab import paths
from ufm import rest

from .bring_up import all_active, start_sm, stop_sm
from .harness import DEV, PEER_PORT, Group, find, need, until
from .life import RPING_LOST
from .moves import Load
from .tree import GROUP as TREE
from .tree import ask, control, lid

PKEYS = 128
DEFAULT, MINE, OTHERS = 0x7fff, 0x0001, 0x0002
FULL = 0x8000
# the partitions of each node, without those that only fill the tables
MEMBER = {1: (FULL | DEFAULT, FULL | MINE), 2: (DEFAULT, MINE), 3: (DEFAULT, FULL | OTHERS)}
M_KEY = 0x4f70656e48434131
SETTING = f"m_key {M_KEY:#x}\\nm_key_protection_level 1"
MLID = 0xc000   # members of the default partition's broadcast group: all nodes
RC, UD, MCAST = 3, 5, 5     # packets of prog/tenant.c: a SEND and its two retries, datagrams
STRAY = 3   # packets of IPoIB in between, whose limited members ask all others for addresses

NETWORK = "10.78.0"     # IP addresses of both tenants' IPoIB interfaces

PORT = f"/sys/class/infiniband/{DEV}/ports/1"

# Reads an attribute of the port at a LID, changes bytes of it (OFFSET:AND:OR) and writes it, with
# an M_Key. Prints whether the answer came.
SMP = """
import ctypes, sys
lid, attr, modifier, key = (int(x, 0) for x in sys.argv[1:5])
mad = ctypes.CDLL("libibmad.so.5")
mad.mad_rpc_open_port.restype = ctypes.c_void_p
mad.smp_query_via.restype = mad.smp_set_via.restype = ctypes.c_void_p
port = ctypes.c_void_p(mad.mad_rpc_open_port(None, 0, (ctypes.c_int * 1)(1), 1))
to = (ctypes.c_int * 128)(lid)	# ib_portid_t begins with the LID
info = ctypes.create_string_buffer(64)
assert mad.smp_query_via(info, to, attr, modifier, 10000, port)
for x in sys.argv[5:]:
    at, keep, add = (int(y, 0) for y in x.split(":"))
    info[at] = info.raw[at] & keep | add
mad.smp_mkey_set(port, ctypes.c_uint64(key))
if not key:
    mad.mad_rpc_set_retries(port, 1)
    mad.mad_rpc_set_timeout(port, 300)
print("set" if mad.smp_set_via(info, to, attr, modifier, 0 if not key else 10000, port) else
      "no answer")
"""
PORT_INFO, PKEY_TABLE = 0x15, 0x16
# Sends a connection manager's REQ to a LID with any entry of the P_KeyTable, without the SA.
REQ = """
import ctypes, struct, sys
lid, index = (int(x) for x in sys.argv[1:3])
u = ctypes.CDLL("libibumad.so.3")
u.umad_init()
port = u.umad_open_port(None, 1)
agent = u.umad_register(port, 7, 2, 0, None)
buf = ctypes.create_string_buffer(u.umad_size() + 256)
buf[u.umad_size():u.umad_size() + 24] = struct.pack(">BBBBHHQHHI", 1, 7, 2, 3, 0, 0, 77, 0x10, 0, 0)
u.umad_set_addr(buf, lid, 1, 0, 0x80010000)
u.umad_set_pkey(buf, index)
assert port >= 0 and agent >= 0 and not u.umad_send(port, agent, buf, 256, 0, 0)
"""


def conf(guids):
    """partitions.conf: with the default partition, each port's P_KeyTable is full."""
    lines = ["Default=0x7fff,ipoib: ALL=limited, SELF=full;",
             f"mine={MINE:#x},ipoib: {guids[1]}=full, {guids[2]}=limited;",
             f"others={OTHERS:#x},ipoib: {guids[3]}=full;"]
    for k in range(PKEYS - 2):
        lines += [f"a{k}={0x1000 + k:#x}: {guids[1]}=full, {guids[2]}=full;",
                  f"b{k}={0x2000 + k:#x}: {guids[3]}=full;"]
    return "\\n".join(lines)


def prepare(b):
    """Starts OpenSM with these partitions; records each port's P_Keys and its switch port."""
    if b.state.get("partitions"):
        return
    guids = {k: "0x" + b.sh(k, f"sysctl -qw net.ipv6.conf.ib0.disable_ipv6=1; cat {PORT}/gids/0")
             .strip().replace(":", "")[16:] for k in (1, 2, 3)}
    stop_sm(b)
    b.sh(1, f"printf '{conf(guids)}\\n' >/etc/opensm/partitions.conf")
    start_sm(b, setting=SETTING)
    for k in (1, 2, 3):
        until(60 * b.slow, lambda k=k: keys(b, k)[-1] and set(MEMBER[k]) <= set(keys(b, k)),
              lambda k=k: f"node{k} has P_Keys {[hex(x) for x in keys(b, k)]}")
        b.sh(k, f"cat >/tmp/smp.py <<'END'\n{SMP}END\ncat >/tmp/req.py <<'END'\n{REQ}END")
    all_active(b, 60)
    # OpenSM makes the group's tree after the nodes have joined again
    for a, z in itertools.permutations((1, 2, 3), 2):
        until(60 * b.slow, lambda a=a, z=z: not ask(b, "trace", guids[a], guids[z], "--multicast",
                                                    f"{MLID:#x}").returncode,
              f"the multicast of node{a} does not get to node{z}")
    b.state["partitions"] = {"lid": {k: lid(b, k) for k in (1, 2, 3)}, "at": ports(b, guids)}
    b.state["fabric"] = True


GROUP = Group("partitions", TREE.lab, debug=False, prepare=prepare)
GROUPS = [GROUP]


def keys(b, node):
    """The P_KeyTable of a node."""
    return [int(x, 16) for x in b.sh(node, f"cd {PORT}/pkeys; cat $(ls | sort -n)").split()]


def ports(b, guids):
    """(NodeGUID and LID of the switch, port) at which each node is."""
    nodes = [n for line in control(b, "topology", "--json").splitlines()
             for n in json.loads(line)["nodes"]]
    at = {int(p["guid"], 16): (p["peer"], p["peer_port"])
          for n in nodes if n["type"] != "switch" for p in n["ports"]}
    lids = {n["guid"]: n["ports"][0]["lid"] for n in nodes}
    return {k: (at[int(g, 16)][0], lids[at[int(g, 16)][0]], at[int(g, 16)][1])
            for k, g in guids.items()}


def counted(b):
    """{(NodeGUID, port, counter): n} of P_Key violations at switches, since the fabric started."""
    return {(n["guid"], p["port"], name): p[name]
            for line in control(b, "counters", "--json").splitlines()
            for n in json.loads(line)["nodes"] for p in n["ports"]
            for name in ("PortXmitConstraintErrors", "PortRcvConstraintErrors") if name in p}


def violations(b, node):
    """{"M": n, "P": n, "Q": n}: the violations that a node's port has counted."""
    text = b.sh(1, f"smpquery -y {M_KEY:#x} portinfo {b.state['partitions']['lid'][node]} 1", 60)
    return {x: int(find(rf"{x}keyViol\w*:\.*(\d+)", text)) for x in "MPQ"}


def traps(b, number):
    """The number of notices of a trap that OpenSM has logged."""
    return int(b.sh(1, f"grep -c 'Generic Notice type:.* num:{number} ' /var/log/opensm.log; true"))


def takes(key, held):
    """Whether a node that is a member of these partitions accepts packets with a P_Key."""
    return any(key & DEFAULT == k & DEFAULT and (key | k) & FULL for k in held)


def attempt(b, sender, key, receiver, as_key, member=None):
    """One node sends to another by RC, UD and multicast; all packets arrive, or none.

    The switch's port to a node that must not get them counts them. member: instead of MEMBER.
    """
    member = member or MEMBER
    reach = takes(key, member[receiver])
    before = counted(b)
    on, command = (receiver, sender), "/share/ohca-peer tenant"
    s_out, c_out = b.pair(f"{command} {as_key:#x},{MLID:#x},{reach:d}",
                          f"{command} {key:#x},{MLID:#x},{reach:d} node{receiver}", PEER_PORT,
                          60, on)
    came = tuple(int(find(rf"^{x}: (\d+)", s_out)) for x in ("RC", "UD", "multicast"))
    need(came == ((1, UD, MCAST) if reach else (0, 0, 0)), f"{on}, {key:#x}: {came} arrived")
    find("^RC: success" if reach else "^RC: transport retry counter exceeded", c_out)
    now = counted(b)
    grew = {x: n - before.get(x, 0) for x, n in now.items() if n != before.get(x, 0)}
    for k, (guid, _, port) in b.state["partitions"]["at"].items():
        got = grew.pop((guid, port, "PortXmitConstraintErrors"), 0)
        want = 0 if k == sender or takes(key, member[k]) else MCAST + (RC + UD) * (k == receiver)
        need(0 <= got - want <= STRAY, f"{on}, {key:#x}: node{k}'s port counted {got}, not {want}")
    need(not grew, f"{on}, {key:#x}: counted {grew}")


@GROUP.test(timeout=200)
def members(b):
    """128 P_Keys at a port are all enforced; RC, UD and multicast within a partition work."""
    where = b.state["partitions"]["at"]
    for node in (1, 2, 3):
        need(0 not in keys(b, node) and len(set(keys(b, node))) == PKEYS,
             f"node{node} has not {PKEYS} P_Keys")
        text = b.sh(1, f"smpquery portinfo {where[node][1]} {where[node][2]}", 60)
        for name in ("PartEnforceInb", "PartEnforceOutb"):
            need(find(rf"{name}:\.*(\d)", text) == "1", f"{name} to node{node} is off")
    # full to limited, limited to full
    attempt(b, 1, FULL | MINE, 2, MINE)
    attempt(b, 2, MINE, 1, FULL | MINE)
    attempt(b, 3, DEFAULT, 1, FULL | DEFAULT)
    b.sh(2, "ping -c 2 -i 0.2 -W 5 node1-ib", 60)
    # a member of the partition needs the Q_Key, too
    before, told = violations(b, 3)["Q"], traps(b, 258)
    b.peer("error qkey", on=(3, 1))
    need(violations(b, 3)["Q"] == before + 1, "a wrong Q_Key is not counted")
    until(20 * b.slow, lambda: traps(b, 258) > told, "OpenSM was sent no trap 258")


@GROUP.test(timeout=200)
def tenants(b):
    """No packet reaches the other tenant, or passes between limited members."""
    before = {k: violations(b, k) for k in (2, 3)}
    traps_before = traps(b, 259)
    attempt(b, 2, MINE, 3, FULL | OTHERS)
    attempt(b, 3, FULL | OTHERS, 2, MINE)
    attempt(b, 2, DEFAULT, 3, DEFAULT)
    need({k: violations(b, k) for k in (2, 3)} == before, "an adapter has counted violations")
    until(20 * b.slow, lambda: traps(b, 259) > traps_before, "OpenSM was sent no trap 259")


@GROUP.test(timeout=200)
def managed(b):
    """Connections, IPoIB, and SMPs without the M_Key."""
    state = b.state["partitions"]
    guid, _, port = state["at"][3]
    key = (guid, port, "PortXmitConstraintErrors")

    def grown(do):
        before = counted(b).get(key, 0)
        do()
        return counted(b).get(key, 0) - before

    def requests(node):
        return int(b.sh(node, f"cat {PORT}/cm_rx_msgs/req"))

    index = keys(b, 2).index(MINE)
    came = {k: requests(k) for k in (1, 3)}
    need(grown(lambda: b.sh(2, f"python3 /tmp/req.py {state['lid'][3]} {index}")) == 1,
         "a REQ to the other tenant is not counted")
    b.sh(2, f"python3 /tmp/req.py {state['lid'][1]} {index}")
    until(20 * b.slow, lambda: requests(1) == came[1] + 1, "a REQ within a partition is lost")
    need(requests(3) == came[3], "a REQ has come to the other tenant")
    # a limited member does not receive the ARP requests of another
    b.sh(2, "ip neigh flush dev ib0")
    need(grown(lambda: b.sh(2, "ping -c 1 -W 1 node3-ib", status=1)) > 0, "ARP is not counted")
    # and if it knows the address, the SA has no path for it
    b.sh(2, f"ip neigh replace 10.77.0.3 dev ib0 lladdr $(printf '{address(b, 3)}') nud permanent")
    text = b.sh(2, "rping -c -a 10.77.0.3 -C 1 2>&1", 60, status=None)
    find("RDMA_CM_EVENT_ROUTE_ERROR|rdma_resolve_route", text)
    b.sh(2, "ip neigh del 10.77.0.3 dev ib0")
    before, told = violations(b, 3)["M"], traps(b, 256)
    find("no answer", b.sh(2, f"python3 /tmp/smp.py {state['lid'][3]} {PKEY_TABLE} 0 0 2:0:0x80"))
    need(violations(b, 3)["M"] > before, "an SMP without the M_Key is not counted")
    until(20 * b.slow, lambda: traps(b, 256) > told, "OpenSM was sent no trap 256")
    need(0x8000 not in keys(b, 3) and len(set(keys(b, 3))) == PKEYS, "the P_KeyTable was changed")


def address(b, node):
    """The address of a node's IPoIB."""
    return b.sh(node, "cat /sys/class/net/ib0/address").strip()


@GROUP.test(timeout=200)
def children(b):
    """Each tenant's own IPoIB: the same network twice; each node reaches only its partition."""
    def child(node, name, key, host):
        b.sh(node, f"ip link add link ib0 name {name} type ipoib pkey {FULL | key:#x}; "
                   f"sysctl -qw net.ipv6.conf.{name}.disable_ipv6=1; "
                   f"ip addr add {NETWORK}.{host}/24 dev {name}; ip link set {name} up")

    def of(node, what):
        return b.sh(node, f"cat /sys/class/net/tenant/{what}").strip()

    # nodes 1 and 3 have the same address, each in its tenant's network
    for node, key, host in ((1, MINE, 1), (2, MINE, 2), (3, OTHERS, 1)):
        child(node, "tenant", key, host)
    for node in (1, 2, 3):
        until(30 * b.slow, lambda node=node: of(node, "carrier") == "1",
              f"node{node} has not joined its tenant's broadcast group")
    b.sh(2, f"ping -c 2 -i 0.2 -W 5 {NETWORK}.1", 60)
    need(find(rf"{NETWORK}.1 dev tenant lladdr (\S+)", b.sh(2, "ip neigh show")) ==
         of(1, "address"), "another node than node1 has answered")
    server = b.background(1, f"rping -s -a {NETWORK}.1 -C 1",
                          "rdma resource show cm_id | grep -q 'LISTEN.* comm rping '",
                          ends=RPING_LOST)
    b.sh(2, f"rping -c -a {NETWORK}.1 -C 1", 60)
    server.wait()
    # permanent neighbours do not probe each other while packets are counted
    for node, other in ((1, 2), (2, 1)):
        b.sh(node, f"ip neigh replace {NETWORK}.{other} dev tenant lladdr {of(other, 'address')} "
                   "nud permanent")
    # node 3's requests reach no node, with or without the other's hardware address
    before = of(2, "statistics/rx_packets")
    b.sh(3, f"ping -c 1 -W 1 {NETWORK}.2", status=1)
    b.sh(3, f"ip neigh replace {NETWORK}.2 dev tenant lladdr {of(2, 'address')} nud permanent; "
            f"ping -c 1 -W 1 {NETWORK}.2", status=1)
    need(of(2, "statistics/rx_packets") == before, "node2 has received another tenant's packets")
    need(of(3, "statistics/rx_packets") == "0", "node3 has received another tenant's packets")
    # an interface for a P_Key that the port does not have does not run
    child(3, "foreign", MINE, 3)
    need(b.sh(3, "cat /sys/class/net/foreign/carrier").strip() == "0",
         "an interface runs without its P_Key")
    b.sh(3, "ip link del foreign")
    for node in (1, 2, 3):
        b.sh(node, "ip link del tenant")


@GROUP.test(timeout=200)
def taken(b):
    """A node that has set itself a P_Key is stopped by its switch; without that, by the target."""
    state = b.state["partitions"]
    guid, _, port = state["at"][2]
    before = counted(b).get((guid, port, "PortRcvConstraintErrors"), 0)
    last = f"{state['lid'][2]} {PKEY_TABLE} {(PKEYS - 1) // 32} {M_KEY:#x} 62:0:0x80 63:0:{OTHERS}"
    find("^set", b.sh(2, f"python3 /tmp/smp.py {last}"))
    until(20 * b.slow, lambda: keys(b, 2)[-1] == FULL | OTHERS, "the P_Key is not there")
    command = "/share/ohca-peer tenant"
    s_out, _ = b.pair(f"{command} {FULL | OTHERS:#x},{MLID:#x},0",
                      f"{command} {FULL | OTHERS:#x},{MLID:#x},0 node3", PEER_PORT, 60, (3, 2))
    need(not re.search(r": [^0]", s_out), f"arrived: {s_out}")
    grew = counted(b).get((guid, port, "PortRcvConstraintErrors"), 0) - before
    need(grew == RC + UD + MCAST, f"the switch has counted {grew}")
    # the switch's port to node 3 forwards all packets
    _, switch, port = state["at"][3]
    was, told = violations(b, 3)["P"], traps(b, 257)
    find("^set", b.sh(1, f"python3 /tmp/smp.py {switch} {PORT_INFO} {port} {M_KEY:#x} "
                         "32:0xf0:0 33:0x0f:0 43:0xf3:0"))
    s_out, _ = b.pair(f"{command} {FULL | OTHERS:#x},{MLID:#x},0",
                      f"{command} {MINE:#x},{MLID:#x},0 node3", PEER_PORT, 60, (3, 2))
    need(not re.search(r": [^0]", s_out), f"arrived: {s_out}")
    grew = violations(b, 3)["P"] - was
    need(grew == RC + UD, f"node3 has counted {grew}")
    until(20 * b.slow, lambda: traps(b, 257) > told, "OpenSM was sent no trap 257")


@contextlib.contextmanager
def manager(b):
    """Runs ohca-ufm on the host for OpenSM on node 1; yields functions that add nodes to a tenant
    or remove them, and that delete a tenant."""
    with tempfile.TemporaryDirectory() as d:
        rest.write(os.path.join(d, "p.conf"), "Default=0x7fff,ipoib: ALL=full;\n")
        lab = shlex.quote(os.path.join(paths.TOP, "tools", "ohca-lab"))
        server = rest.Ufm(d, how=("--reload", f"{lab} exec --name {b.lab.name} --stdin 1 sh -c "
                                  "'cat >/etc/opensm/partitions.conf; pkill -HUP -x opensm' "
                                  "<p.conf"))

        def call(path, pkey, *guids):
            told = server.call("POST", path, {"pkey": hex(pkey), "guids": guids})
            need(told == (200, {}), f"{path}: {told}")

        def unmake(pkey):
            told = server.call("DELETE", f"{rest.PKEYS}/{pkey:#x}")
            need(told == (200, {}), f"DELETE {pkey:#x}: {told}")

        try:
            yield call, unmake
        finally:
            status, said = server.end()
            need(not status, f"ohca-ufm: status {status}, {said}")


@GROUP.test(timeout=300)
def moved(b):
    """ohca-ufm's calls make two tenants, move a node between them and delete them; the traffic of
    others continues all the time."""
    guids = {k: b.sh(k, f"cat {PORT}/gids/0").strip().replace(":", "")[16:] for k in (1, 2, 3)}
    every, mine, others = FULL | DEFAULT, FULL | MINE, FULL | OTHERS

    def sweeps():
        return int(b.sh(1, "grep -c 'SUBNET UP' /var/log/opensm.log; true"))

    def become(before, *held):
        for k, want in enumerate(held, 1):
            until(60 * b.slow, lambda k=k, want=want: {x for x in keys(b, k) if x} == set(want),
                  lambda k=k: f"node{k} has P_Keys {[hex(x) for x in keys(b, k)]}")
        need(sweeps() - before <= 2, f"OpenSM has swept {sweeps() - before} times")
        return dict(enumerate(held, 1))

    try:
        with manager(b) as (call, unmake):
            call(rest.PKEYS, MINE, guids[1], guids[2])
            call(rest.PKEYS, OTHERS, guids[3])
            member = become(sweeps(), (every, mine), (every, mine), (every, others))
            load = Load(b)
            attempt(b, 1, mine, 2, mine, member)
            attempt(b, 2, mine, 3, others, member)
            load.go_on()
            before = sweeps()
            call(rest.REMOVE, MINE, guids[2])
            become(before, (every, mine), (every,), (every, others))
            load.go_on()
            before = sweeps()
            call(rest.PKEYS, OTHERS, guids[2])
            member = become(before, (every, mine), (every, others), (every, others))
            attempt(b, 1, mine, 2, others, member)
            attempt(b, 2, others, 3, others, member)
            load.go_on()
            before = sweeps()
            unmake(MINE)
            become(before, (every,), (every, others), (every, others))
            load.go_on()
            before = sweeps()
            unmake(OTHERS)
            become(before, (every,), (every,), (every,))
            load.go_on()
            load.kill()
    finally:
        del b.state["partitions"]   # the next test starts with its own
