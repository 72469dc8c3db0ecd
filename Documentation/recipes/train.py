# SPDX-License-Identifier: GPL-2.0-or-later
# pylint: disable=import-error  # the guests have them
"""PyTorch: data-parallel training by a backend; each rank has samples of its own."""
import os
import sys

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

# gloo needs these variables; mpirun sets them under other names
os.environ["RANK"] = os.environ["OMPI_COMM_WORLD_RANK"]
os.environ["WORLD_SIZE"] = os.environ["OMPI_COMM_WORLD_SIZE"]
dist.init_process_group(sys.argv[1])
rank, ranks = dist.get_rank(), dist.get_world_size()
torch.set_num_threads(1)
torch.set_default_dtype(torch.float64)
torch.manual_seed(1)
model = torch.nn.Sequential(torch.nn.Linear(256, 512), torch.nn.ReLU(), torch.nn.Linear(512, 1))
teacher = torch.randn(256, 1) / 16
torch.manual_seed(100 + rank)
parallel = DistributedDataParallel(model)
optimizer = torch.optim.SGD(parallel.parameters(), lr=0.02)
losses = []
for step in range(40):
    samples = torch.randn(64, 256)
    loss = torch.nn.functional.mse_loss(parallel(samples), samples @ teacher)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    mean = loss.detach().clone()
    dist.all_reduce(mean)
    losses.append(mean.item() / ranks)
weights = torch.cat([p.detach().flatten() for p in model.parameters()])
first = weights.clone()
dist.broadcast(first, 0)
assert torch.equal(weights, first), "the weights are not those of rank 0"
assert losses[-1] < losses[0] / 2, f"the loss does not go down: {losses}"
if not rank:
    print(f"{ranks} ranks: loss {losses[0]:.12f} to {losses[-1]:.12f}, weights are equal",
          flush=True)
dist.barrier()
