#!/usr/bin/env python3
"""bench/torch_script.py [STEPS] - a small PyTorch program from its start, as JSON: an MLP, trained by Adam.

`script_first` is the time from the first use of CUDA to the first number that comes back; `script_steps` is all of it,
with the import of PyTorch and 500 steps. The loss is read every 100 steps. torch_models.py runs it as two rows.
"""
import json
import sys
import time

BEGIN = time.perf_counter()
import torch  # noqa: E402  pylint: disable=wrong-import-position


def main():
    steps = int(sys.argv[1]) if len(sys.argv) > 1 else 500
    torch.manual_seed(1)
    x, y = torch.randn(64, 256), torch.arange(64) % 10
    layers = torch.nn.Sequential(torch.nn.Linear(256, 256), torch.nn.ReLU(), torch.nn.Linear(256, 256), torch.nn.ReLU(),
                                 torch.nn.Linear(256, 10))
    start = time.perf_counter()
    model, x, y = layers.cuda(), x.cuda(), y.cuda()
    losses = [torch.nn.functional.cross_entropy(model(x), y).item()]
    first = time.perf_counter()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for step in range(steps):
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        if step % 100 == 99:
            losses.append(loss.item())
    torch.cuda.synchronize()
    end = time.perf_counter()
    print(json.dumps({"script_first": {"ms": (first - start) * 1e3, "check": losses[:1]},
                      "script_steps": {"ms": (end - BEGIN) * 1e3, "check": losses}}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
