# SPDX-License-Identifier: GPL-2.0-or-later
"""Cables that flap, nodes that fail, lost MADs: the state of OpenSM and the fabric afterwards."""
import random
import time

import mad
import routes
from sm import ANY, Case, quick, within

SPEC = "fat-tree:6"


def bad_day(switches, hosts, seed, seconds):
    """A script: flaps, failures, lost SMPs, a slow cable; everything is restored at its end."""
    draw = random.Random(seed)
    lines = []
    for _ in range(6):
        lines.append(f"every {draw.randrange(150, 400)}ms from {draw.randrange(100)}ms "
                     f"for {seconds}s "
                     f"link flap '{draw.choice(switches)}':any --down {draw.randrange(20, 140)}ms")
    for name in [*draw.sample(switches, 2), *draw.sample(hosts, 3)]:
        period = draw.randrange(500, 900)
        lines.append(f"every {period}ms from 0ms for {seconds}s node kill '{name}'")
        lines.append(f"every {period}ms from {draw.randrange(50, 300)}ms for {seconds + 1}s "
                     f"node revive '{name}'")
        lines.append(f"at {seconds + 2}s node revive '{name}'")
    for attribute in "NodeInfo", "PortInfo", "LinearForwardingTable":
        name = draw.choice(switches)
        lines.append(f"at 0 drop '{name}' {attribute} {draw.randrange(3, 9)}")
        lines.append(f"at {seconds}s drop '{name}' {attribute} 0")
    return "\n".join(lines) + "\n"


