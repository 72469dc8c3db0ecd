# SPDX-License-Identifier: GPL-2.0-or-later
"""A lab without machines: processes that sleep, kernels that say what a test makes them say."""
import argparse
import contextlib
import importlib.machinery
import importlib.util
import io
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import types
import unittest

sys.dont_write_bytecode = True
TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path[:0] = [os.path.join(TOP, *x) for x in (("tests", "system"), ("tests",), ("tools",))]

# pylint: disable=wrong-import-position
from ohca_lab import lab as real, paths  # noqa: E402
from suite import harness, leaks  # noqa: E402



def module_of(name):
    """A program of the checkout, in Python and without a suffix, as a module."""
    loader = importlib.machinery.SourceFileLoader(name.replace("/", "_"), os.path.join(TOP, name))
    spec = importlib.util.spec_from_loader(loader.name, loader)
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    return module


DIES_WELL = "trap 'exit 0' TERM"


class FakeVM:
    """A node: a process in the place of QEMU, and what its kernel has said."""

    def __init__(self, lab, k):
        self.k, self.name, self.guest = k, f"node{k}", paths.Guest("debian13")
        self.dir = os.path.join(lab.dir, f"n{k}")
        os.mkdir(self.dir)
        self.process = lab.spawn(DIES_WELL, os.path.join(self.dir, "qemu.log"))
        self.records, self.first = [], 0
        self.answers = True
        self.leaks = ""

    def alive(self):
        """The same as VM.alive()."""
        return self.process.poll() is None

    def last_words(self):
        """The same as VM.last_words()."""
        return []

    def says(self, text, ring=True, console=True):
        """The kernel prints a line; ring: whether dmesg finds it, too."""
        line = f"[{len(self.records) + 5:5d}.000000] {text}"
        self.records.append(line if ring else None)
        if console:
            with open(os.path.join(self.dir, "console.log"), "a", encoding="utf-8") as f:
                f.write(line + "\r\n")

    def forgets(self, number):
        """Drops that many records from the ring, as if others had overwritten them."""
        self.first += number

    def kmsg(self, start):
        """The output of the script that reads the log."""
        new = range(max(start, self.first), len(self.records))
        lost = new.start - start
        lines = [self.records[i] for i in new if self.records[i]]
        return "\n".join([*lines, f"next {new.stop} lost {lost}", ""])


class FakeLab(real.Lab):
    """A lab for the harness; its scripts run on this host."""

    last = None

    def __init__(self, name, opt):  # pylint: disable=super-init-not-called
        self.name, self.opt, self.slow = name, opt, 1
        self.vms, self.helpers, self.ending = [], [], False
        self.lock = None
        self.dir = tempfile.mkdtemp()
        FakeLab.last = self

    def start(self):
        self.lock = open(os.path.join(self.dir, "lock"), "wb")
        self.vms = [FakeVM(self, k + 1) for k in range(self.opt.nodes)]
        fabric = self.spawn(DIES_WELL, os.path.join(self.dir, "fabric.log"))
        fabric.what = "fabric"
        self.helpers = [fabric]

    @staticmethod
    def spawn(trap, log):
        """Starts a process that has set its traps and sleeps, with its output in a file."""
        script = f"{trap}; echo ready; while :; do sleep 0.01; done"
        with open(log, "wb") as out:
            process = subprocess.Popen(["sh", "-c", script], stdin=subprocess.DEVNULL, stdout=out,
                                       stderr=subprocess.STDOUT)
        end = time.monotonic() + 30
        while not os.path.getsize(log):
            if process.poll() is not None or time.monotonic() > end:
                process.kill()
                raise AssertionError(f"{trap}: the process does not begin")
            time.sleep(0.001)
        return process

    def capture(self, k, script, timeout=60):
        vm = self.vms[k - 1]
        if not vm.alive():
            return 255, "the virtual machine ended"
        if not vm.answers:
            return 124, "the node does not answer"
        if "/dev/kmsg" in script:
            return 0, vm.kmsg(int(re.search(r"\(\$next, \$lost\) = \((\d+),", script)[1]))
        if script == leaks.SCAN:
            return 0, vm.leaks
        if script in (harness.DIAGS, harness.LAST_WORDS):
            return 0, ""
        try:
            done = subprocess.run(["sh", "-c", script.replace("/tmp/", f"{self.dir}/")],
                                  stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT, timeout=timeout, check=False)
            return done.returncode % 256, done.stdout.decode()
        except subprocess.TimeoutExpired:
            return 124, ""

    def check_clocks(self):
        """Does nothing: there is one clock only."""

    def save_logs(self, where):
        os.makedirs(where, exist_ok=True)


class HarnessTest(unittest.TestCase):
    """A case with a group of tests in a fake lab of two nodes."""

    def setUp(self):
        self.logs = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.logs)
        for where, name, value in ((harness, "Lab", FakeLab), (harness, "LOGS", self.logs)):
            self.addCleanup(setattr, where, name, getattr(where, name))
            setattr(where, name, value)
        self.group = harness.Group("g", ("-n", "2"))
        self.test = self.group.test

    def vm(self, node):
        """A node of the lab that is up."""
        return FakeLab.last.vms[node - 1]

    def run_all(self, **options):
        """Runs the group; returns {name: (outcome, kind, reason)} of its cases, prints nothing."""
        opt = argparse.Namespace(**{"kernel": "stock", "guest": ["debian13"], "attach": "qemu",
                                    "repeat": 1, "patience": 1, "names": [], "keep_going": False,
                                    "logs": "", **options})
        self.run_ = harness.Run(opt, [types.SimpleNamespace(GROUPS=[self.group])])
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            self.status = self.run_.all()
        self.out = out.getvalue()
        return {c.name: (c.outcome, c.kind, c.why) for c in self.run_.cases}

    def outcomes(self, **options):
        """{name: "passed", "skipped" or the kind of the failure}."""
        return {name: kind if outcome == "failed" else outcome
                for name, (outcome, kind, _) in self.run_all(**options).items()}


class Lines(unittest.TestResult):
    """One line for each case, as tests/run counts them."""

    def stopTest(self, test):
        super().stopTest(test)
        name = test.id().partition(".")[2]
        # a part of a case, by subTest(), has an object of its own
        bad = [text for case, text in self.failures + self.errors
               if test in (case, getattr(case, "test_case", None))]
        why = [text for case, text in self.skipped if case is test]
        print("".join(bad) + (f"FAIL: {name}" if bad else
                              f"SKIP: {name}: {why[0]}" if why else f"PASS: {name}"), flush=True)


def main():
    """Runs the cases of the program that calls this."""
    result = Lines()
    unittest.defaultTestLoader.loadTestsFromModule(sys.modules["__main__"]).run(result)
    sys.exit(not result.wasSuccessful())
