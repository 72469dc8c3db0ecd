# SPDX-License-Identifier: GPL-2.0-or-later
# pylint: disable=import-error  # the guests have them
"""PyTorch: data-parallel training; each rank has its own samples, all have the same model."""
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("mpi")
rank, ranks = dist.get_rank(), dist.get_world_size()
torch.manual_seed(1)
model = torch.nn.Sequential(torch.nn.Linear(256, 1024), torch.nn.ReLU(), torch.nn.Linear(1024, 1))
teacher = torch.randn(256, 1) / 16
torch.manual_seed(100 + rank)
parallel = DistributedDataParallel(model)
optimizer = torch.optim.SGD(parallel.parameters(), lr=0.01)
losses = []
for step in range(80):
    samples = torch.randn(128, 256)
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
print(f"rank {rank} of {ranks}: loss {losses[0]:.4f} to {losses[-1]:.4f}, weights are equal",
      flush=True)
dist.barrier()