class Stability(Case):
    """One OpenSM, and a script of many faults."""

    def survives(self, spec, seed, seconds, *arguments, **more):
        """OpenSM still runs, and the whole fabric is set up when the script has ended."""
        fabric = self.serve("--generate", spec, "--seed", str(seed))
        nodes = fabric.nodes()
        switches = sorted(n for n, node in nodes.items() if node["type"] == "switch")
        hosts = sorted(set(nodes) - set(switches) - {"host1"})
        home = next(n for n in switches if nodes[n]["guid"] == nodes["host1"]["ports"][1]["peer"])
        sm = self.opensm(fabric, "host1", *arguments, announced=ANY,
                         **{"conf": {"sweep_interval": 1}, **more})
        sm.up()
        whole = fabric.status()["links_up"]
        before = lids(fabric)
        fabric.script(bad_day([n for n in switches if n != home], hosts, seed, seconds))
        for name in switches:
            for number, port in nodes[name]["ports"].items():
                if number and port.get("peer"):
                    fabric.link(f"{name}:{number}", "up")
        self.settled(fabric, sm, lambda: fabric.status()["links_up"] == whole)
        # the last traps may arrive after the last Set
        within(lambda: sm.alive() and not routes.Tables(fabric).lost(), "all reach each other")
        self.assertEqual(lids(fabric), before)
        self.quiet(sm)
        self.said = [f"{sm.ups()} sweeps, {len(sm.errors())} kinds of errors"]

    @quick
    def test_flap(self):
        """One cable flaps 20 times."""
        fabric = self.serve("fat-tree:4")
        sm = self.opensm(fabric, "host1", announced=ANY, conf={"sweep_interval": 1})
        sm.up()
        fabric.script("at 0 link flap leaf1:3 --down 20ms --interval 60ms --count 20\n")

        # the script has started them; a fabric that is late leaves some out
        def flaps():
            port = next(p for n in fabric.ask("counters", node="leaf1")[0]["nodes"]
                        for p in n["ports"] if p["port"] == 3)
            return port.get("LinkDownedCounter", 0) + fabric.status()["flaps_skipped"]
        within(lambda: flaps() >= 20, "all flaps")
        within(lambda: fabric.status()["links_up"] == 16, "it is plugged")
        self.settled(fabric, sm)
        within(lambda: sm.alive() and not routes.Tables(fabric).lost(), "all reach each other")
        self.quiet(sm)

    @quick
    def test_spine(self):
        """A spine dies and comes back, and all links are Active within ten seconds. A script that
        does not find what it expects fails."""
        fabric = self.serve(SPEC)
        sm = self.opensm(fabric, "host1", announced=ANY)
        sm.up()
        self.settled(fabric, sm)
        fabric.script("at 0 expect links_active is 36\n"
                      "at 0 expect subnet_managers is 1\n"
                      "at 100ms node kill spine1\n"
                      "at 100ms expect leaf1:4 Down\n"
                      "at 200ms node revive spine1\n"
                      "at 200ms expect links_active is 36 --within 10s\n"
                      "at 200ms expect spine1:1 Active --within 10s\n"
                      "at 200ms expect leaf2:4 LinkDownedCounter is 1\n")
        with self.assertRaisesRegex(AssertionError, "line 1: LinkDownedCounter is 1"):
            fabric.script("at 0 expect leaf2:4 LinkDownedCounter is 0\n")
        self.settled(fabric, sm)

    def test_bad_days(self):
        """Five scripts of faults with minhop, each from a seed of its own."""
        for seed in range(1, 6):
            with self.subTest(seed=seed):
                self.survives(SPEC, seed, 4)

    def test_engines(self):
        """The same for other engines; test_known has the failures of lash and nue."""
        for engine in "updn", "ftree", "sssp", "dfsssp":
            with self.subTest(engine=engine):
                self.survives(SPEC, 7, 4, "-R", engine, conf={"qos": "TRUE", "sweep_interval": 1})

    def test_large(self):
        """A tree of three levels with 128 hosts."""
        self.survives("fat-tree:8,3", 3, 6)

    @quick
    def test_lost_requests(self):
        """Requests to the SA are lost, delayed or refused, by their attribute."""
        fabric = self.serve("star:3")
        sm = self.opensm(fabric, "host1")
        sm.up()
        program = self.at(fabric, "host2")
        lids_of = [fabric.nodes()[n]["ports"][1]["lid"] for n in ("host2", "host3")]
        fabric.do("drop", node="host2", attribute="PathRecord", nth=2)
        program.path(*lids_of)
        with self.assertRaisesRegex(mad.Refused, "undelivered"):
            program.path(*lids_of)
        fabric.do("drop", node="host2", attribute="PathRecord", nth=0)
        fabric.do("delay", node="host1", attribute="SubnAdm", time_ns=300000000)
        begin = time.monotonic()
        program.path(*lids_of)
        self.assertGreaterEqual(time.monotonic() - begin, 0.3)
        seen = fabric.status()["mad_faults"]
        self.assertEqual([(f["attribute"], f["seen"], f["delayed"]) for f in seen],
                         [("SubnAdm", 1, 1)])
        fabric.do("refuse", node="host1", attribute="PathRecord", status=1)
        with self.assertRaisesRegex(mad.Refused, "0x0001"):
            program.path(*lids_of)
        fabric.do("refuse", node="host1", attribute="PathRecord", status=0)
        fabric.do("delay", node="host1", attribute="SubnAdm", time_ns=0)
        program.path(*lids_of)
        self.assertNotIn("mad_faults", fabric.status())

    def test_lost_smps(self):
        """Each third SMP of many kinds is lost at all switches while OpenSM starts."""
        fabric = self.serve("fat-tree:4")
        for name in "leaf1", "leaf2", "leaf3", "spine1", "spine2":
            for attribute in "SwitchInfo", "PortInfo", "LinearForwardingTable":
                fabric.do("drop", node=name, attribute=attribute, nth=3)
        sm = self.opensm(fabric, "host1", announced=ANY, conf={"sweep_interval": 1})
        within(lambda: sm.alive() and "Errors during" in sm.text() or sm.errors(), "SMPs are lost")
        for name in "leaf1", "leaf2", "leaf3", "spine1", "spine2":
            for attribute in "SwitchInfo", "PortInfo", "LinearForwardingTable":
                fabric.do("drop", node=name, attribute=attribute, nth=0)
        self.settled(fabric, sm, lambda: not routes.Tables(fabric).lost() and
                     len(routes.Tables(fabric).ends) == 8)
        self.quiet(sm)


def lids(fabric):
    """(NodeDescription, port): LID"""
    return {(name, number): port["lid"] for name, node in fabric.nodes().items()
            for number, port in node["ports"].items() if "lid" in port}
