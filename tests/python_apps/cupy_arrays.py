"""tests/python_apps/cupy_arrays.py - CuPy's ways to a kernel, each result compared with NumPy's.

It knows nothing of Cricket: `python3 cupy_arrays.py [CASE...]` runs wherever CuPy finds a GPU.
"""
import cupy as cp
import numpy as np
from cupy.cuda import runtime, texture
from cupyx import jit

from cases import case, main

RANDOM = np.random.default_rng(1)


@case
def raw_kernel():
    add = cp.RawKernel(r"""
        extern "C" __global__ void add(const float *a, const float *b, float *c, int n)
        { int i = blockDim.x * blockIdx.x + threadIdx.x; if (i < n) c[i] = a[i] + b[i]; }""", "add")
    a = cp.arange(1000, dtype=cp.float32)
    c = cp.empty_like(a)
    add((4,), (256,), (a, 2 * a, c, np.int32(1000)))
    assert (c.get() == np.arange(1000) * 3).all()
    assert add.num_regs > 0 and add.max_threads_per_block == 1024


@case
def raw_module():
    module = cp.RawModule(code=r"""
        #include <cuda_fp16.h>
        __constant__ float table[4];
        __device__ int calls;
        template<typename T> __global__ void scale(T *x, T by)
        { x[threadIdx.x] *= by; if (threadIdx.x == 0) atomicAdd(&calls, 1); }
        extern "C" __global__ void look_up(float *o, int *n) { o[threadIdx.x] = table[threadIdx.x % 4]; *n = calls; }
        extern "C" __global__ void halves(__half *h) { h[threadIdx.x] = __hadd(h[threadIdx.x], __float2half(1.5f)); }
        extern "C" __global__ void say(double x) { printf("thread %d has %f\n", threadIdx.x, x); }
        """, options=("-std=c++17",), name_expressions=["scale<int>", "scale<double>"])
    for dtype, name in ((cp.int32, "scale<int>"), (cp.float64, "scale<double>")):
        x = cp.arange(32, dtype=dtype)
        module.get_function(name)((1,), (32,), (x, x.dtype.type(3)))
        assert (x.get() == np.arange(32) * 3).all()
    cp.ndarray((4,), cp.float32, module.get_global("table"))[:] = cp.array([1, 2, 3, 4], cp.float32)
    out, calls, halves = cp.zeros(8, cp.float32), cp.zeros(1, cp.int32), cp.ones(8, cp.float16)
    module.get_function("look_up")((1,), (8,), (out, calls))
    module.get_function("halves")((1,), (8,), (halves,))
    assert list(out.get()) == [1, 2, 3, 4] * 2 and int(calls[0]) == 2 and (halves.get() == 2.5).all()
    module.get_function("say")((1,), (2,), (1.5,))
    cp.cuda.Device().synchronize()


@case
def grid_synchronisation():
    rotate = cp.RawKernel(r"""
        #include <cooperative_groups.h>
        extern "C" __global__ void rotate(int *a, int n)
        {
            auto grid = cooperative_groups::this_grid();
            int i = grid.thread_rank();
            for (int step = 0; step < 5; step++) {
                int next = a[(i + 1) % n];
                grid.sync();
                a[i] = next;
                grid.sync();
            }
        }""", "rotate", options=("-std=c++17",), enable_cooperative_groups=True)
    a = cp.arange(128, dtype=cp.int32)
    rotate((4,), (32,), (a, np.int32(128)))
    assert (a.get() == (np.arange(128) + 5) % 128).all()


@case
def elementwise_kernel():
    difference = cp.ElementwiseKernel("float32 x, float32 y", "float32 z", "z = (x - y) * (x - y)", "difference")
    x, y = cp.arange(10, dtype=cp.float32).reshape(2, 5), cp.arange(5, dtype=cp.float32)
    assert (difference(x, y).get() == (x.get() - y.get()) ** 2).all()
    generic = cp.ElementwiseKernel("T x, raw T y", "T z", "z = x + y[_ind.size() - 1 - i]", "generic")
    assert (generic(cp.arange(9), cp.arange(9)).get() == 8).all()


@case
def reduction_kernel():
    length = cp.ReductionKernel("T x", "T y", "x * x", "a + b", "y = sqrt(a)", "0", "length")
    x = RANDOM.random((10, 100))
    for axis in (None, 0, 1):
        assert np.allclose(length(cp.asarray(x), axis=axis).get(), np.sqrt((x * x).sum(axis=axis)))


