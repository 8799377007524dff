"""bench/apps/numba_kernels.py - Numba: a sum in shared memory with atomics, Mandelbrot's set, streams and pinned arrays."""
import warnings

import numpy as np
from numba import cuda, float32

from common import report, version_of

warnings.simplefilter("ignore")


@cuda.jit
def total(x, out):
    part = cuda.shared.array(128, float32)
    i, t = cuda.grid(1), cuda.threadIdx.x
    part[t] = x[i] if i < x.size else 0
    cuda.syncthreads()
    width = 64
    while width:
        if t < width:
            part[t] += part[t + width]
        cuda.syncthreads()
        width //= 2
    if t == 0:
        cuda.atomic.add(out, 0, part[0])


@cuda.jit
def mandelbrot(out):
    i, j = cuda.grid(2)
    if i < out.shape[0] and j < out.shape[1]:
        a, b, x, y, n = i * 3.0 / out.shape[0] - 2, j * 2.0 / out.shape[1] - 1, 0.0, 0.0, 0
        while x * x + y * y < 4 and n < 50:
            x, y, n = x * x - y * y + a, 2 * x * y + b, n + 1
        out[i, j] = n


def work():
    stream = cuda.stream()
    host = cuda.pinned_array(4096, dtype=np.float32)
    host[:] = np.arange(4096) % 17
    x, out = cuda.to_device(host, stream=stream), cuda.to_device(np.zeros(1, dtype=np.float32), stream=stream)
    total[32, 128, stream](x, out)
    stream.synchronize()
    picture = cuda.device_array((96, 64), dtype=np.int32)
    mandelbrot[(12, 8), (8, 8)](picture)
    return [float(out.copy_to_host()[0]), int(picture.copy_to_host().sum())]


report(version_of("numba"), work)
