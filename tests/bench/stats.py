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


def percentile(values, percent):
    """The least value that so many percent of all do not exceed (nearest rank)."""
    if not values or not 0 < percent <= 100:
        raise ValueError("no values, or no percentage")
    ordered = sorted(values)
    # without the error of a product of floats
    rank = -(-len(ordered) * round(percent * 1000) // 100000)
    return ordered[max(rank, 1) - 1]
