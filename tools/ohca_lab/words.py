# SPDX-License-Identifier: GPL-2.0-or-later
"""Messages for the user."""
import sys


class LabError(Exception):
    """An error whose text is for the user."""


def say(text):
    """Prints a line of progress."""
    print(f"ohca-lab: {text}", file=sys.stderr, flush=True)
