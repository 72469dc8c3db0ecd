# SPDX-License-Identifier: GPL-2.0-or-later
"""Runs a command of the check, writes its output to a log, and counts its cases."""
import os
import re
import select
import signal
import subprocess
import threading
import time

from check.result import Case, Reader

# Lines of a failed part that are shown although they are not at its end.
BAD = re.compile(r"^FAIL|^not ok|\[  (FAILED|ERROR) |error:|Error \d|ERROR: |runtime error|"
                 r"Assertion")
PRINT = threading.Lock()


def say(text):
    """Prints whole lines; several jobs run at once."""
    with PRINT:
        print(text, flush=True)


class Job:
    """One command.

    name: also the name of the log. needs: names of jobs that must have succeeded. build: it builds
    and has no cases. beside: a build at the lowest priority, beside other jobs. machines: it boots
    virtual machines. least: the number of cases that must pass. show: print its lines at once.
    limit: minutes, except for builds. again: (argv, tests) of a command that runs single ones of
    these tests once more.
    """

    def __init__(self, name, argv, needs=(), *, build=False, beside=False, machines=False, least=1,
                 show=False, limit=20, env=None, again=None):
        self.name, self.argv, self.needs = name, argv, needs
        self.build, self.beside, self.machines, self.least = build, beside, machines, least
        self.show, self.limit, self.env, self.again = show, limit, env, again
        self.cases, self.programs = [], []
        self.seconds = self.cpu = 0.0
        self.status = None          # None: has not run
        self.begin = None
        self.process = None
        self._reaping = threading.Lock()

    def count(self, outcome):
        """The number of cases with this outcome."""
        return sum(c.outcome == outcome for c in self.cases)

    @property
    def good(self):
        """Whether it has run without a failure."""
        return self.status == 0 and not self.count("failed")

    def run(self, top, logs, end):
        """Runs the command in the directory top, until the time end at most."""
        self.begin = begin = time.monotonic()
        limit = max(min(float("inf") if self.build else 60 * self.limit, end - begin), 0)
        log = os.path.join(logs, f"{self.name}.log")
        say(f"{self.name}: running, log in {log}")
        reader = Reader()
        with open(log, "wb") as out:
            self._follow(top, out, reader, begin, limit)
        self.seconds = time.monotonic() - begin
        reader.end(self.seconds)
        self.cases, self.programs = reader.cases, reader.programs
        self._judge()
        self._tell(log)

    def _follow(self, top, out, reader, begin, limit):
        """Starts the process and reads what it writes until it ends or its time is over.

        It has a process group of its own, so that all of it can be ended; it stays in the
        session, whose terminal sudo knows.
        """
        self.process = subprocess.Popen(
            [*(("nice", "-n", "19") if self.beside else ()), *self.argv],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            cwd=top, env={**os.environ, **(self.env or {})}, process_group=0)
        rest, pipe = b"", self.process.stdout
        try:
            while True:
                if time.monotonic() > begin + limit:
                    # Output of processes that outlive the leader is not read any more.
                    self.status = 124 if self.status is None else self.status
                    out.write(f"\nnot done after {limit / 60:.0f} minutes\n".encode())
                    return
                # After its end, the rest of its output is read first.
                ended = self.status is not None
                if not select.select([pipe], [], [], 0 if ended else 1)[0]:
                    if ended:
                        break
                    self._reap()
                    continue
                data = os.read(pipe.fileno(), 65536)
                if not data:
                    break
                out.write(data)
                out.flush()
                *lines, rest = (rest + data).split(b"\n")
                for line in lines:
                    text = line.decode(errors="replace")
                    reader.line(text, time.monotonic() - begin)
                    if self.show:
                        say(f"{self.name}: {text}")
            while self.status is None:
                if time.monotonic() > begin + limit:
                    self.status = 124
                    return
                self._reap()
                time.sleep(0.02)
        finally:
            self.kill()
            pipe.close()

    def _reap(self):
        """Gets the process' status, if it has ended; two threads call it at an interrupt."""
        with self._reaping:
            if self.process.returncode is not None:
                return
            pid, status, usage = os.wait4(self.process.pid, os.WNOHANG)
            if not pid:
                return
            self.process.returncode = os.waitstatus_to_exitcode(status)
            self.cpu = usage.ru_utime + usage.ru_stime
            if self.status is None:
                self.status = self.process.returncode

    def kill(self):
        """Ends the process group, and waits for its leader."""
        for sig, patience in ((signal.SIGTERM, 30), (signal.SIGKILL, 5)):
            try:
                os.killpg(self.process.pid, sig)
            except (ProcessLookupError, PermissionError):
                pass
            end = time.monotonic() + patience
            while self.process.returncode is None and time.monotonic() < end:
                self._reap()
                time.sleep(0.02)

    def _judge(self):
        """Adds the failures that no line of the output reports."""
        passed = self.count("passed")
        if self.status == 124:
            self.cases.append(Case("", self.name, "failed",
                                   f"[time] not done after {self.seconds / 60:.0f} minutes"))
        elif self.status and not self.count("failed"):
            self.cases.append(Case("", self.name, "failed", f"ended with status {self.status}"))
        elif not self.build and not self.status and not self.cases:
            self.cases.append(Case("", self.name, "failed", "reported no test"))
        elif not self.build and not self.count("failed") and passed < self.least:
            self.cases.append(Case("", self.name, "failed",
                                   f"{passed} tests passed, there are at least {self.least}"))
        for case in self.cases:
            if case.outcome == "skipped" and not case.why:
                case.outcome, case.why = "failed", "skipped without a reason"

    def _tell(self, log):
        """Prints the totals, and the important lines of a failure."""
        text = f"{self.name}: "
        if not self.build:
            counts = (f"{self.count(k)} {k}" for k in ("passed", "failed", "skipped"))
            text += ", ".join(counts) + ", "
        text += f"{self.seconds:.0f} s"
        if self.count("failed"):
            if not self.show:
                with open(log, encoding="utf-8", errors="replace") as f:
                    lines = f.read().splitlines()
                early = [x for x in lines[:-40] if BAD.search(x)][:40]
                text = "\n".join([f"  {x}" for x in early + lines[-40:]] + [text])
            text += "".join(f"\n  FAILED {c.full}: {c.why}" for c in self.cases
                            if c.outcome == "failed")
        say(text)

    def missed(self, why):
        """Marks it as failed because it cannot run."""
        self.status = 1
        self.cases.append(Case("", self.name, "failed", why))
        say(f"{self.name}: not run: {why}")


