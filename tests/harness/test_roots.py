#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""tools/lib.sh: roots of Debian, made by a program in place of mmdebstrap; lists; patches."""
import os
import subprocess
import tempfile
import unittest

import fake

LIB = os.path.join(fake.TOP, "tools/lib.sh")
# Like mmdebstrap, it mounts a directory of the host in the root; it is killed before it unmounts.
KILLED = """#!/bin/sh
for root; do :; done
mkdir -p "$root/shm"
mount --bind "$HOST" "$root/shm" || exit 3
[ -e "$root/shm/file" ] || exit 4
kill -9 $$
"""
# unshare needs a mount at /, and the build root here is none.
# Prints the status of make_root, and the files that it has left.
TOP = """
mkdir "$0/top"
mount --rbind / "$0/top"
exec chroot "$0/top" bash -c '. "$0"; make_root "$1" "$2"; echo $?; grep " $1/" /proc/self/mounts' "$@"
"""


# In place of tools/in-root: apt-get whose FAILS, the first or the second call, fails.
APT = """#!/bin/sh
case " $* " in
*" --print-uris "*) echo "'http://x/a.deb' a.deb 1 x"; [ "$FAILS" != first ] ;;
*) cd "$OHCA_BUILD/root/var/cache/apt/archives" && ls && touch b.deb; [ "$FAILS" != second ] ;;
esac
"""


class Roots(unittest.TestCase):
    """make_root of tools/lib.sh."""

    def setUp(self):
        where = tempfile.TemporaryDirectory()
        self.addCleanup(where.cleanup)
        self.dir = where.name
        for name in ("bin", "host", "build", "cache"):
            os.mkdir(os.path.join(self.dir, name))
        for name, text, mode in (("bin/mmdebstrap", KILLED, 0o755), ("host/file", "", 0o644),
                                 ("list", "make\n", 0o644)):
            path = os.path.join(self.dir, name)
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
            os.chmod(path, mode)

    def test_killed(self):
        """If make_root is killed, no mount remains; removing the root removes nothing else."""
        root = os.path.join(self.dir, "root")
        env = dict(os.environ, HOST=os.path.join(self.dir, "host"),
                   PATH=os.path.join(self.dir, "bin") + ":" + os.environ["PATH"],
                   OHCA_BUILD=os.path.join(self.dir, "build"),
                   OHCA_CACHE=os.path.join(self.dir, "cache"))
        done = subprocess.run(["unshare", "--mount", "--propagation", "unchanged", "sh", "-c", TOP,
                               self.dir, LIB, root, os.path.join(self.dir, "list")],
                              env=env, check=False, capture_output=True, text=True, timeout=60)
        self.assertEqual(done.stdout, "137\n", done.stderr)


class Lists(unittest.TestCase):
    """install_list of tools/lib.sh."""

    def install(self, fails):
        """Its status, its messages, its log, and the cached packages afterwards."""
        with tempfile.TemporaryDirectory() as top:
            for name, text in (("tools/in-root", APT), ("tools/packages/list", "make  # x\ngcc\n"),
                               ("cache/debs/a.deb", ""), ("build/log-list.txt", "")):
                path = os.path.join(top, name)
                os.makedirs(os.path.dirname(path), exist_ok=True)
                with open(path, "w", encoding="utf-8") as file:
                    file.write(text)
                os.chmod(path, 0o755)
            env = dict(os.environ, FAILS=fails, OHCA_BUILD=os.path.join(top, "build"),
                       OHCA_CACHE=os.path.join(top, "cache"))
            done = subprocess.run(
                ["bash", "-c", 'set -euo pipefail; . "$0"; TOP=$1; install_list list', LIB, top],
                env=env, check=False, capture_output=True, text=True, timeout=60)
            with open(os.path.join(top, "build/log-list.txt"), encoding="utf-8") as file:
                log = file.read()
            return (done.returncode, done.stderr, log,
                    sorted(os.listdir(os.path.join(top, "cache/debs"))))

    def test_cached(self):
        """Packages come from the cache, and new ones are added to it."""
        status, text, log, cached = self.install("none")
        self.assertEqual((status, text, cached), (0, "", ["a.deb", "b.deb"]))
        self.assertIn("a.deb", log)

    def test_fails(self):
        """If apt-get fails, it fails."""
        for fails in ("first", "second"):
            status, text, _, _ = self.install(fails)
            self.assertEqual(status, 1)
            self.assertIn("packages cannot be installed in the build root", text)


