/*
 * tests/test_apps/per_thread.cu - built with --default-stream per-thread: each host thread's
 * launches without a stream go to a stream of its own, which synchronises with that thread alone.
 */
#include <thread>
#include <vector>
#include "check.h"
#include "wait_for.cuh"

#define THREADS 4
#define STEPS 60

__global__ void step(unsigned int *where, unsigned int k)
{
	*where = *where * 1664525u + k;
}

__global__ void set_flag(volatile int *flag)
{
	*flag = 1;
}

static void work(int t, int *wrong)
{
	unsigned int *dev, want = t, got = 0;

	CHECK(cudaMalloc(&dev, sizeof(int)));
	CHECK(cudaMemcpyAsync(dev, &want, sizeof(int), cudaMemcpyHostToDevice, 0));
	for (int i = 0; i < STEPS; i++) {
		step<<<1, 1>>>(dev, i);
		want = want * 1664525u + i;
	}
	CHECK(cudaGetLastError());
	CHECK(cudaStreamSynchronize(cudaStreamPerThread));
	CHECK(cudaMemcpyAsync(&got, dev, sizeof(int), cudaMemcpyDeviceToHost, 0));
	CHECK(cudaStreamSynchronize(0));
	*wrong = got != want;
	CHECK(cudaFree(dev));
}

static void at_the_same_time()
{
	int *dev, got[2] = { 0, 0 };

	CHECK(cudaMalloc(&dev, sizeof(got)));
	/* Both kernels run once beforehand: loading one may wait for the device. */
	set_flag<<<1, 1>>>(dev);
	wait_for<<<1, 1>>>(dev, dev + 1);
	CHECK(cudaMemset(dev, 0, sizeof(got)));
	CHECK(cudaDeviceSynchronize());
	wait_for<<<1, 1>>>(dev, dev + 1);
	CHECK(cudaGetLastError());
	std::thread([&] {
		set_flag<<<1, 1>>>(dev);
		CHECK(cudaGetLastError());
		CHECK(cudaStreamSynchronize(0));
	}).join();
	CHECK(cudaMemcpy(got, dev, sizeof(got), cudaMemcpyDeviceToHost));
	EXPECT(got[0] == 1 && got[1] == 1);
	CHECK(cudaFree(dev));
}

int main()
{
	std::vector<std::thread> threads;
	int wrong[THREADS];

	for (int t = 0; t < THREADS; t++)
		threads.emplace_back(work, t, &wrong[t]);
	for (auto &t : threads)
		t.join();
	for (int t = 0; t < THREADS; t++)
		EXPECT(wrong[t] == 0);
	printf("per_thread: %d threads, default streams of their own\n", THREADS);
	at_the_same_time();
	printf("per_thread: one thread's kernel saw what another's wrote\n");
	return 0;
}
