# SPDX-License-Identifier: GPL-2.0-or-later
"""Which host of a topology each node of a lab has the place of."""
import os
import re
import subprocess
from collections import namedtuple

from . import paths

# A host of the topology: its NodeGUID, the number of its ports, its NodeDescription.
Host = namedtuple("Host", "guid ports name")

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
    return [Host(guid, int(ports), name) for guid, ports, name in
            (line.split(" ", 2) for line in done.stdout.splitlines())]


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
    free = iter([h for h in able if h not in given.values()])
    chosen = [given.get(k) or next(free, None) for k in range(1, opt.nodes + 1)]
    if None in chosen:
        raise PlaceError(f"--topology {opt.topology}: {len(able)} hosts with {opt.ports} ports "
                         f"are too few for {opt.nodes} nodes")
    return chosen
