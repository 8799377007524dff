"""bench/apps/data_loader.py - PyTorch's DataLoader: worker processes, pinned memory, copies that overlap with a small training."""
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from common import DEVICE, report, version_of


def work():
    torch.manual_seed(1)
    data = TensorDataset(torch.randn(2048, 3, 32, 32), torch.arange(2048) % 10)
    model = nn.Sequential(nn.Conv2d(3, 16, 3, 2), nn.ReLU(), nn.Flatten(), nn.Linear(16 * 15 * 15, 10)).to(DEVICE)
    optimizer, losses = torch.optim.SGD(model.parameters(), lr=0.05), []
    loader = DataLoader(data, 64, shuffle=True, num_workers=3, pin_memory=DEVICE == "cuda", persistent_workers=True,
                        generator=torch.Generator().manual_seed(2))
    for _ in range(2):
        for x, y in loader:
            x, y = x.to(DEVICE, non_blocking=True), y.to(DEVICE, non_blocking=True)
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
            losses.append(loss.detach())
    return torch.stack(losses).tolist()


if __name__ == "__main__":
    report(version_of("torch"), work)
