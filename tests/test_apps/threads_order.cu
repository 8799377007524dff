/*
 * tests/test_apps/threads_order.cu - one order for the whole process: what one host thread has
 * launched before it gives up a lock, another thread that takes the lock finds done when it
 * synchronises; and threads with streams of their own do not disturb one another.
 */
#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>
#include "check.h"

#define ROUNDS 200
#define THREADS 8

__global__ void store(int *where, int value)
{
	*where = value;
}

/* Neither commutes nor forgets: the end value tells the order of all steps. */
__global__ void step(unsigned int *where, unsigned int k)
{
	*where = *where * 1664525u + k;
}

/* Thread A launches, hands over the lock; thread B synchronises and must find A's value. */
static void hand_over()
{
	std::mutex lock;
	std::condition_variable turn;
	int launched = 0, seen = 0, stale = 0;
	cudaStream_t other;
	int *dev;

	CHECK(cudaMalloc(&dev, sizeof(int)));
	CHECK(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking));
	std::thread a([&] {
		for (int i = 1; i <= ROUNDS; i++) {
			std::unique_lock<std::mutex> hold(lock);

			turn.wait(hold, [&] { return seen == i - 1; });
			store<<<1, 1>>>(dev, i);
			CHECK(cudaGetLastError());
			launched = i;
			turn.notify_all();
		}
	});
	std::thread b([&] {
		for (int i = 1; i <= ROUNDS; i++) {
			std::unique_lock<std::mutex> hold(lock);
			int got = -1;

			turn.wait(hold, [&] { return launched == i; });
			/* The copy runs in a stream that waits for nothing: only the wait orders
			 * it. */
			CHECK(i % 2 ? cudaDeviceSynchronize() : cudaStreamSynchronize(0));
			CHECK(cudaMemcpyAsync(&got, dev, sizeof(int), cudaMemcpyDeviceToHost, other));
			CHECK(cudaStreamSynchronize(other));
			stale += got != i;
			seen = i;
			turn.notify_all();
		}
	});
	a.join();
	b.join();
	CHECK(cudaStreamDestroy(other));
	CHECK(cudaFree(dev));
	printf("threads_order: %d hand-overs, %d stale\n", ROUNDS, stale);
	EXPECT(stale == 0);
}

/* All threads launch into one stream, each step under a lock: the order is the lock's. */
static void one_stream()
{
	unsigned int *dev, got = 0, want = 0;
	std::vector<std::thread> threads;
	unsigned int next = 0;
	std::mutex lock;

	CHECK(cudaMalloc(&dev, sizeof(int)));
	CHECK(cudaMemset(dev, 0, sizeof(int)));
	for (int t = 0; t < THREADS; t++) {
		threads.emplace_back([&] {
			for (int i = 0; i < ROUNDS; i++) {
				std::lock_guard<std::mutex> hold(lock);

				step<<<1, 1>>>(dev, next++);
				CHECK(cudaGetLastError());
			}
		});
	}
	for (auto &t : threads)
		t.join();
	CHECK(cudaMemcpy(&got, dev, sizeof(int), cudaMemcpyDeviceToHost));
	for (unsigned int k = 0; k < THREADS * ROUNDS; k++)
		want = want * 1664525u + k;
	EXPECT(got == want);
	CHECK(cudaFree(dev));
	printf("threads_order: %d threads, one stream, %d steps in order\n", THREADS,
	       THREADS * ROUNDS);
}

/* Every thread with its own stream, memory and waits; nobody takes a lock. */
static void own_streams()
{
	std::vector<std::thread> threads;
	int wrong[THREADS] = { 0 };

	for (int t = 0; t < THREADS; t++) {
		threads.emplace_back([&wrong, t] {
			unsigned int *dev, got = 0, want = t;
			cudaStream_t stream;

			CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
			CHECK(cudaMalloc(&dev, sizeof(int)));
			CHECK(cudaMemcpyAsync(dev, &want, sizeof(int), cudaMemcpyHostToDevice, stream));
			for (int i = 0; i < ROUNDS; i++) {
				step<<<1, 1, 0, stream>>>(dev, i);
				CHECK(cudaGetLastError());
				want = want * 1664525u + i;
				if (i % 16 != 0)
					continue;
				CHECK(cudaMemcpyAsync(&got, dev, sizeof(int), cudaMemcpyDeviceToHost,
						      stream));
				CHECK(cudaStreamSynchronize(stream));
				wrong[t] += got != want;
			}
			CHECK(cudaStreamSynchronize(stream));
			CHECK(cudaMemcpy(&got, dev, sizeof(int), cudaMemcpyDeviceToHost));
			wrong[t] += got != want;
			CHECK(cudaFree(dev));
			CHECK(cudaStreamDestroy(stream));
		});
	}
	for (auto &t : threads)
		t.join();
	for (int t = 0; t < THREADS; t++)
		EXPECT(wrong[t] == 0);
	printf("threads_order: %d threads with streams of their own, all right\n", THREADS);
}

int main()
{
	hand_over();
	one_stream();
	own_streams();
	return 0;
}
