/*
 * bench/load.c - one client of many, one start of a program, copies on their own: what the stages
 * start, sweep, many and wire run. Prints JSON. The same program native and remote.
 *
 *   bench-load start                     init, context, memory, module, first kernel: ms of each
 *   bench-load steps SECONDS LAUNCHES WORK
 *                                        steps of LAUNCHES kernels and a synchronise; a kernel
 *                                        counts to WORK
 *   bench-load meet SECONDS LAUNCHES WORK
 *                                        the same, after "ready" and a byte on stdin
 *   bench-load copy MIB ROUNDS           GB/s of copies of pageable and pinned memory, both ways
 *   bench-load upload FILE MIB ROUNDS milliseconds of a copy of FILE's bytes, repeated to MIB, to
 *   the device bench-load idle "ready", and waits until stdin ends
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "bench/driver.h"
#include "gen/api.h"

#define STEPS_MAX 1000000

/* count: one thread of each warp counts to @n; the result goes nowhere that the compiler knows
 * of. */
static const char ptx[] = ".version 7.0\n.target sm_75\n.address_size 64\n"
			  ".visible .entry count(.param .u64 p, .param .u32 n)\n{\n"
			  ".reg .u32 %r<4>;\n.reg .u64 %rd<2>;\n.reg .pred %q<2>;\n"
			  "ld.param.u64 %rd0, [p];\nld.param.u32 %r0, [n];\nmov.u32 %r1, 0;\n"
			  "more:\nsetp.ge.u32 %q0, %r1, %r0;\n@%q0 bra done;\n"
			  "ld.volatile.global.u32 %r2, [%rd0];\n"
			  "add.u32 %r1, %r1, 1;\nadd.u32 %r1, %r1, %r2;\nbra more;\n"
			  "done:\nret;\n}\n";

static void *driver;
static CUdeviceptr mem;
static CUstream stream;
static CUfunction count;

