#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""The state file and partitions.conf: whole whenever the program ends; the administrator's part.

A child makes a change and kills itself before its Nth call of those that change files; N goes from
the first to the last one. Then the same from outside: kill -9 of the server at seeded moments.
"""
import json
import os
import random
import signal
import threading
from unittest import mock

import rest
from ohca_ufm import store as module
from ohca_ufm.partitions import Partitions
from ohca_ufm.store import HEAD, MARK, Store
from ohca_web.options import ConfError
from ohca_web.shape import HttpError

CALLS = ("unlink", "open", "fchmod", "fchown", "fsync", "rename", "close")
ADMIN = "# mine\nDefault=0x7fff, ipoib : ALL=full ;\nStorage=0x300 : 0x1234=full ;"
ROUNDS = 5
SEED = 20


def below(conf, store):
    """partitions.conf as the state wants it."""
    return conf + "".join(line + "\n" for line in (MARK, *store.partitions.lines()))


class Files(rest.Case):
    """Store with its two files."""

    def setUp(self):
        super().setUp()
        self.conf, self.state = (os.path.join(self.dir, x) for x in ("p.conf", "p.conf.ufm"))
        self.told = 0

    def tell(self):
        """Called to make OpenSM read partitions.conf."""
        self.told += 1

    def store(self):
        """A new Store."""
        made = Store(self.conf, self.state, self.tell)
        self.addCleanup(made.close)
        return made

    def test_new(self):
        """A file that does not exist gets OpenSM's default partition."""
        store = self.store()
        store.change(lambda p: p.with_pkey(1, True, True, {5: True}))
        self.assertEqual(rest.read(self.conf), f"{HEAD}{MARK}\napi_pkey_0x1=0x0001, ipoib, indx0 : "
                         "0x0000000000000005=full ;\n")
        self.assertEqual(os.stat(self.state).st_mode & 0o777, 0o600)

    def test_administrator(self):
        """Lines above the mark do not change, also if they are edited later; nor does the mode."""
        rest.write(self.conf, ADMIN, 0o640)
        store = self.store()
        self.assertEqual(rest.read(self.conf), f"{ADMIN}\n{MARK}\n")
        rest.write(self.conf, "# new\n" + rest.read(self.conf), 0o640)
        store.change(lambda p: p.with_pkey(1, True))
        self.assertEqual(rest.read(self.conf), below(f"# new\n{ADMIN}\n", store))
        self.assertEqual(os.stat(self.conf).st_mode & 0o777, 0o640)
        with self.assertRaises(HttpError) as e:
            store.change(lambda p: p.with_pkey(0x300, True))
        self.assertEqual(e.exception.status, 400)
        # now without a ';': nothing is written, and the state file does not change
        rest.write(self.conf, "A=5 : ALL\n")
        with self.assertRaises(HttpError) as e:
            store.change(lambda p: p.with_pkey(2, True))
        self.assertEqual(e.exception.status, 500)
        self.assertEqual(rest.read(self.conf), "A=5 : ALL\n")
        self.assertEqual(list(store.partitions.found), [1])
        rest.write(self.conf, MARK + "\n")
        store.change(lambda p: p.with_pkey(2, True))
        self.assertEqual(rest.read(self.conf), below("", store))

    def test_told(self):
        """OpenSM reads each change once, nothing without a change, and again after a failure."""
        store = self.store()
        self.assertTrue(store.untold)
        store.read_again()
        for _ in range(2):
            store.change(lambda p: p.with_pkey(1, True))
        self.assertEqual(self.told, 2)
        with mock.patch.object(store, "tell", side_effect=HttpError(500, "it does not listen")):
            with self.assertRaises(HttpError):
                store.change(lambda p: p.with_pkey(2, True))
        store.change(lambda p: p.with_pkey(2, True))
        self.assertEqual((self.told, list(store.partitions.found)), (3, [1, 2]))

    def test_full_disk(self):
        """A write that fails changes nothing; the next one works."""
        store = self.store()
        store.change(lambda p: p.with_pkey(9, True))
        was = rest.read(self.state), rest.read(self.conf)
        with mock.patch.object(module.os, "fsync", side_effect=OSError(28, "No space left")):
            with self.assertRaises(HttpError) as e:
                store.change(lambda p: p.with_pkey(1, True))
        self.assertEqual(e.exception.status, 500)
        self.assertEqual(list(store.partitions.found), [9])
        self.assertEqual((rest.read(self.state), rest.read(self.conf)), was)
        store.change(lambda p: p.with_pkey(1, True))
        self.assertEqual(list(store.partitions.found), [9, 1])
        self.assertEqual(rest.read(self.conf), below(HEAD, store))

    def failing_after(self, path):
        """A disk that fails after @path was renamed, before the directory is on the disk."""
        renamed, rename, fsync = [], os.rename, os.fsync

        def rename_it(old, new):
            rename(old, new)
            renamed.append(new)

        def fsync_it(fd):
            if path in renamed:
                raise OSError(5, "Input/output error")
            fsync(fd)
        return mock.patch.multiple(module.os, rename=rename_it, fsync=fsync_it)

    def test_failed_after_rename(self):
        """OpenSM reads a partitions.conf that was renamed, whatever failed after that."""
        store = self.store()
        store.read_again()
        with self.failing_after(self.conf), self.assertRaises(HttpError):
            store.change(lambda p: p.with_pkey(1, True))
        self.assertEqual((rest.read(self.conf), self.told), (below(HEAD, store), 1))
        store.change(lambda p: p.with_pkey(1, True))
        self.assertEqual(self.told, 2)

    def test_state_after_rename(self):
        """A change that failed is not in the state file after a later change."""
        store = self.store()
        with self.failing_after(self.state), self.assertRaises(HttpError):
            store.change(lambda p: p.with_pkey(1, True))
        self.assertIn('"0x1"', rest.read(self.state))
        store.change(lambda p: p.without(1, [5]))
        store.close()
        self.assertEqual(self.store().partitions, Partitions())

    def test_links(self):
        """Others can write in the directory: their links are neither written nor read through."""
        victim = os.path.join(self.dir, "victim")
        rest.write(victim, "Mine=0x44 : ALL ;\n")
        for path in self.conf, self.state:
            os.symlink(victim, path + ".new")
        store = self.store()
        store.change(lambda p: p.with_pkey(1, True))
        self.assertEqual(rest.read(self.conf), below(HEAD, store))
        os.unlink(self.conf)
        os.symlink(victim, self.conf)
        with self.assertRaises(HttpError) as e:
            store.change(lambda p: p.with_pkey(2, True))
        self.assertIn("symbolic link", e.exception.text)
        store.close()
        for path in self.conf, self.state:
            os.unlink(self.conf)
            rest.write(self.conf, HEAD)
            os.unlink(path)
            os.symlink(victim, path)
            with self.assertRaisesRegex(ConfError, "symbolic link"):
                self.store()
        os.unlink(self.state + ".lock")
        os.symlink(victim + "2", self.state + ".lock")
        with self.assertRaises(OSError):
            self.store()
        self.assertFalse(os.path.exists(victim + "2"))
        self.assertEqual(rest.read(victim), "Mine=0x44 : ALL ;\n")

    def test_fifo(self):
        """A FIFO in place of a file does not block the program."""
        os.mkfifo(self.conf)
        with self.assertRaisesRegex(ConfError, "not a regular file"):
            self.store()

    def test_wrong_state(self):
        """A wrong state file is not overwritten."""
        for text in ("", "{", "[]", "\0", "[" * 100000, '{"version": 9, "pkeys": {}}'):
            rest.write(self.state, text)
            with self.assertRaises(ConfError) as e:
                Store(self.conf, self.state, self.tell)
            self.assertTrue(str(e.exception).startswith(self.state + ": "), e.exception)
            self.assertEqual(rest.read(self.state), text)

    def test_only_one(self):
        """Two processes cannot write the same files."""
        self.started(how=("--reload", "true"))
        with self.assertRaisesRegex(ConfError, "another ohca-ufm uses "):
            Store(self.conf, self.state, self.tell)

    def test_between_writes(self):
        """After any call, both files are complete, and the next start has one of the two states."""
        rest.write(self.conf, ADMIN + "\n")
        old = Partitions().with_pkey(1, True, True, {5: True, 6: True})
        new = old.with_pkey(2, False, True, {5: False})
        first = self.store()
        first.change(lambda _: old)
        first.close()
        saved = rest.read(self.conf), rest.read(self.state)
        lengths, states = set(), set()
        for last in range(1, 100):
            for path, text in zip((self.conf, self.state), saved):
                rest.write(path, text)
            done = self.die_at(last, new)
            conf, state = rest.read(self.conf), json.loads(rest.read(self.state))
            self.assertTrue(conf.startswith(f"{ADMIN}\n{MARK}\n") and conf.endswith(" ;\n"))
            lengths.add(len(conf))
            states.add(len(state["pkeys"]))
            again = self.store()
            self.assertIn(again.partitions, (old, new))
            self.assertEqual(rest.read(self.conf), below(ADMIN + "\n", again))
            again.close()
            if done:
                self.assertEqual(again.partitions, new)
                break
        self.assertTrue(done)
        self.assertGreater(last, 10)
        self.assertEqual((len(lengths), states), (2, {1, 2}))

    def die_at(self, last, new):
        """Makes a change and kills itself at that call. Return: whether it had fewer calls"""
        pid = os.fork()
        if not pid:
            counted = 0

            def instead(real):
                def call(*args, **more):
                    nonlocal counted
                    counted += 1
                    if counted == last:
                        os.kill(os.getpid(), signal.SIGKILL)
                    return real(*args, **more)
                return call
            try:
                store = Store(self.conf, self.state, self.tell)
                for name in CALLS:
                    setattr(os, name, instead(getattr(os, name)))
                store.change(lambda _: new)
                os._exit(0)
            finally:
                os._exit(1)
        status = os.waitpid(pid, 0)[1]
        self.assertIn(status, (0, signal.SIGKILL))
        return status == 0

    def test_killed(self):
        """kill -9 of the server: changes answered with 200 are kept; the files are complete."""
        chance = random.Random(SEED)
        rest.write(self.conf, ADMIN + "\n")
        kept = set()                    # P_Keys whose requests were answered
        for turn in range(ROUNDS):
            server = self.started(how=("--reload", "true"))
            pkeys = self.good(server.call("GET", rest.PKEYS))
            self.assertTrue(kept <= {int(p, 16) for p in pkeys})
            tried = set(range(turn * 100 + 1, turn * 100 + 31))
            enough = chance.randrange(1, 25)
            for count, pkey in enumerate(sorted(tried)):
                if count == enough:     # while the next requests are sent
                    threading.Timer(chance.random() / 20, server.process.kill).start()
                try:
                    self.good(server.call("POST", rest.PKEYS, {
                        "pkey": f"{pkey:#x}", "index0": True, "guids": [f"{pkey:016x}"]}))
                    kept.add(pkey)
                except (OSError, rest.http.client.HTTPException):
                    break
            server.process.kill()
            server.process.wait(rest.PATIENCE)
            self.assertTrue(rest.read(self.conf).startswith(f"{ADMIN}\n{MARK}\n"))
            store = self.store()
            self.assertTrue(kept <= set(store.partitions.found))
            self.assertEqual(rest.read(self.conf), below(ADMIN + "\n", store))
            store.close()
        self.assertGreaterEqual(len(kept), ROUNDS)


if __name__ == "__main__":
    rest.main()
