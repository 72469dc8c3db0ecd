# SPDX-License-Identifier: GPL-2.0-or-later
"""Why some messages between two machines take long: the same programs with other scheduling.

It changes a setting of the whole host for some seconds at a time, and uses real-time priorities. So
it needs root, and runs only if it is named.
"""
import contextlib
import ctypes
import os
import platform

from ohca_lab.lab import FABRIC_NICE

from bench.parts import machines
from bench.report import Table

NAME = "p99"
AUTOGROUP = "/proc/sys/kernel/sched_autogroup_enabled"
LATENCY = f"ib_send_lat -s 8 -n {machines.MANY}"
BANDWIDTH = f"ib_write_bw -s {machines.MIB} -n {machines.MANY_BYTES['ohca']}"
# sched_setattr() and sched_getattr(), which neither Python nor glibc before 2.41 has
CALLS = {"x86_64": (314, 315), "aarch64": (274, 275)}.get(platform.machine())


def tables():
    """The tables of this part."""
    return [Table("p99", "ib_send_lat and ib_write_bw between two machines, and how long the "
                  "device's threads and the fabric waited for a processor", "scheduling",
                  {"50 %": "us", "99 %": "us", "99.9 %": "us", "waited": "us a message",
                   "write, 1 MiB": "GB/s"}, "bars", "y", ["50 %", "99 %", "99.9 %"],
                  note="They waited while the programs began and ended, too.")]


def threads(pair, what):
    """The numbers of the threads that are a vCPU, a device's or the fabric's, by their process."""
    return [(process, int(tid)) for process, role, tid in sorted(pair.threads()) if role in what]


@contextlib.contextmanager
def autogroup_off(_pair):
    """Without autogroups; otherwise each QEMU and the fabric have one of their own."""
    with open(AUTOGROUP, "r+", encoding="ascii") as f:
        old = f.read()
        try:
            f.seek(0)
            f.write("0\n")
            f.flush()
            yield
        finally:
            f.seek(0)
            f.write(old)
            f.flush()


@contextlib.contextmanager
def vcpus_pinned(pair):
    """Each machine's vCPU on a processor of its own; other threads on any."""
    every = sorted(os.sched_getaffinity(0))
    found = threads(pair, {"vCPU"})
    for process, tid in found:
        os.sched_setaffinity(tid, {every[int(process[4:]) % len(every)]})
    try:
        yield
    finally:
        for _, tid in found:
            os.sched_setaffinity(tid, every)


@contextlib.contextmanager
def nice(pair, value):
    """The fabric with this nice value, and its session; ohca-lab gives it -10."""
    pid = pair.processes()["fabric"]

    def put(n):
        for _, tid in threads(pair, {"fabric"}):
            os.setpriority(os.PRIO_PROCESS, tid, n)
        with open(f"/proc/{pid}/autogroup", "w", encoding="ascii") as f:
            f.write(f"{n}\n")

    put(value)
    try:
        yield
    finally:
        put(FABRIC_NICE)


def attributes(tid, new=None):
    """The scheduling of a thread, its slice included, as the kernel has it; or sets it to new."""
    libc = ctypes.CDLL(None, use_errno=True)
    attr = new or ctypes.create_string_buffer(48)
    if libc.syscall(CALLS[0], tid, attr, 0) if new else libc.syscall(CALLS[1], tid, attr, 48, 0):
        raise OSError(ctypes.get_errno(), "scheduling of a thread")
    return attr


@contextlib.contextmanager
def real_time(pair):
    """The device's threads and the fabric with real-time priority: the best that is possible.

    sched_setscheduler() would end their short slices for good.
    """
    old = {tid: attributes(tid) for _, tid in threads(pair, {"device", "fabric"})}
    for tid in old:
        os.sched_setscheduler(tid, os.SCHED_RR, os.sched_param(1))
    try:
        yield
    finally:
        for tid, attr in old.items():
            attributes(tid, attr)


VARIANTS = {"as it is": (), "fabric's nice value 0": (lambda pair: nice(pair, 0),),
            "-5": (lambda pair: nice(pair, -5),), "-20": (lambda pair: nice(pair, -20),),
            "no autogroups": (autogroup_off,), "vCPUs pinned": (vcpus_pinned,),
            "real-time device": (real_time,)}


def one(pair, table, name, parts):
    """Runs both programs once with one variant."""
    with contextlib.ExitStack() as stack:
        for part in parts:
            stack.enter_context(part(pair))
        row, spent = pair.perf(LATENCY, "ohca")
        fast, _ = pair.perf(BANDWIDTH, "ohca")
    for column, i in (("50 %", 4), ("99 %", 7), ("99.9 %", 8)):
        table.add(name, column, row[i])
    waited = sum(w for (_, what), (_, w) in spent.items() if what in ("device", "fabric"))
    table.add(name, "waited", waited / machines.MANY * 1e6)
    table.add(name, "write, 1 MiB", fast[3] * machines.MIB / 1e9)


def fault():
    """The reason why this part cannot run here, or None."""
    if os.getuid():
        return "changes the scheduling of the host: for root alone"
    if not CALLS:
        return f"does not know the system calls of {platform.machine()}"
    return None if os.path.exists(AUTOGROUP) else "needs a kernel with autogroups"


def measure(bench, found):
    """Measures all variants in turns, forwards and backwards."""
    with machines.Machines() as pair:
        for n in bench.rounds():
            for name in list(VARIANTS)[::1 if n % 2 else -1]:
                one(pair, found[0], name, VARIANTS[name])
