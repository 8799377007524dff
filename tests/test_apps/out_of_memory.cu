/*
 * tests/test_apps/out_of_memory.cu - three quarters of the memory that is free, twice: the second
 * is refused by the call itself, the program goes on, and what was given back can be had again.
 */
#include "check.h"

__global__ void put(int *p, size_t at, int value)
{
	p[at] = value;
}

/* The last element of SIZE bytes at DEV can be written and read. */
static void use(int *dev, size_t size, int value)
{
	size_t last = size / sizeof(int) - 1;
	int got = 0;

	put<<<1, 1>>>(dev, last, value);
	CHECK(cudaGetLastError());
	CHECK(cudaMemcpy(&got, dev + last, sizeof(got), cudaMemcpyDeviceToHost));
	EXPECT(got == value);
}

int main()
{
	int *first, *second = (int *)8;
	size_t before, after, total, size;

	CHECK(cudaMemGetInfo(&before, &total));
	size = before / 4 * 3;
	CHECK(cudaMalloc(&first, size));
	use(first, size, 1);
	cudaError_t err = cudaMalloc(&second, size);
	printf("second: %s\n", cudaGetErrorName(err));
	printf("last error: %s\n", cudaGetErrorName(cudaGetLastError()));
	printf("then: %s\n", cudaGetErrorName(cudaGetLastError()));
	use(first, size, 2);
	CHECK(cudaFree(first));
	err = cudaMalloc(&second, size);
	printf("after cudaFree: %s\n", cudaGetErrorName(err));
	CHECK(err);
	use(second, size, 3);
	CHECK(cudaFree(second));
	CHECK(cudaMemGetInfo(&after, &total));
	EXPECT(after >= size);
	return 0;
}
