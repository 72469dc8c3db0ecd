# SPDX-License-Identifier: GPL-2.0-or-later
"""The log of a node's kernel: read in one place, kept completely, and judged once.

Tests read the kept lines. Only judge() moves the mark behind which lines are still to be judged,
so that no other reader can hide a report from it.
"""
import os
import re

from .verdict import Failure

# Messages of the kernel that are a failure.
REPORT = re.compile(
    r"WARNING:|BUG[: ]|\bOops\b|KASAN|UBSAN|general protection|unable to handle|"
    r"INFO: task .* blocked|possible (circular|recursive|irq)|inconsistent lock state|"
    r"suspicious RCU|sleeping function called|DMA-API: (?!preallocated|debugging)|"
    r"kmemleak: \d+ new|ODEBUG|soft lockup|detected stall|list_(add|del) corruption|"
    r"refcount_t|unexpected fatal signal|segfault at|invalid opcode|Kernel panic|"
    r"bad unlock balance|held lock freed|non-static key|stack-protector|"
    # normal for a kernel under load, or with the options of the debug kernel, so no failure
    r"workqueue: (?!round-robin|.* hogged CPU)|ohca.*deprecated|deprecated.*ohca|"
    r"ohca .*(fatal|timed out|gone|away|refused)|invalid context|Call Trace")
# Of these, messages of our driver about a device that fails.
SAID = r"ohca .*(fatal|gone|away|did not request|did not complete|timed out)"
# A report of lockdep about the order of locks, to the end of its stack trace.
LOCK_ORDER = re.compile(r"^.*possible circular locking(?:.*\n)*?.*</TASK>$", re.M)

# Complete reports of a defect of Linux that can happen when an adapter is removed. The work for a
# port's event checks whether the interface is up, and then sets IPOIB_FLAG_OPER_UP
# (__ipoib_ib_dev_flush() in drivers/infiniband/ulp/ipoib/ipoib_ib.c). Between the two, ipoib_stop()
# may have cleared it for the last time.
LINUX = re.compile(r"^.*\[ cut here \].*\n.*WARNING: .* ipoib_ndo_uninit\+.*\n"
                   r"(?:(?!.*\[ cut here \]).*\n)*?.*\[ end trace .*$", re.M)

STAMP = re.compile(r"^\[ *\d+\.\d{6}\] ")
END = re.compile(r"^next (\d+) lost (\d+)$")

# Prints every record from number %d on, as dmesg does, and the number to continue with. Records
# have numbers, so that a gap shows where the ring was overwritten before it was read. EPIPE: it was
# just overwritten.
READ = r"""perl -e '
use Fcntl;
my ($next, $lost) = (%d, 0);
sysopen(F, "/dev/kmsg", O_RDONLY | O_NONBLOCK) or die "/dev/kmsg: $!\n";
while (1) {
	unless (defined sysread(F, $_, 65536)) {
		next if $!{EPIPE} or $!{EINTR};
		last if $!{EAGAIN};
		die "/dev/kmsg: $!\n";
	}
	my ($number, $us, $text) = /^\d+,(\d+),(\d+),[^;]*;(.*)/ or next;
	next if $number < $next;
	$lost += $number - $next;
	$next = $number + 1;
	$text =~ s/\\x([0-9a-f]{2})/chr hex $1/ge;
	printf "[%%5d.%%06d] %%s\n", $us / 1e6, $us %% 1e6, $_ for split /\n/, $text;
}
print "next $next lost $lost\n"'"""


class KernelLog:
    """All lines of the kernel of one node since it booted."""

    def __init__(self, console):
        """console: the file with the serial console's output; it remains after the node's end."""
        self.console = console
        self.lines = []
        self.next = 0       # number of the first record that was not read
        self.lost = 0       # records that were overwritten before they were read
        self.judged = 0     # lines before this one were judged
        self.told = 0       # of lost, how many were judged

    def text(self):
        """All lines, as dmesg prints them."""
        return "".join(line + "\n" for line in self.lines)

    def read(self, run):
        """Reads what is new. run(script) gives a status and what the script printed.

        Fails if the node does not answer; then the console has the rest.
        """
        status, text = run(READ % self.next)
        lines = text.splitlines()
        end = END.match(lines[-1]) if lines else None
        if status or not end:
            raise Failure("does not answer: " + " | ".join(lines[-3:])[-200:], "time")
        self.next = int(end[1])
        self.lost += int(end[2])
        self._add(lines[:-1])

    def read_console(self):
        """Reads lines that only the console has, of a node that has ended or does not answer."""
        if not os.path.exists(self.console):
            return
        with open(self.console, encoding="utf-8", errors="replace") as f:
            self._add([x.rstrip("\r") for x in f.read().split("\n") if STAMP.match(x)])

    def _add(self, lines):
        """Adds lines; one with a time stamp may arrive by both ways, and counts once."""
        known = set(self.lines)
        self.lines += [x for x in lines if x not in known or not STAMP.match(x)]

    def judge(self, allowed=None, lock_order=None):
        """Judges all lines that were not judged before: (reports, whether lockdep is off).

        allowed: pattern of lines that may be there. lock_order: pattern of one whole report of
        lockdep that may be there, see Group.test.
        """
        new = self.lines[self.judged:]
        self.judged = len(self.lines)
        text, off = LINUX.sub("", "\n".join(new)), False
        report = LOCK_ORDER.search(text)
        if report and lock_order and re.search(lock_order, report[0], re.S):
            text, off = text.replace(report[0], ""), True
        found = [x.strip() for x in text.splitlines() if REPORT.search(x)
                 and not (allowed and re.search(allowed, x))]
        if self.lost != self.told:
            found.append(f"{self.lost - self.told} records of the log were lost")
            self.told = self.lost
        return found, off
