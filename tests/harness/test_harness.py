#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""The harness of the system tests: failures that it must detect."""
import argparse
import fcntl
import os
import signal
import tempfile
import threading
import unittest
import xml.etree.ElementTree as ET
from unittest import mock

import fake
from fake import HarnessTest, paths
from suite.harness import Failure, Skip, need, until
from suite.verdict import KINDS, kind_of


def ended(b, program):
    """Waits until a program in the background has ended by itself."""
    b.sh(1, f"until [ -e {program.file}.status ]; do sleep 0.01; done")

KASAN = "BUG: KASAN: slab-use-after-free in ohca_poll_cq"
PAIR_OF_LOCKS = """WARNING: possible circular locking dependency detected
-> #1 (first){+.+.}: one_function+0x1
-> #0 (second){+.+.}: other_function+0x1
 </TASK>"""


class Names(HarnessTest):
    """An unknown name is reported, also beside known ones."""

    def test_unknown(self):
        @self.test
        def one(_):
            pass
        self.assertEqual(self.outcomes(names=["g.o*", "g.two", "h"]),
                         {"one": "passed", "lab": "passed"})
        self.assertEqual(self.run_.unknown, ["g.two", "h"])
        self.outcomes(names=["g"])
        self.assertEqual(self.run_.unknown, [])

    def test_first(self):
        """A test of the debug kernel first runs on the stock kernel only if it is named."""
        @self.test(debug="first")
        def one(_):
            pass

        @self.test
        def two(_):
            pass
        both = {"one": "passed", "two": "passed", "lab": "passed"}
        self.assertEqual(self.outcomes(), {"two": "passed", "lab": "passed"})
        self.assertEqual(self.outcomes(kernel="debug"), both)
        for names in (["g"], ["g.*"], ["g.one", "g.two"]):
            self.assertEqual(self.outcomes(names=names), both)


