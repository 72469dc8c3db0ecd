#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Labs of several hosts on one fabric: options, arguments of ohca-fabric, node numbers, routes."""
import os
import subprocess
import tempfile
import unittest
from unittest import mock

import fake

# pylint: disable=wrong-import-order
from ohca_lab import cli, join, lab, places, vm
from ohca_lab.words import LabError

THERE = "192.0.2.1:7471"
WRONG = [
    (["--number", "2"], "--number"),
    (["--token", "secret"], "--token"),
    (["--join", THERE], "give --number"),
    (["--join", THERE, "--listen", THERE, "--number", "2"], "does not listen"),
    (["--join", "192.0.2.1", "--number", "2"], "HOST:PORT"),
    (["--join", "a=b:1", "--number", "2"], "HOST:PORT"),
    (["--join", "a/b:1", "--number", "2"], "HOST:PORT"),
    (["--listen", ":1"], "HOST:PORT"),
    (["--listen", "a:123456"], "HOST:PORT"),
    (["--listen", "a:65536"], "HOST:PORT"),
    (["--listen", "::1:7471"], "[2001:db8::1]:7471"),
    (["--join", "[::1:7471", "--number", "2"], "HOST:PORT"),
    (["--listen", "a:\u0661"], "HOST:PORT"),
    (["--join", "a:0", "--number", "2"], "HOST:PORT"),
    (["--join", THERE, "--number", "9", "-n", "1", "--device", "9:smp=off"], "has nodes 1 to 1"),
    (["--listen", THERE, "--fabric", "rxe"], "no switch"),
    (["--listen", THERE, "--topology", "star:4"], "--serve=--wire"),
    (["--listen", THERE, "--hcas", "2"], "(ohca-fabric --help)"),
    (["--listen", THERE, "--ports", "2"], "--serve=--wire"),
    (["--listen", THERE, "-n", "36", "--memory", "1"], "at most 35 nodes"),
    (["--join", THERE, "--number", "1"], "node 1 is in the lab that listens"),
    (["--join", THERE, "--number", "65", "-n", "1"], "from 2 to 64"),
    (["--join", THERE, "--number", "63", "-n", "3"], "from 2 to 64"),
    (["--join", THERE, "--number", "2", "--opensm=-V"], "OpenSM runs in the lab that listens"),
]


def options(*argv, what="run"):
    """The options of a command line."""
    return cli.complete(cli.options([what, *argv]))


