"""bench/apps/compile_mlp.py - torch.compile: a training step of an MLP, and the same with CUDA graphs (reduce-overhead)."""
import torch
from torch import nn

from common import DEVICE, report, version_of


def train(mode):
    torch.manual_seed(1)
    model = nn.Sequential(nn.Linear(256, 512), nn.GELU(), nn.LayerNorm(512), nn.Linear(512, 10)).to(DEVICE)
    step, optimizer = torch.compile(model, mode=mode), torch.optim.AdamW(model.parameters(), lr=1e-3)
    x, y, losses = torch.randn(128, 256).to(DEVICE), (torch.arange(128) % 10).to(DEVICE), []
    for _ in range(30):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(step(x), y)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


report(version_of("torch"), lambda: [train("default"), train("reduce-overhead")])
