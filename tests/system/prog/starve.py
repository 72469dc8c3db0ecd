#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Each allocation of the kernel that DO needs fails once: starve.py [OPTION...] DO UNDO

Runs in a node. DO and UNDO are scripts of the shell, or "PATH=TEXT", a write to a file of the
kernel. In a round one allocation fails, the first, the second and so on; then UNDO, for which
nothing fails, must succeed, whatever DO has left. All is done when DO ends before the
allocation that was to fail; then it must succeed, too.

The kernel's fault injection (Documentation/fault-injection/fault-injection.rst of Linux) counts
allocations of any task that has code of a module, or of one function of the kernel, on its
stack. One fails when its number is a multiple of the interval. That number cannot be read or set,
but after a failure it is the interval; so each round goes on until something has failed.
"""
import argparse
import collections
import errno
import os
import random
import subprocess
import sys
import time

DEBUGFS = "/sys/kernel/debug"
PIPE = bytes(1 << 16)   # as much as a pipe takes
SLABS = "/sys/kernel/slab"
EVERYWHERE = (0, 2**64 - 1)
# What debugging itself allocates is of no interest: without memory it ends. The last are pages
# of a DMA mapping, in a cache that others use, too, so they are known by who asks for them.
DEBUGGING = ("kmemleak_object", "kmemleak_scan_area", "debug_objects_cache")
DMA_DEBUGGING = "add_dma_entry"


def code_of(name):
    """Addresses, from and to, of a module's code or of a function of the kernel."""
    with open("/proc/kallsyms", encoding="ascii") as f:
        lines = [line.split() for line in f]
    code = sorted((int(x[0], 16), x[2], x[3:]) for x in lines if x[1] in "tT")
    found = [i for i, (_, symbol, where) in enumerate(code)
             if where == [f"[{name}]"] or not where and
             (symbol == name or symbol.startswith(f"{name}.") and ".cold" not in symbol)]
    if not found:
        sys.exit(f"no code of {name}")
    first, last = found[0], found[-1]
    if code[first][2]:   # a module's code has its pages for itself
        return code[first][0], (code[last][0] | 4095) + 1
    return code[first][0], code[first + 1][0]


def write(path, value):
    """Writes a file of the kernel."""
    with open(path, "w", encoding="ascii") as f:
        f.write(str(value))


class Injection:
    """failslab or fail_page_alloc."""

    def __init__(self, opt):
        self.name, self.verbose = opt.kind, opt.verbose
        self.where, self.but = code_of(opt.code), code_of(DMA_DEBUGGING)
        # what the kernel has counted, by this program or the one before
        self.file = f"/run/starve-{self.name}"
        self.count = 0
        if os.path.exists(self.file):
            with open(self.file, encoding="ascii") as f:
                self.count = int(f.read())
        self.goal = 0
        self.set("times", 0)
        for file, value in (("ignore-gfp-wait", "N"), ("ignore-gfp-highmem", "N"),
                            ("min-order", 0), ("space", 0), ("stacktrace-depth", opt.depth),
                            ("verbose_ratelimit_interval_ms", 0), ("probability", 100),
                            ("cache-filter", "Y")):
            self.set(file, value)
        for cache in set(os.listdir(SLABS)) - set(DEBUGGING):
            write(os.path.join(SLABS, cache, "failslab"), 1)

    def set(self, file, value):
        """Writes a setting; each kind has some of its own."""
        path = os.path.join(DEBUGFS, self.name, file)
        if os.path.exists(path):
            write(path, value)

    def count_only(self, where, mine, verbose):
        """Allocations with these addresses on their stack; mine: of this process alone."""
        self.set("task-filter", "NY"[mine])
        self.set("require-start", where[0])
        self.set("require-end", where[1])
        self.set("reject-start", 0 if mine else self.but[0])
        self.set("reject-end", 0 if mine else self.but[1])
        self.set("verbose", verbose)

    def failed(self):
        """Whether it has failed."""
        with open(os.path.join(DEBUGFS, self.name, "times"), encoding="ascii") as f:
            return f.read().strip() == "0"

    def arm(self, n):
        """The nth allocation from now on fails."""
        self.goal = self.count + n
        self.count_only(self.where, False, self.verbose)
        self.set("interval", self.goal)
        self.set("times", 1)

    def disarm(self):
        """Nothing fails any more. Returns whether something has failed."""
        failed = self.failed()
        if not failed:
            self.count_only(EVERYWHERE, True, 0)
            self.use_up()
        if self.goal > 1:   # with an interval of 1 the kernel does not count
            self.count = self.goal
        with open(self.file, "w", encoding="ascii") as f:
            f.write(str(self.count))
        return failed

    def leave(self):
        """Everything counts again, for who comes next."""
        self.set("times", 0)
        self.set("cache-filter", "N")
        self.count_only(EVERYWHERE, False, 2)

    def use_up(self):
        """Allocates until it fails, slabs and pages."""
        with open("/proc/self/make-it-fail", "r+", encoding="ascii", buffering=1) as mine:
            mine.write("1\n")
            while True:
                try:
                    if self.failed():
                        break
                    ends = os.pipe()
                    try:
                        os.write(ends[1], PIPE)
                    finally:
                        for end in ends:
                            os.close(end)
                except OSError:
                    pass
            mine.seek(0)
            mine.write("0\n")