class Join(unittest.TestCase):
    """The options --listen, --join, --number and --token."""

    def test_wrong(self):
        """Options that do not fit are refused with an error."""
        for argv, why in WRONG:
            with self.subTest(argv=argv):
                self.assertIn(why, cli.wrong_lab(options(*argv)) or "nothing")

    def test_right(self):
        """Neither option, or one of them."""
        for argv in ([], ["--listen", "localhost:0"], ["--listen", THERE, "--token", "x"],
                     ["--join", "[2001:db8::1]:7471", "--number", "64", "-n", "1"],
                     ["--join", THERE, "--number", "2", "-n", "35", "--memory", "1"]):
            with self.subTest(argv=argv):
                self.assertIsNone(cli.wrong_lab(options(*argv)))

    def test_node(self):
        """'node' is a lab of one node that joins another lab."""
        opt = options("--join", THERE, "--number", "7", "--", "true", what="node")
        self.assertEqual((opt.nodes, opt.number), (1, 7))
        for argv, why in (((), "--join HOST:PORT"),
                          (("-n", "2", "--join", THERE, "--number", "7"), "-n must be 1")):
            with self.assertRaisesRegex(LabError, why):
                cli.cmd_node(options(*argv, what="node"))

    def test_file(self):
        """'node' uses the first node of a file; its name must not be that of another lab's node."""
        with tempfile.TemporaryDirectory() as d:
            path = os.path.join(d, "lab.yaml")

            def said(text, what, *argv):
                with open(path, "w", encoding="ascii") as f:
                    f.write(text)
                return options("-f", path, "--join", THERE, "--number", "5", *argv, what=what)

            self.assertEqual(said("memory: 512", "node").nodes, 1)
            opt = said("nodes: {node1: , client: }", "up")
            self.assertIn("names node5 'node1'", cli.wrong_lab(opt))
            opt = said("nodes: {server: , client: }", "up")
            self.assertIsNone(cli.wrong_lab(opt))
            with self.assertRaisesRegex(LabError, "run --join"):
                cli.cmd_node(said("commands: ['true']", "node"))

    def test_address(self):
        """A lab that asked for any port prints the one in its fabric's log."""
        with tempfile.TemporaryDirectory() as d:
            with open(os.path.join(d, "fabric.log"), "w", encoding="ascii") as f:
                f.write("ohca-fabric: listens at tcp:127.0.0.1:35379\nohca-fabric: ready\n")
            self.assertEqual(join.address(mock.Mock(dir=d)), "127.0.0.1:35379")

    def test_fabric(self):
        """The lab that listens has a wire at each free port; one that joins has one, and a site."""
        opt = options("-n", "34", "--listen", THERE, "--token", "t")
        self.assertEqual(places.fabric_options(opt)[1], "star:36,34,1,1")
        self.assertEqual(join.serve(opt), ["--token", "t", "--listen-tcp", THERE,
                                           "--wire", "switch1:35", "--wire", "switch1:36"])
        opt = options("-n", "3", "--join", THERE, "--number", "9")
        self.assertEqual(places.fabric_options(opt)[1], "star:4,3,1,9")
        self.assertEqual(join.serve(opt), ["--site", "9", "--wire", f"switch1:4={THERE}"])
        self.assertEqual([h.name for (h,) in places.choose(opt)], ["node9", "node10", "node11"])
        self.assertEqual(join.serve(options()), [])

    def test_numbers(self):
        """Nodes are named and found by their numbers among all labs."""
        with mock.patch.object(lab.Lab, "_check_parts"):
            joined = lab.Lab("x", options("-n", "2", "--join", THERE, "--number", "9",
                                          "--accel", "tcg"))
        self.assertEqual([vm.VM(joined, k).name for k in (1, 2)], ["node9", "node10"])
        self.assertIn("lab.node=10 ", vm.VM(joined, 2).cmdline() + " ")
        self.assertEqual(joined.environment(2)["OHCA_NODE"], "10")
        state = {"first": 9, "nodes": 2, "names": ["node9", "node10"]}
        self.assertEqual([cli.number_of(state, x) for x in ("9", "10", "node10")], [1, 2, 2])
        for wrong in ("1", "8", "11", "node1"):
            with self.assertRaisesRegex(LabError, "use 9 to 10"):
                cli.number_of(state, wrong)

    def test_routes(self):
        """Nodes of other labs are reached by IPoIB, those of this lab by the management network."""
        for argv, own in ((["-n", "2", "--join", THERE, "--number", "9"], {9, 10}),
                          (["-n", "1", "--listen", THERE], {1})):
            opt, said = options(*argv), []
            here = mock.Mock(opt=opt, slow=1, first=opt.number or 1)
            here.sh_all = lambda script, *_, said=said: said.append(subprocess.run(
                ["sh", "-ec", script.replace("ip -batch -", "cat")], check=True,
                stdout=subprocess.PIPE, text=True).stdout)
            join.routes(here)
            self.assertEqual(said[0].splitlines(), [
                f"route replace 10.76.0.{k} via 10.77.0.{k} dev ib0" for k in range(1, 65)
                if k not in own])
        join.routes(mock.Mock(opt=options(), sh_all=self.fail))

    def test_failure(self):
        """If a port does not become ACTIVE, the error has the wire's state; others do not."""
        def wait():
            raise LabError("not ACTIVE")

        with tempfile.TemporaryDirectory() as d:
            here = mock.Mock(opt=options("--join", THERE, "--number", "2"), dir=d)
            with open(os.path.join(d, "fabric.log"), "w", encoding="ascii") as f:
                f.write("ohca-fabric: 'switch1' port 3: cannot connect the wire to x: refused; "
                        "trying again\n")
            with self.assertRaisesRegex(LabError, f"(?s)not ACTIVE.*{THERE}.*refused"):
                join.active(here, wait)
            with open(os.path.join(d, "fabric.log"), "a", encoding="ascii") as f:
                f.write("ohca-fabric: 'switch1' port 3: cannot connect the wire to x: the peer "
                        "refused: the token is wrong, or missing; trying again\n")
            with self.assertRaisesRegex(LabError, f"^--token: give the file of .*{THERE}"):
                join.active(here, self.fail)
            with open(os.path.join(d, "fabric.log"), "a", encoding="ascii") as f:
                f.write("ohca-fabric: 'switch1' port 3: link up, 4x, 100 Gb/s\n")
            join.active(here, lambda: None)
            here.opt = options()
            with self.assertRaisesRegex(LabError, "^not ACTIVE$"):
                join.active(here, wait)


if __name__ == "__main__":
    fake.main()
