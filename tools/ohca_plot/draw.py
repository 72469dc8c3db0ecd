# SPDX-License-Identifier: GPL-2.0-or-later
"""A figure as commands of gnuplot, as an SVG with our license, and as a table of text."""
import os
import shutil
import subprocess

LICENSE = "SPDX-License-Identifier: GPL-2.0-or-later"
TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
IN_ROOT = os.path.join(TOP, "tools", "in-root")


class DrawError(Exception):
    """There is no gnuplot, or it has failed."""


def number(value):
    """A number with at least three digits, with commas between thousands."""
    if value >= 1000:
        return f"{value:,.0f}"
    if value >= 100 or value == int(value):
        return f"{value:.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}" if value >= 1 else f"{value:.3g}"


def simple_table(header, rows):
    """A simple table of reStructuredText."""
    widths = [max(len(r[i]) for r in [header, *rows]) for i in range(len(header))]
    rule = " ".join("=" * w for w in widths)
    lines = [" ".join(c.ljust(w) for c, w in zip(r, widths)).rstrip() for r in [header, *rows]]
    return "\n".join([rule, lines[0], rule, *lines[1:], rule]) + "\n"


def quoted(text):
    """A string of gnuplot without special characters, in one line."""
    return "'" + "".join(c if c.isprintable() else " " for c in text).replace("'", "''") + "'"


def in_data(text):
    """A string for a line of data; double quotes become spaces."""
    return '"' + "".join(c if c.isprintable() and c != '"' else " " for c in text) + '"'


class Figure:
    """TITLE, XLABEL and YLABEL are texts; KIND is "lines", "bars" or "time"; LOG names axes.

    Points of a series are (x, y, least, greatest, label); x of bars is the number of the group. A
    series in time has lines without points.
    """

    def __init__(self, title, xlabel, ylabel, kind, log=""):
        self.title, self.xlabel, self.ylabel = title, xlabel, ylabel
        self.kind, self.log, self.series = kind, log, []

    def add(self, name, points, formula=False):
        """Adds a series of points; that of a FORMULA is a dashed line without points."""
        self.series.append((name, points, formula))

    def labels(self):
        """The names of the groups of bars, each once."""
        found = {x: label for _, points, _ in self.series for x, _, _, _, label in points}
        # gnuplot reads a label of a tic as a format
        return ", ".join(f"{quoted(label.replace('%', '%%'))} {x}"
                         for x, label in sorted(found.items()))

    def gnuplot(self):
        """Commands that print it as SVG."""
        head = ['set terminal svg size 760,440 dynamic noenhanced font "sans,13" '
                'background "white"',
                f"set title {quoted(self.title)}", f"set xlabel {quoted(self.xlabel)}",
                "set grid ytics", "set key outside below width 3",
                f"set ylabel {quoted(self.ylabel)}"]
        if "y" not in self.log:
            head.append("set yrange [0:*]")
        head += [f"set logscale {axis}" for axis in self.log]
        data = []
        for i, (_, points, _) in enumerate(self.series):
            data += [f"$d{i} << EOD",
                     *(f"{x:.10g} {y:.6g} {least:.6g} {most:.6g} {in_data(label)}"
                       for x, y, least, most, label in points), "EOD"]
        n = len(self.series) + 1
        if self.kind == "lines":
            head += ["set style data yerrorlines", "set xtics auto norotate"]
            plots = [f"$d{i} using 1:2:3:4:xtic(5) title {quoted(name)} pointtype 7 pointsize 0.6"
                     if not formula else
                     f"$d{i} using 1:2:xtic(5) with lines dashtype 2 title {quoted(name)}"
                     for i, (name, _, formula) in enumerate(self.series)]
        elif self.kind == "time":
            plots = [f"$d{i} using 1:2 with lines title {quoted(name)}"
                     for i, (name, _, _) in enumerate(self.series)]
        else:
            head += ["set style fill solid 0.8", f"set boxwidth {1 / n:.3f}",
                     f"set xtics rotate by -35 left ({self.labels()})", "set xrange [-0.7:*]"]
            plots = [f"$d{i} using ($1+{(i - (n - 2) / 2) / n:.3f}):2 with boxes title "
                     f"{quoted(name)}" for i, (name, _, _) in enumerate(self.series)]
        return "\n".join([*head, *data, "plot " + ", ".join(plots), ""])


def gnuplot():
    """The beginning of gnuplot's command line: this host's, or that of the build root."""
    if found := shutil.which("gnuplot"):
        return [found]
    build = os.environ.get("OHCA_BUILD") or os.path.join(TOP, "build")
    # a symbolic link, whose target is in the root
    if os.path.lexists(os.path.join(build, "root", "usr", "bin", "gnuplot")):
        return [IN_ROOT, "--dir", TOP, "gnuplot"]
    more = ", or run 'make checktools'" if os.path.exists(IN_ROOT) else ""
    raise DrawError(f"there is no gnuplot: install Debian's package gnuplot-nox{more}")


def draw(figure, command=None):
    """The SVG of a figure; COMMAND is the beginning of gnuplot's command line, if not gnuplot()."""
    done = subprocess.run(command or gnuplot(), input=figure.gnuplot(), stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        raise DrawError(f"gnuplot failed with status {done.returncode}: {done.stderr.strip()}")
    if not done.stdout.startswith("<?xml"):
        raise DrawError("gnuplot has not written an SVG")
    return done.stdout


def licensed_svg(text):
    """gnuplot's SVG with our license behind its first line, for a file of this project."""
    first, _, rest = text.partition("\n")
    return f"{first}\n<!-- {LICENSE} -->\n{rest}"
