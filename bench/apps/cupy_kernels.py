"""bench/apps/cupy_kernels.py - CuPy: a raw kernel, an elementwise one, reductions; with `libraries` as an argument also sorting,
cuFFT, cuBLAS and cuSPARSE."""
import sys

import cupy as cp
import numpy as np
from cupyx.scipy import sparse

from common import report

STEP = cp.RawKernel(r"""
extern "C" __global__ void heat(const float *from, float *to, int n)
{
    int i = blockDim.x * blockIdx.x + threadIdx.x;
    if (i > 0 && i < n - 1) to[i] = 0.25f * from[i - 1] + 0.5f * from[i] + 0.25f * from[i + 1];
}""", "heat")
MIX = cp.ElementwiseKernel("float32 x, float32 y", "float32 z", "z = x * x - 3 * y", "mix")


def work():
    n = 4096
    host = ((np.arange(n) * 7919) % 1000).astype(np.float32)
    a, b = cp.asarray(host), cp.zeros(n, cp.float32)
    for _ in range(100):
        STEP((n // 256,), (256,), (a, b, np.int32(n)))
        a, b = b, a
    mixed = MIX(a, b)
    numbers = [float(a.sum(dtype=cp.float64)), float(mixed.max()), int(cp.argmax(a))]
    if "libraries" in sys.argv:
        wide = cp.asarray(host.reshape(64, 64))
        band = sparse.csr_matrix(cp.where(wide > 500, wide, 0))
        numbers += [float(cp.sort(mixed)[n // 2]), float(cp.abs(cp.fft.fft(a)).sum()), float((wide @ wide.T).sum()), float(cp.linalg.norm(wide)),
                    float((band @ wide[0]).sum()), int(band.nnz)]
    return numbers


report(f"cupy {cp.__version__}", work)
