#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""What makes a part of the build stale: tools/watch and make, on a part that is made up."""
import os
import subprocess
import tempfile
import unittest

import fake

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
MAKEFILE = """
out: list
	@cat src/* >out; [ ! -e during ] || sh ./during; touch out
list: FORCE
	@{watch} list src
FORCE:
"""


class Stale(unittest.TestCase):
    """A part that joins the files of a directory."""

    def setUp(self):
        where = tempfile.TemporaryDirectory()
        self.addCleanup(where.cleanup)
        self.dir = where.name
        self.put("Makefile", MAKEFILE.format(watch=os.path.join(TOP, "tools", "watch")))
        os.mkdir(os.path.join(self.dir, "src"))
        self.put("src/a", "a")
        self.put("src/b b", "b")
        self.assertEqual(self.make(), "ab")

    def put(self, name, text):
        """Writes a file and returns its path."""
        path = os.path.join(self.dir, name)
        with open(path, "w", encoding="ascii") as f:
            f.write(text)
        return path

    def make(self):
        """What make leaves in the result."""
        subprocess.run(["make", "-s"], cwd=self.dir, check=True)
        with open(os.path.join(self.dir, "out"), encoding="ascii") as f:
            return f.read()

    def test_nothing(self):
        """Nothing differs: nothing is made."""
        self.put("out", "kept")
        self.assertEqual(self.make(), "kept")
        self.assertEqual(sorted(os.listdir(self.dir)), ["Makefile", "list", "out", "src"])

    def test_edit(self):
        """An edit, and a new file."""
        self.put("src/a", "x")
        self.put("src/c", "c")
        self.assertEqual(self.make(), "xbc")

    def test_gone(self):
        """A file is gone; no file has become newer."""
        os.remove(os.path.join(self.dir, "src/b b"))
        self.assertEqual(self.make(), "a")

    def test_older(self):
        """A file's older version comes back with its old time, which builds inside notice."""
        path = self.put("src/b b", "c")
        os.utime(path, (1, 1))
        self.assertEqual(self.make(), "ac")
        self.assertGreater(os.stat(path).st_mtime, 1)

    def test_during(self):
        """An edit while the part is made comes with the next make."""
        self.put("during", "echo -n x >src/a")
        self.put("src/a", "y")
        self.assertEqual(self.make(), "yb")
        os.remove(os.path.join(self.dir, "during"))
        self.assertEqual(self.make(), "xb")


if __name__ == "__main__":
    fake.main()
