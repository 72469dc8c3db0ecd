#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Tests of tests/check: tests/check/selftest.py prints PASS or FAIL for each."""
import os
import sys
import tempfile
import unittest
import xml.etree.ElementTree as ET

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.realpath(__file__))))

# pylint: disable=wrong-import-position
from check import flake, job as job_module  # noqa: E402
from check.job import Job, Schedule  # noqa: E402
from check.result import Case, Reader, write_junit  # noqa: E402

CMOCKA = """\
== test_a
[==========] tests: Running 3 test(s).
[ RUN      ] one
[       OK ] one
[ RUN      ] two
0x1 != 0x2
[  FAILED  ] two
[ RUN      ] three
[  SKIPPED ] three
[==========] tests: 3 test(s) run.
[  PASSED  ] 1 test(s).
[  FAILED  ] tests: 1 test(s), listed below:
[  FAILED  ] two
"""


def read(text):
    """(outcome, name, why, kind) of each case in a text."""
    reader = Reader()
    for line in text.splitlines():
        reader.line(line, 1.0)
    reader.end(2.0)
    return [(c.outcome, c.full, c.why, c.kind) for c in reader.cases]


def run(script, **args):
    """A job that has run a shell script."""
    job = Job("part", ["/bin/sh", "-c", script], **args)
    with tempfile.TemporaryDirectory() as logs:
        Schedule([job], "/", logs, 1).run()
    return job


def failures(job):
    """The reason of each case that failed."""
    return [c.why for c in job.cases if c.outcome == "failed"]


class Reading(unittest.TestCase):
    """Reading cases from the output of a part."""

    def test_cmocka(self):
        """Each test once, although a failed one is listed twice."""
        self.assertEqual(read(CMOCKA), [
            ("passed", "test_a.one", "", ""), ("failed", "test_a.two", "0x1 != 0x2", ""),
            ("skipped", "test_a.three", "", "")])

    def test_crash_within_a_test(self):
        """A test that began and did not end has failed, also if another program follows."""
        text = "== a\n[ RUN      ] one\nAddressSanitizer\n== b\n[ RUN      ] two\n"
        self.assertEqual([c[:2] for c in read(text)], [("failed", "a.one"), ("failed", "b.two")])

    def test_tap(self):
        """TAP with a reason, and without."""
        self.assertEqual(read("ok 1 /ohca/a\nnot ok 2 - b\nok 3 c # SKIP no d\n1..3\n"), [
            ("passed", "/ohca/a", "", ""), ("failed", "b", "", ""),
            ("skipped", "c", "no d", "")])

    def test_plain(self):
        """Lines of lint and of the system tests."""
        self.assertEqual(read("PASS: shell syntax\nPASS: life.unbind (1.2 s)\n"
                              "FAIL: life.kill: [kernel] node1: BUG: x\nSKIP: a.b: no card\n"), [
            ("passed", "shell syntax", "", ""), ("passed", "life.unbind", "", ""),
            ("failed", "life.kill", "node1: BUG: x", "kernel"), ("skipped", "a.b", "no card", "")])

    def test_junit(self):
        """The XML has all outcomes, also with characters that XML does not allow."""
        cases = [Case("", "a", "passed", "", 1.5), Case("p", "b", "failed", "[time] \x1b late"),
                 Case("", "c", "skipped", "no card")]
        with tempfile.NamedTemporaryFile() as f:
            write_junit(f.name, [("part", 2.0, cases)])
            part = ET.parse(f.name).getroot()[0]
        self.assertEqual([part.get(k) for k in ("tests", "failures", "skipped")], ["3", "1", "1"])
        self.assertEqual(part[0].get("time"), "1.5")
        self.assertEqual(part[1].find("failure").get("type"), "time")


class Judging(unittest.TestCase):
    """Failures that no line of the output reports."""

    def test_good(self):
        """A part that passes."""
        job = run("echo PASS: a")
        self.assertTrue(job.good)

    def test_silent(self):
        """A part without tests has failed."""
        self.assertEqual(failures(run("echo done")), ["reported no test"])

    def test_too_few(self):
        """A part with fewer tests than expected has failed."""
        self.assertIn("at least 2", failures(run("echo PASS: a", least=2))[0])

    def test_status(self):
        """A part that exits with an error after good tests has failed."""
        self.assertEqual(failures(run("echo PASS: a; exit 3")), ["ended with status 3"])

    def test_signal(self):
        """A part that a signal ended has failed."""
        self.assertEqual(failures(run("echo PASS: a; kill -KILL $$")), ["ended with status -9"])

    def test_skip_without_reason(self):
        """A skip needs a reason."""
        self.assertEqual(failures(run("echo PASS: a; echo SKIP: b")), ["skipped without a reason"])

    def test_limit(self):
        """A part that exceeds its time is ended, and has failed."""
        job = run("echo PASS: a; exec sleep 100", limit=0.01)
        self.assertEqual([c.kind for c in job.cases if c.outcome == "failed"], ["time"])
        self.assertIsNotNone(job.process.returncode)

    def test_needs(self):
        """A part does not run if a part that it needs has failed; it has failed, too."""
        jobs = [Job("a", ["false"], build=True), Job("b", ["echo", "PASS: x"], ["a"])]
        with tempfile.TemporaryDirectory() as logs:
            Schedule(jobs, "/", logs, 1).run()
        self.assertEqual(failures(jobs[1]), ["a failed"])
        self.assertFalse(jobs[1].count("passed"))


