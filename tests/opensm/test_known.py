# SPDX-License-Identifier: GPL-2.0-or-later
"""Known bugs of OpenSM, by their numbers at github.com/linux-rdma/opensm.

Each test reproduces a bug. It passes if a release that is known to have the bug has it, and if one
that is known not to have it does not. For other versions, both results pass; the line says which
one it was.
"""
import os
import random
import re
import subprocess

import mad
from sm import CONFIG, ANY, Case, quick, within

# Number of the bug: the last release that has it; None: all until now
LAST = {"#30": None, "#37": None, "#38": "3.3.23", "#43": None}
RATES = {2: "2.5", 3: "10", 4: "30", 5: "5", 6: "20", 7: "40", 8: "60", 9: "80", 10: "120",
         16: "100", 18: "200", 22: "400", 23: "600", 24: "800"}


def version(text):
    """A release as numbers."""
    return [int(n) for n in re.findall(r"\d+", text)[:3]]


class Known(Case):
    """One bug in each test."""

    def judge(self, bug, has_it, what):
        """The line of the test, and whether this release behaves as known."""
        mine, last = CONFIG["version"], LAST[bug]
        self.said = [f"{bug} {'is there' if has_it else 'is not there'}: {what}"]
        if re.fullmatch(r"3\.3\.\d+", mine):
            known = last is None or version(mine) <= version(last)
            # a bug that is not fixed yet may be in a later release
            if last is not None or version(mine) <= [3, 3, 23]:
                self.assertEqual(has_it, known, self.said[0])

    def crashes(self, engine, spec):
        """Whether OpenSM crashes while switches are removed and added, by one of six seeds."""
        for seed in range(1, 7):
            fabric = self.serve("--generate", spec, "--seed", str(seed))
            nodes = fabric.nodes()
            switches = [n for n, node in nodes.items() if node["type"] == "switch"]
            leaf = nodes["host1"]["ports"][1]["peer"]
            draw = random.Random(seed)
            lines = [f"every {draw.randrange(20, 60)}ms from {draw.randrange(50)}ms for 8s "
                     f"link flap '{draw.choice(switches)}':any --down {draw.randrange(5, 60)}ms"
                     for _ in range(8)]
            for name in draw.sample([n for n in switches if nodes[n]["guid"] != leaf], 3):
                lines += [f"every {draw.randrange(200, 400)}ms from 100ms for 8s "
                          f"node kill '{name}'",
                          f"every {draw.randrange(200, 400)}ms from {draw.randrange(100, 300)}ms "
                          f"for 8s node revive '{name}'"]
            sm = self.opensm(fabric, "host1", "-R", engine,
                             conf={"qos": "TRUE", "sweep_interval": 1}, announced=ANY)
            sm.up()
            fabric.do("script", text="\n".join(lines), replace=True)
            within(lambda f=fabric, s=sm: s.process.poll() is not None or
                   not f.status()["script_left"], "the script ends")
            died = sm.process.poll()
            sm.kill()
            if died is not None:
                self.assertLess(died, 0, "it has ended by itself, without a signal")
                return f"{engine}, signal {-died}, seed {seed} at {spec}"
        return ""

    def test_30_lash(self):
        """#30: lash follows a route that does not exist, if a switch has lost all its links."""
        died = self.crashes("lash", "torus:4x4")
        self.judge("#30", bool(died), died)

    def test_nue(self):
        """nue crashes in the same way. This bug has no number."""
        died = self.crashes("nue", "fat-tree:6")
        # whether it crashes depends on the moment
        self.said = [died or "it has not crashed"]

    def test_37_class_129(self):
        """#37: a kernel that refuses class 0x81. OpenSM ends with a message in its log only."""
        fabric = self.serve("star:2")
        shim = os.path.join(CONFIG["programs"], "libno_smi.so")
        if not os.path.exists(shim):
            self.skipTest(f"there is no {shim}")
        sm = self.opensm(fabric, "host1", preload=[shim], announced=ANY).once()
        self.assertIn("5426", sm.errors())
        self.assertNotIn("SUBNET UP", sm.text())
        self.judge("#37", True, f"OpenSM ends with status {sm.ended}")

    @quick
    def test_38_ndr(self):
        """#38: the rate of a PathRecord over NDR."""
        path = os.path.join(self.dir, "topology")
        with open(path, "wb") as f:
            subprocess.run([CONFIG["fabric"], "generate", "star:2", "--speed", "NDR"], stdout=f,
                           check=True)
        fabric = self.serve("--topology", path)
        sm = self.opensm(fabric, "host1")
        sm.up()
        lids = [fabric.nodes()[n]["ports"][1]["lid"] for n in ("host1", "host2")]
        rate = self.at(fabric, "host1").path(*lids)["rate"]
        self.assertIn(rate, (7, 22), "40 or 400 Gb/s")
        self.judge("#38", rate == 7, f"4xNDR has rate {RATES[rate]} Gb/s")

    @quick
    def test_43_partial_leave(self):
        """#43: a member of two kinds that gives up one is removed; its group stays for ever."""
        fabric = self.serve("star:2")
        sm = self.opensm(fabric, "host1", announced=ANY)
        sm.up()
        guid = int(fabric.nodes()["host2"]["ports"][1]["guid"], 16)
        program = self.at(fabric, "host2")
        group = b"\xff\x12\x14\x05" + bytes(11) + b"\x01"
        first = program.join(group, guid, 9)["mlid"]
        program.leave(group, guid, 1)
        try:
            program.leave(group, guid, 8)
        except mad.Refused:
            pass    # it is no member any more
        # the group is gone, and with it its MLID
        second = program.join(b"\xff\x12\x14\x05" + bytes(11) + b"\x02", guid)["mlid"]
        again = "free again" if first == second else "not free again"
        self.judge("#43", first != second, f"MLID {first:#06x} is {again}")
