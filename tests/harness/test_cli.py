#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""The options of ohca-lab, without a lab."""
import contextlib
import io
import sys
import unittest
from unittest import mock

import fake

from ohca_lab import cli  # pylint: disable=wrong-import-order  # fake has the path


class Systems(unittest.TestCase):
    """The system of each node."""

    def guests(self, *argv):
        """The guests of these options."""
        return list(cli.parser().parse_args(["run", *argv, "--", "true"]).guest)

    def test_arch(self):
        """An architecture selects Debian 13 of that architecture."""
        self.assertEqual(self.guests(), ["debian13"])
        self.assertEqual(self.guests("--arch", "amd64"), ["debian13"])
        self.assertEqual(self.guests("--arch", "s390x,amd64,arm64"), ["s390x", "debian13", "arm64"])
        self.assertEqual(self.guests("--guest", "debian12,arm64"), ["debian12", "arm64"])

    def test_refused(self):
        """Names that no guest has, and two options for the same thing."""
        for argv, why in ((["--arch", "arm64,i386"], "'i386' is no guest's architecture"),
                          (["--arch", "debian13"], "'debian13' is no guest's architecture"),
                          (["--guest", "amd64"], "'amd64' is no guest"),
                          (["--guest", "debian12", "--arch", "arm64"], "not allowed with")):
            said = io.StringIO()
            with contextlib.redirect_stderr(said), self.assertRaises(SystemExit):
                self.guests(*argv)
            self.assertIn(why, said.getvalue())

    def test_libvirt(self):
        """A domain has an amd64 machine, in which another guest cannot boot."""
        said = io.StringIO()
        with contextlib.redirect_stderr(said), \
                mock.patch.object(sys, "argv", ["ohca-lab", "libvirt", "--arch", "amd64,s390x"]):
            self.assertEqual(cli.main(), 2)
        self.assertIn("only guests of amd64", said.getvalue())


if __name__ == "__main__":
    fake.main()
