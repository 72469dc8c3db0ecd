# SPDX-License-Identifier: GPL-2.0-or-later
"""Systems, ports and links as UFM shows them, and metrics, from the fabric's control socket."""
import subprocess
import time

from ohca_web.control import Control

TYPES = {"switch": "switch", "channel adapter": "host", "router": "router"}
SYS_TYPES = {"switch": "Switch", "host": "Computer", "router": "Router"}
LOGICAL = {"Init": "Initialize"}


class Fabric(Control):
    """A fabric behind a control socket. program: ohca-fabric"""

    def __init__(self, path, program="ohca-fabric"):
        super().__init__(path)
        self.program = program

    def nodes(self):
        """All nodes, as in the control socket's answers."""
        return self.ask(lambda end: [node for part, _ in self.replies_by(
            {"command": "topology"}, end) for node in part["nodes"]])

    def metrics(self):
        """The output of 'ohca-fabric metrics', as bytes."""
        def printed(end):
            done = subprocess.run(
                [self.program, "metrics", "--control", self.path], stdin=subprocess.DEVNULL,
                capture_output=True, timeout=max(end - time.monotonic(), 0.001), check=False)
            if done.returncode:
                raise ValueError(done.stderr.decode(errors="replace").strip())
            return done.stdout
        return self.ask(printed)


def digits(guid):
    """A GUID in UFM's format."""
    return guid.removeprefix("0x")


class View:
    """The nodes of one answer in the format of UFM."""

    def __init__(self, nodes):
        self.nodes = nodes
        self.ports_by_end = {}
        for node in nodes:
            for port in node["ports"]:
                if port["port"]:
                    self.ports_by_end[node["guid"], port["port"]] = node, port

    def role(self, node):
        """endpoint; for a switch tor (a host is at it) or core"""
        if node["type"] != "switch":
            return "endpoint"
        peers = (self.ports_by_end.get((p.get("peer"), p.get("peer_port"))) for p in node["ports"])
        return "tor" if any(p and p[0]["type"] != "switch" for p in peers) else "core"

    def systems(self):
        """The systems; each node is one."""
        return [{"system_name": node["description"], "name": digits(node["guid"]),
                 "system_guid": digits(node["guid"]), "guid": digits(node["guid"]),
                 "node_description": node["description"], "type": TYPES[node["type"]],
                 "role": self.role(node), "state": "active", "severity": "Info",
                 "ports": [self.name(node, p) for p in node["ports"] if p["port"]]}
                for node in self.nodes]

    @staticmethod
    def port_guid(node, port):
        """A port's GUID, or the NodeGUID for ports of switches and for ports without a LID."""
        return digits(port.get("guid", node["guid"]))

    def name(self, node, port):
        """UFM's name of a port."""
        return f"{self.port_guid(node, port)}_{port['port']}"

    def peer(self, port):
        """The members of a port that describe the other end of its link."""
        other = self.ports_by_end.get((port.get("peer"), port.get("peer_port")))
        if not other:
            return dict.fromkeys(("peer", "peer_guid", "peer_lid", "peer_node_guid",
                                  "peer_node_name", "peer_node_description", "peer_port_dname"),
                                 "N/A")
        node, end = other
        return {"peer": self.name(node, end), "peer_guid": self.port_guid(node, end),
                "peer_lid": lid_of(node, end), "peer_node_guid": digits(node["guid"]),
                "peer_node_name": node["description"],
                "peer_node_description": node["description"], "peer_port_dname": str(end["port"])}

    def ports(self):
        """All ports, except port 0 of switches."""
        return [{"name": self.name(node, port), "guid": self.port_guid(node, port),
                 "dname": str(port["port"]), "number": port["port"],
                 "external_number": port["port"], "systemID": digits(node["guid"]),
                 "system_name": node["description"], "node_description": node["description"],
                 "sys_type": SYS_TYPES[TYPES[node["type"]]], "lid": lid_of(node, port),
                 "logical_state": LOGICAL.get(port["state"], port["state"]),
                 "physical_state": "Polling" if port["state"] == "Down" else "Link Up",
                 "active_width": width_of(port), "active_speed": speed_of(port),
                 "severity": "Info", **self.peer(port)}
                for node, port in self.ports_by_end.values()]

    def links(self):
        """The links that are up, each once."""
        found = []
        for (guid, number), (node, port) in self.ports_by_end.items():
            end = port.get("peer"), port.get("peer_port")
            if port["state"] == "Down" or end not in self.ports_by_end or end < (guid, number):
                continue
            other, peer = self.ports_by_end[end]
            names = self.name(node, port), self.name(other, peer)
            found.append({"source_guid": self.port_guid(node, port), "source_port": str(number),
                          "source_port_dname": str(number),
                          "destination_guid": self.port_guid(other, peer),
                          "destination_port": str(peer["port"]),
                          "destination_port_dname": str(peer["port"]),
                          "width": width_of(port), "severity": "Info", "name": ":".join(names),
                          "capabilities": [],
                          "systems": [digits(guid), digits(other["guid"])]})
        return found


def lid_of(node, port):
    """The LID of a port, for a switch that of port 0; 0: it has none"""
    if node["type"] == "switch":
        return next((p.get("lid", 0) for p in node["ports"] if not p["port"]), 0)
    return port.get("lid", 0)


def width_of(port):
    """The width of a port: IB_4x for 4xHDR"""
    return f"IB_{port['rate'].partition('x')[0]}x" if "x" in port.get("rate", "") else None


def speed_of(port):
    """The speed of a port: HDR for 4xHDR"""
    return port["rate"].partition("x")[2] if "x" in port.get("rate", "") else None
