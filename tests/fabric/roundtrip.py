#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""What infiniband-diags say of a fabric is what the fabric says: roundtrip.py FABRIC [TOPOLOGY...]

A TOPOLOGY is a file or a SPEC; without one all files and SPECs of TOPOLOGIES with at most --nodes
nodes. Each is served, and set up by OpenSM. Then ibnetdiscover's output is loaded again, and it,
iblinkinfo, dump_fts, ibtracert and ibqueryerrors are compared with the control socket's replies,
and each format that the fabric writes is read again.
One line for each TOPOLOGY.
"""
import argparse
import collections
import contextlib
import glob
import json
import os
import random
import re
import subprocess
import sys
import tempfile
import time
from xml.etree import ElementTree

LIBRARY = "".join(glob.glob("/usr/lib/*/umad2sim/libumad2sim.so"))
SOCKET = f"roundtrip-{os.getpid()}"
TRACES = 10
MANY_ROUTES = 8000000   # of all switches together: dump_fts would print them all
SWITCHES = 10           # of which ibroute prints the tables then
DRAWN = 36              # nodes of a fabric that dot draws in a moment
SVG = "{http://www.w3.org/2000/svg}"
ERRORS = ("SymbolErrorCounter", "LinkErrorRecoveryCounter", "LinkDownedCounter", "PortRcvErrors",
          "PortRcvRemotePhysicalErrors", "PortRcvSwitchRelayErrors", "PortXmitDiscards",
          "PortXmitConstraintErrors", "PortRcvConstraintErrors", "LocalLinkIntegrityErrors",
          "ExcessiveBufferOverrunErrors")
# libumad2sim leaves out the last 32 bytes of each MAD, where these are
NOT_SEEN = ("VL15Dropped", "PortXmitWait", "QP1Dropped")
SPEEDS = {"2.5": "SDR", "5.0": "DDR", "10.0": "QDR", "14.0625": "FDR", "25.78125": "EDR",
          "53.125": "HDR", "106.25": "NDR", "212.5": "XDR"}


class Different(Exception):
    """Two accounts of a fabric differ."""


def same(what, theirs, ours):
    """Raises Different, with the first few differences of two dictionaries."""
    keys = [k for k in sorted(set(theirs) | set(ours)) if theirs.get(k) != ours.get(k)]
    if keys:
        raise Different(f"{what}: {len(keys)} differ: " + "; ".join(
            f"{k}: {theirs.get(k)}, not {ours.get(k)}" for k in keys[:3]))


class Fabric:
    """A fabric that is served, and its replies."""

    def __init__(self, program, arguments, name):
        self.program = program
        self.path = os.path.abspath(name)
        self.child = subprocess.Popen([program, "serve", *arguments, "--control", self.path],
                                      stdout=subprocess.PIPE, text=True)
        if "ready" not in self.child.stdout.readline():
            raise Different("it is not served")
        self.lft_of = {}

    def close(self):
        """Ends the fabric."""
        self.child.terminate()
        self.child.communicate()
        if self.child.returncode:
            raise Different(f"the fabric ended with status {self.child.returncode}")

    def ask(self, verb, *arguments):
        """All parts of a reply."""
        out = subprocess.run([self.program, verb, "--json", "--control", self.path, *arguments],
                             stdout=subprocess.PIPE, check=True, text=True).stdout
        return [json.loads(line) for line in out.splitlines()]

    def nodes(self, verb="topology"):
        """Nodes by NodeGUID, with their ports by number."""
        nodes = {n["guid"]: n for part in self.ask(verb) for n in part["nodes"]}
        for node in nodes.values():
            node["ports"] = {p["port"]: p for p in node["ports"]}
        return nodes

    def convert(self, form, *arguments):
        """The topology in a format."""
        return subprocess.run([self.program, "topology", "--format", form, *arguments],
                              stdout=subprocess.PIPE, check=True, text=True,
                              errors="replace").stdout

    def lft(self, guid):
        """Output ports of a switch by LID."""
        if guid not in self.lft_of:
            ports = [p for part in self.ask("lft", guid) for p in part["lft"]]
            self.lft_of[guid] = {lid: p for lid, p in enumerate(ports) if p != 255}
        return self.lft_of[guid]


def run(*argv):
    """The output of a program at the first host."""
    done = subprocess.run(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=3600,
                          check=False, text=True, errors="replace",
                          env={**os.environ, "LD_PRELOAD": LIBRARY, "IBSIM_SOCKNAME": SOCKET,
                               "OSM_TMP_DIR": ".", "OSM_CACHE_DIR": "."})
    # ibqueryerrors' status is the number of nodes with errors
    if done.returncode and argv[0] != "ibqueryerrors":
        raise Different(f"{argv[0]}: status {done.returncode}: {done.stderr[-300:]}")
    return done.stdout


def graph(nodes):
    """The nodes of a topology file: by node and port the other end, rate, LID and LMC."""
    out = {}
    for guid, node in nodes.items():
        out[guid] = (node["type"], node["description"])
        for num, port in node["ports"].items():
            # a switch's LID is in its file; that of a host's port only with a cable
            if "peer" in port or node["type"] == "switch":
                out[f"{guid} {num:3}"] = tuple(port.get(k) for k in (
                    "guid", "lid", "lmc", "peer", "peer_port", "rate"))
    return out


def check_discovered(fabric, nodes):
    """ibnetdiscover's output is a topology file of the same fabric."""
    with open("found", "w", encoding="utf-8") as f:
        f.write(run("ibnetdiscover"))
    subprocess.run([fabric.program, "check", "found"], stdout=subprocess.DEVNULL, check=True)
    again = Fabric(fabric.program, ["--topology", "found"], "control2")
    try:
        same("ibnetdiscover", graph(again.nodes()), graph(nodes))
    finally:
        again.close()


