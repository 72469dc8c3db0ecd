# SPDX-License-Identifier: GPL-2.0-or-later
"""ohca-fabric traffic, again and again: one option has several values, several lines of options."""
import concurrent.futures
import os
import re
import shutil
import subprocess

from ohca_plot.draw import TOP

VALUE = re.compile(r"(-?\d+(?:\.\d+)?)(?: ([A-Za-z/%]+))?(?:,.*)?")
SIZES = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


# Seconds for one run, which is none that goes on for ever
LIMIT = 3600


class SweepError(Exception):
    """A run has failed, or its output lacks what is to be drawn."""


def fabric():
    """The program: $OHCA_FABRIC, or else that of this checkout, or else the installed one."""
    if given := os.environ.get("OHCA_FABRIC"):
        if os.access(given, os.X_OK):
            return given
        raise SweepError(f"OHCA_FABRIC={given} is no program")
    for found in (os.path.join(os.environ.get("OHCA_BUILD") or os.path.join(TOP, "build"),
                               "fabric", "ohca-fabric"), shutil.which("ohca-fabric")):
        if found and os.access(found, os.X_OK):
            return found
    raise SweepError("there is no ohca-fabric: run 'make fabric', or install openhca-fabric")


def read(text):
    """What traffic has printed: (number, unit) by its key; what is no number is left out."""
    found = {}
    for line in text.splitlines():
        key, colon, rest = line.partition(": ")
        if colon and (m := VALUE.fullmatch(rest)):
            found[key] = (float(m[1]), m[2] or "")
    return found


def run(program, options):
    """One run; returns what read() returns."""
    try:
        done = subprocess.run([program, "traffic", *options], stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, check=False, timeout=LIMIT)
    except subprocess.TimeoutExpired:
        raise SweepError(f"ohca-fabric traffic {' '.join(options)}: not within {LIMIT} s") from None
    if done.returncode:
        raise SweepError(f"ohca-fabric traffic {' '.join(options)}: {done.stderr.strip()}")
    return read(done.stdout)


def place(value):
    """The place of a value on an axis of numbers: 64K is 65536; None if it is no number."""
    m = re.fullmatch(r"(\d+(?:\.\d+)?)([KMG]?)", value)
    return float(m[1]) * SIZES.get(m[2], 1) if m else None


class Sweep:
    """OPTION, without its dashes, has each of VALUES; LINES are options by the lines' names."""

    def __init__(self, option, values, lines, keys):
        self.option, self.values, self.lines, self.keys = option, values, lines, keys
        self.units, self.cells = {}, {}

    def columns(self):
        """The names of what is measured: LINE, KEY, or both if there are several of both."""
        return [(self.name(line, key), line, key) for line in self.lines for key in self.keys]

    def name(self, line, key):
        """What the column of a line and a key is called."""
        if len(self.keys) == 1:
            return line or key
        return f"{line}, {key}" if line else key

    def measure(self, options, program=None, workers=None):
        """Runs all with OPTIONS, on WORKERS processors (all); fills cells[value][column]."""
        program = program or fabric()
        with concurrent.futures.ThreadPoolExecutor(workers or os.cpu_count()) as pool:
            jobs = {(v, line): pool.submit(run, program,
                                           [*options, f"--{self.option}={v}", *more])
                    for v in self.values for line, more in self.lines.items()}
            try:
                for (value, line), job in jobs.items():
                    self.take(value, line, job.result())
            except BaseException:
                # a signal, too: what has not begun does not begin
                pool.shutdown(cancel_futures=True)
                raise
        return self

    def take(self, value, line, result):
        """What one run has printed becomes cells."""
        for key in self.keys:
            if key not in result:
                raise SweepError(f"--{self.option} {value}: there is no number {key}; there are "
                                 + ", ".join(result))
            self.cells.setdefault(value, {})[self.name(line, key)], self.units[key] = result[key]
