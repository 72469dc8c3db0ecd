#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Labs that a file describes: the meaning of each key, and the errors of wrong files."""
import builtins
import contextlib
import io
import json
import os
import random
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import threading
import types
import unittest
from unittest import mock

import fake

# pylint: disable=wrong-import-order  # fake has the path
from ohca_lab import cli, document, explain, job, lab, labfile, paths, places
from wrong_labs import WRONG

LABS = os.path.join(fake.TOP, "tools", "labs")
# Options without a key: -f itself, those that 'guest' and a node's 'place' replace, and those that
# depend on the host.
NO_KEY = {"help", "file", "arch", "place", "listen", "join", "number", "token"}
NO_OPTION = {"partitions", "files", "before", "commands", "after"}
SEED, MUTANTS = 1, 400

WHOLE = """
name: whole
nodes:
  server: {guest: debian12, memory: 2048, cpus: 2, place: [host 1, host2], device: {smp: off}}
  client:
    place: host3
    image: /disk.raw
    device: {speed: HDR, 1:width: 4x}
  third:
guest: arm64
image: disk.qcow2
kernel: stock
accel: tcg
memory: 700
cpus: 4
numa: 2
fabric: ohca
attach: vfio-user
hcas: 2
ports: 2
device: {x-uars: 0x10}
topology: fat-tree:4,3
serve: [--mtu=2048]
opensm: [-R ftree]
no-sm: false
no-driver: false
append: [debug]
package: [strace, gdb]
share: .
log: logs
trace: ['ohca_*']
gdb: true
qemu: [-s]
timeout: 77.5
partitions:
  Default: {members: {ALL: full}}
  red: {pkey: 0x8, sl: 3, ipoib: yes, members: {server: both, "0x1234": limited}}
  blue: {pkey: 9, members: [client, node3, SELF]}
faults: script
files:
  - {to: /root/a//b, from: data, on: client}
  - {to: /root/c, text: "x", executable: true, on: [server, node3]}
before: [one]
commands:
  - two three
  - run: [four, five six]
    on: [server, third]
    expect: 7
    timeout: 8
after:
  - run: nine
    on: all
    expect: [0, 10]
"""


