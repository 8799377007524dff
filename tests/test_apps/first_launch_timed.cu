/*
 * tests/test_apps/first_launch_timed.cu - times one launch, the kernel's first, between two events,
 * and the same launch later. With "times" it prints both in microseconds; a program like this
 * prints its rate.
 */
#include <cstring>

#include "check.h"

#define SMALL ((size_t)64 << 10)
#define LARGE ((size_t)32 << 20)	/* about 100 us on an H200 */

template <int K> __global__ void scale(float *data, size_t n, float by)
{
	for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < n;
	     i += (size_t)gridDim.x * blockDim.x)
		data[i] = data[i] * by + K;
}

static cudaEvent_t begin, end;

template <int K> static float time_once(float *data, size_t n)
{
	float ms;

	CHECK(cudaEventRecord(begin));
	scale<K><<<1024, 256>>>(data, n, 0.5f);
	CHECK(cudaEventRecord(end));
	CHECK(cudaEventSynchronize(end));
	CHECK(cudaEventElapsedTime(&ms, begin, end));
	return ms * 1000;
}

template <int K> static void time_kernel(float *data, size_t n, bool print)
{
	float first = time_once<K>(data, n), later = 1e9f;

	for (int i = 0; i < 5; i++)
		later = min(later, time_once<K>(data, n));
	if (print)
		printf("first %.1f us, later %.1f us\n", first, later);
	EXPECT(first > 0 && later > 0);
}

int main(int argc, char **argv)
{
	bool print = argc > 1 && strcmp(argv[1], "times") == 0;
	size_t n = print ? LARGE : SMALL;
	float *data;

	CHECK(cudaMalloc(&data, n * sizeof(*data)));
	CHECK(cudaMemset(data, 0, n * sizeof(*data)));
	CHECK(cudaEventCreate(&begin));
	CHECK(cudaEventCreate(&end));
	time_kernel<0>(data, n, print);
	time_kernel<1>(data, n, print);
	time_kernel<2>(data, n, print);
	time_kernel<3>(data, n, print);
	CHECK(cudaFree(data));
	if (!print)
		printf("first launches timed\n");
	return 0;
}
