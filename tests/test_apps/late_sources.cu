/*
 * late_sources.cu - copies from pinned memory read it when the stream gets there: what the program
 * writes while a function holds the stream up is what arrives.
 */
#include <atomic>
#include <thread>

#include "check.h"

#define N 1000

static std::atomic<int> go;

static void wait_for_go(void *)
{
	while (!go)
		std::this_thread::yield();
}

int main()
{
	int *in, *device, out[N], wrong = 0;
	cudaStream_t s;

	CHECK(cudaMallocHost(&in, N * sizeof(int)));
	CHECK(cudaMalloc(&device, N * sizeof(int)));
	CHECK(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
	for (int i = 0; i < N; i++)
		in[i] = -1;
	CHECK(cudaLaunchHostFunc(s, wait_for_go, NULL));
	CHECK(cudaMemcpyAsync(device, in, N * sizeof(int) / 2, cudaMemcpyHostToDevice, s));
	CHECK(cudaMemcpy2DAsync(device + N / 2, 40, in + N / 2, 40, 40, N / 20,
				cudaMemcpyHostToDevice, s));
	for (int i = 0; i < N; i++)
		in[i] = i;
	go = 1;
	CHECK(cudaStreamSynchronize(s));
	CHECK(cudaMemcpy(out, device, sizeof(out), cudaMemcpyDeviceToHost));
	for (int i = 0; i < N; i++)
		wrong += out[i] != i;
	printf("%d wrong\n", wrong);
	return wrong != 0;
}
