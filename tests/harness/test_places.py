#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""The hosts of a topology in whose places nodes are, their adapters and rates."""
import argparse
import unittest
from unittest import mock

import fake

from ohca_lab import places  # pylint: disable=wrong-import-order  # fake has the path

Host = places.Host
AGGREGATION = "Mellanox Technologies Aggregation Node"
# an aggregation node is the first host of each switch; adapters without a driver have one name
HOSTS = [
    Host("0x1", 1, "4xNDR", "0xa", AGGREGATION),
    Host("0x2", 1, "4xNDR", "0xa", "a1"),
    Host("0x3", 1, "4xNDR", "0xa", "a2"),
    Host("0x4", 1, "4xNDR", "0xa", "MT4129 ConnectX7"),
    Host("0x5", 1, "4xNDR", "0xb", AGGREGATION),
    Host("0x6", 1, "4xNDR", "0xb", "MT4129 ConnectX7"),
    Host("0x7", 1, "2xXDR", "0xb", "b1"),
    Host("0x8", 2, "1xSDR", "0xc", "c1"),
    Host("0x9", 1, "-", "-", "free"),
]
# in the order in which ibnetdiscover found them: machines of three adapters and of two, a
# login node, adapters without a driver and two machines without a name of their own
RAILS = [
    Host("0x12", 1, "4xNDR", "0xc", "node001 mlx5_10"),
    Host("0x22", 1, "4xNDR", "0xb", "node002 mlx5_1"),
    Host("0x10", 1, "4xNDR", "0xa", "node001 mlx5_0"),
    Host("0x30", 2, "4xHDR", "0xa", "login"),
    Host("0x11", 1, "4xNDR", "0xb", "node001 mlx5_2"),
    Host("0x20", 1, "4xNDR", "0xa", "node002 mlx5_0"),
    Host("0x40", 1, "4xNDR", "0xa", "MT4129 ConnectX7   Mellanox Technologies"),
    Host("0x41", 1, "4xNDR", "0xb", "MT4129 ConnectX7 B Mellanox Technologies"),
    Host("0x50", 1, "4xNDR", "0xa", "localhost mlx5_0"),
    Host("0x51", 1, "4xNDR", "0xb", "localhost mlx5_0"),
]


def options(nodes, *place, topology="t", ports=1, hcas=None, serve=()):
    """The options that places.choose() reads."""
    return argparse.Namespace(topology=topology, place=list(place), nodes=nodes, ports=ports,
                              hcas=hcas, serve=serve, number=None, join=None)


def chosen(nodes, *place, **more):
    """The NodeGUIDs of the nodes of a lab, which have one adapter each."""
    with mock.patch.object(places, "hosts", return_value=HOSTS):
        return [h.guid for h, in places.choose(options(nodes, *place, **more))]


def adapters(nodes, *place, **more):
    """The NodeGUIDs of the adapters of each node."""
    with mock.patch.object(places, "hosts", return_value=RAILS):
        return [[int(h.guid, 16) for h in hcas]
                for hcas in places.choose(options(nodes, *place, **more))]


class Places(unittest.TestCase):
    """places.choose(), and the properties of -device ohca for a place."""

    def test_order(self):
        """One host of each switch, then second ones; no aggregation nodes; equal names last."""
        self.assertEqual(chosen(7), ["0x2", "0x7", "0x8", "0x9", "0x3", "0x6", "0x4"])
        with self.assertRaises(places.PlaceError):
            chosen(8)

    def test_given(self):
        """The host of a --place is not free."""
        self.assertEqual(chosen(3, "node2=a1"), ["0x7", "0x2", "0x8"])
        self.assertEqual(chosen(1, f"node1={AGGREGATION}"), ["0x5"])

    def test_ports(self):
        """Nodes with two ports are in places of hosts with two."""
        self.assertEqual(chosen(1, ports=2), ["0x8"])

    def test_rate(self):
        """Width and speed of the link; QDR for FDR10; without a link, the device's defaults."""
        for rate, want in (("4xNDR", "width=4x,speed=ndr,"), ("2xXDR", "width=2x,speed=xdr,"),
                           ("12xFDR10", "width=12x,speed=qdr,"), ("-", "")):
            self.assertEqual(places.rate_properties(HOSTS[0]._replace(rate=rate)), want)

    def test_site(self):
        """Places have the same GUIDs as in the fabric with --serve."""
        for serve, more in (([], ()), (["--mtu=2048", "--site=7"], ("--site", "7")),
                            (["--site", "1", "--seed=3", "--sit=2"], ("--site", "2"))):
            for topology, first in (("t", ("--generate", "t")),
                                    (None, ("--generate", "rails:1,1,2,1", "--hosts-off"))):
                with mock.patch.object(places, "hosts", return_value=RAILS) as asked:
                    places.choose(options(1, serve=serve, topology=topology, hcas=2))
                asked.assert_called_once_with(first + more)

    def test_lines(self):
        """The output of ohca-fabric hosts, also with spaces in names."""
        text = "0x00000000000000aa 2 4xHDR 0x00000000000000bb node1 mlx5_0\n0xcc 1 - - x\n"
        done = mock.Mock(returncode=0, stdout=text)
        with mock.patch.object(places.subprocess, "run", return_value=done):
            self.assertEqual(places.hosts(("--topology", "t")), [
                Host("0x00000000000000aa", 2, "4xHDR", "0x00000000000000bb", "node1 mlx5_0"),
                Host("0xcc", 1, "-", "-", "x")])


