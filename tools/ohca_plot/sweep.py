# SPDX-License-Identifier: GPL-2.0-or-later
"""Runs of ohca-fabric traffic for each value of one option and each line of further options."""
import concurrent.futures
import os
import re
import shutil
import subprocess

from ohca_plot.draw import TOP

VALUE = re.compile(r"(-?\d+(?:\.\d+)?)(?: ([A-Za-z/%]+))?(?:,.*)?")
SIZES = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


# Seconds for one run, as a bound for runs that do not end
LIMIT = 3600


class SweepError(Exception):
    """A run has failed, or its output lacks a number that is needed."""


def fabric():
    """The path of ohca-fabric: $OHCA_FABRIC, else that of this checkout, else the installed one."""
    if given := os.environ.get("OHCA_FABRIC"):
        if os.access(given, os.X_OK):
            return given
        raise SweepError(f"OHCA_FABRIC={given} is not a program that can be run")
    for found in (os.path.join(os.environ.get("OHCA_BUILD") or os.path.join(TOP, "build"),
                               "fabric", "ohca-fabric"), shutil.which("ohca-fabric")):
        if found and os.access(found, os.X_OK):
            return found
    raise SweepError("there is no ohca-fabric: run 'make fabric', or install openhca-fabric")


def read(text):
    """{key: (number, unit)} of the output of traffic; keys without a number are left out."""
    found = {}
    for line in text.splitlines():
        key, colon, rest = line.partition(": ")
        if colon and (m := VALUE.fullmatch(rest)):
            found[key] = (float(m[1]), m[2] or "")
    return found


def run(program, options):
    """Runs traffic once; returns what read() returns."""
    try:
        done = subprocess.run([program, "traffic", *options], stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, check=False, timeout=LIMIT)
    except subprocess.TimeoutExpired:
        raise SweepError(f"ohca-fabric traffic {' '.join(options)}: it has not ended within "
                         f"{LIMIT} s") from None
    if done.returncode:
        raise SweepError(f"ohca-fabric traffic {' '.join(options)}: {done.stderr.strip()}")
    return read(done.stdout)


def place(value):
    """The place of a value on an axis of numbers: 64K is 65536; None if it is no number."""
    m = re.fullmatch(r"(\d+(?:\.\d+)?)([KMG]?)", value)
    return float(m[1]) * SIZES.get(m[2], 1) if m else None


class Sweep:
    """Runs with OPTION (without dashes) at each of VALUES, for each of LINES, {name: options}."""

    def __init__(self, option, values, lines, keys):
        self.option, self.values, self.lines, self.keys = option, values, lines, keys
        self.units, self.cells = {}, {}

    def columns(self):
        """(name, line, key) of each column; the name is LINE, KEY, or both if there are several."""
        return [(self.name(line, key), line, key) for line in self.lines for key in self.keys]

    def name(self, line, key):
        """The name of the column of a line and a key."""
        if len(self.keys) == 1:
            return line or key
        return f"{line}, {key}" if line else key

    def measure(self, options, program=None, workers=None):
        """Runs all with OPTIONS, WORKERS at once (one per CPU); fills cells[value][column]."""
        program = program or fabric()
        with concurrent.futures.ThreadPoolExecutor(workers or os.cpu_count()) as pool:
            jobs = {(v, line): pool.submit(run, program,
                                           [*options, f"--{self.option}={v}", *more])
                    for v in self.values for line, more in self.lines.items()}
            try:
                for (value, line), job in jobs.items():
                    self.take(value, line, job.result())
            except BaseException:
                # also for KeyboardInterrupt: runs that have not started must not start
                pool.shutdown(cancel_futures=True)
                raise
        return self

    def take(self, value, line, result):
        """Stores the output of one run in cells."""
        for key in self.keys:
            if key not in result:
                raise SweepError(f"--{self.option} {value}: the output has no number '{key}'; use "
                                 "one of " + ", ".join(result))
            self.cells.setdefault(value, {})[self.name(line, key)], self.units[key] = result[key]