@case
def universal_functions():
    host = np.linspace(0.1, 3, 300)
    x = cp.asarray(host)
    for name in ("sin", "exp", "log1p", "tanh"):
        assert np.allclose(getattr(cp, name)(x).get(), getattr(np, name)(host)), name
    whole = np.arange(-50, 50)
    assert (cp.asarray(whole) // 7).get().tolist() == (whole // 7).tolist()
    half = host.astype(np.float16)
    assert np.allclose((cp.asarray(half) * cp.float16(2)).get(), half * 2)
    assert np.allclose(cp.exp(1j * x).get(), np.exp(1j * host))


@case
def reductions_and_scans():
    host = RANDOM.random((37, 53))
    x = cp.asarray(host)
    for name in ("sum", "max", "mean", "argmin"):
        for axis in (None, 1):
            assert np.allclose(getattr(x, name)(axis=axis).get(), getattr(host, name)(axis=axis)), name
    assert np.allclose(cp.cumsum(x, axis=1).get(), host.cumsum(axis=1))
    assert (cp.bincount(cp.arange(100) % 7).get() == np.bincount(np.arange(100) % 7)).all()


@case
def indexing():
    host, chosen = np.arange(120).reshape(10, 12), np.array([3, 1, 4, 1, 5])
    x = cp.asarray(host)
    assert (x[cp.asarray(chosen)].get() == host[chosen]).all()
    assert (x[::2, ::-3].get() == host[::2, ::-3]).all()
    assert (x[x % 5 == 0].get() == host[host % 5 == 0]).all()
    assert (cp.concatenate([x.T, x.T]).get() == np.concatenate([host.T, host.T])).all()
    x[cp.asarray([0, 2]), 3] = -1
    assert int(x[2, 3]) == -1 and int(cp.where(x < 0, x, 0).sum()) == -2


@case
def fused_and_just_in_time():
    @cp.fuse()
    def hypotenuse(a, b):
        return cp.sqrt(a * a + b * b)

    @jit.rawkernel()
    def turn_round(x, y):
        i = jit.blockIdx.x * jit.blockDim.x + jit.threadIdx.x
        shared = jit.shared_memory(cp.float32, 64)
        shared[jit.threadIdx.x] = x[i]
        jit.syncthreads()
        y[i] = shared[63 - jit.threadIdx.x] + jit.shfl_xor_sync(0xffffffff, x[i], 1)
    x = cp.arange(128, dtype=cp.float32)
    y = cp.zeros_like(x)
    turn_round((2,), (64,), (x, y))
    i = np.arange(128)
    assert (y.get() == (i // 64 * 64 + 63 - i % 64) + (i ^ 1)).all()
    assert np.allclose(hypotenuse(x, y).get(), np.hypot(x.get(), y.get()))


@case
def streams_events_and_graphs():
    stream, before, after = cp.cuda.Stream(non_blocking=True), cp.cuda.Event(), cp.cuda.Event()
    increment = cp.ElementwiseKernel("", "T x", "x += 1", "increment")
    a, called = cp.zeros(10), []
    increment(a)
    cp.cuda.Device().synchronize()
    with stream:
        before.record()
        increment(a)
        after.record()
        stream.launch_host_func(called.append, 7)
        stream.synchronize()
        stream.begin_capture()
        increment(a)
        graph = stream.end_capture()
        graph.launch(stream)
        graph.launch(stream)
    stream.synchronize()
    assert (a.get() == 4).all() and called == [7] and cp.cuda.get_elapsed_time(before, after) >= 0


@case
def memory():
    pinned = np.frombuffer(cp.cuda.alloc_pinned_memory(4000), np.float32, 1000)
    pinned[:] = 7
    device = cp.empty(1000, cp.float32)
    device.set(pinned)
    assert (device.get() == 7).all()
    for allocator in (cp.cuda.malloc_managed, cp.cuda.malloc_async):
        with cp.cuda.using_allocator(allocator):
            assert int(cp.arange(10).sum()) == 45
    del device
    cp.get_default_memory_pool().free_all_blocks()
    assert int(cp.from_dlpack(cp.arange(10)).sum()) == 45


@case
def textures():
    host = np.arange(32, dtype=np.float32).reshape(4, 8)
    channel = texture.ChannelFormatDescriptor(32, 0, 0, 0, runtime.cudaChannelFormatKindFloat)
    array = texture.CUDAarray(channel, 8, 4)
    array.copy_from(host)
    clamp = runtime.cudaAddressModeClamp
    image = texture.TextureObject(
        texture.ResourceDescriptor(runtime.cudaResourceTypeArray, cuArr=array),
        texture.TextureDescriptor((clamp, clamp), runtime.cudaFilterModePoint, runtime.cudaReadModeElementType))
    read = cp.RawKernel(r"""
        extern "C" __global__ void read(float *o, cudaTextureObject_t image)
        { o[threadIdx.y * 8 + threadIdx.x] = tex2D<float>(image, threadIdx.x + 0.5f, threadIdx.y + 0.5f); }""", "read")
    out = cp.zeros((4, 8), cp.float32)
    read((1,), (8, 4), (out, image))
    assert (out.get() == host).all()


def leaves_its_array():
    """Not of the cases, since it leaves the context broken: ends with an error of the driver."""
    wild = cp.RawKernel('extern "C" __global__ void wild(int *a) { a[(1ll << 40) + threadIdx.x] = 1; }', "wild")
    wild((1,), (32,), (cp.zeros(4, cp.int32),))
    cp.cuda.Device().synchronize()


if __name__ == "__main__":
    import sys
    if sys.argv[1:] == ["leaves_its_array"]:
        leaves_its_array()
    else:
        main()
