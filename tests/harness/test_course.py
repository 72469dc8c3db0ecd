#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""The checks of the course's lessons, without a machine: which lab they want, what they read."""
import base64
import contextlib
import io
import json
import os
import struct
import sys
import tempfile
import unittest
from unittest import mock

import fake

from ohca_lab import cli, course, paths  # pylint: disable=wrong-import-order  # fake has the path


def state(lesson, **other):
    """What a lab says of itself that has the options of a lesson."""
    wanted = dict(zip(lesson.lab, lesson.lab[1:]))
    return {"nodes": int(wanted["-n"]), "first": 1, "fabric": "ohca",
            "topology": wanted.get("--topology"),
            "places": [["host1"]] * int(wanted["-n"]), **other}


class WhichLab(unittest.TestCase):
    """A check looks at a lab of its lesson, and refuses all others."""

    def setUp(self):
        where = tempfile.TemporaryDirectory()
        self.addCleanup(where.cleanup)
        self.dir = where.name
        self.looked = []        # the lessons whose checks have looked at the lab
        alike = {n: lesson._replace(check=lambda _, n=n: self.looks(n))
                 for n, lesson in course.LESSONS.items()}
        for target, name, value in ((paths, "runtime", lambda: self.dir),
                                    (course, "LESSONS", alike)):
            patch = mock.patch.object(target, name, value)
            patch.start()
            self.addCleanup(patch.stop)

    def looks(self, number):
        """The check of each lesson: one part, which is done."""
        self.looked.append(number)
        return [(True, "all")]

    def up(self, said, name="default"):
        """A lab is up that says this of itself."""
        os.makedirs(os.path.join(self.dir, name), exist_ok=True)
        with open(os.path.join(self.dir, name, "state"), "w", encoding="ascii") as f:
            json.dump(said, f)

    def check(self, number, *argv):
        """The status of 'ohca-lab course N --check', and what it says."""
        said = io.StringIO()
        with contextlib.redirect_stderr(said), contextlib.redirect_stdout(said), \
                mock.patch.object(sys, "argv",
                                  ["ohca-lab", "course", str(number), "--check", *argv]):
            return cli.main(), said.getvalue()

    def refused(self, number, *remedy, name="default"):
        """The check of this lesson does not look at the lab, and says each of these commands."""
        self.looked.clear()
        status, said = self.check(number, *(["--name", name] if name != "default" else []))
        self.assertEqual(status, 1, said)
        self.assertEqual(self.looked, [])
        for command in remedy:
            self.assertIn(f"'{command}'", said)

    def test_own(self):
        """The lab of the lesson is the right one; one more machine does no harm."""
        for number, lesson in course.LESSONS.items():
            for more in (0, 1):
                with self.subTest(lesson=number, more=more):
                    said = state(lesson)
                    self.up({**said, "nodes": said["nodes"] + more})
                    self.assertEqual(self.check(number)[0], 0)
        self.assertEqual(self.looked, [n for n in course.LESSONS for _ in (0, 1)])

    def test_of_another_lesson(self):
        """The lab of a lesson with another topology is refused: what to do is said."""
        pairs = [(a, b) for a, one in course.LESSONS.items() for b, two in course.LESSONS.items()
                 if state(one)["topology"] != state(two)["topology"]]
        self.assertTrue(pairs)
        for number, other in pairs:
            with self.subTest(lesson=number, lab=other):
                self.up(state(course.LESSONS[other]))
                self.refused(number, "ohca-lab down", f"ohca-lab course {number} --start")

    def test_too_small(self):
        """A lab with a machine less, or on another fabric, is refused."""
        for number, lesson in course.LESSONS.items():
            with self.subTest(lesson=number):
                self.up(state(lesson, nodes=state(lesson)["nodes"] - 1))
                self.refused(number, "ohca-lab down", f"ohca-lab course {number} --start")
                self.up(state(lesson, fabric="rxe"))
                self.refused(number, "ohca-lab down", f"ohca-lab course {number} --start")

    def test_none(self):
        """Without a lab the check says how to get one."""
        self.refused(1, "ohca-lab course 1 --start")

    def test_name(self):
        """The commands that are said are for the lab that was asked for."""
        self.up(state(course.LESSONS[11]), "mine")
        self.refused(1, "ohca-lab down --name mine", "ohca-lab course 1 --start --name mine",
                     name="mine")

    def test_no_fault(self):
        """Lesson 9 looks at a lab that --start has broken, and at no other one."""
        self.up(state(course.LESSONS[9]))
        whole = {n: lesson._replace(check=course.faults) for n, lesson in course.LESSONS.items()}
        with mock.patch.object(course, "LESSONS", whole):
            self.refused(9, "ohca-lab down", "ohca-lab course 9 --start")


