# SPDX-License-Identifier: GPL-2.0-or-later
"""What the system tests share: groups of tests that share a lab, and its supervision.

A test is a function with the decorator @GROUP.test. It gets a Bench, and fails by an
exception. After each test, passed or not, the harness judges the messages of the kernels, of
QEMU and of the switch, and which machines, helpers and programs have ended. Whatever the test
did not announce is a failure.
"""
import contextlib
import copy
import fnmatch
import os
import re
import shutil
import signal
import subprocess
import time
import traceback

from check.result import Case, write_junit
from ohca_lab import attach, cli, paths
from ohca_lab.channel import GuestGone
from ohca_lab.lab import Lab, LabError
from ohca_lab.qmp import QmpError, qmp

from . import leaks
from .klog import KernelLog
from .program import Program
from .verdict import Failure, Skip, kind_of, worst

SHARE = os.path.join(paths.BUILD, "tests", "system", "share")
LOGS = os.path.join(paths.BUILD, "tests", "logs")
DEV = "ohca_0"
# For programs with pyverbs: e has its constants. After rdma-core 56 they are only in classes.
PYVERBS_ENUMS = """
try:
    import pyverbs.enums as e
except ImportError:
    import pyverbs.libibverbs_enums as enums
    class e: pass
    for c in vars(enums).values():
        for name, value in getattr(c, "__members__", {}).items():
            setattr(e, name, value)
"""
PEER_PORT = 18600
PERF_PORT = 18515

# The tools wait a second for each answer, and then end without a retry. A node may be stopped for
# longer. Not all of them read a timeout from their settings file.
DIAGS = """mkdir -p /usr/local/sbin && cd /usr/local/sbin || exit 1
for t in ibnetdiscover iblinkinfo ibping ibportstate ibqueryerrors ibroute ibtracert perfquery \
		saquery sminfo smpquery; do
	printf '#!/bin/sh\\nexec /usr/sbin/%s -t 10000 "$@"\\n' $t >$t && chmod +x $t || exit 1
done"""

# Printed from a node when a test has failed: its kernel's log, its programs, and the stacks of
# those that wait in the kernel.
LAST_WORDS = """dmesg; ps axo pid,stat,wchan:20,args | grep -v ']$'
for p in /proc/[0-9]*; do
	grep -q '^State:.D' $p/status 2>/dev/null && echo "$p $(cat $p/comm)" && cat $p/stack
done"""


class Overdue(BaseException):
    """A test has exceeded its time."""


class Test:
    """One function; see Group.test."""

    def __init__(self, function, name, timeout, debug, reports=None, lock_order=None, says=None):
        self.function, self.name, self.timeout, self.debug = function, name, timeout, debug
        self.reports, self.lock_order, self.says = reports, lock_order, says


class Group:
    """Tests that share a lab, in the order of their definition.

    A group that follows one with the same lab goes on in it.
    """

    def __init__(self, name, lab=None, debug=True, prepare=None, campaign=False):
        """lab: options of 'ohca-lab up', or None for no lab; debug: also on the debug kernel;
        prepare: called with the bench before each test, puts a fresh lab in shape;
        campaign: runs only if it is asked for by name."""
        self.name, self.lab, self.debug, self.prepare = name, lab, debug, prepare
        self.campaign = campaign
        self.tests = []

    def test(self, function=None, *, timeout=60, debug=True, name=None, **announced):
        """Decorator: function(bench) is a test.

        timeout in seconds, four times that on the debug kernel. debug: True to run on the debug
        kernel, too; False if never; "only" to run on it alone; "first" to run on it, and on other
        kernels if it is named. What it announces: reports, a pattern of kernel reports that it
        provokes; says, a pattern of warnings of QEMU and the switch; lock_order, a pattern, dots
        match ends of lines, of one whole report of lockdep that Debian's own code earns; lockdep
        is off then, so the next test gets a fresh lab.
        """
        def add(f):
            self.tests.append(Test(f, name or f.__name__, timeout, debug, **announced))
            return f
        return add(function) if function else add


# What QEMU and the switch write when something is wrong. SIGTERM is ours.
WARNED = re.compile(r"warning: |error: |terminating on signal (?!15)")


