# SPDX-License-Identifier: GPL-2.0-or-later
# pylint: disable=import-error  # the guests have them
"""MPI: each rank sends 64 blocks of 1 MiB to the next one; all add up the last ones they got."""
import numpy
from mpi4py import MPI

COUNT, SIZE = 64, 1 << 20
world = MPI.COMM_WORLD
rank, ranks = world.Get_rank(), world.Get_size()
got = numpy.empty(SIZE, dtype=numpy.uint8)
begin = MPI.Wtime()
for i in range(COUNT):
    mine = numpy.random.default_rng(rank * COUNT + i).integers(0, 256, SIZE, dtype=numpy.uint8)
    world.Sendrecv(mine, (rank + 1) % ranks, recvbuf=got, source=(rank - 1) % ranks)
    left = numpy.random.default_rng((rank - 1) % ranks * COUNT + i)
    assert (got == left.integers(0, 256, SIZE, dtype=numpy.uint8)).all()
total = world.allreduce(int(got.sum()), MPI.SUM)
print(f"rank {rank} of {ranks} on {MPI.Get_processor_name()}: {COUNT} blocks are right, "
      f"all have {total}, {MPI.Wtime() - begin:.1f} s", flush=True)
