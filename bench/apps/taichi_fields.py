"""bench/apps/taichi_fields.py - Taichi: a wave over a field, a reduction by atomics, and gradients of a loss."""
import contextlib
import sys

with contextlib.redirect_stdout(sys.stderr):    # it greets
    import taichi as ti
    ti.init(arch=ti.cuda, random_seed=1, device_memory_GB=0.5, default_fp=ti.f32)

from common import missing, report  # noqa: E402

if ti.cfg.arch != ti.cuda:
    missing("Taichi found no CUDA")
N = 128
PAST, NOW, NEXT = (ti.field(ti.f32, (N, N)) for _ in range(3))
X, LOSS = ti.field(ti.f32, N, needs_grad=True), ti.field(ti.f32, (), needs_grad=True)


@ti.kernel
def begin():
    for i, j in NOW:
        NOW[i, j] = ti.exp(-((i - 40) ** 2 + (j - 64) ** 2) / 50.0)
        PAST[i, j] = NOW[i, j]
    for i in X:
        X[i] = 0.01 * i


@ti.kernel
def step():
    for i, j in ti.ndrange((1, N - 1), (1, N - 1)):
        around = NOW[i - 1, j] + NOW[i + 1, j] + NOW[i, j - 1] + NOW[i, j + 1] - 4 * NOW[i, j]
        NEXT[i, j] = 2 * NOW[i, j] - PAST[i, j] + 0.2 * around
    for i, j in NOW:
        PAST[i, j] = NOW[i, j]
        NOW[i, j] = NEXT[i, j]


@ti.kernel
def loss():
    for i in X:
        LOSS[None] += (X[i] - 0.5) ** 2


def work():
    begin()
    for _ in range(20):
        step()
    for _ in range(10):
        with ti.ad.Tape(loss=LOSS):
            loss()
        for_all = X.to_numpy() - 0.1 * X.grad.to_numpy()
        X.from_numpy(for_all)
    wave = NOW.to_numpy().astype("float64")
    # The loss is added up by atomics, in any order.
    return [float(wave.sum()), float(abs(wave).max()), round(float(LOSS[None]), 4), float(X.to_numpy().sum())]


report(f"taichi {'.'.join(map(str, ti.__version__))}", work)
