#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""tools/watch and make with a fake part: changes after which a part must be made again."""
import os
import shutil
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
    """A part that concatenates the files of a directory."""

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
        """Runs make; returns the contents of the result."""
        subprocess.run(["make", "-s"], cwd=self.dir, check=True)
        with open(os.path.join(self.dir, "out"), encoding="ascii") as f:
            return f.read()

    def test_nothing(self):
        """Nothing differs: nothing is made."""
        self.put("out", "kept")
        self.assertEqual(self.make(), "kept")
        self.assertEqual(sorted(os.listdir(self.dir)), ["Makefile", "list", "out", "src"])

    def test_edit(self):
        """A changed file, and a new one."""
        self.put("src/a", "x")
        self.put("src/c", "c")
        self.assertEqual(self.make(), "xbc")

    def test_gone(self):
        """A removed file; no file is newer."""
        os.remove(os.path.join(self.dir, "src/b b"))
        self.assertEqual(self.make(), "a")

    def test_older(self):
        """An older version of a file with its old time; builds that compare times are rebuilt."""
        path = self.put("src/b b", "c")
        os.utime(path, (1, 1))
        self.assertEqual(self.make(), "ac")
        self.assertGreater(os.stat(path).st_mtime, 1)

    def test_during(self):
        """A change while the part is made is used by the next make."""
        self.put("during", "echo -n x >src/a")
        self.put("src/a", "y")
        self.assertEqual(self.make(), "yb")
        os.remove(os.path.join(self.dir, "during"))
        self.assertEqual(self.make(), "xb")


class Own(unittest.TestCase):
    """The Makefile of this checkout, with programs that only print their names."""

    def setUp(self):
        where = tempfile.TemporaryDirectory()
        self.addCleanup(where.cleanup)
        self.dir = where.name
        shutil.copy(os.path.join(TOP, "Makefile"), self.dir)
        os.mkdir(os.path.join(self.dir, "tools"))
        for name in os.listdir(os.path.join(TOP, "tools")):
            path = os.path.join(self.dir, "tools", name)
            if name in ("guests", "watch", "packages"):
                os.symlink(os.path.join(TOP, "tools", name), path)
                continue
            with open(path, "w", encoding="ascii") as f:
                f.write('#!/bin/sh\necho "${0##*/}" "$@"\n')
            os.chmod(path, 0o755)
        for name in ("kernel", "userspace"):
            os.mkdir(os.path.join(self.dir, name))

    def made(self, *arguments):
        """The programs that make runs."""
        argv = ["make", "-s", "-C", self.dir, "OHCA_BUILD=build", *arguments]
        # without the variables of the make that runs this test, which has its own BUILD
        env = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
        done = subprocess.run(argv, check=True, stdout=subprocess.PIPE, text=True, env=env)
        self.assertTrue(os.path.isdir(os.path.join(self.dir, "build", "stamp")))
        return sorted(line.strip() for line in done.stdout.splitlines())

    def test_twice(self):
        """Everything is made once. If nothing differs, nothing is made, for any guest."""
        for guest in ("debian13", "debian14", "arm64"):
            first = self.made("lab", f"GUEST={guest}")
            self.assertEqual([x for x in first if x.startswith("mkguest")], [f"mkguest {guest}"])
            self.assertEqual([x for x in first if x.startswith("mklayer")], [f"mklayer {guest}"])
            self.assertEqual(self.made("lab", f"GUEST={guest}"), [])

    def test_edit(self):
        """A change of the driver's source rebuilds the driver and the layer."""
        self.made("lab")
        with open(os.path.join(self.dir, "kernel", "main.c"), "w", encoding="ascii"):
            pass
        self.assertEqual(self.made("lab"), ["build-modules stock", "mklayer debian13"])
        self.assertEqual(self.made("lab"), [])


if __name__ == "__main__":
    fake.main()
