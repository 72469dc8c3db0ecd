# SPDX-License-Identifier: GPL-2.0-or-later
"""A lab that is up, for commands that inspect it: its nodes and its fabric."""
import json
import os
import subprocess
import time

from . import paths
from .channel import Channel, GuestGone, Timeout, keeper
from .lab import environment_of, node_dir
from .words import LabError

PORT = "/sys/class/infiniband/ohca_0/ports/1"


def number(text):
    """The number in a tool's output, decimal or 0x, or None."""
    try:
        return int(text, 0)
    except (TypeError, ValueError):
        return None


class Running:
    """A lab that is up: its nodes and its fabric."""

    def __init__(self, name, state):
        self.name, self.state = name, state
        self.nodes = range(1, state["nodes"] + 1)
        self.first = state["first"]     # the number of its first node

    def sh(self, node, script, timeout=60):
        """Runs a shell script on a node; returns its status and what it printed."""
        parts, deadline = [], time.monotonic() + timeout
        try:
            channel = Channel(node_dir(self.name, node), deadline)
        except (Timeout, GuestGone) as e:
            raise LabError(f"{self.state['names'][node - 1]} does not answer: {e}") from None
        try:
            status = channel.run(["/bin/sh", "-c", script],
                                 environment_of(self.state, node),
                                 keeper(parts), deadline)
        finally:
            channel.close()
        return status, b"".join(parts).decode(errors="replace")

    def ask(self, *words):
        """Runs a command of ohca-fabric at the control socket; returns its status and output."""
        done = subprocess.run([paths.FABRIC, *words, "--control",
                               os.path.join(paths.runtime(), self.name, "control")],
                              stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              check=False, timeout=60)
        return done.returncode, done.stdout + done.stderr

    def _nodes(self, command):
        """All nodes that a command of the control socket lists."""
        status, text = self.ask(command, "--json")
        if status:
            raise LabError(f"the fabric does not answer '{command}': {text.strip()}")
        return [n for line in text.splitlines() for n in json.loads(line)["nodes"]]

    def topology(self):
        """{NodeDescription: node} of the fabric; nodes are as in the control socket's answer."""
        return {n["description"]: n for n in self._nodes("topology")}

    def counters(self):
        """{(NodeGUID, port): {name: value}} since the start of the fabric."""
        return {(n["guid"], p["port"]): p for n in self._nodes("counters") for p in n["ports"]}

    def place(self, node):
        """The NodeDescription of the first adapter of a node."""
        return self.state["places"][node - 1][0]

    def lid(self, node):
        """The LID of a node of the lab, read on the node."""
        return number(self.sh(node, f"cat {PORT}/lid")[1].strip())

    def file(self, name):
        """The path of a file in the lab's directory, which is removed with the lab."""
        return os.path.join(paths.runtime(), self.name, name)

    def trace(self, source, target):
        """Whether a packet arrives, and the names of the nodes on its path."""
        status, text = self.ask("trace", "--json", str(source), str(target))
        try:
            answer = json.loads(text.splitlines()[0])
            return not status and answer["arrives"], [h["description"] for h in answer["hops"]]
        except (ValueError, KeyError, IndexError):
            return False, []

    def answers(self, path):
        """{name: value} of the lines NAME=VALUE of a file on node 1."""
        _, text = self.sh(1, f"cat {path} 2>/dev/null")
        pairs = (line.split("=", 1) for line in text.splitlines() if "=" in line)
        return {name.strip().lower(): value.strip().lower() for name, value in pairs}
