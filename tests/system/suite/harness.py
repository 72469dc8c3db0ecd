# SPDX-License-Identifier: GPL-2.0-or-later
"""What the system tests share: groups of tests that share a lab, and its supervision.

A test is a function with the decorator @GROUP.test. It gets a Bench, and fails by an
exception. After each test the kernel log of every node is read; a report in it that the
test did not announce is a failure.
"""
import fnmatch
import json
import os
import re
import shutil
import signal
import socket
import sys
import time
import traceback

from ohca_lab import cli, paths
from ohca_lab.lab import Lab, LabError

SHARE = os.path.join(paths.BUILD, "tests", "system", "share")
LOGS = os.path.join(paths.BUILD, "tests", "logs")
DEV = "ohca_0"
PEER_PORT = 18600
PERF_PORT = 18515

# What the kernel says when something is wrong.
REPORT = re.compile(
    r"WARNING:|BUG[: ]|\bOops\b|KASAN|UBSAN|general protection|unable to handle|"
    r"INFO: task .* blocked|possible (circular|recursive|irq)|inconsistent lock state|"
    r"suspicious RCU|sleeping function called|DMA-API: (?!preallocated|debugging)|"
    r"kmemleak: \d+ new|ODEBUG|soft lockup|detected stall|list_(add|del) corruption|"
    r"refcount_t|unexpected fatal signal|segfault at|invalid opcode|Kernel panic|"
    r"bad unlock balance|held lock freed|stack-protector|"
    r"ohca .*(fatal|timed out|gone)|invalid context|Call Trace")
# What lockdep says of an order of locks, to the end of its stack trace.
LOCK_ORDER = re.compile(r"^.*possible circular locking(?:.*\n)*?.*</TASK>$", re.M)

# syslog(SYSLOG_ACTION_READ_CLEAR): what is read is cleared and nothing else. dmesg -c reads, then
# clears, and what the kernel says in between is lost.
READ_LOG = r"""perl -e '
$_ = "\0" x (1 << 22);
$n = syscall(103, 4, $_, length);
$n < 0 and die "syslog: $!\n";
$_ = substr($_, 0, $n);
s/^<\d+>//mg;
print'"""

# The tools wait a second for each answer, and when just that long has passed do not ask again
# but end. A node may stand still for longer. Of their settings file not all take a timeout.
DIAGS = """mkdir -p /usr/local/sbin && cd /usr/local/sbin || exit 1
for t in ibnetdiscover iblinkinfo ibping ibportstate ibqueryerrors ibroute ibtracert perfquery \
		saquery sminfo smpquery; do
	printf '#!/bin/sh\\nexec /usr/sbin/%s -t 10000 "$@"\\n' $t >$t && chmod +x $t || exit 1
done"""

# What a node is asked when a test has failed: its kernel's log, its programs, and where those
# wait that wait for something.
LAST_WORDS = """dmesg; ps axo pid,stat,wchan:20,args | grep -v ']$'
for p in /proc/[0-9]*; do
	grep -q '^State:.D' $p/status 2>/dev/null && echo "$p $(cat $p/comm)" && cat $p/stack
done"""


class Failure(Exception):
    """Why a test failed."""


class Skip(Exception):
    """Why a test cannot run here."""


class Overdue(BaseException):
    """A test took longer than it may."""


class Test:
    """One function; see Group.test."""

    def __init__(self, function, name, timeout, debug, reports, lock_order):
        self.function, self.name, self.timeout = function, name, timeout
        self.debug, self.reports, self.lock_order = debug, reports, lock_order


class Group:
    """Tests that share a lab, in the order of their definition.

    A group that follows one with the same lab goes on in it.
    """

    def __init__(self, name, lab=None, debug=True, prepare=None):
        """lab: options of 'ohca-lab up', or None for no lab; debug: also on the debug kernel;
        prepare: called with the bench before each test, puts a fresh lab in shape."""
        self.name, self.lab, self.debug, self.prepare = name, lab, debug, prepare
        self.tests = []

    def test(self, function=None, *, timeout=60, debug=True, reports=None, lock_order=None,
             name=None):
        """Decorator: function(bench) is a test.

        timeout in seconds, four times that on the debug kernel. debug: also run
        there, or "only" there. reports: pattern of kernel reports that it provokes.
        lock_order: pattern, dots match ends of lines, of one whole report of lockdep that
        Debian's own code earns; lockdep is off then, so the next test gets a fresh lab.
        """
        def add(f):
            self.tests.append(Test(f, name or f.__name__, timeout, debug, reports, lock_order))
            return f
        return add(function) if function else add


