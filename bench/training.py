#!/usr/bin/env python3
"""bench/training.py STEPS - trains with PyTorch, and prints the loss of each step to the last bit; "-": until its input ends.

What tests/test_apps/training.cu does without PyTorch.
"""
import itertools
import os
import select
import sys

os.environ["CUBLAS_WORKSPACE_CONFIG"] = ":4096:8"
import torch


def input_has_ended():
    return bool(select.select([0], [], [], 0)[0]) and not os.read(0, 64)


torch.manual_seed(1)
torch.use_deterministic_algorithms(True)
model = torch.nn.Sequential(*[torch.nn.Linear(4096, 4096) for _ in range(8)]).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9)
for step in itertools.count():
    if input_has_ended() if sys.argv[1] == "-" else step == int(sys.argv[1]):
        break
    x = torch.randn(64, 4096, device="cuda")
    loss = (model(x) - x).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(loss.item().hex(), flush=True)
