"""bench/apps/triton_kernels.py - Triton: kernels by hand: an addition, a softmax, a matrix product that tunes itself."""
import torch
import triton
from triton import language as tl

from common import report, version_of


@triton.jit
def add(x, y, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, tl.load(x + at, at < n) + tl.load(y + at, at < n), at < n)


@triton.jit
def softmax(x, out, COLUMNS: tl.constexpr):
    at = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    row = tl.load(x + at)
    row = tl.exp(row - tl.max(row, 0))
    tl.store(out + at, row / tl.sum(row, 0))


@triton.autotune([triton.Config({"SIZE": s}, num_warps=w) for s, w in ((32, 2), (64, 4))], key=["N"])
@triton.jit
def product(a, b, c, N, SIZE: tl.constexpr):
    rows = tl.program_id(0) * SIZE + tl.arange(0, SIZE)
    columns = tl.program_id(1) * SIZE + tl.arange(0, SIZE)
    total = tl.zeros((SIZE, SIZE), tl.float32)
    for k in range(0, N, SIZE):
        inner = k + tl.arange(0, SIZE)
        total += tl.dot(tl.load(a + rows[:, None] * N + inner[None, :]), tl.load(b + inner[:, None] * N + columns[None, :]))
    tl.store(c + rows[:, None] * N + columns[None, :], total)


def work():
    torch.manual_seed(1)
    x, y = torch.randn(2, 100000).cuda()
    out, soft = torch.empty_like(x), torch.empty(64, 1024, device="cuda")
    # Integers, whose products are exact: the tuner may choose another size each time.
    a, b = torch.randint(-3, 4, (2, 512, 512)).half().cuda()
    c = torch.empty(512, 512, device="cuda")
    for _ in range(20):
        add[(triton.cdiv(100000, 256),)](x, y, out, 100000, BLOCK=256)
        softmax[(64,)](x[:65536], soft, COLUMNS=1024, num_warps=8)
        product[lambda meta: (512 // meta["SIZE"],) * 2](a, b, c, 512)
    return [t.double().sum().item() for t in (out, soft.square(), c, c.square())]


report(version_of("triton"), work)
