# SPDX-License-Identifier: GPL-2.0-or-later
"""perftest between two machines over our device, and over rxe in the same two machines."""
import os
import time

from ohca_lab import cli, perftest
from ohca_lab.lab import SETUP_RXE, Lab, LabError

from bench.report import Table

NAME = "machines"
FABRICS = {"ohca": "-d ohca_0", "rxe": "-d rxe0 -x 1"}
LIMIT_S = 300
# perftest ends, or prints 0, if it cannot measure the clock's rate.
TRIES = 3
IDLE_S = 3
# Messages of a run, and of a short one, whose processor time for start and end is subtracted.
# rxe is too slow for as many messages of 1 MiB. For a rate it is too slow for as many as ohca needs
# for half a second: 22,000 take 10 ms, and the rate of such a run was up to 4 times another one's.
MANY_BYTES, FEW_BYTES = {"ohca": 2100, "rxe": 220}, {"ohca": 100, "rxe": 20}
MANY_RATE = {"ohca": 500000, "rxe": 22000}
MANY, FEW = 22000, 2000
MIB = 1 << 20


def tables():
    """The tables of this part."""
    both = tuple(FABRICS)
    return [
        Table("bandwidth", "perftest between two machines: bandwidth", "program",
              {c: "GB/s" for c in both}, "bars", "y"),
        Table("rate", "perftest between two machines: messages", "program",
              {c: "k/s" for c in both}, "bars", "y"),
        Table("latency", "perftest between two machines: one way, 8 bytes", "program",
              {c: "us" for c in both}, "bars", "y"),
        Table("cpu", "Processor time of both QEMUs and of the fabric for a GB of ib_write_bw, "
              "1 MiB", "process", {c: "s/GB" for c in both}),
        Table("threads", "What threads did for a message of ib_send_lat: they ran, and waited "
              "for a processor", "thread",
              {f"{c}, {w}": "us" for c in both for w in ("ran", "waited")}),
        Table("idle", "Processor time of machines that do nothing", "process",
              {"ohca": "ms/s", "no adapter": "ms/s"}),
    ]


class Machines:
    """A lab of two nodes, and the threads of its processes."""

    def __init__(self, *options):
        # QEMU gives its threads names only with this option
        self.opt = cli.complete(cli.parser().parse_args(
            ["up", "-n", "2", "--qemu=-name debug-threads=on", *options]))
        self.opt.log = None
        try:
            self.lab = Lab(f"bench{os.getpid()}", self.opt)
        except LabError as e:
            raise SystemExit(f"bench: {e}") from None

    def __enter__(self):
        try:
            self.lab.start()
        except LabError as e:
            self.lab.teardown()
            raise SystemExit(f"bench: {e}") from None
        return self

    def __exit__(self, *_):
        self.lab.teardown()

    def add_rxe(self):
        """Adds rxe in both nodes, beside our device."""
        self.lab.sh_all(SETUP_RXE + "\nsleep 0.5\n", 60, "rxe cannot be set up")

    def processes(self):
        """{name: number} of the processes that count; the management network does not."""
        found = {vm.name: vm.process.pid for vm in self.lab.vms}
        found.update({p.what: p.pid for p in self.lab.helpers if p.what == "fabric"})
        return found

    def threads(self):
        """{(process, name, number of the thread): (seconds that it ran, seconds that it waited)}"""
        found = {}
        for name, pid in self.processes().items():
            for tid in os.listdir(f"/proc/{pid}/task"):
                task = f"/proc/{pid}/task/{tid}"
                try:
                    with open(f"{task}/comm", encoding="ascii") as f:
                        comm = f.read().strip()
                    with open(f"{task}/schedstat", encoding="ascii") as f:
                        ran, waited, _ = (int(x) for x in f.read().split())
                except (FileNotFoundError, ProcessLookupError):
                    continue
                found[name, role(name, comm), tid] = (ran / 1e9, waited / 1e9)
        return found

    def perf(self, command, fabric):
        """The row of a program's run, and the times that each thread ran and waited."""
        command = f"{command} -F {FABRICS[fabric]}"
        for _ in range(TRIES):
            before = self.threads()
            status, server, client = self.lab.pair(command, f"{command} node1", perftest.PORT,
                                                   LIMIT_S)
            row = None if status else perftest.row(client)
            if row and row[3]:
                return row, used(before, self.threads())
        raise SystemExit(f"bench: {command}: status {status}\n{server}\n{client}")

    def idle(self, seconds):
        """Milliseconds of processor time in a second, by process."""
        before, begin = self.threads(), time.monotonic()
        time.sleep(seconds)
        spent = used(before, self.threads())
        seconds = time.monotonic() - begin
        return {p: sum(ran for (q, _), (ran, _) in spent.items() if q == p) / seconds * 1e3
                for p in self.processes()}


