# SPDX-License-Identifier: GPL-2.0-or-later
"""osmtest, a program of OpenSM: all of its flows, and faults that it must report.

OpenSM and osmtest use libohca-umad, because libumad2sim returns only the first record of a table.
"""
import os
import re
import subprocess

from sm import ANY, PATIENCE, Case, enter_root, quick, read

# The name of a flow in osmtest's last line
NAMES = {"c": "Create Inventory", "v": "Validate Inventory", "s": "Services Registration",
         "m": "Multicast", "e": "Event Forwarding", "q": "QoS: VLArb and SLtoVL", "f": "Stress SA",
         "a": "All Validations"}


class Osmtest(Case):
    """osmtest at a host other than OpenSM's."""

    def setUp(self):
        super().setUp()
        self.fabric = self.serve("--generate", "fat-tree:4", "--listen",
                                 os.path.join(self.dir, "fabric"))
        # osmtest sends many requests that must be refused
        self.sm = self.opensm(self.fabric, "host1", machine=True, announced=ANY,
                              conf={"qos": "TRUE", "sweep_interval": 1})
        self.sm.up()

    def flow(self, name, passes=True):
        """Runs one flow. Return: its log."""
        log = os.path.join(self.sm.dir, f"{name}.log")
        if os.path.exists(log):     # it would append to an existing file
            os.remove(log)
        try:
            # pylint: disable-next=subprocess-popen-preexec-fn
            done = subprocess.run(
                ["osmtest", "-f", name, "-i", "inventory", "-l", log], cwd=self.sm.dir,
                env={**self.fabric.machine("host3"), "OSM_TMP_DIR": self.sm.dir}, check=False,
                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                timeout=2 * PATIENCE, text=True, preexec_fn=lambda: enter_root(self.sm.dir))
        except FileNotFoundError:
            self.skipTest("there is no osmtest beside this OpenSM")
        said = re.findall(r'TEST "(.*)" (PASS|FAIL)', done.stdout)
        self.assertEqual(said, [(NAMES[name], "PASS" if passes else "FAIL")],
                         f"flow {name}: {done.stdout[-400:]} {read(log)[-800:]}")
        self.assertEqual(not done.returncode, passes, f"flow {name}: status {done.returncode}")
        return read(log)

    @quick
    def test_flows(self):
        """An inventory, QoS tables, events and multicast groups."""
        for name in "cqem":
            self.flow(name)

    @quick
    def test_node(self):
        """A node of the inventory is removed."""
        self.flow("c")
        self.fabric.do("node", node="host5", state="kill")
        self.sm.says("Removed port with GUID:0x5254010000000501")
        self.assertIn("osmtest_check_missing_nodes: ERR 0080: Missing node 0x5254010000000500",
                      self.flow("v", passes=False))

    def test_width(self):
        """A cable has one lane of four, and then all of them again."""
        self.flow("c")
        for state, more in ("degrade", {"width": 1}), ("restore", {}):
            self.fabric.do("link", node="host6", port=1, state=state, **more)
            self.sm.sweep()
            self.settled(self.fabric, self.sm)
            log = self.flow("v", passes=state == "restore")
            self.assertEqual("osmtest_validate_port_data: ERR 0049: Field mismatch port" in log,
                             state == "degrade")

    def test_refused(self):
        """Services cannot be registered, because the SA refuses them."""
        self.flow("c")
        self.fabric.do("refuse", node="host1", attribute="SubnAdm:ServiceRecord", status=0x100)
        self.assertIn("Service Flow failed (IB_REMOTE_ERROR)", self.flow("s", passes=False))

    def test_long(self):
        """Each record of the inventory, services with their leases, and everything in one flow."""
        for name in "cvsa":
            self.flow(name)

    def test_stress(self):
        """100,000 queries."""
        self.flow("c")
        self.flow("f")
