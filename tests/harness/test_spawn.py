#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""The nice values of the processes of a lab."""
import os
import subprocess
import sys
import unittest
from unittest import mock

import fake

from ohca_lab import cli, lab, vm  # pylint: disable=wrong-import-order  # fake has the path

AUTOGROUP = "/proc/self/autogroup"
SET = f"import os; os.setpriority(os.PRIO_PROCESS, 0, {lab.FABRIC_NICE})"
SAY = f"""
import os
print(os.getpriority(os.PRIO_PROCESS, 0))
if os.path.exists({AUTOGROUP!r}):
    print(open({AUTOGROUP!r}).read())
"""


def said(nice):
    """What a program with this nice value says: its own value, and that of its session."""
    with vm.spawn([sys.executable, "-c", SAY], nice, stdout=subprocess.PIPE) as p:
        return p.stdout.read().decode().split()


class Nice(unittest.TestCase):
    """Nice values, whether the user may lower them or not."""

    def test_lower(self):
        """A process and its session have the value, if the user may set it; else it runs with 0."""
        may = not subprocess.run([sys.executable, "-c", SET], check=False,
                                 stderr=subprocess.DEVNULL).returncode
        own = str(os.getpriority(os.PRIO_PROCESS, 0))
        found = said(lab.FABRIC_NICE)
        self.assertEqual(found[0], str(lab.FABRIC_NICE) if may else own)
        if may and found[1:]:
            self.assertEqual(found[1:][-2:], ["nice", str(lab.FABRIC_NICE)])
        self.assertEqual(said(0)[0], own)

    def test_refused(self):
        """A user who may not set it has a lab nevertheless."""
        with mock.patch.object(os, "setpriority", side_effect=PermissionError):
            vm.prefer(lab.FABRIC_NICE)

    def test_fabric(self):
        """A lab starts its fabric with the value."""
        one = mock.Mock(spec=lab.Lab, dir="/dir")
        one.opt = cli.complete(cli.parser().parse_args(["up", "-n", "2"]))
        lab.Lab.start_fabric(one)
        # pylint: disable-next=protected-access  # what start_fabric() calls
        self.assertEqual(one._helper.call_args.kwargs, {"nice": lab.FABRIC_NICE})


if __name__ == "__main__":
    fake.main()
