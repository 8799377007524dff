"""bench/apps/cuda_graphs.py - torch.cuda.graph: a captured training step is replayed, and make_graphed_callables."""
import torch
from torch import nn

from common import report, version_of


def captured():
    torch.manual_seed(1)
    model = nn.Sequential(nn.Linear(128, 256), nn.ReLU(), nn.Linear(256, 10)).cuda()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, capturable=True)
    x, y = torch.randn(64, 128).cuda(), (torch.arange(64) % 10).cuda()

    def step():
        optimizer.zero_grad(set_to_none=True)
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            step()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        loss = step()
    losses = []
    for _ in range(50):
        graph.replay()
        losses.append(loss.item())
    return losses


def graphed():
    torch.manual_seed(2)
    model = nn.Sequential(nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 64)).cuda()
    fast = torch.cuda.make_graphed_callables(model, (torch.randn(8, 64, device="cuda", requires_grad=True),))
    x = torch.randn(8, 64).cuda().requires_grad_()
    fast(x).square().sum().backward()
    return [x.grad.sum(), x.grad.abs().max()]


report(version_of("torch"), lambda: [captured(), graphed()])