class Bench:
    """The functions and the state that a test gets."""

    def __init__(self, run):
        self.run = run
        self.group = self.lab = None
        self.state = {}     # values that tests of one lab pass to each other
        self.seen = set()   # statuses and events that programs reported, in all labs
        self.debug = run.opt.kernel == "debug"
        self.slow = (4 if self.debug else 1) * run.opt.patience
        self.started = self.launched = 0
        self.spent = False  # the lab must not be used for another test
        self.transcript = None
        self.kernels = {}   # node: KernelLog
        self.programs = []  # programs of this test in the background
        self.dead = set()   # names of machines that a test ends
        self.told = {}      # parts that have ended, and logs: what was judged

    def note(self, text):
        """Adds a line to the log of the test."""
        if self.transcript:
            self.transcript.write(text.rstrip("\n") + "\n")
            self.transcript.flush()

    def sub(self, name, outcome, why="", kind="data"):
        """Records the outcome of a part of a test, counted like a test."""
        self.run.result(f"{self.group.name}.{name}", outcome, why, kind)

    def sh(self, node, script, timeout=30, status=0):
        """Runs a script on a node; returns its output; status None accepts any."""
        got, text = self.lab.capture(node, script, timeout * self.slow)
        self.note(f"node{node}# {script}\n{text}[status {got}]")
        if status is not None and got != status:
            raise Failure(f"node{node}: '{head(script)}' ended with status {got}: {tail(text)}",
                          kind_of(got, text))
        return text

    def status(self, node, script, timeout=30):
        """Runs a script on a node; returns (status, output)."""
        got, text = self.lab.capture(node, script, timeout * self.slow)
        self.note(f"node{node}# {script}\n{text}[status {got}]")
        return got, text

    def qmp(self, node, command, **arguments):
        """Runs a command of a node's QEMU; returns its result."""
        try:
            answer = qmp(os.path.join(self.lab.vms[node - 1].dir, "qmp"), command, **arguments)
        except QmpError as e:
            raise Failure(str(e)) from None
        self.note(f"node{node}: qmp {command} {arguments}: {answer!r}")
        return answer

    def plug(self, node, **properties):
        """Plugs a card into a running machine."""
        self.qmp(node, "device_add", driver="ohca", fabric=f"{self.lab.dir}/fabric", **properties)

    @contextlib.contextmanager
    def stopped(self, node):
        """In this context, a node's machine is stopped, with its HCA."""
        self.qmp(node, "stop")
        try:
            yield
        finally:
            self.qmp(node, "cont")
            self.lab.stood_still(node)

    def pair(self, server, client, port=None, timeout=40, on=(1, 2)):
        """Runs a server and its client; returns both outputs."""
        status, s_out, c_out = self.lab.pair(server, client, port, timeout * self.slow, on)
        self.note(f"node{on[0]}# {server}\n{s_out}node{on[1]}# {client}\n{c_out}[{status}]")
        if status:
            raise Failure(f"'{head(client)}' failed with {status}: "
                          f"{tail(c_out)} / server: {tail(s_out)}", kind_of(status, c_out + s_out))
        return s_out, c_out

    def peer(self, what, timeout=60, on=(1, 2)):
        """Runs ohca-peer on two nodes."""
        return self.pair(f"/share/ohca-peer {what}", f"/share/ohca-peer {what} node{on[0]}",
                         PEER_PORT, timeout, on)

    def background(self, node, command, ready=None, ends=(0,)):
        """Starts a program on a node, which may run until the test is over.

        ready: a condition of the shell that is waited for. If the program ends by itself,
        its status must be one of ends. Returns a Program.
        """
        self.launched += 1
        p = Program(self, node, command, self.launched, ends)
        self.programs.append(p)
        return p.ready(ready) if ready else p

    def expect_dead(self, node):
        """Declares that this test ends the machine of a node, which then does not run any more."""
        self.dead.add(self.lab.vms[node - 1].name)

    def living(self):
        """The numbers of the nodes that no test has ended."""
        return [vm.k for vm in self.lab.vms if vm.name not in self.dead]

    def start(self):
        """Boots the group's lab."""
        self.started += 1
        self.spent = False
        self.state, self.told, self.dead = {}, {}, set()
        argv = ["up", "--share", SHARE, "--kernel", self.run.opt.kernel,
                "--guest", ",".join(self.run.opt.guest), "--attach", self.run.opt.attach,
                *self.group.lab]
        opt = cli.complete(cli.options(argv))
        if why := attach.wrong(opt):
            raise LabError(why)
        self.lab = Lab(f"t{os.getpid()}-{self.started}", opt)
        self.lab.slow *= self.run.opt.patience
        self.kernels = {k: KernelLog(os.path.join(self.lab.dir, f"n{k}", "console.log"))
                        for k in range(1, opt.nodes + 1)}
        self.lab.start()
        for vm in self.lab.vms:
            self.sh(vm.k, DIAGS)
            if vm.guest.arch != "amd64":
                self.sh(vm.k, f"mount --bind /share/{vm.guest.arch} /share")

    def kernel_has(self, node, option):
        """Skips the test if the kernel of a node lacks an option; CONFIG_ is left out."""
        status, _ = self.status(node, "f=/boot/config-$(uname -r); [ ! -e $f ] || "
                                      f"grep -q ^CONFIG_{option}= $f", 20)
        if status:
            guest = self.lab.vms[node - 1].guest.name
            raise Skip(f"the kernel of {guest} has no {option}")

    def module(self, node, name):
        """The path of one of the kernel modules of these tests on a node."""
        return f"/share/{self.lab.vms[node - 1].guest.modules(self.run.opt.kernel)}/{name}"

    def stop(self):
        """Ends the lab, which has a result of its own: GROUP.lab."""
        if not self.lab:
            return
        begin = time.monotonic()
        name = f"{self.group.name}.lab"
        with open(os.path.join(self.run.logs, f"{name}-{self.started}.log"), "w",
                  encoding="utf-8") as log:
            self.transcript = log
            try:
                failure = worst(self.finish())
                self.note(f"FAIL [{failure.kind}] {failure}" if failure else "PASS")
            finally:
                self.transcript = None
                self.abandon()
        self.run.result(name, "FAIL" if failure else "PASS", str(failure or ""),
                        failure and failure.kind, time.monotonic() - begin)

    def abandon(self):
        """Ends the lab at once."""
        lab, self.lab = self.lab, None
        if lab:
            lab.teardown()

    def finish(self):
        """What is wrong with a lab at its end, when all of it has ended: Failures.

        What its parts wrote goes to the logs.
        """
        failures = []
        nodes = [k for k in self.living() if self.lab.vms[k - 1].alive()]
        if self.debug:
            for node, kind, text in leaks.scan(self.lab, nodes):
                self.note(f"node{node}: kmemleak:\n{text}")
                why = leaks.summary(text) if kind == "leak" else text
                failures.append(Failure(f"node{node}: {why}", kind))
        failures += self.judge()
        try:
            self.lab.check_clocks()
        except (LabError, GuestGone) as e:
            failures.append(Failure(str(e), "time"))
        where = os.path.join(self.run.logs, f"lab-{self.started}")
        try:
            self.lab.save_logs(where)
            for k, log in self.kernels.items():
                with open(os.path.join(where, f"node{k}-dmesg"), "w", encoding="utf-8") as f:
                    f.write(log.text())
            for k in nodes:
                status, text = self.lab.capture(k, "cat /var/log/opensm.log", 20)
                if not status:
                    with open(os.path.join(where, f"node{k}-opensm.log"), "w",
                              encoding="utf-8") as f:
                        f.write(text)
        except OSError as e:
            self.note(f"logs: {e}")
        for name, how, kind in self.lab.end(30 * self.slow):
            if name not in self.dead and name not in self.told:
                failures.append(Failure(f"{name} {how}", kind))
        return failures + self._logs(None)

    def judge(self, test=None):
        """Failures since the last call that no test has announced."""
        failures = self._programs() + self._parts() + self._logs(test and test.says)
        for vm in self.lab.vms:
            log = self.kernels[vm.k]
            try:
                self._read_kernel(vm.k)
            except Failure as e:
                failures.append(e)
            new = log.lines[log.judged:]
            if new:
                self.note("\n".join([f"node{vm.k}: kernel:", *new]))
            found, off = log.judge(test and test.reports, test and test.lock_order)
            self.spent |= off
            if found:
                failures.append(Failure(f"kernel report: node{vm.k}: {found[0]}", "kernel"))
        return failures

    def _programs(self):
        """Ends the test's programs; Failures of those that ended before with a wrong status."""
        failures = []
        for p in self.programs:
            if self.lab.vms[p.node - 1].alive():
                try:
                    p.finish()
                except Failure as e:
                    failures.append(e)
        self.programs = []
        return failures

    def _parts(self):
        """Failures of machines and helpers that have ended, or still run, unannounced."""
        ended = self.lab.ended()
        failures = []
        for name, how in ended.items():
            if name not in self.dead and name not in self.told:
                self.told[name] = how
                failures.append(Failure(f"{name} {how}", "crash"))
        for name in self.dead - ended.keys():
            failures.append(Failure(f"{name} runs, which a test was to end"))
        return failures

    def _logs(self, allowed):
        """Failures for lines that QEMU and the switch wrote since the last call."""
        failures = []
        for name, path in self.lab.logs().items():
            try:
                with open(path, "rb") as f:
                    f.seek(self.told.setdefault(path, 0))
                    data = f.read()
            except OSError:
                continue
            self.told[path] += len(data)
            text = data.decode(errors="replace")
            if text:
                self.note(f"{name} wrote:\n{text}")
            kind = kind_of(0, text)
            if kind in ("sanitizer", "crash"):
                failures.append(Failure(f"{name} wrote: {tail(text)}", kind))
            failures += [Failure(f"{name} wrote: {x}") for x in text.splitlines()
                         if WARNED.search(x) and not (allowed and re.search(allowed, x))][:1]
        return failures

    def _read_kernel(self, node):
        """Reads the log of a node's kernel; from its console if there is no other way."""
        vm, log = self.lab.vms[node - 1], self.kernels[node]
        if not vm.alive():
            log.read_console()
            return
        try:
            log.read(lambda script: self.lab.capture(node, script, 20 * self.slow))
        except Failure as e:
            log.read_console()
            raise Failure(f"node{node} {e}", e.kind) from None

    def kernel_said(self, node):
        """All lines of a node's kernel since it booted."""
        self._read_kernel(node)
        return self.kernels[node].text()

    def kernel_says(self, node):
        """The lines of a node's kernel since the test began."""
        self._read_kernel(node)
        log = self.kernels[node]
        return "\n".join(log.lines[log.judged:])


