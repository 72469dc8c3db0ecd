# SPDX-License-Identifier: GPL-2.0-or-later
"""The rate of each host in each interval of a run of ohca-fabric traffic."""
import csv
import os
import tempfile

from ohca_plot import draw, sweep

MOST = 12       # most lines of a figure without --hosts
ALL = "all"     # the sum of all hosts


def measure(options, interval, program=None):
    """Runs once; returns the times in us, and {host: rates in Gb/s} of hosts that have sent."""
    with tempfile.TemporaryDirectory(prefix="ohca-plot-") as where:
        name = os.path.join(where, "series")
        sweep.run(program or sweep.fabric(),
                  [*options, f"--series={name}", f"--interval={interval}"])
        with open(name, encoding="utf-8", newline="") as f:
            rows = list(csv.reader(f))
    if len(rows) < 2:
        raise sweep.SweepError("the run has no interval in which messages have arrived")
    times = [float(row[0]) for row in rows[1:]]
    rates = {name: [float(row[i]) for row in rows[1:]]
             for i, name in enumerate(rows[0][1:], 1)}
    return times, {name: values for name, values in rates.items() if any(values)}


def chosen(rates, hosts):
    """{host: rates} of the hosts to draw: HOSTS, or all of them."""
    if not hosts and len(rates) > MOST:
        raise sweep.SweepError(f"{len(rates)} hosts have sent: choose some by --hosts, or their "
                               f"sum by --hosts {ALL}")
    found = {}
    for name in hosts or rates:
        if name == ALL and ALL not in rates:
            found[name] = [sum(values) for values in zip(*rates.values())]
        elif name in rates:
            found[name] = rates[name]
        else:
            raise sweep.SweepError(f"host {name} has sent nothing; these have: "
                                   f"{', '.join(rates)}")
    return found


class Series:
    """The lines of a figure. LINES: {name: options}; HOSTS: those to draw, or [] for all."""

    def __init__(self, interval, lines, hosts):
        self.interval, self.lines, self.hosts = interval, lines, hosts
        self.columns = {}       # (times, rates) by names

    def measure(self, options):
        """Runs all lines with OPTIONS."""
        for line, more in self.lines.items():
            times, rates = measure([*options, *more], self.interval)
            for host, values in chosen(rates, self.hosts).items():
                name = " ".join(filter(None, (line, host)))
                self.columns[name] = times, values
        return self

    def table(self):
        """A table of the mean and the greatest rate of each line."""
        return draw.simple_table(["host", "mean, Gb/s", "greatest, Gb/s"], [
            [name, draw.number(sum(values) / len(values)), draw.number(max(values))]
            for name, (_, values) in self.columns.items()])

    def figure(self, title):
        """The figure."""
        found = draw.Figure(title, "us", "Gb/s", "time")
        for name, (times, values) in self.columns.items():
            found.add(name, [(t, v, v, v, "") for t, v in zip(times, values)])
        return found

    def write_csv(self, name):
        """Writes the numbers; cells after the end of a line are empty."""
        with open(name, "w", encoding="utf-8", newline="") as f:
            out = csv.writer(f, lineterminator="\n")
            out.writerow(["us", *self.columns])
            by_time = {}
            for i, (times, values) in enumerate(self.columns.values()):
                for t, v in zip(times, values):
                    by_time.setdefault(t, [""] * len(self.columns))[i] = f"{v:.15g}"
            for t in sorted(by_time):
                out.writerow([f"{t:.15g}", *by_time[t]])
