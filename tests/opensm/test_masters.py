# SPDX-License-Identifier: GPL-2.0-or-later
"""Several OpenSMs: which one is the master, when a subnet splits and when two become one."""
import mad
import routes
from sm import ANY, Case, quick, within

SPEC = "fat-tree:4"
# one half has host1 to host4, leaf1, leaf2 and spine1, the other one the rest
SEAM = ("leaf1:4", "leaf2:4", "leaf3:3", "leaf4:3")
HALVES = (("host1", "host2", "host3", "host4"), ("host5", "host6", "host7", "host8"))


class Masters(Case):
    """Two OpenSMs, or three, on different leaves."""

    def sm_lids(self, fabric):
        """The MasterSMLID of each host, from its port."""
        program = self.reader
        return {name: int.from_bytes(program.port_info(way)[18:20], "big")
                for name, way in routes.directed(fabric, "host1").items()
                if name.startswith("host")}

    def ruled_by(self, fabric, host):
        """Waits until all are Active and have the OpenSM at this host as master."""
        def true():
            lid = fabric.nodes()[host]["ports"][1].get("lid")
            try:
                return fabric.active() and set(self.sm_lids(fabric).values()) == {lid}
            except mad.Refused:
                return False
        within(true, f"{host} has the only master")
        self.assertEqual(routes.Tables(fabric).lost(), [])

    def pair(self, fabric, one, other, *arguments, **more):
        """A master and a standby."""
        self.reader = self.at(fabric, "host1")
        first = self.opensm(fabric, one, announced=ANY, **more)
        first.up()
        second = self.opensm(fabric, other, *arguments, announced=ANY, **more)
        return first, second

    def seam(self, fabric, state):
        """Cuts the subnet into halves, or joins them."""
        for end in SEAM:
            fabric.link(end, state)

    @quick
    def test_standby(self):
        """The standby becomes master when the master is killed. The LIDs stay."""
        fabric = self.serve(SPEC)
        first, second = self.pair(fabric, "host1", "host5")
        second.says("Entering STANDBY")
        before = lids(fabric)
        first.kill()
        second.up()
        self.ruled_by(fabric, "host5")
        self.assertEqual(lids(fabric), before)

    def test_ends(self):
        """The same if the master ends by a signal that it handles."""
        fabric = self.serve(SPEC)
        first, second = self.pair(fabric, "host1", "host5")
        second.says("Entering STANDBY")
        self.assertEqual(first.end(), [])
        second.up()
        self.ruled_by(fabric, "host5")

    def test_host_dies(self):
        """The master's host fails, and comes back while its OpenSM has continued to run."""
        fabric = self.serve(SPEC)
        first, second = self.pair(fabric, "host3", "host5")
        second.says("Entering STANDBY")
        fabric.do("node", node="host3", state="kill")
        second.up()
        fabric.do("node", node="host3", state="revive")
        within(lambda: fabric.active() and fabric.status()["links_up"] == 16, "it comes back")
        self.one_master(fabric, first, second)

    def one_master(self, fabric, *sms):
        """In the end, all but one of them are standby."""
        def masters():
            self.assertTrue(all(sm.alive() for sm in sms))
            return [sm.host for sm in sms if self.state(fabric, sm.host) == 3]
        within(lambda: len(masters()) == 1, "there is one master")
        master = masters()[0]
        self.ruled_by(fabric, master)
        self.quiet(next(sm for sm in sms if sm.host == master))
        return master

    def state(self, fabric, host):
        """SMState of the OpenSM at a host, 3: MASTER; None: no answer."""
        try:
            way = routes.directed(fabric, "host1").get(host)
            return self.reader.smp(way, mad.SM_INFO)[20] & 15 if way is not None else None
        except mad.Refused:
            return None

    @quick
    def test_priority(self):
        """One with a higher priority starts: the master hands over to it."""
        fabric = self.serve(SPEC)
        first, second = self.pair(fabric, "host1", "host5", "-p", "9")
        first.says("Entering STANDBY")
        second.up()
        self.ruled_by(fabric, "host5")

    def test_split_and_merge(self):
        """A subnet is cut and joined three times; meanwhile each half has a master."""
        fabric = self.serve(SPEC)
        first, second = self.pair(fabric, "host1", "host5")
        second.says("Entering STANDBY")
        before = lids(fabric)
        for _ in range(3):
            self.seam(fabric, "down")
            within(lambda: self.halves(fabric, before), "each half has its own master")
            self.seam(fabric, "up")
            self.one_master(fabric, first, second)
            self.assertEqual(lids(fabric), before)

    def halves(self, fabric, before):
        """Both halves are set up, each by its own OpenSM."""
        table = routes.Tables(fabric)
        if not fabric.active():
            return False
        whole = all(table.way(a, 1, before[b, 1]) for half in HALVES for a in half for b in half
                    if a != b)
        others = self.at_half(fabric)
        return whole and others == [before["host1", 1], before["host5", 1]]

    def at_half(self, fabric):
        """MasterSMLID of a host of each half."""
        if not hasattr(self, "reader5"):
            self.reader5 = self.at(fabric, "host6")
        return [self.reader.sm_lid(), self.reader5.sm_lid()]

    def test_merge(self):
        """Two subnets with the same LIDs are joined: each port gets one of its own again."""
        fabric = self.serve(SPEC)
        self.seam(fabric, "down")
        first, second = self.pair(fabric, "host1", "host5")
        second.up()
        taken = [x for (name, _), x in lids(fabric).items()]
        self.assertLess(len(set(taken)), len(taken), "LIDs that are in both halves")
        self.seam(fabric, "up")
        self.one_master(fabric, first, second)
        taken = list(lids(fabric).values())
        self.assertEqual(len(set(taken)), len(taken), "LIDs that two ports have")
        self.assertEqual(self.load(fabric)[:2], (0, "none"))

    def test_priorities(self):
        """The one of three with the highest priority is master; the next one while it is down."""
        fabric = self.serve(SPEC)
        self.reader = self.at(fabric, "host1")
        sms = []
        # one after the other: each reads the LIDs of the one before
        for host, priority in (("host1", "3"), ("host3", "6"), ("host5", "12")):
            sms.append(self.opensm(fabric, host, "-p", priority, announced=ANY))
            self.rules(fabric, sms, host)
        before = lids(fabric)
        sms[2].kill()
        self.rules(fabric, sms[:2], "host3")
        sms[2] = self.opensm(fabric, "host5", "-p", "12", announced=ANY)
        self.rules(fabric, sms, "host5")
        self.assertEqual(lids(fabric), before)

    def rules(self, fabric, sms, host):
        """In the end, one of these is the master, and the others are standby."""
        within(lambda: [self.state(fabric, sm.host) for sm in sms] ==
               [3 if sm.host == host else 2 for sm in sms], f"{host} rules alone")
        self.ruled_by(fabric, host)

    def test_three(self):
        """Three OpenSMs; the master is killed twice."""
        fabric = self.serve(SPEC)
        self.reader = self.at(fabric, "host1")
        sms = []
        for host in "host1", "host3", "host5":
            sms.append(self.opensm(fabric, host, announced=ANY))
            sms[-1].says("Entering STANDBY" if len(sms) > 1 else "SUBNET UP")
        for _ in range(2):
            host = self.one_master(fabric, *sms)
            dead = next(sm for sm in sms if sm.host == host)
            sms.remove(dead)
            dead.kill()
            within(lambda d=dead: self.state(fabric, d.host) != 3, "its port says so")
        self.one_master(fabric, *sms)


def lids(fabric):
    """(NodeDescription, port): LID"""
    return {(name, number): port["lid"] for name, node in fabric.nodes().items()
            for number, port in node["ports"].items() if "lid" in port}
