#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""includes.py [TOP]: what may include what in qemu-model, and how long a function may be.

One line per finding: an include that points up against the order of the folders, a circle among
headers or folders, a folder without a place in the order, a function of more than MAX_LINES
lines. The status is 1 if there was any.
"""
import os
import re
import sys

MAX_LINES = 80

# What the files of a folder may include beside their own folder's; "engine" is engine.h alone.
ENGINE = ("engine/base", "engine/object", "engine/transport", "engine/management",
          "engine/device")
MAY_INCLUDE = {
    "ib": (),
    "link": ("ib",),
    "engine": (),
    "switch": ("link", "ib"),
    "qemu": ("engine", "link", "ib"),
    **{folder: ("ib", "engine", *ENGINE[:i]) for i, folder in enumerate(ENGINE)},
}

# Folders whose functions are measured.
MEASURED = ("engine", "link", *ENGINE)


def sources(model):
    """The C files of the device model by folder, as paths from its top."""
    for where, folders, names in os.walk(model):
        folders.sort()
        for name in sorted(names):
            if name.endswith((".c", ".h")):
                yield os.path.relpath(os.path.join(where, name), model)


def includes(model, path, known):
    """The files of the model that @path includes, with the line of each."""
    with open(os.path.join(model, path), encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            match = re.match(r'\s*#\s*include\s+"([^"]+)"', line)
            if not match:
                continue
            # the overlay puts all but the front end into core/
            name = re.sub(r"^(\.\./)*core/", "", match[1])
            beside = os.path.normpath(os.path.join(os.path.dirname(path), name))
            for file_name in (beside, name):
                if file_name in known:
                    yield number, file_name
                    break


def circle(graph):
    """One circle of a graph of names, as a list that begins and ends with the same; or None."""
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
    """The findings about includes."""
    known = set(sources(model))
    files, folders = {}, {}
    for path in sorted(known):
        folder = os.path.dirname(path)
        if folder not in MAY_INCLUDE:
            # tests of QEMU's own build are in a folder of the front end
            if not folder.startswith("qemu/"):
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


def check_lengths(model):
    """The findings about functions: from the line that names one to its last brace."""
    for path in sources(model):
        if os.path.dirname(path) not in MEASURED:
            continue
        begin, inside = 0, False
        with open(os.path.join(model, path), encoding="utf-8") as file:
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
    """Print what is found."""
    top = sys.argv[1] if len(sys.argv) > 1 else "."
    model = os.path.join(top, "qemu-model")
    findings = [*check_includes(model), *check_lengths(model)]
    for finding in findings:
        print(finding)
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
