#!/usr/bin/env python3
"""bench/torch_pool.py - PyTorch on two GPUs that need not reach each other, as JSON on the last line.

Run it natively on two GPUs, and through Cricket with a pool of two servers with one GPU each. A model whose halves are
on different GPUs trains; its losses must be the same.
"""
import json
import time

import torch


def median_ms(step, count=7):
    times = []
    for _ in range(count):
        begin = time.perf_counter()
        step()
        for i in range(2):
            torch.cuda.synchronize(i)
        times.append((time.perf_counter() - begin) * 1e3)
    return sorted(times)[count // 2]


def copies():
    """GB/s of 256 MiB between the GPUs; the bytes are compared."""
    a = torch.randint(0, 1 << 30, (1 << 26,), dtype=torch.int32, device="cuda:0")
    b = torch.empty_like(a, device="cuda:1")
    ms = median_ms(lambda: b.copy_(a))
    same = bool((a.cpu() == b.cpu()).all())
    back = median_ms(lambda: a.copy_(b))
    return {"copy_there": {"value": 0.268435456 / ms * 1e3, "unit": "GB/s", "check": [same]},
            "copy_back": {"value": 0.268435456 / back * 1e3, "unit": "GB/s"}}


def small_copy():
    a, b = torch.ones(256, device="cuda:0"), torch.zeros(256, device="cuda:1")
    ms = median_ms(lambda: b.copy_(a), 50)
    return {"copy_1K": {"value": ms * 1e3, "unit": "us", "check": [b.sum().item()]}}


def train():
    """Two halves, steps of 64 rows: activations go there, gradients back."""
    torch.manual_seed(1)
    first = torch.nn.Sequential(*[torch.nn.Linear(4096, 4096) for _ in range(8)]).to("cuda:0")
    second = torch.nn.Sequential(*[torch.nn.Linear(4096, 4096) for _ in range(8)]).to("cuda:1")
    optimizer = torch.optim.SGD([*first.parameters(), *second.parameters()], lr=1e-2)
    x = torch.randn(64, 4096)
    x0, x1 = x.to("cuda:0"), x.to("cuda:1")
    losses = []

    def step():
        loss = (second(first(x0).to("cuda:1")) - x1).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    ms = median_ms(step, 30)
    return {"train_in_two_halves": {"ms": ms, "check": losses}}


def each():
    """Both GPUs work at the same time."""
    xs = [torch.randn(4096, 4096, device=f"cuda:{i}", dtype=torch.bfloat16) for i in range(2)]

    def work(devices):
        for _ in range(50):
            for i in devices:
                xs[i] @ xs[i]
    return {"matmuls_on_one": {"ms": median_ms(lambda: work([0]))}, "matmuls_on_both": {"ms": median_ms(lambda: work([0, 1]))}}


def main():
    assert torch.cuda.device_count() >= 2
    print([torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())], "peer access:",
          torch.cuda.can_device_access_peer(0, 1))
    print(json.dumps({**copies(), **small_copy(), **train(), **each()}))


if __name__ == "__main__":
    main()
