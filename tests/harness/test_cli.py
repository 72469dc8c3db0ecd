#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""The options of ohca-lab, without a lab."""
import contextlib
import fcntl
import io
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import termios
import time
import unittest
from unittest import mock

import fake

from ohca_lab import cli, lab, paths  # pylint: disable=wrong-import-order  # fake has the path
from ohca_lab.words import LabError  # pylint: disable=wrong-import-order

# 'ohca-lab up' with a lab whose nodes never boot
UP = """
import os, sys, time
sys.path.insert(0, sys.argv[1])
from ohca_lab import cli
where = sys.argv[2]

class Lab:
    lock = None

    def __init__(self, *_):
        pass

    def start(self):
        if "--no-sm" in sys.argv:
            raise cli.Timeout()
        if "--no-driver" in sys.argv:
            return
        with open(f"{where}/new", "w") as f:
            f.write(str(os.getpid()))
        os.rename(f"{where}/new", f"{where}/starts")
        time.sleep(60)

    def wait(self, ready):
        before = os.getsid(0) == os.getsid(os.getppid())
        ready()
        with open(f"{where}/session", "w") as f:
            f.write(f"{before} {os.getsid(0) == os.getpid()}")

    def teardown(self):
        time.sleep(0.2)
        os.mkdir(f"{where}/ended")

cli.Lab = Lab
sys.argv[1:] = ["up", "-n", "1", "--memory", "1", *sys.argv[3:]]
sys.exit(cli.main())
"""


class Systems(unittest.TestCase):
    """The system of each node."""

    def guests(self, *argv):
        """The guests of these options."""
        return list(cli.parser().parse_args(["run", *argv, "--", "true"]).guest)

    def test_arch(self):
        """An architecture selects Debian 13 of that architecture."""
        self.assertEqual(self.guests(), ["debian13"])
        self.assertEqual(self.guests("--arch", "amd64"), ["debian13"])
        self.assertEqual(self.guests("--arch", "s390x,amd64,arm64"), ["s390x", "debian13", "arm64"])
        self.assertEqual(self.guests("--guest", "debian12,arm64"), ["debian12", "arm64"])

    def test_refused(self):
        """Names that no guest has, and two options for the same thing."""
        for argv, why in ((["--arch", "arm64,i386"], "'i386' is no guest's architecture"),
                          (["--arch", "debian13"], "'debian13' is no guest's architecture"),
                          (["--guest", "amd64"], "'amd64' is no guest"),
                          (["--guest", "debian12", "--arch", "arm64"], "not allowed with")):
            said = io.StringIO()
            with contextlib.redirect_stderr(said), self.assertRaises(SystemExit):
                self.guests(*argv)
            self.assertIn(why, said.getvalue())

    def test_libvirt(self):
        """A domain has an amd64 machine, in which another guest cannot boot."""
        said = io.StringIO()
        with contextlib.redirect_stderr(said), \
                mock.patch.object(sys, "argv", ["ohca-lab", "libvirt", "--arch", "amd64,s390x"]):
            self.assertEqual(cli.main(), 2)
        self.assertIn("only guests of amd64", said.getvalue())