class Kernel(HarnessTest):
    """Every line of a kernel is judged, and only once."""

    def test_nothing_said(self):
        @self.test
        def one(b):
            self.vm(1).says("ohca 0000:00:06.0: ohca_0: OpenHCA 1.0")
        self.assertEqual(self.outcomes(), {"one": "passed", "lab": "passed"})
        self.assertEqual(self.status, 0)

    def test_report_that_the_test_read_itself(self):
        @self.test
        def one(b):
            self.vm(2).says(KASAN)
            need("KASAN" in b.kernel_said(2), "not said")
            need("KASAN" in b.kernel_said(2), "forgotten")
            need("KASAN" in b.kernel_says(2), "it is of this test")
        self.assertEqual(self.outcomes(), {"one": "kernel", "lab": "passed"})
        self.assertEqual(self.status, 1)
        self.assertIn("FAIL: g.one: [kernel] kernel report: node2: ", self.out)

    def test_report_is_judged_once(self):
        @self.test
        def one(b):
            self.vm(2).says(KASAN)

        @self.test
        def two(b):
            need("KASAN" in b.kernel_said(2), "what is judged is kept")
            need("KASAN" not in b.kernel_says(2), "what is judged is of another test")
        self.assertEqual(self.outcomes(keep_going=True),
                         {"one": "kernel", "two": "passed", "lab": "passed"})

    def test_deprecated(self):
        """A warning of a deprecated interface is a report; one of a slow machine is not."""
        @self.test
        def old(b):
            self.vm(1).says("workqueue: work func ohca_health_work enqueued on deprecated "
                            "workqueue. Use system_{percpu|dfl}_wq instead.")

        @self.test
        def slow(b):
            self.vm(1).says("workqueue: pci_pme_list_scan hogged CPU for >10000us 4 times")
            self.vm(1).says("workqueue: round-robin CPU selection forced")
        self.assertEqual(self.outcomes(keep_going=True),
                         {"old": "kernel", "slow": "passed", "lab": "passed"})

    def test_stall(self):
        """A stall is a report of a kernel, also at boot."""
        @self.test
        def early(_):
            self.vm(1).says("rcu: INFO: rcu_preempt detected stalls on CPUs/tasks:")
        self.assertEqual(self.outcomes(keep_going=True), {"early": "kernel", "lab": "passed"})

    def test_announced_by_this_test_only(self):
        @self.test(reports="KASAN")
        def one(b):
            self.vm(1).says(KASAN)

        @self.test(reports="UBSAN")
        def two(b):
            self.vm(1).says(KASAN)
        self.assertEqual(self.outcomes(), {"one": "passed", "two": "kernel", "lab": "passed"})

    def test_after_the_last_test(self):
        @self.test
        def one(b):
            save = b.finish
            b.finish = lambda: (self.vm(1).says(KASAN), save())[1]
        self.assertEqual(self.outcomes(), {"one": "passed", "lab": "kernel"})

    def test_overwritten(self):
        @self.test
        def one(b):
            for _ in range(9):
                self.vm(1).says("noise")
            self.vm(1).forgets(4)
        self.assertEqual(self.outcomes(), {"one": "kernel", "lab": "passed"})

    def test_not_told_again_by_the_console(self):
        @self.test(reports="KASAN")
        def one(b):
            self.vm(1).says(KASAN)

        @self.test
        def two(b):
            b.expect_dead(1)
            self.vm(1).process.kill()
            self.vm(1).process.wait()
        self.assertEqual(self.outcomes(), {"one": "passed", "two": "passed", "lab": "passed"})

    def test_last_words_of_a_machine_that_may_die(self):
        @self.test
        def one(b):
            b.expect_dead(1)
            self.vm(1).says(KASAN, ring=False)
            self.vm(1).process.kill()
            self.vm(1).process.wait()
        self.assertEqual(self.outcomes(), {"one": "kernel", "lab": "passed"})

    def test_node_that_does_not_answer(self):
        @self.test
        def one(b):
            self.vm(1).answers = False

        @self.test
        def two(b):
            self.vm(1).says(KASAN, ring=False)
            self.vm(1).answers = False
        self.assertEqual(self.outcomes(), {"one": "time", "two": "kernel", "lab": "time"})

    def test_order_of_locks_in_two_halves(self):
        lines = PAIR_OF_LOCKS.split("\n")

        @self.test(lock_order="first.*one_function.*second")
        def one(b):
            self.vm(1).says(lines[0])
            b.kernel_said(1)
            for line in lines[1:]:
                self.vm(1).says(line)
            b.kernel_said(1)

        @self.test(lock_order="second.*one_function.*first")
        def two(b):
            for line in lines:
                self.vm(1).says(line)
        # with lockdep off the lab is spent: it ends after the first test
        self.assertEqual(self.outcomes(), {"one": "passed", "two": "kernel", "lab": "passed"})
        self.assertEqual(self.out.count("g.lab"), 2)

    def test_defect_of_linux(self):
        cut, where = "------------[ cut here ]------------", "WARNING: CPU: 0 PID: 850 at x.c:2030 "
        trace = ["Call Trace:", " <TASK>", "---[ end trace 0000000000000000 ]---"]

        def add(name, *lines):
            def f(_):
                for line in lines:
                    self.vm(1).says(line)
            f.__name__ = name
            self.test(f)

        add("known", cut, where + "ipoib_ndo_uninit+0x136/0x140 [ib_ipoib]", *trace)
        add("other", cut, where + "ipoib_open+0x136/0x140 [ib_ipoib]", *trace)
        add("behind", cut, where + "ipoib_ndo_uninit+0x136/0x140 [ib_ipoib]", *trace, cut,
            where + "ohca_remove+0x2f/0x70 [ohca]", *trace)
        add("cut_off", cut, where + "ipoib_ndo_uninit+0x136/0x140 [ib_ipoib]", cut,
            where + "ohca_remove+0x2f/0x70 [ohca]", *trace)
        self.assertEqual(self.outcomes(), {"known": "passed", "other": "kernel",
                                           "behind": "kernel", "cut_off": "kernel",
                                           "lab": "passed"})

    def test_skipped_test(self):
        @self.test
        def one(b):
            self.vm(1).says(KASAN)
            raise Skip("not here")
        self.assertEqual(self.outcomes(), {"one": "kernel", "lab": "passed"})

    def test_gravest_kind(self):
        @self.test
        def one(b):
            self.vm(1).says(KASAN)
            raise Failure("the last answer is late", "time")
        found = self.run_all()["one"]
        self.assertEqual(found[:2], ("failed", "kernel"))
        self.assertIn("the last answer is late", found[2])


