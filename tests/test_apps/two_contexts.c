/*
 * tests/test_apps/two_contexts.c - a stream is used and waited for while another context is the
 * current one.
 *
 * What holds the stream up is a host function that sleeps when the stream has been seen busy.
 */
#define _GNU_SOURCE
#define MORE_DRIVER_CALLS(X)                                                                       \
	X(cuCtxCreate_v2, (CUcontext *, unsigned int, CUdevice))                                   \
	X(cuCtxDestroy_v2, (CUcontext))                                                            \
	X(cuLaunchHostFunc, (CUstream, CUhostFn, void *))                                          \
	X(cuMemcpyHtoDAsync_v2, (CUdeviceptr, const void *, size_t, CUstream))
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/test_apps/driver_api.h"

#define SIZE ((size_t)1 << 20)
#define COPIES 24
#define SLEEP_US 300000

static CUcontext context[2];
static CUstream stream; /* of the second context */
static _Atomic int ran;
static atomic_bool is_seen;

static void check(CUresult err, int line)
{
	if (err == CUDA_SUCCESS)
		return;
	fprintf(stderr, "two_contexts.c:%d: error %d\n", line, (int)err);
	exit(1);
}
#define CHECK(call) check(call, __LINE__)

static void slow(void *unused)
{
	(void)unused;
	while (!is_seen)
		usleep(1000);
	usleep(SLEEP_US);
	ran++;
}

/* All that the first context has is done; its stream's work is not. */
static void busy(void)
{
	ran = 0;
	is_seen = false;
	CHECK(cu.cuLaunchHostFunc(stream, slow, NULL));
	CHECK(cu.cuCtxSynchronize());
	printf("the other context's stream is %s\n", cu.cuStreamQuery(stream) ? "busy" : "done");
	is_seen = true;
}

static void waiting(void)
{
	busy();
	CHECK(cu.cuStreamSynchronize(stream));
	printf("waited for: %d\n", ran);
}

/* Every byte of the @i-th of @count is @i. */
static int right(CUdeviceptr d, unsigned int count)
{
	static unsigned char back[SIZE], want[SIZE];
	int good = 0;

	for (unsigned int i = 0; i < count; i++) {
		memset(want, (int)i, SIZE);
		CHECK(cu.cuMemcpyDtoH_v2(back, d + i * SIZE, SIZE));
		good += memcmp(back, want, SIZE) == 0;
	}
	return good;
}

/* From one buffer, which changes at once. */
static void copying(void)
{
	static unsigned char bytes[SIZE];
	CUdeviceptr d;

	CHECK(cu.cuMemAlloc_v2(&d, 2 * COPIES * SIZE));
	for (unsigned int i = 0; i < COPIES;
	     i++) { /* some programs are copied faster from here on */
		memset(bytes, (int)i, SIZE);
		CHECK(cu.cuMemcpyHtoD_v2(d + i * SIZE, bytes, SIZE));
	}
	busy();
	for (unsigned int i = COPIES; i < 2 * COPIES; i++) {
		memset(bytes, (int)i, SIZE);
		CHECK(cu.cuMemcpyHtoDAsync_v2(d + i * SIZE, bytes, SIZE, stream));
		CHECK(cu.cuCtxSynchronize());
	}
	CHECK(cu.cuStreamSynchronize(stream));
	printf("copied: %d of %d\n", right(d, 2 * COPIES), 2 * COPIES);
	CHECK(cu.cuMemFree_v2(d));
}

int main(void)
{
	if (driver_open() < 0)
		return 1;
	CHECK(cu.cuInit(0));
	for (int i = 0; i < 2; i++)
		CHECK(cu.cuCtxCreate_v2(&context[i], 0, 0));
	CHECK(cu.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	CHECK(cu.cuCtxSetCurrent(context[0]));
	waiting();
	copying();
	CHECK(cu.cuCtxDestroy_v2(context[1]));
	CHECK(cu.cuCtxDestroy_v2(context[0]));
	return 0;
}
