# SPDX-License-Identifier: GPL-2.0-or-later
"""torus-2QoS: complete tori, tori without a cable or a switch, and SLs that do not change."""
import os

import routes
from sm import ANY, Case, quick, write


class Torus(Case):
    """OpenSM with torus-2QoS; the seed is the first switch and its neighbours."""

    def start(self, *radix, hosts=1, **more):
        """A torus with this many switches in each dimension."""
        self.fabric = self.serve(f"torus:{'x'.join(map(str, radix))},{hosts}")
        nodes = self.fabric.nodes()
        self.names = sorted((n for n, node in nodes.items() if node["type"] == "switch"),
                            key=lambda n: int(n.removeprefix("switch")))
        self.guid = {n: nodes[n]["guid"] for n in self.names}
        self.radix = radix
        sizes = [*radix, 1][:3]
        lines = ["torus " + " ".join(map(str, sizes))]
        for axis, letter in enumerate("xyz"[:len(radix)]):
            lines.append(f"{letter}p_link {self.guid[self.at_place(0, 0, 0)]} "
                         f"{self.guid[self.beside(axis, 1)]}")
            if radix[axis] == 4:
                lines.append(f"{letter}m_link {self.guid[self.at_place(0, 0, 0)]} "
                             f"{self.guid[self.beside(axis, 3)]}")
        write(os.path.join(self.dir, "torus"), "\n".join(lines) + "\n")
        self.sm = self.opensm(self.fabric, "host1", "-R", "torus-2QoS", "-Q", "--torus_config",
                              os.path.join(self.dir, "torus"), announced=ANY, **more)
        self.sm.up()
        self.reader = self.at(self.fabric, "host1")

    def at_place(self, *place):
        """The switch at these coordinates; the first one is the innermost."""
        number = 0
        for size, at in reversed(list(zip(self.radix, place))):
            number = number * size + at
        return self.names[number]

    def beside(self, axis, step):
        """The switch that is so many steps from the first one."""
        place = [0, 0, 0]
        place[axis] = step
        return self.at_place(*place)

    def judged(self):
        """No packet is lost, and there is no credit loop. Return: the SLs of all paths"""
        self.assertEqual(self.sm.engine(), "torus-2QoS")
        tables = routes.Tables(self.fabric)
        self.assertEqual(tables.lost(), [])
        lanes = routes.Lanes(tables, self.reader, "host1")
        self.assertIsNone(tables.circle(lanes.vls), "links whose credits wait for each other")
        self.assertEqual(self.load(self.fabric, lanes=lanes)[:2], (0, "none"),
                         "messages lost, circle")
        return lanes.sls

    @quick
    def test_small(self):
        """3 x 3."""
        self.start(3, 3)
        self.judged()

    def test_whole(self):
        """Two and three dimensions, of odd and even size."""
        for radix in (5, 5), (4, 6), (3, 3, 3), (4, 3, 5):
            with self.subTest(radix=radix):
                self.start(*radix)
                self.judged()

    def links(self):
        """A cable of each dimension between inner switches."""
        nodes, name = self.fabric.nodes(), self.at_place(*(1 for _ in self.radix))
        return [(name, number) for number, port in sorted(nodes[name]["ports"].items())
                if number and port.get("peer") in self.guid.values()]

    def test_cable(self):
        """Each cable of a switch in turn is pulled: the SL of no path changes."""
        self.start(5, 5)
        before = self.judged()
        for name, number in self.links():
            with self.subTest(end=f"{name}:{number}"):
                ups = self.sm.ups()
                self.fabric.link(f"{name}:{number}", "down")
                self.sm.up(ups + 1)
                self.settled(self.fabric, self.sm)
                self.assertEqual(self.judged(), before)
                up = self.fabric.status()["links_up"]
                self.fabric.link(f"{name}:{number}", "up")
                self.settled(self.fabric, self.sm,
                             lambda n=up: self.fabric.status()["links_up"] == n + 1)
                self.assertEqual(self.judged(), before)

    def test_switch(self):
        """A switch fails and comes back: the other paths keep their SLs all the time."""
        self.start(5, 5)
        before = self.judged()
        dead = self.at_place(2, 3)
        up = self.fabric.status()["links_up"]
        ups = self.sm.ups()
        self.fabric.do("node", node=dead, state="kill")
        self.sm.up(ups + 1)
        self.settled(self.fabric, self.sm)
        after = self.judged()
        self.assertEqual(after, {pair: before[pair] for pair in after})
        self.assertEqual(len(after), 24 * 23)
        self.fabric.do("node", node=dead, state="revive")
        self.settled(self.fabric, self.sm, lambda: self.fabric.status()["links_up"] == up)
        self.assertEqual(self.judged(), before)

    def test_three_dimensions(self):
        """A cable in each dimension of a 3 x 3 x 3 torus at once."""
        self.start(3, 3, 3)
        before = self.judged()
        cut = self.links()[::2]
        up = self.fabric.status()["links_up"]
        for name, number in cut:
            self.fabric.link(f"{name}:{number}", "down")
        self.settled(self.fabric, self.sm,
                     lambda: self.fabric.status()["links_up"] == up - len(cut))
        self.quiet(self.sm)
        self.assertEqual(self.judged(), before)
