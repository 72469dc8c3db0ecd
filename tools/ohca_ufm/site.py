# SPDX-License-Identifier: GPL-2.0-or-later
"""Access by the prefixes of paths, and their calls.

Pages in browsers are refused: their requests have an Origin, or their own name in Host.
"""
import base64
import binascii

from ohca_web.server import among, is_local_name
from ohca_web.shape import HttpError

from .calls import METRICS

SESSIONS = ("/ufmRestV2", "/ufmRestV3")     # these need a token


class Access:
    """Access: users with passwords at /ufmRest, tokens at the others, both at /metrics.

    Without users and tokens, all requests are allowed.
    """

    def __init__(self, users, tokens):
        self.users, self.tokens = users, tokens
        self.open = not users and not tokens

    def check(self, prefix, header):
        """Raises HttpError if a request is not allowed. @header: the value of Authorization"""
        if self.open:
            return
        kind, _, value = header.strip().partition(" ")
        good = False
        if prefix in SESSIONS or prefix == METRICS and kind.lower() == "bearer":
            # UFM's clients send tokens as Basic; clients of other servers as Bearer
            if kind.lower() in ("basic", "bearer"):
                good = among(value.strip(), self.tokens)
        elif kind.lower() == "basic":
            try:
                user, _, password = base64.b64decode(value, validate=True).decode().partition(":")
            except (binascii.Error, ValueError):
                user = password = ""
            good = among(f"{user}:{password}", [f"{u}:{p}" for u, p in self.users.items()])
        if not good:
            raise HttpError(401, "the user or the password is wrong" if prefix not in SESSIONS
                           else "the token is wrong")

    def check_browser(self, headers):
        """Raises HttpError for a page in a browser; with users or tokens, Host may be a name."""
        if "Origin" in headers:
            raise HttpError(403, "pages in browsers may not send requests")
        if self.open and not all(map(is_local_name, headers.get_all("Host", []))):
            raise HttpError(403, "Host must be an address or localhost, or start ohca-ufm with "
                                 "--users or --tokens")


class Site:
    """UFM's calls, with a check of access."""

    name = "ohca-ufm"
    challenge = {"WWW-Authenticate": 'Basic realm="ohca-ufm"'}

    def __init__(self, calls, access):
        self.calls, self.access = calls, access

    def admit(self, _method, path, headers):
        """Raises HttpError if a request is not allowed, or nothing is at its path."""
        self.access.check_browser(headers)
        self.access.check(target(path)[0], headers.get("Authorization", ""))

    def answer(self, method, path, body):
        """The answer of a call."""
        _, path, query = target(path)
        return self.calls.answer(method, path, query, body)


def target(path):
    """Prefix, path and query of a request."""
    path, _, query = path.partition("?")
    if path == METRICS:
        return METRICS, path[1:], query
    for prefix in ("/ufmRest", *SESSIONS):
        if path.startswith(prefix + "/"):
            return prefix, path[len(prefix):], query
    raise HttpError(404, f"nothing is at this path: the calls are below /ufmRest, "
                         f"{' and '.join(SESSIONS)}, and at {METRICS}")
