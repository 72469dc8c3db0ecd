# SPDX-License-Identifier: GPL-2.0-or-later
"""Two subnets, each with an OpenSM of its own, and a router that has a port in each."""
import os
import re
import struct
import subprocess

import mad
from sm import PATIENCE, Case, quick, within, write

PREFIX = (0xfec0000000000001, 0xfec0000000000002)
# PortGUIDs of the router
ROUTER = (0xc1, 0xc2)
# the node at which OpenSM runs, and a host of the same subnet with its PortGUID
HOSTS = (("host1", "host2", 0xa4), ("host3", "host4", 0xb4))
TOPOLOGY = os.path.join(os.path.dirname(os.path.realpath(__file__)), "two-subnets")


def gid(prefix, guid):
    """A GID as 16 bytes."""
    return struct.pack(">QQ", prefix, guid)


class Routers(Case):
    """A router between two OpenSMs."""

    def subnets(self, routes=True):
        """Brings both subnets up. Return: the fabric, and both OpenSMs"""
        fabric = self.serve("--topology", TOPOLOGY)
        sms = []
        for i in range(2):
            table = os.path.join(self.dir, f"prefix-routes{i}")
            write(table, f"{PREFIX[1 - i]:#x} {ROUTER[i]:#x}\n" if routes else "")
            sms.append(self.opensm(fabric, HOSTS[i][0], conf={
                "subnet_prefix": f"{PREFIX[i]:#x}", "prefix_routes_file": table}))
        for sm in sms:
            sm.up()
        within(fabric.active, "all links are Active")
        return fabric, sms

    def path_to(self, fabric, i, dgid):
        """The PathRecord from a host of subnet i to a GID."""
        record = dgid + gid(PREFIX[i], HOSTS[i][2])
        found = self.at(fabric, HOSTS[i][1]).sa(
            mad.GET, mad.PATH, 1 << 2 | 1 << 3, bytes(8) + record + bytes(24))
        return {"dlid": struct.unpack_from(">H", found, 40)[0],
                "hop_limit": found[47], "dgid": found[8:24]}

    @quick
    def test_two_subnets(self):
        """Each OpenSM brings up its subnet with its prefix; ibnetdiscover ends at the router."""
        fabric, _ = self.subnets()
        ports = fabric.nodes()["router1"]["ports"]
        for i, (one, other, _) in enumerate(HOSTS):
            said = subprocess.run(["ibnetdiscover"], env=fabric.environment(other), check=True,
                                  cwd=self.dir, timeout=PATIENCE, text=True,
                                  capture_output=True).stdout
            self.assertEqual(sorted(re.findall(r'(?m)^(?:Ca|Switch|Rt)\t.*# "(\w+)"', said)),
                             [one, other, "router1", f"switch{i + 1}"])
            self.assertRegex(said, rf'(?m)^Rt\t2 "R-00000000000000c0"\t\t# "router1"\n'
                                   rf'\[{i + 1}\]\({ROUTER[i]:x}\) .*# lid {ports[i + 1]["lid"]} ')
            info = self.at(fabric, one).port_info((1, 8), i + 1)
            self.assertEqual(struct.unpack_from(">Q", info, 8)[0], PREFIX[i])
            # no SMP is forwarded beyond the router
            with self.assertRaises(mad.Refused):
                self.at(fabric, one).port_info((1, 8, 2 - i))

    @quick
    def test_paths(self):
        """A PathRecord to a GID of the other subnet has the router's LID and a hop limit."""
        fabric, _ = self.subnets()
        ports = fabric.nodes()["router1"]["ports"]
        for i in range(2):
            there = gid(PREFIX[1 - i], HOSTS[1 - i][2])
            path = self.path_to(fabric, i, there)
            self.assertEqual(path["dlid"], ports[i + 1]["lid"])
            self.assertEqual(path["dgid"], there)
            self.assertGreater(path["hop_limit"], 1)
            with self.assertRaises(mad.Refused):
                self.path_to(fabric, i, gid(PREFIX[i] + 7, 1))

    def test_no_routes(self):
        """Without prefix routes there is no path."""
        fabric, _ = self.subnets(routes=False)
        with self.assertRaises(mad.Refused):
            self.path_to(fabric, 0, gid(PREFIX[1], HOSTS[1][2]))

    def test_router_dies(self):
        """A router that is removed and added is found by both."""
        fabric, sms = self.subnets()
        fabric.do("node", node="router1", state="kill")
        for sm in sms:
            sm.up(2)
        fabric.do("node", node="router1", state="revive")
        for sm in sms:
            self.settled(fabric, sm, lambda: fabric.status()["links_up"] == 6)
        self.assertEqual(self.path_to(fabric, 0, gid(PREFIX[1], HOSTS[1][2]))["dlid"],
                         fabric.nodes()["router1"]["ports"][1]["lid"])
