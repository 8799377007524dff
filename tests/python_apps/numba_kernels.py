"""tests/python_apps/numba_kernels.py - kernels in Python by Numba, each result compared with NumPy's.

It knows nothing of Cricket: `python3 numba_kernels.py [CASE...]` runs wherever Numba finds a GPU.
"""
import cmath
import math

import numpy as np
from numba import cuda, float32, float64, guvectorize, int32, int64, vectorize
from numba.cuda import cg
from numba.cuda.random import (create_xoroshiro128p_states, xoroshiro128p_normal_float64,
                               xoroshiro128p_uniform_float32)

from cases import case, main

RANDOM = np.random.default_rng(1)
TILE = 16
ALL = 0xffffffff


@case
def vector_add():
    @cuda.jit
    def add(a, b, c):
        i = cuda.grid(1)
        if i < c.size:
            c[i] = a[i] + b[i]
    a = np.arange(100001, dtype=np.float32)
    c = np.zeros_like(a)
    add[391, 256](a, a[::-1].copy(), c)
    assert (c == 100000).all()


@case
def reduction_in_shared_memory():
    @cuda.jit
    def total(a, out):
        part = cuda.shared.array(256, float64)
        t, i = cuda.threadIdx.x, cuda.grid(1)
        part[t] = a[i] if i < a.size else 0.0
        cuda.syncthreads()
        half = 128
        while half > 0:
            if t < half:
                part[t] += part[t + half]
            cuda.syncthreads()
            half //= 2
        if t == 0:
            cuda.atomic.add(out, 0, part[0])
    a, out = RANDOM.random(10007), np.zeros(1)
    total[40, 256](a, out)
    assert np.isclose(out[0], a.sum())


@case
def atomics():
    @cuda.jit
    def all_of_them(a, i32, u32, i64, f64, histogram):
        v = a[cuda.grid(1)]
        cuda.atomic.add(i32, 0, v)
        cuda.atomic.sub(i32, 1, v)
        cuda.atomic.max(i32, 2, v)
        cuda.atomic.min(i32, 3, v)
        cuda.atomic.and_(u32, 0, v | 1)
        cuda.atomic.or_(u32, 1, v)
        cuda.atomic.xor(u32, 2, v)
        cuda.atomic.inc(u32, 3, 99)
        cuda.atomic.dec(u32, 4, 99)
        cuda.atomic.add(i64, 0, int64(v))
        cuda.atomic.add(f64, 0, float64(v))
        cuda.atomic.max(f64, 1, float64(v))
        cuda.atomic.cas(i64, 1, 0, int64(v + 1))
        cuda.atomic.add(histogram, v % 16, 1)
    i32, u32 = np.array([0, 0, -5, 7], np.int32), np.array([ALL, 0, 0, 0, 0], np.uint32)
    i64, f64, histogram = np.zeros(2, np.int64), np.zeros(2), np.zeros(16, np.int32)
    all_of_them[2, 128](np.arange(256, dtype=np.int32), i32, u32, i64, f64, histogram)
    assert list(i32) == [32640, -32640, 255, 0] and list(u32) == [1, 255, 0, 56, 44]
    assert i64[0] == 32640 and 1 <= i64[1] <= 256 and list(f64) == [32640, 255]
    assert (histogram == 16).all()


@case
def matmul_by_tiles():
    @cuda.jit
    def product(a, b, c):
        left, right = cuda.shared.array((TILE, TILE), float32), cuda.shared.array((TILE, TILE), float32)
        x, y = cuda.grid(2)
        tx, ty = cuda.threadIdx.x, cuda.threadIdx.y
        total = float32(0)
        for k in range(0, a.shape[1], TILE):
            left[ty, tx] = a[y, k + tx] if y < a.shape[0] and k + tx < a.shape[1] else float32(0)
            right[ty, tx] = b[k + ty, x] if x < b.shape[1] and k + ty < b.shape[0] else float32(0)
            cuda.syncthreads()
            for j in range(TILE):
                total += left[ty, j] * right[j, tx]
            cuda.syncthreads()
        if y < c.shape[0] and x < c.shape[1]:
            c[y, x] = total
    a, b = (RANDOM.random(shape).astype(np.float32) for shape in ((70, 50), (50, 90)))
    c = np.zeros((70, 90), np.float32)
    product[(6, 5), (TILE, TILE)](a, b, c)
    assert np.allclose(c, a @ b, rtol=1e-4)


