# SPDX-License-Identifier: GPL-2.0-or-later
"""Makes OpenSM read partitions.conf again: by SIGHUP, or by a command of the user."""
import os
import signal
import subprocess

from ohca_web.shape import HttpError

NAME = "opensm"
PATIENCE = 30           # seconds that a command may run


def name_of(pid):
    """The name of a process; "" if there is no such process."""
    try:
        with open(f"/proc/{pid}/comm", encoding="utf-8", errors="replace") as f:
            return f.read().rstrip("\n")
    except OSError:
        return ""


def has_begun(pid):
    """Whether a process catches or blocks SIGHUP, so that the signal does not end it."""
    with open(f"/proc/{pid}/status", encoding="utf-8", errors="replace") as f:
        masks = dict(line.split(":", 1) for line in f if ":" in line)
    return any(int(masks[name], 16) >> (signal.SIGHUP - 1) & 1 for name in ("SigBlk", "SigCgt"))


def hang_up(pid):
    """Sends SIGHUP to OpenSM, which then starts a heavy sweep and reads the file.

    If OpenSM has just been started, the signal would end it, so it is not sent: OpenSM reads the
    file in its first sweep.
    """
    try:
        if has_begun(pid):
            os.kill(pid, signal.SIGHUP)
    except OSError as e:
        raise HttpError(500, f"OpenSM has not read the partitions: process {pid}: "
                            f"{e.strerror}") from None


def by_name():
    """Signals the process named opensm. If there is none, OpenSM reads the file when it starts."""
    pids = [int(name) for name in os.listdir("/proc") if name.isdigit() and name_of(name) == NAME]
    if len(pids) > 1:
        raise HttpError(500, f"OpenSM has not read the partitions: {len(pids)} processes are "
                            f"named {NAME}: start ohca-ufm with --opensm-pid or --reload")
    for pid in pids:
        hang_up(pid)


def by_file(path):
    """Signals the process whose number is in a file, if it is named opensm."""
    try:
        with open(path, encoding="ascii") as f:
            pid = int(f.read(32))
    except (OSError, ValueError):
        raise HttpError(500, f"OpenSM has not read the partitions: {path} does not have the "
                            "number of a process") from None
    if name_of(pid) != NAME:
        raise HttpError(500, f"OpenSM has not read the partitions: process {pid} of {path} is not "
                            f"{NAME}")
    hang_up(pid)


def by_command(command):
    """Runs a command line of the shell; HttpError if it fails."""
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
