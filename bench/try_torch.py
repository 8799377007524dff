#!/usr/bin/env python3
"""bench/try_torch.py - many PyTorch operations, one line each with a checksum of the result.

Run natively and remotely and compare the lines: equal seeds, equal kernels, equal numbers.
"""
import os
import sys

os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
import torch  # noqa: E402
from torch import nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402

OPS = {}


def op(function):
    """Register an operation under its name."""
    OPS[function.__name__] = function
    return function


def rand(*shape, dtype=torch.float32):
    return torch.randn(*shape, device="cuda").to(dtype)


@op
def matmul_fp64():
    return rand(300, 200, dtype=torch.float64) @ rand(200, 100, dtype=torch.float64)


@op
def split_k():
    return rand(16, 100000) @ rand(100000, 16)


@op
def linear_bf16_gelu():
    return F.gelu(F.linear(rand(64, 512, dtype=torch.bfloat16), rand(256, 512, dtype=torch.bfloat16)))


@op
def conv_fp32():
    return F.conv2d(rand(4, 16, 40, 40), rand(32, 16, 3, 3))


@op
def conv_bf16_backward():
    w = rand(32, 16, 3, 3, dtype=torch.bfloat16).requires_grad_()
    F.conv2d(rand(4, 16, 40, 40, dtype=torch.bfloat16), w).sum().backward()
    return w.grad


@op
def lstm():
    return nn.LSTM(32, 64, 2).cuda()(rand(20, 4, 32))[0]


@op
def batch_norm_train():
    return nn.BatchNorm2d(16).cuda()(rand(8, 16, 10, 10))


@op
def sdpa_bf16():
    q, k, v = (rand(2, 8, 256, 64, dtype=torch.bfloat16) for _ in range(3))
    return F.scaled_dot_product_attention(q, k, v, is_causal=True)


@op
def sdpa_fp32():
    q, k, v = (rand(2, 4, 100, 32) for _ in range(3))
    return F.scaled_dot_product_attention(q, k, v)


@op
def fft():
    return torch.fft.fft2(rand(3, 100, 120)).abs()


@op
def svd():
    return torch.linalg.svd(rand(60, 40))[1]


@op
def eigh():
    a = rand(50, 50)
    return torch.linalg.eigh(a + a.T)[0]


@op
def solve():
    return torch.linalg.solve(rand(64, 64), rand(64, 8))


@op
def sort():
    return rand(100000).sort()[0]


@op
def topk_unique():
    return torch.unique(torch.randint(0, 1000, (50000,), device="cuda")).float()


@op
def sparse_mm():
    a = torch.eye(200, device="cuda").to_sparse_csr()
    return a @ rand(200, 30)


@op
def embedding():
    return nn.Embedding(1000, 64).cuda()(torch.arange(500, device="cuda"))


@op
def dropout_rng():
    return F.dropout(torch.ones(10000, device="cuda"), 0.3)


@op
def cumsum_scan():
    return rand(20, 5000).cumsum(1)


@op
def index_scatter():
    return torch.zeros(100, device="cuda").scatter_(0, torch.arange(99, -1, -1, device="cuda"), rand(100))


@op
def pinned_copies():
    host = torch.arange(1 << 20, dtype=torch.float32).pin_memory()
    dev = host.to("cuda", non_blocking=True)
    back = torch.empty_like(host).pin_memory()
    back.copy_(dev * 2, non_blocking=True)
    torch.cuda.synchronize()
    return back


@op
def streams():
    s = torch.cuda.Stream()
    x = rand(1000, 1000)
    s.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(s):
        y = x @ x
    torch.cuda.current_stream().wait_stream(s)
    return y


@op
def data_loader():
    from torch.utils.data import DataLoader, TensorDataset
    data = TensorDataset(torch.arange(64.0).reshape(32, 2))
    loader = DataLoader(data, batch_size=8, num_workers=2, pin_memory=True)
    return torch.stack([b[0].cuda(non_blocking=True).sum() for b in loader])


@op
def amp_training():
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 1)).cuda()
    opt, scaler = torch.optim.Adam(model.parameters()), torch.amp.GradScaler()
    for _ in range(5):
        with torch.autocast("cuda", dtype=torch.float16):
            loss = model(rand(32, 64)).square().mean()
        opt.zero_grad()
        scaler.scale(loss).backward()
        scaler.step(opt)
        scaler.update()
    return loss


@op
def compiled():
    return torch.compile(lambda v: (v.sin() * 2 + 1).sum(1))(rand(256, 256))


def main():
    for name in sys.argv[1:] or OPS:
        torch.manual_seed(5)
        try:
            r = OPS[name]().double()
            print(f"{name} {tuple(r.shape)} {r.sum().item():.17g} {r.abs().max().item():.17g}", flush=True)
        except Exception as e:  # pylint: disable=broad-except; one operation must not stop the others
            print(f"{name} {type(e).__name__}: {str(e).splitlines()[0][:200]}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