class Bench:
    """What a test works with."""

    def __init__(self, run):
        self.run = run
        self.group = self.lab = None
        self.state = {}     # what tests of one lab tell each other
        self.seen = set()   # statuses and events that programs were told of, in all labs
        self.debug = run.opt.kernel == "debug"
        self.slow = (4 if self.debug else 1) * run.opt.patience
        self.started = 0
        self.spent = False  # the lab is not fit for another test
        self.transcript = None

    def note(self, text):
        """One more line for the log of the test."""
        if self.transcript:
            self.transcript.write(text.rstrip("\n") + "\n")
            self.transcript.flush()

    def sub(self, name, outcome, why=""):
        """The outcome of a part of a test, counted like a test."""
        self.run.result(f"{self.group.name}.{name}", outcome, why)

    def sh(self, node, script, timeout=30, status=0):
        """Runs a script on a node, returns its output; status None accepts any."""
        got, text = self.lab.capture(node, script, timeout * self.slow)
        self.note(f"node{node}# {script}\n{text}[status {got}]")
        if status is not None and got != status:
            raise Failure(f"node{node}: '{head(script)}' ended with status {got}: {tail(text)}")
        return text

    def status(self, node, script, timeout=30):
        """Runs a script on a node, returns (status, output)."""
        got, text = self.lab.capture(node, script, timeout * self.slow)
        self.note(f"node{node}# {script}\n{text}[status {got}]")
        return got, text

    def qmp(self, node, command, **arguments):
        """Runs a command of a node's QEMU, returns what it returns."""
        with socket.socket(socket.AF_UNIX) as s:
            s.settimeout(30)
            s.connect(os.path.join(self.lab.vms[node - 1].dir, "qmp"))
            with s.makefile("rw", encoding="utf-8") as f:
                json.loads(f.readline())
                for what, args in (("qmp_capabilities", {}), (command, arguments)):
                    print(json.dumps({"execute": what, "arguments": args}), file=f, flush=True)
                    answer = {"event": None}
                    while "event" in answer:
                        answer = json.loads(f.readline())
                    if "error" in answer:
                        raise Failure(f"{what}: {answer['error']['desc']}")
        self.note(f"node{node}: qmp {command} {arguments}: {answer['return']!r}")
        return answer["return"]

    def pair(self, server, client, port=None, timeout=40, on=(1, 2)):
        """Runs a server and its client; returns both outputs."""
        status, s_out, c_out = self.lab.pair(server, client, port, timeout * self.slow, on)
        self.note(f"node{on[0]}# {server}\n{s_out}node{on[1]}# {client}\n{c_out}[{status}]")
        if status:
            raise Failure(f"'{head(client)}' failed with {status}: "
                          f"{tail(c_out)} / server: {tail(s_out)}")
        return s_out, c_out

    def peer(self, what, timeout=60, on=(1, 2)):
        """Runs ohca-peer on two nodes."""
        return self.pair(f"/share/ohca-peer {what}", f"/share/ohca-peer {what} node{on[0]}",
                         PEER_PORT, timeout, on)

    def start(self):
        """Boots the group's lab."""
        self.started += 1
        self.spent = False
        self.state = {}
        argv = ["up", "--share", SHARE, "--kernel", self.run.opt.kernel, *self.group.lab]
        opt = cli.complete(cli.parser().parse_args(argv))
        self.lab = Lab(f"t{os.getpid()}-{self.started}", opt)
        self.lab.slow *= self.run.opt.patience
        self.lab.start()
        for vm in self.lab.vms:
            self.sh(vm.k, DIAGS)

    def stop(self):
        """Ends it; what it wrote goes to the logs."""
        lab, self.lab = self.lab, None
        if not lab:
            return
        try:
            if lab.lock:
                where = os.path.join(self.run.logs, f"lab-{self.started}")
                lab.save_logs(where)
                for vm in lab.vms:
                    text = "".join(self.state.get("kernel", {}).get(vm.k, []))
                    with open(os.path.join(where, f"{vm.name}-dmesg"), "a",
                              encoding="utf-8") as f:
                        f.write(text)
                if lab.vms and lab.vms[0].alive():
                    with open(os.path.join(where, "opensm.log"), "w", encoding="utf-8") as f:
                        f.write(lab.capture(1, "cat /var/log/opensm.log", 20)[1])
        except OSError as e:
            self.note(f"logs: {e}")
        finally:
            lab.teardown()

    def kernel_log(self, node):
        """What the kernel of a node said since the last call."""
        status, text = self.lab.capture(node, READ_LOG, 20 * self.slow)
        if status:
            raise Failure(f"node{node} does not answer: {tail(text)}")
        self.state.setdefault("kernel", {}).setdefault(node, []).append(text)
        return text

    def kernel_said(self, node):
        """All that the kernel of a node said since it booted."""
        self.kernel_log(node)
        return "".join(self.state["kernel"][node])

    def check_kernels(self, allowed, lock_order=None):
        """Raises Failure if a living node's kernel reported something; see Group.test."""
        found = []
        for vm in self.lab.vms:
            if not vm.alive():
                continue
            text = self.kernel_log(vm.k)
            if text:
                self.note(f"node{vm.k}: kernel:\n{text}")
            report = LOCK_ORDER.search(text)
            if report and lock_order and re.search(lock_order, report[0], re.S):
                text = text.replace(report[0], "")
                self.spent = True
            lines = [x for x in text.splitlines() if REPORT.search(x)
                     and not (allowed and re.search(allowed, x))]
            if lines:
                found.append(f"node{vm.k}: {lines[0].strip()}")
        if found:
            raise Failure("kernel report: " + "; ".join(found))


