# SPDX-License-Identifier: GPL-2.0-or-later
"""Who may come, by which prefix of a path, and what is behind it.

A page in a browser of this host is no client: it has an Origin, or a name in Host that is its own.
"""
import base64
import binascii

from ohca_web.server import among, is_local_name
from ohca_web.shape import HttpError

from .calls import METRICS

SESSIONS = ("/ufmRestV2", "/ufmRestV3")     # with a token


class Access:
    """Who may come: users with passwords by /ufmRest, tokens by the others, either by /metrics.

    Without any: all.
    """

    def __init__(self, users, tokens):
        self.users, self.tokens = users, tokens
        self.open = not users and not tokens

    def check(self, prefix, header):
        """HttpError if they may not. @header: that of Authorization"""
        if self.open:
            return
        kind, _, value = header.strip().partition(" ")
        good = False
        if prefix in SESSIONS or prefix == METRICS and kind.lower() == "bearer":
            # UFM's tokens come as Basic; Bearer is what other servers want
            if kind.lower() in ("basic", "bearer"):
                good = among(value.strip(), self.tokens)
        elif kind.lower() == "basic":
            try:
                user, _, password = base64.b64decode(value, validate=True).decode().partition(":")
            except (binascii.Error, ValueError):
                user = password = ""
            good = among(f"{user}:{password}", [f"{u}:{p}" for u, p in self.users.items()])
        if not good:
            raise HttpError(401, "user and password are wrong" if prefix not in SESSIONS
                           else "the token is wrong")

    def check_browser(self, headers):
        """HttpError if a browser's page asks. With secrets a name in Host does no harm."""
        if "Origin" in headers:
            raise HttpError(403, "pages in browsers may not call")
        if self.open and not all(map(is_local_name, headers.get_all("Host", []))):
            raise HttpError(403, "Host must be an address or localhost, since there are no users")


class Site:
    """UFM's calls, for those who may come."""

    name = "ohca-ufm"
    challenge = {"WWW-Authenticate": 'Basic realm="ohca-ufm"'}

    def __init__(self, calls, access):
        self.calls, self.access = calls, access

    def admit(self, _method, path, headers):
        """HttpError if a request may not come, or there is nothing at its path."""
        self.access.check_browser(headers)
        self.access.check(target(path)[0], headers.get("Authorization", ""))

    def answer(self, method, path, body):
        """What its call answers."""
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
    raise HttpError(404, f"the calls are below /ufmRest, {' and '.join(SESSIONS)}; "
                         f"there is also {METRICS}")
