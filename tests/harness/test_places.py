#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Which hosts of a topology the nodes of a lab are, and what rate their adapters have."""
import argparse
import unittest
from unittest import mock

import fake  # noqa: F401 pylint: disable=unused-import
from ohca_lab import places

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


def chosen(nodes, *place, ports=1):
    """The NodeGUIDs of the nodes of a lab."""
    opt = argparse.Namespace(topology="t", place=list(place), nodes=nodes, ports=ports)
    with mock.patch.object(places, "hosts", return_value=HOSTS):
        return [h.guid for h in places.choose(opt)]


class Places(unittest.TestCase):
    """places.choose() and what a place gives -device ohca."""

    def test_order(self):
        """One at each switch, then the second ones; aggregation nodes never, doubles last."""
        self.assertEqual(chosen(7), ["0x2", "0x7", "0x8", "0x9", "0x3", "0x6", "0x4"])
        with self.assertRaises(places.PlaceError):
            chosen(8)

    def test_given(self):
        """What --place takes is not free."""
        self.assertEqual(chosen(3, "node2=a1"), ["0x7", "0x2", "0x8"])
        self.assertEqual(chosen(1, f"node1={AGGREGATION}"), ["0x5"])

    def test_ports(self):
        """Nodes with two ports are at hosts with two."""
        self.assertEqual(chosen(1, ports=2), ["0x8"])

    def test_rate(self):
        """Width and speed of the link; FDR10 is QDR; without a link: the device's own."""
        for rate, want in (("4xNDR", "width=4x,speed=ndr,"), ("2xXDR", "width=2x,speed=xdr,"),
                           ("12xFDR10", "width=12x,speed=qdr,"), ("-", "")):
            self.assertEqual(places.rate_properties(HOSTS[0]._replace(rate=rate)), want)

    def test_lines(self):
        """What ohca-fabric hosts prints, names with spaces included."""
        text = "0x00000000000000aa 2 4xHDR 0x00000000000000bb node1 mlx5_0\n0xcc 1 - - x\n"
        done = mock.Mock(returncode=0, stdout=text)
        with mock.patch.object(places.subprocess, "run", return_value=done):
            self.assertEqual(places.hosts("t"), [
                Host("0x00000000000000aa", 2, "4xHDR", "0x00000000000000bb", "node1 mlx5_0"),
                Host("0xcc", 1, "-", "-", "x")])


if __name__ == "__main__":
    unittest.main()