@case
def stencil_on_a_plane():
    @cuda.jit
    def smooth(u, v):
        i, j = cuda.grid(2)
        if 0 < i < u.shape[0] - 1 and 0 < j < u.shape[1] - 1:
            v[i, j] = 0.25 * (u[i - 1, j] + u[i + 1, j] + u[i, j - 1] + u[i, j + 1])
    host = RANDOM.random((65, 43))
    now, then = cuda.to_device(host), cuda.to_device(host)
    for _ in range(4):
        smooth[(5, 3), (16, 16)](now, then)
        now, then = then, now
        host[1:-1, 1:-1] = 0.25 * (host[:-2, 1:-1] + host[2:, 1:-1] + host[1:-1, :-2] + host[1:-1, 2:])
    assert np.allclose(now.copy_to_host(), host)


def escape(x, y, most):
    """Steps until the point leaves the Mandelbrot set; Python's, and the device's."""
    c, z = complex(x, y), 0j
    for i in range(most):
        z = z * z + c
        if z.real * z.real + z.imag * z.imag >= 4:
            return i
    return most


@case
def mandelbrot_by_a_device_function():
    device_escape = cuda.jit(device=True)(escape)

    @cuda.jit
    def draw(image, most):
        i, j = cuda.grid(2)
        if i < image.shape[0] and j < image.shape[1]:
            image[i, j] = device_escape(j / 16 - 2, i / 16 - 1, most)
    image = np.zeros((32, 48), np.int32)
    draw[(2, 3), (16, 16)](image, 30)
    here = np.array([[escape(j / 16 - 2, i / 16 - 1, 30) for j in range(48)] for i in range(32)])
    assert (image != here).sum() <= 3           # fused multiplications round once


@case
def warps():
    @cuda.jit
    def look_around(out):
        t = cuda.threadIdx.x
        v = t
        for distance in (16, 8, 4, 2, 1):
            v += cuda.shfl_down_sync(ALL, v, distance)
        out[0, t] = cuda.shfl_sync(ALL, v, 0)
        out[1, t] = cuda.shfl_up_sync(ALL, t, 1)
        out[2, t] = int(cuda.shfl_xor_sync(ALL, float64(t), 3))
        out[3, t] = cuda.ballot_sync(ALL, t % 3 == 0) & ALL
        out[4, t] = cuda.all_sync(ALL, t < 32) + 2 * cuda.any_sync(ALL, t == 40)
        out[5, t] = cuda.match_any_sync(ALL, t % 4) & ALL
        out[6, t] = cuda.popc(cuda.activemask())
        out[7, t] = cuda.syncthreads_count(int32(t % 2 == 0)) + 1000 * cuda.syncthreads_or(int32(t == 3))
        cuda.syncwarp(ALL)
        out[8, t] = cuda.lanemask_lt()
    out = np.zeros((9, 64), np.int64)
    look_around[1, 64](out)
    t = np.arange(64)
    lane = t % 32
    assert (out[0] == np.where(t < 32, 496, 1520)).all()
    assert (out[1] == np.where(lane > 0, t - 1, t)).all() and (out[2] == (t ^ 3)).all()
    assert out[3, 0] == sum(1 << i for i in range(0, 32, 3)) and out[3, 63] == sum(1 << i for i in range(1, 32, 3))
    assert (out[4] == np.where(t < 32, 1, 2)).all() and (out[5] == 0x11111111 << (t % 4)).all()
    assert (out[6] == 32).all() and (out[7] == 1032).all() and (out[8] == (1 << lane) - 1).all()


