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

#include "bench/driver.h"
#include "gen/api.h"

#define LAUNCHES 20000
#define ROUNDS 200

static void *driver;
static CUfunction empty;
static CUstream stream;
static int rows;

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
	static const size_t sizes[] = {4 << 20, 256 << 20};
	double each[50];

	for (int s = 0; s < 2; s++) {
		char name[32];
		CUdeviceptr p;

		for (int r = 0; r < 50; r++) {
			double begin = now_us();

			/* both: remotely the one waits for what the other left to be done */
			MUST(CU(cuMemAlloc_v2)(&p, sizes[s]));
			MUST(CU(cuMemFree_v2)(p));
			each[r] = now_us() - begin;
		}
		snprintf(name, sizeof(name), "alloc_free_%zuM", sizes[s] >> 20);
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
static void copies(const char *kind, void *host, CUdeviceptr dev, size_t most)
{
	static const size_t sizes[] = {4, 1 << 10, 64 << 10, 1 << 20, 16 << 20, 256 << 20};

	for (size_t s = 0; s < sizeof(sizes) / sizeof(sizes[0]) && sizes[s] <= most; s++) {
		for (int up = 1; up >= 0; up--) {
			size_t n = sizes[s];
			int rounds = n > (8 << 20) ? 7 : 60;
			double each[60];
			char name[64];

			for (int r = -2; r < rounds; r++) {
				double begin = now_us();

				MUST(up ? CU(cuMemcpyHtoD_v2)(dev, host, n)
					: CU(cuMemcpyDtoH_v2)(host, dev, n));
				if (r >= 0)
					each[r] = now_us() - begin;
			}
			snprintf(name, sizeof(name), "%s_%s_%zu%s", up ? "h2d" : "d2h", kind,
				 n >= 1 << 20 ? n >> 20
				 : n >= 1024  ? n >> 10
					      : n,
				 n >= 1 << 20 ? "M"
				 : n >= 1024  ? "K"
					      : "B");
			if (n >= 1 << 20)
				row(name, (double)n / median(each, rounds) / 1e3, "GB/s");
			else
				row(name, median(each, rounds), "us");
		}
	}
}

/* scan: threads of a grid read @n vectors of 16 bytes at @p, and write if their bits say so. */
static const char ptx[] =
	".version 7.0\n.target sm_75\n.address_size 64\n"
	".visible .entry empty()\n{\n\tret;\n}\n"
	".visible .entry scan(.param .u64 p, .param .u32 n)\n{\n"
	".reg .u32 %r<12>;\n.reg .u64 %rd<4>;\n.reg .pred %q<3>;\n"
	"ld.param.u64 %rd0, [p];\nld.param.u32 %r0, [n];\n"
	"mov.u32 %r1, %ctaid.x;\nmov.u32 %r2, %ntid.x;\nmov.u32 %r3, %tid.x;\n"
	"mad.lo.u32 %r4, %r1, %r2, %r3;\nmov.u32 %r5, %nctaid.x;\n"
	"mul.lo.u32 %r5, %r5, %r2;\nmov.u32 %r10, 1;\n"
	"more:\nsetp.ge.u32 %q0, %r4, %r0;\n@%q0 bra done;\n"
	"mul.wide.u32 %rd1, %r4, 16;\nadd.u64 %rd2, %rd0, %rd1;\n"
	"ld.global.v4.u32 {%r6, %r7, %r8, %r9}, [%rd2];\n"
	"xor.b32 %r6, %r6, %r7;\nxor.b32 %r8, %r8, %r9;\nand.b32 %r6, %r6, %r8;\n"
	"and.b32 %r10, %r10, %r6;\nadd.u32 %r4, %r4, %r5;\nbra more;\n"
	"done:\nsetp.ne.u32 %q1, %r10, 0;\n@%q1 st.global.u32 [%rd0], %r10;\nret;\n}\n";

/* A number from the device, as PyTorch's .item() gets it: a copy to pinned memory, and the wait for
 * it. */
static void items(void *pinned, CUdeviceptr mem)
{
	double each[ROUNDS];

	for (int r = -10; r < ROUNDS; r++) {
		double begin = now_us();

		MUST(CU(cuMemcpyDtoHAsync_v2)(pinned, mem, 4, stream));
		sync();
		if (r >= 0)
			each[r] = now_us() - begin;
	}
	row("item", median(each, ROUNDS), "us");
}

/* A launch and an event behind it that is asked for until it is done; asking for one that is. */
static void polls(void)
{
	__typeof__(cuEventQuery) *query = CU(cuEventQuery);
	double each[ROUNDS];
	CUevent event;
	CUresult err;

	MUST(CU(cuEventCreate)(&event, CU_EVENT_DISABLE_TIMING));
	for (int r = -10; r < ROUNDS; r++) {
		double begin = now_us();

		launch();
		MUST(CU(cuEventRecord)(event, stream));
		while ((err = query(event)) == CUDA_ERROR_NOT_READY)
			;
		MUST(err);
		if (r >= 0)
			each[r] = now_us() - begin;
	}
	row("launch_poll", median(each, ROUNDS), "us");
	for (int r = 0; r < ROUNDS; r++) {
		double begin = now_us();

		MUST(query(event));
		each[r] = now_us() - begin;
	}
	row("query_done", median(each, ROUNDS), "us");
	MUST(CU(cuEventDestroy_v2)(event));
}

/* What a copy from or to pinned memory costs the thread that asks for it. */
static void enqueues(void *pinned, CUdeviceptr mem)
{
	static const size_t sizes[] = {4 << 10, 1 << 20};
	double up[ROUNDS], down[ROUNDS];
	char name[64];

	for (int s = 0; s < 2; s++) {
		for (int r = 0; r < ROUNDS; r++) {
			double begin = now_us();

			MUST(CU(cuMemcpyHtoDAsync_v2)(mem, pinned, sizes[s], stream));
			up[r] = now_us() - begin;
			begin = now_us();
			MUST(CU(cuMemcpyDtoHAsync_v2)(pinned, mem, sizes[s], stream));
			down[r] = now_us() - begin;
			if (r % 50 == 0)
				sync();
		}
		sync();
		snprintf(name, sizeof(name), "h2d_enqueue_%zuK", sizes[s] >> 10);
		row(name, median(up, ROUNDS), "us");
		snprintf(name, sizeof(name), "d2h_enqueue_%zuK", sizes[s] >> 10);
		row(name, median(down, ROUNDS), "us");
	}
}

/* A kernel that reads pinned memory: @size bytes. */
static void mapped(CUmodule module, void *pinned, size_t size)
{
	unsigned int n = (unsigned int)(size / 16);
	void *params[] = {&pinned, &n};
	CUfunction scan;
	double each[7];

	MUST(CU(cuModuleGetFunction)(&scan, module, "scan"));
	for (int r = -2; r < 7; r++) {
		double begin = now_us();

		MUST(CU(cuLaunchKernel)(scan, 264, 1, 1, 512, 1, 1, 0, stream, params, NULL));
		sync();
		if (r >= 0)
			each[r] = now_us() - begin;
	}
	row("mapped_read", (double)size / median(each, 7) / 1e3, "GB/s");
}

/* Getting and giving back pinned memory. */
static void pinning(void)
{
	static const size_t sizes[] = {4096, 64 << 20};
	double get[20], give[20];
	char name[64];

	for (int s = 0; s < 2; s++) {
		for (int r = 0; r < 20; r++) {
			double begin = now_us();
			void *p;

			MUST(CU(cuMemHostAlloc)(&p, sizes[s], 0));
			get[r] = now_us() - begin;
			begin = now_us();
			MUST(CU(cuMemFreeHost)(p));
			give[r] = now_us() - begin;
		}
		snprintf(name, sizeof(name), "pin_%s", s ? "64M" : "4K");
		row(name, median(get, 20), "us");
		snprintf(name, sizeof(name), "unpin_%s", s ? "64M" : "4K");
		row(name, median(give, 20), "us");
	}
}

#define KERNELS 17

/*
 * Kernels k0, k1, ... of about 100 us each on a GPU, none of which has been launched: the address
 * of each load depends on the load before.
 */
static CUmodule kernels_load(void)
{
	static char text[KERNELS * 768];
	size_t n = (size_t)sprintf(text, ".version 7.0\n.target sm_75\n.address_size 64\n");
	CUmodule module;

	for (int k = 0; k < KERNELS; k++)
		n += (size_t)sprintf(
			text + n,
			".visible .entry k%d(.param .u64 p)\n{\n"
			".reg .u32 %%r<3>;\n.reg .u64 %%rd<2>;\n.reg .pred %%q<2>;\n"
			"ld.param.u64 %%rd0, [p];\nmov.u32 %%r0, 0;\nmov.u32 %%r1, %d;\n"
			"mov.u64 %%rd1, %%rd0;\n"
			"more:\nld.volatile.global.u32 %%r2, [%%rd1];\n"
			"and.b32 %%r2, %%r2, 4;\ncvt.u64.u32 %%rd1, %%r2;\n"
			"add.u64 %%rd1, %%rd1, %%rd0;\nadd.u32 %%r1, %%r1, %%r2;\n"
			"add.u32 %%r0, %%r0, 1;\n"
			"setp.lt.u32 %%q0, %%r0, 300;\n@%%q0 bra more;\n"
			"st.global.u32 [%%rd0], %%r1;\nret;\n}\n",
			k, k);
	MUST(CU(cuModuleLoadData)(&module, text));
	return module;
}

static double between_events(CUfunction kernel, CUdeviceptr mem, CUevent event[2])
{
	void *params[] = {&mem};
	float ms;

	MUST(CU(cuEventRecord)(event[0], stream));
	MUST(CU(cuLaunchKernel)(kernel, 1, 1, 1, 1, 1, 1, 0, stream, params, NULL));
	MUST(CU(cuEventRecord)(event[1], stream));
	MUST(CU(cuEventSynchronize)(event[1]));
	MUST(CU(cuEventElapsedTime_v2)(&ms, event[0], event[1]));
	return ms * 1e3;
}

/* What events say a kernel takes: at its first launch, and later. */
static void events(CUdeviceptr mem)
{
	double first[KERNELS], later[KERNELS];
	CUmodule module = kernels_load();
	CUevent event[2];

	MUST(CU(cuEventCreate)(&event[0], 0));
	MUST(CU(cuEventCreate)(&event[1], 0));
	for (int k = 0; k < KERNELS; k++) {
		CUfunction kernel;
		char name[16];

		snprintf(name, sizeof(name), "k%d", k);
		MUST(CU(cuModuleGetFunction)(&kernel, module, name));
		first[k] = between_events(kernel, mem, event);
		later[k] = between_events(kernel, mem, event);
	}
	row("event_first", median(first, KERNELS), "us");
	row("event_later", median(later, KERNELS), "us");
}

/* bench-micro [launches|calls]: all rows, or those of launches alone, or of small calls. */
int main(int argc, char **argv)
{
	double begin = now_us();
	int launches_only = argc > 1 && strcmp(argv[1], "launches") == 0;
	int calls_only = argc > 1 && strcmp(argv[1], "calls") == 0;
	size_t most = calls_only ? 64 << 10 : 256 << 20;
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
	if (!launches_only) {
		polls();
		MUST(CU(cuMemHostAlloc)(&pinned, most, 0));
		memset(pinned, 1, most);
		items(pinned, mem);
		copies("pinned", pinned, mem, most);
	}
	if (!launches_only && !calls_only) {
		events(mem);
		allocations();
		copies("pageable", pageable, mem, most);
		enqueues(pinned, mem);
		mapped(module, pinned, 64 << 20);
		pinning();
	}
	printf("}\n");
	return 0;
}
