#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""ohca-lab with an agent that does not answer, sends without end, or sends wrong frames."""
import contextlib
import fcntl
import io
import json
import os
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
import types
import unittest
from unittest import mock

import fake

from ohca_lab import channel, lab  # pylint: disable=wrong-import-order  # as above
from ohca_lab.words import LabError  # pylint: disable=wrong-import-order

BOUND_S = 20        # seconds within which calls must end that should end at once
LONG_S = 3600       # a deadline that no test reaches


def frame(kind, data=b""):
    """One frame of the agent."""
    return struct.pack("<II", kind, len(data)) + data


class Channels(unittest.TestCase):
    """A directory with one port; the test is the agent at its other end."""

    def setUp(self):
        where = tempfile.TemporaryDirectory()
        self.addCleanup(where.cleanup)
        self.dir = where.name
        self.listener = socket.socket(socket.AF_UNIX)
        self.addCleanup(self.listener.close)
        self.listener.bind(os.path.join(self.dir, "cmd0"))
        self.listener.listen(1)

    def bounded(self, work):
        """The exception of work() or None; work() runs in a thread that must end soon."""
        raised = []

        def run():
            try:
                work()
                raised.append(None)
            except Exception as e:  # pylint: disable=broad-exception-caught  # the test looks
                raised.append(e)

        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        thread.join(BOUND_S)
        self.assertTrue(raised, f"it has not ended after {BOUND_S} s")
        return raised[0]

    def plays(self, agent):
        """Starts a thread in which agent(peer, nonce) answers the first SYNC."""
        def serve():
            peer, _ = self.listener.accept()
            with peer:
                head = peer.recv(24, socket.MSG_WAITALL)
                try:
                    agent(peer, head[8:])
                except OSError:     # ohca-lab has closed the connection
                    pass

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        self.addCleanup(thread.join, BOUND_S)

    def runs(self, *frames, deadline=None):
        """Runs a command to which the agent answers so; returns its status and output."""
        done, written = [], []

        def agent(peer, nonce):
            peer.sendall(frame(channel.READY, nonce) + b"".join(frames))
            while peer.recv(1 << 16):
                pass

        def work():
            ch = channel.Channel(self.dir, time.monotonic() + LONG_S)
            try:
                done.append(ch.run(["x"], {}, lambda err, data: written.append((err, data)),
                                   deadline))
            finally:
                ch.close()

        self.plays(agent)
        if raised := self.bounded(work):
            raise raised
        return done[0], written

    def test_answers(self):
        """All frames of an agent arrive, also the longest, and one of an unknown type."""
        long = b"x" * channel.MAX_FRAME
        self.assertEqual(self.runs(frame(99, b"?"), frame(channel.OUT, long),
                                   frame(channel.ERR, b"e"), frame(channel.EXIT, b"\3\0\0\0")),
                         (3, [(False, long), (True, b"e")]))

    def test_rest(self):
        """Bytes that an earlier user left unread are skipped, also from the middle of a frame."""
        def agent(peer, nonce):
            for _ in range(100):
                peer.sendall(b"\x10\0\0\0\x10\0\0\0ohcasync" * 4000)
            answer = frame(channel.READY, nonce)
            peer.sendall(answer[:9])
            peer.sendall(answer[9:] + frame(channel.EXIT, b"\0\0\0\0"))
            while peer.recv(1 << 16):
                pass

        def work():
            ch = channel.Channel(self.dir, time.monotonic() + LONG_S)
            self.addCleanup(ch.close)
            self.assertEqual(ch.run(["x"], {}, None), 0)

        self.plays(agent)
        self.assertIsNone(self.bounded(work))

    def test_moves(self):
        """A node's directory that is replaced is waited for; the deadline ends the wait."""
        gone = os.path.join(self.dir, "gone")
        raised = self.bounded(lambda: channel.Channel(gone, time.monotonic() + 0.1))
        self.assertIsInstance(raised, channel.Timeout)

    def test_used(self):
        """If all ports are in use, the error says so."""
        locks = [open(os.path.join(self.dir, f"cmd{k}.lock"), "wb") for k in
                 range(channel.CHANNELS)]
        for lock in locks:
            self.addCleanup(lock.close)
            fcntl.flock(lock, fcntl.LOCK_EX)
        raised = self.bounded(lambda: channel.Channel(self.dir, time.monotonic() + 0.1))
        self.assertIsInstance(raised, channel.Timeout)
        self.assertIn("8 other commands run on the node", str(raised))
        locks[3].close()
        raised = self.bounded(lambda: channel.Channel(self.dir, time.monotonic() + 0.1))
        self.assertEqual((type(raised), str(raised)), (channel.Timeout, ""))

    def test_full_socket(self):
        """If the socket is full and the agent does not read, the deadline ends the wait."""
        def never_waits(*_args, **_kwargs):
            """Simulates thousands of seconds in which nothing arrives."""

        ends = time.monotonic() + 0.5
        with mock.patch.object(channel.Channel, "_fill", never_waits):
            raised = self.bounded(lambda: channel.Channel(self.dir, ends))
        self.assertIsInstance(raised, channel.Timeout)

    def test_flood(self):
        """A guest that sends without end is waited for until the deadline, in bounded memory."""
        sizes = []

        def agent(peer, _nonce):
            while True:
                peer.sendall(b"x" * 65536)

        def alive():
            sizes.append(self.size())
            return True

        real = channel.Channel._fill  # pylint: disable=protected-access
        held = []
        with mock.patch.object(channel.Channel, "_fill",
                               lambda ch, *a, **k: (held.append(ch), real(ch, *a, **k))[1]):
            self.size = lambda: len(held[-1].buf) if held else 0
            self.plays(agent)
            raised = self.bounded(lambda: channel.Channel(self.dir, time.monotonic() + 1, alive))
        self.assertIsInstance(raised, channel.Timeout)
        self.assertLess(max(sizes), 1 << 20)

    def test_nonsense(self):
        """A wrong frame ends the connection, and the error describes it."""
        for data, why in (
                (struct.pack("<II", channel.OUT, channel.MAX_FRAME + 1), "a frame of 32769 bytes"),
                (struct.pack("<II", channel.OUT, 0xffffffff), "a frame of 4294967295 bytes"),
                (frame(channel.TAKEN, b"\0" * 5), "a count of 5 bytes"),
                (frame(channel.EXIT), "a status of 0 bytes"),
                (frame(channel.EXIT, b"\0" * 5), "a status of 5 bytes")):
            with self.assertRaisesRegex(channel.GuestGone, why):
                self.runs(data)

    def feeds(self, size, takes, deadline=None):
        """A command gets bytes; its agent says that it has them if takes.

        Return: the bytes that have come, how many were on their way at most, what was raised
        """
        come, most = bytearray(), [0]

        def agent(peer, nonce):
            peer.sendall(frame(channel.READY, nonce))
            on_way = 0
            while head := peer.recv(8, socket.MSG_WAITALL):
                kind, length = struct.unpack("<II", head)
                data = peer.recv(length, socket.MSG_WAITALL) if length else b""
                if kind == channel.EOF:
                    peer.sendall(frame(channel.EXIT, b"\0\0\0\0"))
                if kind != channel.IN:
                    continue
                come.extend(data)
                on_way += len(data)
                most[0] = max(most[0], on_way)
                # late, so that the host continues meanwhile
                if takes and on_way > channel.IN_WINDOW - channel.MAX_IN:
                    peer.sendall(frame(channel.TAKEN, struct.pack("<I", channel.MAX_IN)))
                    on_way -= channel.MAX_IN

        def work():
            with tempfile.TemporaryFile() as f:
                f.write(bytes(range(250)) * (size // 250))
                f.seek(0)
                ch = channel.Channel(self.dir, time.monotonic() + LONG_S)
                try:
                    ch.run(["x"], {}, None, deadline, f.fileno())
                finally:
                    ch.close()

        self.plays(agent)
        raised = self.bounded(work)
        return come, most[0], raised

    def test_input(self):
        """All input arrives; at most IN_WINDOW bytes are unacknowledged."""
        come, most, raised = self.feeds(1000000, True)
        self.assertIsNone(raised)
        self.assertEqual(come, bytes(range(250)) * 4000)
        self.assertTrue(channel.IN_WINDOW - channel.MAX_IN < most <= channel.IN_WINDOW, most)

    def test_long_command(self):
        """A command that fills the socket gets its input; its agent sends nothing before."""
        waits, come = threading.Event(), []

        def agent(peer, nonce):
            peer.sendall(frame(channel.READY, nonce))
            # the host has sent the command and waits; there is no room for input
            come.append(waits.wait(BOUND_S))
            while head := peer.recv(8, socket.MSG_WAITALL):
                kind, length = struct.unpack("<II", head)
                data = peer.recv(length, socket.MSG_WAITALL) if length else b""
                if kind == channel.IN:
                    come.append(data)
                if kind == channel.EOF:
                    peer.sendall(frame(channel.EXIT, b"\0\0\0\0"))

        real = channel.Channel._fill  # pylint: disable=protected-access

        def work():
            with tempfile.TemporaryFile() as f:
                f.write(b"input")
                f.seek(0)
                ch = channel.Channel(self.dir, time.monotonic() + LONG_S)

                def fill(*args, **kwargs):
                    if not ch._has_room():  # pylint: disable=protected-access
                        waits.set()
                    return real(*args, **kwargs)

                try:
                    with mock.patch.object(channel.Channel, "_fill", fill):
                        ch.run(["x" * 131000], {}, None, None, f.fileno())
                finally:
                    ch.close()

        self.plays(agent)
        self.assertIsNone(self.bounded(work))
        self.assertEqual(come, [True, b"input"])

    def test_reads_nothing(self):
        """A command that reads nothing gets at most IN_WINDOW bytes, and the deadline ends it."""
        come, _, raised = self.feeds(1000000, False, time.monotonic() + 0.5)
        self.assertIsInstance(raised, channel.Timeout)
        self.assertEqual(len(come), channel.IN_WINDOW)

    def test_closed(self):
        """'exec' without standard streams: the input is empty, and the output is dropped."""
        lab_dir = os.path.join(self.dir, f"ohca-lab-{os.getuid()}", "x")
        os.makedirs(lab_dir)
        os.symlink(self.dir, os.path.join(lab_dir, "n1"))
        with open(os.path.join(lab_dir, "state"), "w", encoding="ascii") as f:
            json.dump({"first": 1, "nodes": 1, "names": ["node1"]}, f)
        kinds = []

        def agent(peer, nonce):
            peer.sendall(frame(channel.READY, nonce))
            while head := peer.recv(8, socket.MSG_WAITALL):
                kind, length = struct.unpack("<II", head)
                peer.recv(length, socket.MSG_WAITALL)
                kinds.append(kind)
                if kind == channel.EOF:
                    peer.sendall(frame(channel.OUT, b"out") + frame(channel.EXIT, b"\3\0\0\0"))

        self.closed_pipe(agent)
        for closed, written in (("<&-", "out"), (">&-", ""), ("<&- >&- 2>&-", "")):
            kinds.clear()
            self.plays(agent)
            done = subprocess.run(
                ["sh", "-c", f'exec "$@" {closed}', "sh", os.path.join(fake.TOP, "tools/ohca-lab"),
                 "exec", "--name", "x", "1", "true"], stdin=subprocess.DEVNULL, text=True,
                capture_output=True, timeout=BOUND_S, check=False,
                env={**os.environ, "XDG_RUNTIME_DIR": self.dir})
            self.assertEqual((done.returncode, done.stdout, done.stderr), (3, written, ""), closed)
            self.assertEqual(kinds, [channel.EXEC, channel.EOF], closed)

    def closed_pipe(self, agent):
        """'exec' whose output nobody reads ends with a message."""
        self.plays(agent)
        reader, writer = os.pipe()
        os.close(reader)
        done = subprocess.run(
            [os.path.join(fake.TOP, "tools/ohca-lab"), "exec", "--name", "x", "1", "true"],
            stdin=subprocess.DEVNULL, text=True, stdout=writer, stderr=subprocess.PIPE,
            timeout=BOUND_S, check=False, env={**os.environ, "XDG_RUNTIME_DIR": self.dir})
        os.close(writer)
        self.assertEqual((done.returncode, done.stderr), (
            1, "ohca-lab: the output cannot be written: Broken pipe\n"))

    def test_deadline(self):
        """A command that writes without end ends at its deadline."""
        with self.assertRaises(channel.Timeout):
            self.runs(frame(channel.OUT, b"y"), deadline=time.monotonic() + 0.5)


class Labs(unittest.TestCase):
    """Labs with nodes that send wrong answers."""

    def setUp(self):
        self.lab = lab.Lab.__new__(lab.Lab)
        self.lab.vms = [types.SimpleNamespace(k=1, name="node1", alive=lambda: True,
                                              last_words=lambda: [])]

    def test_each(self):
        """A node with an unexpected exception does not count as done."""
        def work(_vm):
            raise struct.error("unpack requires a buffer of 4 bytes")

        with self.assertRaisesRegex(LabError, "node1: it did not start: .*4 bytes"):
            self.lab.each(work, "it did not start")

    def test_output(self):
        """If nobody reads the output, the command fails at once, and with the reason."""
        class Prints:
            """A channel whose command prints a line and a part of one."""

            def __init__(self, *_):
                self.close = lambda: None

            def run(self, _argv, _env, out, *_):
                """Runs the command."""
                out(False, b"one\ntwo")
                return 0

        self.lab.ending, self.lab.first = False, 1
        self.lab.opt, self.lab.print_lock = types.SimpleNamespace(nodes=1), threading.Lock()
        self.lab.vms[0].dir = ""
        reader, writer = os.pipe()
        os.close(reader)
        said = io.StringIO()
        with open(writer, "w", encoding="utf-8") as out, mock.patch.object(sys, "stdout", out), \
                contextlib.redirect_stderr(said), mock.patch.object(lab, "Channel", Prints):
            said.buffer = io.BytesIO()
            status = self.lab.run(["x"], 2)
        self.assertEqual((status, said.getvalue()), (
            1, "ohca-lab: node1: the output cannot be written: Broken pipe\n"))
        # nobody reads the messages either, as in 'ohca-lab run ... 2>&1 | head'
        outs = []
        for _ in range(2):
            reader, writer = os.pipe()
            os.close(reader)
            outs.append(self.enterContext(open(writer, "w", encoding="utf-8")))
        with mock.patch.object(sys, "stdout", outs[0]), mock.patch.object(sys, "stderr", outs[1]), \
                mock.patch.object(lab, "Channel", Prints):
            self.assertEqual(self.lab.run(["x"], 2), 1)

    def test_long_line(self):
        """Output without the ends of lines is printed in parts, not kept."""
        self.lab.print_lock, printed = threading.Lock(), []
        with mock.patch.object(lab, "write", lambda _, data: printed.append(data)):
            out = self.lab.printer(self.lab.vms[0])
            for _ in range(5 << 5):
                out(False, b"x" * channel.MAX_FRAME)
            self.assertGreater(sum(map(len, printed)), 3 << 20)
            self.assertLess(max(map(len, printed)), 2 << 20)
            out(False, None)
        whole = b"".join(printed)
        self.assertEqual(whole.count(b"x"), (5 << 5) * channel.MAX_FRAME)
        self.assertTrue(all(x.startswith(b"node1: x") for x in whole.splitlines()))

    def test_much(self):
        """A node that prints without end does not fill the memory of the host."""
        parts = []
        keep = channel.keeper(parts)
        with mock.patch.object(channel, "MAX_KEPT", 1 << 20):
            keep(False, b"x" * (1 << 20))
            with self.assertRaisesRegex(channel.GuestGone, "printed more than 1 MiB"):
                keep(True, b"x")
        self.assertEqual(len(parts), 1)
        self.lab.opt, self.lab.first = types.SimpleNamespace(nodes=1), 1
        self.lab.vms[0].dir = ""
        with mock.patch.object(lab, "Channel") as made, \
                mock.patch.object(channel, "MAX_KEPT", 4):
            made().run = lambda _argv, _env, out, _: [out(False, b"xxx") for _ in range(9)]
            self.assertEqual(self.lab.capture(1, "x"), (
                255, "xxxa command there printed more than 0 MiB"))

    def test_date(self):
        """A date that is no number is an error."""
        self.lab.clocks, self.lab.slow = {1: lab.clock.Clock()}, 1
        self.lab.capture = lambda *_: (0, "tomorrow\n")
        with self.assertRaisesRegex(LabError, "node1: its 'date .*'tomorrow'"):
            self.lab.read_clocks()


if __name__ == "__main__":
    fake.main()
