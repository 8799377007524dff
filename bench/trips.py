#!/usr/bin/env python3
"""bench/trips.py ROW - programs whose round trips and times bench/gpu.sh counts (stage trips).

first: PyTorch's first result. script: that, then 500 steps of a small model. resnet: ResNet-50's first step of
training. Prints JSON: seconds until the first result and in all, from the first call of CUDA on, and a number that
must be the same natively and remotely.
"""
import json
import sys
import time

import torch


def first():
    return (torch.ones(1000, device="cuda") + 1).sum().item()


def train(steps=500):
    """A small model and data that the GPU makes: launches, and one result at the end."""
    torch.manual_seed(3)
    model = torch.nn.Sequential(torch.nn.Linear(256, 512), torch.nn.ReLU(), torch.nn.Linear(512, 10)).cuda()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    x = torch.randn(64, 256, device="cuda")
    y = torch.randint(0, 10, (64,), device="cuda")
    for _ in range(steps):
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
    return loss.item()


def resnet():
    import torchvision
    torch.manual_seed(3)
    model = torchvision.models.resnet50(weights=None).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    images = torch.randn(32, 3, 224, 224, device="cuda")
    loss = torch.nn.functional.cross_entropy(model(images), torch.zeros(32, dtype=torch.long, device="cuda"))
    loss.backward()
    optimizer.step()
    return loss.item()


def main():
    row = sys.argv[1]
    begin = time.perf_counter()
    result = first()
    first_s = time.perf_counter() - begin
    if row == "script":
        result = train()
    elif row == "resnet":
        result = resnet()
    print(json.dumps({"row": row, "first_s": round(first_s, 3), "s": round(time.perf_counter() - begin, 3),
                      "check": result}))


main()
