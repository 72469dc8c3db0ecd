# SPDX-License-Identifier: GPL-2.0-or-later
"""Tries whether a part's tests detect a change."""
import os
import signal
import time
from dataclasses import dataclass

# The limits for a changed program: a multiple of its time, and some seconds more, by the clock of a
# busy host and by processor time.
TIMES, SECONDS, PROCESSOR_SECONDS = 5, 30, 5


@dataclass(frozen=True)
class Verdict:
    """The result for a change."""
    change: object
    outcome: str        # noticed, survived, refused by the compiler, same
    by: str = ""        # the level and program that noticed it
    covered: bool = True

    @property
    def counts(self):
        """Whether this was a change of the program at all."""
        return self.outcome in ("noticed", "survived")


class Trial:
    """Tries changes in a tree, one after another."""

    def __init__(self, tree, covered):
        self.tree, self.covered = tree, covered

    def runs(self, change):
        """Names of the programs that run the changed line."""
        # gcov counts some lines of a statement only, its first one at least
        for line in range(change.line, change.start - 1, -1):
            names = self.covered.get((change.path, line))
            if names:
                return names | self.covered.get(None, set())
        return ()

    def enter(self, change):
        """Names of the programs that run a line of the function up to the changed one."""
        # gcov counts no lines of tables and the like
        names = set().union(*(self.covered.get((change.path, line), ())
                              for line in range(change.begin, change.line + 1)))
        return names | self.covered.get(None, set()) if names else ()

    def programs(self, change, level):
        """The programs that run the changed line, the shortest first.

        If no program is known to run it, those that run its function; else all.
        """
        names = self.runs(change) or self.enter(change)
        # those under ThreadSanitizer have the same names and a suffix
        some = [p for p in level.programs if p.name.partition(".tsan")[0] in names]
        return sorted(some or level.programs, key=lambda p: p.processor)

    def judge(self, change):
        """Builds and tests one change, and undoes it."""
        path = os.path.join(self.tree.where, change.path)
        stat = os.stat(path)
        with open(path, encoding="utf-8") as f:
            text = f.read()
        begin = time.time() - 0.01
        try:
            with open(path, "w", encoding="utf-8") as f:
                f.write(change.apply(text))
            return self._judge(change, begin)
        finally:
            with open(path, "w", encoding="utf-8") as f:
                f.write(text)
            os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))
            for level in self.tree.levels:
                self._restore(level, begin, stat.st_mtime)

    def _restore(self, level, begin, old):
        """Restores objects that are newer than the change, and removes files made from them."""
        for path, _ in list(self.tree.contents(level, begin)):
            if path in level.objects:
                with open(path, "wb") as f:
                    f.write(level.objects[path])
                # newer than the source as it was, older than its next change
                os.utime(path, (old + 0.001, max(old + 0.001, begin - 1)))
            else:
                os.unlink(path)
        for p in level.programs:
            if os.path.exists(p.target) and os.stat(p.target).st_mtime >= begin:
                os.unlink(p.target)

    def _differs(self, level, begin):
        """Whether an object that was built since then differs from the one without the change."""
        return any(level.objects.get(path) != data
                   for path, data in self.tree.contents(level, begin))

    def _fails(self, program):
        """The output of a program that fails twice, or None if it does not.

        A busy host may cause a single failure. It has no effect on processor time: a program that
        exceeds its limit of that is not run again.
        """
        for _ in range(2):
            status, out = self.tree.run(program, SECONDS + TIMES * program.seconds,
                                        PROCESSOR_SECONDS + TIMES * program.processor)
            if status in (0, -signal.SIGXCPU):
                break
        return why(status, out) if status else None

    def _judge(self, change, begin):
        covered = bool(self.runs(change))
        for number, level in enumerate(self.tree.levels):
            differs = False
            for p in self.programs(change, level):
                if self.tree.make(level, [p])[0]:
                    # with other options the compiler may see more
                    return Verdict(change, "refused by the compiler")
                # a program of the same objects does not have to run
                differs = differs or self._differs(level, begin)
                how = self._fails(p) if differs else None
                if how is not None:
                    return Verdict(change, "noticed", f"{level.name} {p.name}: {how}")
            if number == 0 and not differs:
                # objects of programs that do not run an inline function may contain its line
                if self.tree.make(level, level.programs)[0]:
                    return Verdict(change, "refused by the compiler")
                if not self._differs(level, begin):
                    return Verdict(change, "same")
        return Verdict(change, "survived", covered=covered)


def why(status, out):
    """The line of a failed test's output with the most information."""
    lines = [x.strip() for x in out.splitlines()]
    for sign in ("[  ERROR   ]", "FAIL", "ERROR: ", "runtime error", "[  FAILED  ]"):
        for line in lines:
            if sign in line:
                return line[-100:]
    return lines[-1][-100:] if lines and status > 0 else f"status {status}"
