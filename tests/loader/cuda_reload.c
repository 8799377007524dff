/*
 * tests/loader/cuda_reload.c - a program that uses CUDA, has the CUDA half taken out and put in
 * again while it holds nothing on the GPU, and uses CUDA again.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "entries.h"
#include "loader/find.h"

#define CHECK(x)                                                                                   \
	do {                                                                                       \
		if (!(x)) {                                                                        \
			printf("line %d: not so: %s\n", __LINE__, #x);                             \
			return 1;                                                                  \
		}                                                                                  \
	} while (0)

/* Who reads the test's output wants to know which. */
static int print_descriptors(void)
{
	char link[64], name[256];

	for (int fd = 0; fd < 256; fd++) {
		ssize_t n;

		snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
		n = readlink(link, name, sizeof(name) - 1);
		if (n > 0)
			printf("%d %.*s\n", fd, (int)n, name);
	}
	return 0;
}

#define CALL(name, ...) ((int (*)())dlsym(driver, #name))(__VA_ARGS__)

static int use(void *driver, int value)
{
	unsigned long long memory = 0;
	int got[256] = {0}, put[256], device = -1;
	void *context = NULL;

	for (int i = 0; i < 256; i++)
		put[i] = value + i;
	CHECK(!CALL(cuInit, 0) && !CALL(cuDeviceGet, &device, 0));
	CHECK(!CALL(cuDevicePrimaryCtxRetain, &context, device) && !CALL(cuCtxSetCurrent, context));
	CHECK(!CALL(cuMemAlloc_v2, &memory, sizeof(put)));
	CHECK(!CALL(cuMemcpyHtoD_v2, memory, put, sizeof(put)));
	CHECK(!CALL(cuMemcpyDtoH_v2, got, memory, sizeof(got)));
	CHECK(!memcmp(got, put, sizeof(got)));
	CHECK(!CALL(cuMemFree_v2, memory) && !CALL(cuDevicePrimaryCtxRelease_v2, device));
	return 0;
}

int main(void)
{
	void *driver = dlopen("libcuda.so.1", RTLD_NOW);
	struct lhinfo *info = lhinfo_find();
	int descriptors = entries("/proc/self/fd"), threads = entries("/proc/self/task"), version;

	CHECK(driver && info && !strcmp(info->half[1].name, "cuda"));
	for (int round = 0; round < 3; round++) {
		CHECK(!use(driver, round * 1000));
		CHECK(!info->drop(1));
		CHECK(entries("/proc/self/task") < threads);
		CHECK(entries("/proc/self/fd") == descriptors || print_descriptors());
		CHECK(CALL(cuDriverGetVersion, &version) == 3); /* CUDA_ERROR_NOT_INITIALIZED */
		CHECK(!info->load(1) && info->half[1].generation == (uint32_t)round + 2);
	}
	CHECK(!use(driver, 9000));
	printf("ok\n");
	return 0;
}
