/*
 * tests/test_apps/check.h - what the test programs share: stop at the first failed call.
 *
 * A program prints the same text wherever it runs (no pointers, no times, no device names) and
 * exits 0 only when every result is right. What went wrong is said on stderr, with the line.
 */
#ifndef CK_TEST_APPS_CHECK_H
#define CK_TEST_APPS_CHECK_H

#include <cstdio>
#include <cstdlib>
#include <cuda_runtime.h>

/* Ends the program with status 1 when a runtime call does not return cudaSuccess. */
#define CHECK(call) check_call((call), #call, __FILE__, __LINE__)

static inline void check_call(cudaError_t err, const char *call, const char *file, int line)
{
	if (err == cudaSuccess)
		return;
	fprintf(stderr, "%s:%d: %s: %s\n", file, line, call, cudaGetErrorName(err));
	exit(1);
}

/* Ends the program with status 1 when a result is not what the host computed. */
#define EXPECT(condition) expect(!!(condition), #condition, __FILE__, __LINE__)

static inline void expect(int holds, const char *condition, const char *file, int line)
{
	if (holds)
		return;
	fprintf(stderr, "%s:%d: does not hold: %s\n", file, line, condition);
	exit(1);
}

/*
 * Does the driver look at what it is given? Cricket's does; NVIDIA's takes any handle for one and
 * may crash, and lets what has no access to memory fail later.
 */
static inline int driver_looks(void)
{
	return getenv("REMOTE_GPU_ADDRESS") != NULL;
}

#endif
