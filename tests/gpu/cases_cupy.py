"""tests/gpu/cases_cupy.py - CuPy: NVIDIA's libraries and kernels from strings, on the same arrays."""
import numpy

from harness import Missing, case

try:
    import cupy
except ModuleNotFoundError:
    cupy = None


def numbers(*shape, dtype=numpy.float64):
    """The same numbers each time."""
    if cupy is None:
        raise Missing("No module named 'cupy'")
    return cupy.asarray(numpy.random.default_rng(1).standard_normal(shape).astype(dtype))


@case()
def matmul():
    a, b = numbers(200, 200), numbers(300, 300, dtype=numpy.float32)
    return a @ a, b @ b, cupy.einsum("ij,kj->ik", a, a), numbers(64, 64).astype(numpy.float16).dot(
        numbers(64, 64).astype(numpy.float16))


@case()
def elementwise_and_reductions():
    a = numbers(100, 200)
    return cupy.sin(a) + a ** 2, a.sum(0), a.mean(), a.argmax(1), cupy.where(a > 0, a, 0), a.std(1)


@case()
def fft():
    a = numbers(64, 100)
    return cupy.fft.fft(a), cupy.fft.rfft2(a), cupy.fft.ifftn(numbers(8, 9, 10))


@case(tolerance=1e-9)
def solve_svd_eigh():
    a = numbers(100, 100)
    return (cupy.linalg.solve(a, a[0]), cupy.linalg.svd(a)[1], cupy.linalg.eigvalsh(a + a.T), cupy.linalg.inv(a),
            cupy.linalg.qr(a)[1], cupy.linalg.cholesky(a @ a.T + 100 * cupy.eye(100)))


@case(tolerance=1e-9)
def sparse():
    dense = numbers(100, 100) * (numbers(100, 100) > 1)
    import cupyx.scipy.sparse as sparse_arrays
    m = sparse_arrays.csr_matrix(dense)
    return m @ numbers(100), m @ numbers(100, 20), (m @ m).toarray(), m.T.tocoo().tocsc().toarray()


@case()
def raw_kernel():
    a = numbers(200, 200)
    twice = cupy.RawKernel("extern \"C\" __global__ void twice(double *p)"
                           "{ p[blockIdx.x * blockDim.x + threadIdx.x] *= 2; }", "twice")
    twice((200,), (200,), (a,))
    return a, twice.num_regs, twice.max_threads_per_block


@case()
def raw_module_with_constant_and_shared_memory():
    code = """__constant__ float factors[4];
    extern "C" __global__ void k(float *x) { extern __shared__ float s[]; s[threadIdx.x] = x[threadIdx.x];
    __syncthreads(); x[threadIdx.x] = s[blockDim.x - 1 - threadIdx.x] * factors[threadIdx.x % 4]; }"""
    module = cupy.RawModule(code=code) if cupy else numbers()
    at = module.get_global("factors")
    cupy.ndarray((4,), cupy.float32, at)[...] = cupy.arange(4, dtype=cupy.float32)
    x = numbers(64, dtype=numpy.float32)
    module.get_function("k")((1,), (64,), (x,), shared_mem=256)
    return x


@case()
def elementwise_kernel():
    f = cupy.ElementwiseKernel("T x, T y", "T z", "z = (x - y) * (x - y)", "f") if cupy else numbers()
    return f(numbers(50, 50), numbers(50)), f(numbers(9, dtype=numpy.float32), numpy.float32(2))


@case()
def reduction_kernel():
    f = cupy.ReductionKernel("T x", "T y", "x * x", "a + b", "y = sqrt(a)", "0", "l2") if cupy else numbers()
    return f(numbers(100, 50), axis=1), f(numbers(1000))


@case()
def fused_kernel():
    def distance(x, y):
        return cupy.sqrt((x - y) ** 2 + 1)
    a = numbers(100)
    return cupy.fuse(distance)(a, a[::-1])


@case()
def random_numbers():
    numbers(1)
    cupy.random.seed(7)
    g = cupy.random.default_rng(7)
    return (cupy.random.rand(100), cupy.random.randn(100), cupy.random.randint(0, 9, 100), g.random(100),
            g.standard_normal(100))


