# SPDX-License-Identifier: GPL-2.0-or-later
"""A fabric, OpenSMs at its hosts, and the checks at the end of every test.

Programs connect to the fabric by ibsim's libumad2sim. There are no fixed waits: within() ends with
the condition, or fails the test. run sets CONFIG.
"""
import collections
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import unittest

import mad

PATIENCE = 60 * float(os.environ.get("OHCA_PATIENCE") or 1)
# root: for an OpenSM with libraries of its own, the root in which it runs
# umad: libohca-umad.so, with which a program is a machine
CONFIG = {"fabric": "ohca-fabric", "opensm": "opensm", "library": "", "umad": "", "programs": "",
          "root": "", "version": "?"}
# Options of each OpenSM: it sweeps only for traps, and standbys poll often
CONF = {"sweep_interval": 0, "sminfo_polling_timeout": 200, "polling_retry_number": 3,
        "force_log_flush": "TRUE", "log_max_size": 0}
# ftree's errors for an incomplete fat tree, before it continues or another engine does
NO_FAT_TREE = frozenset(("AB09", "AB0D", "AB10", "AB25", "AB26", "AB27", "AB28", "AB2B"))


def within(true, what, seconds=None):
    """Waits until true() is true, and returns its value; else raises AssertionError."""
    end = time.monotonic() + (seconds or PATIENCE)
    while not (value := true()):
        if time.monotonic() > end:
            raise AssertionError(f"not within {seconds or PATIENCE:.0f} s: {what}")
        time.sleep(0.02)
    return value


def read(path):
    """The text of a file, or "" if it does not exist yet."""
    try:
        with open(path, encoding="utf-8", errors="replace") as f:
            return f.read()
    except FileNotFoundError:
        return ""


def write(path, text):
    """Writes a file."""
    with open(path, "w", encoding="utf-8") as f:
        f.write(text)


def enter_root(directory="/"):
    """In a process that becomes OpenSM: enters its root, with a directory of both roots."""
    if CONFIG["root"]:
        os.chroot(CONFIG["root"])
        os.chdir(directory)


class Anything(frozenset):
    """Any number of any errors: for an OpenSM while a script, or a test, breaks its fabric."""

    def __contains__(self, number):
        return True


ANY = Anything()


class Fabric:
    """ohca-fabric serve, and its control socket."""

    count = 0

    def __init__(self, directory, *arguments):
        Fabric.count += 1
        self.directory = directory
        self.name = f"suite-{os.getpid()}-{Fabric.count}"
        self.control = os.path.join(directory, f"control{Fabric.count}")
        self.process = subprocess.Popen(
            [CONFIG["fabric"], "serve", *arguments, f"--umad2sim={self.name}", "--control",
             self.control], cwd=directory, stdout=open(self.control + ".log", "wb"),
            stderr=subprocess.STDOUT)
        within(lambda: self.process.poll() is not None or "ready" in self.said(), "a fabric")
        if self.process.returncode is not None:
            raise AssertionError(f"no fabric: {self.said()}")
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(PATIENCE)
        self.socket.connect(self.control)
        self.answers = self.socket.makefile("r", encoding="utf-8")

    def said(self):
        """Its output."""
        return read(self.control + ".log")

    def environment(self, host):
        """The environment of a program at a host."""
        return {**os.environ, "LD_PRELOAD": CONFIG["library"], "IBSIM_SOCKNAME": self.name,
                "SIM_HOST": host}

    def machine(self, host):
        """The environment of a program that is a machine in place of a host (with --listen)."""
        library = os.path.join(self.directory, "libohca-umad.so")
        if not os.path.exists(library):     # a path that exists in a root of another release, too
            shutil.copy(CONFIG["umad"], library)
        return {**os.environ, "LD_PRELOAD": library,
                "OHCA_UMAD": f"{self.directory}/fabric,{host},{self.nodes()[host]['guid']}"}

    def ask(self, command, **members):
        """All parts of the answer to a request; raises an error if it is refused."""
        first, parts = 0, []
        while first is not None:
            more = {"first": first} if first else {}
            self.socket.sendall(json.dumps({"command": command, **members, **more}).encode() +
                                b"\n")
            answer = json.loads(self.answers.readline())
            if "error" in answer:
                raise AssertionError(f"{command} {members}: {answer['error']}")
            parts.append(answer)
            first = answer.get("next")
        return parts

    def do(self, command, **members):
        """Makes a fault."""
        self.ask(command, **members)

    def link(self, end, state):
        """Pulls or plugs the cable at NODE:PORT."""
        node, _, port = end.rpartition(":")
        self.do("link", node=node, port=int(port), state=state)

    def status(self):
        """Its status counters."""
        return self.ask("status")[0]

    def nodes(self):
        """By NodeDescription, or NodeGUID where two have the same, with their ports by number."""
        nodes = [n for part in self.ask("topology") for n in part["nodes"]]
        count = collections.Counter(n["description"] for n in nodes)
        for node in nodes:
            node["ports"] = {p["port"]: p for p in node["ports"]}
        return {n["guid"] if count[n["description"]] > 1 else n["description"]: n for n in nodes}

    def lft(self, node):
        """Output ports of a switch by LID, 255: none."""
        return [port for part in self.ask("lft", node=node) for port in part["lft"]]

    def arrives(self, one, other, **members):
        """Whether a packet from one node reaches the other."""
        return self.ask("trace", **{"from": str(one), "to": str(other)}, **members)[0]["arrives"]

    def script(self, text):
        """Runs a script to its end."""
        seconds = self.ask("script", text=text, replace=True)[0]["ends_ns"] / 1e9
        within(lambda: not self.status()["script_left"], "the script ends", seconds + PATIENCE)
        if self.status()["script_failed"]:
            raise AssertionError([f"line {e['line']}: {e['error']}" for e in
                                  self.ask("script", log=0)[0]["log"] if "error" in e])

    def active(self):
        """Whether all links that are up are Active."""
        counts = self.status()
        return counts["links_up"] == counts["links_active"] > 0

    def end(self):
        """Ends it. Return: the errors of its end; none the second time"""
        if self.answers.closed:
            return []
        self.answers.close()
        self.socket.close()
        self.process.terminate()
        try:
            self.process.wait(timeout=PATIENCE)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        bad = re.findall(r"^.*(?:Sanitizer|runtime error).*$", self.said(), re.M)
        if self.process.returncode:
            bad.append(f"the fabric ended with status {self.process.returncode}")
        return bad


