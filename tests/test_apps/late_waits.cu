/*
 * tests/test_apps/late_waits.cu - each step waits for the event of the step before it, which is
 * long done, and reads what that step has copied, as loops of inference do that prepare a step
 * while another one runs.
 */
#include <unistd.h>

#include "check.h"

#define STEPS 40
#define SIZE 3000
#define PAUSE_US 30000

__global__ void fill(int *data, int value)
{
	for (int i = threadIdx.x; i < SIZE; i += blockDim.x)
		data[i] = value + i;
}

static bool holds(const int *copy, int value)
{
	for (int i = 0; i < SIZE; i++) {
		if (copy[i] != value + i)
			return false;
	}
	return true;
}

int main(void)
{
	cudaStream_t stream;
	cudaEvent_t done[2];
	int *data, *copy[2], right = 0;

	CHECK(cudaMalloc(&data, SIZE * sizeof(*data)));
	CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
	for (int i = 0; i < 2; i++) {
		CHECK(cudaMallocHost(&copy[i], SIZE * sizeof(*data)));
		CHECK(cudaEventCreateWithFlags(&done[i], cudaEventDisableTiming));
	}
	for (int i = 0; i <= STEPS; i++) {
		fill<<<1, 32, 0, stream>>>(data, i);
		CHECK(cudaMemcpyAsync(copy[i % 2], data, SIZE * sizeof(*data), cudaMemcpyDeviceToHost, stream));
		CHECK(cudaEventRecord(done[i % 2], stream));
		usleep(PAUSE_US);
		if (i == 0)
			continue;
		CHECK(cudaEventSynchronize(done[(i - 1) % 2]));
		right += holds(copy[(i - 1) % 2], i - 1);
	}
	CHECK(cudaStreamSynchronize(stream));
	printf("%d of %d copies are there after the waits\n", right, STEPS);
	return right != STEPS;
}