class Run:
    """All groups that were asked for."""

    def __init__(self, opt, modules):
        self.opt = opt
        self.logs = os.path.join(LOGS, f"system-{opt.kernel}")
        self.count = {"PASS": 0, "FAIL": 0, "SKIP": 0}
        self.groups = []
        for module in modules:
            for group in module.GROUPS:
                tests = [t for t in group.tests if self._wanted(group, t)]
                if tests:
                    self.groups.append(self._copy(group, tests))

    def _wanted(self, group, test):
        if self.opt.kernel == "debug" and not (group.debug and test.debug):
            return False
        if self.opt.kernel == "stock" and test.debug == "only":
            return False
        full = f"{group.name}.{test.name}"
        return not self.opt.names or any(
            fnmatch.fnmatch(full, n) or fnmatch.fnmatch(group.name, n) for n in self.opt.names)

    @staticmethod
    def _copy(group, tests):
        g = Group(group.name, group.lab, group.debug, group.prepare)
        g.tests = tests
        return g

    def result(self, name, outcome, why="", seconds=None):
        """Prints and counts one result."""
        self.count[outcome] += 1
        took = "" if seconds is None else f" ({seconds:.1f} s)"
        print(f"{outcome}: {name}{took if outcome == 'PASS' else ''}{': ' + why if why else ''}",
              flush=True)

    def all(self):
        """Runs everything; returns the exit status."""
        shutil.rmtree(self.logs, ignore_errors=True)
        os.makedirs(self.logs)
        signal.signal(signal.SIGALRM, self._overdue)
        bench = Bench(self)
        try:
            for i in range(self.opt.repeat):
                if self.opt.repeat > 1:
                    print(f"round {i + 1} of {self.opt.repeat}", flush=True)
                self._round(bench)
                if self.count["FAIL"]:
                    break
        finally:
            bench.stop()
        print(f"system-{self.opt.kernel}: {self.count['PASS']} passed, {self.count['FAIL']} "
              f"failed, {self.count['SKIP']} skipped", flush=True)
        return 1 if self.count["FAIL"] else 0

    def _round(self, bench):
        for group in self.groups:
            begin = time.monotonic()
            if bench.lab and bench.group.lab != group.lab:
                bench.stop()
            bench.group = group
            self._group(bench, group)
            print(f"group {group.name}: {time.monotonic() - begin:.0f} s", flush=True)

    @staticmethod
    def _overdue(_number, _frame):
        raise Overdue()

    def _group(self, bench, group):
        for test in group.tests:
            if group.lab is not None and not bench.lab:
                try:
                    bench.start()
                except LabError as e:
                    self.result(f"{group.name}.{test.name}", "FAIL", f"lab: {tail(str(e))}")
                    bench.stop()
                    continue
            passed = self._one(bench, test)
            # who knows what a failure left behind
            if bench.spent or not passed and not self.opt.keep_going:
                bench.stop()

    def _one(self, bench, test):
        name = f"{bench.group.name}.{test.name}"
        begin = time.monotonic()
        outcome, why = "PASS", ""
        with open(os.path.join(self.logs, f"{name}.log"), "w", encoding="utf-8") as log:
            bench.transcript = log
            signal.setitimer(signal.ITIMER_REAL, test.timeout * bench.slow)
            try:
                if bench.group.prepare:
                    bench.group.prepare(bench)
                test.function(bench)
                if bench.lab:
                    bench.check_kernels(test.reports, test.lock_order)
            except Skip as e:
                outcome, why = "SKIP", str(e)
            except Failure as e:
                outcome, why = "FAIL", str(e)
            except Overdue:
                outcome, why = "FAIL", f"not done after {test.timeout * bench.slow} s"
            except (LabError, OSError, ValueError, LookupError, AttributeError, TypeError) as e:
                outcome, why = "FAIL", f"{type(e).__name__}: {e}"
                bench.note(traceback.format_exc())
            finally:
                signal.setitimer(signal.ITIMER_REAL, 0)
            bench.note(f"{outcome} {why}")
            if outcome == "FAIL" and bench.lab:
                self._last_words(bench)
            bench.transcript = None
        self.result(name, outcome, why, time.monotonic() - begin)
        return outcome != "FAIL"

    @staticmethod
    def _last_words(bench):
        for vm in bench.lab.vms:
            if vm.alive():
                _, text = bench.lab.capture(vm.k, LAST_WORDS, 20 * bench.slow)
            else:
                text = "\n".join(vm.last_words())
            bench.note(f"node{vm.k}, at the end:\n{text}")


