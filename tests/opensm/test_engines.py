# SPDX-License-Identifier: GPL-2.0-or-later
"""All routing engines at many topologies: which engine is used, whether packets arrive, and whether
credit loops are possible."""
import collections
import os

import routes
from sm import NO_FAT_TREE, Case, quick, write

TOPOLOGIES = os.path.realpath(os.path.join(__file__, "..", "..", "topologies"))
ZOO = ("star:5", "ring:5,2", "ring:6", "torus:4x4", "torus:3x3x3", "fat-tree:4", "fat-tree:4,3",
       "dragonfly:2,1,1", "dragonfly+:3,2,2,2", "rails:1,4,4,2", "random:1,12", "random:7,20,3,2",
       *sorted(set(os.listdir(TOPOLOGIES)) - {"specs"}))
ENGINES = ("minhop", "updn", "dnup", "dor", "ftree", "lash", "sssp", "dfsssp", "nue")
# engines whose documentation says that their tables have no circle, whatever the cables are
FREE = {"updn", "dnup", "ftree", "lash", "dfsssp", "nue"}
# and of these the engines that need the SLs of PathRecords for that
BY_LANES = {"lash", "dfsssp", "nue"}
# engines without routes to routers
NO_ROUTERS = {"sssp", "dfsssp", "nue"}
TREES = ("star:5", "fat-tree:4", "fat-tree:4,3", "rails:1,4,4,2")
# dnup is for trees
ONLY = {"dnup": TREES}
# topologies that ftree accepts as fat trees; for others, OpenSM uses minhop
FAT = {*TREES[1:], "dragonfly+:3,2,2,2", "two-level.topo", "ftree-lone-leaf.net",
       "ftree-no-spine.net", "ftree-spine-to-spine.net", "full.ibnetdiscover", "ibdiagnet2.db_csv",
       "ibdiagnet2.lst", "opensm-subnet.lst", "ports.ibnetdiscover-p",
       "qdr-director.ibnetdiscover", "xdr.ibnetdiscover"}


def options(topology):
    """The options for ohca-fabric serve."""
    if "." in topology:
        return "--topology", os.path.join(TOPOLOGIES, topology)
    return "--generate", topology


