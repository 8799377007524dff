"""bench/try_cupy.py - a few CuPy operations, checked against NumPy."""
import cupy
import numpy

a = numpy.random.default_rng(1).random((200, 200))
b = cupy.asarray(a)
assert numpy.allclose(cupy.asnumpy(b @ b), a @ a)
assert numpy.allclose(cupy.asnumpy(cupy.fft.fft(b)), numpy.fft.fft(a))
assert numpy.allclose(cupy.asnumpy(cupy.linalg.solve(b, b[0])), numpy.linalg.solve(a, a[0]))
double = cupy.RawKernel("extern \"C\" __global__ void twice(double *p)"
                        "{ p[blockIdx.x * blockDim.x + threadIdx.x] *= 2; }", "twice")
double((200,), (200,), (b,))
assert numpy.allclose(cupy.asnumpy(b), 2 * a)
print("matmul, fft, solve, RawKernel: right")
