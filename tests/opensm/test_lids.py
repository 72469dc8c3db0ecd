# SPDX-License-Identifier: GPL-2.0-or-later
"""LIDs: how OpenSM assigns them, which it keeps, and which it repairs."""
import os

import routes
from sm import Case, quick, within

SPEC = "fat-tree:4"     # 8 hosts, 4 leaves, 2 spines


def ports(fabric):
    """(NodeDescription, port): LID and LMC of all ports that have one."""
    return {(name, number): (port["lid"], port["lmc"]) for name, node in fabric.nodes().items()
            for number, port in node["ports"].items() if "lid" in port}


class Lids(Case):
    """One OpenSM."""

    def good(self, fabric, lmc=0):
        """Each port has LIDs of its own, and all LIDs of a host are routed to it."""
        found = ports(fabric)
        nodes = fabric.nodes()
        self.assertEqual(len(found), len(nodes))
        taken = {}
        for (name, _), (lid, port_lmc) in found.items():
            switch = nodes[name]["type"] == "switch"
            self.assertEqual(port_lmc, 0 if switch else lmc, name)
            self.assertEqual(lid % (1 << port_lmc), 0, f"{name}: LID {lid}, LMC {port_lmc}")
            for path in range(1 << port_lmc):
                self.assertTrue(0 < lid + path < 0xc000, f"{name}: LID {lid}")
                self.assertNotIn(lid + path, taken, f"{name}: LID {lid + path}")
                taken[lid + path] = name
        table = routes.Tables(fabric)
        self.assertEqual(table.lost(), [])
        return found

    @quick
    def test_fresh(self):
        """No node had LIDs before."""
        fabric = self.serve(SPEC)
        self.once(fabric, "host1")
        self.good(fabric)

    def test_lmc(self):
        """LMC 1 to 7: ranges begin at multiples of their size."""
        for lmc in 1, 3, 7:
            with self.subTest(lmc=lmc):
                fabric = self.serve(SPEC)
                self.once(fabric, "host1", "-l", str(lmc))
                self.good(fabric, lmc)

    def test_lmc_changes(self):
        """A subnet with LMC 0 gets LMC 2, and LMC 0 again."""
        fabric = self.serve(SPEC)
        for lmc in 0, 2, 0:
            self.once(fabric, "host1", "-l", str(lmc))
            self.good(fabric, lmc)

    def damaged(self, lids):
        """Hosts that had LIDs before OpenSM started. Return: the fabric"""
        fabric = self.serve(SPEC)
        program = self.at(fabric, "host1")
        ways = routes.directed(fabric, "host1")
        for name, lid in lids.items():
            program.set_lid(ways[name], lid)
        had = {name: port["lid"] for name, node in fabric.nodes().items()
               for port in node["ports"].values() if port.get("lid") and name in lids}
        self.assertEqual(had, {n: x for n, x in lids.items() if x}, "the LIDs that were written")
        return fabric

    @quick
    def test_kept(self):
        """Valid LIDs stay, and new ones do not conflict with them."""
        want = {"host2": 77, "host5": 3, "leaf1": 1, "spine2": 48000, "host8": 2}
        fabric = self.damaged(want)
        self.once(fabric, "host1")
        found = {name: lid for (name, _), (lid, _) in self.good(fabric).items()}
        self.assertEqual({name: found[name] for name in want}, want)

    @quick
    def test_twice(self):
        """The same LID at several ports, of hosts and switches."""
        fabric = self.damaged({"host1": 5, "host2": 5, "host3": 5, "leaf1": 5, "spine1": 7,
                               "leaf2": 7, "host7": 9, "host8": 9})
        self.once(fabric, "host1")
        found = {name: lid for (name, _), (lid, _) in self.good(fabric).items()}
        # one of each keeps it
        self.assertLessEqual({5, 7, 9}, set(found.values()))

    def test_misplaced(self):
        """LIDs that are no multiples of 2^LMC, and ranges that overlap."""
        fabric = self.damaged({"host1": 5, "host2": 6, "host3": 7, "host4": 8, "host5": 9,
                               "host6": 10, "leaf1": 12, "leaf2": 13, "host7": 14})
        self.once(fabric, "host1", "-l", "2")
        self.good(fabric, 2)

    def test_again(self):
        """LIDs in OpenSM's file are used again after a restart of OpenSM, its host or ports."""
        fabric = self.serve(SPEC)
        first = self.opensm(fabric, "host1")
        first.up()
        before = self.good(fabric)
        self.assertEqual(first.end(), [])
        for name in "host3", "leaf2", "spine1":
            fabric.do("node", node=name, state="kill")
            fabric.do("node", node=name, state="revive")
        again = self.opensm(fabric, "host1", keep=first.dir)
        again.up()
        self.assertEqual(self.good(fabric), before)

    def test_reassigned(self):
        """-r: OpenSM ignores all earlier LIDs."""
        fabric = self.damaged({"host2": 900, "host5": 901, "leaf1": 902})
        self.once(fabric, "host1", "-r")
        self.assertLess(max(lid for lid, _ in self.good(fabric).values()), 900)

    @quick
    def test_comes_back(self):
        """Nodes that fail and come back, and a node whose cable moves, keep their LIDs."""
        fabric = self.serve(SPEC)
        # the sweep for one that is back may still run when the next one fails: its SMPs are lost
        sm = self.opensm(fabric, "host1", announced=("3113", "3119", "331D", "5411"))
        sm.up()
        before = self.good(fabric)
        for name in "host6", "leaf3":
            ups = sm.ups()
            fabric.do("node", node=name, state="kill")
            sm.up(ups + 1)
            fabric.do("node", node=name, state="revive")
            within(lambda: ports(fabric) == before, f"{name} has its LID again")
        self.settled(fabric, sm)
        self.assertEqual(self.good(fabric), before)
        self.assertTrue(os.path.exists(os.path.join(sm.dir, "guid2lid")))
