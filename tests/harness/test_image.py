#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Nodes from disk images: accepted files and options, QEMU's arguments and the seed."""
import contextlib
import io
import json
import os
import stat
import struct
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

import fake

from ohca_lab import cli, image, lab, paths, prepare  # pylint: disable=wrong-import-order  # as above
from ohca_lab.channel import GuestGone, Timeout  # pylint: disable=wrong-import-order
from ohca_lab.words import LabError  # pylint: disable=wrong-import-order

MBR = b"\0" * 510 + b"\x55\xaa"


def qcow2(version=3, backing=0, crypt=0, features=0):
    """The first sector of a qcow2 file."""
    head = struct.pack(">4sIQIIQI", b"QFI\xfb", version, backing, 0, 16, 1 << 20, crypt)
    return (head.ljust(72, b"\0") + struct.pack(">Q", features)).ljust(512, b"\0")


class Images(unittest.TestCase):
    """A directory with files, some of which are images."""

    def setUp(self):
        where = tempfile.TemporaryDirectory()
        self.addCleanup(where.cleanup)
        self.dir = where.name
        self.good = self.write("good.qcow2", qcow2())
        for target, name, value in ((lab.Lab, "_check_parts", lambda _: None),
                                    (paths, "runtime", lambda: self.dir)):
            patch = mock.patch.object(target, name, value)
            patch.start()
            self.addCleanup(patch.stop)

    def write(self, name, data):
        """Writes a file; returns its path."""
        path = os.path.join(self.dir, name)
        with open(path, "wb") as f:
            f.write(data)
        return path

    def lab(self, *argv):
        """A lab with these options."""
        opt = cli.complete(cli.parser().parse_args(["up", "--accel", "tcg", *argv]))
        self.assertIsNone(cli.wrong_lab(opt))
        return lab.Lab("x", opt)

    def refused(self, *argv):
        """The error of ohca-lab for options that are wrong, with status 2."""
        said = io.StringIO()
        with contextlib.redirect_stderr(said), mock.patch.object(sys, "argv", ["ohca-lab", *argv]):
            self.assertEqual(cli.main(), 2)
        return said.getvalue().strip()

    def test_formats(self):
        """Files that begin as qcow2 or a partition table are images; no other file is opened."""
        self.assertEqual(image.format_of(self.good), "qcow2")
        self.assertEqual(image.format_of(self.write("old", qcow2(2, features=4))), "qcow2")
        self.assertEqual(image.format_of(self.write("raw", MBR + b"\0" * 512)), "raw")
        for data, why in ((b"", "neither a qcow2 image nor a raw disk"),
                          (b"text\n" * 200, "neither a qcow2 image nor a raw disk"),
                          (b"QFI\xfb", "neither a qcow2 image nor a raw disk"),
                          (b"KDMV".ljust(1024, b"\0"), "convert other formats by qemu-img"),
                          # also as the guest of a raw disk could have written it
                          (qcow2(backing=104), "an overlay of another file"),
                          (qcow2(backing=104)[:510] + MBR[510:], "an overlay of another file"),
                          (qcow2(features=4), "an overlay of another file"),
                          (qcow2(crypt=2), "it is encrypted")):
            with self.assertRaisesRegex(LabError, why):
                image.format_of(self.write("bad", data))
        with self.assertRaisesRegex(LabError, r"convert -O qcow2 '/.*/a b' NEW\.qcow2$"):
            image.format_of(self.write("a b", b""))

    def test_refused(self):
        """Files that are no images, and options that have no effect with images."""
        gone, text = os.path.join(self.dir, "gone"), self.write("text", b"x")
        fifo = os.path.join(self.dir, "fifo")
        os.mkfifo(fifo)
        for argv, why in (
                (["--image", gone], f"--image {gone}: it cannot be read: No such file"),
                (["--image", fifo], "it is neither a file nor a block device"),
                (["--image", self.dir], "it cannot be read: Is a directory"),
                (["--image", self.good, "--image", f"2:{text}"], f"--image 2:{text}: this is nei"),
                (["--image", f"3:{self.good}"], "this lab has nodes 1 to 2"),
                (["--image", f"0:{self.good}"], "this lab has nodes 1 to 2"),
                (["--image", self.good, "--guest", "debian12"],
                 "--guest debian12: no node would use it"),
                (["--image", f"1:{self.good}", "--guest", "debian12,debian14"],
                 "--guest debian12: no node would use it"),
                (["--image", self.good, "--kernel", "debug"], "--kernel debug: it does not work"),
                (["--image", self.good, "--append", "quiet"], "--append: it does not work with"),
                (["--image", self.good, "--gdb"], "--gdb: it does not work with --image: ohca-lab"),
                (["--image", self.good, "--package", "gdb"], "--package: it does not work with")):
            self.assertIn(why, self.refused("up", *argv))
        self.assertIn("libvirt: it does not work with --image",
                      self.refused("libvirt", "--image", self.good))

    def test_nodes(self):
        """The last --image for a node has precedence; guests are those of the other nodes."""
        made = self.lab("-n", "3", "--image", self.good, "--image", f"2:{self.write('raw', MBR)}")
        self.assertEqual([os.path.basename(x) for x in made.images],
                         ["good.qcow2", "raw", "good.qcow2"])
        self.assertEqual(made.guests(), [])
        made = self.lab("-n", "3", "--guest", "debian12,debian14", "--image", f"3:{self.good}")
        self.assertEqual([g.name for g in made.guests()], ["debian12", "debian14"])
        self.assertEqual([type(made.machine(k)) for k in (1, 2, 3)], [made.MACHINE] * 2
                         + [image.ImageVM])

    def test_machine(self):
        """The BIOS boots the image, which QEMU does not write; QEMU gets no kernel."""
        made = self.lab("--image", self.write("a,b", qcow2()), "--no-driver")
        argv = made.machine(2).argv()
        self.assertFalse({"-kernel", "-initrd", "-append"} & set(argv))
        drives = [b for a, b in zip(argv, argv[1:]) if a == "-drive"]
        self.assertEqual(drives[0], f"if=none,id=disk,file={self.dir}/a,,b,format=qcow2,"
                                    "discard=unmap,snapshot=on")
        self.assertRegex(drives[1], r"^if=none,id=seed,.*readonly=on$")
        self.assertEqual(len(drives), 2)
        # node 2 has another architecture than the image
        mixed = self.lab("--arch", "arm64", "--image", f"1:{self.good}")
        self.assertEqual([mixed.machine(k).guest.machine for k in (1, 2)], ["x86_64", "aarch64"])
        self.assertIsNone(cli.wrong_lab(mixed.opt))
        with self.assertRaisesRegex(LabError, "does not migrate"):
            made.vms = [made.machine(1)]
            made.vms[0].process = mock.Mock()
            made.migrate(1)

    def test_seed(self):
        """The files for cloud-init: name, address, commands at each boot."""
        made = self.lab("--image", self.good)
        seed = made.machine(2).seed()
        self.assertEqual(json.loads(seed["meta-data"])["local-hostname"], "node2")
        eth0 = json.loads(seed["network-config"])["ethernets"]["eth0"]
        self.assertEqual((eth0["addresses"], eth0["match"]["macaddress"]),
                         (["10.76.0.2/24"], "52:54:00:0c:a0:02"))
        first, rest = seed["user-data"].split("\n", 1)
        self.assertEqual(first, "#cloud-config")
        self.assertIn("image-init", json.loads(rest)["bootcmd"][0][-1])
        self.assertEqual(seed["ohca.env"], "OHCA_NODE=2\nOHCA_NODES=2\n")

    def test_seed_disk(self):
        """The seed has the label that cloud-init looks for, and all its files."""
        if not os.path.exists(paths.xorriso()[-1]):
            self.skipTest("no xorriso")
        files = [self.write(name, b"x") for name in ("image-init", "ohca-agent")]
        vm = self.lab("--image", self.good).machine(1)
        os.makedirs(vm.dir)
        with mock.patch.object(paths, "guest_files", lambda: files):
            vm.write_seed()
        with open(os.path.join(vm.dir, "seed.iso"), "rb") as f:
            data = f.read()
        self.assertEqual(data[0x8000 + 40:0x8000 + 72], b"CIDATA".ljust(32))
        for name in (*vm.seed(), "image-init", "ohca-agent"):
            self.assertIn(name.encode(), data)
        with mock.patch.object(paths, "guest_files", lambda: ["/nowhere/at-all"]), \
                self.assertRaisesRegex(LabError, "(?s)node1: xorriso could not make .*at-all"):
            vm.write_seed()

    def test_installed(self):
        """An installed ohca-lab may lack xorriso, which its package only recommends."""
        with mock.patch.object(paths, "CHECKOUT", False), \
                mock.patch.object(paths, "xorriso", lambda: [os.path.join(self.dir, "xorriso")]):
            self.assertRaisesRegex(LabError, "apt install xorriso", image.parts)
            self.write("xorriso", b"")
            self.assertIn(os.path.join(self.dir, "xorriso"), image.parts())

    def test_packages(self):
        """Without packages, the error for a node that lacks the driver says how to make them."""
        made = self.lab("--image", self.good)
        made.vms = [made.machine(1)]
        with mock.patch.object(paths, "BUILD", self.dir), \
                mock.patch.object(made, "sh", lambda *_: 1), \
                self.assertRaisesRegex(LabError, "node1: the image lacks driver.*'make deb'"):
            image.install(made)
        with mock.patch.object(made, "sh", lambda *_: 0):
            image.install(made)

    def test_keys(self):
        """The script prints only the keys in base64, whatever ssh-keygen prints."""
        for name in ("bin", "etc", "etc/ssh"):
            os.mkdir(os.path.join(self.dir, name))
        tool = self.write("bin/ssh-keygen", b"""#!/bin/sh
echo "ssh-keygen: generating new host keys: ED25519"
case "$*" in
*' -f '*) cd root/.ssh && echo private >id_ed25519 && echo public >id_ed25519.pub ;;
*) cd etc/ssh && echo host >ssh_host_ed25519_key && echo pub >ssh_host_ed25519_key.pub ;;
esac
""")
        os.chmod(tool, 0o755)
        path = f"{self.dir}/bin:{os.environ['PATH']}"
        done = subprocess.run(["sh", "-c", image.KEYS.replace("cd / ", f"cd {self.dir} ")],
                              env={**os.environ, "PATH": path}, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, check=True, text=True)
        self.assertTrue(os.path.exists(os.path.join(self.dir, "etc/ssh/ssh_host_ed25519_key")))
        self.assertRegex(done.stdout, r"^[A-Za-z0-9+/=\n]+$")
        self.assertEqual(self.trusted(done.stdout).count("END\n"), 1)

    def trusted(self, keys):
        """The script that the second of two nodes runs if the first one printed these keys."""
        made, ran = self.lab("--image", self.good), []
        made.vms = [made.machine(k) for k in (1, 2)]
        made.capture = lambda *_: (0, keys)
        made.sh_all = lambda script, *_: ran.append(script(made.vms[1]))
        image.ready(made)
        return ran[-1]

    def test_hostile_keys(self):
        """A node's keys cannot become a part of the script, whatever they contain."""
        for keys in ("END\nreboot\n", "'; reboot\n", "bm9uZQ==\nEND\nreboot\n", "a", "\xe9AAA"):
            with self.assertRaisesRegex(LabError, "node1: it printed no keys for ssh, but"):
                self.trusted(keys)
        # both are base64; the other form has no line that could end the document
        self.assertNotIn("\nreboot", self.trusted("ENDA\nreboot\nAA\n"))

    def test_no_keys(self):
        """An image that is kept gets no keys."""
        made = self.lab("--image", self.good)
        made.vms, made.images_kept = [made.machine(1)], True
        with mock.patch.object(made, "sh_all") as ran, mock.patch.object(made, "capture") as asked:
            image.ready(made)
        self.assertEqual((ran.call_count, asked.call_count), (1, 0))

    def prepared(self, source, *options, packages=("x.deb",), install=None):
        """Runs 'prepare' without booting a machine; returns its status and messages."""
        new, said = os.path.join(self.dir, "new"), io.StringIO()

        def start(made):
            made.lock = True

        with contextlib.redirect_stderr(said), mock.patch.object(
                sys, "argv", ["ohca-lab", "prepare", *options, source, new]), mock.patch.multiple(
                    image, packages=lambda: packages, install=install or mock.DEFAULT), \
                mock.patch.multiple(lab.Lab, start=start, teardown=mock.DEFAULT), \
                mock.patch.object(prepare, "power_off"), \
                mock.patch.object(lab.signal, "signal"), \
                mock.patch.object(cli, "catch_signals", lambda: None):
            return cli.main(), said.getvalue()

    def new(self):
        """The files that 'prepare' has made or left: {name: contents}."""
        found = {}
        for name in os.listdir(self.dir):
            if name.startswith("new"):
                with open(os.path.join(self.dir, name), "rb") as f:
                    found[name] = f.read()
        return found

    def test_prepare(self):
        """The new image appears when it is complete; after a failure there is none."""
        for argv, packages, why in (((os.path.join(self.dir, "gone"),), ("x",), "gone: it cannot"),
                                    ((self.good,), (), "'make deb'"),
                                    ((self.good, "--memory", "99999999"), ("x",),
                                     "--memory: 1 nodes need 99999999 MiB")):
            self.assertRegex(self.prepared(*argv, packages=packages)[1],
                             f"ohca-lab: prepare: .*{why}")

        def fails(made, again):
            self.assertEqual(([x[:-8] for x in made.images], again), ([f"{self.dir}/new."], True))
            self.assertNotIn("snapshot", str(made.machine(1).disks()))
            raise LabError("node1: apt failed")

        status, said = self.prepared(self.good, install=fails)
        self.assertEqual((status, said.split("\n")[-2]), (1, "ohca-lab: node1: apt failed"))
        self.assertFalse(self.new())
        self.assertEqual(self.prepared(self.good)[0], 0)
        self.assertEqual(self.new(), {"new": qcow2()})
        self.assertIn("new already exists", self.prepared(self.good)[1])

    def test_prepare_mode(self):
        """The new image has the mode of the image, and its owner can write it."""
        for mode, made in ((0o600, 0o600), (0o444, 0o644), (0o640, 0o640)):
            os.chmod(self.good, mode)
            self.assertEqual(self.prepared(self.good)[0], 0)
            path = os.path.join(self.dir, "new")
            self.assertEqual(stat.S_IMODE(os.stat(path).st_mode), made)
            os.remove(path)

    def test_prepare_replaces_nothing(self):
        """Files that exist already, or that others make meanwhile, do not change."""
        mine = self.write("new.part", b"mine")
        self.assertEqual(self.prepared(self.good)[0], 0)
        self.assertEqual(self.new(), {"new": qcow2(), "new.part": b"mine"})
        os.remove(mine)
        os.remove(os.path.join(self.dir, "new"))
        status, said = self.prepared(
            self.good, install=lambda *_, **__: self.write("new", b"theirs"))
        self.assertEqual((status, self.new()), (1, {"new": b"theirs"}))
        self.assertIn("new meanwhile", said)

    def test_prepare_log(self):
        """An error of --log is printed, and the new image is made all the same."""
        status, said = self.prepared(self.good, "--log", os.path.join(self.good, "logs"))
        self.assertEqual((status, self.new()), (0, {"new": qcow2()}))
        self.assertIn("--log: ", said)

    def test_prepare_options(self):
        """Errors of the options have the usage of 'prepare'."""
        with self.assertRaises(SystemExit), contextlib.redirect_stderr(io.StringIO()) as said:
            cli.parser().parse_args(["prepare", "--memory", "0", "a", "b"])
        self.assertRegex(said.getvalue(), "(?s)usage: ohca-lab prepare.*--memory: '0' is not")

    def test_power_off(self):
        """The disk is complete if the machine powers off, whatever happens to its agent."""
        made = self.lab("--image", self.good)
        made.vms = [made.machine(1)]
        process = made.vms[0].process = mock.Mock()
        for answer, returned, wrong in (
                ([0], 0, None), ([143], 0, None), (GuestGone("it ended"), 0, None),
                (Timeout(), 0, None), ([1], 0, r"node1: .*has failed \(status 1\)"),
                ([0], -6, "node1: QEMU was ended by SIGABRT: its disk may be incomplete"),
                (GuestGone("it ended"), 1, "node1: QEMU has ended with status 1")):
            process.returncode = returned
            with mock.patch.object(made, "sh", side_effect=answer):
                if wrong:
                    self.assertRaisesRegex(LabError, wrong, prepare.power_off, made)
                else:
                    prepare.power_off(made)
        process.wait.side_effect = subprocess.TimeoutExpired("qemu", 1)
        with mock.patch.object(made, "sh", side_effect=[0]):
            self.assertRaisesRegex(LabError, "does not power off", prepare.power_off, made)


if __name__ == "__main__":
    fake.main()
