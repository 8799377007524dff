#!/usr/bin/env python3
"""Four kernels on the emulated GPU: seconds, processor time of all its threads, instructions of a lane in a second of it.

Needs nvcc. The instructions are counted in a first run (CRICKET_EMU=check=count) in a process of its own; another driver
than the emulated one counts none.
"""
import argparse
import ctypes
import os
import pathlib
import re
import resource
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / 'tests/conformance'))
from driver import Driver  # noqa: E402

SOURCE = r'''
extern "C" __global__ void vector_add(const float *a, const float *b, float *c, unsigned n)
{
	unsigned i = blockIdx.x * blockDim.x + threadIdx.x;

	if (i < n)
		c[i] = a[i] + b[i];
}

extern "C" __global__ void matmul(const float *a, const float *b, float *c, unsigned n)
{
	__shared__ float A[16][16], B[16][16];
	unsigned x = blockIdx.x * 16 + threadIdx.x, y = blockIdx.y * 16 + threadIdx.y;
	float sum = 0;

	for (unsigned t = 0; t < n / 16; t++) {
		A[threadIdx.y][threadIdx.x] = a[y * n + t * 16 + threadIdx.x];
		B[threadIdx.y][threadIdx.x] = b[(t * 16 + threadIdx.y) * n + x];
		__syncthreads();
		for (unsigned k = 0; k < 16; k++)
			sum += A[threadIdx.y][k] * B[k][threadIdx.x];
		__syncthreads();
	}
	c[y * n + x] = sum;
}

extern "C" __global__ void reduction(const float *a, const float *unused, float *out, unsigned n)
{
	__shared__ float part[256];
	float sum = 0;

	for (unsigned i = blockIdx.x * 256 + threadIdx.x; i < n; i += gridDim.x * 256)
		sum += a[i];
	part[threadIdx.x] = sum;
	__syncthreads();
	for (unsigned k = 128; k > 0; k /= 2) {
		if (threadIdx.x < k)
			part[threadIdx.x] += part[threadIdx.x + k];
		__syncthreads();
	}
	if (threadIdx.x == 0)
		atomicAdd(out, part[0]);
}

extern "C" __global__ void n_body(const float4 *p, const float *unused, float4 *acc, unsigned n)
{
	unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
	float4 me = p[i];
	float x = 0, y = 0, z = 0;

	for (unsigned j = 0; j < n; j++) {
		float4 o = p[j];
		float dx = o.x - me.x, dy = o.y - me.y, dz = o.z - me.z;
		float r = rsqrtf(dx * dx + dy * dy + dz * dz + 1e-6f), f = o.w * r * r * r;

		x += f * dx;
		y += f * dy;
		z += f * dz;
	}
	acc[i] = make_float4(x, y, z, 0);
}
'''
# kernel, size, grid, block, and the work that is named in the table
ROWS = (('vector_add', 1 << 24, (1 << 16, 1, 1), (256, 1, 1), 'additions', 1 << 24),
        ('matmul', 1024, (64, 64, 1), (16, 16, 1), 'multiply-adds', 1024 ** 3),
        ('reduction', 1 << 24, (256, 1, 1), (256, 1, 1), 'additions', 1 << 24),
        ('n_body', 4096, (16, 1, 1), (256, 1, 1), 'pairs', 4096 ** 2))


def processor():
    use = resource.getrusage(resource.RUSAGE_SELF)
    return use.ru_utime + use.ru_stime


class Bench:
    """The kernels, and the memory they work on."""

    def __init__(self, library, ptx):
        self.driver = Driver(library)
        self.module = self.driver.load(ptx)
        self.buffers = [self.driver.memory(1 << 26) for _ in range(3)]
        for buffer in self.buffers:
            self.driver.zero(buffer, 1 << 26)

    def run(self, name, size, grid, block):
        """Seconds, and those of a processor; waiting takes none."""
        function = ctypes.c_void_p()
        self.driver('cuModuleGetFunction', ctypes.byref(function), self.module, name.encode())
        values = [ctypes.c_uint64(b.value) for b in self.buffers] + [ctypes.c_uint32(size)]
        params = (ctypes.c_void_p * len(values))(*map(ctypes.addressof, values))
        began, used = time.time(), processor()
        self.driver('cuLaunchKernel', function, *grid, *block, 0, None, params, None)
        self.driver('cuCtxSynchronize')
        return time.time() - began, processor() - used


def count(args, names):
    """How many instructions each kernel's threads carry out, {} without counts."""
    command = [sys.executable, __file__, '--driver', args.driver, '--nvcc', args.nvcc, '--once', *names]
    out = subprocess.run(command, env={**os.environ, 'CRICKET_EMU': 'check=count'}, capture_output=True, text=True, check=True)
    return {name: int(n) for name, n in re.findall(r'kernel (\w+): (\d+) instructions of lanes', out.stderr)}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('--driver', default=str(ROOT / 'cpu/libcuda-emu.so'))
    parser.add_argument('--nvcc', default='/usr/local/cuda/bin/nvcc')
    parser.add_argument('--runs', type=int, default=3, help='the quickest of so many is reported')
    parser.add_argument('--once', nargs='*', help=argparse.SUPPRESS)
    args = parser.parse_args()
    source = ROOT / 'build' / 'emulated.cu'
    source.parent.mkdir(exist_ok=True)
    if args.once is None:
        source.write_text(SOURCE)
        subprocess.run([args.nvcc, '-arch=compute_90', '-ptx', '-o', source.with_suffix('.ptx'), source], check=True)
    bench = Bench(args.driver, source.with_suffix('.ptx').read_text())
    if args.once is not None:
        for name, size, grid, block, *_ in ROWS:
            if name in args.once:
                bench.run(name, size, grid, block)
        return
    counts = count(args, [row[0] for row in ROWS])
    print(f'{"":12}{"s":>8}{"cpu s":>8}  {"M/s":<24}{"M lane instructions":>20}{"M of them / cpu s":>20}')
    for name, size, grid, block, what, work in ROWS:
        wall, used = min(bench.run(name, size, grid, block) for _ in range(args.runs))
        done = counts.get(name, 0)
        print(f'{name:12}{wall:8.2f}{used:8.2f}  {f"{work / wall / 1e6:.1f} {what}":<24}{done / 1e6:20.0f}{done / used / 1e6:20.0f}')


if __name__ == '__main__':
    main()
