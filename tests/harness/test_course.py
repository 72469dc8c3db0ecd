#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""The checks of the course's lessons, without a machine: which lab they want."""
import contextlib
import io
import json
import os
import sys
import tempfile
import unittest
from unittest import mock

import fake

from ohca_lab import cli, course, paths  # pylint: disable=wrong-import-order  # fake has the path


def state(lesson, **other):
    """What a lab says of itself that has the options of a lesson."""
    wanted = dict(zip(lesson.lab, lesson.lab[1:]))
    return {"nodes": int(wanted["-n"]), "fabric": "ohca", "topology": wanted.get("--topology"),
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


if __name__ == "__main__":
    fake.main()
