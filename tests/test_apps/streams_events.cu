/*
 * tests/test_apps/streams_events.cu - work in several streams, ordered by events where it must be
 * and overlapping where it may. Every result is compared with the host's.
 */
#include "check.h"
#include "wait_for.cuh"

#define STREAMS 4
#define CHUNK 4096

__global__ void scale(int *data, int n, int factor, int add)
{
	int i = blockIdx.x * blockDim.x + threadIdx.x;

	if (i < n)
		data[i] = data[i] * factor + add;
}

__global__ void set_flag(volatile int *flag, int value)
{
	*flag = value;
}

static void pipeline()
{
	const size_t size = CHUNK * sizeof(int);
	cudaStream_t stream[STREAMS];
	int *host, *dev;

	CHECK(cudaMallocHost(&host, STREAMS * size));
	CHECK(cudaMalloc(&dev, STREAMS * size));
	for (int i = 0; i < STREAMS * CHUNK; i++)
		host[i] = i;
	for (int s = 0; s < STREAMS; s++)
		CHECK(cudaStreamCreate(&stream[s]));
	for (int s = 0; s < STREAMS; s++) {
		int *h = host + s * CHUNK, *d = dev + s * CHUNK;

		CHECK(cudaMemcpyAsync(d, h, size, cudaMemcpyHostToDevice, stream[s]));
		scale<<<CHUNK / 128, 128, 0, stream[s]>>>(d, CHUNK, s + 2, s);
		CHECK(cudaGetLastError());
		CHECK(cudaMemcpyAsync(h, d, size, cudaMemcpyDeviceToHost, stream[s]));
	}
	for (int s = 0; s < STREAMS; s++) {
		CHECK(cudaStreamSynchronize(stream[s]));
		CHECK(cudaStreamQuery(stream[s]));
		for (int i = s * CHUNK; i < (s + 1) * CHUNK; i++)
			EXPECT(host[i] == i * (s + 2) + s);
		CHECK(cudaStreamDestroy(stream[s]));
	}
	CHECK(cudaFreeHost(host));
	CHECK(cudaFree(dev));
	printf("streams_events: %d streams, copies and kernels in order\n", STREAMS);
}

/* A chain that hops from stream to stream by events: only in this order is the result right. */
static void chain()
{
	cudaStream_t stream[STREAMS];
	cudaEvent_t done[STREAMS], first, last;
	int *dev, want = 1, got = 0;
	float ms = -1.0f;

	CHECK(cudaMalloc(&dev, sizeof(int)));
	CHECK(cudaEventCreate(&first));
	CHECK(cudaEventCreate(&last));
	for (int s = 0; s < STREAMS; s++) {
		CHECK(cudaStreamCreateWithFlags(&stream[s], cudaStreamNonBlocking));
		CHECK(cudaEventCreateWithFlags(&done[s], cudaEventDisableTiming));
	}
	/* This copy has arrived when it returns: streams that wait for nothing see it, too. */
	CHECK(cudaMemcpy(dev, &want, sizeof(int), cudaMemcpyHostToDevice));
	CHECK(cudaEventRecord(first, stream[0]));
	for (int hop = 0; hop < 40; hop++) {
		int s = hop % STREAMS;

		if (hop > 0)
			CHECK(cudaStreamWaitEvent(stream[s], done[(hop - 1) % STREAMS], 0));
		scale<<<1, 1, 0, stream[s]>>>(dev, 1, 3, hop);
		CHECK(cudaGetLastError());
		CHECK(cudaEventRecord(done[s], stream[s]));
		want = want * 3 + hop;
	}
	CHECK(cudaEventRecord(last, stream[39 % STREAMS]));
	CHECK(cudaEventSynchronize(last));
	CHECK(cudaEventQuery(last));
	CHECK(cudaEventElapsedTime(&ms, first, last));
	EXPECT(ms >= 0.0f);
	CHECK(cudaMemcpy(&got, dev, sizeof(int), cudaMemcpyDeviceToHost));
	EXPECT(got == want);
	for (int s = 0; s < STREAMS; s++) {
		CHECK(cudaEventDestroy(done[s]));
		CHECK(cudaStreamDestroy(stream[s]));
	}
	CHECK(cudaEventDestroy(first));
	CHECK(cudaEventDestroy(last));
	CHECK(cudaFree(dev));
	printf("streams_events: chain of 40 kernels over events ends in %d\n", got);
}

static void overlap()
{
	cudaStream_t waiter, setter;
	int *dev, got[2] = { 0, 0 };

	CHECK(cudaMalloc(&dev, sizeof(got)));
	CHECK(cudaMemset(dev, 0, sizeof(got)));
	CHECK(cudaStreamCreateWithFlags(&waiter, cudaStreamNonBlocking));
	CHECK(cudaStreamCreateWithFlags(&setter, cudaStreamNonBlocking));
	CHECK(cudaDeviceSynchronize()); /* the streams do not wait for the fill */
	/* Both kernels run once beforehand: loading one may wait for the device. */
	set_flag<<<1, 1, 0, setter>>>(dev, 1);
	CHECK(cudaStreamSynchronize(setter));
	wait_for<<<1, 1, 0, waiter>>>(dev, dev + 1);
	CHECK(cudaStreamSynchronize(waiter));
	CHECK(cudaMemset(dev, 0, sizeof(got)));
	CHECK(cudaDeviceSynchronize());

	wait_for<<<1, 1, 0, waiter>>>(dev, dev + 1);
	set_flag<<<1, 1, 0, setter>>>(dev, 7);
	CHECK(cudaGetLastError());
	CHECK(cudaDeviceSynchronize());
	CHECK(cudaMemcpy(got, dev, sizeof(got), cudaMemcpyDeviceToHost));
	EXPECT(got[0] == 7);
	EXPECT(got[1] == 1);
	CHECK(cudaStreamDestroy(waiter));
	CHECK(cudaStreamDestroy(setter));
	CHECK(cudaFree(dev));
	printf("streams_events: a stream saw what another wrote while it ran\n");
}

/* The legacy default stream waits for blocking streams and they wait for it. */
static void legacy_default()
{
	cudaStream_t stream;
	int *dev, got = 0;

	CHECK(cudaMalloc(&dev, sizeof(int)));
	CHECK(cudaMemset(dev, 0, sizeof(int)));
	CHECK(cudaStreamCreate(&stream));
	for (int i = 0; i < 10; i++) {
		scale<<<1, 1, 0, stream>>>(dev, 1, 2, 1);
		scale<<<1, 1>>>(dev, 1, 3, 0);
	}
	CHECK(cudaGetLastError());
	CHECK(cudaMemcpy(&got, dev, sizeof(int), cudaMemcpyDeviceToHost));
	int want = 0;
	for (int i = 0; i < 10; i++)
		want = (want * 2 + 1) * 3;
	EXPECT(got == want);
	CHECK(cudaStreamDestroy(stream));
	CHECK(cudaFree(dev));
	printf("streams_events: the default stream keeps its order with blocking streams\n");
}

int main()
{
	pipeline();
	chain();
	overlap();
	legacy_default();
	return 0;
}
