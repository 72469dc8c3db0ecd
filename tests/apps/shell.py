# SPDX-License-Identifier: GPL-2.0-or-later
"""A shell that runs one command after the other, as a user would type them."""
import os
import select
import signal
import subprocess
import time


class ShellError(Exception):
    """The shell has ended, or a command is too slow."""


class Shell:
    """A bash at a pipe; both output streams of its commands are one text."""

    def __init__(self, argv, cwd, env):
        # pylint: disable-next=consider-using-with  # close() ends it
        self.child = subprocess.Popen(argv, cwd=cwd, env=env, stdin=subprocess.PIPE,
                                      stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                      start_new_session=True)
        self.mark = "done-" + os.urandom(8).hex()
        os.write(self.child.stdin.fileno(), b"exec 2>&1\n")

    def run(self, command, limit):
        """Runs a command with an empty input; returns its status and its output."""
        # the shell assembles the mark, so that an echo of the line does not contain it
        text = f"{{ {command}\n}} </dev/null\nprintf '\\n%s %d\\n' {self.mark} $?\n"
        deadline, got = time.monotonic() + limit, b""
        try:
            os.write(self.child.stdin.fileno(), text.encode())
        except BrokenPipeError:
            raise ShellError("the shell has ended") from None
        mark = f"\n{self.mark} ".encode()
        while mark not in got or not got.endswith(b"\n"):
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([self.child.stdout], [], [], left)[0]:
                raise ShellError(f"not done after {limit} s; so far:\n"
                                 + got.decode("utf-8", "replace"))
            data = os.read(self.child.stdout.fileno(), 1 << 16)
            if not data:
                raise ShellError("the shell has ended:\n" + got.decode("utf-8", "replace"))
            got += data
        output, status = got.rsplit(mark, 1)
        return int(status), output.decode("utf-8", "replace")

    def close(self):
        """Ends the shell and its background processes."""
        if self.child.poll() is None:
            try:
                os.killpg(self.child.pid, signal.SIGTERM)
            except ProcessLookupError:
                pass
        self.child.wait()
        self.child.stdin.close()
        self.child.stdout.close()
