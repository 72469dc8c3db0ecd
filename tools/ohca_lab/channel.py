# SPDX-License-Identifier: GPL-2.0-or-later
"""Runs commands in a guest through ohca-agent (tools/guest/ohca-agent.c).

A guest has CHANNELS virtio-serial ports, each a UNIX socket on the host that
accepts one connection at a time. A process that uses a port holds a lock on
the file beside its socket.
"""
import fcntl
import os
import select
import signal
import socket
import struct
import time

CHANNELS = 8
SYNC, EXEC, IN, EOF, SIG, SIZE = range(1, 7)
READY, OUT, ERR, EXIT, TAKEN = range(16, 21)
MAX_FRAME = 32 * 1024   # most bytes in a frame of the agent
MAX_IN = 16 * 1024      # most bytes of input in a frame
MAX_KEPT = 256 << 20    # most bytes of a command's output that are kept in memory
IN_WINDOW = 64 * 1024   # most bytes of input that the command has not received: it may read none


class GuestGone(Exception):
    """The guest or its agent has ended, or the agent has sent a wrong frame."""


class Timeout(Exception):
    """The guest did not answer, or the command did not end, in time."""


def number_in(frame, what):
    """The number in a frame that consists of one number."""
    if len(frame[1]) != 4:
        raise GuestGone(f"its agent sent {what} of {len(frame[1])} bytes, not of 4")
    return struct.unpack("<I", frame[1])[0]


def keeper(parts):
    """A function for Channel.run that appends the output to a list, or raises GuestGone."""
    size = 0

    def out(_is_err, data):
        nonlocal size
        size += len(data)
        if size > MAX_KEPT:
            raise GuestGone(f"a command there printed more than {MAX_KEPT >> 20} MiB")
        parts.append(data)

    return out


class Channel:
    """One connection to a guest's agent; runs one command at a time."""

    def __init__(self, node_dir, deadline, alive=lambda: True):
        """Locks a free port below node_dir and waits until the agent answers.

        deadline is a time.monotonic() value. The wait ends with GuestGone when
        alive() returns False.
        """
        self.buf = bytearray()
        self.alive = alive
        self.lock = self._take(node_dir, deadline)
        try:
            self._sync(deadline)
        except BaseException:
            self.close()
            raise

    def _take(self, node_dir, deadline):
        while True:
            used = 0
            for k in range(CHANNELS):
                path = os.path.join(node_dir, f"cmd{k}")
                try:
                    lock = os.open(path + ".lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
                except FileNotFoundError:
                    break       # a migration replaces the directory
                try:
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
                    self.sock.connect(path)
                    return lock
                except BlockingIOError:
                    used += 1
                    os.close(lock)
                except (FileNotFoundError, ConnectionRefusedError):
                    os.close(lock)
            self._check(deadline, f"{CHANNELS} other commands run on the node, which is the most: "
                                  "wait until one has ended" if used == CHANNELS else "")
            time.sleep(0.02)

    def _check(self, deadline, why=""):
        if not self.alive():
            raise GuestGone("the virtual machine ended")
        if deadline is not None and time.monotonic() > deadline:
            raise Timeout(why)

    def _sync(self, deadline):
        """Discards what the agent sent to an earlier user of the port: all in front of our nonce.

        It sends SYNC repeatedly, because the agent may not have noticed yet that
        the earlier user has left and another one has come. It sends nothing while
        the socket is full: QEMU does not read it before the guest opens the port.
        """
        nonce = b"ohcasync" + os.urandom(8)
        answer = struct.pack("<II", READY, 16) + nonce
        while True:
            if self._has_room():
                self.send(SYNC, nonce)
            self._fill(deadline, wait=1.0)
            if answer in self.buf:
                break
            # bounds the wait and the memory for a guest that sends without end
            del self.buf[: 1 - len(answer)]
            self._check(deadline)
        del self.buf[: self.buf.index(answer) + len(answer)]

    def _has_room(self):
        """Whether a short frame can be sent without waiting."""
        return bool(select.select([], [self.sock], [], 0)[1])

    def _fill(self, deadline, extra=(), wait=None, room=False):
        """Waits for bytes from the guest, for one of the extra descriptors or, with room, until
        a frame can be sent.

        wait is the longest time in seconds; without it, only deadline ends the wait.
        """
        end = wait and time.monotonic() + wait
        while True:
            ready, takes, _ = select.select([self.sock, *extra], [self.sock] if room else [], [],
                                            0.25)
            if self.sock in ready:
                try:
                    data = self.sock.recv(1 << 18)
                except ConnectionResetError:    # it ended before it had read all that we sent
                    data = b""
                if not data:
                    raise GuestGone("the virtual machine ended")
                self.buf += data
            if ready or takes or end and time.monotonic() > end:
                return ready
            self._check(deadline)

    def _frame(self):
        if len(self.buf) < 8:
            return None
        kind, size = struct.unpack_from("<II", self.buf)
        if size > MAX_FRAME:
            raise GuestGone(f"its agent sent a frame of {size} bytes, more than {MAX_FRAME}")
        if len(self.buf) < 8 + size:
            return None
        data = bytes(self.buf[8 : 8 + size])
        del self.buf[: 8 + size]
        return kind, data

    def send(self, kind, data=b""):
        """Sends one frame."""
        try:
            self.sock.sendall(struct.pack("<II", kind, len(data)) + data)
        except OSError as e:
            raise GuestGone(str(e)) from None

    def signal(self, number):
        """Sends a signal to the command's process group."""
        self.send(SIG, struct.pack("<I", number))

    def start(self, argv, env, tty=None):
        """Starts a command; tty is None or (rows, columns)."""
        rows, cols = tty or (0, 0)
        strings = list(argv) + [f"{k}={v}" for k, v in env.items()]
        self.send(EXEC, struct.pack("<IHHI", 1 if tty else 0, rows, cols, len(argv))
                  + b"".join(os.fsencode(s) + b"\0" for s in strings))

    def run(self, argv, env, out, deadline=None, stdin=None, tty=None):
        """Runs a command to its end and returns its status.

        out(is_stderr, bytes) is called with its output. stdin is a descriptor that
        is copied to the command, or None for an empty input.
        """
        self.start(argv, env, tty)
        if stdin is None:
            self.send(EOF)
        sent = 0    # bytes of input that the agent has not reported as received by the command
        while True:
            frame = self._frame()
            if frame is None:
                may = stdin is not None and sent <= IN_WINDOW - MAX_IN
                room = may and self._has_room()
                # also waits for room: the command may need input before it writes anything
                ready = self._fill(deadline, (stdin,) if room else (), room=may and not room)
                if room and stdin in ready:
                    data = os.read(stdin, MAX_IN)
                    sent += len(data)
                    self.send(*((IN, data) if data else (EOF,)))
                    if not data:
                        stdin = None
            elif frame[0] == TAKEN:
                sent = max(0, sent - number_in(frame, "a count"))
            elif frame[0] in (OUT, ERR):
                out(frame[0] == ERR, frame[1])
            elif frame[0] == EXIT:
                return number_in(frame, "a status")
            if deadline is not None and time.monotonic() > deadline:
                # if there is no room: the agent kills the command when the port is closed, too
                if self._has_room():
                    self.signal(signal.SIGKILL)
                raise Timeout()

    def close(self):
        """Unlocks the port; the agent kills a command that still runs."""
        self.sock.close()
        os.close(self.lock)
