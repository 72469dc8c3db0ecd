# SPDX-License-Identifier: GPL-2.0-or-later
"""Parses and checks P_Keys, GUIDs and the members of a request's body."""
import re

from ohca_web.shape import HttpError, object_of

MAX_GUIDS = 4096                # in one request
DEFAULT = 0x7FFF                # the default partition, which only the administrator changes
MEMBERSHIPS = ("full", "limited")
# UFM accepts these, too; here the administrator sets MTU, rate and SL of OpenSM's partitions
UNSUPPORTED = ("mtu_limit", "rate_limit", "service_level", "partition_name")

GUID = re.compile(r"(?:0[xX])?([0-9a-fA-F]{16})"
                  r"|([0-9a-fA-F]{4}(?::[0-9a-fA-F]{4}){3})"
                  r"|([0-9a-fA-F]{2}(?::[0-9a-fA-F]{2}){7})")
PKEY = re.compile(r"(?:0[xX])?([0-9a-fA-F]{1,4})")


def shown(value):
    """A client's value for an error text: in ASCII, at most 40 characters."""
    text = ascii(value)
    return text if len(text) <= 40 else text[:37] + "..."


def pkey_of(text):
    """A P_Key without its membership bit: 1 to 0x7fff. Clients cannot change 0x7fff."""
    match = PKEY.fullmatch(text) if isinstance(text, str) else None
    value = int(match[1], 16) & 0x7FFF if match else 0
    if not value:
        raise HttpError(400, f"{shown(text)} is not a P_Key: use a text from 0x1 to 0x7ffe, or the "
                            "same with the membership bit, 0x8001 to 0xfffe")
    return value


def pkey_to_change(text):
    """A P_Key whose members clients may change."""
    value = pkey_of(text)
    if value == DEFAULT:
        raise HttpError(400, "clients cannot change the default partition 0x7fff: the "
                             "administrator does in partitions.conf")
    return value


def guid_of(text):
    """A PortGUID: 16 hexadecimal digits, with or without 0x, or with colons after each 2 or 4."""
    match = GUID.fullmatch(text) if isinstance(text, str) else None
    value = int(next(filter(None, match.groups())).replace(":", ""), 16) if match else 0
    if not value:
        raise HttpError(400, f"{shown(text)} is not a GUID: use a text of 16 hexadecimal digits")
    return value


def guids_of(values):
    """The GUIDs of a list in their order, each once."""
    if not isinstance(values, list) or not values:
        raise HttpError(400, "guids must be a list with at least one GUID")
    if len(values) > MAX_GUIDS:
        raise HttpError(400, f"{len(values)} GUIDs are too many: at most {MAX_GUIDS} in one "
                             "request")
    return list(dict.fromkeys(guid_of(value) for value in values))


def check_names(body, *known):
    """Raises HttpError if a body has a member that is not known."""
    for name in body:
        if name in UNSUPPORTED:
            raise HttpError(400, f"{name} is not supported: the administrator sets it in "
                                "partitions.conf")
        if name not in known:
            raise HttpError(400, f"{shown(name)} is unknown: use {', '.join(known)}")


def flag_of(body, name, default):
    """A boolean member."""
    value = body.get(name, default)
    if value is not default and not isinstance(value, bool):
        raise HttpError(400, f"{name} must be true or false, not {shown(value)}")
    return value


def membership_of(value):
    """Whether a membership is full."""
    if value not in MEMBERSHIPS:
        raise HttpError(400, f"membership must be full or limited, not {shown(value)}")
    return value == "full"


class Members:
    """The members of a P_Key in a request."""

    def __init__(self, body):
        """@body: bytes of a JSON object with pkey and guids, and optionally the others below"""
        found = object_of(body)
        check_names(found, "pkey", "guids", "index0", "ip_over_ib", "membership", "memberships")
        self.pkey = pkey_to_change(found.get("pkey"))
        guids = found.get("guids")
        self.guids = guids_of(guids)
        self.ip_over_ib = flag_of(found, "ip_over_ib", None)
        self.index0 = flag_of(found, "index0", False)
        full = membership_of(found.get("membership", "full"))
        each = found.get("memberships", [])
        if not isinstance(each, list) or each and len(each) != len(guids):
            raise HttpError(400, "memberships must be a list with one membership for each GUID")
        self.full = dict.fromkeys(self.guids, full)
        for guid, value in zip(guids, each):
            self.full[guid_of(guid)] = membership_of(value)
