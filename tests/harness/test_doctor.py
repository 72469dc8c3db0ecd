#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""ohca-lab doctor with fake parts."""
import contextlib
import io
import os
import tempfile
import unittest
from unittest import mock

import fake

from ohca_lab import doctor, paths  # pylint: disable=wrong-import-order  # fake has the path

QEMU = """#!/bin/sh
case $* in
*--version*) echo 'QEMU emulator version 10.0.13 (Debian)' ;;
*) echo 'name "ohca", bus PCI, desc "OpenHCA adapter, interface {}.0, front protocol {}"' ;;
esac
"""
FABRIC = "#!/bin/sh\necho 'ohca-fabric, link protocol 1, front protocol {}, control protocol 1'\n"
MODULE = "\0version=1.0\0interface={}\0uverbs_abi={}\0vermagic={} SMP\0"
PROVIDER = "\0libohca: interface 1, uverbs ABI {}, rdma-core 56\0"


class Parts(unittest.TestCase):
    """A checkout with built parts."""

    def setUp(self):
        where = tempfile.TemporaryDirectory()
        self.addCleanup(where.cleanup)
        self.top, self.build = where.name, os.path.join(where.name, "build")
        for name, value in (("TOP", self.top), ("BUILD", self.build),
                            ("FABRIC", os.path.join(self.build, "fabric")),
                            ("HUB", os.path.join(self.build, "hub")),
                            ("qemu", lambda: [os.path.join(self.build, "qemu")])):
            patch = mock.patch.object(paths, name, value)
            patch.start()
            self.addCleanup(patch.stop)

    def put(self, name, text, age=0):
        """Writes an executable file that is so many seconds old."""
        path = os.path.join(self.top, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="ascii") as f:
            f.write(text)
        os.chmod(path, 0o755)
        os.utime(path, (1e9 - age,) * 2)

    def make(self, interface=1, front=2, abi=1, kernel="6.12", said=1):
        """Builds all parts; keywords change the versions of single ones."""
        self.put("build/kver", "")
        self.put("build/qemu", QEMU.format(said, 2))
        self.put("build/fabric", FABRIC.format(front))
        self.put("build/hub", "")
        self.put("build/image/vmlinux", "\0Linux version 6.12 (who)\0")
        for name in ("image/initrd.cpio", "image/base.squashfs", "layer/ohca.squashfs"):
            self.put(f"build/{name}", "")
        self.put("build/modules-stock/kernel/ohca.ko", MODULE.format(interface, abi, kernel))
        self.put("build/provider/libohca-rdmav34.so", PROVIDER.format(1))

    def watch(self, part, *names):
        """Records the sources of a part, as tools/watch does."""
        lines = []
        for name in names:
            self.put(name, "x", 100)
            lines.append(f"{name} 1 {1e9 - 100:.7f}000\n")
        self.put(f"build/stamp/{part}.files", "".join(lines))

    def look(self):
        """The exit status, and (state, text) of each part."""
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            status = doctor.run(None)
        lines = [line.split(None, 2) for line in out.getvalue().splitlines()[:-1]]
        return status, {name: (state, text) for state, name, text in lines if name != "tools"}

    def expect(self, status, part, state, pattern):
        """One part has that state; all others are ok."""
        got, parts = self.look()
        self.assertEqual(got, status)
        self.assertEqual(parts[part][0], state)
        self.assertRegex(parts[part][1], pattern)
        self.assertEqual({p: s for p, (s, _) in parts.items() if p != part and s != "ok"}, {})

    def test_nothing(self):
        """If nothing is built, each part has the command that makes it."""
        status, parts = self.look()
        self.assertEqual(status, 1)
        for name, target in (("QEMU", "qemu"), ("fabric", "fabric"), ("guest", "lab")):
            self.assertEqual(parts[name][0], "missing")
            self.assertRegex(parts[name][1], f"run 'make {target}'$")

    def test_all(self):
        """If all parts exist, each one has its version."""
        self.make()
        self.watch("qemu", "qemu-model/a.c", "qemu-model/b.h")
        self.expect(0, "QEMU", "ok",
                    "^10.0.13, device ohca with interface 1.0, front protocol 2, /")
        _, parts = self.look()
        self.assertRegex(parts["fabric"][1],
                         "^ohca-fabric, .*, front protocol 2, control protocol 1, /")
        self.assertRegex(parts["driver"][1], "^ohca.ko 1.0 for Linux 6.12, .* 1, uverbs ABI 1$")
        self.assertRegex(parts["provider"][1], "^libohca-rdmav34.so, .*, rdma-core 56$")
        self.assertIn(parts["CPU"][1][:4], ("TCG:", "KVM:"))

    def test_front(self):
        """Device and fabric have different versions of the protocol of HCAs."""
        self.make(front=3)
        self.expect(1, "front", "differs", "QEMU has version 2 .*ohca-fabric has version 3 .*"
                    "run 'make qemu fabric'$")

    def test_driver(self):
        """The driver is for another kernel, device or provider."""
        self.make(kernel="6.13")
        self.expect(1, "driver", "differs", "Linux 6.13, .* has Linux 6.12: run 'make lab'$")
        self.make(interface=2)
        self.expect(1, "driver", "differs", "interface 2, .* has interface 1: run 'make lab'$")
        self.make(abi=2)
        self.expect(1, "provider", "differs", "the driver has uverbs ABI 2: run 'make lab'$")

    def test_broken(self):
        """A QEMU that does not run, and one without the device."""
        self.make()
        self.put("build/qemu", "#!/bin/sh\nexit 1\n")
        self.expect(1, "QEMU", "missing", "does not run: run 'make qemu'$")
        self.put("build/qemu", "#!/bin/sh\necho 'QEMU emulator version 9.2.0'\n")
        self.expect(1, "QEMU", "missing", "^9.2.0 has no device ohca .*: run 'make qemu'$")

    def test_stale(self):
        """A source was changed, removed or added: a lab can run all the same."""
        self.make()
        for change in (lambda: self.put("fab/b.c", "y"), lambda: os.remove(f"{self.top}/fab/b.c"),
                       lambda: self.put("fab/c.c", "")):
            self.watch("fabric", "fab/a.c", "fab/b.c")
            self.expect(0, "fabric", "ok", "^ohca-fabric")
            change()
            self.expect(0, "fabric", "stale", "fab/[bc].c has changed: run 'make fabric'$")
        os.remove(f"{self.top}/fab/c.c")

    def test_layer(self):
        """A built module that is not in the layer yet."""
        self.make()
        self.put("build/layer/ohca.squashfs", "", 10)
        _, parts = self.look()
        for part in ("driver", "provider"):
            self.assertEqual(parts[part][0], "stale")
            self.assertRegex(parts[part][1], "debian13 has an older one: run 'make lab'$")

    def test_packages(self):
        """Without a checkout, no text mentions make."""
        with mock.patch.object(paths, "CHECKOUT", False):
            _, parts = self.look()
        self.assertRegex(parts["QEMU"][1], "install the packages")

    def test_only_in_layer(self):
        """Parts that are only in the layer: as in a package, and in a checkout."""
        self.make()
        os.remove(f"{self.build}/modules-stock/kernel/ohca.ko")
        os.remove(f"{self.build}/provider/libohca-rdmav34.so")
        for checkout, state in ((True, "note"), (False, "ok")):
            with mock.patch.object(paths, "CHECKOUT", checkout):
                _, parts = self.look()
            for part in ("driver", "provider"):
                self.assertEqual(parts[part][0], state)
                self.assertIn("ohca.squashfs", parts[part][1])


if __name__ == "__main__":
    fake.main()
