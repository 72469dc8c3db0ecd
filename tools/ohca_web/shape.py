# SPDX-License-Identifier: GPL-2.0-or-later
"""The contents of requests and answers."""
import json


class HttpError(Exception):
    """An error as an answer to a client: an HTTP status and a sentence."""

    def __init__(self, status, text):
        super().__init__(text)
        self.status, self.text = status, text


class Text:
    """An answer that is no JSON value: bytes, their media type, and further headers."""

    def __init__(self, data, kind, headers=None):
        self.data, self.kind, self.headers = data, kind, headers or {}


def object_of(body):
    """A body as a JSON object."""
    try:
        found = json.loads(body.decode("utf-8"))
    except (ValueError, RecursionError):
        raise HttpError(400, "the body is not JSON") from None
    if not isinstance(found, dict):
        raise HttpError(400, "the body is not a JSON object")
    return found
