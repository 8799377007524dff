"""tests/gpu/cases_compilers.py - Python to kernels: Triton by hand, Numba, NVIDIA's own bindings."""
import ctypes

import numpy

from harness import Missing, case

CODE = b"""extern "C" __global__ void axpy(float a, const float *x, float *y, int n)
{ int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) y[i] = a * x[i] + y[i]; }"""
N = 1000


# --- Triton

try:
    import triton
    from triton import language as tl

    @triton.jit
    def add_kernel(x, y, out, n, BLOCK: tl.constexpr):
        at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        inside = at < n
        tl.store(out + at, tl.load(x + at, inside) + tl.load(y + at, inside), inside)

    @triton.jit
    def dot_kernel(a, b, c, K, SIZE: tl.constexpr):
        i = tl.arange(0, SIZE)
        total = tl.zeros((SIZE, SIZE), tl.float32)
        for k in range(0, K, SIZE):
            total += tl.dot(tl.load(a + i[:, None] * K + k + i[None, :]), tl.load(b + (k + i[:, None]) * SIZE + i[None, :]))
        tl.store(c + i[:, None] * SIZE + i[None, :], total)

    @triton.jit
    def softmax_kernel(x, out, COLUMNS: tl.constexpr):
        at = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
        row = tl.exp(tl.load(x + at) - tl.max(tl.load(x + at), 0))
        tl.store(out + at, row / tl.sum(row, 0))
except ModuleNotFoundError:
    triton = None


def of_torch(*shape):
    if triton is None:
        raise Missing("No module named 'triton'")
    import torch
    torch.manual_seed(5)
    return torch, torch.randn(*shape, device="cuda")


@case(seconds=120)
def triton_add():
    torch, x = of_torch(10000)
    out = torch.empty_like(x)
    add_kernel[(triton.cdiv(10000, 256),)](x, x.flip(0), out, 10000, BLOCK=256)
    return out


@case(seconds=120)
def triton_dot():
    torch, a = of_torch(64, 512)
    b, c = torch.randn(512, 64, device="cuda").half(), torch.empty(64, 64, device="cuda")
    dot_kernel[(1,)](a.half(), b, c, 512, SIZE=64)
    return c


@case(seconds=120)
def triton_softmax_with_more_warps():
    torch, x = of_torch(50, 1024)
    out = torch.empty_like(x)
    softmax_kernel[(50,)](x, out, COLUMNS=1024, num_warps=8)
    return out


@case(seconds=180)
def triton_autotune():
    torch, x = of_torch(1 << 16)
    tuned = triton.autotune([triton.Config({"BLOCK": n}) for n in (128, 512)], key=["n"])(add_kernel)
    out = torch.empty_like(x)
    tuned[lambda meta: (triton.cdiv(1 << 16, meta["BLOCK"]),)](x, x, out, 1 << 16)
    return out


# --- Numba

@case(seconds=120)
def numba_vector_add():
    from numba import cuda

    @cuda.jit
    def add(x, y, out):
        i = cuda.grid(1)
        if i < out.size:
            out[i] = x[i] + y[i]
    x = numpy.arange(N, dtype=numpy.float32)
    out = cuda.device_array(N, dtype=numpy.float32)
    add[8, 128](cuda.to_device(x), cuda.to_device(x * 2), out)
    return out.copy_to_host()


@case(seconds=120)
def numba_shared_memory_and_atomics():
    from numba import cuda, float32

    @cuda.jit
    def total(x, out):
        part = cuda.shared.array(128, float32)
        i, t = cuda.grid(1), cuda.threadIdx.x
        part[t] = x[i] if i < x.size else 0
        cuda.syncthreads()
        step = 64
        while step:
            if t < step:
                part[t] += part[t + step]
            cuda.syncthreads()
            step //= 2
        if t == 0:
            cuda.atomic.add(out, 0, part[0])
    out = cuda.to_device(numpy.zeros(1, dtype=numpy.float32))
    total[8, 128](numpy.ones(N, dtype=numpy.float32), out)
    return out.copy_to_host()


@case(seconds=120)
def numba_streams_pinned_and_reduce():
    from numba import cuda
    stream = cuda.stream()
    host = cuda.pinned_array(N, dtype=numpy.float64)
    host[:] = numpy.arange(N)
    dev = cuda.to_device(host, stream=stream)
    stream.synchronize()
    return cuda.reduce(lambda a, b: a + b)(dev), dev[::3].copy_to_host()


