"""bench/apps/compile_attention.py - torch.compile: attention by Triton (flex_attention) forward and backward, a fused softmax,
and a matrix product chosen by max-autotune."""
import torch
from torch.nn.attention.flex_attention import flex_attention

from common import DEVICE, report, version_of


def nearer(score, _batch, _head, i, j):
    return torch.where(i >= j, score + (j - i) * 0.01, -float("inf"))


FLEX = torch.compile(flex_attention)
SOFT = torch.compile(lambda a: torch.softmax(a.float() * 3, -1).sum(0))
PRODUCT = torch.compile(lambda a, b: (a @ b).relu(), mode="max-autotune-no-cudagraphs")


def work():
    torch.manual_seed(1)
    q, k, v = (torch.randn(2, 4, 256, 64).to(DEVICE, torch.float16).requires_grad_(DEVICE == "cuda") for _ in range(3))
    total = []
    for _ in range(10):
        out = FLEX(q, k, v, score_mod=nearer)
        if DEVICE == "cuda":
            out.float().square().mean().backward()
        total.append(out.float().sum().item())
    a = q.detach().reshape(-1, 256)
    gradient = [q.grad.float().abs().sum()] if DEVICE == "cuda" else []
    return [total, gradient, SOFT(a).sum(), PRODUCT(a, a.T.contiguous()).float().mean()]


report(version_of("torch"), work)
