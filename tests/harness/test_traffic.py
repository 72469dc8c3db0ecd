#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""ohca-lab traffic with fake counters of nodes, without a machine; the check of lesson 12."""
import contextlib
import io
import json
import os
import re
import sys
import tempfile
import unittest
from unittest import mock

import fake

from ohca_lab import cli, course, paths, traffic  # pylint: disable=wrong-import-order  # fake has the path
from ohca_lab.running import Running  # pylint: disable=wrong-import-order

MIB = traffic.MIB
BUSY = {"qps": [{"ifname": "ohca_0", "lqpn": 1, "type": "GSI", "comm": "ib_core"},
                {"ifname": "ohca_0", "lqpn": 18, "type": "UD", "comm": "ib_ipoib"},
                {"ifname": "ohca_0", "lqpn": 20, "type": "RC", "pid": 7, "comm": "ib_write_bw"},
                {"ifname": "ohca_0", "lqpn": 21, "type": "RC", "pid": 7, "comm": "ib_write_bw"},
                {"ifname": "ohca_0", "lqpn": 22, "type": "RC", "comm": "[nvme_rdma]"}],
        "sets": [{"ifname": "ohca_0", "cntn": 1, "lqpn": [20, 21], "tx_bytes": 9 * MIB}]}


def histogram(keys, entries):
    """A histogram of the kernel: entries are (program, second key, sum)."""
    return ["# event histogram", "#", ""] + [
        "{ common_pid: %-15s [%11d], %s: %10d } hitcount: %10d  %s: %10d" % (
            name, 1000 + i, keys[0], key, 3, keys[1], n)
        for i, (name, key, n) in enumerate(entries)] + ["", "Totals:", "    Hits: 9"]