class Engines(Case):
    """One sweep with an engine, at a topology."""

    def judge(self, engine, topology):
        """Checks the tables of an engine."""
        fabric = self.serve(*options(topology))
        nodes = fabric.nodes()
        host = min((name for name, n in nodes.items() if n["type"] == "channel adapter"),
                   key=lambda n: (len(n), n))
        more = {}
        # it finds the roots of a tree by itself
        if engine == "updn" and topology not in TREES:
            root = next(n["guid"] for n in nodes.values() if n["type"] == "switch")
            write(os.path.join(self.dir, "roots"), root + "\n")
            more["root_guid_file"] = os.path.join(self.dir, "roots")
        announced = {"ftree": NO_FAT_TREE}.get(engine, ())
        if engine in NO_ROUTERS and any(n["type"] == "router" for n in nodes.values()):
            announced = ("1F07",)   # a dead end, in its answer about the path
        sm = self.opensm(fabric, host, "-R", engine, announced=announced,
                         conf={"qos": "TRUE", "max_op_vls": 4, **more})
        sm.up()
        used = sm.engine()
        self.assertEqual(used, "minhop" if engine == "ftree" and topology not in FAT else engine)
        tables = routes.Tables(fabric)
        routers = tables.routers() if used in NO_ROUTERS else ()
        self.assertEqual(tables.lost(but=routers), [], "pairs between which packets are lost")
        lanes = None
        if used in BY_LANES:
            lanes = routes.Lanes(tables, self.at(fabric, host), host)
        circle = tables.circle(lanes and lanes.vls)
        if used in FREE:
            self.assertIsNone(circle, "links whose credits wait for each other")
        lost, named, _ = self.load(fabric, lanes=lanes)
        self.assertEqual(named == "none", circle is None, named)
        if not circle:
            self.assertEqual(lost, 0, "messages")
        return tables.hops()

    def over(self, engine):
        """Runs an engine at each topology."""
        for topology in ONLY.get(engine, ZOO):
            with self.subTest(engine=engine, topology=topology):
                self.judge(engine, topology)

    @quick
    def test_quick(self):
        """Each engine at one small topology."""
        for engine in ENGINES:
            with self.subTest(engine=engine):
                self.judge(engine, "fat-tree:4")

    def test_minhop(self):
        """The shortest routes, balanced over the links."""
        self.over("minhop")

    def test_shortest(self):
        """No engine's routes are shorter in total than minhop's; sssp's are not longer."""
        for topology in "torus:4x4", "fat-tree:4,3", "dragonfly:2,1,1", "random:1,12":
            with self.subTest(topology=topology):
                best = self.judge("minhop", topology)
                self.assertEqual(self.judge("sssp", topology), best)
                for engine in "updn", "nue", "lash":
                    self.assertGreaterEqual(self.judge(engine, topology), best)

    def test_balance(self):
        """minhop shares the hosts of a fat tree evenly among the spines."""
        fabric = self.serve("fat-tree:8")
        self.once(fabric, "host1")
        tables = routes.Tables(fabric)
        use = collections.Counter(way[1] for _, way in tables.ways() if len(way) == 4)
        self.assertEqual(len(use), 8 * 4, "links from leaves to spines")
        self.assertLessEqual(max(use.values()), 2 * min(use.values()), use)

    @quick
    def test_deadlock(self):
        """The shortest ways of a ring wait for each other until HOQLife ends packets; by those of
        engines that know it no message is lost."""
        for engine in "minhop", "updn", "lash", "dfsssp":
            with self.subTest(engine=engine):
                fabric = self.serve("ring:6,2")
                more = {}
                if engine == "updn":
                    write(os.path.join(self.dir, "roots"), fabric.nodes()["switch1"]["guid"] + "\n")
                    more["root_guid_file"] = os.path.join(self.dir, "roots")
                sm = self.opensm(fabric, "host1", "-R", engine,
                                 conf={"qos": "TRUE", "max_op_vls": 4, **more})
                sm.up()
                self.assertEqual(sm.engine(), engine)
                tables, lanes = routes.Tables(fabric), None
                if engine in BY_LANES:
                    lanes = routes.Lanes(tables, self.at(fabric, "host1"), "host1")
                    self.assertIsNone(tables.circle(lanes.vls))
                lost, circle, _ = self.load(fabric, "--size", "1M", "--messages", "16",
                                            lanes=lanes)
                if engine == "minhop":
                    self.assertGreater(lost, 0)
                    self.assertRegex(circle, r"^(switch\d:\d, ){5}switch\d:\d$")
                else:
                    self.assertEqual((lost, circle), (0, "none"))

    def test_rates(self):
        """On three levels, ftree's routes have the full rate of cables, minhop's a third of it."""
        for engine, least, most in ("ftree", 90, 100), ("minhop", 20, 33):
            with self.subTest(engine=engine):
                fabric = self.serve("fat-tree:8,3")
                sm = self.opensm(fabric, "host1", "-R", engine)
                sm.up()
                lost, circle, host = self.load(fabric, "--size", "4K")
                self.assertEqual((sm.engine(), lost, circle), (engine, 0, "none"))
                self.assertTrue(least < host < most, f"{host} Gb/s")

    def test_unknown(self):
        """An engine that does not exist."""
        fabric = self.serve("star:2")
        sm = self.opensm(fabric, "host1", "-o", "-R", "fastest", announced=("1E0A",)).once()
        self.assertIn("SUBNET UP", sm.text())
        self.assertEqual(sm.engine(), "minhop")


def each(engine):
    """A test of an engine at all topologies."""
    def test(self):
        self.over(engine)
    test.__doc__ = f"{engine} at the whole zoo."
    return test


for name in ENGINES[1:]:
    setattr(Engines, f"test_{name}", each(name))
