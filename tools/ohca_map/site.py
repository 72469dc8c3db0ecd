# SPDX-License-Identifier: GPL-2.0-or-later
"""The page, and the requests of the control socket that it may send.

These requests can make faults, so each one must have the token, which is in the printed URL only.
It is in the URL's fragment, which browsers do not send; the page puts it into a header. A page of
another site does not have the token. A site whose name resolves to 127.0.0.1 is detected by Host.
"""
import base64
import hashlib
import os
import re

from ohca_web.server import among, is_local_name
from ohca_web.shape import HttpError, Text, object_of

PAGE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "map.html")
READS = ("status", "topology", "counters", "changes", "lft", "trace")
FAULTS = ("link", "node", "swap", "loss", "ber", "corrupt", "delay", "stall", "resume", "credits",
          "drop", "refuse", "guid", "preset", "script")
ROOM = 2 << 20          # bytes of replies in one answer; the page asks for the rest


def page(reads_only):
    """The page as an answer. Its policy allows only its own script, and no frame around it."""
    with open(PAGE, encoding="utf-8") as f:
        text = f.read()
    if reads_only:
        text = text.replace("<body>", "<body data-read-only>", 1)
    allowed = [f"{kind}-src 'sha256-{digest(re.search(pattern, text, re.DOTALL)[1])}'"
               for kind, pattern in (("script", "<script>(.*)</script>"),
                                     ("style", "<style>(.*)</style>"))]
    return Text(text.encode(), "text/html; charset=utf-8", {
        "Content-Security-Policy": "; ".join((
            "default-src 'none'", *allowed, "connect-src 'self'", "img-src data:",
            "base-uri 'none'", "form-action 'none'", "frame-ancestors 'none'")),
        "Referrer-Policy": "no-referrer", "X-Content-Type-Options": "nosniff",
        "Cache-Control": "no-store"})


def digest(text):
    """The hash of a script or style, as in a Content-Security-Policy."""
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


class Site:
    """A page and its requests. @control: the fabric; @reads_only: no faults"""

    name = "ohca-map"
    challenge = {"WWW-Authenticate": "Bearer"}

    def __init__(self, control, token, reads_only=False, tls=False):
        self.control, self.token, self.tls = control, token, tls
        self.commands = READS if reads_only else READS + FAULTS
        self.reads_only = reads_only
        self.page = page(reads_only)

    def admit(self, method, path, headers):
        """Raises HttpError if a request is not allowed, or nothing is at its path."""
        hosts = headers.get_all("Host", [])
        if len(hosts) != 1 or not (self.tls or is_local_name(hosts[0])):
            raise HttpError(403, "Host must be an address or localhost")
        origin = f"{'https' if self.tls else 'http'}://{hosts[0]}"
        if any(o != origin for o in headers.get_all("Origin", [])):
            raise HttpError(403, "pages of other sites may not send requests")
        want = {"/": "GET", "/ask": "POST"}.get(path)
        if not want:
            raise HttpError(404, "nothing is at this path: use / or /ask")
        if method != want:
            raise HttpError(405, f"the method of {path} is {want}")
        kind, _, token = headers.get("Authorization", "").strip().partition(" ")
        if path == "/ask" and not (kind.lower() == "bearer" and among(token, [self.token])):
            raise HttpError(401, "the token is wrong: open the URL that ohca-map has printed")

    def answer(self, method, _path, body):
        """The page, or the fabric's replies to a request, one in each line."""
        if method == "GET":
            return self.page
        request = object_of(body)
        command = request.get("command")
        if command not in self.commands:
            if self.reads_only and command in FAULTS:
                raise HttpError(403, "ohca-map was started with --read-only")
            raise HttpError(400, f"command must be one of {', '.join(self.commands)}")
        first = request.get("first", 0)
        if not isinstance(first, int) or isinstance(first, bool) or first < 0:
            raise HttpError(400, "first must be a number from 0")
        replies = self.control.replies(request, ROOM)
        # for a wrong script, the reply has "errors" with their lines: pass it on
        if "error" in replies[0][0] and "errors" not in replies[0][0]:
            raise HttpError(400, str(replies[0][0]["error"]))
        return Text(b"".join(line for _, line in replies), "application/x-ndjson")
