#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Each allocation of the kernel that DO needs fails once: starve.py [OPTION...] DO UNDO

Runs in a node. DO and UNDO are scripts of the shell, or "PATH=TEXT", a write to a file of the
kernel. In each round one allocation of DO fails, the first, the second and so on. After that UNDO
must succeed, without failures of allocations, whatever state DO has left. The last round is the
one in which DO ends before the allocation that should fail; then DO must succeed, too.

The kernel's fault injection (Documentation/fault-injection/fault-injection.rst of Linux) counts
allocations of any task that has code of a module, or of one function of the kernel, on its
stack. An allocation fails if its number is a multiple of the interval. That number cannot be read
or set, but after a failure it is the interval; so each round continues until an allocation has
failed.

At the end it prints how DO ended for each place of a failure: the innermost function of the driver
on the stack in the kernel's log, and the function that it called.
"""
import argparse
import collections
import errno
import mmap
import os
import random
import re
import subprocess
import sys
import time

DEBUGFS = "/sys/kernel/debug"
POPULATED = 1 << 20
SLABS = "/sys/kernel/slab"
EVERYWHERE = (0, 2**64 - 1)
# Allocations of debugging itself are left out: without memory, it switches itself off. The last
# ones are pages of a DMA mapping in a shared cache, so they are identified by the calling function.
DEBUGGING = ("kmemleak_object", "kmemleak_scan_area", "debug_objects_cache")
DMA_DEBUGGING = "add_dma_entry"


def code_of(name, symbols):
    """The addresses, from and to, of a module's code or of a function of the kernel."""
    ours = f"\t[{name}]\n"
    if ours in symbols:   # a module's symbols follow each other, its code has pages for itself
        begin = symbols.rindex("\n", 0, symbols.index(ours)) + 1
        lines = symbols[begin:symbols.rindex(ours) + len(ours)].splitlines()
        code = [int(x.split()[0], 16) for x in lines if x.split()[1] in "tT"]
        return min(code), (max(code) | 4095) + 1
    # functions of the kernel are in the order of their addresses
    for m in re.finditer(rf"^(\w+) [tT] {name}(\.\S+)?$", symbols, re.M):
        if ".cold" not in m[0]:
            behind = re.compile(rf"^(?!{m[1]})(\w+) [tT] ", re.M).search(symbols, m.end())
            return int(m[1], 16), int(behind[1], 16)
    return sys.exit(f"no code of {name}")


def write(path, value):
    """Writes a file of the kernel."""
    with open(path, "w", encoding="ascii") as f:
        f.write(str(value))


class Injection:
    """failslab or fail_page_alloc."""

    def __init__(self, opt):
        self.name, self.verbose = opt.kind, opt.verbose
        with open("/proc/kallsyms", encoding="ascii") as f:
            symbols = f.read()
        self.where, self.but = code_of(opt.code, symbols), code_of(DMA_DEBUGGING, symbols)
        # the count of the kernel, by this program or the one before
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
        """Counts allocations with these addresses on their stack; mine: of this process alone."""
        self.set("task-filter", "NY"[mine])
        self.set("require-start", where[0])
        self.set("require-end", where[1])
        self.set("reject-start", 0 if mine else self.but[0])
        self.set("reject-end", 0 if mine else self.but[1])
        self.set("verbose", verbose)

    def failed(self):
        """Whether an allocation has failed."""
        with open(os.path.join(DEBUGFS, self.name, "times"), encoding="ascii") as f:
            return f.read().strip() == "0"

    def arm(self, n):
        """Makes the nth allocation from now on fail."""
        self.goal = self.count + n
        self.count_only(self.where, False, self.verbose)
        self.set("interval", self.goal)
        self.set("times", 1)

    def disarm(self):
        """Stops the injection. Returns whether an allocation has failed."""
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
        """Restores the settings, for the next program."""
        self.set("times", 0)
        self.set("cache-filter", "N")
        self.count_only(EVERYWHERE, False, 2)

    def use_up(self):
        """Allocates slabs and pages until an allocation fails."""
        with open("/proc/self/make-it-fail", "r+", encoding="ascii", buffering=1) as mine:
            mine.write("1\n")
            while True:
                try:
                    if self.failed():
                        break
                    if self.name == "failslab":
                        for end in os.pipe():
                            os.close(end)
                    else:
                        mmap.mmap(-1, POPULATED, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS |
                                  mmap.MAP_POPULATE).close()
                except OSError:
                    pass
            mine.seek(0)
            mine.write("0\n")