@case()
def sort_and_search():
    a = numbers(10000)
    return cupy.sort(a), cupy.argsort(a), cupy.unique(cupy.floor(a)), cupy.cumsum(a), cupy.bincount(
        cupy.abs(a).astype(int)), cupy.percentile(a, 30), cupy.partition(a, 100)[:100].max()


@case()
def streams_and_events():
    a = numbers(300, 300)
    with cupy.cuda.Stream(non_blocking=True) as s:
        begin, end = cupy.cuda.Event(), cupy.cuda.Event()
        begin.record()
        b = a @ a
        end.record()
    s.synchronize()
    return b, cupy.cuda.get_elapsed_time(begin, end) > 0


@case()
def memory_pools():
    numbers(1)
    pool = cupy.get_default_memory_pool()
    pool.free_all_blocks()
    before = pool.used_bytes()
    a = cupy.zeros(1 << 20)
    held = pool.used_bytes() - before
    del a
    pool.free_all_blocks()
    return held, pool.used_bytes() - before


@case()
def stream_ordered_pool():
    """cudaMallocAsync."""
    numbers(1)
    with cupy.cuda.using_allocator(cupy.cuda.MemoryAsyncPool().malloc):
        a = cupy.arange(100000.0)
        return (a * 2).sum(), a[::7].copy()


@case()
def managed_memory_pool():
    numbers(1)
    with cupy.cuda.using_allocator(cupy.cuda.MemoryPool(cupy.cuda.malloc_managed).malloc):
        a = cupy.arange(100000.0)
        return (a * 2).sum(), a[::7].copy()


@case()
def pinned_memory():
    import cupyx
    a = numbers(1000, 100)
    host = cupyx.empty_pinned((1000, 100))
    a.get(out=host)
    b = cupyx.zeros_like_pinned(host)
    b[...] = host * 2
    return cupy.asarray(b), host


@case()
def textures():
    from cupy.cuda import runtime, texture
    numbers(1)
    channel = texture.ChannelFormatDescriptor(32, 0, 0, 0, runtime.cudaChannelFormatKindFloat)
    array = texture.CUDAarray(channel, 32, 16)
    image = numpy.arange(512, dtype=numpy.float32).reshape(16, 32)
    array.copy_from(image)
    resource = texture.ResourceDescriptor(runtime.cudaResourceTypeArray, cuArr=array)
    how = texture.TextureDescriptor((runtime.cudaAddressModeClamp,) * 2, runtime.cudaFilterModeLinear,
                                    runtime.cudaReadModeElementType)
    kernel = cupy.RawKernel("""extern "C" __global__ void read(cudaTextureObject_t t, float *out) {
        int x = threadIdx.x, y = blockIdx.x; out[y * 32 + x] = tex2D<float>(t, x + 1.0f, y + 0.5f); }""", "read")
    out = cupy.zeros((16, 32), dtype=cupy.float32)
    kernel((16,), (32,), (texture.TextureObject(resource, how), out))
    return out


@case()
def graph_of_a_stream():
    a = numbers(100)
    stream = cupy.cuda.Stream(non_blocking=True)
    with stream:
        a *= 2                      # compiled before the capture
        stream.begin_capture()
        a *= 2
        graph = stream.end_capture()
        graph.launch()
        graph.launch()
    stream.synchronize()
    return a


@case()
def device_and_runtime_say():
    numbers(1)
    p = cupy.cuda.runtime.getDeviceProperties(0)
    free, total = cupy.cuda.runtime.memGetInfo()
    return [p["name"].decode(), p["totalGlobalMem"], p["multiProcessorCount"], cupy.cuda.Device().compute_capability,
            cupy.cuda.runtime.getDeviceCount(), cupy.cuda.runtime.driverGetVersion(), 0 < free < total]


@case()
def wrong_calls_raise():
    numbers(1)
    said = []
    for f in (lambda: cupy.cuda.runtime.setDevice(99), lambda: cupy.cuda.runtime.malloc(1 << 60),
              lambda: cupy.RawKernel("not C", "k")((1,), (1,), ())):
        try:
            f()
        except Exception as e:  # pylint: disable=broad-except; three kinds of errors
            said.append(type(e).__name__ + " " + str(e).splitlines()[0].split("/")[0])
    return said