class Captures(unittest.TestCase):
    """What lesson 10 finds in a capture."""

    LIDS = {1: 3, 2: 5}
    WRITE, NAK, ACK = (6, b""), (0x11, b"\x60\0\0\1"), (0x11, b"\x1f\0\0\1")

    @staticmethod
    def block(kind, body):
        """A block of a pcapng file."""
        size = struct.pack("<I", len(body) + 12)
        return struct.pack("<I", kind) + size + body + size

    def packet(self, source, target, psn, what, qp=7):
        """A packet as 'ohca-fabric capture' writes it; its CRCs are zeros."""
        opcode, rest = what
        lrh = struct.pack(">BBHHH", 0, 2, self.LIDS[target], 0, self.LIDS[source])
        bth = struct.pack(">BBHII", opcode, 0, 0xffff, qp, psn)
        data = bytes(16) + lrh + bth + rest + bytes(6)
        return self.block(6, struct.pack("<IIIII", 0, 0, 0, len(data), len(data)) + data
                          + bytes(-len(data) % 4))

    def parts(self, data, answer):
        """Which parts of the task are done, with this file and this file of answers."""
        class Lab:
            """A lab whose node 1 has both files."""
            lid = staticmethod(self.LIDS.get)
            sh = staticmethod(lambda *_: (0, base64.b64encode(data).decode()))
            answers = staticmethod(lambda _: {"psn": answer})
        return [bool(done) for done, _ in course.captures(Lab)]

    def test_repair(self):
        """A packet, the NAK with its PSN, and the packet again."""
        sent, nak = self.packet(2, 1, 100, self.WRITE), self.packet(1, 2, 100, self.NAK)
        head = self.block(0x0a0d0d0a, bytes(16))
        self.assertEqual(self.parts(head + sent + nak + sent, "100"), [True] * 5)
        self.assertEqual(self.parts(head + sent + nak + sent, "101"), [True] * 4 + [False])

    def test_not_repaired(self):
        """A NAK and nothing behind it; an acknowledgement; a NAK of the other end."""
        sent, nak = self.packet(2, 1, 100, self.WRITE), self.packet(1, 2, 100, self.NAK)
        self.assertEqual(self.parts(sent + nak, "100"), [True] * 3 + [False] * 2)
        self.assertEqual(self.parts(sent + self.packet(1, 2, 100, self.ACK) + sent, "100"),
                         [True] * 2 + [False] * 3)
        self.assertEqual(self.parts(sent + self.packet(2, 1, 100, self.NAK) + sent, "100"),
                         [True] * 2 + [False] * 3)
        other = self.packet(1, 2, 100, self.WRITE)
        self.assertEqual(self.parts(other + nak + other, "100"), [True, False, True, False, False])

    def test_no_capture(self):
        """No file, another file, MADs alone, a file that is cut in the middle of a block."""
        mad, sent = self.packet(2, 1, 1, self.WRITE, qp=1), self.packet(2, 1, 100, self.WRITE)
        for data in (b"", b"psn=100\n" * 9, mad, sent[:-1], struct.pack("<II", 6, 12)):
            with self.subTest(data=data):
                self.assertEqual(self.parts(data, "100"), [False] * 5)


if __name__ == "__main__":
    fake.main()
