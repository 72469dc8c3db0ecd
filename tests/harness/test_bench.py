#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""'make bench': it computes figures, writes reports, and reports nothing on a busy machine."""
import contextlib
import io
import json
import os
import sys
import tempfile
import types
import unittest
from unittest import mock
from xml.etree import ElementTree

import fake

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

# pylint: disable=wrong-import-order, wrong-import-position
from ohca_lab import perftest
from ohca_plot import draw
from bench import machine, report, stats
from bench.parts import beside, machines, native, p99, provider, scale

QUIET = {"load1": 0.0, "running": 1, "busy": 0.0, "steal": 0.0}
STAT = "cpu  100 10 40 800 20 5 5 20 7 3\ncpu0 1 2 3\n"


def table(**more):
    """Two rows, of which one has no peer, with three runs."""
    made = report.Table("sizes", "Some_sizes", "bytes", {"ours": "GB/s", "peer": "GB/s"}, **more)
    for a, b in ((1.0, 10), (1.5, 10), (1.2, 10)):
        made.add("8", "ours", a)
        made.add("8", "peer", b)
        made.add("2097152", "ours", 4000 * a)
    return made


def facts(busy=()):
    """Properties of a machine that do not matter here."""
    return {"date": "2026-01-02", "commit": "abc", "runs": 3, "seconds": 0.1, "busy": list(busy),
            "machine": {"cpu": "Some CPU", "cpus": 2, "memory_mib": 7, "kernel": "6.1",
                        "virtual": True},
            "load": {"before": QUIET, "during": {"busy": 0.01, "steal": 0}, "after": QUIET}}


class Statistics(unittest.TestCase):
    """Statistics of several values."""

    def test_median_and_spread(self):
        self.assertEqual(stats.median([5, 1, 3]), 3)
        self.assertEqual(stats.median([4, 1, 3, 2]), 2.5)
        self.assertAlmostEqual(stats.spread([9, 10, 12]), 0.3)
        self.assertEqual(stats.spread([7]), 0)
        self.assertEqual(stats.spread([0, 0, 5]), 0)


class Machine(unittest.TestCase):
    """The check whether the machine is too busy."""

    def test_ticks(self):
        self.assertEqual(machine.processors(STAT), (180, 20, 1000))
        self.assertEqual(machine.used((180, 20, 1000), (190, 21, 1100)), (0.1, 0.01))
        self.assertEqual(machine.load_average("0.52 0.58 0.59 3/467 12"), (0.52, 3))

    def test_what_is_too_busy(self):
        self.assertEqual(machine.too_busy(QUIET, True), [])
        self.assertEqual(machine.too_busy({**QUIET, "busy": machine.BUSY}, True), [])
        self.assertEqual(len(machine.too_busy({**QUIET, "busy": 0.06})), 1)
        loaded = {**QUIET, "load1": machine.LOAD * os.cpu_count() + 0.01}
        self.assertEqual(machine.too_busy(loaded), [])
        self.assertEqual(len(machine.too_busy(loaded, True)), 1)
        self.assertEqual(len(machine.too_busy({**loaded, "busy": 1}, True)), 2)

    def test_it_waits_only_while_busy_and_only_so_long(self):
        busy = {**QUIET, "busy": 0.5}
        for loads, patience, last in (([QUIET], 10, QUIET), ([busy, busy, QUIET], 10, QUIET),
                                      ([busy] * 3, 2.5, busy), ([busy], 0, busy)):
            times, left = iter(range(100)), iter(loads)
            self.assertEqual(machine.wait_quiet(patience, True, left.__next__,
                                                times.__next__), last)
            self.assertEqual(list(left), [])

    def test_our_own_time_is_not_others(self):
        with mock.patch.object(machine, "processors", side_effect=[(0, 0, 0), (500, 10, 1000)]), \
                mock.patch.object(machine, "own_seconds", side_effect=[1, 1 + 300 / os.sysconf(
                    "SC_CLK_TCK")]):
            self.assertEqual(machine.Watch().others(), {"busy": 0.2, "steal": 0.01})


