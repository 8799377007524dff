/*
 * tests/test_apps/errors.cu - wrong calls get the error that CUDA gives, at the call, and nothing
 * after them is disturbed.
 */
#include "check.h"

__global__ void nothing(int *p)
{
	if (p)
		*p = 5;
}

__constant__ int known;
static int unknown;

/* Prints the name of the error, and takes it off the runtime's slate. */
static void show(const char *what, cudaError_t err)
{
	cudaGetLastError();
	printf("%s: %s\n", what, cudaGetErrorName(err));
}

template <typename Launch> static void launch(const char *what, Launch go)
{
	go();
	show(what, cudaGetLastError());
}

int main()
{
	cudaFuncAttributes attributes;
	cudaEvent_t a, b;
	int *dev, got = 0;
	void *huge;
	float ms;

	CHECK(cudaMalloc(&dev, 256));
	launch("2048 threads a block", [&] { nothing<<<1, 2048>>>(dev); });
	launch("no threads", [&] { nothing<<<1, 0>>>(dev); });
	launch("no blocks", [&] { nothing<<<0, 1>>>(dev); });
	launch("65536 blocks in y", [&] { nothing<<<dim3(1, 65536), 1>>>(dev); });
	launch("65 threads in z", [&] { nothing<<<1, dim3(1, 1, 65)>>>(dev); });
	launch("8 MiB of shared memory", [&] { nothing<<<1, 1, 8 << 20>>>(dev); });

	show("malloc of 1 PiB", cudaMalloc(&huge, 1ull << 50));
	show("free of a pointer that nobody allocated", cudaFree((void *)0x1230));
	show("free of nothing", cudaFree(NULL));
	show("copy past the end", cudaMemcpy(&got, dev, (size_t)1 << 40, cudaMemcpyDeviceToHost));
	show("copy of no known kind", cudaMemcpy(dev, &got, 4, (cudaMemcpyKind)77));
	show("device 1000", cudaSetDevice(1000));
	show("symbol that is none", cudaMemcpyToSymbol(unknown, &got, sizeof(got)));
	show("symbol, too many bytes", cudaMemcpyToSymbol(known, &got, 400));
	show("function that is none", cudaFuncGetAttributes(&attributes, (const void *)&unknown));

	CHECK(cudaEventCreate(&a));
	CHECK(cudaEventCreateWithFlags(&b, cudaEventDisableTiming));
	show("time between events never recorded", cudaEventElapsedTime(&ms, a, b));
	show("event that is none", cudaEventRecord(NULL, 0));
	show("stream that is none", cudaStreamDestroy(NULL));
	show("event with unknown flags", cudaEventCreateWithFlags(&a, 0x8000));

	/* An error of a launch stays on the slate until it is asked for, once. */
	nothing<<<1, 2048>>>(dev);
	printf("peek: %s\n", cudaGetErrorName(cudaPeekAtLastError()));
	printf("get: %s\n", cudaGetErrorName(cudaGetLastError()));
	printf("get again: %s\n", cudaGetErrorName(cudaGetLastError()));

	nothing<<<1, 1>>>(dev);
	CHECK(cudaGetLastError());
	CHECK(cudaMemcpy(&got, dev, sizeof(got), cudaMemcpyDeviceToHost));
	EXPECT(got == 5);
	CHECK(cudaFree(dev));
	printf("after all that a kernel still runs\n");
	return 0;
}
