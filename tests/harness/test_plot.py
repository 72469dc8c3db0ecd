#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""ohca-plot: runs of traffic, numbers, tables, figures, and clear errors."""
import contextlib
import io
import os
import stat
import tempfile
import unittest
from unittest import mock
from xml.etree import ElementTree

import fake

# pylint: disable=wrong-import-order
from ohca_plot import cli, draw, series, sweep

# Its rate falls with the load, and is higher with --adaptive; it fails with a load of 7.
FABRIC = """#!/bin/sh
[ "$1" = traffic ] || exit 9
shift
more=1
while [ $# -gt 0 ]; do
	case $1 in
	--load=*) load=${1#*=} ;;
	--adaptive) more=2 ;;
	--star) ;;
	--series=*) printf 'us,"h1","h 2","h3"\\n10.000,0.000,1.000,4.000\\n20.000,0.000,3.000,2.000\\n' >"${1#*=}" ;;
	--interval=*) interval=${1#*=}; [ "$interval" = 10us ] || { echo "ohca-fabric: interval" >&2; exit 1; } ;;
	*) echo "ohca-fabric: $1?" >&2; exit 1 ;;
	esac
	shift
done
[ "$load" != 7 ] || { echo "ohca-fabric: seven" >&2; exit 1; }
echo "pattern: uniform"
echo "host: $((more * load)).500 Gb/s"
echo "packets: 12"
echo "sl0: 19.504 Gb/s, 20.00 %"
echo "circle: none"
"""