class Report(unittest.TestCase):
    """The written report."""

    def test_json_has_everything(self):
        made = report.Report("some", [table(plot="lines", log="xy")], facts())
        kept = json.loads(made.as_json())
        self.assertEqual(kept["tables"][0]["cells"][0],
                         {"row": "8", "column": "ours", "values": [1.0, 1.5, 1.2], "median": 1.2,
                          "spread": 0.4167})
        self.assertEqual((kept["commit"], kept["load"]["during"]["busy"]), ("abc", 0.01))

    def test_table(self):
        self.assertEqual(table().text(), """\
===== =========== ==========
size  ours, GB/s  peer, GB/s
===== =========== ==========
8 B   1.20 (42%)  10
2 MiB 4,800 (42%) \u2014
===== =========== ==========
""")
        with self.assertRaises(KeyError):
            table().add("8", "other", 1)

    def test_numbers(self):
        self.assertEqual([report.number(x) for x in (1234567.8, 999.6, 12.34, 7, 1.234, 0.01234)],
                         ["1,234,568", "1000", "12.3", "7", "1.23", "0.0123"])

    def test_page_says_that_the_machine_was_busy(self):
        quiet = report.Report("some", [table()], facts()).rst("benchmarks/")
        busy = report.Report("some", [table()], facts(["before, much"])).rst("benchmarks/")
        self.assertNotIn("warning", quiet)
        self.assertIn(".. warning::\n\n   From a busy machine: before, much.\n", busy)
        self.assertIn(".. table:: Some_sizes\n\n   ===== ", quiet)
        self.assertIn("commit abc: 2 processors (Some CPU, virtual), Linux 6.1; 3 runs.", quiet)
        self.assertNotIn("figure", quiet)
        drawn = report.Report("some", [table(plot="lines")], facts()).rst("benchmarks/")
        self.assertIn(".. figure:: benchmarks/some-sizes.svg\n   :alt: Some_sizes\n", drawn)

    def test_plot(self):
        lines = table(plot="lines", log="xy").figure().gnuplot()
        self.assertIn("set title 'Some_sizes'\n", lines)
        self.assertIn("set logscale x\nset logscale y\n", lines)
        self.assertIn('$d0 << EOD\n8 1.2 1 1.5 "8 B"\n2097152 4800 4000 6000 "2 MiB"\nEOD\n'
                      '$d1 << EOD\n8 10 10 10 "8 B"\nEOD\n', lines)
        self.assertIn("set yrange [0:*]", table(plot="lines", log="x").figure().gnuplot())
        self.assertNotIn("yrange", lines)
        bars = table(plot="bars", shown=["peer"]).figure().gnuplot()
        self.assertIn('$d0 << EOD\n0 10 10 10 "8 B"\nEOD\n', bars)
        self.assertNotIn("$d1", bars)

    def test_svg_has_a_license(self):
        svg = draw.licensed_svg('<?xml version="1.0"?>\n<svg xmlns="http://www.w3.org/svg"/>')
        self.assertIn(draw.LICENSE, svg.splitlines()[1])
        ElementTree.fromstring(svg)


class Parts(unittest.TestCase):
    """The output of programs becomes cells."""

    def test_lines_become_cells(self):
        tables = native.tables()
        report.collect("[ RUN ] x\nrate\tRC write\tohca\t5.5\nhosted\t1\t8 B\t3\n", tables)
        cells = {t.name: t.cells for t in tables}
        self.assertEqual(cells["rate"], {"RC write": {"ohca": [5.5]}})
        self.assertEqual(cells["hosted"], {"1": {"8 B": [3.0]}})
        for wrong in ("rate\tRC write\trxe\t5.5\n", "speed\tRC write\tohca\t5.5\n"):
            with self.assertRaises(KeyError):
                report.collect(wrong, tables)

    def test_every_table_has_a_peer(self):
        for part, peers in ((native, {"memcpy", "TCP"}), (provider, {"mlx5"}), (scale, {"ibsim"}),
                            (machines, {"rxe", "rxe, ran", "no adapter"})):
            for t in part.tables():
                self.assertTrue(peers & set(t.columns), t.name)
                self.assertLessEqual(set(t.shown), set(t.columns))

    def test_counts_are_a_program_that_prints_them(self):
        tables = provider.tables()
        calls = []
        provider.measure(types.SimpleNamespace(
            make=lambda *argv: calls.append(argv), rounds=range, top="/top",
            host="/host", in_root=lambda *argv: "instructions\tpost_recv\trxe\t123\n"), tables)
        self.assertEqual(calls, [("bench/provider", "peers")])
        self.assertEqual(tables[0].cells, {"post_recv": {"rxe": [123.0, 123.0]}})