class Files(unittest.TestCase):
    """A directory with a file that describes a lab, and the files that it names."""

    def setUp(self):
        self.dir = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.dir)
        self.path = os.path.join(self.dir, "lab.yaml")
        for name in ("data", "script"):
            with open(os.path.join(self.dir, name), "w", encoding="ascii") as f:
                f.write("at 0 link up a:1\nat 1s link down a:1\n")

    def write(self, text):
        """Writes the file, of text or bytes; returns the option -f for it."""
        with open(self.path, "wb") as f:
            f.write(text if isinstance(text, bytes) else text.encode())
        return "-f", self.path

    def options(self, text, *argv, what="run"):
        """The options with a file of this text."""
        return cli.options([what, *self.write(text), *argv])

    def error(self, text, *argv):
        """The errors of a wrong file, without its name."""
        with self.assertRaises(document.FileError) as caught:
            self.options(text, *argv)
        return str(caught.exception).replace(self.path + ":", "")

    def test_all_keys(self):
        """Each key has the effect of its option."""
        opt = self.options(WHOLE)
        same = cli.parser().parse_args([
            "run", "-n", "3", "--guest", "debian12,arm64,arm64", "--memory", "2048,700,700",
            "--cpus", "2,4,4", "--kernel", "stock", "--accel", "tcg", "--numa", "2", "--fabric",
            "ohca", "--attach", "vfio-user", "--hcas", "2", "--ports", "2",
            "--device", "x-uars=0x10", "--device", "1:smp=off", "--device", "2:speed=HDR",
            "--device", "2.1:width=4x",
            "--topology", "fat-tree:4,3", "--serve=--mtu=2048", "--opensm=-R ftree", "--append",
            "debug", "--package", "strace", "--package", "gdb", "--share", self.dir, "--log",
            os.path.join(self.dir, "logs"), "--trace", "ohca_*", "--gdb", "--qemu=-s", "--timeout",
            "77.5", "--image", os.path.join(self.dir, "disk.qcow2"), "--image", "2:/disk.raw",
            "--place", "node1=host 1", "--place", "node1=host2", "--place", "node2=host3"])
        for dest, value in vars(same).items():
            if dest not in NO_OPTION | {"file", "faults", "names", "work"}:
                self.assertEqual(getattr(opt, dest), value, dest)
        self.assertEqual(opt.names, ["server", "client", "third"])
        self.assertEqual(opt.name, "whole")
        with open(os.path.join(self.dir, "script"), encoding="ascii") as f:
            self.assertEqual(opt.faults.text, f.read())
        self.assertEqual([p[:5] for p in opt.partitions], [
            ("Default", 0x7fff, True, None, [("ALL", "full")]),
            ("red", 8, True, 3, [(1, "both"), ("0x1234", "limited")]),
            ("blue", 9, False, None, [(2, "full"), (3, "full"), ("SELF", "full")])])
        self.assertEqual([f[:5] for f in opt.files], [
            ("/root/a/b", os.path.join(self.dir, "data"), None, False, [2]),
            ("/root/c", None, "x", True, [1, 3])])
        self.assertEqual([c[:4] for c in opt.before + opt.commands + opt.after], [
            ("one", None, [0], None), ("two three", None, [0], None),
            (["four", "five six"], [1, 3], [7], 8), ("nine", None, [0, 10], None)])

    def test_every_option_is_a_key(self):
        """The schema has all long options of a lab, and all guests; every key has a description."""
        known = explain.schema()
        found = set()
        for what in ("run", "up"):
            commands = next(a for a in cli.parser()._actions  # pylint: disable=protected-access
                            if a.dest == "what")
            # pylint: disable-next=protected-access
            for action in commands.choices[what]._actions:
                found |= {max(action.option_strings, key=len, default="--").removeprefix("--")}
        self.assertEqual(found - NO_KEY - {""}, set(known["properties"]) - NO_OPTION)
        self.assertEqual(known["definitions"]["guest"]["enum"], list(paths.GUESTS))
        self.assertEqual(set(re.findall(r"^(\S+):", WHOLE, re.M)), set(known["properties"]))
        text = json.dumps(known)
        self.assertEqual(text.count('"pattern"'), text.count('"errorMessage"'))
        explain.validator().check_schema(known)

    def test_nodes(self):
        """Nodes without names, files without a number of nodes, and faults in the file."""
        opt = self.options("nodes: 5\nmemory: 300\nfaults: [at 0 link up a:1, at 1s link up b:1]\n"
                           "commands: [{run: x, on: node5}]\n", what="up")
        self.assertEqual((opt.nodes, opt.names, opt.memory), (5, [], [300]))
        self.assertEqual(opt.faults.text, "at 0 link up a:1\nat 1s link up b:1\n")
        self.assertEqual(opt.faults.where(2), f"{self.path}:3:28")
        self.assertEqual(opt.commands[0].on, [5])
        opt = cli.complete(self.options("nodes: {a: , b: {memory: 512}}\nkernel: debug\n"))
        self.assertEqual((opt.nodes, opt.memory, opt.cpus), (2, [2048, 512], [1]))
        self.assertEqual(cli.complete(self.options("ports: 2\n")).nodes, 2)

    def test_command_line_wins(self):
        """The command line overrides the file; options that can be repeated are added."""
        text = ("nodes: {a: {place: host1, device: {speed: hdr}}, b: {place: host2}}\n"
                "guest: arm64\ntopology: star:4\npackage: [gdb]\nshare: .\nkernel: debug\n"
                "memory: 400\ntimeout: 5\nname: x\n")
        opt = self.options(text, "--arch", "amd64", "--topology", "star:8", "--package", "strace",
                           "--place", "node1=host7", "--share", "/", "--kernel", "stock",
                           "--memory", "300,200", "--timeout", "6", "--device", "1:speed=edr")
        self.assertEqual((opt.guest, opt.topology, opt.package, opt.share, opt.kernel, opt.memory,
                          opt.timeout), (["debian13"], "star:8", ["gdb", "strace"], "/", "stock",
                                         [300, 200], 6))
        self.assertEqual(opt.place, ["node2=host2", "node1=host7"])
        self.assertEqual(opt.device, ["1:speed=hdr", "1:speed=edr"])
        self.assertEqual(self.options(text, "-n", "9").nodes, 9)
        self.assertEqual(self.options(text, "--name", "y", what="up").name, "y")
        self.assertEqual(self.options(text, what="up").name, "x")
        self.assertEqual(self.options(text + "commands: [a]\n", "--", "b").command, ["--", "b"])

    def test_fewer_nodes(self):
        """-n may leave nodes out, except those that other parts of the file use."""
        self.options("nodes: 3\ncommands: [x]\n", "-n", "2")
        # their settings are left out with them
        text = ("nodes:\n  a: {place: host1}\n  b:\n  c: {place: [host2, host3], guest: arm64, "
                "memory: 1048576, cpus: 3}\nkernel: debug\n")
        opt = cli.complete(self.options(text, "-n", "2", "--accel", "tcg"))
        self.assertEqual((opt.place, opt.guest, opt.memory, opt.cpus),
                         (["node1=host1"], ["debian13"] * 2, [2048] * 2, [1] * 2))
        self.assertIsNone(cli.wrong_lab(opt))
        opt = self.options(text, "-n", "2", "--place", "node3=host4", "--guest", "debian12")
        self.assertEqual((opt.place, opt.guest), (["node1=host1", "node3=host4"], ["debian12"]))
        opt = self.options("nodes: {a: {image: x}, b: {image: y}}\n", "-n", "1", "--image", "1:z")
        self.assertEqual(opt.image, [f"1:{self.dir}/x", "1:z"])
        for text, place in (("commands: [{run: x, on: [node1, c]}]", "2:12"),
                            ("partitions: {p: {pkey: 1, members: [c]}}", "2:17"),
                            ("files: [{to: /x, text: x, on: c}]", "2:9")):
            self.assertEqual(self.error("nodes: {a: , b: , c: }\n" + text, "-n", "2"),
                             f"{place}: -n 2 leaves out 'c', which is used here: use -n 3 or more, "
                             "or no -n")

    def test_wrong(self):
        """Each error of a file has line, column, and what to do."""
        self.assertGreaterEqual(len(WRONG), 50)
        for text, expected in WRONG:
            with self.subTest(text=text[:60]):
                self.assertEqual(self.error(text).split("\n"), expected.split("\n"))

    def test_many_errors(self):
        """All errors are printed at once, in their order, up to a limit."""
        said = self.error("".join(f"key{k}: 1\n" for k in range(30))).split("\n")
        self.assertEqual([x.split(":")[0] for x in said[:20]], [str(k) for k in range(1, 21)])
        self.assertEqual(said[20:], [" 10 further errors"])

    def test_unreadable(self):
        """The file does not exist, or a module to read it is missing."""
        with self.assertRaises(document.FileError) as caught:
            labfile.LabFile(self.path)
        self.assertEqual(str(caught.exception), f"{self.path}:1:1: it cannot be read: "
                         "No such file or directory")
        given = builtins.__import__
        for gone in ("yaml", "jsonschema"):
            def without(name, *more, gone=gone):
                if name == gone:
                    raise ImportError(f"No module named '{name}'")
                return given(name, *more)

            explain.validator.cache_clear()
            with mock.patch.object(builtins, "__import__", without):
                self.assertIn(f"1:1: No module named '{gone}': install python3-yaml and "
                              "python3-jsonschema", self.error("nodes: 2\n"))

    def test_status(self):
        """A wrong file is a wrong command line: status 2, and only the lines of the errors."""
        for text, said in (("nodes: x\n", "1:8: a whole number or"),
                           ("nodes: 2\nnuma: 3\ncpus: 4\n", "2:7: --numa: give 1 to 16 NUMA"),
                           ("no-sm: true\nopensm: [-v]\n",
                            "2:9: --opensm: OpenSM does not run with --no-sm: "
                            "leave one of them out\n"),
                           ("no-driver: true\npartitions: {p: {pkey: 1, members: [ALL]}}\n",
                            "2:13: partitions: OpenSM does not run with --no-driver: "
                            "leave one of them out\n"),
                           ("fabric: none\npartitions:\n  p: {pkey: 1, members: [ALL]}\n",
                            "3:3: partitions: OpenSM does not run with --fabric none: "
                            "leave one of them out\n"),
                           ("nodes: 64\nmemory: 1048576\n", "2:9: --memory: 64 nodes"),
                           ("image: data\n", f"1:8: --image {self.dir}/data: this is neither"),
                           ("nodes:\n  a:\n  b: {image: gone}\n",
                            f"3:14: --image 2:{self.dir}/gone: it cannot be read: No such file"),
                           ("fabric: rxe\nfaults: [x]\n", "2:9: --faults: only --fabric ohca")):
            err = io.StringIO()
            argv = ["ohca-lab", "run", *self.write(text), "--", "x"]
            with mock.patch.object(sys, "argv", argv), contextlib.redirect_stderr(err):
                self.assertEqual(cli.main(), 2)
            self.assertIn(f"{self.path}:{said}", err.getvalue())

    def test_located(self):
        """Errors of an option in the file have its place in the file; other errors have none."""
        text = "nodes:\n  a: {place: host1}\n  b: {place: [host9]}\nshare: none\ntopology: star:3\n"
        hosts = [places.Host(f"0x{k}", 1, "4xEDR", "0x1", f"host{k}") for k in (1, 2, 3)]
        with mock.patch.object(lab.Lab, "_check_parts", lambda _: None), \
                mock.patch.object(places, "hosts", lambda _: hosts):
            for argv, place in (((), "3:15: "), (("--place", "node2=host8"), "")):
                opt = cli.complete(self.options(text, "--accel", "tcg", *argv))
                with self.assertRaises(lab.LabError) as caught:
                    lab.Lab("x", opt)
                said = opt.located(str(caught.exception))
                where = f"{self.path}:{place}" if place else ""
                self.assertTrue(said.startswith(f"{where}--place node2=host"), said)
        opt = self.options(text, "--topology", "star:4")
        self.assertEqual(opt.located("--topology star:4: bad"), "--topology star:4: bad")
        self.assertEqual(opt.located("--share: bad"), f"{self.path}:4:8: --share: bad")
        self.assertEqual(opt.located("node1: bad"), "node1: bad")
        self.assertEqual(self.options(text).located("--topology star:3: bad"),
                         f"{self.path}:5:11: --topology star:3: bad")

    def test_examples(self):
        """The labs of tools/labs are right, and those of the tests."""
        found = [os.path.join(where, name) for where in (
            LABS, os.path.join(fake.TOP, "tests", "system", "suite")) for name in os.listdir(where)
            if name.endswith(".yaml")]
        self.assertGreaterEqual(len(found), 4)
        for path in found:
            opt = cli.complete(cli.options(["run", "-f", path]))
            self.assertIsNone(cli.wrong_fabric(opt), path)
            self.assertTrue(opt.commands or LABS not in path, path)

    def test_mutants(self):
        """A file with random changes is either right, or each error has a place."""
        rng = random.Random(SEED)
        lines = [re.compile(re.escape(self.path) + r":\d+:\d+: ."),
                 re.compile(re.escape(self.path) + r": \d+ further errors")]
        base, right = WHOLE.encode(), 0
        for _ in range(MUTANTS):
            text = mutated(rng, base)
            try:
                opt = cli.complete(self.options(text))
                cli.wrong_lab(opt)
                job.partitions_text(opt.partitions, {k: ["0x1"] for k in range(1, 65)})
                right += 1
            except document.FileError as e:
                said = str(e).split("\n")
                self.assertTrue(all(any(p.match(x) for p in lines) for x in said
                                    if x.startswith(self.path)), (text, said))
                self.assertTrue(said[0].startswith(self.path), (text, said))
        self.assertLess(3, right)
        self.assertLess(right, MUTANTS - 100)


