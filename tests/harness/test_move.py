#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Migration of a node: after a failure it runs as before; commands at the monitors; the share."""
import json
import os
import socket
import subprocess
import tempfile
import threading
import time
import types
import unittest
from unittest import mock

import fake

from ohca_lab import lab, move, qmp  # pylint: disable=wrong-import-order  # fake has the path
from ohca_lab.words import LabError  # pylint: disable=wrong-import-order


class Node:
    """A node whose QEMU is a program that waits; another one cannot be started."""
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
        """Fails as if there were no memory for a process."""
        raise OSError("Cannot allocate memory")


class FakeMonitor:
    """The monitor of a QEMU: it has a list of answers to each command, and repeats the last one."""

    def __init__(self, where, late=False, **answers):
        self.answers = {name.replace("_", "-"): a for name, a in answers.items()}
        self.asked = []
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(os.path.join(where, "qmp"))
        self.thread = threading.Thread(target=self.run)
        if not late:
            self.listen()

    def listen(self):
        """Starts to listen."""
        self.listener.listen()
        self.thread.start()

    def run(self):
        """Answers until it is closed."""
        while True:
            try:
                s = self.listener.accept()[0]
            except OSError:
                return
            with s, s.makefile("rw", encoding="utf-8") as f:
                print("{}", file=f, flush=True)
                for line in f:
                    command = json.loads(line)["execute"]
                    if command != "qmp_capabilities":
                        self.asked.append(command)
                    have = self.answers.get(command, [{}])
                    said = have.pop(0) if len(have) > 1 else have[0]
                    print(json.dumps({"return": said}), file=f, flush=True)

    def close(self):
        """Closes the monitor, as if QEMU had ended."""
        self.listener.shutdown(socket.SHUT_RDWR)
        self.thread.join()
        self.listener.close()


class Leaver(Node):
    """A node for which a second QEMU starts and runs, but accepts no state."""
    states = [{}]       # its answers to query-status

    def start(self):
        """Starts the second QEMU; it ends when it is asked to."""
        self.process = subprocess.Popen(  # pylint: disable=consider-using-with
            ["sleep", "60"])
        # pylint: disable-next=attribute-defined-outside-init
        self.monitor = FakeMonitor(self.dir, query_status=[*self.states])
        # pylint: disable-next=attribute-defined-outside-init
        self.inode = os.stat(self.dir).st_ino
        Leaver.other = self

    def alive(self):
        """The same as VM.alive()."""
        return self.process.poll() is None


class Failure(unittest.TestCase):
    """A failure does not harm the first QEMU."""

    def test_start(self):
        """The second QEMU cannot be started."""
        with tempfile.TemporaryDirectory() as where:
            vm = Node(where)
            try:
                with self.assertRaisesRegex(OSError, "allocate"):
                    move.migrate(vm)
                self.assertIsNone(vm.process.poll())
            finally:
                vm.process.kill()
                vm.process.wait()

    def test_middle(self):
        """The transfer of the state fails: the second QEMU ends, and the machine continues."""
        with tempfile.TemporaryDirectory() as where:
            vm = Leaver(where)
            monitor = FakeMonitor(vm.dir, query_migrate=[
                {"status": "active"}, {"status": "failed", "error-desc": "no room"}],
                query_status=[{"status": "finish-migrate"}, {"status": "postmigrate"}])
            try:
                with self.assertRaisesRegex(LabError, "node1 does not migrate: no room"):
                    move.migrate(vm)
                self.assertFalse(Leaver.other.alive())
                self.assertIsNone(vm.process.poll())
                self.assertEqual(monitor.asked[-3:], ["query-status", "query-status", "cont"])
            finally:
                Leaver.other.monitor.close()
                monitor.close()
                vm.process.kill()
                vm.process.wait()

    def test_late(self):
        """The machine does not run in the second QEMU in time: it continues in the first one."""
        with tempfile.TemporaryDirectory() as where:
            vm = Leaver(where)
            monitor = FakeMonitor(vm.dir, query_migrate=[{"status": "completed"}],
                                  query_status=[{"status": "postmigrate"}])
            try:
                with mock.patch.object(move, "MIGRATE_S", 1), \
                        mock.patch.object(Leaver, "states", [{"running": False}]), \
                        self.assertRaisesRegex(LabError, "node1 has not migrated within 1 s"):
                    move.migrate(vm)
                self.assertFalse(Leaver.other.alive())
                self.assertEqual(monitor.asked[-1], "cont")
            finally:
                Leaver.other.monitor.close()
                monitor.close()
                vm.process.kill()
                vm.process.wait()