class Log:
    """The kernel's log of failures."""

    def __init__(self, code):
        self.code = code
        self.file = os.open("/dev/kmsg", os.O_RDONLY | os.O_NONBLOCK)
        os.lseek(self.file, 0, os.SEEK_END)

    def lines(self):
        """The new lines since the last call."""
        while True:
            try:
                yield os.read(self.file, 8192).decode().split("\n")[0].partition(";")[2]
            except BlockingIOError:
                return
            except BrokenPipeError:   # some were overwritten
                pass

    def place(self):
        """The place of a failure: a function of the driver and the function that it called."""
        frames, failed = [], False
        for line in self.lines():
            failed |= "FAULT_INJECTION" in line
            frame = re.match(r" ([\w.]+)\+0x\w+/0x\w+( \[ohca\])?", line)
            if failed and frame:
                frames.append(frame[1])
                if frame[2] or frame[1] == self.code:
                    return " < ".join(frames[-2:])
        return "an unknown place"


def act(what, seconds):
    """Runs a script; returns how it ended (0, an error's name or a status), and its output."""
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
    """The rounds and their results."""

    def __init__(self, opt):
        self.opt = opt
        self.injection = Injection(opt)
        self.ends = collections.Counter()
        self.places = collections.Counter()
        self.log = Log(opt.code)
        self.failed = 0
        self.until = time.monotonic() + opt.seconds

    def round(self, n):
        """Makes the nth allocation fail, if there is one. Returns whether there was."""
        begin = time.monotonic()
        self.injection.arm(n)
        how, said = act(self.opt.do, self.opt.patience)
        failed = self.injection.disarm()
        place = self.log.place() if failed else "none failed"
        said = " | ".join(said.split("\n"))[-300:]
        print(f"{n}: {place}: {how or 'done'} {said}", flush=True)
        if how and not failed:
            sys.exit(f"round {n}: {how} although nothing failed: {said}")
        status, text = act(self.opt.undo, self.opt.patience)
        if status:
            sys.exit(f"round {n}: not undone: {status} {text[-300:]}")
        if failed:
            self.failed += 1
            self.ends[how] += 1
            self.places[place, how] += 1
        print(f"   {time.monotonic() - begin:.1f} s", flush=True)
        return failed

    def late(self):
        """Whether the time is over."""
        return time.monotonic() > self.until

    def in_order(self):
        """Runs rounds from the first to the last. Returns their number, if it got that far."""
        for n in range(self.opt.first, self.opt.last + 1):
            if self.late():
                break
            if not self.round(n):
                return n - 1
        return None

    def at_random(self):
        """All in a random order, for as long as there is time. Returns how many there are.

        It begins with few: a round that comes to its end without a failure is a long one.
        """
        draw, done, most, known = random.Random(self.opt.seed), set(), 8, False
        while len(done) < most and not self.late():
            n = draw.choice([i for i in range(1, most + 1) if i not in done])
            if self.round(n):
                done.add(n)
                if not known and 2 * n > most:
                    most *= 2
            else:
                most, known = n - 1, True
                done = {i for i in done if i <= most}
        return most if known else None


def main():
    """Runs the rounds; the last line has their number."""
    p = argparse.ArgumentParser()
    p.add_argument("--kind", choices=("failslab", "fail_page_alloc"), default="failslab")
    p.add_argument("--code", default="ohca", help="module or function on the stack")
    p.add_argument("--depth", type=int, default=32, help="calls between it and the allocation")
    p.add_argument("--seconds", type=float, default=1e9, help="then no round begins")
    p.add_argument("--patience", type=float, default=300, help="seconds for DO, and for UNDO")
    p.add_argument("--seed", type=int, help="in a random order")
    p.add_argument("--first", type=int, default=1)
    p.add_argument("--last", type=int, default=1 << 30)
    p.add_argument("--verbose", type=int, default=2, help="2: the kernel says where")
    p.add_argument("do")
    p.add_argument("undo")
    rounds = Rounds(p.parse_args())
    try:
        many = rounds.in_order() if rounds.opt.seed is None else rounds.at_random()
    finally:
        rounds.injection.leave()
    for (place, end), n in sorted(rounds.places.items(), key=str):
        print(f"at {place}: {n} x {end or 'done'}")
    how = ", ".join(f"{n} x {e or 'done'}" for e, n in rounds.ends.most_common())
    print(f"{rounds.failed} of {'?' if many is None else many} allocations failed: {how}")


main()
