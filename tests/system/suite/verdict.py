# SPDX-License-Identifier: GPL-2.0-or-later
"""The reasons of failures: their kinds, and how they are distinguished."""
import re

# The kinds of failure, the gravest first. The kind of a test's failure is the gravest kind that
# was found, whatever was found first. tests/check/flake.py has those that a busy host can
# cause.
KINDS = {
    "kernel": "a node's kernel reported a bug, or lost a line of its log",
    "sanitizer": "a sanitizer reported a bug of a program",
    "crash": "a machine or a program ended by itself, or by a signal",
    "leak": "something was left behind",
    "data": "what was read is wrong: data, a counter, a state, a message",
    "status": "a program ended with a status that it should not end with",
    "time": "something did not come in time",
}

SANITIZER = re.compile(r"(?:Address|Leak|Thread|Memory|UndefinedBehavior)Sanitizer|runtime error: ")
# Messages of a C library, QEMU and GLib when they end a program.
CRASH = re.compile(r"Assertion .*failed|assertion failed|Bail out!|Segmentation fault|core dumped|"
                   r"stack smashing|buffer overflow detected|double free|malloc\(\): |free\(\): |"
                   r"corrupted (?:size|double|unsorted)|should not be reached|terminate called|"
                   r"^Fatal Python error")
# What tools say of data that is not what was sent: ohca-peer, fio, cmp, the pingpongs, ping,
# sha256sum and Python's assertions.
DATA = re.compile(r"wrong data|invalid data|FAILED|verify: bad|verify failed|crc32c: verify|"
                  r"differ: |did NOT match|AssertionError|EOF on ")
# ohca-peer's FAILED if an answer, a completion or an event did not arrive.
LATE = re.compile(r"FAILED: .*(?:no completion|nothing comes|does not come|retry counter exceeded|"
                  r"timed? ?out|no answer|not reachable|hangs|are not flushed|no rail is up|"
                  r"Connection (?:refused|reset|timed out))")
# SIGILL, SIGTRAP, SIGABRT, SIGBUS, SIGFPE, SIGSEGV, SIGSYS, as a shell and as Python say it.
CRASHES = {how for n in (4, 5, 6, 7, 8, 11, 31) for how in (128 + n, -n)}
TIMEOUTS = (124, 128 + 14)  # timeout(1) and our own limit; SIGALRM


class Failure(Exception):
    """Why a test failed; kind is one of KINDS."""

    def __init__(self, why, kind="data"):
        assert kind in KINDS
        super().__init__(why)
        self.kind = kind


class Skip(Exception):
    """Why a test cannot run here."""


def kind_of(status, text):
    """The kind of failure that a program's exit status and its output mean."""
    if SANITIZER.search(text):
        return "sanitizer"
    if status in CRASHES or CRASH.search(text):
        return "crash"
    if status in TIMEOUTS or LATE.search(text):
        return "time"
    return "data" if DATA.search(text) else "status"


def worst(failures):
    """One Failure with the texts of all, with the gravest kind first; or None."""
    order = list(KINDS)
    failures = sorted(failures, key=lambda f: order.index(f.kind))
    if not failures:
        return None
    return Failure("; ".join(dict.fromkeys(str(f) for f in failures)), failures[0].kind)
