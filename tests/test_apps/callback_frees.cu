/*
 * tests/test_apps/callback_frees.cu - threads with a stream each; a callback at the end of a
 * stream's work starts a thread that frees what the work used and destroys the stream.
 *
 * usage: callback_frees [ROUNDS]
 */
#include <atomic>
#include <thread>
#include <vector>

#include "check.h"

#define THREADS 8
#define N (64 * 1024)

struct work {
	cudaStream_t stream;
	int *device, *host;
	int expected;
	std::atomic<int> *wrong, *ended;
};

__global__ void fill(int *data, int value)
{
	int i = blockIdx.x * blockDim.x + threadIdx.x;

	if (i < N)
		data[i] = value + i;
}

static void clean(struct work *w)
{
	for (int i = 0; i < N; i++)
		if (w->host[i] != w->expected + i) {
			(*w->wrong)++;
			break;
		}
	CHECK(cudaFree(w->device));
	CHECK(cudaFreeHost(w->host));
	CHECK(cudaStreamDestroy(w->stream));
	(*w->ended)++;
}

static void CUDART_CB done(cudaStream_t stream, cudaError_t status, void *data)
{
	struct work *w = (struct work *)data;

	(void)stream;
	CHECK(status);
	std::thread(clean, w).detach();
}

static void round_of(int number, std::atomic<int> *wrong, std::atomic<int> *ended)
{
	std::vector<std::thread> threads;
	static struct work works[THREADS];

	for (int t = 0; t < THREADS; t++)
		threads.emplace_back([=] {
			struct work *w = &works[t];

			w->expected = number * 1000 + t;
			w->wrong = wrong;
			w->ended = ended;
			CHECK(cudaStreamCreate(&w->stream));
			CHECK(cudaMalloc(&w->device, N * sizeof(int)));
			CHECK(cudaMallocHost(&w->host, N * sizeof(int)));
			fill<<<N / 256, 256, 0, w->stream>>>(w->device, w->expected);
			CHECK(cudaMemcpyAsync(w->host, w->device, N * sizeof(int), cudaMemcpyDeviceToHost,
					      w->stream));
			CHECK(cudaStreamAddCallback(w->stream, done, w, 0));
		});
	for (auto &thread : threads)
		thread.join();
	while (ended->load() < (number + 1) * THREADS)
		std::this_thread::yield();
}

int main(int argc, char **argv)
{
	int rounds = argc > 1 ? atoi(argv[1]) : 10;
	std::atomic<int> wrong(0), ended(0);

	for (int i = 0; i < rounds; i++)
		round_of(i, &wrong, &ended);
	EXPECT(wrong == 0);
	EXPECT(ended == rounds * THREADS);
	printf("streams cleaned up by their callbacks: every result arrived\n");
	return 0;
}