@case
def grid_synchronisation():
    @cuda.jit("void(int32[:,::1])")
    def rows(m):
        col, grid = cuda.grid(1), cg.this_grid()
        for row in range(1, m.shape[0]):
            m[row, col] = m[row - 1, m.shape[1] - col - 1] + 1
            grid.sync()
    m = np.zeros((32, 128), np.int32)
    rows[4, 32](m)
    assert (m == np.arange(32)[:, None]).all()


@case
def printing():
    @cuda.jit
    def say(x):
        if cuda.grid(1) == 3:
            print("thread", cuda.threadIdx.x, "has", x)
    say[1, 8](2.5)
    cuda.synchronize()


@case
def streams_and_events():
    @cuda.jit
    def increment(a):
        i = cuda.grid(1)
        if i < a.size:
            a[i] += 1
    stream, before, after = cuda.stream(), cuda.event(), cuda.event()
    host = cuda.pinned_array(1000, np.float32)
    host[:] = 0
    before.record(stream)
    device = cuda.to_device(host, stream=stream)
    for _ in range(5):
        increment[4, 256, stream](device)
    device.copy_to_host(host, stream=stream)
    after.record(stream)
    after.wait(cuda.default_stream())
    after.synchronize()
    assert (host == 5).all() and after.query() and cuda.event_elapsed_time(before, after) >= 0


@case
def memory_of_the_host():
    @cuda.jit
    def double(a):
        i = cuda.grid(1)
        if i < a.size:
            a[i] *= 2
    for array in (cuda.mapped_array(100, np.int32), cuda.managed_array(100, np.int64)):
        array[:] = np.arange(100)
        double[1, 128](array)
        cuda.synchronize()
        assert (array == 2 * np.arange(100)).all()
    a = np.arange(100.0)
    with cuda.mapped(a) as device:
        double[1, 128](device)
        cuda.synchronize()
    with cuda.pinned(a):
        assert (cuda.to_device(a).copy_to_host() == 2 * np.arange(100)).all()


@case
def universal_functions():
    @vectorize(["float32(float32,float32)", "float64(float64,float64)"], target="cuda")
    def wave(a, b):
        return math.sin(a) * b + math.sqrt(abs(b))

    @guvectorize(["void(float64[:,:],float64[:],float64[:])"], "(m,n),(n)->(m)", target="cuda")
    def apply(matrix, vector, out):
        for i in range(matrix.shape[0]):
            total = 0.0
            for j in range(matrix.shape[1]):
                total += matrix[i, j] * vector[j]
            out[i] = total
    a, b = np.linspace(-3, 3, 1000), np.linspace(-1, 5, 1000)
    wanted = np.sin(a) * b + np.sqrt(abs(b))
    assert np.allclose(wave(a, b), wanted)
    assert np.allclose(wave(a.astype(np.float32), b.astype(np.float32)), wanted, atol=1e-5)
    matrices, vectors = RANDOM.random((8, 3, 4)), RANDOM.random((8, 4))
    assert np.allclose(apply(matrices, vectors), np.einsum("bij,bj->bi", matrices, vectors))


@case
def reduce_decorator():
    total = cuda.reduce(lambda a, b: a + b)
    a = np.arange(3000.0)
    assert total(a) == a.sum() and total(a[:2], init=5) == 6


@case
def random_numbers():
    @cuda.jit
    def throw_darts(states, pi, normal):
        i, inside = cuda.grid(1), 0
        for _ in range(200):
            x, y = xoroshiro128p_uniform_float32(states, i), xoroshiro128p_uniform_float32(states, i)
            inside += x * x + y * y <= 1
        pi[i] = inside / 50
        normal[i] = xoroshiro128p_normal_float64(states, i)
    pi, normal = np.zeros(64), np.zeros(64)
    throw_darts[1, 64](create_xoroshiro128p_states(64, seed=1), pi, normal)
    assert abs(pi.mean() - math.pi) < 0.05 and abs(normal.mean()) < 0.4 and 0.6 < normal.std() < 1.4


