# SPDX-License-Identifier: GPL-2.0-or-later
"""How OpenSM reads partitions.conf again: by SIGHUP, or by a command that the user has given."""
import os
import signal
import subprocess

from ohca_web.shape import HttpError

NAME = "opensm"
PATIENCE = 30           # seconds that a command has


def name_of(pid):
    """The name of a process; "" if there is none."""
    try:
        with open(f"/proc/{pid}/comm", encoding="utf-8", errors="replace") as f:
            return f.read().rstrip("\n")
    except OSError:
        return ""


def has_begun(pid):
    """Whether SIGHUP does not end a process: it catches or blocks it."""
    with open(f"/proc/{pid}/status", encoding="utf-8", errors="replace") as f:
        masks = dict(line.split(":", 1) for line in f if ":" in line)
    return any(int(masks[name], 16) >> (signal.SIGHUP - 1) & 1 for name in ("SigBlk", "SigCgt"))


def hang_up(pid):
    """SIGHUP to OpenSM, which then begins a heavy sweep and reads the file.

    One that has just been started would be ended by it; it reads the file in its first sweep.
    """
    try:
        if has_begun(pid):
            os.kill(pid, signal.SIGHUP)
    except OSError as e:
        raise HttpError(500, f"OpenSM has not read the partitions: process {pid}: "
                            f"{e.strerror}") from None


def by_name():
    """To the one process called opensm. If there is none, it reads the file when it starts."""
    pids = [int(name) for name in os.listdir("/proc") if name.isdigit() and name_of(name) == NAME]
    if len(pids) > 1:
        raise HttpError(500, f"OpenSM has not read the partitions: {len(pids)} processes are "
                            f"called {NAME}; start ohca-ufm with --opensm-pid or --reload")
    for pid in pids:
        hang_up(pid)


def by_file(path):
    """To the process whose number is in a file, if that is OpenSM."""
    try:
        with open(path, encoding="ascii") as f:
            pid = int(f.read(32))
    except (OSError, ValueError):
        raise HttpError(500, f"OpenSM has not read the partitions: {path} has no number of a "
                            "process") from None
    if name_of(pid) != NAME:
        raise HttpError(500, f"OpenSM has not read the partitions: process {pid} of {path} is not "
                            f"{NAME}")
    hang_up(pid)


def by_command(command):
    """By a command line of the shell, which has to succeed."""
    with subprocess.Popen(command, shell=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                          start_new_session=True) as process:
        try:
            status = process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            status = f"none after {PATIENCE} s"
            os.killpg(process.pid, signal.SIGKILL)
    if status:
        raise HttpError(500, "OpenSM has not read the partitions: the status of --reload is "
                            f"{status}")
