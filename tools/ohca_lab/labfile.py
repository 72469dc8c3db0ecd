# SPDX-License-Identifier: GPL-2.0-or-later
"""A lab that a file describes (-f): the values of the file become defaults of the options.

lab.schema.json describes the files. This module checks what a schema cannot: names that must match
and files that must exist. cli.py checks combinations of options, also those of a file.
"""
import os
import re
from collections import namedtuple

from . import image, paths
from .document import Document, FileError, Problem
from .explain import Explainer, nearest, validator

DEFAULT_PKEY = 0x7fff
EVERYBODY = ("ALL", "SELF", "ALL_CAS", "ALL_SWITCHES")  # words of OpenSM's partitions.conf
# Names that nodes cannot have: OpenSM or the guests' hosts file uses them.
TAKEN = r"(?i)localhost|all|self|node\d+|.*-ib\d*"

# run: a shell's command line, or a list, a program and its arguments; on: numbers of nodes, None:
# all; expect: the expected statuses; where: FILE:LINE:COLUMN
Command = namedtuple("Command", "run on expect timeout where")
# Either source, a path on the host, or text is None.
File = namedtuple("File", "to source text executable on where")
# members: (member, "full", "limited" or "both"); member: a node's number, or text for OpenSM
Partition = namedtuple("Partition", "name pkey ipoib sl members")
# A script of faults; where(N) is the place of its line N.
Faults = namedtuple("Faults", "text where")

NEEDS = "install python3-yaml and python3-jsonschema" + (
    ", as 'make deps' does" if paths.CHECKOUT else "")
SAME = ("name", "kernel", "accel", "numa", "fabric", "attach", "hcas", "ports", "no-sm",
        "no-driver", "gdb", "timeout", "serve", "opensm", "append", "package", "trace", "qemu")


def faults_of(path):
    """The Faults of a file."""
    with open(path, encoding="utf-8") as f:
        return Faults(f.read(), lambda line: f"{path}:{line}")


