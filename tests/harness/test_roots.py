#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Roots of Debian, made by a program in place of mmdebstrap."""
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


if __name__ == "__main__":
    fake.main()