class Parts(HarnessTest):
    """Machines, helpers and programs that end."""

    def test_machine_that_panics(self):
        @self.test
        def one(b):
            os.kill(self.vm(2).process.pid, signal.SIGTERM)     # status 0, as with -no-reboot
            self.vm(2).process.wait()
        found = self.run_all()
        self.assertEqual(found["one"][:2], ("failed", "crash"))
        self.assertIn("node2 has ended", found["one"][2])
        self.assertEqual(found["lab"][0], "passed")   # said once

    def test_machine_between_two_tests(self):
        @self.test
        def one(b):
            pass

        @self.test
        def two(b):
            pass
        def prepare(b):
            if b.state.setdefault("tests", 0):
                self.vm(1).process.kill()
                self.vm(1).process.wait()
            b.state["tests"] += 1
        self.group.prepare = prepare
        self.assertEqual(self.outcomes()["two"], "crash")

    def test_declared(self):
        @self.test
        def one(b):
            b.expect_dead(2)
            self.vm(2).process.kill()
            self.vm(2).process.wait()

        @self.test
        def two(b):
            need(b.living() == [1], "node 2 is dead")
        self.assertEqual(self.outcomes(), {"one": "passed", "two": "passed", "lab": "passed"})

    def test_declared_and_alive(self):
        @self.test
        def one(b):
            b.expect_dead(2)
        self.assertEqual(self.outcomes()["one"], "data")

    def test_fabric_crashes(self):
        @self.test
        def one(b):
            b.lab.helpers[0].send_signal(signal.SIGSEGV)
            b.lab.helpers[0].wait()
        found = self.run_all()["one"]
        self.assertEqual(found[:2], ("failed", "crash"))
        self.assertIn("fabric was ended by SIGSEGV", found[2])

    def test_sanitizer_of_qemu(self):
        @self.test
        def one(b):
            with open(os.path.join(self.vm(1).dir, "qemu.log"), "a", encoding="utf-8") as f:
                f.write("../ohca-pci.c:12:3: runtime error: shift exponent 64 is too large\n")
        self.assertEqual(self.outcomes(), {"one": "sanitizer", "lab": "passed"})

    def test_warning_of_qemu(self):
        def write():
            with open(os.path.join(self.vm(1).dir, "qemu.log"), "a", encoding="utf-8") as f:
                f.write("qemu-system-x86_64: warning: ohca: port 1 lost its fabric\n")

        @self.test(says="lost its fabric")
        def one(b):
            write()

        @self.test
        def two(b):
            write()
        self.assertEqual(self.outcomes(), {"one": "passed", "two": "data", "lab": "passed"})

    def test_status_at_the_end(self):
        @self.test
        def one(b):
            fake.FakeLab.last.helpers[0].kill()
            fake.FakeLab.last.helpers[0].wait()
            p = b.lab.spawn("trap 'exit 3' TERM",
                            os.path.join(b.lab.dir, "fabric.log"))
            p.what = "fabric"
            b.lab.helpers = [p]
        found = self.run_all()
        self.assertEqual(found["one"][0], "passed")
        self.assertEqual(found["lab"], ("failed", "crash", "fabric has ended with status 3"))

    def test_does_not_end(self):
        @self.test
        def one(b):
            p = b.lab.spawn("trap '' TERM",
                            os.path.join(b.lab.dir, "hub.log"))
            p.what = "hub"
            b.lab.helpers.append(p)
            save = b.lab.end
            b.lab.end = lambda _: save(0.3)
        self.assertEqual(self.outcomes(), {"one": "passed", "lab": "time"})

    def test_program_that_ends(self):
        @self.test
        def one(b):
            ended(b, b.background(1, "echo device is gone; exit 7"))

        @self.test
        def two(b):
            b.background(1, "exit 7", ends=(7,)).wait()

        @self.test
        def three(b):
            ended(b, b.background(1, "kill -SEGV $$"))

        @self.test
        def four(b):
            b.background(1, "exit 7", ready="false")
        found = self.run_all()
        self.assertEqual({k: v[1] for k, v in found.items()},
                         {"one": "status", "two": "", "three": "crash", "four": "status",
                          "lab": ""})
        self.assertIn("device is gone", found["one"][2])

    def test_program_that_is_killed(self):
        @self.test
        def one(b):
            p = b.background(1, "sleep 100")
            p.kill()

        @self.test
        def two(b):
            self.left = b.background(1, "sleep 100")

        @self.test
        def three(b):
            need(self.left.killed and self.left.status() == 137, "it runs still")

        @self.test
        def four(b):
            p = b.background(1, "true")
            ended(b, p)
            p.kill()
        self.assertEqual(self.outcomes(), {"one": "passed", "two": "passed", "three": "passed",
                                           "four": "status", "lab": "passed"})


