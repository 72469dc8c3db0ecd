#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""includes.py [TOP]: checks includes and calls between folders, and the length of functions.

It prints a line for each error: an include or a call against the order of the folders of
qemu-model, a circle among headers or folders, a circle of more than MAX_CIRCLE files that call
each other, a folder without a place in the order, a function of more than MAX_LINES lines. The
status is 1 if there is an error.
"""
import os
import re
import sys

MAX_LINES = 80
MAX_CIRCLE = 6

# What the files of a folder may include beside their own folder's; "engine" is engine.h alone.
ENGINE = ("engine/base", "engine/object", "engine/transport", "engine/management",
          "engine/device")
FABRIC = ("fabric/base", "fabric/graph", "fabric/mgmt", "fabric/data", "fabric/hca",
          "fabric/fault", "fabric/watch", "fabric/traffic", "fabric/sim", "fabric/control",
          "fabric/client", "fabric")
MAY_INCLUDE = {
    "front": (),
    "ib": (),
    "link": (),
    "engine": (),
    "umad": ("ib", "link"),
    "qemu": ("front",),
    "vfio-user": ("front", "link"),
    **{folder: ("ib", "engine", *ENGINE[:i]) for i, folder in enumerate(ENGINE)},
    **{folder: ("ib", "link", *FABRIC[:i]) for i, folder in enumerate(FABRIC)},
}
# the layout of the doorbells
MAY_INCLUDE["engine/object"] += ("front",)
MAY_INCLUDE["engine/device"] += ("front",)
# the only folders of the fabric that may use the engine
MAY_INCLUDE["fabric/hca"] += ("engine", "front")
# the program: the version of the protocol of HCAs, and the time slice of its threads
MAY_INCLUDE["fabric"] += ("front",)

# Headers of a folder whose functions a higher folder implements: only they may be called upwards.
UPWARD = ("engine/object/to_transport.h", "engine/transport/to_agents.h",
          "fabric/mgmt/to_fault.h", "fabric/data/to_watch.h")

# Parts whose functions are measured and whose files' calls are checked, each by itself.
MEASURED = ("kernel", "userspace", "qemu-model")
CALLS = ("kernel", "userspace/providers/ohca", "qemu-model/engine", "qemu-model/front",
         "qemu-model/ib", "qemu-model/link", "qemu-model/fabric", "qemu-model/umad",
         "qemu-model/qemu", "qemu-model/vfio-user")

# From the name of a function at the begin of a line to its body.
FUNCTION = re.compile(
    r"^(?!static\b)[A-Za-z_][\w \t*]*?[ *](\w+)\((?:[^;{}()]|\([^()]*\))*\)\s*\n\{", re.M)
COMMENT = re.compile(r"""/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\\n])+'""", re.S)


def sources(top):
    """The C files of a folder and its subfolders, as relative paths; no tests."""
    for where, folders, names in os.walk(top):
        folders[:] = sorted(set(folders) - {"tests", "qtest"})
        for name in sorted(names):
            if name.endswith((".c", ".h")):
                yield os.path.relpath(os.path.join(where, name), top)


def code(path):
    """The text of a file without comments, strings and characters."""
    with open(path, encoding="utf-8") as file:
        return COMMENT.sub(" ", file.read())


