# SPDX-License-Identifier: GPL-2.0-or-later
"""osmtest, which is OpenSM's own: the flows of it that pass by libumad2sim.

libumad2sim gives the first record of a table, so the inventory is short.
"""
import subprocess

from sm import PATIENCE, Case, enter_root, quick


class Osmtest(Case):
    """osmtest at another host than OpenSM's."""

    def flow(self, fabric, name, directory):
        """One flow."""
        try:
            # pylint: disable-next=subprocess-popen-preexec-fn
            done = subprocess.run(
                ["osmtest", "-f", name, "-i", "inventory", "-l", f"{name}.log"], cwd=directory,
                env={**fabric.environment("host3"), "OSM_TMP_DIR": directory}, check=False,
                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                timeout=PATIENCE, text=True, preexec_fn=lambda: enter_root(directory))
        except FileNotFoundError:
            self.skipTest("there is no osmtest beside this OpenSM")
        self.assertEqual(done.returncode, 0, f"flow {name}: {done.stdout[-800:]}")
        self.assertRegex(done.stdout, r'TEST ".*" PASS', f"flow {name}")

    @quick
    def test_flows(self):
        """An inventory (c), QoS tables (q) and events (e)."""
        fabric = self.serve("fat-tree:4")
        sm = self.opensm(fabric, "host1", conf={"qos": "TRUE"})
        sm.up()
        self.settled(fabric, sm)
        for name in "cqe":
            self.flow(fabric, name, sm.dir)
