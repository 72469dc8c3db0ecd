# SPDX-License-Identifier: GPL-2.0-or-later
"""Messages and output for the user."""
import os
import sys


class LabError(Exception):
    """An error whose text is for the user."""


def _drop(stream):
    """Lets a stream drop what it still has and all that follows."""
    with open(os.devnull, "wb") as null:
        os.dup2(null.fileno(), stream.fileno())


def say(text):
    """Prints a line of progress, if anybody reads it."""
    try:
        print(f"ohca-lab: {text}", file=sys.stderr, flush=True)
    except OSError:
        _drop(sys.stderr)


def write(stream, data):
    """Writes bytes to standard output or error; LabError if its reader has ended or a disk is full.

    The stream then drops what it still has and all that follows: only the first call fails.
    """
    try:
        stream.write(data)
        stream.flush()
    except OSError as e:
        _drop(stream)
        raise LabError(f"the output cannot be written: {e.strerror}") from None