class Schedule:
    """Runs jobs side by side, in their order as far as their needs allow.

    At most "cores" jobs that test and two that build run at once. Machines start after all builds,
    because each machine would get only the processor time of all compilers together. One build
    runs beside all others, with the lowest priority: machines wait for each other and for time
    limits, so that the processors are not always busy.
    """

    def __init__(self, jobs, top, logs, minutes, cores=None):
        self.jobs, self.top, self.logs = jobs, top, logs
        self.end = time.monotonic() + 60 * minutes
        self.cores = cores or max(os.cpu_count() or 1, 2)

    def run(self):
        """Returns when every job has ended or cannot run."""
        names = {j.name: j for j in self.jobs}
        waiting, running = list(self.jobs), {}
        try:
            while waiting or running:
                for job in [j for j, t in running.items() if not t.is_alive()]:
                    del running[job]
                for job in list(waiting):
                    bad = [n for n in job.needs if names[n].status is not None
                           and names[n] not in running and not names[n].good]
                    if bad:
                        waiting.remove(job)
                        job.missed(f"{bad[0]} failed")
                    elif self._may_start(job, names, waiting, running):
                        waiting.remove(job)
                        running[job] = threading.Thread(target=self._one, args=(job,), daemon=True)
                        running[job].start()
                time.sleep(0.05)
        except BaseException:
            for job in running:
                if job.process:
                    job.kill()
            raise

    def _may_start(self, job, names, waiting, running):
        if any(names[n] in running or not names[n].good for n in job.needs):
            return False
        if job.beside:
            return not any(j.beside for j in running)
        if job.machines and any(j.build and not j.beside for j in [*waiting, *running]):
            return False
        return sum(j.build == job.build and not j.beside for j in running) < (
            2 if job.build else self.cores)

    def _one(self, job):
        try:
            job.run(self.top, self.logs, self.end)
        except Exception as e:  # pylint: disable=broad-except
            job.missed(f"{type(e).__name__}: {e}")
