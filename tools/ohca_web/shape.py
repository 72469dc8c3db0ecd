# SPDX-License-Identifier: GPL-2.0-or-later
"""What comes in requests and goes in answers."""
import json


class HttpError(Exception):
    """What a client is answered: a status of HTTP and a sentence."""

    def __init__(self, status, text):
        super().__init__(text)
        self.status, self.text = status, text


class Text:
    """An answer that is no JSON value: bytes, what they are, and perhaps headers of their own."""

    def __init__(self, data, kind, headers=None):
        self.data, self.kind, self.headers = data, kind, headers or {}


def object_of(body):
    """A body as a JSON object."""
    try:
        found = json.loads(body.decode("utf-8"))
    except (ValueError, RecursionError):
        raise HttpError(400, "the body is no JSON") from None
    if not isinstance(found, dict):
        raise HttpError(400, "the body is no JSON object")
    return found
