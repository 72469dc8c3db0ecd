# SPDX-License-Identifier: GPL-2.0-or-later
"""M_Keys: OpenSMs that have the key of a subnet, and one that does not."""
import mad
import routes
from sm import ANY, Case, quick, within

SPEC = "fat-tree:4"
KEY = 0x1234567812345678
KNOWN = {"m_key": hex(KEY), "m_key_protection_level": 2, "m_key_lease_period": 0}


class Keys(Case):
    """All ports have the key, and answer nothing without it."""

    def rule(self, fabric):
        """Starts a master that has the key. Return: it"""
        first = self.opensm(fabric, "host1", announced=ANY, conf=KNOWN)
        first.up()
        self.reader = self.at(fabric, "host2")
        self.ways = routes.directed(fabric, "host2")
        return first

    def info(self, name, key=KEY):
        """PortInfo of a node."""
        return self.reader.port_info(self.ways[name], key=key)

    def ruled_by(self, fabric, host):
        """All hosts have the key and this master."""
        lid = fabric.nodes()[host]["ports"][1]["lid"]
        for name in self.ways:
            info = self.info(name)
            self.assertEqual(int.from_bytes(info[:8], "big"), KEY, name)
            if name.startswith("host"):
                self.assertEqual(int.from_bytes(info[18:20], "big"), lid, name)

    def violations(self):
        """M_KeyViolations of all nodes."""
        return sum(int.from_bytes(self.info(name)[44:46], "big") for name in self.ways)

    @quick
    def test_two(self):
        """Two have it: one is standby, and becomes master when the master is killed."""
        fabric = self.serve(SPEC)
        first = self.rule(fabric)
        second = self.opensm(fabric, "host5", announced=ANY, conf=KNOWN)
        second.says("Entering STANDBY")
        self.ruled_by(fabric, "host1")
        self.assertRaises(mad.Refused, self.info, "host7", 0)
        before = self.violations()
        first.kill()
        second.up()
        self.settled(fabric, second)
        self.ruled_by(fabric, "host5")
        self.assertEqual(self.violations(), before)
        self.assertEqual(routes.Tables(fabric).lost(), [])

    @quick
    def test_foreign(self):
        """One without it finds no nodes, whatever its priority; the master gets traps."""
        fabric = self.serve(SPEC)
        first = self.rule(fabric)
        before = routes.Tables(fabric).lft
        self.assertEqual(self.violations(), 0)
        foreign = self.opensm(fabric, "host7", "-p", "15", announced=ANY)
        foreign.says("Possible mis-set mkey")
        within(self.violations, "violations are counted")
        first.says("num:256")
        first.sweep()
        self.ruled_by(fabric, "host1")
        foreign.alive()
        self.assertNotIn("SUBNET UP", foreign.text())
        self.assertEqual(routes.Tables(fabric).lft, before)
        self.assertEqual(routes.Tables(fabric).lost(), [])
