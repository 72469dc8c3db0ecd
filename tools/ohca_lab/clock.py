# SPDX-License-Identifier: GPL-2.0-or-later
"""Checks that guests' clocks run at the rate of the host's clock.

A guest in TCG reads the host's time stamp counter (cpu_get_host_ticks() in QEMU). While it boots,
its kernel measures the counter's rate against an emulated timer. If the host does not run the
guest meanwhile, the result is wrong: the guest's clock, and every time limit in the guest, is
several times too fast or too slow. For this reason ohca-lab passes the rate to the kernel, and
compares both clocks.
"""
import ctypes
import mmap
import platform
import time

# rdtsc; shl $32, %rdx; or %rdx, %rax; ret
RDTSC = bytes.fromhex("0f31 48c1e220 4809d0 c3")
MEASURE = 0.05      # seconds
TOLERANCE = 0.05    # of the host's rate; no time limit in a guest is that tight


def _counter():
    """A function that reads the time stamp counter, or None if the host does not allow that."""
    if platform.machine() != "x86_64":
        return None
    try:
        code = mmap.mmap(-1, mmap.PAGESIZE,
                         prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    except OSError:     # a hardened host allows no memory that is both writable and executable
        return None
    code.write(RDTSC)
    read = ctypes.CFUNCTYPE(ctypes.c_uint64)(ctypes.addressof(ctypes.c_char.from_buffer(code)))
    read.memory = code
    return read


def _both(read):
    """(nanoseconds, counter, uncertainty in nanoseconds): the best of 50 readings of both."""
    best = None
    for _ in range(50):
        begin = time.monotonic_ns()
        value = read()
        doubt = time.monotonic_ns() - begin
        if not best or doubt < best[2]:  # pylint: disable=unsubscriptable-object
            best = begin + doubt // 2, value, doubt
    return best


def tsc_khz():
    """The rate of the host's time stamp counter in kHz, or None if it is not known to 0.1 %."""
    read = _counter()
    if not read:
        return None
    first = _both(read)
    time.sleep(MEASURE)
    last = _both(read)
    ns = last[0] - first[0]
    if first[2] + last[2] > ns / 1000 or last[1] <= first[1]:
        return None
    return round((last[1] - first[1]) * 1e6 / ns)


class Clock:
    """Readings of a guest's clock, each between two readings of the host's clock."""

    def __init__(self):
        self.readings = []

    def read(self, get):
        """Adds a reading; get() returns the guest's nanoseconds."""
        before = time.monotonic_ns()
        value = get()
        self.readings.append((before, value, time.monotonic_ns()))

    def bounds(self):
        """The least and the greatest possible rate of the guest's clock by the host's (or inf)."""
        if len(self.readings) < 2:
            return 0, float("inf")
        (before, value, after), (last_before, last_value, last_after) = (
            self.readings[0], self.readings[-1])
        grew = last_value - value
        return (grew / (last_after - before),
                grew / (last_before - after) if last_before > after else float("inf"))

    def verdict(self):
        """None, or a text if the rate is outside the tolerance for certain."""
        low, high = self.bounds()
        if low <= 1 + TOLERANCE and high >= 1 - TOLERANCE:
            return None
        rate = low if low > 1 else high
        return (f"its clock runs {rate:.2f} times as fast as the host's, which makes all its time "
                "limits wrong: its kernel has measured the time stamp counter wrongly, probably "
                "because the host is busy; start the lab again")
