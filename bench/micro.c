/*
 * bench/micro.c - what single driver calls cost: the first rows of the bench. One program for
 * native and remote; prints JSON. Medians unless a row says otherwise.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "gen/api.h"

#define LAUNCHES 20000
#define ROUNDS 200

static void *driver;
static CUfunction empty;
static CUstream stream;
static int rows;

#define CU(name) ((__typeof__(name) *)dlsym(driver, #name))
#define MUST(call)                                                              \
	do {                                                                    \
		CUresult err_ = (call);                                         \
		if (err_) {                                                     \
			fprintf(stderr, "%s = %d\n", #call, (int)err_);         \
			exit(1);                                                \
		}                                                               \
	} while (0)

static double now_us(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec * 1e6 + (double)ts.tv_nsec / 1e3;
}

static void row(const char *name, double value, const char *unit)
{
	printf("%s\"%s\": {\"value\": %.4f, \"unit\": \"%s\"}", rows++ ? ", " : "{", name, value,
	       unit);
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static double median(double *v, int n)
{
	qsort(v, (size_t)n, sizeof(*v), by_value);
	return v[n / 2];
}

static void launch(void)
{
	static __typeof__(cuLaunchKernel) *fn;

	if (!fn)
		fn = CU(cuLaunchKernel);
	MUST(fn(empty, 1, 1, 1, 32, 1, 1, 0, stream, NULL, NULL));
}

static void sync(void)
{
	static __typeof__(cuStreamSynchronize) *fn;

	if (!fn)
		fn = CU(cuStreamSynchronize);
	MUST(fn(stream));
}

static void launches(void)
{
	double enqueue[5], total[5], each[ROUNDS];

	for (int i = 0; i < 1000; i++)
		launch();
	sync();
	for (int r = 0; r < 5; r++) {
		double begin = now_us();

		for (int i = 0; i < LAUNCHES; i++)
			launch();
		enqueue[r] = (now_us() - begin) / LAUNCHES;
		sync();
		total[r] = (now_us() - begin) / LAUNCHES;
	}
	for (int r = 0; r < ROUNDS; r++) {
		double begin = now_us();

		launch();
		sync();
		each[r] = now_us() - begin;
	}
	row("launch_enqueue", median(enqueue, 5), "us");
	row("launch_total", median(total, 5), "us");
	row("launch_sync", median(each, ROUNDS), "us");
	for (int r = 0; r < ROUNDS; r++) {
		double begin = now_us();

		sync();
		each[r] = now_us() - begin;
	}
	row("sync_idle", median(each, ROUNDS), "us");
}

static void allocations(void)
{
	static const size_t sizes[] = { 4 << 20, 256 << 20 };
	double each[50];

	for (int s = 0; s < 2; s++) {
		char name[32];
		CUdeviceptr p;

		for (int r = 0; r < 50; r++) {
			double begin = now_us();

			MUST(CU(cuMemAlloc_v2)(&p, sizes[s]));
			each[r] = now_us() - begin;
			MUST(CU(cuMemFree_v2)(p));
		}
		snprintf(name, sizeof(name), "alloc_%zuM", sizes[s] >> 20);
		row(name, median(each, 50), "us");
	}
	for (int r = 0; r < 50; r++) {
		size_t free, total;
		double begin = now_us();

		MUST(CU(cuMemGetInfo_v2)(&free, &total));
		each[r] = now_us() - begin;
	}
	row("mem_get_info", median(each, 50), "us");
}

/* Time of one synchronous copy, in us for small and GB/s for large sizes. */
static void copies(const char *kind, void *host, CUdeviceptr dev)
{
	static const size_t sizes[] = { 4, 1 << 10, 64 << 10, 1 << 20, 16 << 20, 256 << 20 };

	for (size_t s = 0; s < sizeof(sizes) / sizeof(sizes[0]); s++) {
		for (int up = 1; up >= 0; up--) {
			size_t n = sizes[s];
			int rounds = n > (8 << 20) ? 7 : 60;
			double each[60];
			char name[64];

			for (int r = -2; r < rounds; r++) {
				double begin = now_us();

				MUST(up ? CU(cuMemcpyHtoD_v2)(dev, host, n) :
					  CU(cuMemcpyDtoH_v2)(host, dev, n));
				if (r >= 0)
					each[r] = now_us() - begin;
			}
			snprintf(name, sizeof(name), "%s_%s_%zu%s", up ? "h2d" : "d2h", kind,
				 n >= 1 << 20 ? n >> 20 : n >= 1024 ? n >> 10 : n,
				 n >= 1 << 20 ? "M" : n >= 1024 ? "K" : "B");
			if (n >= 1 << 20)
				row(name, (double)n / median(each, rounds) / 1e3, "GB/s");
			else
				row(name, median(each, rounds), "us");
		}
	}
}

static const char ptx[] = ".version 7.0\n.target sm_75\n.address_size 64\n"
			  ".visible .entry empty()\n{\n\tret;\n}\n";

int main(void)
{
	double begin = now_us();
	CUcontext ctx;
	CUdevice dev;
	CUmodule module;
	CUdeviceptr mem;
	void *pinned, *pageable = malloc(256 << 20);

	driver = dlopen("libcuda.so.1", RTLD_NOW);
	if (!driver || !pageable) {
		fprintf(stderr, "%s\n", driver ? "no memory" : dlerror());
		return 1;
	}
	memset(pageable, 1, 256 << 20);
	begin = now_us();
	MUST(CU(cuInit)(0));
	MUST(CU(cuDeviceGet)(&dev, 0));
	MUST(CU(cuDevicePrimaryCtxRetain)(&ctx, dev));
	MUST(CU(cuCtxSetCurrent)(ctx));
	MUST(CU(cuMemAlloc_v2)(&mem, 256 << 20));
	row("first_calls", (now_us() - begin) / 1e3, "ms");
	MUST(CU(cuModuleLoadData)(&module, ptx));
	MUST(CU(cuModuleGetFunction)(&empty, module, "empty"));
	MUST(CU(cuStreamCreate)(&stream, CU_STREAM_DEFAULT));
	launches();
	allocations();
	copies("pageable", pageable, mem);
	MUST(CU(cuMemHostAlloc)(&pinned, 256 << 20, 0));
	memset(pinned, 1, 256 << 20);
	copies("pinned", pinned, mem);
	printf("}\n");
	return 0;
}
