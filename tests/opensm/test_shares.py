# SPDX-License-Identifier: GPL-2.0-or-later
"""OpenSM's options of QoS define the shares of service levels on a cable that all of them use.

OpenSM writes VLArbitrationTables, LimitOfHighPriority and SLtoVLMappingTables into a fabric;
traffic sends over that fabric's tables, 10 s of virtual time.
"""
import os
import re

from sm import Case, quick, write

# Each VL has the SL of its number
SL2VL = ",".join(str(sl % 8) for sl in range(16))
# 1,000 times slower, so that 10 s are 30,000 packets of 4 KiB
SCALE = 1000
SECONDS = 10
# ServiceID of a target, as for SRP
STORAGE = 0x1234567890


class Shares(Case):
    """Hosts that send to one by different service levels."""

    def measure(self, fabric, *arguments):
        """Percent of each SL while all hosts send to the first one, for 10 s at least."""
        # as much as the cable carries in that time
        said = self.traffic(fabric, "--pattern", "incast", "--size", "128M", "--messages", "1",
                            "--rate-scale", str(SCALE), *arguments)
        self.assertGreater(float(re.search(r"(?m)^shares: ([\d.]+) us$", said)[1]), SECONDS * 1e6)
        return {int(sl): float(x) for sl, x in re.findall(r"(?m)^sl(\d+): .*, ([\d.]+) %$", said)}

    def shares(self, sls, mtu=4096, sl2vl=SL2VL, **options):
        """Percent that each of the first SLs has of the cable to the first host."""
        fabric = self.serve(f"star:{sls + 1}", "--mtu", str(mtu))
        self.once(fabric, "host1", conf={"qos": "TRUE", "qos_max_vls": 8, "qos_sl2vl": sl2vl,
                                         **{f"qos_{k}": v for k, v in options.items()}})
        measured = self.measure(fabric, "--sl", ",".join(map(str, [sls - 1, *range(sls - 1)])))
        return [measured.get(sl, 0) for sl in range(sls)]

    def judge(self, weights, measured):
        """Checks that the shares are those of the weights, within 3 % of each."""
        self.said = [*getattr(self, "said", ()), " ".join(f"{x:.2f} %" for x in measured)]
        for weight, share in zip(weights, measured):
            self.assertAlmostEqual(share / (100 * weight / sum(weights)), 1, delta=0.03)

    @quick
    def test_one_to_three(self):
        """Weights 64 and 192 of the low priority table, 1 and 3 packets of 4 KiB."""
        self.judge((1, 3), self.shares(2, vlarb_low="0:64,1:192", vlarb_high="0:0", high_limit=0))

    def test_usual(self):
        """OpenSM's usual tables: VL 0 has high priority. With low priority it comes once, where it
        has the place of VL 8, and each other VL twice."""
        self.judge((4, 2), self.shares(2))

    def test_equal(self):
        """The same weights."""
        self.judge((1, 1), self.shares(2, vlarb_low="0:64,1:64", vlarb_high="0:0"))

    @quick
    def test_one_seven_eight(self):
        """1, 7 and 8 packets of 1 KiB."""
        self.judge((1, 7, 8), self.shares(3, mtu=1024, vlarb_low="0:16,1:112,2:128",
                                          vlarb_high="0:0", high_limit=0))

    @quick
    def test_high_limits(self):
        """Two VLs with high priority, 1:3, and one with low: 0 lets one packet of 1 KiB pass before
        one of low priority, 1 lets 4 KiB, and 255 all of them."""
        for limit, weights in ((0, (1, 3, 4)), (1, (1, 3, 1)), (3, (3, 9, 1)), (255, (1, 3, 0))):
            with self.subTest(limit=limit):
                measured = self.shares(3, mtu=1024, vlarb_high="0:16,1:48", vlarb_low="2:64",
                                       high_limit=limit)
                if limit == 255:
                    self.assertEqual(measured[2], 0)
                    weights, measured = weights[:2], measured[:2]
                self.judge(weights, measured)

    def test_same_lane(self):
        """SLs of the same VL divide its share among them."""
        self.judge((2, 3, 3), self.shares(3, vlarb_low="0:64,1:192", vlarb_high="0:0", high_limit=0,
                                          sl2vl="0,1,1,0,0,0,0,0,0,0,0,0,0,0,0"))

    def test_services(self):
        """qos-policy.conf gives storage an SL by its ServiceID, which PathRecords say, and the lane
        of that three times the weight of the other one."""
        fabric = self.serve("star:3")
        policy = os.path.join(self.dir, "qos-policy.conf")
        write(policy, f"qos-ulps\ndefault: 0\nany, service-id {STORAGE:#x}: 1\nend-qos-ulps\n")
        sm = self.opensm(fabric, "host1", conf={
            "qos": "TRUE", "qos_policy_file": policy, "qos_max_vls": 8, "qos_high_limit": 0,
            "qos_vlarb_low": "0:64,1:192", "qos_vlarb_high": "0:0", "qos_sl2vl": SL2VL})
        sm.up()
        lid = [fabric.nodes()[f"host{n}"]["ports"][1]["lid"] for n in (1, 2, 3)]
        host = self.at(fabric, "host2")
        sls = [host.path(lid[1], lid[0])["sl"], host.path(lid[2], lid[0], STORAGE)["sl"]]
        self.assertEqual(sls, [0, 1])
        paths = os.path.join(self.dir, "paths")
        write(paths, "".join(f"{here} {lid[0]} {sl}\n" for here, sl in zip(lid[1:], sls)))
        measured = self.measure(fabric, "--path-sl", paths)
        self.judge((1, 3), [measured[sl] for sl in (0, 1)])