class Arriver(Leaver):
    """A node for which a second QEMU starts, and has the machine at once."""
    states = [{"running": True}]


class Success(unittest.TestCase):
    """After a migration the node is the second QEMU, with its directory."""

    def test_lock(self):
        """Another process that makes a lock in the node's directory meanwhile does no harm."""
        real = os.unlink

        def late(path, *args, **kwargs):
            """Removes a file; then the other process makes its lock again."""
            real(path, *args, **kwargs)
            try:
                with open(os.path.join(vm.dir, "cmd0.lock"), "wb"):
                    pass
            except FileNotFoundError:
                pass

        with tempfile.TemporaryDirectory() as where:
            vm = Arriver(where)
            first, monitor = vm.process, FakeMonitor(vm.dir, query_migrate=[
                {"status": "completed", "downtime": 7}])
            try:
                with mock.patch.object(os, "unlink", late):
                    self.assertEqual(move.migrate(vm)["downtime"], 7)
                self.assertIsNotNone(first.poll())
                self.assertIs(vm.process, Leaver.other.process)
                self.assertIsNone(vm.process.poll())
                self.assertEqual(os.stat(vm.dir).st_ino, Leaver.other.inode)
                self.assertEqual(os.listdir(where), ["n1"])
            finally:
                Leaver.other.monitor.close()
                monitor.close()
                for process in (first, Leaver.other.process):
                    process.kill()
                    process.wait()


class Incoming(unittest.TestCase):
    """The second QEMU gets its command when it listens, which is after its socket's file exists."""

    def setUp(self):
        self.dir = self.enterContext(tempfile.TemporaryDirectory())
        self.vm = types.SimpleNamespace(name="node1")
        self.there = types.SimpleNamespace(dir=self.dir, alive=lambda: True,
                                           last_words=lambda _: ["no memory"])
        self.monitor = None

    def incoming(self, sleeps, seconds=60):
        """Calls _incoming(); each sleep in it calls one of these functions."""
        with mock.patch.object(move.time, "sleep", side_effect=lambda _: sleeps.pop(0)()):
            move._incoming(  # pylint: disable=protected-access
                self.vm, self.there, "unix:x", time.monotonic() + seconds)

    def bound(self):
        """Makes the file of the monitor's socket."""
        self.monitor = FakeMonitor(self.dir, late=True)

    def test_late(self):
        """First there is no file, then no listener, then one."""
        sleeps = [self.bound, lambda: self.monitor.listen()]  # pylint: disable=unnecessary-lambda
        try:
            self.incoming(sleeps)
            self.assertEqual((sleeps, self.monitor.asked), ([], ["migrate-incoming"]))
        finally:
            self.monitor.close()

    def test_ended(self):
        """The second QEMU has ended before: the error has its last lines. It may be too slow."""
        self.there.alive = lambda: False
        with self.assertRaisesRegex(LabError, "node1: no memory"):
            self.incoming([])
        self.there.alive = lambda: True
        with self.assertRaisesRegex(LabError, "node1: no memory"):
            self.incoming([lambda: None] * 9, seconds=0)


class Back(unittest.TestCase):
    """The first QEMU gets 'cont' only when it has stopped for the second one."""

    def asked(self, *status, seconds=60):
        """The commands for a QEMU with these states, one after the other."""
        with tempfile.TemporaryDirectory() as where:
            monitor = FakeMonitor(where, query_status=[{"status": x} for x in status])
            vm = types.SimpleNamespace(dir=where, name="node1")
            try:
                # pylint: disable-next=protected-access,attribute-defined-outside-init
                self.why = move._back(vm, seconds)
            finally:
                monitor.close()
        return monitor.asked

    def test_goes_on(self):
        """It ends the migration after a while."""
        self.assertEqual(self.asked("finish-migrate", "finish-migrate", "postmigrate"),
                         3 * ["query-status"] + ["cont"])

    def test_runs(self):
        """It continues by itself, or is stopped for another reason."""
        for status in ("running", "paused", "internal-error"):
            self.assertEqual(self.asked(status), ["query-status"])
            self.assertIsNone(self.why)

    def test_late(self):
        """It never ends the migration."""
        self.assertNotIn("cont", self.asked("finish-migrate", seconds=0.1))
        self.assertIn("has not ended the migration in 0.1 s", self.why)

    def test_gone(self):
        """It has ended: the error says that the node does not run."""
        with tempfile.TemporaryDirectory() as where:
            self.assertIn("No such file", move._back(  # pylint: disable=protected-access
                types.SimpleNamespace(dir=where, name="node1")))
            vm = Leaver(where)
            monitor = FakeMonitor(vm.dir, query_migrate=[{"status": "failed"}])
            try:
                with mock.patch.object(move, "_back", lambda _: "it has ended"), \
                        self.assertRaisesRegex(LabError, "failed; now it does not run any more: "
                                               "it has ended"):
                    move.migrate(vm)
            finally:
                Leaver.other.monitor.close()
                monitor.close()
                vm.process.kill()
                vm.process.wait()


