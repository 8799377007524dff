/*
 * tests/test_apps/managed_cost.cu - managed memory against explicit copies: the host fills, a
 * kernel adds one, the host reads. With "times" it prints what each way takes.
 *
 * usage: managed_cost [MIB [times]]
 */
#include <chrono>
#include <cstring>

#include "check.h"

#define ROUNDS 5

static double now_ms()
{
	return std::chrono::duration<double, std::milli>(
		std::chrono::steady_clock::now().time_since_epoch()).count();
}

__global__ void add_one(int *data, size_t n)
{
	for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < n;
	     i += (size_t)gridDim.x * blockDim.x)
		data[i]++;
}

static void fill(int *host, size_t n, int value)
{
	for (size_t i = 0; i < n; i++)
		host[i] = value + (int)i;
}

static bool right(const int *host, size_t n, int value)
{
	for (size_t i = 0; i < n; i++)
		if (host[i] != value + (int)i + 1)
			return false;
	return true;
}

static void report(bool times, const char *what, double began)
{
	if (times)
		printf("%-32s %9.2f ms\n", what, (now_ms() - began) / ROUNDS);
}

int main(int argc, char **argv)
{
	size_t mib = argc > 1 ? (size_t)atoi(argv[1]) : 4, n = (mib << 20) / sizeof(int);
	bool times = argc > 2, good = true;
	int *managed, *device, *host = (int *)malloc(n * sizeof(int));
	cudaMemLocation gpu = { cudaMemLocationTypeDevice, 0 }, cpu = { cudaMemLocationTypeHost, 0 };
	double began;

	EXPECT(host != NULL);
	CHECK(cudaMallocManaged(&managed, n * sizeof(int)));
	CHECK(cudaMalloc(&device, n * sizeof(int)));
	began = now_ms();
	for (int i = 0; i < ROUNDS; i++) {
		fill(host, n, i);
		CHECK(cudaMemcpy(device, host, n * sizeof(int), cudaMemcpyHostToDevice));
		add_one<<<256, 256>>>(device, n);
		CHECK(cudaMemcpy(host, device, n * sizeof(int), cudaMemcpyDeviceToHost));
		good = good && right(host, n, i);
	}
	report(times, "copies", began);
	began = now_ms();
	for (int i = 0; i < ROUNDS; i++) {
		fill(managed, n, i);
		add_one<<<256, 256>>>(managed, n);
		CHECK(cudaDeviceSynchronize());
		good = good && right(managed, n, i);
	}
	report(times, "managed, by touch", began);
	began = now_ms();
	for (int i = 0; i < ROUNDS; i++) {
		fill(managed, n, i);
#if CUDART_VERSION >= 13000
		CHECK(cudaMemPrefetchAsync(managed, n * sizeof(int), gpu, 0));
#endif
		add_one<<<256, 256>>>(managed, n);
#if CUDART_VERSION >= 13000
		CHECK(cudaMemPrefetchAsync(managed, n * sizeof(int), cpu, 0));
#endif
		CHECK(cudaDeviceSynchronize());
		good = good && right(managed, n, i);
	}
	report(times, "managed, prefetched", began);
	began = now_ms();
	for (int i = 0; i < ROUNDS; i++) {
		managed[0] = i;
		add_one<<<1, 32>>>(managed, 1);
		CHECK(cudaDeviceSynchronize());
		good = good && managed[0] == i + 1;
	}
	report(times, "managed, one word", began);
	began = now_ms();
	for (int i = 0; i < ROUNDS; i++) {
		for (size_t at = 0; at < n; at += 16384 / sizeof(int))
			managed[at] = i;
		add_one<<<256, 256>>>(managed, n);
		CHECK(cudaDeviceSynchronize());
		for (size_t at = 0; at < n; at += 16384 / sizeof(int))
			good = good && managed[at] == i + 1;
	}
	report(times, "managed, a word in 16 KiB", began);
	EXPECT(good);
	CHECK(cudaFree(managed));
	CHECK(cudaFree(device));
	free(host);
	if (!times)
		printf("managed memory and copies agree\n");
	return 0;
}
