# SPDX-License-Identifier: GPL-2.0-or-later
"""Statistics of several runs of one measurement."""
import statistics


def median(values):
    """The median."""
    return statistics.median(values)


def spread(values):
    """The difference of greatest and least as a part of the median; 0 if the median is 0."""
    middle = median(values)
    return (max(values) - min(values)) / middle if middle else 0.0
