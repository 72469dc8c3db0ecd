# SPDX-License-Identifier: GPL-2.0-or-later
"""Multicast groups: only members get packets, whatever happens to cables."""
import random

import mad
from sm import ANY, Case, quick, within

SPEC = "fat-tree:4"


def mgid(number):
    """The MGID of a group: transient, of link-local scope."""
    return b"\xff\x12\x14\x05" + bytes(11) + bytes((number,))


class Multicast(Case):
    """One OpenSM; a program at each host joins and leaves."""

    def start(self, spec=SPEC, *arguments, **more):
        """A fabric that is up."""
        self.fabric = self.serve(spec)
        self.sm = self.opensm(self.fabric, "host1", *arguments, **more)
        self.sm.up()
        self.hosts = sorted(n for n, node in self.fabric.nodes().items()
                            if node["type"] != "switch")
        self.programs = {}

    def program(self, host):
        """Starts a program at a host; returns it and its PortGUID."""
        if host not in self.programs:
            guid = self.fabric.nodes()[host]["ports"][1]["guid"]
            self.programs[host] = self.at(self.fabric, host), int(guid, 16)
        return self.programs[host]

    def join(self, host, group, state=1):
        """Joins a group. Return: the MLID"""
        program, guid = self.program(host)
        return program.join(mgid(group), guid, state)["mlid"]

    def leave(self, host, group, state=1):
        """Leaves a group."""
        program, guid = self.program(host)
        program.leave(mgid(group), guid, state)

    def reached(self, sender, mlid):
        """The hosts that a packet of the sender reaches."""
        return {h for h in self.hosts if h != sender and
                self.fabric.arrives(sender, h, multicast=mlid)}

    def is_group(self, mlid, members):
        """Waits until each member reaches all others, and no other host."""
        within(lambda: self.sm.alive() and
               all(self.reached(m, mlid) == members - {m} for m in members),
               f"the members of {mlid:#06x} reach each other: {sorted(members)}")

    @quick
    def test_join_leave(self):
        """Hosts join one after the other, then leave."""
        self.start()
        members = set()
        for host in self.hosts:
            mlid = self.join(host, 1)
            members.add(host)
            self.is_group(mlid, members)
        for host in self.hosts[:-1]:
            self.leave(host, 1)
            members.discard(host)
            self.is_group(mlid, members)

    def test_last_leaves(self):
        """A group whose last member has left is removed: it can be joined only by creating it."""
        self.start(announced=("1B11",))
        self.join("host2", 1)
        self.leave("host2", 1)
        program, guid = self.program("host3")
        with self.assertRaises(mad.Refused):
            program.join(mgid(1), guid, create=False)

    @quick
    def test_send_only(self):
        """A sender that is no full member reaches the members. OpenSM's trees reach it, too."""
        self.start()
        mlid = self.join("host2", 1)
        self.join("host5", 1)
        self.join("host8", 1, state=4)
        within(lambda: self.reached("host8", mlid) == {"host2", "host5"}, "the sender's packets")
        self.assertEqual(self.reached("host2", mlid) - {"host8"}, {"host5"})

    def test_many(self):
        """40 groups with members that join and leave by a seed; each has the right members."""
        self.start("fat-tree:6", announced=("1B11",))
        draw, groups, mlids = random.Random(3), {}, {}
        for _ in range(300):
            group, host = draw.randrange(40), draw.choice(self.hosts)
            members = groups.setdefault(group, set())
            if host in members:
                self.leave(host, group)
                members.discard(host)
            else:
                mlids[group] = self.join(host, group)
                members.add(host)
        self.assertEqual(len({mlids[g] for g, members in groups.items() if members}),
                         sum(bool(m) for m in groups.values()), "each group has its MLID")
        for group, members in groups.items():
            if members:
                self.is_group(mlids[group], members)

    def test_cables(self):
        """A spine fails, a cable is pulled, both come back: the members still reach each other."""
        self.start(announced=ANY)
        members = {"host1", "host4", "host6", "host7"}
        for host in members:
            mlid = self.join(host, 1)
        self.is_group(mlid, members)
        ups = self.sm.ups()
        self.fabric.do("node", node="spine1", state="kill")
        self.sm.up(ups + 1)
        self.is_group(mlid, members)
        self.fabric.do("node", node="spine1", state="revive")
        self.fabric.link("leaf3:4", "down")
        self.settled(self.fabric, self.sm, lambda: self.fabric.status()["links_up"] == 15)
        self.is_group(mlid, members)
        self.fabric.link("leaf3:4", "up")
        self.settled(self.fabric, self.sm, lambda: self.fabric.status()["links_up"] == 16)
        self.is_group(mlid, members)

    def test_member_dies(self):
        """A member whose host has failed is no member when it comes back, until it joins again."""
        self.start(announced=ANY)
        for host in "host2", "host4", "host6":
            mlid = self.join(host, 1)
        self.is_group(mlid, {"host2", "host4", "host6"})
        ups = self.sm.ups()
        self.fabric.do("node", node="host6", state="kill")
        self.sm.up(ups + 1)
        self.is_group(mlid, {"host2", "host4"})
        self.fabric.do("node", node="host6", state="revive")
        self.settled(self.fabric, self.sm, lambda: self.fabric.status()["links_up"] == 16)
        self.is_group(mlid, {"host2", "host4"})
        self.join("host6", 1)
        self.is_group(mlid, {"host2", "host4", "host6"})

    def test_restart(self):
        """OpenSM is killed; members that join again at the next one have their group."""
        self.start(announced=ANY)
        for host in "host3", "host8":
            mlid = self.join(host, 1)
        self.is_group(mlid, {"host3", "host8"})
        self.sm.kill()
        self.sm = self.opensm(self.fabric, "host1", announced=ANY)
        self.sm.up()
        for host in "host3", "host8":
            mlid = self.join(host, 1)
        self.is_group(mlid, {"host3", "host8"})
