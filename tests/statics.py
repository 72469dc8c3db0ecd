#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Checks that static functions have unique names in each program, so that a breakpoint, a profile
and a search find one function, not several. Usage: statics.py [TREE]"""
import pathlib
import re
import sys

TOP = pathlib.Path(__file__).resolve().parent.parent

# program: its sources
PROGRAMS = {
    "the PCI device in QEMU": ["qemu-model/front/*.c", "qemu-model/qemu/*.c"],
    "ohca-vfio-user": ["qemu-model/front/*.c", "qemu-model/link/*.c", "qemu-model/vfio-user/*.c"],
    "engines in ohca-fabric": [
        "qemu-model/engine/*/*.c", "qemu-model/ib/*.c", "qemu-model/link/*.c",
        "qemu-model/front/dirty.c", "qemu-model/front/doorbell.c", "qemu-model/fabric/*.c",
        "qemu-model/fabric/data/*.c", "qemu-model/fabric/hca/*.c",
    ],
    "management and control of ohca-fabric": [
        "qemu-model/fabric/mgmt/*.c", "qemu-model/fabric/fault/*.c",
        "qemu-model/fabric/control/*.c", "qemu-model/fabric/client/*.c",
    ],
}

# a definition at the start of a line, in the styles of the kernel and of QEMU
STATIC = re.compile(r"^(?:__attribute__\(\(\w+\)\)\s+)?static\s+(?!const\b.*[=;]$)"
                    r"[\w\s\*]*?(\w+)\([^;]*$")


def statics(path):
    """The names of the static functions that a file defines."""
    names = set()
    for line in path.read_text().splitlines():
        m = STATIC.match(line)
        if m and "=" not in line:
            names.add(m.group(1))
    return names


def clashes(files):
    """(name, files) of each static function that several files define."""
    where = {}
    for path in files:
        for name in statics(path):
            where.setdefault(name, []).append(path)
    return sorted((name, paths) for name, paths in where.items() if len(paths) > 1)


def main():
    """Checks each program of the tree in the argument, or of this tree."""
    top = pathlib.Path(sys.argv[1]).resolve() if sys.argv[1:] else TOP
    bad = 0
    for what, patterns in PROGRAMS.items():
        files = sorted(p for pattern in patterns for p in top.glob(pattern))
        if not files:
            print(f"{what}: no files")
            bad = 1
        for name, paths in clashes(files):
            print(f"{what}: {name}() is in " +
                  ", ".join(str(p.relative_to(top)) for p in paths))
            bad = 1
    return bad


if __name__ == "__main__":
    sys.exit(main())