OUTCOMES = {"PASS": "passed", "FAIL": "failed", "SKIP": "skipped"}


class Run:
    """Runs all selected groups."""

    def __init__(self, opt, modules):
        self.opt = opt
        self.name = opt.logs or "-".join(
            ["system", *(paths.Guest(name).modules(opt.kernel) for name in opt.guest)])
        self.logs = os.path.join(LOGS, self.name)
        self.cases = []
        self.begin = time.monotonic()
        self.count = {"PASS": 0, "FAIL": 0, "SKIP": 0}
        self.groups = []
        every = [group for module in modules for group in module.GROUPS]
        if {g.name for g in every if g.campaign} & {g.name for g in every if not g.campaign}:
            raise ValueError("a campaign has the name of a group, and would run with it")
        there = [n for g in every for n in (g.name, *(f"{g.name}.{t.name}" for t in g.tests))]
        self.unknown = [n for n in opt.names if not fnmatch.filter(there, n)]
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
        if not self.opt.names:
            return not group.campaign and not (self.opt.kernel == "stock" and test.debug == "first")
        return any(fnmatch.fnmatch(full, n) or fnmatch.fnmatch(group.name, n)
                   for n in self.opt.names)

    @staticmethod
    def _copy(group, tests):
        g = copy.copy(group)
        g.tests = tests
        return g

    def result(self, name, outcome, why="", kind="", seconds=None):
        """Prints and counts one result; kind is that of a failure, see verdict.KINDS."""
        self.count[outcome] += 1
        group, _, test = name.partition(".")
        told = f"[{kind}] {why}" if outcome == "FAIL" else why
        self.cases.append(Case(group, test, OUTCOMES[outcome], told, seconds))
        took = "" if seconds is None or outcome != "PASS" else f" ({seconds:.1f} s)"
        why = f": [{kind}] {why}" if outcome == "FAIL" else f": {why}" if why else ""
        print(f"{outcome}: {name}{took}{why}", flush=True)

    def write(self):
        """Writes all results so far as JUnit's XML."""
        write_junit(os.path.join(LOGS, f"junit-{self.name}.xml"),
                    [(self.name, time.monotonic() - self.begin, self.cases)])

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
            bench.stop()
        finally:
            bench.abandon()
            self.write()
        print(f"{self.name}: {self.count['PASS']} passed, {self.count['FAIL']} "
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
            self.write()

    @staticmethod
    def _overdue(_number, _frame):
        raise Overdue()

    def _group(self, bench, group):
        for test in group.tests:
            if group.lab is not None and not bench.lab:
                if not self._start(bench, f"{group.name}.{test.name}"):
                    continue
            passed = self._one(bench, test)
            # the failure may have left an unknown state
            if bench.spent or not passed and not self.opt.keep_going:
                bench.stop()

    def _start(self, bench, name):
        """Boots a lab; if that fails, the test that needs it has failed."""
        try:
            bench.start()
            return True
        except (LabError, GuestGone, Failure) as e:
            late = re.search("in time|not ACTIVE|no carrier|clock", str(e))
            failures = [Failure(f"lab: {tail(str(e))}", "time" if late else "status")]
        if bench.lab and bench.lab.lock:
            failures += bench.judge()
            bench.lab.save_logs(os.path.join(self.logs, f"lab-{bench.started}"))
        bench.abandon()
        failure = worst(failures)
        self.result(name, "FAIL", str(failure), failure.kind)
        return False

    def _one(self, bench, test):
        name = f"{bench.group.name}.{test.name}"
        begin = time.monotonic()
        outcome, why, failures = "PASS", "", []
        with open(os.path.join(self.logs, f"{name}.log"), "w", encoding="utf-8") as log:
            bench.transcript = log
            signal.setitimer(signal.ITIMER_REAL, test.timeout * bench.slow)
            try:
                if bench.group.prepare:
                    bench.group.prepare(bench)
                test.function(bench)
            except Skip as e:
                outcome, why = "SKIP", str(e)
            except Failure as e:
                failures.append(e)
            except Overdue:
                failures.append(Failure(f"not done after {test.timeout * bench.slow} s", "time"))
            except (TimeoutError, subprocess.TimeoutExpired) as e:
                failures.append(Failure(f"{type(e).__name__}: {e}", "time"))
                bench.note(traceback.format_exc())
            except Exception as e:  # pylint: disable=broad-except
                failures.append(Failure(f"{type(e).__name__}: {e}",
                                        "status" if isinstance(e, OSError) else "data"))
                bench.note(traceback.format_exc())
            finally:
                signal.setitimer(signal.ITIMER_REAL, 0)
            if bench.lab:
                failures += bench.judge(test)
            failure = worst(failures)
            kind = ""
            if failure:
                outcome, why, kind = "FAIL", str(failure), failure.kind
            bench.note(f"{outcome} {kind} {why}")
            if failure and bench.lab:
                self._last_words(bench)
            bench.transcript = None
        self.result(name, outcome, why, kind, time.monotonic() - begin)
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
    """The first words of a script."""
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


def linux(b, node):
    """The version of a node's kernel: (major, minor)."""
    return tuple(int(x) for x in re.match(r"(\d+)\.(\d+)", b.sh(node, "uname -r")).groups())


def until(seconds, condition, why):
    """Waits until condition() is true; why: the error text, or a function that returns it.

    Each check uses time of the node that it is waiting for. So the pauses are as long as the
    checks, up to 2 s.
    """
    end = time.monotonic() + seconds
    while True:
        # a condition that became true while we, or a node, were stopped was in time
        asked = time.monotonic()
        late = asked > end
        if condition():
            return
        if late:
            raise Failure(why() if callable(why) else why, "time")
        time.sleep(min(max(time.monotonic() - asked, 0.1), 2))
