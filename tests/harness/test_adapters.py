#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""QEMU's arguments for the adapters, NUMA nodes and root ports of nodes; no lab is started."""
import argparse
import contextlib
import io
import json
import os
import re
import sys
import tempfile
import unittest
from unittest import mock

import fake

# pylint: disable=wrong-import-order
from ohca_lab import attach, cli, lab, paths, places
from suite import harness

# the output of ohca-fabric hosts for rails:1,2,2
RAILS = [places.Host(f"0x{10 * k + i}", 1, "4xEDR", f"0x{i}", f"node{k} ohca_{i}")
         for k in (1, 2) for i in (0, 1)]


class Machines(unittest.TestCase):
    """Command lines of a lab that never starts."""

    def setUp(self):
        where = tempfile.TemporaryDirectory()
        self.addCleanup(where.cleanup)
        self.dir = where.name
        for target, name, value in ((lab.Lab, "_check_parts", lambda _: None),
                                    (paths, "runtime", lambda: self.dir),
                                    (places, "hosts", lambda _: RAILS)):
            patch = mock.patch.object(target, name, value)
            patch.start()
            self.addCleanup(patch.stop)

    def lab(self, *argv):
        """A lab with these options."""
        opt = cli.complete(cli.parser().parse_args(["up", "--accel", "tcg", *argv]))
        made = lab.Lab("x", opt)
        made.layers = {guest.name: [] for guest in made.guests()}
        return made

    def argv(self, k, *argv):
        """The command line of node k of a lab with these options."""
        made = self.lab(*argv)
        return made.MACHINE(made, k).argv()

    def devices(self, k, *argv):
        """The adapters, and the devices at which they are."""
        words = self.argv(k, *argv)
        found = [b for a, b in zip(words, words[1:]) if a == "-device"]
        return [d for d in found if re.match("ohca|pcie-root-port|pxb-pcie", d)]

    def test_one(self):
        """A single adapter is on the first bus, without an id."""
        self.assertEqual(self.devices(2, "--device", "bus=rp"),
                         [f"ohca,fabric={self.dir}/x/fabric,ports=1,node-desc=node2,bus=rp"])

    def test_two(self):
        """Each of two adapters has a root port, and the GUID, rate and name of its place."""
        fabric = f"fabric={self.dir}/x/fabric,ports=1"
        self.assertEqual(
            self.devices(2, "--hcas", "2", "--device", "2.1:speed=hdr", "--device", "1.0:smp=off",
                         "--device", "2:vls=4", "--device", "mtu=2048"),
            ["pcie-root-port,id=rail0,chassis=100",
             f"ohca,id=ohca_0,bus=rail0,addr=0x0,x-uars=256,{fabric},guid=0x20,width=4x,speed=edr,"
             "node-desc=node2 ohca_0,vls=4,mtu=2048",
             "pcie-root-port,id=rail1,chassis=101",
             f"ohca,id=ohca_1,bus=rail1,addr=0x0,x-uars=256,{fabric},guid=0x21,width=4x,speed=edr,"
             "node-desc=node2 ohca_1,speed=hdr,vls=4,mtu=2048"])

    def test_numa(self):
        """Memory, processors and adapters are spread over both NUMA nodes."""
        words = self.argv(1, "--hcas", "2", "--numa", "2", "--memory", "1001", "--cpus", "4")
        text = " ".join(words)
        for part in ("-smp 4,sockets=2 -m 1001", "id=ram0,size=501M,", "id=ram1,size=500M,",
                     "-numa node,nodeid=0,cpus=0-1,memdev=ram0",
                     "-numa node,nodeid=1,cpus=2-3,memdev=ram1",
                     "pxb-pcie,id=pxb0,bus=pcie.0,bus_nr=64,numa_node=0",
                     "pcie-root-port,id=rail0,bus=pxb0,chassis=100",
                     "pxb-pcie,id=pxb1,bus=pcie.0,bus_nr=72,numa_node=1",
                     "pcie-root-port,id=rail1,bus=pxb1,chassis=101"):
            self.assertIn(part, text)
        # Linux finds the last one of QEMU's list first
        self.assertLess(text.index("id=pxb1"), text.index("id=pxb0"))
        self.assertNotIn("memory-backend=", text)
        self.assertIn("-smp 2,sockets=2", " ".join(self.argv(1, "--numa", "2")))
        self.assertIn("memory-backend=ram0", " ".join(self.argv(1)))

    def test_s390x(self):
        """A machine without PCI Express has no root ports."""
        self.assertEqual([d.split(",")[0] for d in self.devices(1, "--hcas", "2", "--arch",
                                                                "s390x")], ["ohca", "ohca"])
        self.assertEqual([d.split(",")[0] for d in self.devices(1, "--hcas", "2", "--arch",
                                                                "arm64")],
                         ["pcie-root-port", "ohca", "pcie-root-port", "ohca"])

    def test_vfio_user(self):
        """With Debian's QEMU, each adapter is a process, and QEMU has the path of its socket."""
        made = self.lab("--attach", "vfio-user")
        vm = made.MACHINE(made, 2)
        words = vm.argv()
        self.assertEqual(os.path.basename(paths.qemu_program(words)), "qemu-system-x86_64")
        self.assertIn("stock-qemu", paths.qemu_program(words))
        self.assertFalse([x for x in words if x.startswith("ohca,")])
        self.assertEqual([json.loads(x) for x in words if x.startswith("{")], [
            {"driver": "vfio-user-pci",
             "socket": {"type": "unix", "path": f"{self.dir}/x/vfio-user-2.0"}}])
        self.assertEqual(vm.processes(), {"vfio-user-2.0": [
            paths.VFIO_USER, "--fabric", f"{self.dir}/x/fabric", "--socket",
            f"{self.dir}/x/vfio-user-2.0", "--node-desc", "node2", "--ports", "1"]})
        self.assertEqual(made.MACHINE(self.lab(), 1).processes(), {})

    def test_vfio_user_rails(self):
        """Each of two adapters has a root port, and GUID and rate of its place."""
        made = self.lab("--attach", "vfio-user", "--hcas", "2")
        vm = made.MACHINE(made, 1)
        self.assertEqual([json.loads(x)["bus"] for x in vm.argv() if x.startswith("{")],
                         ["rail0", "rail1"])
        self.assertEqual(vm.processes()["vfio-user-1.1"][5:],
                         ["--node-desc", "node1 ohca_1", "--ports", "1", "--guid", "0x11",
                          "--width", "4x", "--speed", "edr", "--uars", "256"])

    def test_vfio_user_refused(self):
        """Options that cannot be combined with --attach vfio-user."""
        for argv, why in ((["--fabric", "rxe"], "have no adapter"), (["--device", "mtu=256"],
                          "properties of -device ohca"), (["--arch", "arm64"], "guests of amd64")):
            opt = cli.complete(cli.parser().parse_args(["up", "--attach", "vfio-user", *argv]))
            self.assertIn(why, cli.wrong_lab(opt))
        for key, value, why in (("what", "libvirt", "use it with run, up and node"),
                                ("image", ["disk.qcow2"], "guests of this project")):
            opt = cli.complete(cli.parser().parse_args(["up", "--attach", "vfio-user"]))
            self.assertIsNone(attach.wrong(opt))
            setattr(opt, key, value)
            self.assertIn(why, attach.wrong(opt))
        made = self.lab("--attach", "vfio-user")
        made.vms = [made.MACHINE(made, 1)]
        with self.assertRaisesRegex(lab.LabError, "does not migrate"):
            made.migrate(1)

    def test_vfio_user_suite(self):
        """The suite vfio-user of tests/run names tests whose labs can have such adapters."""
        opt = argparse.Namespace(kernel="stock", guest=["debian13"], logs="x",
                                 names=fake.module_of("tests/run").VFIO_USER)
        run = harness.Run(opt, fake.module_of("tests/system/run").MODULES)
        self.assertEqual(run.unknown, [])
        self.assertTrue(run.groups)
        for group in run.groups:
            lab_opt = cli.complete(cli.options(["up", "--attach", "vfio-user", *group.lab]))
            self.assertIsNone(attach.wrong(lab_opt), group.name)

    def test_refused(self):
        """Options for machines that are impossible; the error says what to do."""
        for argv, why in ((["--hcas", "17"], "--hcas: give 1 to 16 adapters"),
                          (["--hcas", "0"], "--hcas: give 1 to 16 adapters"),
                          (["--hcas", "2", "--fabric", "rxe"], "no adapter with --fabric rxe"),
                          (["--numa", "2", "--cpus", "3"], "--cpus 2 or a multiple"),
                          (["--numa", "17"], "--numa: give 1 to 16"),
                          (["--numa", "0"], "--numa: give 1 to 16"),
                          (["--numa", "2", "--guest", "debian13,arm64"], "only guests of amd64")):
            said = io.StringIO()
            with contextlib.redirect_stderr(said), \
                    mock.patch.object(sys, "argv", ["ohca-lab", "up", *argv]):
                self.assertEqual(cli.main(), 2)
            self.assertIn(why, said.getvalue())
        said = io.StringIO()
        with contextlib.redirect_stderr(said), \
                mock.patch.object(sys, "argv", ["ohca-lab", "libvirt", "--numa", "2"]):
            self.assertEqual(cli.main(), 2)
        self.assertIn("domains of libvirt get no NUMA nodes", said.getvalue())

    def status(self, *argv):
        """The output of 'ohca-lab status' for a lab with these options."""
        made = self.lab(*argv)
        os.mkdir(made.dir)
        made.vms = [made.MACHINE(made, k + 1) for k in range(made.opt.nodes)]
        with open(os.path.join(made.dir, "lock"), "wb") as f:
            made.lock = f
            made._write_state()     # pylint: disable=protected-access
        out = io.StringIO()
        with contextlib.redirect_stdout(out), mock.patch.object(cli, "sweep"):
            cli.cmd_status(cli.parser().parse_args(["status"]))
        self.assertIn(f"control socket of the fabric: {made.dir}/control\n", out.getvalue())
        return out.getvalue()

    def test_status(self):
        """Each of several adapters has a line, with its name in ohca-fabric."""
        self.assertIn("  node2: run by libvirt, debian13\n"
                      "    ohca_0: at 'node2 ohca_0', NUMA node 0\n"
                      "    ohca_1: at 'node2 ohca_1', NUMA node 1\n",
                      self.status("--hcas", "2", "--numa", "2"))

    def test_status_of_one(self):
        """A node with one adapter has its place in its own line, unless that is its own name."""
        self.assertIn("node1: run by libvirt, debian13, at 'node1 ohca_1'\n", self.status(
            "--topology", "t", "--place", "node1=node1 ohca_1", "--hcas", "1"))

    def test_status_of_itself(self):
        """A lab without a topology."""
        self.assertIn("node1: run by libvirt, debian13\n", self.status())


if __name__ == "__main__":
    fake.main()
