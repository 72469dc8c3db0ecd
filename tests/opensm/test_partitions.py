# SPDX-License-Identifier: GPL-2.0-or-later
"""P_Keys: tables of hosts and of their switch ports, changes of members, and paths."""
import os

import mad
import routes
from sm import Case, quick, within, write

SPEC = "star:4"
DEFAULT = 0xffff        # full members; limited ones have 0x7fff


class Partitions(Case):
    """One OpenSM with a file of partitions."""

    def start(self, text, spec=SPEC, **more):
        """A fabric with these partitions."""
        self.fabric = self.serve(spec)
        write(os.path.join(self.dir, "partitions"), self.guids(text))
        self.sm = self.opensm(self.fabric, "host1", "-P", os.path.join(self.dir, "partitions"),
                              **more)
        self.sm.up()
        self.reader = self.at(self.fabric, "host1")
        self.ways = routes.directed(self.fabric, "host1")

    def guids(self, text):
        """The PortGUID of each host, for {hostN}."""
        nodes = self.fabric.nodes()
        return text.format(**{name: hex(int(node["guid"], 16) + 1) for name, node in nodes.items()
                              if node["type"] != "switch"})

    def change(self, text):
        """Writes other partitions, and makes OpenSM read them."""
        write(os.path.join(self.dir, "partitions"), self.guids(text))
        self.sm.sweep()

    def table(self, name, port=0, blocks=1):
        """The P_Keys of a node's port, in the order of their indices."""
        keys = b"".join(self.reader.smp(self.ways[name], mad.PKEY_TABLE, port << 16 | block)
                        for block in range(blocks))
        return [int.from_bytes(keys[i:i + 2], "big") for i in range(0, len(keys), 2)]

    def has(self, host, *keys):
        """Waits until the tables of a host and of its switch port are these."""
        def true():
            return {k for k in self.table(host) if k} == set(keys)
        within(true, f"{host} has {[hex(k) for k in keys]}: "
               f"{[hex(k) for k in self.table(host) if k]}")
        at = self.fabric.nodes()[host]["ports"][1]
        switch = next(n for n, node in self.fabric.nodes().items() if node["guid"] == at["peer"])
        # the switch forwards the P_Keys of the host's table, full or limited
        mine = {k & 0x7fff for k in self.table(switch, at["peer_port"]) if k}
        self.assertLessEqual({k & 0x7fff for k in keys}, mine)

    def path(self, one, other):
        """The P_Key of a PathRecord, or the refusal."""
        nodes = self.fabric.nodes()
        here, there = (nodes[n]["ports"][1]["lid"] for n in (one, other))
        return self.at(self.fabric, one).path(here, there)["pkey"]

    @quick
    def test_default(self):
        """Without a file, all ports are full members of the default partition."""
        fabric = self.fabric = self.serve(SPEC)
        self.sm = self.opensm(fabric, "host1")
        self.sm.up()
        self.reader, self.ways = self.at(fabric, "host1"), routes.directed(fabric, "host1")
        for host in "host1", "host2", "host4":
            self.has(host, DEFAULT)

    @quick
    def test_members(self):
        """Full and limited members; a partition without common members has no path to others."""
        self.start("Default=0x7fff : ALL=limited, SELF=full ;\n"
                   "red=0x11 : {host2}=full, {host3}=full ;\n"
                   "blue=0x12 : {host3}=limited, {host4}=full ;\n")
        self.has("host1", DEFAULT)
        self.has("host2", 0x7fff, 0x8011)
        self.has("host3", 0x7fff, 0x8011, 0x0012)
        self.has("host4", 0x7fff, 0x8012)
        self.assertEqual(self.path("host2", "host3") & 0x7fff, 0x11)
        self.assertEqual(self.path("host3", "host4") & 0x7fff, 0x12)
        # both are limited members of the only one that they share
        with self.assertRaises(mad.Refused):
            self.path("host2", "host4")

    def test_change(self):
        """Members are added and removed while OpenSM runs."""
        self.start("Default=0x7fff : ALL=full ;\nred=0x11 : {host2}=full ;\n")
        self.has("host2", DEFAULT, 0x8011)
        self.change("Default=0x7fff : ALL=full ;\nred=0x11 : {host3}=full, {host2}=limited ;\n")
        self.has("host2", DEFAULT, 0x0011)
        self.has("host3", DEFAULT, 0x8011)
        self.change("Default=0x7fff : ALL=full ;\n")
        self.has("host2", DEFAULT)
        self.has("host3", DEFAULT)

    def test_places(self):
        """P_Keys that stay keep their indices when others are removed."""
        self.start("Default=0x7fff : ALL=full ;\n" +
                   "".join(f"p{i}={0x20 + i:#x} : {{host2}}=full ;\n" for i in range(20)))
        self.has("host2", DEFAULT, *(0x8020 + i for i in range(20)))
        before = {k: i for i, k in enumerate(self.table("host2")) if k}
        self.change("Default=0x7fff : ALL=full ;\n" +
                    "".join(f"p{i}={0x20 + i:#x} : {{host2}}=full ;\n" for i in range(0, 20, 3)))
        self.has("host2", DEFAULT, *(0x8020 + i for i in range(0, 20, 3)))
        for index, key in enumerate(self.table("host2")):
            if key:
                self.assertEqual(before[key], index, hex(key))

    def test_damaged(self):
        """A port that lost its link and has a wrong table gets its own table again."""
        self.start("Default=0x7fff : ALL=full ;\nred=0x11 : {host2}=full ;\n")
        self.has("host2", DEFAULT, 0x8011)
        self.reader.smp(self.ways["host2"], mad.PKEY_TABLE, 0,
                        b"\x80\x77\x80\x78" + bytes(60))
        self.assertEqual(self.table("host2")[:2], [0x8077, 0x8078])
        ups = self.sm.ups()
        self.fabric.link("host2:1", "down")
        self.sm.up(ups + 1)
        self.fabric.link("host2:1", "up")
        self.settled(self.fabric, self.sm, lambda: self.fabric.status()["links_up"] == 4)
        self.has("host2", DEFAULT, 0x8011)

    def test_many(self):
        """31 partitions of each host, in a tree; the default one stays at its index."""
        names = [f"host{n}" for n in range(1, 9)]
        self.start("Default=0x7fff : ALL=full ;\n" + "".join(
            f"p{i}={0x100 + i:#x} : " + ", ".join(f"{{{n}}}=full" for n in names) + " ;\n"
            for i in range(31)), "fat-tree:4")
        for name in names:
            self.has(name, DEFAULT, *(0x8100 + i for i in range(31)))
            self.assertEqual(self.table(name).index(DEFAULT), 0)

    def test_comes_back(self):
        """A host that fails and comes back has its partitions again before it is Active."""
        self.start("Default=0x7fff : ALL=full ;\nred=0x11 : {host3}=full ;\n")
        ups = self.sm.ups()
        self.fabric.do("node", node="host3", state="kill")
        self.sm.up(ups + 1)
        self.fabric.do("node", node="host3", state="revive")
        self.settled(self.fabric, self.sm, lambda: self.fabric.status()["links_up"] == 4)
        self.has("host3", DEFAULT, 0x8011)
