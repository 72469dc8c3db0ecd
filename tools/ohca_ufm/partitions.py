# SPDX-License-Identifier: GPL-2.0-or-later
"""Partitions and their members, as JSON and as lines of OpenSM's partitions.conf."""
import re

from ohca_web.options import ConfError
from ohca_web.shape import HttpError

from .words import DEFAULT, MEMBERSHIPS, guid_of, pkey_of

MAX_PKEYS = 1024
MAX_MEMBERS = 65536             # of all partitions
VERSION = 1
GUIDS_A_LINE = 32               # OpenSM reads lines of up to 4094 bytes
# hexadecimal, octal or decimal, as strtoul() of base 0 reads it
NUMBER = re.compile(r"0[xX]([0-9a-fA-F]+)|(0[0-7]*)|([1-9][0-9]{0,18})")
# what OpenSM gives a partition whose definition says nothing: KiB, Gbit/s, SL
QOS = {"mtu_limit": 2, "rate_limit": 10, "service_level": 0}


class Partition:
    """ip_over_ib, and members: GUID: (full, index0)."""

    def __init__(self, ip_over_ib, members=None):
        self.ip_over_ib = ip_over_ib
        self.members = members or {}

    def shown(self, pkey, guids_data, qos_conf=False):
        """As UFM answers it."""
        found = {"partition": f"api_pkey_{pkey:#x}", "ip_over_ib": self.ip_over_ib}
        if qos_conf:
            found["qos_conf"] = dict(QOS)
        if guids_data:
            found["guids"] = [{"guid": f"{guid:016x}", "membership": MEMBERSHIPS[not full],
                               "index0": index0}
                              for guid, (full, index0) in sorted(self.members.items())]
        return found

    def lines(self, pkey):
        """As OpenSM reads it. A definition has one index, and those of one P_Key are merged."""
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
    """All of them. A change makes a new one of these, so that readers need no lock."""

    def __init__(self, found=None):
        self.found = found or {}        # P_Key: Partition

    def __eq__(self, other):
        return self.to_json() == other.to_json()

    def copied(self):
        """A dictionary with copies of all."""
        return {pkey: Partition(p.ip_over_ib, dict(p.members)) for pkey, p in self.found.items()}

    def shown(self, guids_data, qos_conf):
        """As UFM answers all of them."""
        return {f"{pkey:#x}": self.shown_one(pkey, guids_data, qos_conf)
                for pkey in (DEFAULT, *sorted(self.found))}

    def shown_one(self, pkey, guids_data, qos_conf):
        """As UFM answers one; nothing for one that there is not."""
        if pkey == DEFAULT:             # it has no members by name
            return {**Partition(True).shown(pkey, guids_data, qos_conf), "partition": "management"}
        return self.found[pkey].shown(pkey, guids_data, qos_conf) if pkey in self.found else {}

    def with_pkey(self, pkey, ip_over_ib, index0=False, full=None, replace=False):
        """These with a partition that has the members @full, {GUID: whether it is full}, too.

        @ip_over_ib: None leaves it as it is, and is true for a new one
        @replace: it has no other members
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
            raise HttpError(400, f"there are {MAX_PKEYS} P_Keys, and no more are possible")
        if sum(len(p.members) for p in found.values()) > MAX_MEMBERS:
            raise HttpError(400, f"more than {MAX_MEMBERS} members in all are too many")
        return Partitions(found)

    def without(self, pkey, guids):
        """These with those GUIDs no members of it. What is not there is gone."""
        found = self.copied()
        for guid in guids:
            if pkey in found:
                found[pkey].members.pop(guid, None)
        return Partitions(found)

    def without_pkey(self, pkey):
        """These without one partition."""
        if pkey not in self.found:
            raise HttpError(404, f"there is no P_Key {pkey:#x}")
        return Partitions({key: value for key, value in self.found.items() if key != pkey})

    def to_json(self):
        """For the state file."""
        return {"version": VERSION, "pkeys": {f"{pkey:#x}": partition.shown(pkey, True)
                                              for pkey, partition in sorted(self.found.items())}}

    @classmethod
    def from_json(cls, value):
        """From the state file; ConfError if it is another one."""
        try:
            if value["version"] != VERSION:
                raise ConfError(f"its version is {value['version']}, not {VERSION}")
            return cls({pkey_of(pkey): Partition(
                part["ip_over_ib"],
                {guid_of(m["guid"]): (m["membership"] == "full", m["index0"])
                 for m in part["guids"]}) for pkey, part in value["pkeys"].items()})
        except (KeyError, TypeError, AttributeError, HttpError) as e:
            raise ConfError(f"it is no state of ohca-ufm: {e!r}") from None

    def lines(self):
        """All lines of partitions.conf."""
        for pkey, partition in sorted(self.found.items()):
            yield from partition.lines(pkey)


def administrators(text):
    """The P_Keys that the administrator's text defines; ConfError if it ends in a definition."""
    found = set()
    *definitions, rest = re.sub(r"#.*", "", text).split(";")
    if rest.strip():
        raise ConfError(f"the definition '{rest.strip()[:40]}' has no ';' at its end")
    for definition in definitions:
        name, _, number = definition.partition(":")[0].partition(",")[0].partition("=")
        match = NUMBER.match(number.strip() or name.strip())
        if match:                       # otherwise it has a name alone, and OpenSM chooses a P_Key
            base = 16 if match[1] else 8 if match[2] else 10
            found.add(int(match[match.lastindex], base) & 0x7FFF)
    return found
