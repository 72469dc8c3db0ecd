# SPDX-License-Identifier: GPL-2.0-or-later
"""Partitions and their members, as JSON and as lines of OpenSM's partitions.conf."""
import re

from ohca_web.options import ConfError
from ohca_web.shape import HttpError

from .words import DEFAULT, MEMBERSHIPS, guid_of, pkey_of

MAX_PKEYS = 1024
MAX_MEMBERS = 65536             # in all partitions together
VERSION = 1
GUIDS_A_LINE = 32               # OpenSM reads lines of up to 4094 bytes
# hexadecimal, octal or decimal, as strtoul() with base 0 reads it
NUMBER = re.compile(r"0[xX]([0-9a-fA-F]+)|(0[0-7]*)|([1-9][0-9]{0,18})")
# OpenSM's defaults for a partition: KiB, Gbit/s, SL
QOS = {"mtu_limit": 2, "rate_limit": 10, "service_level": 0}


class Partition:
    """A partition: ip_over_ib, and members {GUID: (full, index0)}."""

    def __init__(self, ip_over_ib, members=None):
        self.ip_over_ib = ip_over_ib
        self.members = members or {}

    def shown(self, pkey, guids_data, qos_conf=False):
        """The partition in UFM's format."""
        found = {"partition": f"api_pkey_{pkey:#x}", "ip_over_ib": self.ip_over_ib}
        if qos_conf:
            found["qos_conf"] = dict(QOS)
        if guids_data:
            found["guids"] = [{"guid": f"{guid:016x}", "membership": MEMBERSHIPS[not full],
                               "index0": index0}
                              for guid, (full, index0) in sorted(self.members.items())]
        return found

    def lines(self, pkey):
        """Yields its definitions for OpenSM: one for each index; OpenSM merges those of a P_Key."""
        for index0 in False, True:
            guids = [f"{guid:#018x}={MEMBERSHIPS[not full]}"
                     for guid, (full, at0) in sorted(self.members.items()) if at0 == index0]
            if not guids and (index0 or self.members):
                continue
            for first in range(0, len(guids) or 1, GUIDS_A_LINE):
                some = ", ".join(guids[first:first + GUIDS_A_LINE]) or "NONE"
                yield (f"api_pkey_{pkey:#x}={pkey:#06x}{', ipoib' if self.ip_over_ib else ''}"
                       f"{', indx0' if index0 else ''} : {some} ;")


class Partitions:
    """All partitions. A change makes a new object, so that readers need no lock."""

    def __init__(self, found=None):
        self.found = found or {}        # P_Key: Partition

    def __eq__(self, other):
        return self.to_json() == other.to_json()

    def copied(self):
        """{P_Key: a copy of its partition}"""
        return {pkey: Partition(p.ip_over_ib, dict(p.members)) for pkey, p in self.found.items()}

    def shown(self, guids_data, qos_conf):
        """All partitions in UFM's format."""
        return {f"{pkey:#x}": self.shown_one(pkey, guids_data, qos_conf)
                for pkey in (DEFAULT, *sorted(self.found))}

    def shown_one(self, pkey, guids_data, qos_conf):
        """One partition in UFM's format, or {} if there is none."""
        if pkey == DEFAULT:             # all ports are members; it lists none
            return {**Partition(True).shown(pkey, guids_data, qos_conf), "partition": "management"}
        return self.found[pkey].shown(pkey, guids_data, qos_conf) if pkey in self.found else {}

    def with_pkey(self, pkey, ip_over_ib, index0=False, full=None, replace=False):
        """Partitions with these members added to one; @full: {GUID: whether it is a full member}

        @ip_over_ib: None keeps the value, which is true for a new partition
        @replace: the partition gets no other members
        """
        found = self.copied()
        partition = found.setdefault(pkey, Partition(True))
        if ip_over_ib is not None:
            partition.ip_over_ib = ip_over_ib
        if replace:
            partition.members = {}
        for guid, is_full in (full or {}).items():
            partition.members[guid] = (is_full, index0)
        if index0 and full:
            for other in found.values():
                if other is not partition:
                    other.members = {guid: (is_full, at0 and guid not in full)
                                     for guid, (is_full, at0) in other.members.items()}
        if len(found) > MAX_PKEYS:
            raise HttpError(400, f"there are already {MAX_PKEYS} P_Keys, the most possible: "
                                 "delete one first")
        if sum(len(p.members) for p in found.values()) > MAX_MEMBERS:
            raise HttpError(400, f"all P_Keys together can have {MAX_MEMBERS} members")
        return Partitions(found)

    def without(self, pkey, guids):
        """Partitions with GUIDs removed from one; GUIDs that are no members are ignored."""
        found = self.copied()
        for guid in guids:
            if pkey in found:
                found[pkey].members.pop(guid, None)
        return Partitions(found)

    def without_pkey(self, pkey):
        """Partitions without one of them; HttpError if there is no such P_Key."""
        if pkey not in self.found:
            raise HttpError(404, f"there is no P_Key {pkey:#x}")
        return Partitions({key: value for key, value in self.found.items() if key != pkey})

    def to_json(self):
        """All partitions as an object for the state file."""
        return {"version": VERSION, "pkeys": {f"{pkey:#x}": partition.shown(pkey, True)
                                              for pkey, partition in sorted(self.found.items())}}

    @classmethod
    def from_json(cls, value):
        """Partitions of the state file; ConfError if the file is wrong."""
        try:
            if value["version"] != VERSION:
                raise ConfError(f"its version is {value['version']}, not {VERSION}")
            return cls({pkey_of(pkey): Partition(
                part["ip_over_ib"],
                {guid_of(m["guid"]): (m["membership"] == "full", m["index0"])
                 for m in part["guids"]}) for pkey, part in value["pkeys"].items()})
        except (KeyError, TypeError, AttributeError, HttpError) as e:
            raise ConfError(f"it is not a state file of ohca-ufm: {e!r}") from None

    def lines(self):
        """Yields all lines for partitions.conf."""
        for pkey, partition in sorted(self.found.items()):
            yield from partition.lines(pkey)


def administrators(text):
    """The P_Keys in the administrator's text; ConfError if its last definition has no ';'."""
    found = set()
    *definitions, rest = re.sub(r"#.*", "", text).split(";")
    if rest.strip():
        raise ConfError(f"the definition '{rest.strip()[:40]}' has no ';' at its end")
    for definition in definitions:
        name, _, number = definition.partition(":")[0].partition(",")[0].partition("=")
        match = NUMBER.match(number.strip() or name.strip())
        if match:                       # without a number, OpenSM chooses the P_Key
            base = 16 if match[1] else 8 if match[2] else 10
            found.add(int(match[match.lastindex], base) & 0x7FFF)
    return found
