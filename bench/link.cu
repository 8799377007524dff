/*
 * bench/link.cu - what the link between two GPUs gives to whoever uses it: the ceiling of
 * bench/wcm.sh.
 *
 *	nvcc -O3 -std=c++17 -arch=native -o link bench/link.cu && ./link
 *
 * Rates in GB/s of 2 GiB, the best of five, of the slower direction where both GPUs work at the
 * same time.
 */
#include <cstdint>
#include "../tests/test_apps/check.h"

#define BYTES ((size_t)2 << 30)
#define BLOCKS (132 * 4)
#define THREADS 512

/* Where vector I of a walk at random lies, which takes RUN vectors side by side at a time. */
__device__ static size_t place(size_t i, size_t count, size_t run)
{
	uint64_t x = i / run;

	x = (x ^ x >> 31) * 0x7fb5d329728ea185ull;
	x = (x ^ x >> 27) * 0x81dadef4bc2dd44dull;
	return (x ^ x >> 33) % (count / run) * run + i % run;
}

template <bool RANDOM>
__global__ static void copy(uint4 *to, const uint4 *from, size_t count, size_t run)
{
	size_t step = (size_t)gridDim.x * blockDim.x;

	for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < count; i += step)
		to[i] = from[RANDOM ? place(i, count, run) : i];
}

static uint4 *mine[2], *out[2];
static cudaStream_t stream[2];
static cudaEvent_t begin[2], end[2];

/* Says the rate of WORK(gpu), which moves BYTES, on the first GPUS GPUs at the same time. */
template <typename F> static void measure(const char *what, int gpus, F work)
{
	double best = 0;

	for (int turn = 0; turn < 5; turn++) {
		float slowest = 0, ms;

		for (int d = 0; d < gpus; d++) {
			CHECK(cudaSetDevice(d));
			CHECK(cudaEventRecord(begin[d], stream[d]));
			work(d);
			CHECK(cudaGetLastError());
			CHECK(cudaEventRecord(end[d], stream[d]));
		}
		for (int d = 0; d < gpus; d++) {
			CHECK(cudaEventSynchronize(end[d]));
			CHECK(cudaEventElapsedTime(&ms, begin[d], end[d]));
			slowest = ms > slowest ? ms : slowest;
		}
		best = BYTES / slowest / 1e6 > best ? BYTES / slowest / 1e6 : best;
	}
	printf("| %s | %.0f |\n", what, best);
}

int main()
{
	const size_t count = BYTES / sizeof(uint4);

	for (int d = 0; d < 2; d++) {
		CHECK(cudaSetDevice(d));
		CHECK(cudaDeviceEnablePeerAccess(1 - d, 0));
		CHECK(cudaMalloc(&mine[d], BYTES));
		CHECK(cudaMalloc(&out[d], BYTES));
		CHECK(cudaMemset(mine[d], 1, BYTES));
		CHECK(cudaStreamCreateWithFlags(&stream[d], cudaStreamNonBlocking));
		CHECK(cudaEventCreate(&begin[d]));
		CHECK(cudaEventCreate(&end[d]));
		CHECK(cudaDeviceSynchronize());
	}
	printf("| the other GPU's memory | GB/s a direction |\n|---|---|\n");
	measure("read in order, one GPU reads", 1, [=](int d) {
		copy<false><<<BLOCKS, THREADS, 0, stream[d]>>>(out[d], mine[1 - d], count, 0); });
	measure("read in order, both do", 2, [=](int d) {
		copy<false><<<BLOCKS, THREADS, 0, stream[d]>>>(out[d], mine[1 - d], count, 0); });
	measure("read at random, 128 bytes at a time, both do", 2, [=](int d) {
		copy<true><<<BLOCKS, THREADS, 0, stream[d]>>>(out[d], mine[1 - d], count, 8); });
	measure("written in order, both do", 2, [=](int d) {
		copy<false><<<BLOCKS, THREADS, 0, stream[d]>>>(mine[1 - d], out[d], count, 0); });
	measure("copied by the copy engines, both do", 2, [=](int d) {
		CHECK(cudaMemcpyPeerAsync(out[d], d, mine[1 - d], 1 - d, BYTES, stream[d])); });
	return 0;
}
