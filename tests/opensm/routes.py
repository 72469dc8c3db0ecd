# SPDX-License-Identifier: GPL-2.0-or-later
"""Checks the tables of a fabric's switches: routes, lost packets, credit loops."""
import collections

import mad

NO_PORT = 255


def directed(fabric, host):
    """Directed routes to all nodes: the ports from a host on."""
    nodes = fabric.nodes()
    by_guid = {n["guid"]: name for name, n in nodes.items()}
    ways, queue = {host: ()}, collections.deque([host])
    while queue:
        name = queue.popleft()
        if name != host and nodes[name]["type"] != "switch":
            continue
        for number, port in sorted(nodes[name]["ports"].items()):
            if number and port.get("peer") and port["state"] != "Down":
                other = by_guid[port["peer"]]
                if other not in ways:
                    ways[other] = (*ways[name], number)
                    queue.append(other)
                if name == host:
                    break       # a program is at the first port
    return ways


class Tables:
    """The cables, LIDs and LinearForwardingTables of a fabric at one moment."""

    def __init__(self, fabric):
        self.fabric = fabric
        self.nodes = fabric.nodes()
        self.name = {n["guid"]: name for name, n in self.nodes.items()}
        self.lft = {name: fabric.lft(n["guid"]) for name, n in self.nodes.items()
                    if n["type"] == "switch"}
        # (host, port): LIDs
        self.ends = {(name, number): range(port["lid"], port["lid"] + (1 << port["lmc"]))
                     for name, n in self.nodes.items() if n["type"] != "switch"
                     for number, port in n["ports"].items()
                     if port.get("lid") and port["state"] == "Active"}
        self.switch_lids = {n["ports"][0]["lid"]: name for name, n in self.nodes.items()
                            if n["type"] == "switch" and n["ports"][0].get("lid")}

    def peer(self, name, number):
        """The other end of a link that is up, or None."""
        port = self.nodes[name]["ports"].get(number)
        if not port or not port.get("peer") or port["state"] != "Active":
            return None
        return self.name[port["peer"]], port["peer_port"]

    def way(self, name, number, lid):
        """Links (node, port) on the route of a packet to a LID; None if it is lost."""
        links, at = [(name, number)], self.peer(name, number)
        while at and len(links) < 64:
            name, came = at
            if name not in self.lft:
                return links if lid in self.ends.get((name, came), ()) else None
            if self.switch_lids.get(lid) == name:
                return links
            out = self.lft[name][lid] if lid < len(self.lft[name]) else NO_PORT
            if out == NO_PORT:
                return None
            links.append((name, out))
            at = self.peer(name, out)
        return None

    def ways(self):
        """{(host, port, LID): the route} for all pairs of hosts' ports"""
        for name, number in self.ends:
            for end, lids in self.ends.items():
                if end != (name, number):
                    for lid in lids:
                        yield (name, number, lid), self.way(name, number, lid)

    def routers(self):
        """LIDs of routers' ports."""
        return {lid for (name, _), lids in self.ends.items()
                if self.nodes[name]["type"] == "router" for lid in lids}

    def lost(self, but=()):
        """The first few pairs between which packets are lost, except those to some LIDs."""
        return [pair for pair, way in self.ways() if way is None and pair[2] not in but][:4]

    def circle(self, vls=None):
        """A circle of channels that wait for each other, or None; vls(pair, way): VLs of links."""
        waits = collections.defaultdict(set)
        for pair, way in self.ways():
            if way is None:
                continue
            channels = list(zip(way, vls(pair, way) if vls else [0] * len(way)))
            for one, other in zip(channels, channels[1:]):
                waits[one].add(other)
        return first_circle(waits)

    def hops(self):
        """The number of links on all routes together."""
        return sum(len(way) for _, way in self.ways() if way)


def first_circle(waits):
    """A circle of a graph, or None: removes nodes that no other node waits for."""
    count = collections.Counter(o for others in waits.values() for o in others)
    nodes = set(waits) | set(count)
    free = [n for n in nodes if not count[n]]
    while free:
        node = free.pop()
        nodes.discard(node)
        for other in waits.get(node, ()):
            count[other] -= 1
            if not count[other]:
                free.append(other)
    return sorted(nodes)[:6] or None


class Lanes:
    """The VLs of packets, by PathRecords and SLtoVLMappingTables."""

    def __init__(self, tables, program, host):
        self.tables, self.program = tables, program
        self.ways = directed(tables.fabric, host)
        self.maps, self.sls = {}, {}

    def map(self, name, came, out):
        """The SLtoVLMappingTable of a switch's pair of ports, or of a host's port."""
        key = name, came, out
        if key not in self.maps:
            table = self.program.smp(self.ways[name], mad.SL_TO_VL, came << 8 | out)
            self.maps[key] = [v for byte in table[:8] for v in (byte >> 4, byte & 15)]
        return self.maps[key]

    def sl(self, pair):
        """The SL of a path."""
        name, number, lid = pair
        if pair not in self.sls:
            here = self.tables.ends[name, number][0]
            self.sls[pair] = self.program.path(here, lid)["sl"]
        return self.sls[pair]

    def write(self, path):
        """Writes the SLs of all known paths to a file for ohca-fabric traffic."""
        with open(path, "w", encoding="ascii") as out:
            for (name, number, lid), sl in self.sls.items():
                print(self.tables.ends[name, number][0], lid, sl, file=out)

    def vls(self, pair, way):
        """The function vls for Tables.circle()."""
        sl, lanes, came = self.sl(pair), [], 0
        for name, out in way:
            lanes.append(self.map(name, came if name in self.tables.lft else 0, out)[sl])
            end = self.tables.peer(name, out)
            came = end[1] if end else 0
        return lanes
