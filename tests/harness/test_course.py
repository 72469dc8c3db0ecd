#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""The checks of the course's lessons, without a machine: the lab that they need, what they read."""
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
    """The state of a lab with the options of a lesson."""
    wanted = dict(zip(lesson.lab, lesson.lab[1:]))
    return {"nodes": int(wanted["-n"]), "first": 1, "fabric": "ohca",
            "topology": wanted.get("--topology"),
            "places": [["host1"]] * int(wanted["-n"]), **other}


class WhichLab(unittest.TestCase):
    """A check accepts a lab of its lesson, and refuses all others."""

    def setUp(self):
        where = tempfile.TemporaryDirectory()
        self.addCleanup(where.cleanup)
        self.dir = where.name
        self.looked = []        # the lessons whose checks have run
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
        """Makes a lab with this state."""
        os.makedirs(os.path.join(self.dir, name), exist_ok=True)
        with open(os.path.join(self.dir, name, "state"), "w", encoding="ascii") as f:
            json.dump(said, f)

    def check(self, number, *argv):
        """The status of 'ohca-lab course N --check', and its output."""
        said = io.StringIO()
        with contextlib.redirect_stderr(said), contextlib.redirect_stdout(said), \
                mock.patch.object(sys, "argv",
                                  ["ohca-lab", "course", str(number), "--check", *argv]):
            return cli.main(), said.getvalue()

    def refused(self, number, *remedy, name="default"):
        """The check of this lesson refuses the lab, and prints each of these commands."""
        self.looked.clear()
        status, said = self.check(number, *(["--name", name] if name != "default" else []))
        self.assertEqual(status, 1, said)
        self.assertEqual(self.looked, [])
        for command in remedy:
            self.assertIn(f"'{command}'", said)

    def test_own(self):
        """The lab of the lesson is accepted, also with one more machine."""
        for number, lesson in course.LESSONS.items():
            for more in (0, 1):
                with self.subTest(lesson=number, more=more):
                    said = state(lesson)
                    self.up({**said, "nodes": said["nodes"] + more})
                    self.assertEqual(self.check(number)[0], 0)
        self.assertEqual(self.looked, [n for n in course.LESSONS for _ in (0, 1)])

    def test_of_another_lesson(self):
        """A lab with another topology is refused with an error that says what to do."""
        pairs = [(a, b) for a, one in course.LESSONS.items() for b, two in course.LESSONS.items()
                 if state(one)["topology"] != state(two)["topology"]]
        self.assertTrue(pairs)
        for number, other in pairs:
            with self.subTest(lesson=number, lab=other):
                self.up(state(course.LESSONS[other]))
                self.refused(number, "ohca-lab down", f"ohca-lab course {number} --start")

    def test_too_small(self):
        """A lab with too few machines, or with another --fabric, is refused."""
        for number, lesson in course.LESSONS.items():
            with self.subTest(lesson=number):
                self.up(state(lesson, nodes=state(lesson)["nodes"] - 1))
                self.refused(number, "ohca-lab down", f"ohca-lab course {number} --start")
                self.up(state(lesson, fabric="rxe"))
                self.refused(number, "ohca-lab down", f"ohca-lab course {number} --start")

    def test_none(self):
        """Without a lab, the error says how to start one."""
        self.refused(1, "ohca-lab course 1 --start")

    def test_name(self):
        """The printed commands have the name of the lab."""
        self.up(state(course.LESSONS[11]), "mine")
        self.refused(1, "ohca-lab down --name mine", "ohca-lab course 1 --start --name mine",
                     name="mine")

    def test_no_fault(self):
        """Lesson 9 accepts only a lab in which --start has made the fault."""
        self.up(state(course.LESSONS[9]))
        whole = {n: lesson._replace(check=course.faults) for n, lesson in course.LESSONS.items()}
        with mock.patch.object(course, "LESSONS", whole):
            self.refused(9, "ohca-lab down", "ohca-lab course 9 --start")


class Captures(unittest.TestCase):
    """The check of lesson 10 on captures."""

    LIDS = {1: 3, 2: 5}
    WRITE, NAK, ACK = (6, b""), (0x11, b"\x60\0\0\1"), (0x11, b"\x1f\0\0\1")

    @staticmethod
    def block(kind, body):
        """A block of a pcapng file."""
        size = struct.pack("<I", len(body) + 12)
        return struct.pack("<I", kind) + size + body + size

    def packet(self, source, target, psn, what, qp=7):
        """A packet in the format of 'ohca-fabric capture'; its CRCs are zeros."""
        opcode, rest = what
        lrh = struct.pack(">BBHHH", 0, 2, self.LIDS[target], 0, self.LIDS[source])
        bth = struct.pack(">BBHII", opcode, 0, 0xffff, qp, psn)
        data = bytes(16) + lrh + bth + rest + bytes(6)
        return self.block(6, struct.pack("<IIIII", 0, 0, 0, len(data), len(data)) + data
                          + bytes(-len(data) % 4))

    def parts(self, data, answer):
        """The parts of the task that are done, with this capture and this file of answers."""
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
        """A NAK without the packet behind it; an acknowledgement; a NAK of the other end."""
        sent, nak = self.packet(2, 1, 100, self.WRITE), self.packet(1, 2, 100, self.NAK)
        self.assertEqual(self.parts(sent + nak, "100"), [True] * 3 + [False] * 2)
        self.assertEqual(self.parts(sent + self.packet(1, 2, 100, self.ACK) + sent, "100"),
                         [True] * 2 + [False] * 3)
        self.assertEqual(self.parts(sent + self.packet(2, 1, 100, self.NAK) + sent, "100"),
                         [True] * 2 + [False] * 3)
        other = self.packet(1, 2, 100, self.WRITE)
        self.assertEqual(self.parts(other + nak + other, "100"), [True, False, True, False, False])

    def test_no_capture(self):
        """No file, another file, only MADs, a file that ends in the middle of a block."""
        mad, sent = self.packet(2, 1, 1, self.WRITE, qp=1), self.packet(2, 1, 100, self.WRITE)
        for data in (b"", b"psn=100\n" * 9, mad, sent[:-1], struct.pack("<II", 6, 12)):
            with self.subTest(data=data):
                self.assertEqual(self.parts(data, "100"), [False] * 5)


if __name__ == "__main__":
    fake.main()
