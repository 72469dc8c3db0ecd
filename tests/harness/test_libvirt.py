#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""The domains of ohca-lab libvirt, without a libvirt: tests/libvirt has one."""
import contextlib
import io
import os
import shlex
import subprocess
import tempfile
import unittest
import xml.etree.ElementTree as ET
from unittest import mock

import fake

# pylint: disable-next=wrong-import-order  # fake has the path
from ohca_lab import cli, libvirt, paths, places

ARG = f"{{{libvirt.QEMU}}}commandline/{{{libvirt.QEMU}}}arg"


class Domains(unittest.TestCase):
    """Domains of a lab that never starts."""

    def setUp(self):
        where = tempfile.TemporaryDirectory()
        self.addCleanup(where.cleanup)
        self.dir = where.name
        for target, name, value in ((libvirt.LibvirtLab, "_check_parts", lambda _: None),
                                    (paths, "runtime", lambda: self.dir),
                                    (paths, "qemu", lambda **_: ["/bin/echo", "a b"])):
            patch = mock.patch.object(target, name, value)
            patch.start()
            self.addCleanup(patch.stop)

    def domain(self, *argv):
        """Node 2 of a lab with these options: its XML, and the printed lines."""
        opt = cli.complete(cli.parser().parse_args(["libvirt", "--name", "x&y", *argv]))
        lab = libvirt.LibvirtLab("x&y", opt)
        os.mkdir(lab.dir)
        lab.layers = {"debian13": ["/base.squashfs", "/<layer>"]}
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            lab.MACHINE(lab, 2).start()
        self.lab = lab
        return ET.parse(os.path.join(lab.dir, "node2.xml")).getroot(), out.getvalue()

    def test_domain(self):
        """The domain has all that the guest's init and agent need."""
        root, said = self.domain("--accel", "kvm", "--memory", "300", "--cpus", "3")
        self.assertEqual(shlex.split(said), ["virsh", "-c", "qemu:///session", "create",
                                             os.path.join(self.lab.dir, "node2.xml")])
        self.assertEqual(root.get("type"), "kvm")
        self.assertEqual(root.find("cpu").get("mode"), "host-passthrough")
        self.assertEqual((root.findtext("name"), root.findtext("vcpu")), ("ohca-x&y-node2", "3"))
        self.assertEqual((root.find("memory").get("unit"), root.findtext("memory")), ("MiB", "300"))
        self.assertIn(" lab.node=2 lab.nodes=2", root.findtext("os/cmdline"))
        self.assertNotIn("tsc", root.findtext("os/cmdline"))
        self.assertEqual([d.find("source").get("file") for d in root.iter("disk")],
                         ["/base.squashfs", "/<layer>"])
        self.assertEqual([d.find("target").get("dev") for d in root.iter("disk")], ["vda", "vdb"])
        self.assertTrue(all(d.find("readonly") is not None for d in root.iter("disk")))
        self.assertEqual([c.find("target").get("name") for c in root.iter("channel")],
                         [f"org.openhca.cmd.{i}" for i in range(8)])
        self.assertEqual(root.find("devices/channel[4]/source").get("path"),
                         os.path.join(self.lab.dir, "n2", "cmd3"))

    def test_adapter(self):
        """QEMU's own devices get addresses from the end of the bus, unless they have some."""
        root, _ = self.domain("--accel", "tcg", "--share", self.dir, "--device", "2:smp=off",
                              "--device", "1:smp=on", "--qemu", "-device edu,addr=0x9")
        self.assertEqual(root.get("type"), "qemu")
        args = [a.get("value") for a in root.findall(ARG)]
        devices = [b for a, b in zip(args, args[1:]) if a == "-device"]
        self.assertEqual([d.split(",")[0] for d in devices],
                         ["virtio-net-pci", "virtio-9p-pci", "edu", "ohca"])
        self.assertEqual([d.partition(",addr=")[2] for d in devices],
                         ["0x1e", "0x1d", "0x9", "0x1c"])
        self.assertIn(f"ohca,fabric={self.lab.dir}/fabric,ports=1,node-desc=node2,smp=off",
                      devices[3])

    def test_rails(self):
        """Each of two adapters is at a root port; the root ports have the addresses."""
        host = places.Host("0x1", 1, "-", "-", "node2 ohca_0")
        with mock.patch.object(places, "choose", return_value=[[], [host, host]]):
            root, _ = self.domain("--accel", "tcg", "--hcas", "2")
        args = [a.get("value") for a in root.findall(ARG)]
        devices = [b for a, b in zip(args, args[1:]) if a == "-device"][1:]
        self.assertEqual([d.split(",")[0] for d in devices],
                         ["pcie-root-port", "ohca", "pcie-root-port", "ohca"])
        self.assertEqual([d.partition(",addr=")[2].partition(",")[0] for d in devices],
                         ["0x1d", "0x0", "0x1c", "0x0"])

    def test_emulator(self):
        """The script runs one program, with the arguments of both unchanged."""
        root, _ = self.domain("--accel", "tcg")
        emulator = root.findtext("devices/emulator")
        out = subprocess.run([emulator, "c  d"], capture_output=True, check=True, text=True).stdout
        self.assertEqual(out, "a b c  d\n")


if __name__ == "__main__":
    fake.main()
