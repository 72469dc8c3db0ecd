# SPDX-License-Identifier: GPL-2.0-or-later
"""The command line of ohca-plot."""
import argparse
import csv
import shlex
import signal
import sys

from ohca_plot import draw, series, sweep

EPILOG = """The options after -- are options of ohca-fabric traffic, for all runs. An example:
ohca-plot --svg load.svg --x load=20,40,60,80,100 --line minhop: --line adaptive:--adaptive
 --y message_p99 --log y -- --generate fat-tree:8,3 --pattern permutation"""


def words_of_line(text):
    """NAME:OPTIONS as (name, list of options)."""
    name, colon, rest = text.partition(":")
    if not colon or not name:
        raise argparse.ArgumentTypeError(f"'{text}' is not NAME:OPTIONS")
    try:
        return name, shlex.split(rest)
    except ValueError as e:
        raise argparse.ArgumentTypeError(f"'{text}': {e}") from None


def values_of_option(text):
    """OPTION=VALUE[,VALUE...] as (option, list of values); a | separates if there is one."""
    option, equals, rest = text.partition("=")
    values = rest.split("|" if "|" in rest else ",")
    if not equals or not option.strip("-") or not all(values):
        raise argparse.ArgumentTypeError(f"'{text}' is not OPTION=VALUE,VALUE...")
    if len(set(values)) < len(values):
        raise argparse.ArgumentTypeError(f"'{text}' has a value twice")
    return option.lstrip("-"), values


def parser():
    """The command line."""
    p = argparse.ArgumentParser(
        prog="ohca-plot", description="Runs ohca-fabric traffic for each value of one of its "
        "options, prints a table of the results, and draws a figure.", epilog=EPILOG)
    what = p.add_mutually_exclusive_group(required=True)
    what.add_argument("--x", type=values_of_option, metavar="OPTION=V,V...",
                      help="the option, without dashes, and its values; | separates values that "
                           "have a comma")
    what.add_argument("--time", metavar="INTERVAL",
                      help="draw the rate of each host over the time of one run, in intervals of "
                           "10us, 1ms...")
    p.add_argument("--hosts", metavar="HOST[,HOST...]",
                   help="with --time: the hosts to draw; all: the sum of all hosts")
    p.add_argument("--line", type=words_of_line, action="append", default=[],
                   metavar="NAME:OPTIONS", help="add a line with this name and these options")
    p.add_argument("--y", metavar="KEY[,KEY...]",
                   help="the results to draw, by their names in the output of traffic: host, "
                        "message_p99, time... (host)")
    p.add_argument("--svg", metavar="FILE", help="write the figure to FILE, drawn by gnuplot")
    p.add_argument("--csv", metavar="FILE", help="write the numbers to FILE")
    p.add_argument("--log", choices=("x", "y", "xy"), help="use logarithmic axes")
    p.add_argument("--bars", action="store_true", help="draw bars instead of lines")
    p.add_argument("--title", help="the title of the figure")
    p.add_argument("options", nargs="*", metavar="-- OPTION", help=argparse.SUPPRESS)
    return p


def figure_of(s, title, log="", bars=False):
    """The figure of a sweep that has been measured."""
    places = [sweep.place(v) for v in s.values]
    numbers = None not in places and not bars
    units = list(dict.fromkeys(s.units.values()))
    # label the axis with the key if the lines have names of their own
    label = (f"{s.keys[0]}, " if len(s.keys) == 1 and s.lines != {"": []} else "")
    found = draw.Figure(title, s.option, label + " or ".join(u for u in units if u),
                        "lines" if numbers else "bars", log)
    for name, _, _ in s.columns():
        found.add(name, [(places[i] if numbers else i, y, y, y, v)
                         for i, v in enumerate(s.values) for y in [s.cells[v][name]]])
    return found


def write_csv(s, name):
    """The numbers, with the units in the first line."""
    with open(name, "w", encoding="utf-8", newline="") as f:
        out = csv.writer(f, lineterminator="\n")
        out.writerow([s.option, *(f"{c} ({s.units[key]})" if s.units[key] else c
                                  for c, _, key in s.columns())])
        for v in s.values:
            out.writerow([v, *(f"{s.cells[v][c]:.15g}" for c, _, _ in s.columns())])


def main(argv=None):
    """Returns the exit status."""
    opt = parser().parse_args(argv)
    lines = dict(opt.line) or {"": []}
    if len(lines) < len(opt.line):
        print("ohca-plot: --line: two lines have the same name", file=sys.stderr)
        return 2
    for name, given, other in (("--hosts", opt.hosts and opt.x, "--time"),
                               ("--y", opt.y and opt.time, "--x"),
                               ("--log", opt.log and opt.time, "--x"),
                               ("--bars", opt.bars and opt.time, "--x")):
        if given:
            print(f"ohca-plot: {name}: use it with {other} only", file=sys.stderr)
            return 2
    try:
        if opt.time:
            return over_time(opt, lines)
        return over_option(opt, lines)
    except (sweep.SweepError, draw.DrawError, OSError) as e:
        print(f"ohca-plot: {e}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 128 + signal.SIGINT


def write_svg(name, figure):
    """Draws a figure to the file NAME, if it is not None."""
    if name:
        svg = draw.draw(figure)
        with open(name, "w", encoding="utf-8") as f:
            f.write(svg)


def over_time(opt, lines):
    """Draws the rate of hosts over the time of a run; returns the exit status."""
    hosts = opt.hosts.split(",") if opt.hosts else []
    s = series.Series(opt.time, lines, hosts).measure(opt.options)
    print(s.table(), end="")
    if opt.csv:
        s.write_csv(opt.csv)
    write_svg(opt.svg, s.figure(opt.title or shlex.join(opt.options)))
    return 0


def over_option(opt, lines):
    """Draws the results for each value of an option; returns the exit status."""
    keys = (opt.y or "host").split(",")
    if len(set(keys)) < len(keys):
        print("ohca-plot: --y has a key twice", file=sys.stderr)
        return 2
    s = sweep.Sweep(*opt.x, lines, keys).measure(opt.options)
    header = [s.option, *(f"{c}, {s.units[k]}" if s.units[k] else c for c, _, k in s.columns())]
    print(draw.simple_table(header, [[v, *(draw.number(s.cells[v][c]) for c, _, _ in s.columns())]
                                     for v in s.values]), end="")
    if opt.csv:
        write_csv(s, opt.csv)
    write_svg(opt.svg, figure_of(s, opt.title or shlex.join(opt.options), opt.log or "", opt.bars))
    return 0