class Share(unittest.TestCase):
    """A node whose share cannot be mounted again: the user gets an error."""

    def moved(self, mounted, *, moves=True, share="/somewhere", unmounts=(0, "")):
        """Moves a node; returns why not, or None. mounted: the status of mount."""
        node = types.SimpleNamespace(name="node1", process=True, image=None)
        that = types.SimpleNamespace(
            vms=[node], opt=types.SimpleNamespace(share=share, attach="qemu"), stood=[],
            capture=lambda k, script: unmounts if script.startswith("umount") else
            (mounted, "mount: no such device\n"), _write_state=lambda: None)
        that.stood_still = that.stood.append
        told = {"return_value": {}} if moves else {"side_effect": LabError("it does not migrate")}
        with mock.patch.object(move, "migrate", **told):
            try:
                lab.Lab.migrate(that, 1)
                return None
            except LabError as e:
                return str(e)
            finally:
                self.assertEqual(that.stood, [] if unmounts[0] else [1])

    def test_share(self):
        """With a share, and without."""
        self.assertIsNone(self.moved(0))
        self.assertIsNone(self.moved(32, share=None))
        self.assertRegex(self.moved(0, unmounts=(32, "umount: /share: target is busy.\n")),
                         r"cannot be unmounted: end the programs .* \(umount: .* is busy.\)$")
        self.assertIn("(124)", self.moved(0, unmounts=(124, "")))
        self.assertEqual(self.moved(0, moves=False), "it does not migrate")
        said = "node1 could not mount /share again: mount: no such device"
        self.assertEqual(self.moved(32), said)
        self.assertEqual(self.moved(32, moves=False), f"it does not migrate; {said}")


class Asked(unittest.TestCase):
    """The launcher moves nodes on request."""

    def test_ready(self):
        """It can be asked as soon as the lab counts as up."""
        with tempfile.TemporaryDirectory() as where:
            one = lab.Lab.__new__(lab.Lab)
            one.dir, one.vms = os.path.join(where, "x"), []
            os.mkdir(one.dir)
            asked = []

            def ready():
                with socket.socket(socket.AF_UNIX) as s:
                    s.connect(os.path.join(one.dir, "launcher"))
                    asked.append(True)

            one.wait(ready)
            self.assertEqual(asked, [True])


    def test_answers(self):
        """'ohca-lab migrate' prints the pause, or why the node has not moved; the lab goes on."""
        def moves(node):
            return {1: lambda: {"downtime": 7}, 2: lambda: {}, 3: lambda: one.vms[node]}.get(
                node, lambda: fails(node))()

        def fails(node):
            raise LabError(f"node{node} does not migrate")

        with tempfile.TemporaryDirectory() as where:
            one = types.SimpleNamespace(dir=os.path.join(where, "x"), migrate=moves, vms=[])
            os.mkdir(one.dir)
            with mock.patch.object(move.paths, "runtime", lambda: where), \
                    move.Requests(one) as requests:
                def asks(node):
                    thread = threading.Thread(target=requests.answer, args=(30,))
                    thread.start()
                    try:
                        return move.ask("x", node)
                    except LabError as e:
                        return str(e)
                    finally:
                        thread.join()

                self.assertEqual(asks(1), 7)
                self.assertEqual(asks(2), "KeyError('downtime')")
                self.assertIn("IndexError", asks(3))
                self.assertEqual(asks(4), "node4 does not migrate")
                self.assertIn("invalid literal", asks("node5"))
                requests.answer(0)


class Monitor(unittest.TestCase):
    """A monitor that returns its command."""

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