PIECES = (b"&a ", b"*a", b"[", b"]", b"{", b"}", b": ", b"- ", b"\t", b"\n", b"'", b'"', b"|",
          b"!!x ", b"!!int ", b"? ", b"---\n", b"\x00", b"\xff", b"\xc3", b"\\uD800",
          b'"\\UFFFFFFFF"', b"~", b".nan", b"1e999", b"-1", b"9" * 20, b"9" * 5000, b"[" * 2000,
          b"%YAML 9.9\n", b"on", b"2001-01-01", b"0b", b"0x", b"1:2", b"<<: ", b"=",
          b"\xef\xbb\xbf", b"#", b"@", b"`")


def mutated(rng, text):
    """Text with a few random changes."""
    for _ in range(rng.randint(1, 3)):
        at, to = (rng.randrange(len(text)) for _ in range(2))
        end = min(len(text), at + rng.choice((1, 1, 2, 5, 40)))
        text = rng.choice((
            lambda t=text, a=at, e=end: t[:a] + t[e:],
            lambda t=text, a=at: t[:a] + rng.choice(PIECES) + t[a:],
            lambda t=text, a=at, e=end: t[:a] + rng.choice(PIECES) + t[e:],
            lambda t=text, a=at, b=to, e=end: t[:b] + t[a:e] + t[b:],
            lambda t=text, a=at: t[:a] + bytes([rng.randrange(256)]) + t[a + 1:],
        ))() or b"x"
    return text


