#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""P_Keys, GUIDs and bodies, and the lines for OpenSM."""
import json
import unittest

import rest
from ohca_ufm import words
from ohca_ufm.partitions import Partition, Partitions, administrators
from ohca_web.options import ConfError
from ohca_web.shape import HttpError

G = 0x0011223344556677


def body(**members):
    """The body of a request."""
    return json.dumps({"pkey": "0x1", "guids": ["0011223344556677"], **members}).encode()


class Words(unittest.TestCase):
    """P_Keys, GUIDs and bodies in requests."""

    def refused(self, call, *args):
        """Checks for status 400 and a short sentence in ASCII."""
        with self.assertRaises(HttpError) as e:
            call(*args)
        self.assertEqual(e.exception.status, 400)
        self.assertTrue(e.exception.text.isascii() and len(e.exception.text) < 200)

    def test_pkeys(self):
        """With and without 0x and the membership bit; 0 and the default one are refused."""
        for text, want in (("0x1", 1), ("1", 1), ("0x8001", 1), ("0X0001", 1), ("0x7ffe", 0x7FFE),
                           ("0xFFFE", 0x7FFE), ("7FfE", 0x7FFE), ("0x8A12", 0xA12)):
            self.assertEqual(words.pkey_to_change(text), want)
        for text in ("0x0", "0", "0x8000", "0x7fff", "0xffff", "0x10000", "-1", "0x", "", "x", " 1",
                     "1 ", "0x00001", "1\n", "\u0661", 1, None, True, [], {}, "0x1" * 99):
            self.refused(words.pkey_to_change, text)
        self.assertEqual(words.pkey_of("0xffff"), words.DEFAULT)

    def test_guids(self):
        """All formats of a GUID; each GUID once; 0 is refused."""
        forms = ["0011223344556677", "0x0011223344556677", "0X0011223344556677",
                 "0011:2233:4455:6677", "00:11:22:33:44:55:66:77"]
        self.assertEqual(words.guids_of(forms), [G])
        self.assertEqual(words.guid_of("FFFFFFFFFFFFFFFE"), 2 ** 64 - 2)
        for text in ("0" * 16, "0x" + "0" * 16, "011223344556677", "00112233445566778",
                     "0011:2233:4455:66:77", "0x0011:2233:4455:6677", "001122334455667g", "",
                     "0011223344556677\n", "\u0660" * 16, 5, None, ["0011223344556677"]):
            self.refused(words.guid_of, text)
        for some in ([], None, "0011223344556677", {}, ["x"]):
            self.refused(words.guids_of, some)
        many = [f"{n:016x}" for n in range(1, words.MAX_GUIDS + 2)]
        self.assertEqual(len(words.guids_of(many[:-1])), words.MAX_GUIDS)
        self.refused(words.guids_of, many)

    def test_bodies(self):
        """Missing members have UFM's defaults; those of a wrong type are refused."""
        m = words.Members(body())
        self.assertEqual((m.pkey, m.index0, m.ip_over_ib, m.full), (1, False, None, {G: True}))
        m = words.Members(body(index0=True, ip_over_ib=False, membership="limited"))
        self.assertEqual((m.index0, m.ip_over_ib, m.full), (True, False, {G: False}))
        m = words.Members(body(guids=[f"{G:x}".zfill(16), f"{G + 1:016x}"],
                               memberships=["full", "limited"], membership="limited"))
        self.assertEqual(m.full, {G: True, G + 1: False})
        for wrong in ({"index0": 1}, {"ip_over_ib": "true"}, {"membership": "both"},
                      {"membership": None}, {"membership": []}, {"memberships": ["full", "full"]},
                      {"memberships": "full"}, {"memberships": [3]}, {"mtu_limit": 4}, {"more": 1}):
            self.refused(words.Members, body(**wrong))
        for raw in (b"", b"{", b"[]", b"null", b"\xff", b"[" * 100000, b'{"pkey":"0x1"}'):
            self.refused(words.Members, raw)


class Definitions(unittest.TestCase):
    """Partitions and their lines in partitions.conf."""

    def test_lines(self):
        """Members of each index have a definition; lines are short enough for OpenSM."""
        p = Partitions().with_pkey(1, True, True, {G: True})
        p = p.with_pkey(1, None, False, {G + 1: False})
        self.assertEqual(list(p.lines()), [
            "api_pkey_0x1=0x0001, ipoib : 0x0011223344556678=limited ;",
            "api_pkey_0x1=0x0001, ipoib, indx0 : 0x0011223344556677=full ;"])
        p = Partitions().with_pkey(0x7FFE, False, False, dict.fromkeys(range(1, 100), False))
        self.assertEqual(len(list(p.lines())), 4)
        self.assertLess(max(map(len, p.lines())), 4094)
        self.assertEqual(list(Partitions().with_pkey(2, None).lines()),
                         ["api_pkey_0x2=0x0002, ipoib : NONE ;"])

    def test_index0(self):
        """A port has one P_Key at index 0: the last one that a client has put there."""
        p = Partitions().with_pkey(1, None, True, {G: True, 5: True})
        p = p.with_pkey(2, None, True, {G: True})
        self.assertEqual(p.found[1].members, {G: (True, False), 5: (True, True)})
        self.assertEqual(p.found[2].members, {G: (True, True)})

    def test_bounds(self):
        """Bounds of P_Keys, and of members in all."""
        p = Partitions({pkey: Partition(True) for pkey in range(1, 1024)}).with_pkey(1024, None)
        with self.assertRaises(HttpError):
            p.with_pkey(1025, None)
        p = Partitions().with_pkey(1, None, False, dict.fromkeys(range(1, 65537), True))
        with self.assertRaises(HttpError):
            p.with_pkey(2, None, False, {1: True})

    def test_kept(self):
        """The state file keeps everything, and a wrong one is refused."""
        p = Partitions().with_pkey(1, False, True, {G: True, 5: False}).with_pkey(2, None)
        self.assertEqual(Partitions.from_json(p.to_json()), p)
        for wrong in ({}, [], None, {"version": 2, "pkeys": {}}, {"version": 1},
                      {"version": 1, "pkeys": {"0x0": {}}}, {"version": 1, "pkeys": {"0x1": 3}}):
            with self.assertRaises(ConfError):
                Partitions.from_json(wrong)

    def test_administrators(self):
        """P_Keys by number; a definition without a ';' is refused."""
        self.assertEqual(administrators("Default=0x7fff, ipoib : ALL ;\n# A=1 : ALL ;\n"
                                        "B = 0x8005:\n SELF ; 300 : ALL; C, ipoib : ALL;"),
                         {0x7FFF, 5, 300})
        self.assertEqual(administrators("A=010 : ALL; 0x1F : ALL; B=0107777: ALL; Sto9=9: ALL; "
                                        "C10: ALL;"), {8, 0x1F, 0xFFF, 9})
        self.assertEqual(len(administrators("9" * 9999 + " : ALL;")), 1)
        self.assertEqual(administrators("\n# nothing\n"), set())
        with self.assertRaises(ConfError):
            administrators("A=1 : ALL ;\nB=2 : ALL, # ;\n")


if __name__ == "__main__":
    rest.main()
