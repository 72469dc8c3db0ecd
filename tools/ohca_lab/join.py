# SPDX-License-Identifier: GPL-2.0-or-later
"""Labs of several hosts on one fabric: one lab listens, and the labs of other hosts join it."""
import re

from .words import LabError

SWITCH_PORTS = 36   # ports of the switch of a lab without --topology, unless its nodes need more
LAST_NODE = 64      # the highest number for which a node's image has names and addresses
REFUSED = "the token is wrong"   # in the fabric's log; to try again is of no use
JOIN_S = 300        # how long a joined port may wait for the other lab's OpenSM

# Each host has a management network of its own. Addresses on other hosts are routed over IPoIB.
ROUTES = """
for k in $(seq {last_node}); do
	[ $k -ge {first} ] && [ $k -le {last} ] || echo "route replace 10.76.0.$k via 10.77.0.$k dev ib0"
done | ip -batch -
"""


def options(parser):
    """The options of run, up and node that make one fabric of labs of several hosts."""
    parser.add_argument("--listen", metavar="HOST:PORT",
                        help="labs of other hosts can join this lab's fabric at this TCP address")
    parser.add_argument("--join", metavar="HOST:PORT",
                        help="join the fabric of the lab that listens at this TCP address")
    parser.add_argument("--number", type=int, metavar="K",
                        help="with --join: the number of the first node, which no other lab has")
    parser.add_argument("--token", metavar="FILE",
                        help="a file with the secret of both labs, a line of at least 16 "
                             "characters; needed unless HOST is a loopback address")


def wrong(opt):
    """Why a lab cannot listen or join as its options say, or None."""
    if opt.number is not None and not opt.join:
        return "--number: use it with --join only; without --join, nodes are numbered from 1"
    if opt.token and not (opt.join or opt.listen):
        return "--token: use it with --join or --listen only"
    if not (opt.join or opt.listen):
        return None
    name = "--join" if opt.join else "--listen"
    if opt.join and opt.listen:
        return "--join: a lab that joins another one does not listen: leave out --listen"
    where = re.fullmatch(r"(?:[^][/=:\s]+|\[[^][/=\s]+\]):(\d{1,5})", opt.join or opt.listen, re.A)
    if not where or not bool(opt.join) <= int(where[1]) <= 65535:
        return f"{name}: HOST:PORT is expected, as in 192.0.2.1:7471 or [2001:db8::1]:7471"
    if opt.fabric != "ohca":
        return f"{name}: --fabric {opt.fabric} has no switch: use --fabric ohca"
    if opt.topology or (opt.hcas or 1) > 1 or opt.ports > 1:
        return (f"{name}: it works with a lab at one switch only; with --topology, --hcas or "
                "--ports give ohca-fabric the wires: --serve=--wire=NODE:PORT (ohca-fabric "
                "--help)")
    if opt.nodes >= SWITCH_PORTS:
        return f"-n: {name} uses a port of the switch: give at most {SWITCH_PORTS - 1} nodes"
    return wrong_number(opt) if opt.join else None


def wrong_number(opt):
    """The same for the numbers and names of nodes that join, and for their OpenSM."""
    if opt.number is None:
        return "--join: give --number K, the number of the first node, which no other lab has"
    if not 2 <= opt.number <= LAST_NODE - opt.nodes + 1:
        return (f"--number: the nodes must have numbers from 2 to {LAST_NODE}: node 1 is in the "
                "lab that listens")
    if opt.opensm or opt.partitions:
        return "--join: OpenSM runs in the lab that listens: give its options there"
    for k, called in enumerate(opt.names[:opt.nodes], opt.number):
        if re.fullmatch(r"node\d+", called, re.A | re.I) and called != f"node{k}":
            return (f"--number: the file names node{k} '{called}', which is the name of another "
                    "node: change it in the file")
    return None


def serve(opt):
    """Options of ohca-fabric for --listen and --join: wires, token, and --site for unique GUIDs."""
    words = ["--token", opt.token] if opt.token else []
    if opt.listen:
        words += ["--listen-tcp", opt.listen]
        for port in range(opt.nodes + 1, SWITCH_PORTS + 1):
            words += ["--wire", f"switch1:{port}"]
    if opt.join:
        words += ["--site", str(opt.number), "--wire", f"switch1:{opt.nodes + 1}={opt.join}"]
    return words


def switch(opt):
    """The SPEC of the switch of a lab without --topology: ports of its nodes, then free ones."""
    ports = opt.nodes * opt.ports
    size = opt.nodes + 1 if opt.join else max(ports, SWITCH_PORTS)
    return f"star:{size},{opt.nodes},{opt.ports},{opt.number or 1}"


def routes(lab):
    """Adds routes over IPoIB to the management addresses of nodes on other hosts."""
    if lab.opt.join or lab.opt.listen:
        lab.sh_all(ROUTES.format(first=lab.first, last=lab.first + lab.opt.nodes - 1,
                                 last_node=LAST_NODE),
                   30 * lab.slow, "its routes to nodes of other hosts could not be set")


def address(lab):
    """The address at which the lab listens, from the fabric's log."""
    with open(f"{lab.dir}/fabric.log", encoding="utf-8", errors="replace") as f:
        found = re.search(r"listens at tcp:(\S+)", f.read())
    return found[1] if found else lab.opt.listen


def state(lab):
    """The last line about the wire in the fabric's log, for a lab that could not join."""
    try:
        with open(f"{lab.dir}/fabric.log", encoding="utf-8", errors="replace") as f:
            said = [line for line in f if "switch1' port" in line or "wire" in line]
    except OSError:
        said = []
    return said[-1].strip() if said else "the fabric's log has no line about the wire"


def active(lab, wait):
    """Calls wait(), which waits for ACTIVE ports; adds the wire's state to its error."""
    if lab.opt.join and REFUSED in state(lab):
        raise LabError(f"--token: give the file of the lab at {lab.opt.join}, which refuses this "
                       f"lab: {state(lab)}")
    try:
        wait()
    except LabError as e:
        if not lab.opt.join:
            raise
        raise LabError(f"{e}\n  no OpenSM has set up the port: is there one in the lab at "
                       f"{lab.opt.join}? {state(lab)}") from None
