"""bench/apps/bitsandbytes_layers.py - bitsandbytes: layers of 8 and 4 bits, and Adam with 8 bits a moment."""
import bitsandbytes as bnb
import torch
from torch import nn

from common import report, version_of


def work():
    torch.manual_seed(1)
    plain, x = nn.Linear(512, 512), torch.randn(32, 512).half().cuda()
    four, eight = bnb.nn.Linear4bit(512, 512, quant_type="nf4"), bnb.nn.Linear8bitLt(512, 512, has_fp16_weights=False)
    sums = []
    with torch.no_grad():
        for layer in (four, eight):
            layer.load_state_dict(plain.state_dict(), strict=False)
            y = layer.cuda()(x)
            sums += [y.double().sum().item(), y.double().abs().max().item()]
    model = nn.Sequential(nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10)).cuda()
    adam, y = bnb.optim.Adam8bit(model.parameters(), lr=1e-3), (torch.arange(32) % 10).cuda()
    for _ in range(20):
        adam.zero_grad()
        loss = nn.functional.cross_entropy(model(x.float()), y)
        loss.backward()
        adam.step()
        sums.append(loss.item())
    return sums


report(version_of("bitsandbytes"), work)