class Rails(unittest.TestCase):
    """Machines with several adapters."""

    def refused(self, why, *argv, **more):
        """Options that are an error, and its text."""
        with self.assertRaisesRegex(places.PlaceError, why):
            adapters(*argv, **more)

    def test_machines(self):
        """A node has all adapters of its host, sorted by their numbers."""
        self.assertEqual(adapters(2, "node1=node001", "node2=node002"),
                         [[0x10, 0x11, 0x12], [0x20, 0x22]])
        # a machine without a name of its own is single, and last
        self.assertEqual(adapters(7), [[0x10, 0x11, 0x12], [0x20, 0x22], [0x30], [0x41], [0x51],
                                       [0x40], [0x50]])
        self.refused("are too few for 8 nodes", 8)

    def test_hcas(self):
        """--hcas chooses hosts with at least so many adapters, and the first ones of each."""
        self.assertEqual(adapters(2, hcas=2), [[0x10, 0x11], [0x20, 0x22]])
        self.assertEqual(adapters(1, hcas=3), [[0x10, 0x11, 0x12]])
        self.assertEqual(adapters(1, "node1=node001", hcas=1), [[0x10]])
        self.refused("2 hosts have 2 adapters with 1 ports, too few for 3 nodes.* 'node1 mlx5_0' "
                     "and 'node1 mlx5_1'.* rails:UNITS,NODES,2,1", 3, hcas=2)
        self.refused("rails:UNITS,NODES,4,2", 1, hcas=2, ports=2)

    def test_named(self):
        """One adapter, several adapters by name, and a host of which no adapter is free."""
        self.assertEqual(adapters(1, "node1=node001 mlx5_2"), [[0x11]])
        self.assertEqual(adapters(2, "node2=node002 mlx5_1", "node2=login", "node2=node001"),
                         [[0x41], [0x22, 0x30, 0x10, 0x11, 0x12]])
        self.assertEqual(adapters(2, "node1=node001 mlx5_2", hcas=1), [[0x11], [0x20]])
        self.refused("another --place already uses", 2, "node1=node001 mlx5_0", "node2=node001")
        self.refused("node1 gets 1 adapters, not the 2 of --hcas", 1, "node1=login", hcas=2)
        self.refused("no host 'node003' with 1 ports", 1, "node1=node003")
        self.refused("this lab has nodes 1 to 1", 1, "node2=login")

    def test_default(self):
        """Without --topology: a leaf for each port, with the same number of links to each spine."""
        for opt, spec in ((options(4, topology=None), "star:36,4,1,1"),
                          (options(4, topology=None, hcas=1), "star:36,4,1,1"),
                          (options(20, topology=None, ports=2), "star:40,20,2,1"),
                          (options(4, topology=None, hcas=2), "rails:1,4,2,1"),
                          (options(3, topology=None, hcas=2, ports=2), "rails:1,4,4,2"),
                          (options(2, topology=None, hcas=8), "rails:1,4,8,1")):
            self.assertEqual(places.fabric_options(opt), ("--generate", spec, "--hosts-off"))
        self.assertEqual([[tuple(h) for h in hcas]
                          for hcas in places.choose(options(2, topology=None, ports=2))],
                         [[(None, 2, "-", "-", "node1")], [(None, 2, "-", "-", "node2")]])
        self.refused("--place: use it with --topology only", 1, "node1=a", topology=None, hcas=2)

    def test_many(self):
        """A host may have more adapters than a node can have."""
        many = [Host(f"0x{i}", 1, "4xNDR", "0xa", f"big mlx5_{i}") for i in range(20)]
        with mock.patch.object(places, "hosts", return_value=many):
            with self.assertRaisesRegex(places.PlaceError, "20 adapters; a node can have .*--hcas"):
                places.choose(options(1))
            self.assertEqual(len(places.choose(options(1, hcas=8))[0]), 8)


if __name__ == "__main__":
    fake.main()