class Ordering(unittest.TestCase):
    """The order of parts."""

    def test_machines_wait_for_builds(self):
        """Machines start after all builds; other tests run beside the builds."""
        jobs = [Job("build", ["true"], build=True), Job("m", ["echo", "PASS: x"], machines=True),
                Job("late", ["sleep", "0.3"], ["build"], build=True), Job("u", ["echo", "PASS: y"])]
        with tempfile.TemporaryDirectory() as logs:
            Schedule(jobs, "/", logs, 1).run()
        self.assertTrue(all(j.good for j in jobs))
        self.assertGreater(jobs[1].begin, jobs[2].begin + 0.3)
        self.assertLess(jobs[3].begin, jobs[2].begin + 0.3)

    def test_beside(self):
        """A build with the lowest priority delays no machines, except those that need it."""
        jobs = [Job("m", ["sh", "-c", "echo PASS: x; exec sleep 0.3"], machines=True),
                Job("n", ["sh", "-c", "echo PASS: y; exec sleep 0.3"], machines=True),
                Job("one", ["sh", "-c", "[ $(nice) = 19 ] && exec sleep 0.2"], build=True,
                    beside=True),
                Job("two", ["true"], build=True, beside=True),
                Job("of", ["echo", "PASS: z"], ["two"], machines=True)]
        with tempfile.TemporaryDirectory() as logs:
            Schedule(jobs, "/", logs, 1, cores=2).run()
        m, n, one, two, of = jobs
        self.assertTrue(all(j.good for j in jobs))
        self.assertLess(max(m.begin, n.begin, one.begin), min(m.begin, n.begin) + 0.2)
        self.assertGreater(two.begin, one.begin + 0.2)
        self.assertGreater(of.begin, two.begin)


class Retrying(unittest.TestCase):
    """Failures that may be flakes."""

    def retried(self, kinds, good=True, may=True):
        """(flakes, tests that ran again, the job) after failures of some kinds."""
        job = Job("part", ["run"], again=(["one"], ["g.0"]) if may else None)
        job.status = 1
        job.cases = [Case("", f"g.{i}", "failed", f"[{k}] why") for i, k in enumerate(kinds)]
        ran = []

        def again(second):
            ran.append(second.argv[-1])
            second.status = 0 if good else 1

        return flake.retry([job], again), ran, job

    def test_flake(self):
        """A test that passes the second time is counted as flaky."""
        flakes, ran, job = self.retried(["time", "status"])
        self.assertEqual((len(flakes), ran), (2, ["g.0", "g"]))
        self.assertEqual([c.outcome for c in job.cases], ["flaky", "flaky"])
        self.assertTrue(job.good)

    def test_fails_again(self):
        """A test that fails twice has failed."""
        flakes, ran, job = self.retried(["time"], good=False)
        self.assertEqual((flakes, ran, job.count("failed")), ([], ["g.0"], 1))

    def test_never(self):
        """Reports, crashes, wrong data and leaks are never tried again."""
        for kind in ("kernel", "sanitizer", "crash", "data", "leak", "other"):
            self.assertEqual(self.retried([kind])[:2], ([], []))
            self.assertEqual(self.retried(["time", kind])[:2], ([], []))

    def test_too_many(self):
        """More failures than a run may have flakes are not tried again."""
        self.assertEqual(self.retried(["time"] * 3)[:2], ([], []))

    def test_units(self):
        """Failures of units are not tried again."""
        self.assertEqual(self.retried(["time"], may=False)[:2], ([], []))


class Lines(unittest.TextTestResult):
    """Prints a line for each test."""

    def stopTest(self, test):
        super().stopTest(test)
        bad = [text for t, text in self.failures + self.errors if t is test]
        print("\n".join([*bad, f"{'FAIL' if bad else 'PASS'}: {test.id().partition('.')[2]}"]),
              flush=True)


if __name__ == "__main__":
    job_module.say = lambda text: None
    suite = unittest.defaultTestLoader.loadTestsFromModule(sys.modules["__main__"])
    with open(os.devnull, "w", encoding="ascii") as nothing:
        result = unittest.TextTestRunner(nothing, resultclass=Lines).run(suite)
    sys.exit(not result.wasSuccessful())
