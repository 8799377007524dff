/*
 * managed_intro.cu - the first program on managed memory: two arrays that the host fills, a kernel
 * adds, and the host checks, with no copy in sight.
 */
#include <cmath>

#include "check.h"

__global__ void add(int n, const float *x, float *y)
{
	int stride = blockDim.x * gridDim.x;

	for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += stride)
		y[i] = x[i] + y[i];
}

static float largest_error(const float *y, int n, float right)
{
	float error = 0;

	for (int i = 0; i < n; i++)
		error = fmaxf(error, fabsf(y[i] - right));
	return error;
}

int main()
{
	int n = 1 << 20, block = 256;
	float *x, *y;

	CHECK(cudaMallocManaged(&x, n * sizeof(float)));
	CHECK(cudaMallocManaged(&y, n * sizeof(float)));
	for (int i = 0; i < n; i++) {
		x[i] = 1;
		y[i] = 2;
	}
	add<<<(n + block - 1) / block, block>>>(n, x, y);
	CHECK(cudaGetLastError());
	CHECK(cudaDeviceSynchronize());
	printf("largest error: %g\n", largest_error(y, n, 3));

	/* again, without touching x: the device has it still */
	for (int i = 0; i < 3; i++)
		add<<<(n + block - 1) / block, block>>>(n, x, y);
	CHECK(cudaDeviceSynchronize());
	printf("three more: %g\n", largest_error(y, n, 6));
	x[7] = 100;
	add<<<(n + block - 1) / block, block>>>(n, x, y);
	CHECK(cudaDeviceSynchronize());
	printf("one changed: %g %g %g\n", y[6], y[7], y[8]);
	CHECK(cudaFree(x));
	CHECK(cudaFree(y));
	return 0;
}
