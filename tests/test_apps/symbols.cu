/*
 * tests/test_apps/symbols.cu - __constant__ and __device__ variables: their first values, copies
 * to and from them by name, their address and size, and what kernels see of them.
 */
#include "check.h"

#define COUNT 16

__constant__ int weights[COUNT] = { 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16 };
__constant__ double offset = 0.5;
__device__ int counter = 40;
__device__ float table[COUNT];
__device__ int *pointed = &counter;	/* a relocation: the loader fills in the address */
static __device__ unsigned char bytes[5] = { 1, 2, 3, 4, 5 };

__global__ void use(int *sum)
{
	int i = threadIdx.x;

	table[i] = (float)(weights[i] * 2 + offset);
	atomicAdd(sum, weights[i]);
	if (i < 5)
		bytes[i] = bytes[i] * 3;
	if (i == 0)
		*pointed = *pointed + 2;
}

static int run(int *dsum)
{
	int sum = 0;

	CHECK(cudaMemset(dsum, 0, sizeof(int)));
	use<<<1, COUNT>>>(dsum);
	CHECK(cudaGetLastError());
	CHECK(cudaMemcpy(&sum, dsum, sizeof(int), cudaMemcpyDeviceToHost));
	return sum;
}

int main()
{
	int fresh[COUNT], value = 0, *dsum;
	unsigned char raw[5];
	float out[COUNT];
	double half = 0.25;
	void *address;
	size_t size;

	CHECK(cudaMalloc(&dsum, sizeof(int)));
	CHECK(cudaMemcpyFromSymbol(&value, counter, sizeof(int)));
	EXPECT(value == 40);
	EXPECT(run(dsum) == 136);
	CHECK(cudaMemcpyFromSymbol(&value, counter, sizeof(int)));
	EXPECT(value == 42);
	CHECK(cudaMemcpyFromSymbol(out, table, sizeof(out)));
	for (int i = 0; i < COUNT; i++)
		EXPECT(out[i] == (i + 1) * 2 + 0.5f);
	printf("symbols: first values right, counter %d\n", value);

	for (int i = 0; i < COUNT; i++)
		fresh[i] = 100 - i;
	CHECK(cudaMemcpyToSymbol(weights, fresh, sizeof(fresh)));
	CHECK(cudaMemcpyToSymbol(offset, &half, sizeof(half)));
	CHECK(cudaMemcpyToSymbol(weights, &value, sizeof(int), 3 * sizeof(int)));
	EXPECT(run(dsum) == 1600 - 120 - 97 + 42);
	CHECK(cudaMemcpyFromSymbol(out, table, sizeof(float), 5 * sizeof(float)));
	EXPECT(out[0] == 95 * 2 + 0.25f);
	printf("symbols: written by name and read back\n");

	CHECK(cudaGetSymbolSize(&size, table));
	EXPECT(size == sizeof(table));
	CHECK(cudaGetSymbolAddress(&address, counter));
	value = 7;
	CHECK(cudaMemcpy(address, &value, sizeof(int), cudaMemcpyHostToDevice));
	run(dsum);
	CHECK(cudaMemcpyFromSymbol(&value, counter, sizeof(int)));
	EXPECT(value == 9);
	CHECK(cudaMemcpyFromSymbolAsync(raw, bytes, sizeof(raw), 0, cudaMemcpyDeviceToHost));
	CHECK(cudaDeviceSynchronize());
	for (int i = 0; i < 5; i++)
		EXPECT(raw[i] == (unsigned char)((i + 1) * 27));
	CHECK(cudaFree(dsum));
	printf("symbols: written by address, counter %d\n", value);
	return 0;
}
