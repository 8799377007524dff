#!/usr/bin/env python3
"""Four kernels on the emulated GPU (or any driver): seconds, and processor time of all its threads. Needs nvcc."""
import argparse
import pathlib
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


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('--driver', default=str(ROOT / 'cpu/libcuda-emu.so'))
    parser.add_argument('--nvcc', default='/usr/local/cuda/bin/nvcc')
    args = parser.parse_args()
    source = ROOT / 'build' / 'emulated.cu'
    source.parent.mkdir(exist_ok=True)
    source.write_text(SOURCE)
    subprocess.run([args.nvcc, '-arch=compute_90', '-ptx', '-o', source.with_suffix('.ptx'), source], check=True)
    driver = Driver(args.driver)
    module = driver.load(source.with_suffix('.ptx').read_text())
    buffers = [driver.memory(1 << 26) for _ in range(3)]
    for buffer in buffers:
        driver.zero(buffer, 1 << 26)
    print(f'{"":12}{"s":>8}{"cpu s":>8}  M/s')
    for name, size, grid, block, what, work in ROWS:
        began, used = time.time(), processor()
        driver.launch(module, name, block, *buffers, size, grid=grid)
        wall = time.time() - began
        print(f'{name:12}{wall:8.2f}{processor() - used:8.2f}  {work / wall / 1e6:.1f} {what}')


if __name__ == '__main__':
    main()
