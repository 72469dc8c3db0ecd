#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""The launcher detects a guest whose clock runs wrongly, and no other one."""
import time
import types
import unittest
from unittest import mock

import fake
from ohca_lab import clock, paths
from ohca_lab.lab import LabError
from ohca_lab.vm import VM

SECOND = 10 ** 9


class Guest:
    """A guest whose clock runs at a given rate, and which answers late."""

    def __init__(self, rate, answer=0.0):
        self.rate, self.answer = rate, answer
        self.now = 7 * SECOND   # the host's clock
        self.clock = clock.Clock()

    def read(self, after):
        """Adds a reading, seconds after the last one."""
        self.now += int(after * SECOND)

        def get():
            value = int(self.now * self.rate)
            self.now += int(self.answer * SECOND)
            return value
        with mock.patch.object(time, "monotonic_ns", lambda: self.now):
            self.clock.read(get)
        return self.clock.verdict()


class Clocks(unittest.TestCase):
    """Verdicts on guests."""

    def test_right(self):
        for rate in (0.97, 1, 1.03):
            guest = Guest(rate, 0.01)
            self.assertIsNone(guest.read(0))
            self.assertIsNone(guest.read(3))
            self.assertIsNone(guest.read(300))

    def test_too_fast(self):
        guest = Guest(2.7, 0.01)
        self.assertIsNone(guest.read(0))
        self.assertIn("runs 2.69 times as fast", guest.read(2))

    def test_too_slow(self):
        guest = Guest(0.4, 0.01)
        guest.read(0)
        self.assertIn("runs 0.40 times as fast", guest.read(2))

    def test_nothing_is_certain_of_a_busy_host(self):
        guest = Guest(1, 2)
        guest.read(0)
        self.assertIsNone(guest.read(0.1))

    def test_certain_in_the_end(self):
        guest = Guest(1.5, 2)
        guest.read(0)
        self.assertIsNone(guest.read(0.1))
        self.assertIsNotNone(guest.read(20))

    def test_lab_is_ended(self):
        lab = fake.FakeLab("clocks", types.SimpleNamespace(nodes=1))
        self.addCleanup(lab.teardown)
        lab.start()
        lab.clocks = {1: clock.Clock()}
        lab.clocks[1].readings = [(0, 0, 1)]
        with self.assertRaisesRegex(LabError, "node1: its clock runs"):
            fake.real.Lab.check_clocks(lab)


class Rate(unittest.TestCase):
    """The rate of the host's counter."""

    def test_measured_twice(self):
        rates = [clock.tsc_khz() for _ in range(2)]
        if None in rates:
            self.skipTest("the counter cannot be read, or not without being interrupted")
        self.assertLess(abs(rates[0] - rates[1]), rates[0] / 200)
        self.assertGreater(min(rates), 100000)

    def test_given_to_the_kernel(self):
        opt = types.SimpleNamespace(nodes=1, numa=None, kernel="stock", append=[], share=None,
                                    no_driver=False, cpus=[1], memory=[64], names=[], qemu=[],
                                    trace=[], gdb=False, fabric="none", attach="qemu")
        for accel, khz, given in (("tcg", 2500123, True), ("tcg", None, False),
                                  ("kvm", None, False)):
            lab = types.SimpleNamespace(opt=opt, dir="/l", name="l", first=1, accel=accel,
                                        tsc_khz=khz, places=[[]],
                                        guest=lambda k: paths.Guest("debian13"),
                                        layers={"debian13": []}, mgmt_role=lambda k: "r")
            words = VM(lab, 1).argv()
            cmdline = words[words.index("-append") + 1].split()
            self.assertEqual("tsc_early_khz=2500123" in cmdline, given)


if __name__ == "__main__":
    fake.main()
