# SPDX-License-Identifier: GPL-2.0-or-later
# pylint: disable=import-error  # the guests have them
"""Training whose losses are the same for any number of processes up to eight, and any transport.

A step has eight shards of samples, divided among the ranks. Gradients are rounded to multiples of
2^-32 before they are added up, because sums of integers are the same in any order, and transports
use different orders. In the middle, several ranks wait until the cable of one has been cut.
job.py FILE: writes a line for each step to FILE, as CSV. All ranks must have access to FILE.
"""
import csv
import glob
import os
import sys
import time
import numpy
from mpi4py import MPI

SHARDS, STEPS, UNIT = 8, 40, 2 ** 32
TABLE, CUT = sys.argv[1], sys.argv[1] + ".cut"
PATIENCE = 600    # seconds until a cable is cut
world = MPI.COMM_WORLD


def total_of(pattern):
    """The sum of the numbers in files."""
    total = 0
    for path in glob.glob(pattern):
        with open(path, encoding="ascii") as f:
            total += int(f.read())
    return total


def sent():
    """MiB that this node has sent over verbs, and by IPoIB."""
    ports = total_of("/sys/class/infiniband/*/ports/1/counters/port_xmit_data") * 4
    ipoib = total_of("/sys/class/net/ib*/statistics/tx_bytes")
    return (ports - ipoib) / 2 ** 20, ipoib / 2 ** 20


def downs():
    """The number of times that links of this node have gone down."""
    return total_of("/sys/class/infiniband/*/ports/1/counters/link_downed")


class Model:
    """Two layers with a ReLU between them; the model learns a linear function."""

    def __init__(self):
        rng = numpy.random.default_rng(1)
        self.first = rng.uniform(-1 / 16, 1 / 16, (256, 256))
        self.second = rng.uniform(-1 / 16, 1 / 16, 256)
        self.teacher = rng.standard_normal(256) / 16

    def shard(self, step, shard):
        """The gradients of a shard and its loss, as whole numbers."""
        samples = numpy.random.default_rng([step, shard]).standard_normal((16, 256))
        inner = samples @ self.first
        hidden = numpy.maximum(inner, 0)
        error = hidden @ self.second - samples @ self.teacher
        back = 2 * error / len(error)
        first = samples.T @ (numpy.outer(back, self.second) * (inner > 0))
        parts = [first.ravel(), hidden.T @ back, [(error * error).mean()]]
        return numpy.rint(numpy.concatenate(parts) * UNIT).astype(numpy.int64)

    def step(self, step):
        """Runs a step with all shards; returns the loss."""
        total = sum(self.shard(step, s) for s in range(world.rank, SHARDS, world.size))
        world.Allreduce(MPI.IN_PLACE, total)
        mean = total / (UNIT * SHARDS)
        self.first -= 0.02 * mean[:self.first.size].reshape(self.first.shape)
        self.second -= 0.02 * mean[self.first.size:-1]
        return float(mean[-1])


def until_cut(before):
    """Waits until the counter of a rank's node is greater than before."""
    end = time.monotonic() + PATIENCE
    while not os.path.exists(CUT):
        if downs() > before:
            with open(CUT, "w", encoding="ascii"):
                break
        if time.monotonic() > end:
            sys.exit(f"no node has lost a link in {PATIENCE} s: cut a cable when half of the steps "
                     "are done")
        time.sleep(0.1)


def job(table):
    """Runs all steps; rank 0 prints a line and writes a row of the table for each."""
    model, before, links = Model(), sent(), downs()
    rows = csv.writer(table, lineterminator="\n")
    rows.writerow(["step", "loss", "seconds", "verbs MiB", "IPoIB MiB"])
    for step in range(1, STEPS + 1):
        begin = time.monotonic()
        loss = model.step(step)
        took = time.monotonic() - begin
        verbs, ipoib = (now - then for now, then in zip(sent(), before))
        rows.writerow([step, repr(loss), f"{took:.3f}", f"{verbs:.3f}", f"{ipoib:.3f}"])
        if not world.rank:
            print(f"step {step} loss {loss!r} took {took:.1f} s, sent {verbs:.0f} MiB over verbs "
                  f"and {ipoib:.0f} MiB by IPoIB", flush=True)
        if step == STEPS // 2 and world.size > 1:
            until_cut(links)


if not world.rank and os.path.exists(CUT):
    os.remove(CUT)
world.Barrier()
with open(os.devnull if world.rank else TABLE, "w", encoding="ascii") as out:
    job(out)