class Up(unittest.TestCase):
    """A lab that stays."""

    def ends_by(self, number):
        """Sends a signal to 'up' while the lab starts; the lab has ended when 'up' ends."""
        with tempfile.TemporaryDirectory() as where, subprocess.Popen(
                [sys.executable, "-c", UP, os.path.join(fake.TOP, "tools"), where],
                stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as up:
            starts, end = os.path.join(where, "starts"), time.monotonic() + 30
            while not os.path.exists(starts) and time.monotonic() < end:
                time.sleep(0.01)
            with open(starts, encoding="ascii") as f:
                child = int(f.read())
            up.send_signal(number)
            try:
                self.assertEqual(up.wait(30), 128 + number)
                self.assertTrue(os.path.exists(os.path.join(where, "ended")))
            finally:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(child, signal.SIGKILL)

    def test_signal(self):
        """A signal while the lab starts ends the lab."""
        for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
            with self.subTest(number=number):
                self.ends_by(number)

    @staticmethod
    def ups(where, option):
        """Runs 'up' to its end."""
        return subprocess.run(
            [sys.executable, "-c", UP, os.path.join(fake.TOP, "tools"), where, option],
            stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, timeout=30, check=False)

    def test_late(self):
        """A node that does not answer while the lab starts is an error, not a traceback."""
        with tempfile.TemporaryDirectory() as where:
            done = self.ups(where, "--no-sm")
            self.assertEqual((done.returncode, done.stderr), (1, f"ohca-lab: {cli.LATE}\n"))
            self.assertTrue(os.path.exists(os.path.join(where, "ended")))

    def test_session(self):
        """While the lab starts, sudo can ask on the terminal; then the lab has left it."""
        with tempfile.TemporaryDirectory() as where:
            done = self.ups(where, "--no-driver")
            self.assertEqual(done.returncode, 0)
            self.assertIn("lab default is up", done.stderr)
            ended, end = os.path.join(where, "ended"), time.monotonic() + 30
            while not os.path.exists(ended) and time.monotonic() < end:
                time.sleep(0.01)
            with open(os.path.join(where, "session"), encoding="ascii") as f:
                self.assertEqual(f.read(), "True True")

    def test_log(self):
        """A directory of --log that cannot be made is an error before anything starts."""
        with tempfile.NamedTemporaryFile() as f, mock.patch.object(os.path, "exists",
                                                                   lambda _: True):
            for argv, why in (["--log", f"{f.name}/x"], "cannot be made: Not a directory"), (
                    ["--log", f.name], "cannot be made: File exists"):
                opt = cli.complete(cli.parser().parse_args(
                    ["up", "-n", "1", "--accel", "tcg", "--fabric", "none", *argv]))
                with self.assertRaisesRegex(LabError, why):
                    lab.Lab("x", opt)


class Labs(unittest.TestCase):
    """Commands for labs that are up, were killed, or cannot exist."""

    def setUp(self):
        self.base = self.enterContext(tempfile.TemporaryDirectory())
        self.enterContext(mock.patch.object(paths, "runtime", lambda: self.base))

    def makes(self, name, **state):
        """Makes the directory of a lab; returns its lock, which is open and not locked."""
        os.mkdir(os.path.join(self.base, name))
        if state:
            with open(os.path.join(self.base, name, "state"), "w", encoding="ascii") as f:
                json.dump(state, f)
        lock = open(os.path.join(self.base, name, "lock"), "wb")
        self.addCleanup(lock.close)
        return lock

    def says(self, *argv):
        """The status of a command, and its messages."""
        said = io.StringIO()
        with contextlib.redirect_stderr(said), mock.patch.object(sys, "argv", ["ohca-lab", *argv]):
            return cli.main(), said.getvalue()

    def test_killed(self):
        """'down' removes what a killed launcher left; another process may have its number now."""
        with subprocess.Popen(["sleep", "60"]) as other:
            try:
                self.makes("x", pid=other.pid)
                self.assertEqual(self.says("down", "--name", "x"), (0, ""))
                self.assertIsNone(other.poll())
            finally:
                other.kill()
        self.assertEqual(lab.labs(), [])

    def test_next(self):
        """'down' does not wait for the next lab with the same name."""
        first, asked = self.makes("x", pid=1), []
        fcntl.flock(first, fcntl.LOCK_EX)

        def kill(pid, number):
            asked.append((pid, number))
            shutil.rmtree(os.path.join(self.base, "x"))
            fcntl.flock(self.makes("x", pid=2), fcntl.LOCK_EX)

        with mock.patch.object(cli.os, "kill", kill), mock.patch.object(cli.time, "sleep"):
            self.assertEqual(self.says("down", "--name", "x"), (0, ""))
        self.assertEqual(asked, [(1, signal.SIGTERM)])

    def test_starting(self):
        """A lab that has started no node yet."""
        fcntl.flock(self.makes("x"), fcntl.LOCK_EX)
        for command in (["down"], ["exec", "1", "true"]):
            status, said = self.says(command[0], "--name", "x", *command[1:])
            self.assertEqual(status, 1)
            self.assertIn("lab x is starting: try again", said)
        self.assertEqual(self.says("down", "--name", "y"), (
            1, "ohca-lab: no lab named y is up\n"))

    def test_console(self):
        """The console of a node whose machine has ended, and 'migrate' in a lab of 'run'."""
        self.makes("x", pid=1, first=1, nodes=1, names=["node1"], vms=[1])
        status, said = self.says("console", "--name", "x", "1")
        self.assertEqual(status, 1)
        self.assertIn("the console of node1 does not answer: No such file", said)
        self.makes("y", pid=1, first=1, nodes=1, names=["node1"], vms=[1])
        status, said = self.says("migrate", "--name", "y", "1")
        self.assertEqual(status, 1)
        self.assertIn("lab y moves no nodes: 'run' has started it", said)

    def test_terminal(self):
        """A signal ends 'console', and the terminal has its settings again."""
        base = os.path.join(self.base, f"ohca-lab-{os.getuid()}")
        os.mkdir(base)
        with mock.patch.object(self, "base", base):
            self.makes("x", pid=1, first=1, nodes=1, names=["node1"], vms=[1])
        os.mkdir(os.path.join(base, "x", "n1"))
        master, slave = os.openpty()
        self.addCleanup(os.close, master)
        self.addCleanup(os.close, slave)
        before = termios.tcgetattr(slave)
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(os.path.join(base, "x", "n1", "console"))
            listener.listen()
            with subprocess.Popen(
                    [os.path.join(fake.TOP, "tools", "ohca-lab"), "console", "--name", "x", "1"],
                    stdin=slave, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                    env={**os.environ, "XDG_RUNTIME_DIR": self.base}) as console:
                end = time.monotonic() + 30
                while termios.tcgetattr(slave) == before and time.monotonic() < end:
                    time.sleep(0.01)
                self.assertNotEqual(termios.tcgetattr(slave), before)
                console.terminate()
                self.assertEqual(console.wait(30), 128 + signal.SIGTERM)
        self.assertEqual(termios.tcgetattr(slave), before)

    def test_names(self):
        """Names that no lab can have."""
        for name in ("", ".", "..", ".x", "a/b", "a,b", "x" * 32, "\u00e9"):
            with self.subTest(name=name):
                status, said = self.says("down", "--name", name)
                self.assertEqual(status, 2)
                self.assertIn("give at most 31 letters", said)


if __name__ == "__main__":
    fake.main()
