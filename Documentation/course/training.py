# SPDX-License-Identifier: GPL-2.0-or-later
# pylint: disable=import-error  # the guests have them
"""Data-parallel training of a layer of 262,144 weights, by MPI: training.py >FILE."""
import numpy
from mpi4py import MPI

SIZE, ROWS, SHARDS, STEPS, RATE = 512, 16, 2, 16, 0.04
world = MPI.COMM_WORLD
rank, ranks = world.Get_rank(), world.Get_size()
each = SHARDS // ranks      # the number of this rank's parts of a batch


def normal(*seed, rows=SIZE):
    """Random numbers, the same ones for the same seed."""
    return numpy.random.default_rng(seed).standard_normal((rows, SIZE), dtype=numpy.float32)


teacher = normal(0) / numpy.float32(SIZE) ** 0.5
weights = numpy.zeros((SIZE, SIZE), dtype=numpy.float32)
mine = numpy.empty((each, SIZE * SIZE + 1), dtype=numpy.float32)
every = numpy.empty((SHARDS, SIZE * SIZE + 1), dtype=numpy.float32)
for step in range(1, STEPS + 1):
    for i in range(each):
        samples = normal(step, rank * each + i, rows=ROWS)
        error = samples @ (weights - teacher)
        mine[i, 1:] = (samples.T @ error).ravel()
        mine[i, 0] = (error * error).mean()
    world.Allgather(mine, every)
    total = every[0].copy()
    for shard in every[1:]:             # all ranks add in this order
        total += shard
    weights -= RATE / (SHARDS * ROWS) * total[1:].reshape(SIZE, SIZE)
    if step in (1, STEPS) and rank == 0:
        print(f"step {step}: loss {total[0] / SHARDS}", flush=True)
names = world.gather(MPI.Get_processor_name())
if rank == 0:
    print(f"{ranks} ranks on {' '.join(names)}")