class Leaks(HarnessTest):
    """The harness reads kmemleak at the end of every lab with the debug kernel."""

    LEAK = """unreferenced object 0xffff8880012ab000 (size 512):
  comm "modprobe", pid 99, jiffies 4294950000
  backtrace (crc 2c3):
    [<0000>] kmalloc_trace+0x1
    [<0000>] ohca_probe+0x7
"""

    def leaky(self):
        """A test that passes, in a lab whose last scan finds leaked memory."""
        @self.test
        def one(b):
            self.vm(2).leaks = self.LEAK

    def test_debug(self):
        self.leaky()
        found = self.run_all(kernel="debug")
        self.assertEqual(found["one"][0], "passed")
        self.assertEqual(found["lab"][:2], ("failed", "leak"))
        self.assertIn("ohca_probe", found["lab"][2])
        self.assertEqual(self.status, 1)

    def test_stock(self):
        self.leaky()
        self.assertEqual(self.outcomes()["lab"], "passed")

    def test_none(self):
        @self.test
        def one(b):
            pass
        self.assertEqual(self.outcomes(kernel="debug")["lab"], "passed")


class Waiting(unittest.TestCase):
    """until() gives a slow node enough time."""

    def waits(self, cost, seconds, asks):
        """The pauses between at most ASKS questions that take COST seconds each."""
        now, pauses, left = [0.0], [], iter(range(asks))

        def question():
            now[0] += cost
            return next(left) == asks - 1

        def pause(seconds):
            pauses.append(round(seconds, 6))
            now[0] += seconds
        with mock.patch("suite.harness.time.monotonic", lambda: now[0]), \
                mock.patch("suite.harness.time.sleep", pause):
            until(seconds, question, "late")
        return pauses

    def test_pauses_are_as_long_as_questions(self):
        self.assertEqual(self.waits(0.01, 60, 3), [0.1, 0.1])
        self.assertEqual(self.waits(0.5, 60, 3), [0.5, 0.5])
        self.assertEqual(self.waits(9, 60, 3), [2, 2])

    def test_the_last_question_is_after_the_limit(self):
        self.assertEqual(self.waits(1, 3, 3), [1, 1])
        with self.assertRaises(Failure):
            self.waits(1, 3, 4)


