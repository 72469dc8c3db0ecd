# SPDX-License-Identifier: GPL-2.0-or-later
"""GUIDs that are 0, and GUIDs that two nodes have: faults of the fabric, whose own commands still
show the true GUIDs."""
import re
import shutil
import subprocess

import routes
from sm import PATIENCE, ANY, Case, quick, within

SPEC = "fat-tree:4"     # 8 hosts, 4 leaves, 2 spines
LINKS = 16


class Guids(Case):
    """One OpenSM that gets wrong GUIDs."""

    def whole(self, fabric, sm):
        """All nodes have their own GUIDs again: one sweep sets up all of them."""
        for name in fabric.nodes():
            fabric.do("guid", node=name, **{"as": name})
        # the sweep that found both may have left out one of them
        within(lambda: sm.alive() and (sm.ups() or "Errors during initialization" in sm.text()),
               "OpenSM comes to the end of its sweep")
        sm.sweep()
        self.settled(fabric, sm, lambda: fabric.status()["links_active"] == LINKS)
        self.assertEqual(routes.Tables(fabric).lost(), [])
        self.assertEqual(len(routes.Tables(fabric).ends), 8)
        self.quiet(sm)

    def discovered(self, fabric):
        """The output and the errors of ibnetdiscover at host1."""
        if not shutil.which("ibnetdiscover"):
            return "", ""
        done = subprocess.run(["ibnetdiscover"], env=fabric.environment("host1"), check=False,
                              text=True, capture_output=True, cwd=self.dir, timeout=PATIENCE)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout, done.stderr

    def without(self, fabric, sm, name, links):
        """Checks that all nodes are set up, except the node and those behind it."""
        sm.up()
        self.assertEqual(fabric.status()["links_active"], links)
        table = routes.Tables(fabric)
        self.assertNotIn("lid", {k: v for port in fabric.nodes()[name]["ports"].values()
                                 for k, v in port.items() if v})
        self.assertEqual(table.lost(), [])
        return len(table.ends)

    @quick
    def test_zero_host(self):
        """A host with GUID 0: OpenSM logs it and continues without it; ibnetdiscover shows it."""
        fabric = self.serve(SPEC)
        fabric.do("guid", node="host4", **{"as": "0"})
        sm = self.opensm(fabric, "host1", announced={"0D16"})
        self.assertEqual(self.without(fabric, sm, "host4", LINKS - 1), 7)
        self.assertEqual(sm.errors(), ["0D16"])
        self.assertIn("Got Zero Node GUID! Found on the directed route", sm.text())
        found, _ = self.discovered(fabric)
        if found:
            self.assertIn('caguid=0x0\nCa\t1 "H-0000000000000000"\t\t# "host4"', found)
        self.whole(fabric, sm)

    def test_zero_switch(self):
        """A spine, and then a leaf with its two hosts, with GUID 0."""
        for name, hosts in ("spine2", 8), ("leaf2", 6):
            with self.subTest(name=name):
                fabric = self.serve(SPEC)
                fabric.do("guid", node=name, **{"as": "0"})
                sm = self.opensm(fabric, "host1", announced={"0D16"})
                self.assertEqual(self.without(fabric, sm, name, LINKS - 4), hosts)
                self.assertEqual(sm.errors(), ["0D16"])
                self.whole(fabric, sm)

    @quick
    def test_twin_hosts(self):
        """Two hosts with the same GUIDs: OpenSM names both ways again and again, and sets up
        nothing until it is mended."""
        fabric = self.serve(SPEC)
        fabric.do("guid", node="host4", **{"as": "host6"})
        sm = self.opensm(fabric, "host1", announced=ANY)
        sm.says("ERR 0D01: Found duplicated node GUID", 20)
        self.assertEqual((sm.ups(), fabric.status()["links_active"]), (0, 0))
        guid = fabric.nodes()["host6"]["guid"]
        self.assertTrue(re.search(f"Node {guid}", sm.text()), f"it does not name {guid}")
        self.assertEqual(sm.errors(), ["0D01"])
        found, _ = self.discovered(fabric)
        self.assertEqual(("host4" in found) + ("host6" in found), 1, found)
        self.whole(fabric, sm)

    def test_twin_hosts_later(self):
        """The same while the subnet is up: what is set up stays."""
        fabric = self.serve(SPEC)
        sm = self.opensm(fabric, "host1", announced=ANY)
        sm.up()
        self.settled(fabric, sm)
        fabric.do("guid", node="host4", **{"as": "host6"})
        fabric.link("leaf4:2", "down")      # a trap: it sweeps
        fabric.link("leaf4:2", "up")
        sm.says("ERR 0D01: Found duplicated node GUID", 20)
        self.assertEqual(routes.Tables(fabric).lost(), [])
        self.whole(fabric, sm)

    def test_twin_switches(self):
        """Two spines with the same GUIDs: OpenSM treats them as one, without a message."""
        fabric = self.serve(SPEC)
        fabric.do("guid", node="spine2", **{"as": "spine1"})
        sm = self.opensm(fabric, "host1", announced=ANY)
        sm.up()
        self.assertNotIn("0D01", sm.errors())
        self.assertEqual(fabric.status()["links_active"], LINKS - 4)
        self.whole(fabric, sm)