class Machines(unittest.TestCase):
    """The output of programs in machines, and the activity of their threads."""

    def test_rows_of_perftest(self):
        self.assertEqual(perftest.row(
            " #bytes #iterations BW peak[MB/sec] BW average[MB/sec] MsgRate[Mpps]\n"
            " 1048576    220             2800.50            2700.25\t\t 0.002700\n----\n"),
                         [1048576, 220, 2800.5, 2700.25, 0.0027])
        self.assertEqual(perftest.row(" 8  22000  5.1 900.2 24.1 30.5 8.6 2011.5 4002.0\n")[7:],
                         [2011.5, 4002])
        self.assertIsNone(perftest.row("Couldn't connect to node1:18515\n"))

    def test_threads(self):
        before = {("node1", "vCPU", "7"): (1, 2), ("node1", "others of QEMU", "8"): (0, 0)}
        after = {("node1", "vCPU", "7"): (2, 2.5), ("node1", "vCPU", "9"): (3, 1),
                 ("fabric", "fabric", "10"): (1, 1)}
        spent = machines.used(before, after)
        self.assertEqual(spent, {("node1", "vCPU"): (4, 1.5), ("fabric", "fabric"): (1, 1)})
        self.assertEqual(machines.difference(spent, {("node1", "vCPU"): (1, 0.5)}),
                         {("node1", "vCPU"): (3, 1), ("fabric", "fabric"): (1, 1)})
        self.assertEqual([machines.role(*x) for x in (
            ("node1", "CPU 0/TCG"), ("node1", "ohca"), ("node1", "ohca-irq"),
            ("node2", "qemu-system-x86"), ("fabric", "ohca-fabric"))],
                         ["vCPU", "device", "device", "others of QEMU", "fabric"])

    def test_a_program_that_fails_is_run_again(self):
        pair = machines.Machines.__new__(machines.Machines)
        zero, good = (0, "", " 8 9 1.0 0.00 0.0\n"), (0, "", " 8 9 1.0 2.00 0.5\n")
        for answers, row in (([(1, "", ""), zero, good], [8, 9, 1, 2, 0.5]),
                             ([zero, zero, zero, good], None)):
            pair.lab = types.SimpleNamespace(vms=[], helpers=[], pair=mock.Mock(
                side_effect=answers))
            if row:
                self.assertEqual(pair.perf("ib_write_bw", "rxe"), (row, {}))
            else:
                self.assertRaises(SystemExit, pair.perf, "ib_write_bw", "rxe")
            self.assertEqual(pair.lab.pair.call_count, 3)
            self.assertEqual(pair.lab.pair.call_args.args[1],
                             "ib_write_bw -F -d rxe0 -x 1 node1")

    def test_a_lab_that_is_not_built(self):
        with mock.patch.object(machines, "Lab", side_effect=machines.LabError("run 'make lab'")), \
                self.assertRaisesRegex(SystemExit, "^bench: run 'make lab'$"):
            machines.Machines()

    def test_what_a_round_adds(self):
        rows = {"ib_write_bw": [8, 1, 2000, 1000, 0.5], "ib_read_bw": [8, 1, 2000, 500, 0.5],
                "ib_send_bw": [8, 1, 2000, 500, 0.25], "ib_send_lat": [8, 1, 1, 9, 5, 5, 1, 90, 99],
                "ib_write_lat": [8, 1, 1, 9, 4, 5, 1, 80, 88]}
        calls = []

        def perf(command, _fabric):
            calls.append(command)
            count = int(command.split()[-1])
            return rows[command.split()[0]], {("node1", "vCPU"): (count * 1e-3 + 5, count * 2e-6),
                                              ("fabric", "fabric"): (1, 1)}

        pair = types.SimpleNamespace(perf=perf, processes=lambda: {"node1": 1, "fabric": 2})
        by_name = {t.name: t for t in machines.tables()}
        machines.one(pair, by_name, "rxe")
        self.assertEqual(by_name["bandwidth"].cells["ib_write_bw, 1 MiB"], {"rxe": [1.048576]})
        self.assertEqual(by_name["rate"].cells["ib_send_bw, 8 bytes"], {"rxe": [250]})
        self.assertEqual(by_name["latency"].cells["ib_send_lat, 99 %"], {"rxe": [90]})
        self.assertEqual(by_name["latency"].cells["ib_write_lat, 99.9 %"], {"rxe": [88]})
        self.assertAlmostEqual(by_name["cpu"].cells["node1"]["rxe"][0], 1 / 1.048576)
        self.assertEqual(by_name["cpu"].cells["fabric"]["rxe"], [0])
        self.assertAlmostEqual(by_name["threads"].cells["node1, vCPU"]["rxe, waited"][0], 2)
        self.assertEqual(len(calls), 8)