def counted(port=0, ib0=(0, 0), eth0=0, sent=None, order="little", **lists):
    """The output of READ: bytes of the port, bytes and packets of ib0.

    sent: [(program, address, bytes)]
    """
    sent = sent if sent is None else [
        (name, int.from_bytes(map(int, to.split(".")), order), n) for name, to, n in sent]
    return "\n".join([
        "== ports", str(port // 4), "== interfaces",
        f"eth0 1 {eth0} 10 9000 ", f"ib0 32 {ib0[0]} {ib0[1]} 2044 datagram",
        "ib0.8001 32 0 9 2044 datagram", "lo 772 999999999 1 65536 ",
        "== addresses",
        r"1: lo    inet 127.0.0.1/8 scope host lo\       valid_lft forever preferred_lft forever",
        r"2: eth0    inet 10.76.0.1/24 scope global eth0\       valid_lft forever",
        r"3: ib0    inet 10.77.0.1/24 brd 10.77.0.255 scope global ib0\       valid_lft forever",
        r"4: ib0.8001@ib0    inet 10.79.0.1/24 scope global ib0.8001\       valid_lft forever",
        "== sent", *([] if sent is None else histogram(("to", "bytes"), sent)),
        "== ended", *histogram(("type", "tx_bytes"), lists.get("ended", [])),
        "== qps", json.dumps(lists.get("qps", [])), "== sets", json.dumps(lists.get("sets", [])),
        "== end", ""])


class Lab(unittest.TestCase):
    """A lab of two nodes, with counters that a test defines."""

    def setUp(self):
        where = tempfile.TemporaryDirectory()
        self.addCleanup(where.cleanup)
        os.mkdir(os.path.join(where.name, "default"))
        self.state = {"nodes": 2, "first": 1, "fabric": "ohca", "guests": ["debian13"] * 2,
                      "names": ["node1", "node2"]}
        self.counters = {1: counted(), 2: counted()}
        self.files, self.scripts, self.started = {}, [], 0
        for target, name, value in ((paths, "runtime", lambda: where.name),
                                    (cli, "state_of", lambda _: self.state),
                                    (Running, "sh", lambda _, k, script: self.sh(k, script))):
            patch = mock.patch.object(target, name, value)
            patch.start()
            self.addCleanup(patch.stop)

    def sh(self, k, script):
        """The output of a command on a node."""
        self.scripts.append((k, script))
        if script == traffic.START:
            return self.started, ""
        if script == traffic.READ:
            return 0, self.counters[k]
        return 0, self.files.get(script.split()[1], "")

    def traffic(self, *argv):
        """The status of 'ohca-lab traffic', and its lines with single spaces."""
        said = io.StringIO()
        with contextlib.redirect_stderr(said), contextlib.redirect_stdout(said), \
                mock.patch.object(sys, "argv", ["ohca-lab", "traffic", *argv]):
            status = cli.main()
        return status, [" ".join(line.split()) for line in said.getvalue().splitlines()]


class Counters(Lab):
    """What was sent, and by which transport."""

    def test_ipoib(self):
        """The port counts packets of IPoIB, too; they do not count as verbs."""
        wire = 40 * MIB + 20000 * 32
        self.counters[1] = counted(wire, (40 * MIB, 20000), 2 * MIB,
                                   [("python3", "10.77.0.2", 30 * MIB), ("y", "10.79.0.2", MIB),
                                    ("python3", "10.77.0.3", 9 * MIB),
                                    ("sshd", "10.76.0.2", MIB), ("sshd", "127.0.0.1", 5 * MIB),
                                    ("iperf3", "10.77.0.1", 5 * MIB), ("x", "1.2.3.4", 5 * MIB)])
        status, lines = self.traffic("--expect", "verbs")
        # packets to itself use no interface; the second node does not count by program
        self.assertEqual(lines[:4], ["sent since the nodes' boot", "node1 verbs 0.0 MiB",
                                     "node1 eth0 (Ethernet) 2.0 MiB sshd 1.0",
                                     "node1 ib0 (IPoIB, UD) 40.0 MiB python3 39.0"])
        self.assertEqual(lines[4], "node1 ib0.8001 (IPoIB, UD) 0.0 MiB y 1.0")
        self.assertEqual(lines[9:], [
            "unexpected: no node has sent more than 1.0 MiB by verbs",
            "unexpected: node1 has sent 2.0 MiB by Ethernet (eth0)",
            "unexpected: node1: python3 has sent 39.0 MiB by IPoIB (ib0)",
            "to count by program, run 'ohca-lab traffic --start' before the job"])
        self.assertEqual(status, 3)
        self.assertEqual(self.traffic("--expect", "ipoib")[0], 3)
        self.assertEqual(self.traffic("--expect", "ipoib", "--limit", "3")[0], 0)

    def test_large_segments(self):
        """Packets that the device cuts have more headers on the wire than the interface counts."""
        # 640 times 64 KiB, cut into 33 parts
        self.assertEqual(traffic.wire(640 * 65536, 640, 2044), 640 * 65536
                         + 20521 * 32 + (20521 - 640) * 56)
        self.assertEqual(traffic.wire(100, 1, 2044), 132)
        self.assertEqual(traffic.wire(0, 0, 2044), 0)

    def test_verbs(self):
        """Verbs by program, for QPs that exist and that have ended; without IPoIB and MADs."""
        ended = [("ib_write_bw", 2, MIB), ("ib_write_bw", 2, MIB), ("ib_send_bw", 4, MIB // 2),
                 ("rping", 2, 640), ("x", -1, MIB // 40)]
        self.counters = {1: counted(50 * MIB, sent=[], ended=ended, **BUSY),
                         2: counted(MIB // 2, sent=[])}
        status, lines = self.traffic("--expect", "verbs")
        self.assertEqual(status, 0, lines)
        self.assertEqual(lines[1], "node1 verbs 50.0 MiB RC ib_write_bw 11.0, "
                                   "UD ib_send_bw 0.5, RC rping 640 bytes, RC nvme_rdma has QPs")
        self.assertEqual(lines[5], "node2 verbs 0.5 MiB")
        # existing QPs are counted, those that ended before are not
        self.assertEqual(self.traffic("--start")[0], 0)
        more = {**BUSY, "sets": [{"ifname": "ohca_0", "lqpn": [20, 21], "tx_bytes": 12 * MIB}]}
        self.counters[1] = counted(60 * MIB, sent=[], ended=ended, **more)
        self.assertEqual(self.traffic()[1][1], "node1 verbs 10.0 MiB RC ib_write_bw 3.0, "
                                               "RC nvme_rdma has QPs")

    def test_order(self):
        """Addresses of a big-endian node, and of a little-endian one."""
        for guest, order in (("s390x", "big"), ("debian13", "little")):
            self.state["guests"] = [guest] * 2
            for other in ("little", "big"):
                self.counters[1] = counted(0, (MIB, 9), 0, [("a", "10.77.0.2", MIB)], other)
                with self.subTest(guest=guest, other=other):
                    self.assertEqual("a 1.0" in self.traffic()[1][3], order == other)

    def test_hostile_names(self):
        """A program's name cannot control the terminal; an answer that is no JSON means no QPs."""
        text = counted(0, (MIB, 9), 0, [("a\x1b[2Jb", "10.77.0.2", MIB)])
        self.counters[1] = text.replace("== qps\n[]", "== qps\nerror [")
        self.assertIn("a?[2Jb 1.0", self.traffic()[1][3])
        row = {"ifname": "ohca_0", "lqpn": 20, "type": "\x1b[2J", "pid": 7, "comm": "c"}
        self.counters[1] = counted(qps=[row]).replace("eth0 1 0", "\x1b[2Je 1 0")
        lines = self.traffic()[1]
        self.assertIn("?[2J c has QPs", lines[1])
        self.assertIn("?[2Je (Ethernet)", lines[2])

    def test_dead(self):
        """A node that does not answer is an error, not a lab without traffic."""
        right = counted(0, (MIB, 9), 0, [("a", "10.77.0.2", MIB)])
        for text in ("", "== ports\n== end\n", "== ports\n4", "== ports\n4\n== end",
                     right.replace("eth0 1 0", "eth0 1 x"), right.replace("2044", "-"),
                     right.replace("10.77.0.1/24", "10.77.0.1/99"),
                     re.sub(r"to: +\d+", f"to: {1 << 40}", right),
                     right.replace("== qps\n[]", '== qps\n[{"comm": 7}]'),
                     right.replace("== sets\n[]", "== sets\n" + "[" * 100000)):
            self.counters[2] = text
            with self.subTest(text=text[:200]):
                self.assertEqual(self.traffic("--expect", "verbs")[0], 1)


class Since(Lab):
    """--start begins anew."""

    def test_start(self):
        """Bytes sent before --start do not count, with and without counts by program."""
        for sent, after in (([("p", "10.77.0.2", 7 * MIB)], [("p", "10.77.0.2", 8 * MIB)]),
                            (None, None)):
            self.counters[1] = counted(90 * MIB, (9 * MIB, 9), 9 * MIB, sent)
            self.assertEqual(self.traffic("--start"), (0, []))
            status, lines = self.traffic("--expect", "verbs")
            self.assertEqual(status, 3)
            self.assertEqual(lines[1:4], ["node1 verbs 0.0 MiB", "node1 eth0 (Ethernet) 0.0 MiB",
                                          "node1 ib0 (IPoIB, UD) 0.0 MiB"])
            self.counters[1] = counted(96 * MIB, (10 * MIB, 9), 9 * MIB, after)
            self.assertIn("ago", self.traffic()[1][0])
            self.assertEqual(self.traffic()[1][3], "node1 ib0 (IPoIB, UD) 1.0 MiB"
                             + (" p 1.0" if sent else ""))
            self.assertEqual(self.traffic("--expect", "verbs")[0], 0)
        self.assertEqual([k for k, s in self.scripts if s == traffic.START], [1, 2, 1, 2])

    def test_kernel_cannot(self):
        """A kernel without the probe is reported; the other counts work."""
        self.started = 1
        status, lines = self.traffic("--start")
        self.assertEqual((status, len(lines)), (0, 2))
        self.assertIn("node2 cannot count by program", lines[1])

    def test_refused(self):
        """--start together with --expect; a lab without adapters of OpenHCA."""
        self.assertEqual(self.traffic("--start", "--expect", "verbs")[0], 1)
        self.state["fabric"] = "rxe"
        for argv in ((), ("--start",), ("--expect", "verbs")):
            self.assertEqual(self.traffic(*argv)[0], 1)


class Lesson(Lab):
    """The parts of lesson 12 that are done."""

    def parts(self):
        """Whether each part is done."""
        return [bool(done) for done, _ in course.training(Running("default", self.state))]

    def test_steps(self):
        """No job; a job over IPoIB; one with another loss; one over verbs; all correct."""
        self.assertEqual(self.parts(), [False] * 6)
        self.files["/root/one"] = "step 1: loss 1.0\nstep 16: loss 0.25\n1 ranks on node1\n"
        self.files["/root/two"] = "step 16: loss 0.25\n2 ranks on node1 node1\n"
        self.assertEqual(self.parts(), [True, False, False, False, False, False])
        self.files["/root/two"] = "step 16: loss 0.26\n2 ranks on node1 node2\n"
        self.counters = {k: counted(41 * MIB, (41 * MIB, 9)) for k in (1, 2)}
        self.assertEqual(self.parts(), [True, True, False, False, False, False])
        self.files["/root/two"] = "step 16: loss 0.25\n2 ranks on node1 node2\n"
        self.assertEqual(self.parts(), [True, True, True, False, False, False])
        self.traffic("--start")
        self.assertEqual(self.parts(), [True, True, True, True, False, False])
        self.counters = {1: counted(81 * MIB, (41 * MIB, 9)), 2: counted(81 * MIB, (43 * MIB, 9))}
        self.assertEqual(self.parts(), [True, True, True, True, True, False])
        self.counters[2] = counted(81 * MIB, (41 * MIB, 9))
        self.assertEqual(self.parts(), [True] * 6)


if __name__ == "__main__":
    fake.main()
