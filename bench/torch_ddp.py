#!/usr/bin/env python3
"""bench/torch_ddp.py [--ranks N] - PyTorch on several GPUs with one process for each, as JSON on the last line.

Natively on the GPUs of one machine; and through Cricket, with NCCL in the workers, on a pool of servers with one GPU each. The losses must be
the same. Parts: collectives of torch.distributed, DistributedDataParallel, fully sharded data parallel (FSDP2, else FSDP).
"""
import datetime
import os
import time

import ranks

STEPS = int(os.environ.get("DDP_STEPS", "30"))


def begin(rank, count, folder):
    import torch
    import torch.distributed as dist
    torch.cuda.set_device(rank)
    torch.manual_seed(1)
    torch.backends.cuda.matmul.allow_tf32 = False
    dist.init_process_group("nccl", init_method=f"file://{folder / 'meet'}", rank=rank, world_size=count,
                            timeout=datetime.timedelta(seconds=60), device_id=torch.device("cuda", rank))
    return torch, dist


def finish(dist, rank, rows):
    dist.barrier()
    dist.destroy_process_group()
    return rows if rank == 0 else None


def collectives(rank, count, folder):
    """Each collective, checked; a communicator out of another; messages between neighbours."""
    torch, dist = begin(rank, count, folder)
    x = torch.arange(1000.0, device="cuda") * (rank + 1)
    checks = []
    total = x.clone()
    dist.all_reduce(total)
    checks.append(total.sum().item())
    parts = [torch.empty_like(x) for _ in range(count)]
    dist.all_gather(parts, x)
    checks.append(sum(p.sum().item() for p in parts))
    out = torch.empty(8, device="cuda")
    dist.reduce_scatter_tensor(out, torch.arange(8.0 * count, device="cuda"))
    checks.append(out.sum().item())
    first = x.clone()
    dist.broadcast(first, 0)
    checks.append(first.sum().item())
    got = torch.empty(count, device="cuda")
    dist.all_to_all_single(got, torch.arange(float(count), device="cuda") + 10 * rank)
    checks.append(got.sum().item())
    group = dist.new_group([0])
    if rank == 0:
        dist.all_reduce(total, group=group)
    checks.append(total.sum().item())
    ring = torch.empty_like(x)
    if count > 1:
        for work in dist.batch_isend_irecv([dist.P2POp(dist.isend, x, (rank + 1) % count),
                                            dist.P2POp(dist.irecv, ring, (rank - 1) % count)]):
            work.wait()
        checks.append(ring.sum().item())
    torch.cuda.synchronize()
    return finish(dist, rank, {"collectives": {"value": 1, "unit": "all", "check": checks}})


def measure(torch, dist, step):
    """Milliseconds a step: the median, of the slowest rank; and the losses."""
    losses, times = [], []
    for _ in range(STEPS):
        began = time.perf_counter()
        losses.append(step())
        torch.cuda.synchronize()
        times.append((time.perf_counter() - began) * 1e3)
    worst = torch.tensor(sorted(times)[len(times) // 2], device="cuda")
    dist.all_reduce(worst, op=dist.ReduceOp.MAX)
    return worst.item(), losses


def model_of(torch):
    return torch.nn.Sequential(*[layer for _ in range(8) for layer in (torch.nn.Linear(2048, 2048), torch.nn.ReLU())],
                               torch.nn.Linear(2048, 100))


def train(torch, dist, model, rank, name):
    """Steps with data of the rank's own. The loss is that of all ranks."""
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-2, momentum=0.9)
    generator = torch.Generator().manual_seed(100 + rank)
    x = torch.randn(64, 2048, generator=generator).cuda()
    y = torch.randint(0, 100, (64,), generator=generator).cuda()

    def step():
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        total = loss.detach().clone()
        dist.all_reduce(total)
        return total.item()
    ms, losses = measure(torch, dist, step)
    return {name: {"ms": ms, "check": losses}}


def ddp(rank, count, folder):
    torch, dist = begin(rank, count, folder)
    model = torch.nn.parallel.DistributedDataParallel(model_of(torch).cuda(), device_ids=[rank])
    return finish(dist, rank, train(torch, dist, model, rank, "ddp"))


def fsdp(rank, count, folder):
    torch, dist = begin(rank, count, folder)
    model = model_of(torch).cuda()
    try:
        from torch.distributed.fsdp import fully_shard
    except ImportError:
        from torch.distributed.fsdp import FullyShardedDataParallel
        model = FullyShardedDataParallel(model)
    else:
        for layer in model:
            if isinstance(layer, torch.nn.Linear):
                fully_shard(layer)
        fully_shard(model)
    return finish(dist, rank, train(torch, dist, model, rank, "fsdp"))


def devices():
    import torch
    return torch.cuda.device_count()


if __name__ == "__main__":
    ranks.main(__file__, {"collectives": collectives, "ddp": ddp, "fsdp": fsdp}, devices)
