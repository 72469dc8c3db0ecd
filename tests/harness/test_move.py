#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""A node whose other QEMU does not start runs where it was."""
import os
import subprocess
import tempfile
import unittest

import fake

from ohca_lab import move  # pylint: disable=wrong-import-order  # fake has the path


class Node:
    """A node whose QEMU is a program that waits, and of which no other one starts."""
    name = "node1"

    def __init__(self, where):
        self.dir = os.path.join(where, "n1")
        os.makedirs(self.dir)
        for name in ("console.log", "qemu.log"):
            with open(os.path.join(self.dir, name), "wb"):
                pass
        self.stderr = None
        self.process = subprocess.Popen(  # pylint: disable=consider-using-with
            ["sleep", "60"])

    def start(self):
        """As if there were no memory for a process."""
        raise OSError("Cannot allocate memory")


class Failure(unittest.TestCase):
    """Nothing happens to the first QEMU."""

    def test_start(self):
        """The other one cannot be started."""
        with tempfile.TemporaryDirectory() as where:
            vm = Node(where)
            try:
                with self.assertRaisesRegex(OSError, "allocate"):
                    move.migrate(vm)
                self.assertIsNone(vm.process.poll())
            finally:
                vm.process.kill()
                vm.process.wait()


if __name__ == "__main__":
    fake.main()