class OpenSM:
    """OpenSM at a host, or as a machine in its place, in a directory of its own.

    announced: numbers of errors that it may log.
    """

    def __init__(self, fabric, host, *arguments, conf=None, announced=(), keep=None, preload=(),
                 machine=False):
        self.fabric, self.host = fabric, host
        self.announced = announced
        self.dir = keep or tempfile.mkdtemp(dir=fabric.directory)
        self.log = os.path.join(self.dir, "osm.log")
        self.ended = None
        self.killed = False
        self.judged = False
        if os.path.exists(self.log):
            os.remove(self.log)
        write(os.path.join(self.dir, "conf"),
              "".join(f"{k} {v}\n" for k, v in {**CONF, **(conf or {})}.items()))
        environment = fabric.machine(host) if machine else fabric.environment(host)
        environment.update(OSM_TMP_DIR=self.dir, OSM_CACHE_DIR=self.dir)
        environment["LD_PRELOAD"] = " ".join([*preload, environment["LD_PRELOAD"]])
        # pylint: disable-next=subprocess-popen-preexec-fn
        self.process = subprocess.Popen(
            [CONFIG["opensm"], "-F", "conf", "-f", "osm.log", *arguments],
            cwd=self.dir, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            stderr=open(os.path.join(self.dir, "stderr"), "wb"),
            preexec_fn=lambda: enter_root(self.dir))

    def text(self):
        """The text of its log."""
        return read(self.log)

    def ups(self):
        """How often it has set the subnet up."""
        return self.text().count("SUBNET UP")

    def says(self, what, times=1):
        """Waits until the log has a text that many times."""
        within(lambda: self.alive() and self.text().count(what) >= times,
               f"{self.host}'s OpenSM says {what!r} {times} times: {self.text()[-600:]}")

    def up(self, times=1):
        """Waits until the subnet is up for the given number of times."""
        self.says("SUBNET UP", times)

    def sweep(self):
        """Starts a heavy sweep (SIGHUP) and waits for its end."""
        before = self.ups()
        self.process.send_signal(signal.SIGHUP)
        self.up(before + 1)

    def alive(self):
        """Raises an error if it has ended by itself."""
        if self.process.poll() is not None:
            raise AssertionError(f"OpenSM at {self.host} ended: {status(self.process)}; "
                                 f"{self.text()[-400:]}")
        return True

    def once(self):
        """Waits for the end of an OpenSM that was started with -o."""
        self.ended = self.process.wait(timeout=PATIENCE)
        return self

    def kill(self):
        """Kills it, as if the machine failed."""
        self.process.kill()
        self.process.wait()
        self.killed = True

    def errors(self):
        """Numbers of the errors in its log, sorted."""
        return sorted(set(re.findall(r" ERR (\w+):", self.text())))

    def engine(self):
        """The routing engine that made the last tables."""
        return re.findall(r"([\w-]+) tables configured on all switches", self.text())[-1]

    def end(self):
        """Ends it. Return: the errors of its end and in its log; none the second time"""
        bad = []
        if self.judged:
            return bad
        self.judged = True
        if not self.killed:
            if self.ended is None and self.process.poll() is not None:
                bad.append(f"OpenSM at {self.host} had ended: {status(self.process)}")
            self.process.terminate()
            try:
                self.process.wait(timeout=PATIENCE / 6)
            except subprocess.TimeoutExpired:
                # its main thread waits for one that it has cancelled, which waits for a MAD: rare,
                # and no fault of the code under test
                print(f"note: OpenSM at {self.host} did not end by itself", flush=True)
                self.kill()
        if not self.killed and self.process.returncode not in (0, self.ended or 0) and not bad:
            bad.append(f"OpenSM at {self.host}: {status(self.process)}")
        for number in [n for n in self.errors() if n not in self.announced]:
            lines = [x for x in self.text().splitlines() if f" ERR {number}:" in x]
            bad.append(f"OpenSM at {self.host}, {len(lines)} times: {lines[0][:250]}")
        return bad


