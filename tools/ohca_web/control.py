# SPDX-License-Identifier: GPL-2.0-or-later
"""A client of the fabric's control socket (Documentation/control.rst)."""
import json
import socket
import subprocess
import threading
import time

from .shape import HttpError

PATIENCE = 10           # seconds for a whole answer
MAX_ANSWER = 256 << 20  # the limit for a topology file, too


class Control:
    """A fabric behind a control socket; path may be None."""

    def __init__(self, path):
        self.path = path
        self.one = threading.Lock()     # the fabric accepts 16 clients; this process is one

    def ask(self, what):
        """Calls what(deadline), one call at a time, and returns its result.

        The deadline is a time.monotonic() value. Errors become HttpErrors.
        """
        if not self.path:
            raise HttpError(503, "there is no fabric: start the server with --control")
        if not self.one.acquire(timeout=PATIENCE):
            raise HttpError(503, "too many other requests wait for the fabric: try again")
        try:
            return what(time.monotonic() + PATIENCE)
        except RecursionError:
            raise HttpError(400, "the request is nested too deep") from None
        except (OSError, ValueError, KeyError, TypeError, subprocess.SubprocessError) as e:
            raise HttpError(503, f"the fabric does not answer: {e}") from None
        finally:
            self.one.release()

    def replies(self, request, room=MAX_ANSWER):
        """The replies to a request and to its further parts, as replies_by() returns them."""
        return self.ask(lambda end: self.replies_by(request, end, room))

    def replies_by(self, request, end, room=MAX_ANSWER):
        """[(reply, its line as bytes)] by a deadline, for functions that ask() calls.

        @room: after this many bytes, it asks for no further part
        """
        with socket.socket(socket.AF_UNIX) as s:
            return list(self.parts(s, request, room, end))

    def parts(self, s, request, room, end):
        """Yields (reply, its line as bytes), one part after the other."""
        first, size = request.get("first", 0), 0
        s.settimeout(max(end - time.monotonic(), 0.001))
        s.connect(self.path)
        while first is not None and size < room:
            part = {**request, "first": first} if first else request
            s.sendall(json.dumps(part).encode() + b"\n")
            answer = bytearray()
            while not answer.endswith(b"\n"):
                s.settimeout(max(end - time.monotonic(), 0.001))
                some = s.recv(1 << 18)
                size += len(some)
                if not some or size > MAX_ANSWER:
                    raise ValueError("it has closed the connection, or its answer is too long")
                answer += some
            found = json.loads(answer)
            yield found, bytes(answer)
            after = found.get("next")
            if after is not None and after <= first:
                raise ValueError("its answer continues with a part that was already sent")
            first = after
