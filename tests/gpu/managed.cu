/*
 * tests/gpu/managed.cu - managed memory: the first example of CUDA's introductions, then a
 * variable, hints, and the host and the device taking turns.
 */
#include "check.h"

__managed__ int counter = 5;

__global__ void add(int n, float *x, float *y)
{
	for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += blockDim.x * gridDim.x)
		y[i] = x[i] + y[i];
}

__global__ void count()
{
	atomicAdd(&counter, 1);
}

int main()
{
	const int n = 1 << 20;
	float *x, *y, largest = 0;

	CHECK(cudaMallocManaged(&x, n * sizeof(float)));
	CHECK(cudaMallocManaged(&y, n * sizeof(float)));
	for (int i = 0; i < n; i++) {
		x[i] = 1;
		y[i] = 2;
	}
	add<<<256, 256>>>(n, x, y);
	CHECK(cudaDeviceSynchronize());
	for (int i = 0; i < n; i++)
		largest = fmaxf(largest, fabsf(y[i] - 3));
	printf("max error %g\n", largest);
	for (int turn = 0; turn < 5; turn++) {
		y[turn] = 10;
		add<<<256, 256>>>(n, x, y);
		CHECK(cudaDeviceSynchronize());
		EXPECT(y[turn] == 11 && y[n - 1] == 4 + turn);
	}
	count<<<1, 32>>>();
	CHECK(cudaDeviceSynchronize());
	counter++;
	count<<<1, 32>>>();
	CHECK(cudaDeviceSynchronize());
	printf("counter %d\n", counter);
	cudaMemLocation device = { cudaMemLocationTypeDevice, 0 };
	CHECK(cudaMemAdvise(x, n * sizeof(float), cudaMemAdviseSetReadMostly, device));
	CHECK(cudaMemPrefetchAsync(y, n * sizeof(float), device, 0, 0));
	add<<<256, 256>>>(n, x, y);
	CHECK(cudaMemset(x, 0, n * sizeof(float)));
	EXPECT(x[7] == 0);
	CHECK(cudaDeviceSynchronize());
	printf("after prefetch %g\n", y[n - 1]);
	CHECK(cudaFree(x));
	CHECK(cudaFree(y));
	return 0;
}
