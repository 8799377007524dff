/*
 * tests/gpu/host_functions.cu - the host's functions in a stream: in order with its work, from both
 * calls.
 */
#include <atomic>
#include <unistd.h>

#include "check.h"

static std::atomic<int> order[4];
static std::atomic<int> next_place;
static int seen;

static void CUDART_CB note(void *which)
{
	order[(long)which] = ++next_place;
}

static void CUDART_CB look(void *at)
{
	seen = *(int *)at;
	usleep(20000);
}

static void CUDART_CB old_form(cudaStream_t, cudaError_t status, void *which)
{
	if (status == cudaSuccess)
		order[(long)which] = ++next_place;
}

__global__ void set(int *x)
{
	*x = 42;
}

int main()
{
	int *x, *host;
	cudaStream_t s, other;
	cudaEvent_t after;

	CHECK(cudaMalloc(&x, sizeof(int)));
	CHECK(cudaMallocHost(&host, sizeof(int)));
	CHECK(cudaStreamCreate(&s));
	CHECK(cudaStreamCreate(&other));
	CHECK(cudaEventCreate(&after));
	CHECK(cudaLaunchHostFunc(s, note, (void *)0));
	set<<<1, 1, 0, s>>>(x);
	CHECK(cudaMemcpyAsync(host, x, sizeof(int), cudaMemcpyDeviceToHost, s));
	CHECK(cudaLaunchHostFunc(s, look, host));
	CHECK(cudaLaunchHostFunc(s, note, (void *)1));
	CHECK(cudaEventRecord(after, s));
	CHECK(cudaStreamWaitEvent(other, after, 0));
	CHECK(cudaStreamAddCallback(other, old_form, (void *)2, 0));
	EXPECT(cudaStreamQuery(s) == cudaErrorNotReady);
	CHECK(cudaStreamSynchronize(other));
	printf("order %d %d %d, seen %d\n", order[0].load(), order[1].load(), order[2].load(), seen);
	return 0;
}