def check_formats(fabric):
    """The fabric reads the formats of other tools that it writes as the same fabric."""
    ours = fabric.convert("lst", "--control", fabric.path)
    # ibnetdiscover -p has neither IDs nor NodeGUIDs: its cables by LID and port
    for form, drop in (("ibnetdiscover", ""), ("lst", ""),
                       ("ports", r"Ports:.*?\{.*?\} (?=LID)")):
        with open("written", "w", encoding="utf-8") as f:
            f.write(fabric.convert(form, "--control", fabric.path))
        theirs = fabric.convert("lst", "--topology", "written")
        if drop:
            ours, theirs = (re.sub(drop, "", t) for t in (ours, theirs))
            ours = ours.replace("SPD=FDR10", "SPD=10")
        same(f"--format {form}", cables(theirs), cables(ours))
    if len(fabric.convert("slurm", "--control", fabric.path).splitlines()) < 2:
        raise Different("--format slurm: nothing is written")


def check_drawing(fabric, nodes):
    """Graphviz draws each node with its name, and each cable."""
    if len(nodes) > DRAWN:
        return
    with open("graph", "w", encoding="utf-8") as f:
        f.write(fabric.convert("dot", "--control", fabric.path))
    svg = ElementTree.fromstring(run("dot", "-Tsvg", "graph"))
    drawn = collections.Counter(g.get("class") for g in svg.iter(SVG + "g"))
    texts = collections.Counter("".join(t.itertext()) for g in svg.iter(SVG + "g")
                                if g.get("class") == "node" for t in g.iter(SVG + "text"))
    cabled = [(guid, num) for guid, node in nodes.items()
              for num, port in node["ports"].items() if "rate" in port]
    same("dot -Tsvg", dict(drawn),
         {"graph": 1, "node": len(nodes), "edge": len(cabled) // 2})
    same("the names that dot draws", dict(texts),
         dict(collections.Counter(n["description"] for n in nodes.values())))


def cables(text):
    """A list's cables, whose ends may have either order; its state is not in a file."""
    out = {}
    for line in text.splitlines():
        a, b, rate = re.fullmatch(r"(\{ .* \}) (\{ .* \}) (PHY=.*)", line).groups()
        out[" ".join(sorted((a, b)))] = re.sub(r"LOG=\w+", "", rate)
    return out


def check_links(nodes):
    """iblinkinfo's ends of links: LID, state, rate, and what is at the other end."""
    theirs, ours = {}, {}
    for line in run("iblinkinfo", "-l").splitlines():
        m = re.match(r'(0x\w+) ".*" +(\d+) +(\d+)\[.*?\] ==\( *(\d+X) +([\d.]+) Gbps'
                     r'(?: \(FDR10\))? +'
                     r'(\w+)/ +\w+\)==> +(0x\w+) +(\d+) +(\d+)\[', line)
        if m:
            rate = m[4].lower() + ("FDR10" if "(FDR10)" in line else SPEEDS.get(m[5], m[5]))
            theirs[f"{m[1]} {m[3]}"] = (int(m[2]), m[6], rate, m[7], int(m[8]), int(m[9]))
        elif "Down" not in line:
            raise Different(f"iblinkinfo says: {line}")
    for node in nodes.values():
        end = end_of(node)
        for num, port in node["ports"].items():
            if "rate" in port:
                peer = nodes[port["peer"]]
                there = end_of(peer, port["peer_port"])
                here = end_of(node, num) if node["type"] != "switch" else end
                ours[f"{here['guid']} {num}"] = (here["lid"], port["state"], port["rate"],
                                                 there["guid"], there["lid"], port["peer_port"])
    same("iblinkinfo", theirs, ours)


def end_of(node, num=0):
    """The port with the LID: port 0 of a switch."""
    return node["ports"][0 if node["type"] == "switch" else num or min(node["ports"])]


def read_tables(text):
    """Tables of output ports by LID, as dump_fts and ibroute print them, by the switch's GUID."""
    tables, table = {}, {}
    for line in text.splitlines():
        m = re.match(r"Unicast lids .* guid (0x\w+) ", line)
        if m:
            table = tables[m[1]] = {}
        m = re.match(r"(0x\w+) +(\d+) +:", line)
        if m:
            table[int(m[1], 16)] = int(m[2])
    return tables


def check_tables(fabric, nodes):
    """dump_fts, or ibroute for what dump_fts does not show, has what the switches' tables have."""
    switches = {guid: n for guid, n in nodes.items() if n["type"] == "switch"}
    # without -a they leave out LIDs that no port has
    lids = {lid for n in nodes.values() for p in n["ports"].values() if p.get("lid")
            for lid in range(p["lid"], p["lid"] + (1 << p["lmc"]))}
    tables = {}
    if len(switches) * len(lids) < MANY_ROUTES:
        tables = read_tables(run("dump_fts"))
        same("dump_fts", dict.fromkeys(tables), dict.fromkeys(switches))
    else:
        switches = dict(random.Random(1).sample(sorted(switches.items()), SWITCHES))
    for guid, switch in switches.items():
        ours = {lid: p for lid, p in fabric.lft(guid).items() if lid in lids}
        # both leave out the last LID if it is a multiple of 64, and dump_fts ports above 127
        if max(ours) % 64 == 0:
            del ours[max(ours)]
        if guid not in tables or max(ours.values()) > 127:
            tables |= read_tables(run("ibroute", str(end_of(switch)["lid"])))
        same(f"the table of {guid}", tables[guid], ours)


def walk(fabric, nodes, where, num, lid):
    """Ports that a packet for a LID goes through, from port num of a host."""
    out = []
    for _ in range(64):
        port = nodes[where]["ports"][num]
        where, num = port["peer"], port["peer_port"]
        out.append((where, num))
        if nodes[where]["type"] != "switch":
            return out
        num = fabric.lft(where).get(lid, 255)
        if not num:
            return out
        if num == 255:
            break
        out.append((where, num))
    raise Different(f"LID {lid} does not arrive")


def check_traces(fabric, nodes):
    """The routes of ibtracert are those of the forwarding tables."""
    ends = [(guid, num, p) for guid, n in nodes.items() if n["type"] == "channel adapter"
            for num, p in n["ports"].items() if p["state"] == "Active" and p["lid"]]
    rng = random.Random(1)
    for _ in range(min(TRACES, len(ends) * (len(ends) - 1))):
        (guid, num, start), (_, _, end) = rng.sample(ends, 2)
        theirs = []
        for line in run("ibtracert", str(start["lid"]), str(end["lid"])).splitlines():
            m = re.match(r"\[(\d+)\] -> \S+ port \{(0x\w+)\}\[(\d+)\]", line)
            if m:
                theirs += [int(m[1]), (m[2], int(m[3]))]
        way = walk(fabric, nodes, guid, num, end["lid"])
        # ibtracert prints the port by which a packet enters a switch, and that by which it leaves
        ours, at = [num], way[0]
        for at in way[:-1]:
            ours.append(at if len(ours) % 2 else at[1])
        ours.append(way[-1])
        # a port is named by its PortGUID
        ours = [x if isinstance(x, int) else (end_of(nodes[x[0]], x[1])["guid"], x[1])
                for x in ours]
        if theirs != ours:
            raise Different(f"ibtracert {start['lid']} {end['lid']}: {theirs}, not {ours}")


def check_errors(fabric, nodes):
    """ibqueryerrors finds the counters of errors that are not 0, after a link went down."""
    # a link of the switch at which the programs are
    host = next(n for n in nodes.values() if n["type"] == "channel adapter")
    switch = nodes[next(p["peer"] for p in host["ports"].values() if "rate" in p)]
    links = [num for num, p in switch["ports"].items() if "rate" in p and
             nodes[p["peer"]]["type"] == "switch"]
    for act in ("disable", "enable") if links else ():
        run("ibportstate", str(end_of(switch)["lid"]), str(links[0]), act)
    run("opensm", "-o", "-f", "osm.log")
    with open("thresholds", "w", encoding="ascii") as f:
        f.writelines(f"{name}=0\n" for name in ERRORS)
    theirs, ours = collections.defaultdict(dict), collections.defaultdict(dict)
    for line in run("ibqueryerrors", "--skip-sl", "--threshold-file", "thresholds").splitlines():
        m = re.match(r" +GUID 0x(\w+) port (\d+): (.*)", line)
        if m:
            for name, value in re.findall(r"\[(\w+) == (\d+)[^]]*\]", m[3]):
                if name not in NOT_SEEN:
                    theirs[f"0x{m[1]:0>16} {m[2]}"][name] = int(value)
    for guid, node in fabric.nodes("counters").items():
        for num, port in node["ports"].items():
            for name in ERRORS:
                if port.get(name):
                    end = end_of(nodes[guid], num)["guid"]
                    ours[f"{end} {num}"][name] = port[name]
    if links and not ours:
        raise Different("a link that went down was not counted")
    same("ibqueryerrors", theirs, ours)


def check(program, *topology):
    """Runs all checks for one topology. Returns the number of comparisons, as text."""
    fabric = Fabric(program, [*topology, f"--umad2sim={SOCKET}"], "control")
    try:
        run("opensm", "-o", "-f", "osm.log")
        with open("osm.log", encoding="utf-8", errors="replace") as f:
            log = f.read()
        if "SUBNET UP" not in log or " ERR " in log:
            raise Different("OpenSM: " + (re.search(r".* ERR .*", log) or ["no subnet"])[0])
        nodes = fabric.nodes()
        check_discovered(fabric, nodes)
        check_links(nodes)
        check_formats(fabric)
        check_drawing(fabric, nodes)
        check_tables(fabric, nodes)
        check_traces(fabric, nodes)
        check_errors(fabric, nodes)
        status = fabric.ask("status")[0]
        return f"{status['switches']} switches, {status['cables']} cables"
    except (OSError, subprocess.SubprocessError, KeyError) as e:
        raise Different(f"{type(e).__name__}: {e}") from e
    finally:
        fabric.close()


def chosen(args):
    """Pairs of a topology's name and its file, or None."""
    directory = os.path.abspath(os.environ["TOPOLOGIES"])
    if args.topology:
        return [(t, os.path.abspath(t) if os.path.exists(t) else None) for t in args.topology]
    found = [(f, os.path.join(directory, f)) for f in sorted(os.listdir(directory))
             if f != "specs"]
    with open(os.path.join(directory, "specs"), encoding="utf-8") as f:
        for line in f:
            words = line.split("#")[0].split()
            if words and int(words[1]) + int(words[2]) <= args.nodes:
                found.append((words[0], None))
    return found


def main():
    """Checks all topologies."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("fabric", type=os.path.abspath)
    parser.add_argument("topology", nargs="*")
    parser.add_argument("--nodes", type=int, default=70000)
    args = parser.parse_args()
    topologies, bad = chosen(args), 0
    for name, file in topologies:
        begin = time.monotonic()
        with tempfile.TemporaryDirectory() as directory, contextlib.chdir(directory):
            try:
                what = check(args.fabric, *(("--topology", file) if file else
                                            ("--generate", name)))
                print(f"PASS: {name}: {what}, {time.monotonic() - begin:.1f} s", flush=True)
            except Different as e:
                print(f"FAIL: {name}: {e}", flush=True)
                bad += 1
    sys.exit(bad > 0)


if __name__ == "__main__":
    main()
