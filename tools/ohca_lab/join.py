# SPDX-License-Identifier: GPL-2.0-or-later
"""Labs of several hosts on one fabric: one lab listens, and the machines of the others join it."""
import re

from .words import LabError

SWITCH_PORTS = 36   # of the switch of a lab without --topology, unless its nodes have more
LAST_NODE = 64      # the highest number for which a node's image has names and addresses
JOIN_S = 300        # how long a joined port may wait for the other lab's OpenSM

# The management network is of one host. The way to what has an address of it elsewhere is IPoIB.
ROUTES = """
for k in $(seq {last_node}); do
	[ $k -ge {first} ] && [ $k -le {last} ] || echo "route replace 10.76.0.$k via 10.77.0.$k dev ib0"
done | ip -batch -
"""


def options(parser):
    """The options of run, up and node that make one fabric of labs of several hosts."""
    parser.add_argument("--listen", metavar="HOST:PORT",
                        help="labs of other hosts join this one's fabric at that TCP address")
    parser.add_argument("--join", metavar="HOST:PORT",
                        help="be a part of the fabric of the lab that listens there")
    parser.add_argument("--number", type=int, metavar="K",
                        help="with --join: the number of the first node, which no other lab has")
    parser.add_argument("--token", metavar="FILE",
                        help="the secret of both labs, a line of at least 16 characters; needed "
                             "unless HOST is the loopback's address")


def wrong(opt):
    """Why a lab cannot listen or join as its options say, or None."""
    if opt.number is not None and not opt.join:
        return "--number: for --join; the nodes of a lab that others join are 1 to N"
    if opt.token and not (opt.join or opt.listen):
        return "--token: for --join and --listen"
    if not (opt.join or opt.listen):
        return None
    name = "--join" if opt.join else "--listen"
    if opt.join and opt.listen:
        return "--join: a lab that joins another one does not listen; join that one"
    where = re.fullmatch(r"[^/=\s]+:(\d{1,5})", opt.join or opt.listen, re.A)
    if not where or not bool(opt.join) <= int(where[1]) <= 65535:
        return f"{name}: HOST:PORT is expected, as in 192.0.2.1:7471"
    if opt.fabric != "ohca":
        return f"{name}: --fabric {opt.fabric} has no switch"
    if opt.topology or (opt.hcas or 1) > 1 or opt.ports > 1:
        return (f"{name}: for a lab at one switch; with --topology, --hcas or --ports give "
                "ohca-fabric the wires: --serve=--wire=NODE:PORT (ohca-fabric serve --help)")
    if opt.nodes >= SWITCH_PORTS:
        return f"-n: {name} needs a port of the switch: at most {SWITCH_PORTS - 1} nodes"
    return wrong_number(opt) if opt.join else None


def wrong_number(opt):
    """The same for the numbers and names of nodes that join, and for their OpenSM."""
    if opt.number is None:
        return "--join: say --number K, the number of the first node, which no other lab has"
    if not 2 <= opt.number <= LAST_NODE - opt.nodes + 1:
        return f"--number: nodes are numbered to {LAST_NODE}, and 1 is of the lab that listens"
    if opt.opensm or opt.partitions:
        return "--join: OpenSM runs in the lab that listens: its options belong there"
    for k, called in enumerate(opt.names[:opt.nodes], opt.number):
        if re.fullmatch(r"node\d+", called, re.A | re.I) and called != f"node{k}":
            return f"--number: the file calls node{k} '{called}', which is another node's name"
    return None


def serve(opt):
    """What ohca-fabric gets for it: the wires of the switch, and GUIDs that no other lab has."""
    words = ["--token", opt.token] if opt.token else []
    if opt.listen:
        words += ["--listen-tcp", opt.listen]
        for port in range(opt.nodes + 1, SWITCH_PORTS + 1):
            words += ["--wire", f"switch1:{port}"]
    if opt.join:
        words += ["--site", str(opt.number), "--wire", f"switch1:{opt.nodes + 1}={opt.join}"]
    return words


def switch(opt):
    """The SPEC of the switch of a lab without --topology: its nodes in order, then others."""
    ports = opt.nodes * opt.ports
    size = opt.nodes + 1 if opt.join else max(ports, SWITCH_PORTS)
    return f"star:{size},{opt.nodes},{opt.ports},{opt.number or 1}"


def routes(lab):
    """Lets nodes reach those of other labs by the addresses that they have on the other host."""
    if lab.opt.join or lab.opt.listen:
        lab.sh_all(ROUTES.format(first=lab.first, last=lab.first + lab.opt.nodes - 1,
                                 last_node=LAST_NODE),
                   30 * lab.slow, "it has no way to nodes of other hosts")


def address(lab):
    """Where the lab listens, as its fabric's log says it."""
    with open(f"{lab.dir}/fabric.log", encoding="utf-8", errors="replace") as f:
        found = re.search(r"wires come by tcp:(\S+)", f.read())
    return found[1] if found else lab.opt.listen


def state(lab):
    """What the fabric's log says last of the wire, for a lab that could not join."""
    try:
        with open(f"{lab.dir}/fabric.log", encoding="utf-8", errors="replace") as f:
            said = [line for line in f if "switch1' port" in line or "wire" in line]
    except OSError:
        said = []
    return said[-1].strip() if said else "the fabric says nothing of the wire"


def active(lab, wait):
    """Runs what waits for ACTIVE ports; a failure says how the wire is."""
    try:
        wait()
    except LabError as e:
        if not lab.opt.join:
            raise
        raise LabError(f"{e}\n  no OpenSM has set up the port: is there one in the lab at "
                       f"{lab.opt.join}? {state(lab)}") from None