def act(what, seconds):
    """Does it; returns how it ended, 0 or an error's name or a status, and what was said."""
    path, _, text = what.partition("=")
    if not path.startswith("/") or " " in path:
        done = subprocess.run(["/bin/sh", "-c", what], stdout=subprocess.PIPE, text=True,
                              stderr=subprocess.STDOUT, check=False, timeout=seconds)
        return done.returncode, done.stdout
    try:
        f = os.open(path, os.O_WRONLY)
        try:
            os.write(f, text.encode())
        finally:
            os.close(f)
    except OSError as e:
        return errno.errorcode[e.errno], str(e)
    return 0, ""


class Rounds:
    """The rounds and what came of them."""

    def __init__(self, opt):
        self.opt = opt
        self.injection = Injection(opt)
        self.ends = collections.Counter()
        self.failed = 0
        self.until = time.monotonic() + opt.seconds

    def round(self, n):
        """The nth allocation fails, if there is one. Returns whether there was."""
        begin = time.monotonic()
        self.injection.arm(n)
        how, said = act(self.opt.do, self.opt.patience)
        failed = self.injection.disarm()
        said = " | ".join(said.split("\n"))[-300:]
        print(f"{n}: {how if failed else 'none failed'} {said}", flush=True)
        if failed and not how and self.opt.must:
            sys.exit(f"round {n}: nobody minds")
        if how and not failed:
            sys.exit(f"round {n}: {how} although nothing failed: {said}")
        status, text = act(self.opt.undo, self.opt.patience)
        if status:
            sys.exit(f"round {n}: not undone: {status} {text[-300:]}")
        if failed:
            self.failed += 1
            self.ends[how] += 1
        print(f"   {time.monotonic() - begin:.1f} s", flush=True)
        return failed

    def late(self):
        """Whether the time is over."""
        return time.monotonic() > self.until

    def in_order(self):
        """From the first to the last. Returns how many there are, if it got that far."""
        n = self.opt.first
        while not self.late():
            if not self.round(n):
                return n - 1
            n += self.opt.step
        return None

    def at_random(self):
        """All in a random order, for as long as there is time. Returns how many there are."""
        low, high = 0, 8   # the lowth fails, the highth does not
        while self.round(high):
            low, high = high, 2 * high
        while high - low > 1 and not self.late():
            n = (low + high) // 2
            low, high = (n, high) if self.round(n) else (low, n)
        order = list(range(1, low + 1))
        random.Random(self.opt.seed).shuffle(order)
        for n in order:
            if self.late():
                break
            self.round(n)
        return low


def main():
    """Runs the rounds; the last line says how many there were."""
    p = argparse.ArgumentParser()
    p.add_argument("--kind", choices=("failslab", "fail_page_alloc"), default="failslab")
    p.add_argument("--code", default="ohca", help="module or function on the stack")
    p.add_argument("--depth", type=int, default=32, help="calls between it and the allocation")
    p.add_argument("--seconds", type=float, default=1e9, help="then no round begins")
    p.add_argument("--must", action="store_true", help="DO fails, too")
    p.add_argument("--patience", type=float, default=300, help="seconds for DO, and for UNDO")
    p.add_argument("--seed", type=int, help="in a random order")
    p.add_argument("--first", type=int, default=1)
    p.add_argument("--step", type=int, default=1)
    p.add_argument("--verbose", type=int, default=2, help="2: the kernel says where")
    p.add_argument("do")
    p.add_argument("undo")
    rounds = Rounds(p.parse_args())
    try:
        many = rounds.in_order() if rounds.opt.seed is None else rounds.at_random()
    finally:
        rounds.injection.leave()
    how = ", ".join(f"{n} x {'done' if e == 0 else e}" for e, n in rounds.ends.most_common())
    print(f"{rounds.failed} of {'?' if many is None else many} allocations failed: {how}")


main()
