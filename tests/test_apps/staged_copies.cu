/*
 * tests/test_apps/staged_copies.cu - much pageable memory to the device and back, in sizes around
 * those by which drivers cut it, with and without waiting, from several threads, behind a slow
 * kernel, and after the device was reset.
 */
#include <cstring>
#include <thread>
#include <vector>
#include "check.h"

typedef unsigned int word;

static const size_t sizes[] = { (128 << 10) - 4, 128 << 10, (256 << 10) + 4, (1 << 20) + 12, 2 << 20, (2 << 20) + 4,
				(5 << 20) + 28, (16 << 20) + 20 };

/* Words that differ from their neighbours and from one seed to the next. */
static void fill(std::vector<word> &v, word seed)
{
	for (size_t i = 0; i < v.size(); i++)
		v[i] = (word)i * 2654435761u + seed;
}

__global__ void add(word *p, size_t n, word x, long long cycles)
{
	long long begin = clock64();

	while (clock64() - begin < cycles)
		;
	for (size_t i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
		p[i] += x;
}

/* Up, one more on the device, and down; true: all words are what they should be. */
static bool round_trip(size_t bytes, word seed, bool async, cudaStream_t s)
{
	size_t n = bytes / sizeof(word);
	std::vector<word> host(n), back(n);
	bool good = true;
	word *dev;

	fill(host, seed);
	CHECK(cudaMalloc(&dev, bytes));
	if (async)
		CHECK(cudaMemcpyAsync(dev, host.data(), bytes, cudaMemcpyHostToDevice, s));
	else
		CHECK(cudaMemcpy(dev, host.data(), bytes, cudaMemcpyHostToDevice));
	memset(host.data(), 0, bytes);	/* they were taken over */
	add<<<4, 128, 0, async ? s : 0>>>(dev, n, 1, 0);
	if (async) {
		CHECK(cudaMemcpyAsync(back.data(), dev, bytes, cudaMemcpyDeviceToHost, s));
		CHECK(cudaStreamSynchronize(s));
	} else {
		CHECK(cudaMemcpy(back.data(), dev, bytes, cudaMemcpyDeviceToHost));
	}
	fill(host, seed + 1);
	good = host == back;
	CHECK(cudaFree(dev));
	return good;
}

static void all_sizes(const char *when)
{
	cudaStream_t s;
	int good = 0;

	CHECK(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
	for (word turn = 0; turn < 2; turn++) {
		for (size_t size : sizes)
			good += round_trip(size, (word)size + turn, turn, s);
	}
	CHECK(cudaStreamDestroy(s));
	printf("%s: %d of 16 right\n", when, good);
}

/* Copies into two streams in turn, from one buffer that changes at once, the first behind a slow
 * kernel. */
static void one_buffer(size_t n)
{
	const word turns = 24;
	std::vector<word> host(n), back(n);
	cudaStream_t s[2];
	word *dev, good = 0;

	CHECK(cudaMalloc(&dev, turns * n * sizeof(word)));
	CHECK(cudaMemset(dev, 0, turns * n * sizeof(word)));
	CHECK(cudaDeviceSynchronize());
	for (cudaStream_t &one : s)
		CHECK(cudaStreamCreateWithFlags(&one, cudaStreamNonBlocking));
	add<<<1, 1, 0, s[0]>>>(dev, 1, 0, 20000000);
	for (word t = 0; t < turns; t++) {
		fill(host, t);
		CHECK(cudaMemcpyAsync(dev + t * n, host.data(), n * sizeof(word), cudaMemcpyHostToDevice, s[t % 2]));
	}
	for (cudaStream_t one : s) {
		CHECK(cudaStreamSynchronize(one));
		CHECK(cudaStreamDestroy(one));
	}
	for (word t = 0; t < turns; t++) {
		CHECK(cudaMemcpy(back.data(), dev + t * n, n * sizeof(word), cudaMemcpyDeviceToHost));
		fill(host, t);
		good += host == back;
	}
	CHECK(cudaFree(dev));
	printf("one buffer of %zu words: %u of %u right\n", n, good, turns);
}

static void threads()
{
	std::vector<std::thread> all;
	int good[4] = {};

	for (word t = 0; t < 4; t++) {
		all.emplace_back([t, &good] {
			cudaStream_t s;

			CHECK(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
			for (word r = 0; r < 6; r++)
				good[t] += round_trip(sizes[r] + (t << 10), 1000 * t + r, r % 3 != 0, s);
			CHECK(cudaStreamDestroy(s));
		});
	}
	for (std::thread &t : all)
		t.join();
	printf("threads: %d %d %d %d of 6 right\n", good[0], good[1], good[2], good[3]);
}

int main()
{
	all_sizes("at first");
	all_sizes("again");
	one_buffer(100000);
	one_buffer(600000);
	threads();
	CHECK(cudaDeviceReset());
	all_sizes("after a reset");
	return 0;
}