# --- cuda-python: the driver, the runtime, NVRTC

def must(result):
    """The value of a call of cuda.bindings, which returns (error, values...)."""
    error, *values = result
    if int(error) != 0:
        raise RuntimeError(str(error))
    return values[0] if len(values) == 1 else values


def compiled(kind):
    """CODE as a cubin or as PTX for this device."""
    from cuda.bindings import driver, nvrtc
    must(driver.cuInit(0))
    device = must(driver.cuDeviceGet(0))
    attribute = driver.CUdevice_attribute
    major = must(driver.cuDeviceGetAttribute(attribute.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device))
    minor = must(driver.cuDeviceGetAttribute(attribute.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device))
    program = must(nvrtc.nvrtcCreateProgram(CODE, b"axpy.cu", 0, [], []))
    option = f"-arch={'sm' if kind == 'cubin' else 'compute'}_{major}{minor}".encode()
    must(nvrtc.nvrtcCompileProgram(program, 1, [option]))
    size, get = (nvrtc.nvrtcGetCUBINSize, nvrtc.nvrtcGetCUBIN) if kind == "cubin" else \
        (nvrtc.nvrtcGetPTXSize, nvrtc.nvrtcGetPTX)
    image = b" " * must(size(program))
    must(get(program, image))
    return device, image


def axpy(kind):
    from cuda.bindings import driver
    device, image = compiled(kind)
    context = must(driver.cuDevicePrimaryCtxRetain(device))
    must(driver.cuCtxSetCurrent(context))
    function = must(driver.cuModuleGetFunction(must(driver.cuModuleLoadData(image)), b"axpy"))
    x, y = numpy.arange(N, dtype=numpy.float32), numpy.ones(N, dtype=numpy.float32)
    dx, dy = must(driver.cuMemAlloc(x.nbytes)), must(driver.cuMemAlloc(x.nbytes))
    stream = must(driver.cuStreamCreate(0))
    must(driver.cuMemcpyHtoDAsync(dx, x.ctypes.data, x.nbytes, stream))
    must(driver.cuMemcpyHtoDAsync(dy, y.ctypes.data, x.nbytes, stream))
    values = ((2.5, dx, dy, N), (ctypes.c_float, None, None, ctypes.c_int))
    must(driver.cuLaunchKernel(function, 8, 1, 1, 128, 1, 1, 0, stream, values, 0))
    must(driver.cuMemcpyDtoHAsync(y.ctypes.data, dy, x.nbytes, stream))
    must(driver.cuStreamSynchronize(stream))
    must(driver.cuMemFree(dx))
    must(driver.cuDevicePrimaryCtxRelease(device))
    return y


@case()
def cuda_python_driver_and_nvrtc_cubin():
    return axpy("cubin")


@case()
def cuda_python_driver_and_nvrtc_ptx():
    return axpy("ptx")


@case()
def cuda_python_runtime():
    from cuda.bindings import runtime
    kinds = runtime.cudaMemcpyKind
    at, x = must(runtime.cudaMalloc(4096)), numpy.arange(1024, dtype=numpy.int32)
    must(runtime.cudaMemcpy(at, x.ctypes.data, 4096, kinds.cudaMemcpyHostToDevice))
    must(runtime.cudaMemset(at, 1, 16))
    must(runtime.cudaMemcpy(x.ctypes.data, at, 4096, kinds.cudaMemcpyDeviceToHost))
    must(runtime.cudaFree(at))
    p = must(runtime.cudaGetDeviceProperties(0))
    return x, p.name.decode(), p.major, p.multiProcessorCount, must(runtime.cudaRuntimeGetVersion())


@case()
def cuda_core():
    from cuda.core import Device, LaunchConfig, Program, ProgramOptions, launch
    device = Device()
    device.set_current()
    stream = device.create_stream()
    program = Program(CODE.decode(), code_type="c++", options=ProgramOptions(arch=f"sm_{device.arch}"))
    kernel = program.compile("cubin").get_kernel("axpy")
    x = device.allocate(4 * N, stream=stream)
    launch(stream, LaunchConfig(grid=8, block=128), kernel, numpy.float32(0), int(x.handle), int(x.handle),
           numpy.int32(0))
    stream.sync()
    return device.name, device.properties.multiprocessor_count
