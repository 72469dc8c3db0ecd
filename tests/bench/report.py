# SPDX-License-Identifier: GPL-2.0-or-later
"""The figures of a part: as JSON, as tables for Sphinx and for a terminal, and as plots.

A table has a row for each measurement and a column for each program; one column is that of a peer.
A cell has a value of each run.
"""
import json

from bench import stats
from ohca_plot.draw import LICENSE, Figure, number, simple_table

SCHEMA = 1


def collect(text, tables):
    """Adds a program's output to tables: lines of TABLE, ROW, COLUMN and VALUE, with tabs."""
    by_name = {t.name: t for t in tables}
    for line in text.splitlines():
        words = line.split("\t")
        if len(words) == 4:
            by_name[words[0]].add(*words[1:])


class Table:
    """A table. NAME: the name of its files; ROWS: what a row is; COLUMNS: {name: unit}.

    PLOT: None, "bars", or "lines", for rows that are numbers; LOG: the logarithmic axes.
    """

    def __init__(self, name, title, rows, columns, plot=None, log="", shown=None, note=""):
        self.name, self.title, self.rows, self.columns = name, title, rows, dict(columns)
        self.plot, self.log, self.shown, self.note = plot, log, shown or list(columns), note
        self.cells = {}

    def add(self, row, column, value):
        """Adds a value of one more run."""
        if column not in self.columns:
            raise KeyError(f"{self.name} has no column {column}")
        self.cells.setdefault(row, {}).setdefault(column, []).append(float(value))

    def runs(self):
        """The largest number of values in a cell."""
        return max((len(v) for columns in self.cells.values() for v in columns.values()),
                   default=0)

    def as_json(self):
        """The table as an object for JSON."""
        cells = [{"row": r, "column": c, "values": v, "median": stats.median(v),
                  "spread": round(stats.spread(v), 4)}
                 for r, columns in self.cells.items() for c, v in columns.items()]
        return {"name": self.name, "title": self.title, "rows": self.rows,
                "columns": self.columns, "note": self.note, "plot": self.plot, "log": self.log,
                "shown": self.shown, "cells": cells}

    def row_name(self, row):
        """The name of a row; a number of bytes gets a unit of 1,024."""
        if self.rows != "bytes":
            return f"{int(row):,}" if row.isdigit() else row
        size, units = int(row), ["B", "KiB", "MiB", "GiB"]
        while size >= 1024 and size % 1024 == 0:
            size //= 1024
            units.pop(0)
        return f"{size} {units[0]}"

    def text(self):
        """The table, with medians, and spreads in parentheses."""
        header = ["" if self.rows == "bytes" else self.rows]
        header += [f"{c}, {u}" if u else c for c, u in self.columns.items()]
        rows = []
        for row, cells in self.cells.items():
            line = [self.row_name(row)]
            for column in self.columns:
                v = cells.get(column)
                line.append("\u2014" if not v else number(stats.median(v)) + (
                    f" ({stats.spread(v):.0%})" if max(v) != min(v) else ""))
            rows.append(line)
        # a simple table needs text in the first column, unless a line continues
        header[0] = header[0] or "size"
        return simple_table(header, rows)

    def figure(self):
        """The plot: medians, least and greatest values."""
        units = list(dict.fromkeys(self.columns[c] for c in self.shown))
        found = Figure(self.title, self.rows, " or ".join(u for u in units if u), self.plot,
                       self.log)
        for column in self.shown:
            found.add(column, [
                (float(row) if self.plot == "lines" else k, stats.median(v), min(v), max(v),
                 self.row_name(row))
                for k, (row, cells) in enumerate(self.cells.items()) if (v := cells.get(column))])
        return found


class Report:
    """The tables of one part, with the properties and the load of the machine."""

    def __init__(self, part, tables, facts):
        self.part, self.tables, self.facts = part, tables, facts

    def as_json(self):
        """The report as JSON text."""
        return json.dumps({"license": LICENSE, "schema": SCHEMA, "part": self.part, **self.facts,
                           "tables": [t.as_json() for t in self.tables]}, indent=1) + "\n"

    def plots(self):
        """The tables that are drawn, each with the name of its file."""
        return [(t, f"{self.part}-{t.name}.svg") for t in self.tables if t.plot and t.cells]

    def source(self):
        """The source of the figures, in a sentence or two."""
        f, load = self.facts, self.facts["load"]
        m = f["machine"]
        said = (f"{f['date']}, commit {f['commit']}: {m['cpus']} processors ({m['cpu']}"
                f"{', virtual' if m['virtual'] else ''}), Linux {m['kernel']}; {f['runs']} runs. "
                "Others used ")
        said += (f"{load['before']['busy']:.1%} of the processors before, "
                 f"{load['during']['busy']:.1%} during and {load['after']['busy']:.1%} after them; "
                 f"{load['during']['steal']:.1%} were stolen.")
        return said

    def rst(self, where):
        """The report for a page of the documentation; the plots are in the folder WHERE."""
        out = [f".. {LICENSE}\n.. Written by tests/bench/run.\n\n{self.source()}\n"]
        if self.facts["busy"]:
            out.append(".. warning::\n\n   From a busy machine: " +
                       "; ".join(self.facts["busy"]) + ".\n")
        plots = {t.name: name for t, name in self.plots()}
        for t in self.tables:
            if not t.cells:
                continue
            body = "".join(f"   {line}\n" for line in t.text().splitlines())
            out.append(f".. table:: {t.title}\n\n{body}")
            if t.note:
                out.append(t.note + "\n")
            if t.name in plots:
                out.append(f".. figure:: {where}{plots[t.name]}\n   :alt: {t.title}\n")
        return "\n".join(out)