class Beside(unittest.TestCase):
    """Labs in turns, each in a process of its own."""

    def setUp(self):
        where = tempfile.TemporaryDirectory()
        self.addCleanup(where.cleanup)
        self.dir = where.name
        for patch in (mock.patch.object(beside, "TURN", os.path.join(self.dir, "turn.py")),
                      mock.patch.dict(os.environ, {"OHCA_BUILD": "/ours"})):
            patch.start()
            self.addCleanup(patch.stop)
        os.environ.pop("BENCH_BESIDE", None)

    def turns(self, code):
        """Writes the program of a turn, which has its arguments in ARGS."""
        with open(beside.TURN, "w", encoding="ascii") as f:
            f.write(f"import os, signal, sys, time\nARGS = sys.argv[1:]\n{code}\n")

    def measured(self):
        """The tables after two runs."""
        found = beside.tables()
        beside.measure(types.SimpleNamespace(top="/top", rounds=lambda: iter((1, 2))), found)
        return {t.name: t for t in found}

    def test_turns(self):
        log = os.path.join(self.dir, "log")
        self.turns(f"with open({log!r}, 'a') as f:\n"
                   "    print(*ARGS, os.environ.get('OHCA_BUILD'), file=f)\n"
                   "print('rate', 'ib_write_bw, 8 bytes', ARGS[1], 7, sep='\\t')")
        os.environ["BENCH_BESIDE"] = self.dir
        self.assertEqual(self.measured()["rate"].cells,
                         {"ib_write_bw, 8 bytes": {"ours": [7, 7], "beside": [7, 7]}})
        ours, other = "/top ours /ours", f"{os.path.realpath(self.dir)} beside None"
        with open(log, encoding="ascii") as f:
            self.assertEqual(f.read().splitlines(), [ours, other, other, ours])

    def test_a_turn_that_fails(self):
        self.turns("sys.exit(3)")
        with self.assertRaisesRegex(SystemExit, "ours: status 3"):
            self.measured()

    def test_a_turn_ends_its_lab(self):
        ended = os.path.join(self.dir, "ended")
        self.turns(f"def end(*_):\n    open({ended!r}, 'w')\n    sys.exit(1)\n"
                   "signal.signal(signal.SIGTERM, end)\n"
                   "print('ready', flush=True)\ntime.sleep(600)")

        def interrupted(process):
            self.assertEqual(process.stdout.readline(), "ready\n")
            raise KeyboardInterrupt

        with mock.patch.object(beside.subprocess.Popen, "communicate", interrupted), \
                self.assertRaises(KeyboardInterrupt):
            self.measured()
        self.assertTrue(os.path.exists(ended))

    def test_beside(self):
        self.assertIn("= is none", beside.fault())
        os.environ["BENCH_BESIDE"] = self.dir
        self.assertIn("is none", beside.fault())
        self.assertIn("unknown", beside.note())
        os.environ["BENCH_BESIDE"] = TOP
        self.assertIsNone(beside.fault())
        self.assertEqual(list(beside.tables()[0].columns), ["ours", "beside"])

    def test_tcp(self):
        pair = types.SimpleNamespace(threads=mock.Mock(side_effect=[
            {("node1", "vCPU", "7"): (1, 0)}, {("node1", "vCPU", "7"): (3, 0)}]))
        pair.lab = types.SimpleNamespace(
            capture=mock.Mock(return_value=(0, "")), pair=mock.Mock(return_value=(
                0, "", "warning\n" + json.dumps({"end": {"sum_received": {
                    "bytes": 4e9, "bits_per_second": 8e9}}}))))
        by_name = {t.name: t for t in beside.tables()}
        beside.tcp(pair, by_name, "ours")
        self.assertEqual(by_name["bandwidth"].cells, {"TCP over IPoIB": {"ours": [1]}})
        self.assertEqual(by_name["cpu"].cells, {"all, TCP": {"ours": [0.5]}})
        pair.lab.pair.return_value = (1, "", "refused")
        pair.threads = dict
        self.assertRaises(SystemExit, beside.tcp, pair, by_name, "ours")


