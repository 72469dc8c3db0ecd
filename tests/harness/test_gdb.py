#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""The symbols for gdb of a guest's kernel, of its driver and of QEMU."""
import os
import re
import subprocess
import tempfile
import unittest
from unittest import mock

import fake

from ohca_lab import gdb, paths  # pylint: disable=wrong-import-order  # fake has the path

KALLSYMS = """\
ffffffff81000000 T _stext
ffffffff81000140 t static_one
ffffffff81000190 t static_one
ffffffff82001000 T last.part.0
"""
SECTIONS = ".text:0xffffffffc034b000\n.data:0xffffffffc035f900\n"


class Symbols(unittest.TestCase):
    """A guest that prints what the test defines."""

    def setUp(self):
        where = tempfile.TemporaryDirectory()
        self.addCleanup(where.cleanup)
        self.dir = where.name

    def commands(self, kallsyms, sections):
        """gdb's commands for that guest."""
        with open(gdb.stub(self.dir), "wb"), \
                mock.patch.object(gdb, "_ask", return_value=(kallsyms, sections)):
            return gdb.kernel_commands(self.dir, paths.Guest("debian13"), "stock")

    def test_kernel(self):
        """Each function of the kernel is a symbol, at its address."""
        self.commands(KALLSYMS, "")
        nm = paths.in_root(os.path.join(paths.ROOT, "usr", "bin", "nm"))
        text = subprocess.run([*nm, os.path.join(self.dir, "kernel.elf")], check=True,
                              capture_output=True, text=True).stdout
        found = {name: address for address, kind, name in re.findall(r"(?m)^(\w+) (\w) (.*)$", text)
                 if kind in "tT"}
        for line in KALLSYMS.splitlines()[:2] + KALLSYMS.splitlines()[3:]:
            address, _, name = line.split()
            self.assertEqual(found.get(name), address)

    def test_driver(self):
        """The driver's sections have their addresses in the guest."""
        with_driver = self.commands(KALLSYMS, SECTIONS)
        self.assertEqual(len(with_driver), 3)
        self.assertRegex(with_driver[1], r"^add-symbol-file .*/modules-stock/kernel/ohca\.ko "
                         "-s .text 0xffffffffc034b000 -s .data 0xffffffffc035f900$")
        self.assertEqual(self.commands(KALLSYMS, ""), [with_driver[0], with_driver[2]])

    def test_hidden(self):
        """A kernel that hides its addresses, or prints nothing, is an error."""
        for text in ("0000000000000000 T _stext\n", ""):
            with self.assertRaisesRegex(gdb.GdbError, "no addresses"):
                self.commands(text, SECTIONS)

    def test_no_stub(self):
        """A lab without --gdb is an error that names the option."""
        with self.assertRaisesRegex(gdb.GdbError, "--gdb"):
            gdb.kernel_commands(self.dir, paths.Guest("debian13"), "stock")

    def test_other_architecture(self):
        """A kernel of another architecture is an error; the guest is not asked."""
        with self.assertRaisesRegex(gdb.GdbError, "cannot debug programs of arm64; --qemu"):
            gdb.kernel_commands(self.dir, paths.Guest("arm64"), "stock")

    def test_qemu(self):
        """QEMU's symbols have the address at which it was loaded."""
        for machine in ("x86_64", "aarch64"):
            text = (f"7fa000-7fb000 r-xp 00001000 fe:00 5  /b/qemu-system-{machine}\n"
                    f"7f9000-7fa000 r--p 00000000 fe:00 5  /b/qemu-system-{machine}\n")
            with mock.patch("builtins.open", mock.mock_open(read_data=text)):
                self.assertEqual(gdb.qemu_commands(7)[:2], [
                    "attach 7", f"add-symbol-file /b/qemu-system-{machine} -o 0x7f9000"])

    def test_other_program(self):
        """A process that does not run our QEMU is an error."""
        with self.assertRaisesRegex(gdb.GdbError, "built again"):
            gdb.qemu_commands(os.getpid())

    def test_ended(self):
        """QEMU has ended."""
        with self.assertRaisesRegex(gdb.GdbError, "cannot be read: No such file"):
            gdb.qemu_commands((1 << 22) + 1)


if __name__ == "__main__":
    fake.main()
