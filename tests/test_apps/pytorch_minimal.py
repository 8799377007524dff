#!/usr/bin/env python3
"""tests/test_apps/pytorch_minimal.py - a small network learns made-up data on the GPU.

Stock PyTorch, nothing of Cricket's in it. Seeds are fixed, so two runs on one GPU, native or
remote, print the same losses. Ends with status 1 when the network has not learned.
"""
import sys

import torch
from torch import nn

STEPS = 60


def make_data(device):
    """Two features in, three classes out: which third of the circle a point is in."""
    generator = torch.Generator().manual_seed(7)
    points = torch.randn(512, 2, generator=generator)
    angle = torch.atan2(points[:, 1], points[:, 0])
    classes = ((angle + torch.pi) / (2 * torch.pi) * 3).long().clamp(0, 2)
    return points.to(device), classes.to(device)


def main():
    if not torch.cuda.is_available():
        print("pytorch_minimal: no CUDA device", file=sys.stderr)
        return 1
    torch.manual_seed(1)
    device = torch.device("cuda")
    points, classes = make_data(device)
    model = nn.Sequential(nn.Linear(2, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(),
                          nn.Linear(64, 3)).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.2, momentum=0.9)
    first = last = 0.0
    for step in range(STEPS + 1):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(points), classes)
        loss.backward()
        optimizer.step()
        if step % 10 == 0:
            last = loss.item()
            first = first or last
            print(f"step {step:3d} loss {last:.4f}")
    with torch.no_grad():
        right = (model(points).argmax(dim=1) == classes).float().mean().item()
    learned = last < first / 2 and right > 0.9
    print("learned" if learned else "not learned")
    return 0 if learned else 1


if __name__ == "__main__":
    sys.exit(main())
