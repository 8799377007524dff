"""bench/apps/shared_tensor.py - torch.multiprocessing: a spawned process changes a tensor of its parent on the GPU."""
import torch
import torch.multiprocessing as mp

from common import report, version_of


def change(tensors, done):
    """Runs in the child until None comes."""
    while (tensor := tensors.get()) is not None:
        tensor.mul_(2).add_(1)
        torch.cuda.synchronize()
        del tensor
        done.put(True)


def work():
    x = torch.arange(1 << 20, dtype=torch.float32, device="cuda")
    sums = []
    for _ in range(5):
        TENSORS.put(x)
        DONE.get(timeout=60)
        sums.append(x.double().sum().item())
    return sums


if __name__ == "__main__":
    context = mp.get_context("spawn")
    TENSORS, DONE = context.Queue(), context.Queue()
    child = context.Process(target=change, args=(TENSORS, DONE), daemon=True)
    child.start()
    report(version_of("torch"), work)
    TENSORS.put(None)
    child.join(30)
