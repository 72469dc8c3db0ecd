# SPDX-License-Identifier: GPL-2.0-or-later
"""Parts whose lines are changed, and the copies of the tree in which their tests run."""
import filecmp
import json
import os
import shutil
import signal
import subprocess
import threading
import time
from dataclasses import dataclass, field

HERE = os.path.dirname(os.path.realpath(__file__))
# Sources of a part's tests.
SOURCES = ("firmware-if", "qemu-model", "userspace", "kernel/include", "tests")
# cmocka's line for a failed case.
FAILED = "[  FAILED  ]"
# seconds for a build; a change of a header builds most of a part
BUILD_SECONDS = 900


@dataclass(frozen=True)
class Part:
    """Folders of sources and their units."""
    name: str
    # folders and files with the lines that are changed; "FOLDER/." without subfolders
    sources: tuple
    tests: str              # folder of the units
    programs: str           # the test programs, in terms of the units' Makefile
    sanitizers: tuple = ("ASAN",)   # variables of the units' Makefiles with their options
    threads: str = ""       # programs under ThreadSanitizer
    options: tuple = ()
    others: tuple = ()      # files in these folders that another part's units test
    # further tests: a file to build, below the build directory, and a command with its path
    scripts: tuple = ()
    # and of other units: their folder, and their programs that run these sources, too
    further: tuple = ()

    def files(self, top):
        """Pairs of a path from the top and its text, of all sources in subfolders, too."""
        for source in self.sources:
            paths = [os.path.join(top, source)] if source.endswith(".c") else []
            for folder, inner, names in os.walk(os.path.join(top, source)):
                inner[:] = [] if source.endswith("/.") else sorted(inner)
                paths += [os.path.join(folder, name) for name in sorted(names)
                          if name.endswith((".c", ".h"))]
            for path in paths:
                if self.owns(os.path.relpath(path, top)):
                    with open(path, encoding="utf-8") as f:
                        yield os.path.relpath(path, top), f.read()

    def without_sanitizers(self):
        """Variables of make for a build without sanitizers."""
        return [f"{name}=" for name in self.sanitizers]

    def owns(self, path):
        """Whether a path from the top is one of a source of the part."""
        folder = os.path.dirname(path)
        return path not in self.others and any(
            path == source or (folder == source[:-2] if source.endswith("/.") else
                               f"{folder}/".startswith(f"{source}/"))
            for source in self.sources)


FABRIC = "qemu-model/fabric"
# the way of packets to and from an HCA in the fabric's process, which needs an engine
HOSTED = tuple(f"{FABRIC}/data/{name}" for name in ("flow.c", "hport.c"))
VFIO_USER = "qemu-model/vfio-user"
PARTS = {p.name: p for p in (
    Part("ib", ("qemu-model/ib",), "tests/ib", "$(TESTS) $(IBMAD)"),
    Part("link", ("qemu-model/link",), "tests/link", "$(TESTS)", threads="$(TESTS:%=%.tsan)"),
    Part("provider", ("userspace/providers/ohca",), "tests/provider", "$(ALL_TESTS)",
         threads="$(TSAN_TESTS:%=%.tsan)"),
    Part("mgmt", tuple(f"{FABRIC}/{room}" for room in ("graph", "mgmt", "fault", "sim", "control",
                                                       "client")),
         "tests/fabric", "$(TESTS)", sanitizers=("SAN",),
         scripts=(("ohca-fabric", "./test_cli.sh {}"),)),
    Part("data", tuple(f"{FABRIC}/{room}" for room in ("base", "data", "watch", ".")),
         "tests/fabric", "$(TESTS)", sanitizers=("SAN", "ASAN"),
         scripts=(("ohca-fabric", "./test_cli.sh {}"),), others=HOSTED,
         further=(("tests/engine", "$(TESTS_SWITCH)"),)),
    Part("front", ("qemu-model/front",), "tests/engine",
         "$(TESTS_FRONT) $(TESTS_OBJECTS) $(TESTS_SWITCH)"),
    Part("vfio-user", (VFIO_USER,), "tests/engine", "test_vfio_user test_vfio_wrong",
         others=tuple(f"{VFIO_USER}/{name}" for name in ("main.c", "say.c", "say.h"))),
    Part("engine", ("qemu-model/engine", f"{FABRIC}/hca", *HOSTED), "tests/engine", "$(TESTS)"),
)}


@dataclass
class Program:
    """A test: its target of make, and the command that runs it."""
    name: str
    tests: str              # folder of its Makefile, in which it runs, too
    target: str
    command: str
    seconds: float = 0      # seconds by the clock, and of processor time
    processor: float = 0