static double now(clockid_t clock)
{
	struct timespec ts;

	clock_gettime(clock, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

static double ms_since(double *mark)
{
	double was = *mark;

	*mark = now(CLOCK_MONOTONIC);
	return (*mark - was) * 1e3;
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static double median(double *v, size_t n)
{
	qsort(v, n, sizeof(*v), by_value);
	return v[n / 2];
}

static void launch(unsigned int work)
{
	void *params[] = {&mem, &work};

	MUST(CU(cuLaunchKernel)(count, 1, 1, 1, 32, 1, 1, 0, stream, params, NULL));
}

/* Everything until the first kernel has run; ms of each part, as the row `start` has them. */
static void begin(double ms[5])
{
	double mark = now(CLOCK_MONOTONIC);
	CUmodule module;
	CUcontext ctx;
	CUdevice dev;

	MUST(CU(cuInit)(0));
	ms[0] = ms_since(&mark);
	MUST(CU(cuDeviceGet)(&dev, 0));
	MUST(CU(cuDevicePrimaryCtxRetain)(&ctx, dev));
	MUST(CU(cuCtxSetCurrent)(ctx));
	ms[1] = ms_since(&mark);
	MUST(CU(cuMemAlloc_v2)(&mem, 1 << 20));
	ms[2] = ms_since(&mark);
	MUST(CU(cuModuleLoadData)(&module, ptx));
	MUST(CU(cuModuleGetFunction)(&count, module, "count"));
	ms[3] = ms_since(&mark);
	MUST(CU(cuMemsetD8_v2)(mem, 0, 1 << 20));
	MUST(CU(cuStreamCreate)(&stream, CU_STREAM_NON_BLOCKING));
	launch(1);
	MUST(CU(cuStreamSynchronize)(stream));
	ms[4] = ms_since(&mark);
}

static void print_start(const double ms[5])
{
	static const char *const names[] = {"init", "context", "memory", "module", "kernel"};

	for (int i = 0; i < 5; i++)
		printf("%s\"start_%s\": {\"value\": %.3f, \"unit\": \"ms\"}", i ? ", " : "{",
		       names[i], ms[i]);
	printf(", \"start_first_call\": {\"value\": %.3f, \"unit\": \"ms\"}}\n",
	       ms[0] + ms[1] + ms[2]);
}

/* Tell that this client is ready, and wait until the others are. */
static void meet(void)
{
	char byte;

	printf("ready\n");
	fflush(stdout);
	while (read(0, &byte, 1) < 0 && errno == EINTR)
		;
}

static void steps(double seconds, int launches, unsigned int work)
{
	double *each = malloc(STEPS_MAX * sizeof(*each)), first, mark;
	size_t n = 0;

	first = mark = now(CLOCK_MONOTONIC);
	while (each && n < STEPS_MAX && mark - first < seconds) {
		for (int i = 0; i < launches; i++)
			launch(work);
		MUST(CU(cuStreamSynchronize)(stream));
		each[n++] = ms_since(&mark);
	}
	if (n > 0)
		printf("{\"steps\": %zu, \"seconds\": %.6f, \"ms\": %.6f}\n", n, mark - first,
		       median(each, n));
	free(each);
}

/* GB/s of @rounds copies of @size bytes; the median. */
static double copies(void *host, size_t size, int rounds, int up)
{
	double *each = calloc((size_t)rounds, sizeof(*each)), mark, gb;

	for (int r = -1; each && r < rounds; r++) {
		mark = now(CLOCK_MONOTONIC);
		MUST(up ? CU(cuMemcpyHtoD_v2)(mem, host, size)
			: CU(cuMemcpyDtoH_v2)(host, mem, size));
		if (up) /* pageable bytes are taken over at once: the copy ends with the stream */
			MUST(CU(cuCtxSynchronize)());
		if (r >= 0)
			each[r] = ms_since(&mark);
	}
	gb = each ? (double)size / median(each, (size_t)rounds) / 1e6 : 0;
	free(each);
	return gb;
}

static void copy(size_t size, int rounds)
{
	void *pageable = malloc(size), *pinned;

	MUST(CU(cuMemAlloc_v2)(&mem, size));
	MUST(CU(cuMemHostAlloc)(&pinned, size, 0));
	if (!pageable || rounds < 1)
		exit(1);
	memset(pageable, 1, size);
	memset(pinned, 1, size);
	for (int i = 0; i < 4; i++)
		printf("%s\"%s_%s\": {\"value\": %.3f, \"unit\": \"GB/s\"}", i ? ", " : "{",
		       i % 2 ? "d2h" : "h2d", i < 2 ? "pageable" : "pinned",
		       copies(i < 2 ? pageable : pinned, size, rounds, i % 2 == 0));
	printf("}\n");
}

/* The bytes of the file at @path, again and again until there are @size. */
static char *bytes_of(const char *path, size_t size)
{
	FILE *f = fopen(path, "rb");
	char *bytes = malloc(size);
	size_t n = f && bytes ? fread(bytes, 1, size, f) : 0;

	if (n == 0) {
		perror(path);
		exit(1);
	}
	for (size_t at = n; at < size; at++)
		bytes[at] = bytes[at - n];
	fclose(f);
	return bytes;
}

/* The median of the second half: with the first copies, the client measures the network. */
static void upload(const char *path, size_t size, int rounds)
{
	char *bytes = bytes_of(path, size);
	double *each = calloc((size_t)rounds, sizeof(*each)), mark;

	MUST(CU(cuMemAlloc_v2)(&mem, size));
	for (int r = 0; each && r < rounds; r++) {
		mark = now(CLOCK_MONOTONIC);
		MUST(CU(cuMemcpyHtoD_v2)(mem, bytes, size));
		each[r] = ms_since(&mark);
	}
	if (each)
		printf("%.1f\n", median(each + rounds / 2, (size_t)(rounds - rounds / 2)));
	free(each);
	free(bytes);
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "";
	double ms[5];
	char byte;

	driver = dlopen("libcuda.so.1", RTLD_NOW);
	if (!driver) {
		fprintf(stderr, "%s\n", dlerror());
		return 1;
	}
	begin(ms);
	if (strcmp(what, "start") == 0) {
		print_start(ms);
	} else if ((strcmp(what, "steps") == 0 || strcmp(what, "meet") == 0) && argc == 5) {
		if (*what == 'm')
			meet();
		steps(atof(argv[2]), atoi(argv[3]), (unsigned int)atoi(argv[4]));
	} else if (strcmp(what, "copy") == 0 && argc == 4) {
		copy((size_t)atoi(argv[2]) << 20, atoi(argv[3]));
	} else if (strcmp(what, "upload") == 0 && argc == 5 && atoi(argv[4]) > 0) {
		upload(argv[2], (size_t)atoi(argv[3]) << 20, atoi(argv[4]));
	} else if (strcmp(what, "idle") == 0) {
		printf("ready\n");
		fflush(stdout);
		while (read(0, &byte, 1) > 0)
			;
	} else {
		fprintf(stderr, "usage: see the head of bench/load.c\n");
		return 2;
	}
	return 0;
}
