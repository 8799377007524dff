"""bench/apps/ddp_nccl.py - torch.distributed: DDP of one process over NCCL, and its collectives."""
import os
import tempfile

import torch
import torch.distributed as dist
from torch import nn

from common import DEVICE, report, version_of


def work():
    torch.manual_seed(1)
    inner = nn.Sequential(nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 10)).to(DEVICE)
    model = nn.parallel.DistributedDataParallel(inner, device_ids=[0] if DEVICE == "cuda" else None)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    x, y, losses = torch.randn(64, 256).to(DEVICE), (torch.arange(64) % 10).to(DEVICE), []
    for _ in range(20):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    total, gathered = torch.arange(1000.0, device=DEVICE), [torch.empty(1000, device=DEVICE)]
    dist.all_reduce(total)
    dist.all_gather(gathered, total)
    dist.barrier()
    return losses + [gathered[0].sum().item()]


with tempfile.TemporaryDirectory() as folder:
    dist.init_process_group("nccl" if DEVICE == "cuda" else "gloo", init_method=f"file://{os.path.join(folder, 'store')}",
                            rank=0, world_size=1)
    report(version_of("torch"), work)
    dist.destroy_process_group()
