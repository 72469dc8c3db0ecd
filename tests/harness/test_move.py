#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""A node whose other QEMU does not start runs where it was; what its monitor is asked."""
import json
import os
import socket
import subprocess
import tempfile
import threading
import unittest

import fake

from ohca_lab import move, qmp  # pylint: disable=wrong-import-order  # fake has the path


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


class Monitor(unittest.TestCase):
    """A monitor that says what it was asked."""

    def test_path(self):
        """An argument of a command may have any name."""
        def answer(listener):
            with listener.accept()[0] as s, s.makefile("rw", encoding="utf-8") as f:
                print("{}", file=f, flush=True)
                for line in f:
                    print(json.dumps({"return": json.loads(line)["arguments"]}), file=f,
                          flush=True)

        with tempfile.TemporaryDirectory() as where, socket.socket(socket.AF_UNIX) as listener:
            path = os.path.join(where, "qmp")
            listener.bind(path)
            listener.listen()
            thread = threading.Thread(target=answer, args=(listener,))
            thread.start()
            asked = {"path": "/machine", "property": "type"}
            self.assertEqual(qmp.qmp(path, "qom-get", **asked), asked)
            thread.join()


if __name__ == "__main__":
    fake.main()