def head(script):
    """A script's first words."""
    line = " ".join(script.split())
    return line if len(line) < 70 else line[:67] + "..."


def tail(text, chars=240):
    """The end of an output, on one line."""
    lines = [x.strip() for x in text.splitlines() if x.strip()]
    return " | ".join(lines[-6:])[-chars:] or "(no output)"


def need(condition, why):
    """Fails the test unless condition."""
    if not condition:
        raise Failure(why)


def find(pattern, text, what=None):
    """The match of a pattern that must be there; its first group if it has one."""
    m = re.search(pattern, text, re.M)
    if not m:
        raise Failure(f"{what or pattern!r} is not in: {tail(text)}")
    return m.group(1) if m.groups() else m.group(0)


def answered(b, node, host, count, options=""):
    """Each of a number of pings of a node is answered, in order, once the way is known.

    ping alone waits twice as long for the last answer as for the slowest before. With a
    deadline it sends more until so many answers are there: the first ones must be those.
    """
    b.sh(node, f"ping -c 1 -w {20 * b.slow} {host}", 30)
    text = b.sh(node, f"ping -c {count} -w {20 * b.slow} {options} {host}", 30)
    got = [int(x) for x in re.findall(r"icmp_seq=(\d+) ttl", text)]
    need(got[:count] == list(range(1, count + 1)) and "wrong data" not in text, tail(text))


def until(seconds, condition, why):
    """Waits until condition() is true; why: what is to be said if it never is, or gives that."""
    end = time.monotonic() + seconds
    while True:
        # what became true while we, or a node, stood still came in time
        late = time.monotonic() > end
        if condition():
            return
        if late:
            raise Failure(why() if callable(why) else why)
        time.sleep(0.1)


def warn(text):
    """A line for who watches."""
    print(text, file=sys.stderr, flush=True)
