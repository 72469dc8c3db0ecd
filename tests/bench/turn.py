#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""A lab of a checkout, and all programs of 'beside' in it: turn.py TREE COLUMN

Prints what report.collect() takes. The launcher is the checkout's, and what it lacks is ours.
"""
import os
import signal
import sys

HERE = os.path.dirname(os.path.realpath(__file__))
TOP = os.path.dirname(os.path.dirname(HERE))


def main(tree, column):
    """Measures, and prints the figures."""
    sys.path[:0] = [os.path.join(tree, "tools"), os.path.dirname(HERE)]
    sys.path.append(os.path.join(TOP, "tools"))
    # pylint: disable=import-outside-toplevel
    import ohca_lab
    ohca_lab.__path__.append(os.path.join(TOP, "tools", "ohca_lab"))
    from bench.parts import beside, machines

    found = beside.tables()
    with machines.Machines() as pair:
        beside.one(pair, {t.name: t for t in found}, column)
    for table in found:
        for row, cells in table.cells.items():
            for name, values in cells.items():
                for value in values:
                    print(table.name, row, name, value, sep="\t")


if __name__ == "__main__":
    # end the lab in any case
    for s in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(s, lambda number, _: sys.exit(128 + number))
    main(*sys.argv[1:])