@dataclass
class Level:
    """A build of a part's tests, with its own options of the compiler."""
    name: str
    build: str                  # directory
    variables: list
    programs: list = field(default_factory=list)
    objects: dict = field(default_factory=dict)     # path: content, without a change


class Broken(Exception):
    """The tests fail, or cannot be built, without any change."""


class Tree:
    """A copy of the sources with builds of one part's tests."""

    def __init__(self, part, top, where):
        self.part, self.where = part, where
        self.tests = os.path.join(where, part.tests)
        # as the units' Makefile has it
        self.topologies = os.path.join(where, "tests", "topologies")
        self.levels = []
        if top:
            self._take(top)

    def _take(self, top):
        """Copies the sources of a directory; equal files keep their times, and so their objects.

        It removes everything of a run that did not reach its end, which may have left objects of a
        change, and of builds that were made in another way.
        """
        if not self._is_whole():
            shutil.rmtree(self.where, ignore_errors=True)
        self.whole(False)
        for name in SOURCES:
            there, here = os.path.join(top, name), os.path.join(self.where, name)
            for folder, _, names in os.walk(here):
                for one in names:
                    path = os.path.join(folder, one)
                    if not os.path.exists(os.path.join(there, os.path.relpath(path, here))):
                        os.unlink(path)
            for folder, _, names in os.walk(there):
                other = os.path.join(here, os.path.relpath(folder, there))
                os.makedirs(other, exist_ok=True)
                for one in names:
                    path, ours = os.path.join(folder, one), os.path.join(other, one)
                    if not os.path.exists(ours) or not filecmp.cmp(path, ours, shallow=False):
                        # its time is now: objects of the old content are older
                        shutil.copy(path, ours)

    def _way(self):
        """The text that describes how builds are made."""
        text = repr(self.part.options)
        for name in ("part.py", "run"):
            with open(os.path.join(HERE, name), encoding="utf-8") as f:
                text += f.read()
        return text

    def _is_whole(self):
        try:
            with open(os.path.join(self.where, "whole"), encoding="utf-8") as f:
                return f.read() == self._way()
        except FileNotFoundError:
            return False

    def whole(self, is_whole):
        """Records whether sources and objects are without a change."""
        path = os.path.join(self.where, "whole")
        if is_whole:
            with open(path, "w", encoding="utf-8") as f:
                f.write(self._way())
        elif os.path.exists(path):
            os.unlink(path)

    def _make(self, level, tests, *targets):
        """Runs make in a folder of tests; returns its status and output."""
        return self._run(["make", "-s", f"BUILD={level.build}", *self.part.options,
                          *level.variables, *targets], BUILD_SECONDS, tests)

    def make(self, level, programs, *options):
        """Makes programs; returns the status and the output of the first make that fails."""
        status, out = 0, ""
        for tests in dict.fromkeys(p.tests for p in programs):
            status, out = self._make(level, tests, *options,
                                     *(p.target for p in programs if p.tests == tests))
            if status:
                break
        return status, out

    def _programs(self, level, tests, programs, prefix=""):
        """The programs of a folder of tests, from its Makefile."""
        status, out = self._make(level, tests, f"--eval=names: ; @echo $(OUT): {programs}", "names")
        if status:
            raise Broken(f"{self.part.name}: {out}")
        out, names = out.strip().splitlines()[-1].split(":")
        for name in names.split():
            path = os.path.join(out, name)
            yield Program(prefix + name, tests, path, path)

    def level(self, name, variables, programs, scripts=(), further=()):
        """Adds a build, made now."""
        level = Level(name, os.path.join(self.where, "build", name), variables)
        level.programs += self._programs(level, self.tests, programs)
        for folder, some in further:
            # programs of two folders may have the same name
            level.programs += self._programs(level, os.path.join(self.where, folder), some,
                                             os.path.basename(folder) + "/")
        for file, command in scripts:
            path = os.path.join(level.build, file)
            level.programs.append(Program(command.split()[0], self.tests, path,
                                          command.format(path)))
        status, out = self.make(level, level.programs, f"-j{os.cpu_count()}")
        if status:
            raise Broken(f"{self.part.name}, {name}: {out}")
        level.objects = dict(self.contents(level))
        self.levels.append(level)
        return level

    @staticmethod
    def contents(level, since=0.0):
        """Paths and contents of a level's objects that are newer than a time."""
        for folder, _, names in os.walk(level.build):
            for name in names:
                path = os.path.join(folder, name)
                if name.endswith(".o") and os.stat(path).st_mtime >= since:
                    with open(path, "rb") as f:
                        yield path, f.read()

    def copy(self, where):
        """The same tree with the builds of its levels at another place."""
        builds = {os.path.basename(level.build) for level in self.levels}
        shutil.rmtree(where, ignore_errors=True)
        shutil.copytree(self.where, where, symlinks=True, ignore=lambda folder, names: [
            n for n in names if folder == os.path.join(self.where, "build") and n not in builds])
        for folder, _, names in os.walk(os.path.join(where, "build")):
            for name in names:
                path = os.path.join(folder, name)
                if name.endswith(".d"):
                    stat = os.stat(path)
                    with open(path, encoding="utf-8") as f:
                        text = f.read().replace(self.where + "/", where + "/")
                    with open(path, "w", encoding="utf-8") as f:
                        f.write(text)
                    os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))
        tree = Tree(self.part, None, where)

        def moved(text):
            return text.replace(self.where + "/", where + "/")
        for level in self.levels:
            tree.levels.append(Level(
                level.name, moved(level.build), level.variables,
                [Program(p.name, moved(p.tests), moved(p.target), moved(p.command), p.seconds,
                         p.processor) for p in level.programs],
                {moved(path): data for path, data in level.objects.items()}))
        return tree

    def measure(self, level):
        """Runs each program once, records its time, and checks that it passes."""
        for p in level.programs:
            begin, processor = time.monotonic(), os.times()
            status, out = self.run(p, 600, 600)
            if status:
                raise Broken(f"{self.part.name}: {p.name} of {level.name} fails without a change: "
                             + out[-2000:])
            now = os.times()
            p.seconds = time.monotonic() - begin
            # of all that end at this time, so at least this one's
            p.processor = now.children_user + now.children_system - \
                processor.children_user - processor.children_system

    def run(self, program, seconds, processor, env=None):
        """Runs a test within a limit of time; returns its status and output."""
        return self._run(["sh", "-c", f"ulimit -c 0; ulimit -S -t {int(processor)}; "
                                      f"exec {program.command}"], seconds, program.tests, env)

    def _run(self, argv, seconds, tests, env=None):
        with subprocess.Popen(argv, cwd=tests, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
                              env={**os.environ, "LC_ALL": "C", "TOPOLOGIES": self.topologies,
                                   **(env or {})},
                              start_new_session=True) as p:

            def end():
                try:
                    os.killpg(p.pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
            timer = threading.Timer(seconds, end)
            timer.start()
            out, failed = [], False
            for line in p.stdout:
                out.append(line.decode(errors="replace"))
                failed = FAILED in out[-1]
                if failed:
                    # cmocka would continue with its other cases
                    end()
                    break
            status = p.wait()
            timer.cancel()
            # processes that the test has left running
            end()
            return 1 if failed else status, "".join(out)

    def covered(self, level):
        """{(path, number of a line): names of the programs that run it} for the part's files.

        The entry of None has the programs that did not end correctly: they may run any line.
        """
        lines, here = {}, os.path.join(self.where, "build", "runs")
        for p in level.programs:
            into = os.path.join(here, p.name.replace("/", "_"))
            if self.run(p, 600, 600, {"GCOV_PREFIX": into})[0]:
                lines.setdefault(None, set()).add(p.name)
            for folder, _, names in os.walk(into):
                data = [n for n in names if n.endswith(".gcda")]
                for name in data:
                    # the notes of the compiler are looked for beside the counts
                    notes = os.path.join(folder, name[:-len("gcda")] + "gcno")
                    shutil.copy(os.path.join("/", os.path.relpath(notes, into)), notes)
                if not data:
                    continue
                gcov = subprocess.run(["gcov", "-t", "--json-format", *data], cwd=folder,
                                      stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                                      check=False)
                # a process that was killed while it wrote leaves incomplete counts
                if gcov.returncode:
                    lines.setdefault(None, set()).add(p.name)
                for text in gcov.stdout.decode().splitlines():
                    if text.startswith("{") and text.endswith("}"):
                        self._count(json.loads(text), p.name, lines)
            shutil.rmtree(into, ignore_errors=True)
        return lines

    def _count(self, report, name, lines):
        for file in report["files"]:
            path = os.path.normpath(os.path.join(report["current_working_directory"],
                                                 file["file"]))
            path = os.path.relpath(path, self.where)
            if self.part.owns(path):
                for line in file["lines"]:
                    if line["count"]:
                        lines.setdefault((path, line["line_number"]), set()).add(name)