class Jobs(unittest.TestCase):
    """Files and commands of nodes, in a fake lab."""

    def lab(self, *statuses, **opt):
        """A lab whose commands end with these statuses, in the format of Lab.wrong_status()."""
        given = iter(statuses)
        self.asked = []

        def wrong_status(argv, timeout, on, _expected):
            self.asked.append((" ".join(argv), timeout, on))
            return next(given)

        return types.SimpleNamespace(wrong_status=wrong_status, opt=types.SimpleNamespace(**opt))

    def job(self, *statuses):
        """The exit status of a job with two commands, and one in 'after'."""
        def command(name, timeout=None):
            return labfile.Command([name], [2], [0], timeout, "f:1:1")

        made = self.lab(*statuses, commands=[command("a"), command("b", 3)], after=[command("c")])
        with contextlib.redirect_stderr(io.StringIO()) as self.err:
            return job.run_job(made, 9)

    def test_job(self):
        """The first failure is the exit status; 'after' runs all the same."""
        self.assertEqual(self.job(None, None, None), 0)
        self.assertEqual(self.asked, [("a", 9, [2]), ("b", 3, [2]), ("c", 9, [2])])
        self.assertEqual(self.job(5, 6), 5)
        self.assertEqual([x[0] for x in self.asked], ["a", "c"])
        self.assertIn("f:1:1: 'a' ends with status 5; expected is 0\n", self.err.getvalue())
        self.assertEqual(self.job(None, None, 7), 7)
        # status 0 was not expected
        self.assertEqual(self.job(0, None), 1)

    def test_programs(self):
        """A text is run by a shell; a list is a program and its arguments, also with one word."""
        runs = ("a b; c", ["/opt/my program"], ["d", "e f"])
        made, argvs = self.lab(), []
        made.wrong_status = lambda argv, *_: argvs.append(argv)
        commands = [labfile.Command(run, None, [0], None, "f:1:1") for run in runs]
        self.assertEqual(job.run_commands(made, commands, 9), 0)
        self.assertEqual(argvs, [["/bin/sh", "-c", "a b; c"], *runs[1:]])
        self.assertEqual([job.command_text(run) for run in runs],
                         ["a b; c", "/opt/my program", "d e f"])

    def test_partitions(self):
        """OpenSM's file: the default partition is in it, and nodes are replaced by their ports."""
        red = labfile.Partition("red", 0x11, True, 2, [(1, "full"), ("ALL", "limited")])
        guids = {1: ["0xa", "0xb"]}
        self.assertEqual(job.partitions_text([red], guids),
                         "Default=0x7fff,ipoib:ALL=full;\n"
                         "red=0x11,ipoib,sl=2:0xa=full,0xb=full,ALL=limited;\n")
        own = labfile.Partition("Default", 0x7fff, True, None, [("SELF", "full")])
        many = labfile.Partition("many", 1, False, None, [(hex(k), "both") for k in range(40)])
        text = job.partitions_text([own, many], guids).split("\n")
        self.assertEqual(text[0], "Default=0x7fff,ipoib:SELF=full;")
        self.assertEqual([x.count("both") for x in text[1:]], [32, 8, 0])

    def test_archive(self):
        """A node gets files and directories with their modes, owned by root."""
        with tempfile.TemporaryDirectory() as d:
            os.mkdir(f"{d}/sub")
            with open(f"{d}/sub/x", "w", encoding="ascii") as f:
                f.write("x")
            os.chmod(f"{d}/sub/x", 0o750)
            out = io.BytesIO()
            job.archive([labfile.File("/opt/dir", f"{d}/sub", None, False, None, ""),
                         labfile.File("/opt/run", None, "é", True, None, "")], out)
        with tarfile.open(fileobj=out) as tar:
            self.assertEqual(tar.getnames(), ["opt/dir", "opt/dir/x", "opt/run"])
            x, run = tar.getmember("opt/dir/x"), tar.getmember("opt/run")
            self.assertEqual((x.mode, x.uid, x.uname, run.mode), (0o750, 0, "root", 0o755))
            self.assertEqual(tar.extractfile(run).read(), "é".encode())

    def test_faults(self):
        """The fabric's errors of a script have the place of the line in the file."""
        made = types.SimpleNamespace(dir="/nowhere", opt=types.SimpleNamespace(
            faults=labfile.Faults("x\n", lambda line: f"lab.yaml:{line + 6}:3")))
        done = types.SimpleNamespace(returncode=1, stdout=b"-:1: no such thing\n-:2: nor this\n")
        with mock.patch.object(job.subprocess, "run", lambda *_, **__: done), \
                self.assertRaises(lab.LabError) as caught:
            job.play_faults(made)
        self.assertEqual(str(caught.exception),
                         "lab.yaml:7:3: no such thing\nlab.yaml:8:3: nor this")

        def late(argv, timeout, **_):
            raise subprocess.TimeoutExpired(argv, timeout)

        with mock.patch.object(job.subprocess, "run", late), \
                self.assertRaisesRegex(lab.LabError, "^lab.yaml:7:3: the fabric has not .* 60 s"):
            job.play_faults(made)

    def test_unwritten(self):
        """Files that cannot be written to the nodes: the error has their name, if known."""
        files = [labfile.File("/x", None, "x", False, None, "f:1:2")]
        made = self.lab(files=files)
        made.vms = [types.SimpleNamespace(k=1)]
        for error, said in ((OSError(28, "No space left on device"), "No space left on device"),
                            (OSError(13, "Permission denied", "/y"), "/y: Permission denied"),
                            (OSError("unexpected end of data"), "unexpected end of data")):
            with mock.patch.object(job, "archive", mock.Mock(side_effect=error)), \
                    self.assertRaises(lab.LabError) as caught:
                job.copy_files(made)
            self.assertEqual(str(caught.exception), f"f:1:2: files: {said}")

    def test_statuses(self):
        """The nodes on which a command runs, and which of their statuses are unexpected."""
        class Fake(fake.FakeLab):
            """A lab whose commands exit with the number of the node."""

        made = Fake("x", types.SimpleNamespace(nodes=3))
        made.print_lock = threading.Lock()
        made.start()
        self.addCleanup(made.teardown)

        argvs = []

        class Ends:
            """A channel whose command ends at once."""

            def __init__(self, where, *_):
                self.k = int(where[-1])

            def run(self, argv, *_):
                """Ends at once."""
                argvs.append(argv)
                return self.k

        with mock.patch.object(lab, "Channel", Ends):
            self.assertIsNone(made.wrong_status(["x"], 5, None, [1, 2, 3]))
            self.assertIsNone(made.wrong_status(["x"], 5, [2], [2]))
            self.assertEqual(made.wrong_status(["x"], 5, [3], [2]), 3)
            # a single word of a list is not run by a shell
            self.assertTrue(all(argv == ["x"] for argv in argvs), argvs)
            argvs.clear()
            self.assertIn(made.run(["x y"], 5), (1, 2, 3))
            self.assertTrue(all(argv == ["/bin/sh", "-c", "x y"] for argv in argvs), argvs)


class Names(unittest.TestCase):
    """Nodes by their names."""

    def test_number(self):
        """A node of a running lab is found by its number, or by its name."""
        state = {"nodes": 2, "names": ["server", "node2"], "first": 1}
        self.assertEqual([cli.number_of(state, x) for x in ("1", "2", "server", "node2")],
                         [1, 2, 1, 2])
        for x in ("0", "3", "client", "-1", "²"):
            with self.assertRaisesRegex(lab.LabError, "use 1 to 2, or server$"):
                cli.number_of(state, x)


if __name__ == "__main__":
    fake.main()
