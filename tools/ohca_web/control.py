# SPDX-License-Identifier: GPL-2.0-or-later
"""A client of the fabric's control socket (Documentation/control.rst)."""
import json
import socket
import subprocess
import threading
import time

from .shape import HttpError

PATIENCE = 10           # seconds for a whole answer
MAX_ANSWER = 256 << 20  # as a topology file may have


class Control:
    """A fabric behind a control socket; path may be None."""

    def __init__(self, path):
        self.path = path
        self.one = threading.Lock()     # the fabric has 16 clients, of which we are one

    def ask(self, what):
        """What a function of the moment until which it may take returns."""
        if not self.path:
            raise HttpError(503, "there is no fabric: start this with --control")
        if not self.one.acquire(timeout=PATIENCE):
            raise HttpError(503, "the fabric answers too many others")
        try:
            return what(time.monotonic() + PATIENCE)
        except RecursionError:
            raise HttpError(400, "the request is too deep") from None
        except (OSError, ValueError, KeyError, TypeError, subprocess.SubprocessError) as e:
            raise HttpError(503, f"the fabric does not answer: {e}") from None
        finally:
            self.one.release()

    def replies(self, request, room=MAX_ANSWER):
        """The replies to a request and its further parts, as far as replies_by() has them."""
        return self.ask(lambda end: self.replies_by(request, end, room))

    def replies_by(self, request, end, room=MAX_ANSWER):
        """The same within ask(), each with its line. @room: no further part is asked for from so
        many bytes on
        """
        with socket.socket(socket.AF_UNIX) as s:
            return list(self.parts(s, request, room, end))

    def parts(self, s, request, room, end):
        """One after the other."""
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
                    raise ValueError("it has ended in the middle of an answer")
                answer += some
            found = json.loads(answer)
            yield found, bytes(answer)
            after = found.get("next")
            if after is not None and after <= first:
                raise ValueError("it has the same answer again")
            first = after