class Directories(unittest.TestCase):
    """Directories of launchers that run at the same time."""

    def test_one_that_is_being_made(self):
        with tempfile.TemporaryDirectory() as base, mock.patch.object(
                fake.real.paths, "runtime", lambda: base):
            where = os.path.join(base, "young")
            other = threading.Thread(target=fake.real.sweep)
            with fake.real.alone():
                other.start()
                os.mkdir(where)
                with open(os.path.join(where, "lock"), "wb") as lock:
                    other.join(0.2)
                    self.assertTrue(other.is_alive() and os.path.exists(where))
                    held = os.dup(lock.fileno())
                fcntl.flock(held, fcntl.LOCK_EX)
            other.join(10)
            self.assertEqual(fake.real.labs(), ["young"])
            os.close(held)
            fake.real.sweep()
            self.assertEqual(fake.real.labs(), [])

    def test_without_a_lock(self):
        with tempfile.TemporaryDirectory() as base, mock.patch.object(
                fake.real.paths, "runtime", lambda: base):
            os.mkdir(os.path.join(base, "killed"))
            one = fake.FakeLab("ends", argparse.Namespace(nodes=0))
            one.start()
            with fake.real.alone():
                other = threading.Thread(target=one.teardown)
                other.start()
                other.join(0.2)
                # it must not be without its lock while others look
                self.assertTrue(other.is_alive() and os.path.exists(one.dir))
            other.join(10)
            self.assertFalse(os.path.exists(one.dir))
            fake.real.sweep()
            self.assertEqual(fake.real.labs(), [])

    def test_directory_of_somebody_else(self):
        with tempfile.TemporaryDirectory() as base, mock.patch.dict(
                os.environ, {"XDG_RUNTIME_DIR": base}):
            own = os.path.join(base, "own")
            os.mkdir(own, mode=0o755)
            os.symlink(own, os.path.join(base, f"ohca-lab-{os.getuid()}"))
            with self.assertRaisesRegex(SystemExit, "not a directory of yours"):
                paths.runtime()
            self.assertEqual(os.stat(own).st_mode & 0o777, 0o755)
            # QEMU would end a path at the comma
            os.environ["XDG_RUNTIME_DIR"] = os.path.join(base, "a,b")
            os.mkdir(os.environ["XDG_RUNTIME_DIR"])
            self.assertEqual(os.path.dirname(paths.runtime()), "/tmp")


class Verdicts(HarnessTest):
    """Outcomes, their kinds, and where they are reported."""

    def test_kinds(self):
        wrong = {
            "status": (1, "No such file"), "data": (1, "FAILED: block: wrong data at byte 7 of 9"),
            "crash": (139, ""), "time": (124, ""), "sanitizer": (1, "ERROR: AddressSanitizer: x"),
        }
        for kind, (status, text) in wrong.items():
            self.assertEqual(kind_of(status, text), kind)
            self.assertIn(kind, KINDS)
        self.assertEqual(kind_of(134, "a.c:3: f: Assertion `0' failed."), "crash")
        self.assertEqual(kind_of(-11, ""), "crash")
        self.assertEqual(kind_of(1, "FAILED: WRITE: no completion"), "time")
        self.assertEqual(kind_of(1, "FAILED: the QP is in state 3"), "data")

    def test_how_tests_fail(self):
        @self.test
        def status(b):
            b.sh(1, "exit 3")

        @self.test
        def data(b):
            need(False, "wrong")

        @self.test
        def late(b):
            until(0, lambda: False, "does not come")

        @self.test(timeout=0.3)
        def overdue(b):
            while True:
                pass

        @self.test
        def mistake(b):
            assert False, "nobody catches this"

        @self.test
        def after(b):
            pass
        self.assertEqual(self.outcomes(), {
            "status": "status", "data": "data", "late": "time", "overdue": "time",
            "mistake": "data", "after": "passed", "lab": "passed"})

    def test_junit(self):
        @self.test
        def good(b):
            pass

        @self.test
        def bad(b):
            need(False, "1 < 2 \x01 & 3")

        @self.test
        def skipped(b):
            raise Skip("no hardware")
        self.run_all(logs="two")
        root = ET.parse(os.path.join(self.logs, "junit-two.xml")).getroot()[0]
        self.assertEqual([root.get(x) for x in ("tests", "failures", "skipped")], ["5", "1", "1"])
        cases = {c.get("name"): c for c in root}
        self.assertEqual(cases["good"].get("classname"), "two.g")
        self.assertEqual(cases["bad"].find("failure").attrib,
                         {"type": "data", "message": "1 < 2   & 3"})
        self.assertEqual(cases["skipped"].find("skipped").get("message"), "no hardware")
        self.assertTrue(os.path.isdir(os.path.join(self.logs, "two")))


if __name__ == "__main__":
    fake.main()