def status(process):
    """The way in which a process has ended."""
    if process.returncode is not None and process.returncode < 0:
        return signal.Signals(-process.returncode).name
    return f"status {process.returncode}"


class Case(unittest.TestCase):
    """A test with a fabric and OpenSMs, which are checked at its end."""

    maxDiff = 2000

    def setUp(self):
        d = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        self.addCleanup(d.cleanup)
        self.dir = d.name

    def serve(self, *arguments):
        """Starts a fabric of a SPEC, or with these options."""
        if not arguments[0].startswith("-"):
            arguments = ("--generate", *arguments)
        fabric = Fabric(self.dir, *arguments)
        self.addCleanup(lambda: self.assertEqual(fabric.end(), []))
        return fabric

    def opensm(self, fabric, host, *arguments, **more):
        """Starts an OpenSM; its log may only have errors that are announced."""
        sm = OpenSM(fabric, host, *arguments, **more)
        self.addCleanup(lambda: self.assertEqual(sm.end(), []))
        return sm

    def once(self, fabric, host, *arguments, **more):
        """Runs one sweep of an OpenSM. Return: the OpenSM"""
        sm = self.opensm(fabric, host, "-o", *arguments, **more).once()
        self.assertEqual(sm.ended, 0, f"{status(sm.process)}: {sm.text()[-400:]}")
        self.assertIn("SUBNET UP", sm.text())
        return sm

    def traffic(self, fabric, *arguments):
        """The output of ohca-fabric traffic with the present tables of a fabric."""
        done = subprocess.run(
            [CONFIG["fabric"], "traffic", "--control", fabric.control, *arguments], cwd=self.dir,
            check=False, text=True, timeout=PATIENCE, capture_output=True)
        self.assertEqual((done.returncode, done.stderr), (0, ""), done.stdout)
        return done.stdout

    def load(self, fabric, *arguments, lanes=None):
        """All hosts send to all by a fabric's tables, and the SLs in lanes.

        Return: the number of lost messages, the circle of ports in the tables or "none", and the
        Gb/s of a host
        """
        if lanes:
            paths = os.path.join(self.dir, "paths")
            lanes.write(paths)
            arguments = (*arguments, "--path-sl", paths)
        said = self.traffic(fabric, "--pattern", "all-to-all", *arguments)
        lost, circle, host = (re.search(f"(?m)^{name}: (.*)$", said)[1]
                              for name in ("lost", "circle", "host"))
        return int(lost), circle, float(host.split()[0])

    def at(self, fabric, host):
        """Starts a program of ours at a host."""
        program = mad.Host(fabric.environment(host), fabric.directory)
        self.addCleanup(program.end)
        return program

    def settled(self, fabric, sm, more=lambda: True):
        """Waits until the faults are over and OpenSM has set up all nodes."""
        within(lambda: sm.alive() and fabric.active() and more(),
               "all links are Active")

    def quiet(self, sm):
        """Ignores errors while the fabric was broken; now it must sweep without an error."""
        sm.sweep()
        before = sm.text().count(" ERR ")
        sm.sweep()
        self.assertEqual(sm.text().count(" ERR "), before, "errors when all is well")


def quick(test):
    """Marks a test of the part that 'make check' runs."""
    test.quick = True
    return test