class LabFile:
    """A file that describes a lab: values has defaults for the parser of the options."""

    def __init__(self, path):
        """Reads the file; raises FileError if it is wrong."""
        self.path, self.dir = path, os.path.dirname(os.path.abspath(path))
        self.values, self.places, self.problems, self.given = {}, {}, [], set()
        try:
            with open(path, "rb") as f:
                data = f.read(1 << 20)
        except OSError as e:
            raise FileError(path, [Problem(1, 1, f"it cannot be read: {e.strerror}")]) from None
        try:
            self.doc, finds = Document(path, data), validator()
        except ImportError as e:
            raise FileError(path, [Problem(1, 1, f"{e}: {NEEDS}")]) from None
        explainer = Explainer(self.doc)
        self._end([p for e in finds.iter_errors(self.doc.value)
                   for p in explainer.problems(e)])
        self._options(self.doc.value)
        self._nodes(self.doc.value)
        self._work(self.doc.value)
        self._end(self.problems)

    def _end(self, problems):
        if problems:
            raise FileError(self.path, problems)

    def _wrong(self, path, text, key=False):
        self.problems.append(self.doc.at(path, text, key))

    def where(self, path):
        """FILE:LINE:COLUMN of a value."""
        return "{}:{}:{}".format(self.path, *self.doc.place(path))

    def _set(self, dest, value, path=None):
        """Sets the default of an option, and records its place in the file."""
        self.values[dest] = value
        self.places["--" + dest.replace("_", "-")] = path or (dest,)

    def _file(self, name):
        """The path of a file whose name is in this file."""
        return os.path.join(self.dir, name)

    def _options(self, top):
        """Reads the keys that are options."""
        for key in SAME:
            if key in top:
                self._set(key.replace("-", "_"), top[key], (key,))
        for key in ("share", "log"):
            if key in top:
                self._set(key, self._file(top[key]))
        if "image" in top:
            self._image(None, top["image"], ("image",))
        if "topology" in top:
            path = self._file(top["topology"])
            self._set("topology", path if os.path.exists(path) else top["topology"])
        if isinstance(top.get("faults"), str):
            try:
                self._set("faults", faults_of(self._file(top["faults"])))
            except (OSError, UnicodeDecodeError) as e:
                self._wrong(("faults",), f"'{top['faults']}' cannot be read: "
                            f"{getattr(e, 'strerror', 'it is not text')}; to write the script "
                            "here, give a list of its lines: ['at 0 ...']")
        elif "faults" in top:
            self._set("faults", Faults("\n".join(top["faults"]) + "\n",
                                       lambda line: self.where(("faults", line - 1))))

    def _nodes(self, top):
        """Reads the nodes and the settings of each node."""
        nodes = top.get("nodes", 2)
        named = nodes if isinstance(nodes, dict) else {}
        self.count = len(named) or nodes
        self.names = list(named)
        self._set("nodes", self.count)
        if named:
            self._set("names", self.names, ("nodes",))
        seen = {}
        for k, name in enumerate(named, 1):
            if re.fullmatch(TAKEN, name) and name != f"node{k}":
                self._wrong(("nodes", name), f"'{name}' cannot be the name of a node: choose "
                            "another one", key=True)
            if seen.setdefault(name.lower(), name) != name:
                self._wrong(("nodes", name), f"'{seen[name.lower()]}' is the same name without "
                            "regard to case: choose another one", key=True)
        settings = [x or {} for x in named.values()] or [{}]
        for key, missing in (("guest", paths.GUESTS[0]), ("memory", None), ("cpus", None)):
            if key in top or any(key in x for x in settings):
                at = next((("nodes", n, key) for n in named if key in (named[n] or {})), (key,))
                self._set(key, [x.get(key, top.get(key, missing)) for x in settings], at)
        devices = [f"{name}={self.doc.raw['device', name]}" for name in top.get("device", {})]
        self.values["place"] = []
        for k, (name, x) in enumerate(zip(named, settings), 1):
            devices += [self._device(k, p, self.doc.raw["nodes", name, "device", p])
                        for p in x.get("device", {})]
            if "image" in x:
                self._image(k, x["image"], ("nodes", name, "image"))
            place = x.get("place", [])
            for i, host in enumerate([place] if isinstance(place, str) else place):
                self.values["place"].append(f"node{k}={host}")
                self.places[f"--place node{k}={host}"] = ("nodes", name, "place") + (
                    (i,) if isinstance(place, list) else ())
            self.places[f"--place: node{k} gets"] = ("nodes", name, "place")
            self.places[f"node{k} has the place"] = ("nodes", name, "place")
        self.places.setdefault("--memory", ("nodes",))
        if devices:
            self._set("device", devices)

    def _image(self, k, name, path):
        """Sets the disk image of node k, or of all (None); that of a node has precedence."""
        text = (f"{k}:" if k else "") + self._file(name)
        self.values.setdefault("image", []).append(text)
        self.places[f"--image {text}"] = path

    @staticmethod
    def _device(k, name, value):
        """The argument of --device for a property of a node, or of one of its adapters."""
        hca, colon, name = name.rpartition(":")
        return f"{k}.{int(hca)}:{name}={value}" if colon else f"{k}:{name}={value}"

    def node(self, name):
        """The number of a node by its name, or None."""
        if name in self.names:
            return self.names.index(name) + 1
        m = re.fullmatch(r"node([1-9]\d?)", name)
        return int(m[1]) if m and int(m[1]) <= self.count else None

    def _on(self, value, path):
        """The numbers of the nodes in 'on', or None for all nodes."""
        if "on" not in value or value["on"] == "all":
            return None
        names = value["on"] if isinstance(value["on"], list) else [value["on"]]
        found = []
        for i, name in enumerate(names):
            at = path + ("on",) + ((i,) if isinstance(value["on"], list) else ())
            k = self.node(name)
            if k is None:
                self._wrong(at, self._no_node(name))
            elif k in found:
                self._wrong(at, f"'{name}' is named twice: leave it out")
            found.append(k)
        return found

    def _no_node(self, name, more=()):
        known = self.names or [f"node{k}" for k in range(1, self.count + 1)]
        if not self.names and len(known) > 3:
            return f"there is no node '{name}': the nodes are node1 to node{self.count}"
        return f"there is no node '{name}': {nearest(name, [*known, *more])}"

    def _work(self, top):
        """Reads partitions, files and commands, for which there are no options."""
        self._set("partitions", [self._partition(name, x)
                                 for name, x in top.get("partitions", {}).items()])
        # no option has this name
        self.places["partitions"] = ("partitions",)
        numbers = {}
        for p in self.values["partitions"]:
            if numbers.setdefault(p.pkey, p.name) != p.name:
                self._wrong(("partitions", p.name), f"'{numbers[p.pkey]}' has the P_Key "
                            f"{p.pkey:#x}, too: choose another one", key=True)
        self._set("files", [self._transfer(i, x) for i, x in enumerate(top.get("files", []))])
        taken = {}
        for i, f in enumerate(self.values["files"]):
            for k in f.on or range(1, self.count + 1):
                if taken.setdefault((k, f.to), f) is not f:
                    self._wrong(("files", i), f"'{f.to}' is copied to a node twice: keep one of "
                                "them")
        for part in ("before", "commands", "after"):
            self._set(part, [self._command((part, i), x) for i, x in enumerate(top.get(part, []))])

    def _partition(self, name, x):
        path = ("partitions", name)
        pkey = x.get("pkey")
        if name == "Default":
            if pkey is not None:
                self._wrong(path + ("pkey",), f"Default always has the P_Key {DEFAULT_PKEY:#x}: "
                            "leave 'pkey' out")
            pkey = DEFAULT_PKEY
        elif pkey is None:
            self._wrong(path, f"'pkey' is missing: add the partition's P_Key, 1 to "
                        f"{DEFAULT_PKEY - 1:#x}", key=True)
        members = []
        # members in a list are full members
        pairs = x["members"].items() if isinstance(x["members"], dict) else [
            (who, "full") for who in x["members"]]
        for i, (who, kind) in enumerate(pairs):
            at = path + ("members", who if isinstance(x["members"], dict) else i)
            known = self.node(who)
            if known is None and not (who in EVERYBODY or re.fullmatch(r"0x[\da-fA-F]{1,16}", who)):
                self._wrong(at, self._no_node(who, EVERYBODY).removesuffix("?") +
                            "; others are members by their PortGUIDs, 0x...", key=True)
            who = known or who
            if who in (w for w, _ in members):
                self._wrong(at, "this is a member already: leave it out", key=True)
            members.append((who, kind))
        return Partition(name, pkey, x.get("ipoib", name == "Default"), x.get("sl"), members)

    def _transfer(self, i, x):
        path = ("files", i)
        if ("from" in x) == ("text" in x):
            self._wrong(path, "give either 'from', a file of the host, or 'text', its contents")
        if "executable" in x and "text" not in x:
            self._wrong(path + ("executable",), "a file of the host keeps its mode: leave this out",
                        key=True)
        if ".." in x["to"].split("/"):
            self._wrong(path + ("to",), "the path must not contain '..'")
        source = self._file(x["from"]) if "from" in x else None
        if source and not os.path.exists(source):
            self._wrong(path + ("from",), f"there is no file '{x['from']}': paths are relative to "
                        "the directory of this file")
        elif source and not os.access(source, os.R_OK):
            self._wrong(path + ("from",), f"'{x['from']}' cannot be read: check its permissions")
        return File(os.path.normpath(x["to"]), source, x.get("text"), x.get("executable", False),
                    self._on(x, path), self.where(path))

    def _command(self, path, x):
        if isinstance(x, str):
            x = {"run": x}
        expect = x.get("expect", 0)
        return Command(x["run"], self._on(x, path),
                       expect if isinstance(expect, list) else [expect],
                       x.get("timeout"), self.where(path))

    def merge(self, opt):
        """Applies the file's defaults to opt where the command line does not override them."""
        def said(places):
            return {p.partition("=")[0].removeprefix("node") for p in places}

        self.given = {dest for dest, value in self.values.items() if getattr(opt, dest) != value}
        given = opt.place[len(self.values["place"]):]
        # settings of nodes that -n leaves out are ignored
        left = [p for p in self.values["place"] if int(*said([p])) <= opt.nodes]
        opt.place = [p for p in left if not said([p]) & said(given)] + given
        own = len(self.values.get("image", []))
        opt.image = [x for x in opt.image[:own] if (image.split(x)[0] or 1) <= opt.nodes
                     ] + opt.image[own:]
        if opt.nodes >= self.count:
            return
        for dest in {"guest", "memory", "cpus"} & (self.values.keys() - self.given):
            setattr(opt, dest, getattr(opt, dest)[:opt.nodes])
        for part in (*opt.before, *opt.commands, *opt.after, *opt.files):
            if gone := [k for k in part.on or () if k > opt.nodes]:
                raise FileError(self.path, [self._gone(part.where, gone[0], opt)])
        for p in opt.partitions:
            if gone := [k for k, _ in p.members if isinstance(k, int) and k > opt.nodes]:
                raise FileError(self.path, [self._gone(self.where(("partitions", p.name)), gone[0],
                                                       opt)])

    def _gone(self, where, k, opt):
        name = self.names[k - 1] if self.names else f"node{k}"
        line, column = where.rsplit(":", 2)[1:]
        return Problem(int(line), int(column), f"-n {opt.nodes} leaves out '{name}', which is used "
                       f"here: use -n {k} or more, or no -n")

    def located(self, text):
        """An error text, with the place in the file if it is about an option in the file."""
        for start in sorted(self.places, key=len, reverse=True):
            dest = start.split(" ")[0].removeprefix("--").rstrip(":").replace("-", "_")
            # the command line may have added a place
            mine = dest not in self.given or (dest in ("place", "image") and
                                              text.startswith(start + ":"))
            if mine and text.startswith(start) and not text[len(start):len(start) + 1].isalnum():
                return f"{self.where(self.places[start])}: {text}"
        return text
