#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""OpenSM at a fabric does what clients of ohca-ufm want: test_opensm.py FABRIC

A fabric of three hosts, OpenSM at the first one by libumad2sim, and smpquery, which reads the
tables of P_Keys. Systems, ports and links are those of the fabric's control socket.
"""
import glob
import os
import re
import subprocess
import sys
import time

import rest

FABRIC = os.path.abspath(sys.argv[1])
LIBRARY = "".join(glob.glob("/usr/lib/*/umad2sim/libumad2sim.so"))
DEFAULT = "0xffff"


class Fabric(rest.Case):
    """A fabric with OpenSM and ohca-ufm."""

    def setUp(self):
        super().setUp()
        name = f"ufm-{os.getpid()}"
        self.env = {**os.environ, "LD_PRELOAD": LIBRARY, "IBSIM_SOCKNAME": name,
                    "OSM_TMP_DIR": ".", "OSM_CACHE_DIR": "."}
        fabric = self.process([FABRIC, "serve", "--generate", "star:3", f"--umad2sim={name}",
                               "--control", "control"], stdout=subprocess.PIPE)
        self.addCleanup(fabric.stdout.close)
        self.assertTrue(fabric.stdout.readline())
        rest.write(os.path.join(self.dir, "p.conf"),
                  "Default=0x7fff, ipoib : ALL=full ;\nMine=0x300 : ALL_CAS=limited ;\n")
        self.opensm = self.process(["opensm", "-f", "osm.log", "-P", "p.conf"],
                                   env={**self.env, "SIM_HOST": "host1"},
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        rest.write(os.path.join(self.dir, "pid"), f"{self.opensm.pid}\n")
        self.server = self.started("--control", "control", "--fabric", FABRIC,
                                   how=("--opensm-pid", "pid"))
        self.within(lambda: all(p["logical_state"] == "Active" for p in self.get("ports")))

    def process(self, argv, **more):
        """A process that runs until the end of the test."""
        # pylint: disable=consider-using-with
        process = subprocess.Popen(argv, cwd=self.dir, stdin=subprocess.DEVNULL, **more)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process

    def within(self, true):
        """Waits until it becomes true."""
        end = time.monotonic() + rest.PATIENCE
        while not true():
            self.assertLess(time.monotonic(), end)
            time.sleep(0.05)

    def get(self, what):
        """The answer of a GET to ohca-ufm."""
        return self.good(self.server.call("GET", f"/ufmRest/resources/{what}"))

    def post(self, path, **members):
        """Makes a change by POST."""
        self.good(self.server.call("POST", path, members))

    def table(self, port):
        """The P_KeyTable of a port."""
        done = subprocess.run(["smpquery", "pkeys", str(port["lid"]), "1"], cwd=self.dir,
                              env={**self.env, "SIM_HOST": "host1"}, capture_output=True,
                              encoding="utf-8", timeout=rest.PATIENCE, check=False)
        return re.findall(r"0x[0-9a-f]{4}", "".join(
            line.partition(":")[2] for line in done.stdout.splitlines()))

    def held(self, port):
        """The P_Keys of a port, at any index."""
        return sorted(key for key in self.table(port) if key != "0x0000")

    def test_metrics(self):
        """Metrics of each port, as text of OpenMetrics with the right end."""
        kind, text = self.good(self.server.call("GET", "/metrics"))
        self.assertEqual(kind, "application/openmetrics-text; version=1.0.0; charset=utf-8")
        self.assertTrue(text.endswith("\n# EOF\n"))
        sent = re.findall(r'^infiniband_port_xmit_data_bytes_total\{node="([^"]*)",.*port="(\d+)"'
                          r'\} (\d+)$', text, re.M)
        self.assertEqual({(node, port) for node, port, _ in sent},
                         {(f"host{i}", "1") for i in (1, 2, 3)} |
                         {("switch1", str(i)) for i in range(4)})
        self.assertTrue(all(int(n) for _, _, n in sent))

    def test_partitions(self):
        """A GUID moves from one partition to another, as ib-kubernetes does it."""
        ports = {p["system_name"]: p for p in self.get("ports?sys_type=Computer")}
        one, two = ports["host2"], ports["host3"]
        self.within(lambda: self.held(one) == ["0x0300", DEFAULT])
        # ib-kubernetes: pods on host2 and host3 get network 1
        self.post(rest.PKEYS, pkey="0x0001", index0=True, ip_over_ib=True, membership="full",
                  guids=[one["guid"], two["guid"]])
        for port in one, two:
            self.within(lambda p=port: self.table(p)[:1] == ["0x8001"])
            self.assertEqual(self.held(port), ["0x0300", "0x8001", DEFAULT])
        # and the pod on host2 moves to network 2
        self.post(rest.REMOVE, pkey="0x0001", guids=[one["guid"]])
        self.within(lambda: self.held(one) == ["0x0300", DEFAULT])
        self.post(rest.PKEYS, pkey="0x0002", index0=True, ip_over_ib=True, membership="full",
                  guids=[one["guid"], "00:00:00:00:00:00:00:99"])
        self.within(lambda: self.table(one)[:1] == ["0x8002"])
        self.assertEqual(self.table(two)[:1], ["0x8001"])
        # a limited member, then no P_Key of ours
        self.post(rest.PKEYS, pkey="0x8001", membership="limited", guids=[two["guid"]])
        self.within(lambda: "0x0001" in self.table(two) and "0x8001" not in self.table(two))
        for pkey in "0x1", "0x2":
            self.good(self.server.call("DELETE", f"{rest.PKEYS}/{pkey}"))
        for port in one, two:
            self.within(lambda p=port: self.held(p) == ["0x0300", DEFAULT])
        self.assertIsNone(self.opensm.poll())
        self.assertNotIn("PARSE", rest.read(os.path.join(self.dir, "osm.log")))
        self.fabric_shown()

    def fabric_shown(self):
        """Systems, ports and links; filters; a link that is down."""
        systems = {s["system_name"]: s for s in self.get("systems")}
        self.assertEqual({name: (s["type"], s["role"]) for name, s in systems.items()},
                         {"switch1": ("switch", "tor"), **{f"host{n}": ("host", "endpoint")
                                                           for n in (1, 2, 3)}})
        switch = systems["switch1"]
        self.assertEqual([s["name"] for s in self.get("systems?type=switch")], [switch["guid"]])
        self.assertEqual(self.get("systems/host2"), [systems["host2"]])
        self.assertEqual(self.get(f"systems/{switch['guid']}?ports=true")[0]["ports"],
                         self.get("ports?system=switch1"))
        self.bad(self.server.call("GET", "/ufmRest/resources/systems/host9"), 404)
        port = self.get(f"ports/{systems['host2']['ports'][0]}")[0]
        self.assertEqual((port["number"], port["system_name"], port["peer_node_name"],
                          port["physical_state"]), (1, "host2", "switch1", "Link Up"))
        self.assertRegex(port["active_width"], r"^IB_\d+x$")
        peer = self.get(f"ports/{port['peer']}")[0]
        self.assertEqual((peer["peer"], peer["guid"], port["peer_lid"]),
                         (port["name"], switch["guid"], peer["lid"]))
        self.bad(self.server.call("GET", "/ufmRest/resources/ports/x_1"), 404)
        links = self.get("links")
        self.assertEqual(len(links), 3)
        link, = self.get("links?system=host2")
        self.assertIn(link, links)
        self.assertEqual(set(link["name"].split(":")), {port["name"], peer["name"]})
        subprocess.run([FABRIC, "link", "down", "host2:1", "-c", "control"], cwd=self.dir,
                       check=True, timeout=rest.PATIENCE)
        self.assertEqual(self.get("links?system=host2"), [])
        self.assertEqual(len(self.get("ports?active=true")), 4)
        down = self.get(f"ports/{port['name']}")[0]
        self.assertEqual((down["logical_state"], down["physical_state"]), ("Down", "Polling"))


if __name__ == "__main__":
    rest.main()