def includes(model, path, known):
    """The files of the model that @path includes, with the number of each line."""
    with open(os.path.join(model, path), encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            match = re.match(r'\s*#\s*include\s+"([^"]+)"', line)
            if not match:
                continue
            # the overlay puts front and firmware-if into core/
            name = re.sub(r"^(\.\./)*core/", "", match[1])
            beside = os.path.normpath(os.path.join(os.path.dirname(path), name))
            for file_name in (beside, name):
                if file_name in known:
                    yield number, file_name
                    break


def circle(graph):
    """A circle of a graph of names, as a list with the same first and last name; or None."""
    done = set()

    def walk(node, way):
        if node in way:
            return way[way.index(node):] + [node]
        if node in done:
            return None
        for successor in sorted(graph.get(node, ())):
            found = walk(successor, way + [node])
            if found:
                return found
        done.add(node)
        return None

    for node in sorted(graph):
        found = walk(node, [])
        if found:
            return found
    return None


def check_includes(model):
    """Yields the errors of includes."""
    known = set(sources(model))
    files, folders = {}, {}
    for path in sorted(known):
        folder = os.path.dirname(path)
        if folder not in MAY_INCLUDE:
            yield f"{path}: the folder has no place in the order of includes"
            continue
        for number, name in includes(model, path, known):
            files.setdefault(path, set()).add(name)
            other = os.path.dirname(name)
            if other == folder:
                continue
            folders.setdefault(folder, set()).add(other)
            if other not in MAY_INCLUDE[folder]:
                yield f"{path}:{number}: {folder} must not include {name}"
    for what, graph in (("files", files), ("folders", folders)):
        found = circle(graph)
        if found:
            yield f"{what} include each other: {' -> '.join(found)}"


def calls(top):
    """The calls between the C files of a part: {file: {file: names}}."""
    text = {path: code(os.path.join(top, path)) for path in sources(top) if path.endswith(".c")}
    home = {name: path for path, body in text.items() for name in FUNCTION.findall(body)}
    graph = {path: {} for path in text}
    for path, body in text.items():
        # a name that is called or passed on; not the tag of a type or a member
        used = set(re.findall(r"(?<![.>])\b(?:(?:struct|enum|union) \w+|\w+)\b", body))
        for name in used & set(home):
            if home[name] != path:
                graph[path].setdefault(home[name], set()).add(name)
    return graph


def components(graph):
    """The sets of nodes that can all reach each other."""
    def reach(node, edges):
        found, todo = set(), [node]
        while todo:
            for successor in edges.get(todo.pop(), ()):
                if successor not in found:
                    found.add(successor)
                    todo.append(successor)
        return found

    ways = {node: reach(node, graph) for node in graph}
    return {frozenset(other for other in ways[node] if node in ways[other])
            for node in graph if node in ways[node]}


def upward(model):
    """The functions that a folder may call although a higher one implements them."""
    names = set()
    for path in UPWARD:
        names |= set(re.findall(r"\b((?:ohca|fab)_\w+)\(", code(os.path.join(model, path))))
    return names


def check_calls(top):
    """Yields the errors of calls."""
    model = os.path.join(top, "qemu-model")
    allowed = upward(model)
    for part, order in (("engine", ENGINE), ("fabric", FABRIC)):
        for path, callees in calls(os.path.join(model, part)).items():
            folder = os.path.join(part, os.path.dirname(path)).rstrip("/")
            for other_path, names in sorted(callees.items()):
                other = os.path.join(part, os.path.dirname(other_path)).rstrip("/")
                if order.index(other) > order.index(folder):
                    for name in sorted(names - allowed):
                        yield f"{part}/{path}: {folder} must not call {name}() of {other_path}"
    for part in CALLS:
        graph = {path: {other for other, names in callees.items() if names - allowed}
                 for path, callees in calls(os.path.join(top, part)).items()}
        for files in components(graph):
            if len(files) > MAX_CIRCLE:
                yield (f"{part}: {len(files)} files call each other, more than {MAX_CIRCLE}: "
                       f"{' '.join(sorted(files))}")


def check_lengths(top):
    """Yields the functions that are too long: from the line with the name to the last brace."""
    for path in (os.path.join(part, path) for part in MEASURED
                 for path in sources(os.path.join(top, part))):
        begin, inside = 0, False
        with open(os.path.join(top, path), encoding="utf-8") as file:
            for number, line in enumerate(file, 1):
                if line.startswith("{"):
                    inside = True
                elif inside and not line.startswith("}"):
                    continue
                elif re.match(r"[A-Za-z]", line) and "(" in line:
                    begin, title = number, line.strip()
                elif line.startswith("}"):
                    if inside and number - begin >= MAX_LINES:
                        yield (f"{path}:{begin}: {number - begin + 1} lines, more than "
                               f"{MAX_LINES}: {title}")
                    inside = False


def main():
    """Prints all errors; returns the status."""
    top = sys.argv[1] if len(sys.argv) > 1 else "."
    findings = [*check_includes(os.path.join(top, "qemu-model")), *check_calls(top),
                *check_lengths(top)]
    for finding in findings:
        print(finding)
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
