/*
 * managed_large.cu [MIB] - a large managed array of which host and device use a little, here and
 * there: what is touched is right, whatever the rest.
 */
#include "check.h"

__global__ void bump(unsigned *words, size_t stride, int count)
{
	int i = blockIdx.x * blockDim.x + threadIdx.x;

	if (i < count)
		words[i * stride] += i + 1;
}

int main(int argc, char **argv)
{
	size_t size = (size_t)(argc > 1 ? atoi(argv[1]) : 48) << 20, words = size / 4;
	const int count = 32;
	size_t stride = words / count;
	unsigned *array, wrong = 0;

	CHECK(cudaMallocManaged(&array, size));
	array[0] = 1000;
	array[words - 1] = 77;
	bump<<<1, count>>>(array, stride, count);
	CHECK(cudaDeviceSynchronize());
	for (int i = 0; i < count; i++)
		wrong += array[i * stride] != (i ? i + 1u : 1001u);
	printf("wrong after the first kernel: %u, last word %u\n", wrong, array[words - 1]);

	/* one page changes between two kernels */
	array[stride * 5] = 500;
	bump<<<1, count>>>(array, stride, count);
	CHECK(cudaDeviceSynchronize());
	for (int i = 0; i < count; i++)
		wrong += array[i * stride] != (i == 5 ? 506 : (i ? 2 * (i + 1u) : 1002u));
	printf("wrong after the second: %u\n", wrong);

	/* every page written by the host in order, then read back in order */
	for (size_t i = 0; i < words; i++)
		array[i] = (unsigned)i;
	bump<<<1, count>>>(array, stride, count);
	CHECK(cudaDeviceSynchronize());
	for (size_t i = 0; i < words; i++)
		wrong += array[i] != (unsigned)i + (i % stride || i / stride >= count ? 0 : i / stride + 1);
	printf("wrong of all: %u\n", wrong);
	CHECK(cudaFree(array));
	return wrong != 0;
}
