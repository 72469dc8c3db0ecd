#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""ohca-map's page in a browser: page.py FABRIC LOGS

It draws what the fabric has, shows what is clicked, and what changes, and makes faults that are
confirmed; all of that by keys, too. Its console has no error. LOGS gets pictures, and figures are
printed: how long a large fabric takes until it is drawn, and a change of a link.
"""
import json
import os
import socket
import subprocess
import sys
import time

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(TOP, "tests"))

from ufm import rest  # noqa: E402  pylint: disable=wrong-import-position
from browser import Browser  # noqa: E402  pylint: disable=wrong-import-position

FABRIC, LOGS = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
LIBRARY = "/usr/lib/x86_64-linux-gnu/umad2sim/libumad2sim.so"
LARGE = "fat-tree:36,3"         # 11,664 hosts
LARGEST = "fat-tree:54,3"       # 39,366 hosts, 3,645 switches
LONG = 20                       # seconds, also for a busy host; printed figures are more precise
DRAWN = "return nodes.length && performance.getEntriesByName('drawn').length"
STATE = "return document.querySelector('#state').textContent.includes(arguments[0])"
EVENT = "return [...document.querySelectorAll('#events li')].find(" \
        "e => e.textContent.includes(arguments[0]))?.querySelector('time').dateTime"
# ms until the map was drawn with it
DRAWN_EVENT = "const from = performance.timeOrigin, at = (() => { " + EVENT + "; })();" \
              "const drawn = performance.getEntriesByName('drawn').find(" \
              "e => from + e.startTime >= Date.parse(at)); return drawn && from + drawn.startTime"


class Page(rest.Case):
    """A fabric, ohca-map and a window."""

    def begin(self, spec, opensm=True):
        """Starts all of them; with OpenSM, waits until links are Active."""
        self.control = os.path.join(self.dir, "control")
        name = f"map-{os.getpid()}"
        self.fabric = self.process([FABRIC, "serve", "-q", "--generate", spec, f"--umad2sim={name}",
                                    "--control", self.control])
        self.assertIn("ready", self.fabric.stdout.readline())
        if opensm:
            subprocess.run(["opensm", "-o", "-f", "osm.log"], cwd=self.dir, check=True,
                           timeout=rest.PATIENCE, capture_output=True,
                           env={**os.environ, "LD_PRELOAD": LIBRARY, "IBSIM_SOCKNAME": name,
                                "SIM_HOST": "host1", "OSM_TMP_DIR": ".", "OSM_CACHE_DIR": "."})
        server = self.process([sys.executable, os.path.join(TOP, "tools", "ohca-map"), "--control",
                               self.control, "--listen", "0"])
        self.url = server.stdout.readline().split()[2]
        self.browser = Browser()
        self.addCleanup(self.browser.end)
        self.browser.open(self.url)
        self.browser.until(DRAWN)

    def process(self, argv):
        """A process that runs until the end of the test."""
        process = subprocess.Popen(argv, cwd=self.dir, stdin=subprocess.DEVNULL,
                                   stdout=subprocess.PIPE, encoding="utf-8")
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process

    def ask(self, **request):
        """A reply of the control socket."""
        with socket.socket(socket.AF_UNIX) as s:
            s.settimeout(rest.PATIENCE)
            s.connect(self.control)
            s.sendall(json.dumps(request).encode() + b"\n")
            with s.makefile("rb") as f:
                return json.loads(f.readline())

    def state_of(self, node, number):
        """The state of a port in the fabric."""
        found = self.ask(command="topology", node=node)["nodes"][0]["ports"]
        return next(p["state"] for p in found if p["port"] == number)

    def click(self, name, key=None):
        """Clicks a node."""
        self.browser.click(*self.browser.run("return where(arguments[0])", name), key)

    def picture(self, name):
        """Takes a picture after the page has drawn everything."""
        self.browser.send("POST", "/execute/async", {"args": [], "script":
                          "requestAnimationFrame(() => requestAnimationFrame(arguments[0]))"})
        self.browser.picture(os.path.join(LOGS, name + ".png"))

    def tearDown(self):
        """Checks that the console has no error."""
        self.assertEqual(self.browser.complaints(), [])

    def test_click(self):
        """A node and its ports, a port's tables, the route between two hosts, and a fault."""
        self.begin("fat-tree:4,3")
        b = self.browser
        b.until(STATE, "48 of 48 links Active")
        self.click("pod1 leaf1")
        self.assertIn("pod1 leaf1", b.text("#node"))
        self.assertIn("host1:1", b.text("#ports"))
        b.push("1", "#ports")
        b.until("return document.querySelector('#port').textContent.includes('PortXmitData')")
        self.assertIn("LIDs routed by this port", b.text("#port"))

        self.click("host1")
        self.click("host16", "Shift")
        b.until("return document.querySelector('#way').textContent.includes('it arrives')")
        self.assertEqual(len(b.text("#way ol").splitlines()), 7)
        self.picture("map-route")

        self.click("pod1 leaf1")
        b.push("1", "#ports")
        b.until("return document.querySelector('#port h3')?.textContent === 'Faults'")
        b.run("document.querySelector('#record').click()")
        b.push("Pull", "#port")
        self.assertEqual(b.text("#what"), "link down 'pod1 leaf1':1")
        b.push("Cancel", "#confirm")
        self.assertEqual(self.state_of("pod1 leaf1", 1), "Active")
        b.push("Pull", "#port")
        b.push("Make it", "#confirm")
        b.until(STATE, "47 of 48 links Active")
        self.assertEqual(self.state_of("pod1 leaf1", 1), "Down")
        self.assertIn("Active to Down", b.text("#events"))
        script = b.run("return document.querySelector('#script').value")
        self.assertEqual(script, "at 0.000s link down 'pod1 leaf1':1\n")
        self.picture("map-fault")
        # what was recorded is a script
        self.ask(command="link", node="pod1 leaf1", port=1, state="up")
        b.until(EVENT, "Down to Init")
        b.push("Play")
        b.until(EVENT, "The script has started")
        b.until(EVENT, "Init to Down")

    def fault(self, node, port, text, want):
        """Makes a fault by a click; returns its line in the script."""
        b = self.browser
        self.click(node)
        b.push(str(port), "#ports")
        b.until("return document.querySelector('#port h2')?.textContent === arguments[0] && "
                "document.querySelector('#port h3')?.textContent === 'Faults'", f"{node}:{port}")
        b.push(text, "#port")
        if want is None:
            return
        self.assertEqual(b.text("#what"), want)
        b.push("Make it", "#confirm")
        b.until(EVENT, f"Fault: {want}")

    def test_faults(self):
        """Each kind of fault is made by a click, and is in the script."""
        self.begin("fat-tree:4")
        b = self.browser
        b.until(STATE, "16 of 16 links Active")
        b.run("document.querySelector('#record').click()")
        lines = []
        for node, port, text, line in (
                ("leaf1", 1, "Bit errors", "ber leaf1:1 0.0001"),
                ("leaf1", 2, "Delay", "delay leaf1:2 20000ns"),
                ("leaf1", 3, "Lose credits", "credits leaf1:3 0 2000"),
                ("host1", 1, "Stall", "stall host1:1"), ("host1", 1, "Resume", "resume host1:1")):
            with self.subTest(line=line):
                self.fault(node, port, text, line)
                lines.append(line)
        self.fault("leaf1", 1, "Swap...", None)
        self.fault("leaf2", 1, "Swap with leaf1:1", "swap leaf2:1 leaf1:1")
        lines.append("swap leaf2:1 leaf1:1")
        # the map has the new ends
        b.until("return byGuid.get(nodes.find(n => n.name === 'host1').ports[1].peer)?.name === "
                "'leaf2'")
        # the page asks by GUIDs
        done = "\n".join(e["text"] for e in self.ask(command="log")["log"])
        for node in self.ask(command="topology")["nodes"]:
            done = done.replace(node["guid"], node["description"])
        self.assertEqual(done.splitlines(), [line.replace("20000ns", "20us") for line in lines])
        script = b.run("return document.querySelector('#script').value")
        self.assertEqual([line.split(" ", 2)[2] for line in script.splitlines()], lines)
        self.picture("map-faults")
        # the recorded script can be run
        b.push("Play")
        b.until(EVENT, "The script has started")

    def test_keys(self):
        """Everything works without a mouse."""
        self.begin("dragonfly:4,2,2")
        b = self.browser
        b.run("document.querySelector('#canvas').focus()")
        b.press("/", *"group2 switch1", "Enter")
        self.assertIn("group2 switch1", b.text("#node"))
        b.press("ArrowDown")
        self.assertIn("channel adapter", b.text("#node"))
        self.assertIn("1 of 1 links Active", b.text("#said"))
        one = b.text("#node h2")
        b.press("f", "ArrowRight", "t")
        b.until("return document.querySelector('#way').textContent.includes('it arrives')")
        self.assertIn(f"From {one} to ", b.text("#way"))
        b.press("+", "-", "0", "Enter")
        self.assertEqual(b.run("return document.activeElement.dataset.port"), "1")
        b.press("Enter")
        b.until("return document.querySelector('#port h2')")
        b.run("[...document.querySelectorAll('#port button')].find("
              "e => e.textContent === 'Pull').focus()")
        b.press("Enter")
        self.assertEqual(b.run("return document.activeElement.textContent"), "Cancel")
        b.press("Escape")
        self.assertEqual(b.run("return document.activeElement.textContent"), "Pull")
        self.assertEqual(self.state_of(one, 1), "Active")
        self.picture("map-dragonfly")

    def changes(self, leaf, nodes):
        """Pulls ten cables one after the other; returns the times until each change is drawn."""
        took = []
        for number in range(1, 11):
            begin = time.time()
            self.ask(command="link", node=leaf, port=number, state="down")
            took.append(self.browser.until(DRAWN_EVENT, f"{leaf}:{number}: ") / 1000 - begin)
        print(f"figure: a change of a link of {nodes} nodes is drawn after "
              f"{sorted(took)[5] * 1000:.0f} ms, at most {max(took) * 1000:.0f} ms")
        self.assertLess(sorted(took)[5], LONG)

    def test_events(self):
        """A change is drawn soon, also that of a node; the end of the fabric is shown."""
        self.begin("fat-tree:36")
        self.changes("leaf1", 702)
        self.ask(command="node", node="spine2", state="kill")
        self.browser.until(EVENT, "36 links: Active to Down")
        self.picture("map-events")
        self.fabric.terminate()
        self.fabric.wait()
        self.browser.until(STATE, "Lost")
        # the browser logs each request that fails
        self.assertTrue(all("503" in text for text in self.browser.complaints()))

    def test_names(self):
        """Machines choose their names: a name cannot become more than a name in a script."""
        self.begin("star:2")
        for name, want in (("host1", "host1"), ("node 1", "'node 1'"), ("", "G"), (" a", "G"),
                           ("a\nb", "G"), ("a'b", "G"), ('a"', "G"), ("a#", "G"), ("a\tb", "G"),
                           ("a\\b", "G"), ("MF0;sw1:MSB7800/U1", "MF0;sw1:MSB7800/U1")):
            with self.subTest(name=name):
                self.assertEqual(self.browser.run("return scriptName({name: arguments[0], "
                                                  "guid: 'G'})", name), want)

    def test_load(self):
        """Counters become colours."""
        self.begin("star:4")
        b = self.browser
        # a load is that of a second: what each frame has is kept
        b.run("window.seen = []; const draws = drawNow; drawNow = () => { draws(); for (const l of "
              "links) seen.push([l.a.num, l.b.num, colours, l[colours], lookOf(l).name]); }")
        for colour, counter, value, least, most, name in (
                ("wait", "PortXmitWait", 1 << 40, 1, float("inf"), "from 90 %"),
                # in four bytes: a quarter of what goes over 4xEDR in a second, the shortest time
                ("load", "PortXmitData", 800000000, 0.01, 0.26, "from ")):
            with self.subTest(colour=colour):
                b.run("const c = document.querySelector('#colours'); c.value = arguments[0];"
                      "c.dispatchEvent(new Event('change'))", colour)
                self.assertIn("from 90 %", b.text("#legend"))
                # the first look, which begins with each choice
                b.until("return counted.size")
                self.ask(command="preset", node="switch1", port=2, counter=counter, value=value)
                a, z, _, found, look = b.until(
                    "return seen.find(([, , c, value]) => c === arguments[0] && value > 0.01)",
                    colour)
                self.assertIn(2, (a, z))
                self.assertGreater(found, least)
                self.assertLess(found, most)
                self.assertTrue(look.startswith(name), look)

    def test_large(self):
        """11,664 hosts, and 39,366 hosts as groups."""
        for spec, name, nodes in (LARGE, "map-large", 13284), (LARGEST, "map-largest", 43011):
            with self.subTest(spec=spec):
                begin = time.time()
                self.begin(spec, opensm=False)
                took = self.browser.run("return performance.getEntriesByName('drawn')"
                                        ".find(e => e.startTime > performance.getEntriesByType("
                                        "'resource').find(r => r.decodedBodySize > 1e6).startTime)"
                                        ".startTime") / 1000
                print(f"figure: {nodes} nodes are drawn {took:.2f} s after the page was opened")
                self.assertLess(took, LONG)
                self.assertEqual(self.browser.run("return nodes.length"), nodes)
                self.assertEqual(self.browser.run("return detail"), nodes < 20000)
                self.picture(name)
                self.changes("pod1 leaf1", nodes)
                # into a group
                self.browser.click(*self.browser.run(
                    "const g = groups[1], box = canvas.getBoundingClientRect(); return [box.x + "
                    "sx(g.x + g.width / 2), box.y + sy(g.y + g.height / 2)]"))
                self.browser.until("return detail")
                self.fabric.terminate()
                self.fabric.wait()
                self.assertLess(time.time() - begin, rest.PATIENCE)
                # of the requests that were sent in between
                self.assertTrue(all("503" in text for text in self.browser.complaints()))


if __name__ == "__main__":
    del sys.argv[1:]
    rest.main()
