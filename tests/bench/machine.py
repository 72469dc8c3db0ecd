# SPDX-License-Identifier: GPL-2.0-or-later
"""The machine that measures: its properties, and whether other programs use it."""
import os
import platform
import re
import resource
import time

# A machine is busy beyond these limits: the part of its processors that others use, and the load
# average of the last minute for each processor. The average includes the benchmark once it runs.
BUSY = 0.05
LOAD = 0.25
LOOK_S = 2.0


class Refused(Exception):
    """The reason why there is no report."""


def read(path):
    """A file of /proc."""
    with open(path, encoding="ascii", errors="replace") as f:
        return f.read()


def processors(text=None):
    """Ticks of all processors since boot: busy, stolen by the hypervisor, all. TEXT: /proc/stat."""
    # user nice system idle iowait irq softirq steal; those of guests are in user and nice
    ticks = [int(x) for x in (text or read("/proc/stat")).splitlines()[0].split()[1:9]]
    return sum(ticks) - ticks[3] - ticks[4], ticks[7], sum(ticks)


def load_average(text=None):
    """The average of the last minute, and the number of running tasks. TEXT: /proc/loadavg."""
    words = (text or read("/proc/loadavg")).split()
    return float(words[0]), int(words[3].partition("/")[0])


def used(before, after):
    """The use between two results of processors(): busy and stolen parts of all."""
    whole = max(after[2] - before[2], 1)
    return (after[0] - before[0]) / whole, (after[1] - before[1]) / whole


def look(seconds=LOOK_S):
    """The machine's load while the benchmark does nothing."""
    before = processors()
    time.sleep(seconds)
    busy, steal = used(before, processors())
    average, running = load_average()
    return {"load1": average, "running": running, "busy": round(busy, 4), "steal": round(steal, 4)}


def own_seconds():
    """Processor time of this process and of the children that have ended."""
    return sum(u.ru_utime + u.ru_stime for u in (resource.getrusage(resource.RUSAGE_SELF),
                                                 resource.getrusage(resource.RUSAGE_CHILDREN)))


class Watch:
    """The use by others while a part runs; all processes of the part are ended children then."""

    def __init__(self):
        self.ticks, self.own = processors(), own_seconds()

    def others(self):
        """The part of the processors that others used, and the part that was stolen."""
        now = processors()
        whole = max(now[2] - self.ticks[2], 1)
        own = (own_seconds() - self.own) * os.sysconf("SC_CLK_TCK")
        _, steal = used(self.ticks, now)
        busy = max(now[0] - self.ticks[0] - own, 0)
        return {"busy": round(busy / whole, 4), "steal": round(steal, 4)}


def too_busy(load, average=False):
    """Why a load is too high, as a list of sentences. AVERAGE: check that of a minute, too."""
    why = []
    if load["busy"] > BUSY:
        why.append(f"others use {load['busy']:.0%} of the processors (at most {BUSY:.0%})")
    if average and load["load1"] > LOAD * os.cpu_count():
        why.append(f"the load average is {load['load1']:.2f} (at most {LOAD * os.cpu_count():g})")
    return why


def wait_quiet(patience, average, observe=look, clock=time.monotonic):
    """Waits until the machine is quiet, at most PATIENCE seconds; returns the last load seen."""
    end = clock() + patience
    while True:
        load = observe()
        if not too_busy(load, average) or clock() >= end:
            return load


def describe():
    """The properties of the machine on which the figures depend."""
    cpu = re.search(r"^model name\s*: (.*)$", read("/proc/cpuinfo"), re.M)
    memory = re.search(r"^MemTotal:\s+(\d+)", read("/proc/meminfo"), re.M)
    return {"cpu": cpu[1] if cpu else platform.machine(), "cpus": os.cpu_count(),
            "memory_mib": int(memory[1]) >> 10, "kernel": platform.release().partition("-")[0],
            "virtual": "hypervisor" in read("/proc/cpuinfo")}
