# SPDX-License-Identifier: GPL-2.0-or-later
"""Chooses the channel adapters of a topology in whose places the nodes of a lab are."""
import os
import re
import subprocess
from collections import Counter, namedtuple

from . import join, paths

# A channel adapter of the topology: its NodeGUID, the number of its ports, the rate of the first
# ("4xNDR", "-" without a link), the NodeGUID of its switch, its NodeDescription.
Host = namedtuple("Host", "guid ports rate leaf name")
# A machine of the topology: its name, and its adapters in their order.
Machine = namedtuple("Machine", "name hcas")

# In the description of a switch's channel adapter for SHARP, which is no machine.
AGGREGATION = "Aggregation Node"
# In the description of an adapter to which no driver has given the name of its machine.
NAMELESS = "Mellanox Technologies"

MAX_HCAS = 16   # adapters of a node


class PlaceError(Exception):
    """The topology or a place is wrong."""


def rails(opt):
    """The SPEC of a lab with several adapters in a node and no --topology: a leaf for each port."""
    leaves = opt.hcas * opt.ports
    spines = (leaves + 1) // 2
    # each leaf has as many links to spines as nodes, spread evenly over the spines
    nodes = -(-opt.nodes // spines) * spines
    return f"rails:1,{nodes},{leaves},{opt.ports}"


def fabric_options(opt):
    """The options of ohca-fabric for the topology of a lab: a file that exists, or else a SPEC.

    Without --topology, hosts of the SPEC that are no nodes of the lab are switched off.
    """
    if opt.topology is None:
        spec = rails(opt) if (opt.hcas or 1) > 1 else join.switch(opt)
        return ("--generate", spec, "--hosts-off")
    return ("--topology" if os.path.exists(opt.topology) else "--generate", opt.topology)


def site(opt):
    """The --site among the --serve arguments, for 'ohca-fabric hosts': all GUIDs depend on it."""
    found, words = (), iter(opt.serve)
    for word in words:
        name, equals, value = word.partition("=")
        # an option may be abbreviated
        if len(name) > 3 and "--site".startswith(name):
            found = ("--site", value if equals else next(words, ""))
    return found


def hosts(options):
    """The channel adapters of a topology in their order; options: fabric_options() and site()."""
    done = subprocess.run([paths.FABRIC, "hosts", *options], check=False,
                          stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if done.returncode:
        raise PlaceError(f"--topology {options[1]}: {done.stderr.strip()}")
    return [Host(guid, int(ports), *rest) for guid, ports, *rest in
            (line.split(" ", 4) for line in done.stdout.splitlines())]


def _by_number(host):
    """A key that sorts mlx5_2 before mlx5_10."""
    return [int(x) if x.isdigit() else x for x in re.split(r"(\d+)", host.name, flags=re.A)]


def machines(able):
    """The adapters as machines: the first word of their NodeDescriptions is the machine's name.

    The adapters of a machine are sorted by the numbers in their names. An adapter without a name,
    or whose whole name is not unique, is a machine by itself.
    """
    count = Counter(h.name for h in able)
    found = {}
    for h in able:
        alone = count[h.name] > 1 or AGGREGATION in h.name or NAMELESS in h.name
        key = h.guid if alone else h.name.split(" ")[0]
        found.setdefault((alone, key), []).append(h)
    return [Machine(hcas[0].name if len(hcas) == 1 else key, sorted(hcas, key=_by_number))
            for (_, key), hcas in found.items()]


def defaults(all_machines):
    """The machines for nodes without --place: first one of each switch, then a second one.

    A machine is at the switch of its first adapter. Aggregation nodes are left out. Machines
    without a unique name are last, because the fabric finds a place by its name.
    """
    count = Counter(h.name for m in all_machines for h in m.hcas)
    rank, at = [], Counter()
    for m in all_machines:
        first = m.hcas[0]
        if AGGREGATION not in first.name:
            last = count[first.name] > 1 or NAMELESS in first.name
            rank.append((last, at[first.leaf], m))
            at[first.leaf] += not last
    return [m for _, _, m in sorted(rank, key=lambda x: x[:2])]


def rate(host):
    """The options {name: value} that give an adapter the rate of its host's port."""
    m = re.fullmatch(r"(\d+x)(\w+)", host.rate)
    if not m:
        return {}
    # an adapter has no FDR10
    speed = {"FDR10": "QDR"}.get(m[2], m[2])
    return {"width": m[1], "speed": speed.lower()}


def rate_properties(host):
    """The same as properties of -device ohca."""
    return "".join(f"{k}={v}," for k, v in rate(host).items())


def _named(able, all_machines, opt):
    """{node: [Host]} of the --place options; each names an adapter, or all of a machine."""
    by_name = {m.name: m.hcas[:opt.hcas] for m in all_machines}
    by_name.update({h.name: [h] for h in able})
    given, taken = {}, set()
    for arg in opt.place:
        m = re.fullmatch(r"node([1-9]\d*)=(.+)", arg)
        if not m:
            raise PlaceError(f"--place {arg}: nodeK=NAME is expected, as in node1=host3")
        k, name = int(m[1]), m[2]
        if k > opt.nodes:
            raise PlaceError(f"--place {arg}: this lab has nodes 1 to {opt.nodes}")
        if name not in by_name:
            raise PlaceError(f"--place {arg}: the topology has no host '{name}' with {opt.ports} "
                             "ports; 'ohca-fabric hosts' lists them")
        if taken & {h.guid for h in by_name[name]}:
            raise PlaceError(f"--place {arg}: another --place already uses this adapter")
        taken |= {h.guid for h in by_name[name]}
        given.setdefault(k, []).extend(by_name[name])
    for k, hcas in given.items():
        if opt.hcas and len(hcas) != opt.hcas:
            raise PlaceError(f"--place: node{k} gets {len(hcas)} adapters, not the {opt.hcas} of "
                             "--hcas: name a host that has them, or each adapter by a --place of "
                             "its own")
    return given


def _too_few(opt, all_machines):
    """The error text if there are fewer hosts than nodes."""
    hcas = opt.hcas or 1
    text = (f"--topology {opt.topology}: {len(all_machines)} hosts with {opt.ports} ports are too "
            f"few for {opt.nodes} nodes: use a smaller -n or another topology")
    if hcas == 1:
        return text
    return (f"--topology {opt.topology}: {len(all_machines)} hosts have {hcas} adapters with "
            f"{opt.ports} ports, too few for {opt.nodes} nodes. Adapters belong to one host if the "
            "first words of their descriptions are equal, as in 'node1 mlx5_0' and 'node1 mlx5_1'. "
            f"'--topology rails:UNITS,NODES,{hcas * opt.ports},{opt.ports}' has such hosts; "
            "--place node1=NAME, once for each adapter, combines any adapters into a node")


def choose(opt):
    """The adapters of each node, lists of Host; without --topology, they have no GUID."""
    own = opt.topology is None
    if own and opt.place:
        raise PlaceError("--place: use it with --topology only")
    if own and (opt.hcas or 1) == 1:
        return [[Host(None, opt.ports, "-", "-", f"node{k + (opt.number or 1)}")]
                for k in range(opt.nodes)]
    able = [h for h in hosts(fabric_options(opt) + site(opt)) if h.ports >= opt.ports]
    found = machines(able)
    given = _named(able, found, opt)
    taken = {h.guid for hcas in given.values() for h in hcas}
    found = [m for m in found if len(m.hcas) >= (opt.hcas or 1)]
    free = iter([m.hcas[:opt.hcas] for m in defaults(found)
                 if not taken & {h.guid for h in m.hcas}])
    chosen = [given.get(k) or next(free, None) for k in range(1, opt.nodes + 1)]
    if None in chosen:
        raise PlaceError(_too_few(opt, found))
    for k, hcas in enumerate(chosen, 1):
        if len(hcas) > MAX_HCAS:
            raise PlaceError(f"node{k} has the place of a host with {len(hcas)} adapters; a node "
                             f"can have {MAX_HCAS}: use --hcas N, or --place")
    return chosen