@case
def mathematics():
    names = ["sin", "cos", "exp", "log", "tanh", "atan", "erf", "lgamma", "floor"]
    body = "\n".join(f"    y[i, {n}] = math.{name}(x[i])" for n, name in enumerate(names))
    scope = {"math": math, "cuda": cuda}
    exec(f"def kernel(x, y):\n    i = cuda.grid(1)\n{body}", scope)     # pylint: disable=exec-used
    kernel = cuda.jit(scope["kernel"])
    for dtype, bound in ((np.float32, 2e-5), (np.float64, 1e-12)):
        x = np.linspace(0.01, 3, 64).astype(dtype)
        y = np.zeros((64, len(names)), dtype)
        kernel[2, 32](x, y)
        wanted = [[getattr(math, name)(float(v)) for name in names] for v in x]
        assert np.allclose(y, wanted, rtol=bound, atol=bound)


@case
def halves_complex_numbers_and_bits():
    @cuda.jit
    def compute(h, z, u):
        i = cuda.grid(1)
        h[i] = cuda.fp16.hfma(h[i], h[i], h[i]) - h[i] / (h[i] + h[i])
        z[i] = cmath.exp(z[i]) * z[i] / (z[i] + 1)
        u[i] = (cuda.popc(u[i]) << 16) + (cuda.clz(u[i]) << 8) + u[i] % 7
    h = np.linspace(1, 2, 32).astype(np.float16)
    z = RANDOM.random(32) + 1j * RANDOM.random(32)
    u = RANDOM.integers(1, 2**31, 32).astype(np.uint32)
    wanted = (h.astype(np.float32) ** 2 + h - 0.5, np.exp(z) * z / (z + 1),
              [(int(v).bit_count() << 16) + (32 - int(v).bit_length() << 8) + v % 7 for v in u])
    compute[1, 32](h, z, u)
    assert np.allclose(h, wanted[0], atol=0.01) and np.allclose(z, wanted[1]) and (u == wanted[2]).all()


@case
def records_constants_and_local_arrays():
    table = np.arange(16, dtype=np.float32) ** 2

    @cuda.jit
    def mix(records, out):
        constants, mine = cuda.const.array_like(table), cuda.local.array(8, float32)
        shared = cuda.shared.array(0, int32)    # as long as the launch says
        i, total = cuda.grid(1), 0.0
        for j in range(8):
            mine[j] = constants[(i + j) % 16]
        for j in range(8):
            total += mine[j * 3 % 8]
        shared[i] = i
        cuda.syncthreads()
        records[i].a = shared[15 - i]
        out[i] = total + records[i].b
    records, out = np.zeros(16, np.dtype([("a", np.int32), ("b", np.float64)], align=True)), np.zeros(16)
    records["b"] = 0.5
    mix[1, 16, 0, 64](records, out)
    assert (records["a"] == np.arange(16)[::-1]).all()
    assert np.allclose(out, [sum(table[(i + j) % 16] for j in range(8)) + 0.5 for i in range(16)])


@case
def an_exception_in_a_kernel():
    @cuda.jit(debug=True, opt=False)
    def divide(a):
        a[cuda.grid(1)] = 1 // a[1]
    try:
        divide[1, 2](np.zeros(4, np.int32))
        cuda.synchronize()
    except ZeroDivisionError:
        return
    raise AssertionError("1 // 0 went by in silence")


@case
def closing_gives_everything_back():
    """The last of all, since Numba does not begin again: it frees with no context current."""
    kept = [cuda.to_device(np.arange(8)), cuda.pinned_array(8), cuda.mapped_array(8), cuda.managed_array(8),
            cuda.stream(), cuda.event()]
    kept[4].synchronize()
    del kept
    cuda.close()


def leaves_its_array():
    """Not of the cases, since it leaves the context broken: ends with an error of the driver."""
    @cuda.jit
    def wild(a):
        a[cuda.grid(1) + (1 << 40)] = 1
    wild[1, 32](cuda.to_device(np.zeros(4)))
    cuda.synchronize()


if __name__ == "__main__":
    import sys
    if sys.argv[1:] == ["leaves_its_array"]:
        leaves_its_array()
    else:
        main()
