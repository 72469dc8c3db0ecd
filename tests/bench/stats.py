# SPDX-License-Identifier: GPL-2.0-or-later
"""What several runs of one measurement say together."""
import statistics


def median(values):
    """The middle one."""
    return statistics.median(values)


def spread(values):
    """From the least to the greatest, as a part of the median; 0 of a median of 0."""
    middle = median(values)
    return (max(values) - min(values)) / middle if middle else 0.0
