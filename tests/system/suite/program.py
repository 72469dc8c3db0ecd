# SPDX-License-Identifier: GPL-2.0-or-later
"""A program that runs in the background of a node during its test."""
import shlex

from .verdict import Failure, kind_of

# $f.pid has the number of the program's process group, $f.status its exit status.
START = """f=%s; rm -f $f.*
(setsid -w sh -c %s >$f.log 2>&1; echo $? >$f.new; mv $f.new $f.status) \
</dev/null >/dev/null 2>&1 &
n=0; until [ -s $f.pid ]; do n=$((n + 1)); [ $n -lt 500 ] || exit 1; sleep 0.02; done"""
READY = """n=0; until %s; do n=$((n + 1)); [ $n -lt %d ] && [ ! -e %s.status ] || exit 1
sleep 0.05; done"""
KILL = """kill -%s -$(cat %s.pid); n=0; until [ -e %s.status ]; do n=$((n + 1)); \
[ $n -lt 400 ] || exit 1; sleep 0.05; done"""


class Program:
    """One program, see Bench.background; the harness calls verdict() after the test."""

    def __init__(self, bench, node, command, number, ends):
        self.b, self.node, self.command, self.ends = bench, node, command, ends
        self.file = f"/tmp/program-{number}"
        self.killed = False
        bench.sh(node, START % (self.file,
                                shlex.quote(f"echo $$ >{self.file}.pid\n{command}")))

    def ready(self, condition, seconds=40):
        """Waits until a condition of the shell is true on its node; fails if it ends before."""
        status, _ = self.b.status(self.node, READY % (condition, 20 * seconds * self.b.slow,
                                                      self.file), 2 * seconds)
        if status:
            ended, log = self.status(), self.log()
            raise Failure(f"node{self.node}: '{self.command}' " +
                          ("is not ready" if ended is None else f"ended with {ended}") +
                          f": {log[-200:].strip()}",
                          "time" if ended is None else kind_of(ended, log))
        return self

    def said(self, text, seconds=40):
        """Waits until it has printed a text."""
        return self.ready(f"grep -q {shlex.quote(text)} {self.file}.log", seconds)

    def log(self):
        """All its output."""
        return self.b.sh(self.node, f"cat {self.file}.log")

    def status(self):
        """Its exit status as in a shell; None while it runs."""
        text = self.b.sh(self.node, f"cat {self.file}.status 2>/dev/null; true").strip()
        return int(text) if text else None

    def kill(self, signal="KILL"):
        """Kills it; it has ended when this returns. It must run."""
        if self.status() is not None:
            self.verdict()
            raise Failure(f"node{self.node}: '{self.command}' has ended by itself: "
                          f"{self.log()[-200:].strip()}", "status")
        self.killed = True
        self.b.sh(self.node, KILL % (signal, self.file, self.file))

    def wait(self, seconds=40):
        """Waits until it has ended by itself with an allowed status; returns its output."""
        self.b.sh(self.node, f"n=0; until [ -e {self.file}.status ]; do n=$((n + 1)); "
                             f"[ $n -lt {int(20 * seconds * self.b.slow)} ] || exit 124; "
                             "sleep 0.05; done", 2 * seconds)
        self.verdict()
        return self.log()

    def end(self, seconds):
        """Waits that many seconds for its end, and kills it then."""
        self.b.status(self.node, f"n=0; until [ -e {self.file}.status ]; do n=$((n + 1)); "
                                 f"[ $n -lt {20 * seconds} ] || exit 1; sleep 0.05; done",
                      2 * seconds)
        self.finish()

    def verdict(self):
        """Fails if it has ended by itself with a status that is not allowed."""
        status = self.status()
        if not self.killed and status is not None and status not in self.ends:
            log = self.log()
            raise Failure(f"node{self.node}: '{self.command}' ended with {status}: "
                          f"{log[-200:].strip()}", kind_of(status, log))

    def finish(self):
        """Called at the end of its test: ends it and returns its verdict."""
        if self.killed:
            return
        self.verdict()
        if self.status() is None:
            self.kill()
