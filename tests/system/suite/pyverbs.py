# SPDX-License-Identifier: GPL-2.0-or-later
"""The tests of rdma-core's pyverbs, except those of vendors, over loopback."""
import fnmatch
import os
import re

from .bring_up import fabric
from .harness import DEV, Failure, Group, head, need, tail
from .limits import LARGE
from .verdict import kind_of

GROUP = Group("pyverbs", LARGE, prepare=fabric)

EXPECTED = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))),
                        "pyverbs.expected")
# For the rdma-core of each release: how many tests pass, and how many there are.
LEAST = {"debian12": (147, 171), "debian13": (159, 182), "backports": (159, 182),
         "debian14": (180, 234)}
FAILS = "fails: "   # precedes the reason of a test that no device passes

PREPARE = """
mkdir -p /tmp/t && cp -r /usr/share/doc/rdma-core/tests /tmp/t/ && cd /tmp/t/tests || exit 1
find . -name '*.gz' -exec gunzip -f {} +
rm -f test_mlx5* test_efa*
echo 64 >/proc/sys/vm/nr_hugepages
cat >run_all.py <<'END'
"""
RUNNER = r'''
"""Runs modules, each in a child, and prints a line for each test: outcome, name, reason.

run_all.py SECONDS MODULE,... ARG...: a child ends after so many seconds. What all modules import is
imported once: that takes longer than most of them.
"""
import importlib
import os
import signal
import sys
import traceback
import unittest

here = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [here, os.path.dirname(here)]
from args_parser import parser
seconds, names = int(sys.argv.pop(1)), sys.argv.pop(1).split(",")
parser.parse_args()
# the package imports each test that it finds
listdir, os.listdir = os.listdir, lambda _: []
importlib.import_module("tests")
os.listdir = listdir
for common in ("base", "base_rdmacm", "utils", "rdmacm_utils"):
    importlib.import_module(f"tests.{common}")


class Result(unittest.TestResult):
    def say(self, outcome, test, why=""):
        print(f"RESULT {outcome} {test.id()} {' '.join(str(why).split())[-300:]}", flush=True)

    def startTest(self, test):
        super().startTest(test)
        self.say("start", test)

    def addSuccess(self, test):
        self.say("pass", test)

    def addFailure(self, test, err):
        self.say("fail", test, self._exc_info_to_string(err, test))

    addError = addFailure

    def addSkip(self, test, reason):
        self.say("skip", test, reason)

    def addExpectedFailure(self, test, err):
        self.say("pass", test)

    def addUnexpectedSuccess(self, test):
        self.say("fail", test, "unexpected success")

    def addSubTest(self, test, subtest, err):
        if err:
            self.say("fail", subtest, self._exc_info_to_string(err, test))


def run(name):
    signal.alarm(seconds)
    module = importlib.import_module(f"tests.test_{name}")
    unittest.TestSuite(unittest.TestLoader().loadTestsFromModule(module)).run(Result())
    print("RESULT end", flush=True)


for name in names:
    print(f"MODULE {name}", flush=True)
    child = os.fork()
    if not child:
        try:
            run(name)
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    code = os.waitstatus_to_exitcode(status)
    print(f"\nSTATUS {code if code >= 0 else 128 - code}", flush=True)
'''


def expected(guest):
    """(pattern, reason) of each test that is expected to be skipped in a guest, or to fail."""
    rules = []
    with open(EXPECTED, encoding="utf-8") as f:
        for number, line in enumerate(f, 1):
            line = line.split("#")[0].strip()
            if not line:
                continue
            pattern, *reason = line.split(None, 1)
            only, at, pattern = pattern.rpartition("@")
            if not reason:
                raise Failure(f"{EXPECTED}:{number}: no reason")
            if not at or only == guest:
                rules.append((pattern, reason[0]))
    return rules


def prepare(b):
    """Unpacks the tests on node 1; returns the modules."""
    if "modules" not in b.state:
        b.sh(1, PREPARE + RUNNER + "\nEND\n")
        names = b.sh(1, "cd /tmp/t/tests && ls test_*.py").split()
        b.state["modules"] = [n[5:-3] for n in names]
    return b.state["modules"]


def outcomes(text):
    """{test: (outcome, reason)} of one module; a test that began and did not end has crashed."""
    found = {}
    for line in text.splitlines():
        if not line.startswith("RESULT "):
            continue
        _, outcome, *rest = line.split(" ", 3)
        if outcome != "end":
            name = rest[0].removeprefix("tests.test_")
            if outcome != "start" or name not in found:
                found[name] = (outcome, rest[1] if len(rest) > 1 else "")
    return found


@GROUP.test(timeout=600, debug="first")
def suite(b):
    """Each test of pyverbs counts; only those in the list may be skipped."""
    guest = b.lab.vms[0].guest.name
    rules, used = expected(guest), set()
    passed = total = bad = 0
    modules = prepare(b)
    text = b.sh(1, f"cd /tmp/t/tests && python3 run_all.py {100 * int(b.slow)} {','.join(modules)} "
                   f"--dev {DEV} 2>&1", 500)
    b.sh(1, "echo 0 >/proc/sys/vm/nr_hugepages")
    parts = re.findall(r"^MODULE (\S+)\n(.*?)^STATUS (\d+)$", text, re.M | re.S)
    need([p[0] for p in parts] == modules, f"not each module has run: {tail(text)}")
    for module, text, status in parts:
        status = int(status)
        results = outcomes(text)
        if status or "RESULT end" not in text or not results:
            bad += 1
            b.sub(module, "FAIL", f"status {status} in the middle", kind_of(status, text))
        for name, (outcome, why) in results.items():
            total += 1
            rule = next((r for r in rules if fnmatch.fnmatch(name, r[0])), None)
            if rule:
                used.add(rule[0])
            if outcome == "pass":
                passed += 1
                b.sub(name, "PASS")
            elif rule and outcome == ("fail" if rule[1].startswith(FAILS) else "skip"):
                b.sub(name, "SKIP", rule[1])
            elif outcome == "skip":
                bad += 1
                b.sub(name, "FAIL", f"skipped, but not in the list: {head(why)}")
            else:
                bad += 1
                crashed = outcome == "start"
                b.sub(name, "FAIL", "crashed" if crashed else why[-200:],
                      kind_of(status, text) if crashed else "data")
    b.note(f"{passed} of {total} passed, {bad} bad")
    if bad:
        raise Failure(f"{bad} of {total} failed")
    if guest not in LEAST:
        return
    stale = [r[0] for r in rules if r[0] not in used]
    if stale:
        raise Failure(f"the list names tests that do not exist: {stale}")
    if passed < LEAST[guest][0] or total != LEAST[guest][1]:
        raise Failure(f"{passed} of {total} passed, not {LEAST[guest]}")
