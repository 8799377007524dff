/* Kernels of tests/e2e/test_launcher.py; kernels.ptx beside it is what
 * nvcc -ptx -arch=compute_75 makes of it. */
#include <cuda_fp16.h>

extern "C" __global__ void saxpyKernel(int N, float alpha, const float *x, const float *y, float *r)
{
	int i = blockIdx.x * blockDim.x + threadIdx.x;

	if (i < N)
		r[i] = alpha * x[i] + y[i];
}

/* Without a bound: whoever passes a wrong N is found out by what lies behind the array. */
extern "C" __global__ void count(int N, int *out)
{
	if (threadIdx.x == 0 && blockIdx.x == 0)
		*out = N;
}

extern "C" __global__ void matmul(const float *a, const float *b, float *c, int n)
{
	int row = blockIdx.y * blockDim.y + threadIdx.y;
	int column = blockIdx.x * blockDim.x + threadIdx.x;
	float sum = 0;

	if (row >= n || column >= n)
		return;
	for (int k = 0; k < n; k++)
		sum += a[row * n + k] * b[k * n + column];
	c[row * n + column] = sum;
}

/* Every scalar type, in an order that has arrays between. */
extern "C" __global__ void mixed(double *out, signed char a, unsigned short b, bool c, long long d,
				 const double *in, float e, double f, unsigned g)
{
	out[0] = a;
	out[1] = b;
	out[2] = c;
	out[3] = (double)d;
	out[4] = e;
	out[5] = f;
	out[6] = g;
	out[7] = in[0];
}

extern "C" __global__ void vector(float4 v, float *out)
{
	out[0] = v.x;
	out[1] = v.y;
	out[2] = v.z;
	out[3] = v.w;
}

extern "C" __global__ void indices(unsigned *out)
{
	unsigned x = blockIdx.x * blockDim.x + threadIdx.x;
	unsigned y = blockIdx.y * blockDim.y + threadIdx.y;
	unsigned z = blockIdx.z * blockDim.z + threadIdx.z;
	unsigned width = gridDim.x * blockDim.x, height = gridDim.y * blockDim.y;

	out[(z * height + y) * width + x] = x + 100 * y + 10000 * z;
}

extern "C" __global__ void reverse(int *a, int n)
{
	extern __shared__ int shared[];

	shared[threadIdx.x] = a[threadIdx.x];
	__syncthreads();
	a[threadIdx.x] = shared[n - 1 - threadIdx.x];
}

extern "C" __global__ void halves(__half *a)
{
	a[threadIdx.x] = __hadd(a[threadIdx.x], a[threadIdx.x]);
}

extern "C" __global__ void nothing(void *a)
{
}

extern "C" __global__ void none()
{
}

extern "C" __global__ void fault(int *a)
{
	*(int *)8 = *a;
}

extern "C" __global__ void endless(volatile int *a)
{
	while (*a == 0)
		;
}

__global__ void increment(int *a, int by)
{
	a[threadIdx.x] += by;
}

__global__ void overloaded(int *a)
{
	*a = 1;
}

__global__ void overloaded(float *a)
{
	*a = 1;
}