# In place of tools/in-root. It ends all after as many changes of the source as STOP says.
PATCH = """#!/bin/sh
cd "$2" || exit
shift 2
"$@" || exit
case " $* " in *" --dry-run "*) exit 0 ;; esac
left=$(($(cat "$STOP") - 1))
echo "$left" >"$STOP"
[ "$left" != 0 ] || kill -9 $PPID
"""


def change(old, new):
    """A patch of the file."""
    return f"--- a/file\n+++ b/file\n@@ -1 +1 @@\n-{old}\n+{new}\n"


class Patches(unittest.TestCase):
    """patch_once of tools/lib.sh."""

    def setUp(self):
        where = tempfile.TemporaryDirectory()
        self.addCleanup(where.cleanup)
        self.dir = where.name
        self.write("top/tools/in-root", PATCH)
        os.chmod(os.path.join(self.dir, "top/tools/in-root"), 0o755)
        self.write("src/file", "a\n")

    def write(self, name, text):
        """A file."""
        path = os.path.join(self.dir, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)

    def read(self, name):
        """Its text."""
        with open(os.path.join(self.dir, name), encoding="utf-8") as file:
            return file.read()

    def once(self, patch, stop=0):
        """Its status; it ends after so many changes of the source. 0: never"""
        self.write("patch", patch)
        self.write("stop", f"{stop}\n")
        env = dict(os.environ, STOP=os.path.join(self.dir, "stop"), OHCA_BUILD=self.dir,
                   OHCA_CACHE=self.dir)
        return subprocess.run(
            ["bash", "-c", 'set -euo pipefail; . "$0"; TOP=$1; patch_once "$2" "$3"', LIB,
             os.path.join(self.dir, "top"), os.path.join(self.dir, "src"),
             os.path.join(self.dir, "patch")],
            env=env, check=False, capture_output=True, timeout=60).returncode

    def applied(self, text):
        """Whether the source has this text, and the record is that of the patch."""
        self.assertEqual(self.read("src/file"), text)
        self.assertEqual(self.read("src/.patch"), self.read("patch"))

    def test_once(self):
        """A patch is applied once."""
        for _ in range(2):
            self.assertEqual(self.once(change("a", "b")), 0)
            self.applied("b\n")

    def test_changed(self):
        """If it has changed, the old one is undone; each end between two steps is repaired."""
        for stop in range(3):
            self.assertEqual(self.once(change("a", "b")), 0)
            self.assertEqual(self.once(change("a", "c"), stop), -9 if stop else 0)
            self.assertEqual(self.once(change("a", "c")), 0)
            self.applied("c\n")
            self.assertEqual(self.once(change("a", "b")), 0)

    def test_interrupted(self):
        """It ends after it has changed the source, without the record."""
        self.assertEqual(self.once(change("a", "b"), 1), -9)
        self.assertFalse(os.path.exists(os.path.join(self.dir, "src/.patch")))
        self.assertEqual(self.once(change("a", "b")), 0)
        self.applied("b\n")

    def test_refused(self):
        """A patch that does not apply changes nothing, and is not recorded."""
        self.assertEqual(self.once(change("x", "y")), 1)
        self.assertEqual(self.read("src/file"), "a\n")
        self.assertFalse(os.path.exists(os.path.join(self.dir, "src/.patch")))


if __name__ == "__main__":
    fake.main()
