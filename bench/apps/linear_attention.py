"""bench/apps/linear_attention.py - flash-linear-attention: a gated layer in Triton, forward and backward."""
import torch
from fla.layers import GatedLinearAttention

from common import report, version_of


def work():
    torch.manual_seed(1)
    layer = GatedLinearAttention(hidden_size=256, num_heads=4).bfloat16().cuda()
    x, sums = torch.randn(2, 256, 256).bfloat16().cuda().requires_grad_(), []
    for _ in range(5):
        out = layer(x)[0]
        out.float().square().mean().backward()
        sums.append(out.float().abs().sum().item())
    return sums + [x.grad.float().abs().sum().item()]


report(version_of("flash-linear-attention"), work)
