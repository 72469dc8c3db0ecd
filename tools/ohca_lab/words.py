# SPDX-License-Identifier: GPL-2.0-or-later
"""What the user is told."""
import sys


class LabError(Exception):
    """What the user is told when a lab cannot be had."""


def say(text):
    """One line of progress."""
    print(f"ohca-lab: {text}", file=sys.stderr, flush=True)