def role(process, comm):
    """The role of a thread, from its name."""
    if process == "fabric":
        return "fabric"
    if comm.startswith("CPU"):
        return "vCPU"
    return "device" if comm.startswith("ohca") else "others of QEMU"


def used(before, after):
    """{(process, role): times that threads ran and waited} between two results of threads()."""
    found = {}
    for (process, what, tid), now in after.items():
        then = before.get((process, what, tid), (0, 0))
        ran, waited = found.get((process, what), (0, 0))
        found[process, what] = (ran + now[0] - then[0], waited + now[1] - then[1])
    return found


def difference(many, few):
    """The difference of the times of a longer and a shorter run, each from used()."""
    return {k: tuple(a - b for a, b in zip(v, few.get(k, (0, 0)))) for k, v in many.items()}


def bandwidth(machines, by_name, column, program, fabric):
    """Bandwidth of 1 MiB, and for WRITEs the processor time for the bytes."""
    row, many = machines.perf(f"{program} -s {MIB} -n {MANY_BYTES[fabric]}", fabric)
    by_name["bandwidth"].add(f"{program}, 1 MiB", column, row[3] * MIB / 1e9)
    if program != "ib_write_bw":
        return
    _, few = machines.perf(f"{program} -s {MIB} -n {FEW_BYTES[fabric]}", fabric)
    spent = difference(many, few)
    gigabytes = (MANY_BYTES[fabric] - FEW_BYTES[fabric]) * MIB / 1e9
    for process in machines.processes():
        ran = sum(v[0] for (p, _), v in spent.items() if p == process)
        by_name["cpu"].add(process, column, max(ran, 0) / gigabytes)
    by_name["cpu"].add("all", column, max(sum(v[0] for v in spent.values()), 0) / gigabytes)


def rate(machines, by_name, column, program, fabric):
    """The rate of messages of 8 bytes."""
    row, _ = machines.perf(f"{program} -s 8 -n {MANY_RATE[fabric]}", fabric)
    by_name["rate"].add(f"{program}, 8 bytes", column, row[4] * 1e3)


def latencies(machines, by_name, column, fabric):
    """One-way times, and the times of the threads meanwhile."""
    for program in ("ib_send_lat", "ib_write_lat"):
        row, many = machines.perf(f"{program} -s 8 -n {MANY}", fabric)
        for what, i in (("50 %", 4), ("99 %", 7), ("99.9 %", 8)):
            by_name["latency"].add(f"{program}, {what}", column, row[i])
        if program == "ib_send_lat":
            _, few = machines.perf(f"{program} -s 8 -n {FEW}", fabric)
            for (process, what), spent in difference(many, few).items():
                name = what if what == "fabric" else f"{process}, {what}"
                for word, seconds in zip(("ran", "waited"), spent):
                    by_name["threads"].add(name, f"{column}, {word}",
                                           max(seconds, 0) / (MANY - FEW) * 1e6)


def one(machines, by_name, fabric):
    """Runs all programs over one fabric, which is the name of the column, too."""
    for program in ("ib_write_bw", "ib_read_bw"):
        bandwidth(machines, by_name, fabric, program, fabric)
    for program in ("ib_write_bw", "ib_send_bw"):
        rate(machines, by_name, fabric, program, fabric)
    latencies(machines, by_name, fabric, fabric)


def measure(bench, found):
    """Measures the idle machines, then both fabrics in turns: A B, B A."""
    by_name = {t.name: t for t in found}
    for column, options in (("no adapter", ["--fabric", "none"]), ("ohca", [])):
        with Machines(*options) as machines:
            for _ in range(bench.runs):
                for process, ms in machines.idle(IDLE_S).items():
                    by_name["idle"].add(process, column, ms)
            if options:
                continue
            machines.add_rxe()
            for n in bench.rounds():
                for fabric in list(FABRICS)[::1 if n % 2 else -1]:
                    one(machines, by_name, fabric)
