# SPDX-License-Identifier: GPL-2.0-or-later
"""Which host of a topology each node of a lab has the place of."""
import os
import re
import subprocess
from collections import Counter, namedtuple

from . import paths

# A host of the topology: its NodeGUID, the number of its ports, the rate of the first ("4xNDR", "-"
# without a link), the NodeGUID of the switch that it is at, its NodeDescription.
Host = namedtuple("Host", "guid ports rate leaf name")

# What a switch has for SHARP: a channel adapter, but no machine.
AGGREGATION = "Aggregation Node"

# One switch with a port for whatever comes, as ohca-fabric says it.
ONE_SWITCH = ("--generate", "star:36", "--hosts-off")


class PlaceError(Exception):
    """The topology or a place is not one."""


def fabric_options(topology):
    """The options of ohca-fabric for --topology: a file that exists, or else a SPEC."""
    if topology is None:
        return ONE_SWITCH
    return ("--topology" if os.path.exists(topology) else "--generate", topology)


def hosts(topology):
    """The hosts of --topology in their order."""
    done = subprocess.run([paths.FABRIC, "hosts", *fabric_options(topology)], check=False,
                          stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if done.returncode:
        raise PlaceError(f"--topology {topology}: {done.stderr.strip()}")
    return [Host(guid, int(ports), *rest) for guid, ports, *rest in
            (line.split(" ", 4) for line in done.stdout.splitlines())]


def defaults(able):
    """The hosts that nodes get without --place: the first one at each switch, then the second ones.

    Aggregation nodes are none; hosts whose name others have, too, come last, since a place is
    found by its name.
    """
    count = Counter(h.name for h in able)
    rank, at = [], Counter()
    for h in able:
        if AGGREGATION not in h.name:
            rank.append((count[h.name] > 1, at[h.leaf], h))
            at[h.leaf] += count[h.name] == 1
    return [h for _, _, h in sorted(rank, key=lambda x: x[:2])]


def rate_properties(host):
    """The properties of -device ohca that give a node the rate of its host's port."""
    m = re.fullmatch(r"(\d+x)(\w+)", host.rate)
    if not m:
        return ""
    # what -device ohca does not have
    speed = {"FDR10": "QDR"}.get(m[2], m[2])
    return f"width={m[1]},speed={speed.lower()},"


def _named(all_hosts, nodes, wanted):
    """{node: Host} of the --place options."""
    by_name = {h.name: h for h in all_hosts}
    given = {}
    for arg in wanted:
        m = re.fullmatch(r"node([1-9]\d*)=(.+)", arg)
        if not m:
            raise PlaceError(f"--place {arg}: expected nodeK=NAME, as in node1=host3")
        k, name = int(m[1]), m[2]
        if k > nodes:
            raise PlaceError(f"--place {arg}: there are nodes 1 to {nodes}")
        if name not in by_name:
            raise PlaceError(f"--place {arg}: the topology has no host '{name}'; "
                             "'ohca-fabric hosts' lists them")
        if k in given or by_name[name] in given.values():
            raise PlaceError(f"--place {arg}: the node, or the host, has its place already")
        given[k] = by_name[name]
    return given


def choose(opt):
    """The Host of each node in order, or nothing without --topology: a node is then itself."""
    if opt.topology is None:
        if opt.place:
            raise PlaceError("--place is for a --topology")
        return []
    able = [h for h in hosts(opt.topology) if h.ports >= opt.ports]
    given = _named(able, opt.nodes, opt.place)
    free = iter([h for h in defaults(able) if h not in given.values()])
    chosen = [given.get(k) or next(free, None) for k in range(1, opt.nodes + 1)]
    if None in chosen:
        raise PlaceError(f"--topology {opt.topology}: {len(able)} hosts with {opt.ports} ports "
                         f"are too few for {opt.nodes} nodes")
    return chosen