class Plot(unittest.TestCase):
    """ohca-plot with a program in place of ohca-fabric."""

    def setUp(self):
        self.dir = tempfile.TemporaryDirectory()
        self.addCleanup(self.dir.cleanup)
        self.fabric = os.path.join(self.dir.name, "fabric")
        with open(self.fabric, "w", encoding="ascii") as f:
            f.write(FABRIC)
        os.chmod(self.fabric, stat.S_IRWXU)
        patch = mock.patch.dict(os.environ, OHCA_FABRIC=self.fabric)
        patch.start()
        self.addCleanup(patch.stop)

    def plot(self, *argv):
        """Status, output and errors of a command line."""
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            try:
                status = cli.main(list(argv))
            except SystemExit as e:
                status = e.code
        return status, out.getvalue(), err.getvalue()

    def test_numbers_have_units(self):
        found = sweep.read("host: 1.500 Gb/s\nmessages: 7\npattern: uniform\nsl0: 2.0 Gb/s, 20 %\n"
                           "circle: switch1:3, switch2:4\ntime: 1.000 us\n")
        self.assertEqual(found, {"host": (1.5, "Gb/s"), "messages": (7, ""), "sl0": (2, "Gb/s"),
                                 "time": (1, "us")})

    def test_places_on_the_axis(self):
        self.assertEqual([sweep.place(v) for v in ("7", "64K", "1M", "0.5", "star:4", "")],
                         [7, 65536, 1 << 20, 0.5, None, None])

    def test_table_and_csv(self):
        name = os.path.join(self.dir.name, "out.csv")
        self.assertEqual(self.plot("--x", "load=10,20", "--line", "plain:", "--line",
                                   "adaptive:--adaptive", "--csv", name, "--", "--star"), (0, """\
==== =========== ==============
load plain, Gb/s adaptive, Gb/s
==== =========== ==============
10   10.5        20.5
20   20.5        40.5
==== =========== ==============
""", ""))
        with open(name, encoding="ascii") as f:
            self.assertEqual(f.read(), "load,plain (Gb/s),adaptive (Gb/s)\n"
                                       "10,10.5,20.5\n20,20.5,40.5\n")

    def test_time(self):
        name = os.path.join(self.dir.name, "out.csv")
        self.assertEqual(self.plot("--time", "10us", "--csv", name, "--", "--star"), (0, """\
==== ========== ==============
host mean, Gb/s greatest, Gb/s
==== ========== ==============
h 2  2          3
h3   3          4
==== ========== ==============
""", ""))
        with open(name, encoding="ascii") as f:
            self.assertEqual(f.read(), "us,h 2,h3\n10,1,4\n20,3,2\n")
        _, text, _ = self.plot("--time", "10us", "--hosts", "all,h3", "--line", "a:", "--line",
                               "b:--adaptive")
        self.assertEqual([line[:5].strip() for line in text.splitlines()[3:-1]],
                         ["a all", "a h3", "b all", "b h3"])
        found = series.Series("10us", {"": []}, ["all"]).measure([]).figure("t").gnuplot()
        self.assertIn('$d0 << EOD\n10 5 5 5 ""\n20 5 5 5 ""\nEOD\n', found)
        self.assertIn("plot $d0 using 1:2 with lines title 'all'\n", found)

    def test_chosen(self):
        rates = {f"h{i}": [1.0, 2.0] for i in range(series.MOST)}
        self.assertEqual(series.chosen(rates, []), rates)
        rates["all"] = [7.0, 7.0]   # a host's name
        with self.assertRaisesRegex(sweep.SweepError, "13 hosts have sent: choose some"):
            series.chosen(rates, [])
        self.assertEqual(series.chosen(rates, ["all"]), {"all": [7.0, 7.0]})

    def test_percent_in_a_label(self):
        figure = draw.Figure("title", "x", "y", "bars")
        figure.add("a", [(0, 1, 1, 1, "send, 50 %")])
        self.assertIn("('send, 50 %%' 0)", figure.gnuplot())

    def test_columns_of_several_keys(self):
        _, text, _ = self.plot("--x", "load=1", "--y", "host,packets", "--line", "plain:")
        self.assertIn("load plain, host, Gb/s plain, packets\n", text)
        _, text, _ = self.plot("--x", "load=1", "--y", "host,packets")
        self.assertIn("load host, Gb/s packets\n", text)

    def test_what_is_wrong_is_said(self):
        for status, why, *argv in (
                (2, "one of the arguments --x --time is required"),
                (2, "not allowed with argument --x", "--x", "load=1", "--time", "10us"),
                (2, "--hosts: use it with --time only", "--x", "load=1", "--hosts", "h3"),
                (2, "--y: use it with --x only", "--time", "10us", "--y", "host"),
                (2, "--log: use it with --x only", "--time", "10us", "--log", "y"),
                (2, "--bars: use it with --x only", "--time", "10us", "--bars"),
                (1, "host h1 has sent nothing; these have: h 2, h3", "--time", "10us", "--hosts",
                 "h1"),
                (1, "ohca-fabric: interval", "--time", "1us"),
                (2, "'load' is not OPTION=VALUE", "--x", "load"),
                (2, "'load=1,' is not OPTION=VALUE", "--x", "load=1,"),
                (2, "'load=1,1' has a value twice", "--x", "load=1,1"),
                (2, "'plain' is not NAME:OPTIONS", "--x", "load=1", "--line", "plain"),
                (2, "No closing quotation", "--x", "load=1", "--line", "a:'"),
                (2, "--y has a key twice", "--x", "load=1", "--y", "host,host"),
                (2, "two lines have the same name", "--x", "load=1", "--line", "a:", "--line",
                 "a:"),
                (1, "the output has no number 'circle'; use one of host, packets, sl0", "--x",
                 "load=1", "--y", "circle"),
                (1, "--load=7: ohca-fabric: seven", "--x", "load=6,7"),
                (1, "No such file", "--x", "load=1", "--csv", self.dir.name + "/no/file")):
            got, _, err = self.plot(*argv)
            self.assertEqual((got, why in err), (status, True), (argv, err))

    def test_without_the_program(self):
        with mock.patch.dict(os.environ, OHCA_FABRIC="/nowhere"):
            self.assertEqual(self.plot("--x", "load=1")[::2], (
                1, "ohca-plot: OHCA_FABRIC=/nowhere is not a program that can be run\n"))
        with mock.patch.dict(os.environ, OHCA_FABRIC="", OHCA_BUILD="/nowhere", PATH=""):
            self.assertEqual(self.plot("--x", "load=1")[::2], (
                1, "ohca-plot: there is no ohca-fabric: run 'make fabric', or install "
                   "openhca-fabric\n"))

    def test_figure_of_numbers_and_of_names(self):
        lines = sweep.Sweep("load", ["1K", "2"], {"": []}, ["host"])
        lines.cells = {"1K": {"host": 3.0}, "2": {"host": 4.0}}
        lines.units = {"host": "Gb/s"}
        text = cli.figure_of(lines, "a_b", "x").gnuplot()
        self.assertIn('$d0 << EOD\n1024 3 3 3 "1K"\n2 4 4 4 "2"\nEOD\n', text)
        self.assertIn("set title 'a_b'\nset xlabel 'load'\n", text)
        self.assertIn("set ylabel 'Gb/s'\nset yrange [0:*]\nset logscale x\n", text)
        lines.values, lines.cells = ["star:2"], {"star:2": {"host": 3.0}}
        text = cli.figure_of(lines, "a").gnuplot()
        self.assertIn('$d0 << EOD\n0 3 3 3 "star:2"\nEOD\n', text)
        self.assertIn("with boxes", text)

    def test_texts_are_no_commands(self):
        figure = draw.Figure("a\n!touch x\n", "x", "y's", "lines")
        figure.add("b\n!touch y", [(1, 2, 2, 2, 'c"\n!touch z')])
        text = figure.gnuplot()
        self.assertIn("set title 'a !touch x '\n", text)
        self.assertIn("set ylabel 'y''s'\n", text)
        self.assertIn('1 2 2 2 "c  !touch z"\n', text)
        self.assertIn("title 'b !touch y'", text)
        self.assertNotIn("\n!", text)

    def test_a_signal_ends_it(self):
        s = sweep.Sweep("load", [str(n) for n in range(99)], {"": []}, ["host"])
        begun = []

        def one(_, options):
            begun.append(options)
            raise KeyboardInterrupt
        with mock.patch.object(sweep, "run", one), self.assertRaises(KeyboardInterrupt):
            s.measure([], workers=1)
        self.assertLess(len(begun), 99)

    def test_a_formula_is_dashed(self):
        figure = draw.Figure("t", "x", "y", "lines")
        figure.add("measured", [(1, 2, 2, 2, "1")])
        figure.add("formula", [(1, 2, 2, 2, "1")], True)
        self.assertIn("$d0 using 1:2:3:4:xtic(5) title 'measured' pointtype 7 pointsize 0.6, "
                      "$d1 using 1:2:xtic(5) with lines dashtype 2 title 'formula'",
                      figure.gnuplot())

    def test_svg(self):
        name = os.path.join(self.dir.name, "out.svg")
        try:
            command = draw.gnuplot()
        except draw.DrawError as e:
            self.skipTest(str(e))
        with mock.patch.object(draw, "gnuplot", return_value=command):
            self.assertEqual(self.plot("--x", "load=1,2", "--svg", name)[::2], (0, ""))
        root = ElementTree.parse(name).getroot()
        self.assertTrue(root.tag.endswith("svg"))

    def test_gnuplot_that_fails(self):
        name = os.path.join(self.dir.name, "out.svg")
        for command, why in ((["false"], "gnuplot failed with status 1"),
                             (["true"], "gnuplot has not written an SVG")):
            with mock.patch.object(draw, "gnuplot", return_value=command):
                status, _, err = self.plot("--x", "load=1,2", "--svg", name)
            self.assertEqual((status, why in err), (1, True), err)
            self.assertFalse(os.path.exists(name))


if __name__ == "__main__":
    fake.main()
