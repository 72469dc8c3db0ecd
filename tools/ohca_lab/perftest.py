# SPDX-License-Identifier: GPL-2.0-or-later
"""Parses the output of perftest's programs."""
import re

PORT = 18515
ROW = re.compile(r"^ *\d+ +\d+ +[\d.]+ +[\d.]+.*$", re.M)


def row(text):
    """The numbers of the last line of results: bytes, iterations, and for ib_*_bw the peak and the
    average in MiB/s and the rate in M/s, for ib_*_lat least, greatest, typical, average, deviation,
    99 % and 99.9 % in microseconds. None if there is no such line."""
    rows = ROW.findall(text)
    return [float(x) for x in rows[-1].split()] if rows else None
