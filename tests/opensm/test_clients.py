# SPDX-License-Identifier: GPL-2.0-or-later
"""Many clients that request paths while spines flap and one of two OpenSMs is killed."""
import os
import re
import subprocess

import routes
from sm import ANY, CONFIG, PATIENCE, Case

PATHS = 2000    # so many that clients send requests while two OpenSMs replace each other
SECONDS = 30    # seconds until a client considers a request lost


class Clients(Case):
    """1,000 hosts of a fat tree; each requests 100 paths."""

    def begin(self, spec, clients, paths):
        """A master at the first host, and clients that are about to ask.

        Return: fabric, hosts, master, the process of the clients
        """
        program = os.path.join(CONFIG["programs"], "clients")
        if not os.path.exists(program):
            self.skipTest(f"there is no {program}")
        fabric = self.serve(spec)
        hosts = sorted((n for n, node in fabric.nodes().items() if node["type"] != "switch"),
                       key=lambda n: int(n.removeprefix("host")))
        first = self.opensm(fabric, hosts[0], announced=ANY)
        first.up()
        nodes = fabric.nodes()
        asking = hosts[1:clients + 1]
        self.assertEqual(len(asking), clients)
        lines = "".join(f"{nodes[n]['guid'].removeprefix('0x')} {nodes[n]['ports'][1]['lid']}\n"
                        for n in asking)
        run = subprocess.Popen([program, CONFIG["library"], str(paths), str(SECONDS)],
                               cwd=self.dir, env={**os.environ, "IBSIM_SOCKNAME": fabric.name},
                               stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                               stderr=subprocess.DEVNULL, text=True, start_new_session=True)
        self.addCleanup(run.stdout.close)
        self.addCleanup(run.wait)
        self.addCleanup(run.kill)
        run.stdin.write(lines)
        run.stdin.close()
        return fabric, hosts, first, run

    def answers(self, run, number):
        """All of these paths are answered. Return: how many requests were told they are not."""
        line = run.stdout.readline()
        self.said = [line.strip()]
        self.assertEqual(run.wait(timeout=PATIENCE * 5), 0, line)
        answered, told = (sum(int(n) for n in re.findall(rf"(\d+) (?:{what})", line))
                          for what in ("answered", "refused|undelivered"))
        self.assertEqual(answered, number, line)
        return told

    def ask(self, spec, clients, paths):
        """Each request is answered or refused, and in the end each path is answered."""
        fabric, hosts, first, run = self.begin(spec, clients, paths)
        second = self.opensm(fabric, hosts[-1], announced=ANY)
        second.says("Entering STANDBY")
        nodes = fabric.nodes()
        self.assertEqual(run.stdout.readline(), f"{clients} clients attached\n")
        spines = sorted(n for n in nodes if n.startswith("spine"))
        fabric.do("script", replace=True, text="".join(
            f"every {300 + 40 * i}ms from {50 * i}ms for 30s link flap {name}:any --down 100ms\n"
            for i, name in enumerate(spines[:6])) +
            f"every 900ms for 30s node kill {spines[-1]}\n"
            f"every 900ms from 400ms for 31s node revive {spines[-1]}\n")
        self.assertEqual(run.stdout.readline(), "half\n")
        first.kill()
        self.assertGreater(self.answers(run, clients * paths), 0, "nobody has met the dead master")
        fabric.do("script", stop=True)
        second.alive()

    def test_handover(self):
        """The master hands over to one with a higher priority, and becomes master again."""
        fabric, hosts, first, run = self.begin("fat-tree:8", 24, PATHS)
        self.assertEqual(run.stdout.readline(), "24 clients attached\n")
        second = self.opensm(fabric, hosts[-1], "-p", "12", announced=ANY)
        first.says("Entering STANDBY")
        second.up()
        self.assertIsNone(run.poll(), "they had asked for all before")
        self.assertEqual(second.end(), [])
        first.up(2)
        self.assertIsNone(run.poll(), "they had asked for all before")
        self.assertEqual(run.stdout.readline(), "half\n")
        self.answers(run, 24 * PATHS)
        self.assertEqual(routes.Tables(fabric).lost(), [])

    def test_thousand(self):
        """1,000 clients, 100 paths each."""
        self.ask("fat-tree:46", 1000, 100)

    def test_hundred(self):
        """100 clients, 50 paths each."""
        self.ask("fat-tree:16", 100, 50)
