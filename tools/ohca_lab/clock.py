# SPDX-License-Identifier: GPL-2.0-or-later
"""Whether guests' clocks run as the host's does.

A guest in TCG reads the host's time stamp counter (cpu_get_host_ticks() in QEMU). Its kernel
measures the counter's rate against an emulated timer while it boots; if the host does not run
the guest meanwhile, the result is wrong, the guest's clock is several times too fast or too
slow, and so is every time limit in it. So the kernel is given the rate, and both clocks are
compared.
"""
import ctypes
import mmap
import platform
import time

# rdtsc; shl $32, %rdx; or %rdx, %rax; ret
RDTSC = bytes.fromhex("0f31 48c1e220 4809d0 c3")
MEASURE = 0.05      # seconds
TOLERANCE = 0.05    # of the host's rate; nobody's time limits are that tight


def _counter():
    """A function that reads the time stamp counter, or None where that cannot be had."""
    if platform.machine() != "x86_64":
        return None
    try:
        code = mmap.mmap(-1, mmap.PAGESIZE,
                         prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    except OSError:     # hardened: no memory is both writable and executable
        return None
    code.write(RDTSC)
    read = ctypes.CFUNCTYPE(ctypes.c_uint64)(ctypes.addressof(ctypes.c_char.from_buffer(code)))
    read.memory = code
    return read


def _both(read):
    """(nanoseconds, counter, nanoseconds of doubt): the best of some readings of both clocks."""
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
    """What is known of a guest's clock: readings, each between two of the host's."""

    def __init__(self):
        self.readings = []

    def read(self, get):
        """Adds a reading; get() returns the guest's nanoseconds."""
        before = time.monotonic_ns()
        value = get()
        self.readings.append((before, value, time.monotonic_ns()))

    def bounds(self):
        """The guest's rate by the host's clock lies between these two, inf if it may be any."""
        if len(self.readings) < 2:
            return 0, float("inf")
        (before, value, after), (last_before, last_value, last_after) = (
            self.readings[0], self.readings[-1])
        grew = last_value - value
        return (grew / (last_after - before),
                grew / (last_before - after) if last_before > after else float("inf"))

    def verdict(self):
        """None, or what is certainly wrong with the guest's clock."""
        low, high = self.bounds()
        if low <= 1 + TOLERANCE and high >= 1 - TOLERANCE:
            return None
        rate = low if low > 1 else high
        return (f"its clock runs {rate:.2f} times as fast as the host's, and so do all its time "
                "limits: its kernel has measured the time stamp counter wrongly, as it may while "
                "the host is busy; start the lab again")
