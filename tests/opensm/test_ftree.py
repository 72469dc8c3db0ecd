# SPDX-License-Identifier: GPL-2.0-or-later
"""Fat trees with broken cables and failed switches, with the engines for them."""
import json
import os
import subprocess

import routes
from sm import CONFIG, ANY, NO_FAT_TREE, Case, quick, write

SEEDS = range(1, 41)
TREES = ("fat-tree:6", "fat-tree:4,3", "fat-tree:8,3")


class Levels:
    """The levels of a tree: hosts are the lowest; top has the names of the highest one."""

    def __init__(self, nodes):
        name = {n["guid"]: x for x, n in nodes.items()}
        self.level, self.up = {}, {}
        peers = {x: {name[p["peer"]] for p in n["ports"].values()
                     if p.get("peer") and p["state"] != "Down"} for x, n in nodes.items()}
        self.top = {x for x, n in nodes.items() if n["type"] != "switch"}
        while True:
            self.level.update(dict.fromkeys(self.top, len(set(self.level.values()))))
            above = set().union(*(peers[x] for x in self.top)) - set(self.level)
            if not above:
                break
            self.top = above
        for x, at in self.level.items():
            self.up[x] = {y for y in peers[x] if self.level[y] > at}

    def above(self, name):
        """All nodes that can be reached upwards from a node."""
        found, names = set(), {name}
        while names:
            found |= names
            names = set().union(*(self.up[x] for x in names)) - found
        return found


class FatTrees(Case):
    """ftree and updn on incomplete trees."""

    def tables(self, engine, fabric, **more):
        """Runs one sweep; each host must reach each other one. Return: the engine"""
        sm = self.opensm(fabric, "host1", "-R", engine, **more)
        sm.up()
        return sm, self.judged(fabric, sm)

    def judged(self, fabric, sm):
        """Checks the present tables: hosts with a route up and down reach each other."""
        tables, levels = routes.Tables(fabric), Levels(fabric.nodes())
        up_and_down = sm.engine() in ("ftree", "updn")
        for (name, number, lid), way in tables.ways():
            if way is None:
                other = next(n for (n, _), lids in tables.ends.items() if lid in lids)
                self.assertTrue(up_and_down and not levels.above(name) & levels.above(other),
                                f"{name}:{number} does not reach {other}")
        if sm.engine() in ("ftree", "updn"):
            self.assertIsNone(tables.circle(), "links whose credits wait for each other")
        return tables

    @quick
    def test_whole(self):
        """A complete tree: ftree is used, and each spine has the same number of hosts."""
        fabric = self.serve("fat-tree:6")
        sm, tables = self.tables("ftree", fabric)
        self.assertEqual(sm.engine(), "ftree")
        downs = {}
        for _, way in tables.ways():
            if len(way) == 4:
                downs.setdefault(way[2], set()).add(way[-1])
        # the spine's port to a leaf has one of its three hosts
        self.assertEqual({len(x) for x in downs.values()}, {1})

    def lacking(self, spec, count, seed):
        """A fabric that lacks that many cables, which the seed chooses."""
        path = os.path.join(self.dir, "topology")
        with open(path, "wb") as f:
            subprocess.run([CONFIG["fabric"], "generate", spec, "--broken", str(count), "--seed",
                            str(seed)], stdout=f, check=True)
        return self.serve("--topology", path)

    def roots(self, fabric):
        """A file with the switches of the highest level, for OpenSM."""
        nodes, levels = fabric.nodes(), Levels(fabric.nodes())
        write(os.path.join(self.dir, "roots"),
              "".join(f"{nodes[x]['guid']}\n" for x in levels.top))
        return {"root_guid_file": os.path.join(self.dir, "roots")}

    def broken(self, count, engine, told):
        """Missing cables, by 40 seeds; told: OpenSM knows the roots."""
        used = {}
        for spec in TREES[:2]:
            for seed in SEEDS:
                with self.subTest(spec=spec, seed=seed):
                    fabric = self.lacking(spec, count, seed)
                    sm, _ = self.tables(engine, fabric, announced=NO_FAT_TREE,
                                        conf=self.roots(fabric) if told else None)
                    used[sm.engine()] = used.get(sm.engine(), 0) + 1
                    self.assertEqual(sm.end(), [])
                    self.assertEqual(fabric.end(), [])
        self.said = [json.dumps(used)]
        return set(used)

    def test_one_cable(self):
        """One missing cable: ftree refuses the tree, and minhop is used."""
        self.broken(1, "ftree", False)

    def test_one_cable_roots(self):
        """One missing cable, and OpenSM knows the roots."""
        self.assertEqual(self.broken(1, "ftree", True), {"ftree"})

    def test_five_cables_roots(self):
        """Five missing cables, and OpenSM knows the roots."""
        self.broken(5, "ftree", True)

    def test_updn_five_cables_roots(self):
        """Five missing cables, with updn."""
        self.assertEqual(self.broken(5, "updn", True), {"updn"})

    def test_breaks(self):
        """Cables are pulled one after the other while OpenSM runs; then all are plugged again."""
        fabric = self.serve("fat-tree:6")
        sm = self.opensm(fabric, "host1", "-R", "ftree", announced=ANY)
        sm.up()
        cables = ["leaf1:4", "leaf2:5", "leaf3:6", "leaf4:4", "leaf1:5"]
        whole = fabric.status()["links_up"]
        for count, end in enumerate(cables, 1):
            ups = sm.ups()
            fabric.link(end, "down")
            sm.up(ups + 1)
            self.settled(fabric, sm, lambda n=count: fabric.status()["links_up"] == whole - n)
            self.judged(fabric, sm)
        for count, end in enumerate(cables, 1):
            fabric.link(end, "up")
            self.settled(fabric, sm, lambda n=len(cables) - count:
                         fabric.status()["links_up"] == whole - n)
        self.quiet(sm)
        self.assertEqual(sm.engine(), "ftree")
        self.judged(fabric, sm)

    def test_spines_die(self):
        """All spines but one are switched off one after the other, and on again."""
        fabric = self.serve("fat-tree:6")
        sm = self.opensm(fabric, "host1", "-R", "ftree", announced=ANY)
        sm.up()
        for spine in "spine1", "spine2":
            ups = sm.ups()
            fabric.do("node", node=spine, state="kill")
            sm.up(ups + 1)
            self.settled(fabric, sm)
            self.judged(fabric, sm)
        for spine in "spine1", "spine2":
            fabric.do("node", node=spine, state="revive")
        self.settled(fabric, sm, lambda: fabric.status()["links_up"] == 36)
        self.quiet(sm)
        self.judged(fabric, sm)

    def test_large(self):
        """128 hosts at 80 switches with ten broken cables, and the balance of routes."""
        fabric = self.lacking(TREES[2], 10, 5)
        self.tables("ftree", fabric, announced=NO_FAT_TREE)