class Scheduling(unittest.TestCase):
    """Settings that a variant changes are restored after it."""

    def setUp(self):
        self.pair = types.SimpleNamespace(threads=lambda: {
            ("node1", "vCPU", "7"): 0, ("node2", "vCPU", "8"): 0, ("node1", "device", "9"): 0,
            ("fabric", "fabric", "10"): 0, ("node1", "others of QEMU", "11"): 0})

    def test_processors(self):
        with mock.patch.object(os, "sched_setaffinity") as to, \
                mock.patch.object(os, "sched_getaffinity", return_value={0, 1}):
            with p99.vcpus_pinned(self.pair):
                self.assertEqual(to.call_args_list, [mock.call(7, {1}), mock.call(8, {0})])
            self.assertEqual(to.call_args_list[2:], [mock.call(7, [0, 1]), mock.call(8, [0, 1])])

    def test_real_time(self):
        with mock.patch.object(os, "sched_setscheduler") as to, \
                mock.patch.object(p99, "attributes", side_effect=lambda tid, *_: str(tid)) as of:
            with self.assertRaises(ValueError), p99.real_time(self.pair):
                self.assertEqual([c.args[:2] for c in to.call_args_list],
                                 [(10, os.SCHED_RR), (9, os.SCHED_RR)])
                raise ValueError
            self.assertEqual([c.args for c in of.call_args_list],
                             [(10,), (9,), (10, "10"), (9, "9")])

    def test_attributes(self):
        """A thread keeps its slice: what was read can be set."""
        attr = p99.attributes(0)
        self.assertGreaterEqual(int.from_bytes(attr.raw[:4], sys.byteorder), 48)
        p99.attributes(0, attr)
        self.assertEqual(p99.attributes(0).raw, attr.raw)
        self.assertRaises(OSError, p99.attributes, 1 << 30)

    def test_autogroups(self):
        with tempfile.NamedTemporaryFile("w+", encoding="ascii") as f, \
                mock.patch.object(p99, "AUTOGROUP", f.name):
            f.write("1\n")
            f.flush()
            with p99.autogroup_off(None):
                f.seek(0)
                self.assertEqual(f.read(), "0\n")
            f.seek(0)
            self.assertEqual(f.read(), "1\n")


class Run(unittest.TestCase):
    """The command bench, with a fake part."""

    def setUp(self):
        self.run = fake.module_of("tests/bench/run")
        where = tempfile.TemporaryDirectory()
        self.addCleanup(where.cleanup)
        self.out = os.path.join(where.name, "bench")
        self.measured = 0
        self.run.OUT, self.run.DOCUMENTS = self.out, os.path.join(where.name, "documents")
        self.run.PARTS = {"made": types.SimpleNamespace(
            NAME="made", tables=lambda: [table()], measure=self.measure)}

    def measure(self, _bench, _tables):
        """The measurement of the fake part."""
        self.measured += 1

    def bench(self, loads, *argv):
        """Runs bench with these loads before, during and after; returns status and messages."""
        before, during, after = ({**QUIET, "busy": b} for b in loads)
        said = io.StringIO()
        with mock.patch.object(machine, "look", side_effect=[after]), \
                mock.patch.object(machine, "wait_quiet", return_value=before), \
                mock.patch.object(machine.Watch, "others", return_value=during), \
                mock.patch.object(sys, "argv", ["run", *argv]), \
                contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
            return self.run.main(), said.getvalue()

    def written(self, name="made.json"):
        """The report, or None."""
        try:
            with open(os.path.join(self.out, name), encoding="utf-8") as f:
                return f.read()
        except FileNotFoundError:
            return None

    def test_quiet(self):
        status, said = self.bench((0, 0, 0))
        self.assertEqual((status, self.measured), (0, 1))
        self.assertEqual(json.loads(self.written())["busy"], [])
        self.assertIn("Some_sizes\n===== ", said)
        self.assertFalse(os.path.exists(self.run.DOCUMENTS))

    def test_busy_before(self):
        status, said = self.bench((0.5, 0, 0))
        self.assertEqual((status, self.measured, self.written()), (3, 0, None))
        self.assertIn("before, others use 50% of the processors", said)

    def test_busy_later(self):
        for loads in ((0, 0.5, 0), (0, 0, 0.5)):
            status, said = self.bench(loads)
            self.assertEqual((status, self.written()), (3, None))
            self.assertNotIn("=====", said)

    def test_busy_and_asked_for(self):
        status, said = self.bench((0.5, 0.4, 0), "--busy", "--document")
        self.assertEqual(status, 0)
        self.assertEqual(len(json.loads(self.written())["busy"]), 2)
        self.assertIn("FROM A BUSY MACHINE: before, others use 50%", said)
        self.assertIn("From a busy machine", self.written("made.rst"))
        with open(os.path.join(self.run.DOCUMENTS, "made.json"), encoding="utf-8") as f:
            self.assertEqual(f.read(), self.written())

    def test_wrong_names(self):
        for argv in (("other",), ("--runs", "0"), ("--seconds", "0")):
            with self.assertRaises(SystemExit) as e:
                self.bench((0, 0, 0), *argv)
            self.assertEqual(e.exception.code, 2)


if __name__ == "__main__":
    fake.main()
