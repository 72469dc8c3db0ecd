#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""What ohca-lab's options mean, without a lab."""
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
        """The guests that these options name."""
        return list(cli.parser().parse_args(["run", *argv, "--", "true"]).guest)

    def test_arch(self):
        """An architecture is Debian 13 of it, as its guest is."""
        self.assertEqual(self.guests(), ["debian13"])
        self.assertEqual(self.guests("--arch", "amd64"), ["debian13"])
        self.assertEqual(self.guests("--arch", "s390x,amd64,arm64"), ["s390x", "debian13", "arm64"])
        self.assertEqual(self.guests("--guest", "debian12,arm64"), ["debian12", "arm64"])

    def test_refused(self):
        """What no guest has, and two answers to one question."""
        for argv, why in ((["--arch", "arm64,i386"], "'i386' is no guest's architecture"),
                          (["--arch", "debian13"], "'debian13' is no guest's architecture"),
                          (["--guest", "amd64"], "'amd64' is no guest"),
                          (["--guest", "debian12", "--arch", "arm64"], "not allowed with")):
            said = io.StringIO()
            with contextlib.redirect_stderr(said), self.assertRaises(SystemExit):
                self.guests(*argv)
            self.assertIn(why, said.getvalue())

    def test_libvirt(self):
        """A domain has an amd64 machine: another guest would never boot in it."""
        said = io.StringIO()
        with contextlib.redirect_stderr(said), \
                mock.patch.object(sys, "argv", ["ohca-lab", "libvirt", "--arch", "amd64,s390x"]):
            self.assertEqual(cli.main(), 2)
        self.assertIn("only guests of amd64", said.getvalue())


if __name__ == "__main__":
    fake.main()
