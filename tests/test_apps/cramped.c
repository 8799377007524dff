/*
 * tests/test_apps/cramped.c - programs with little of something: cramped WHAT [N]. A small stack, a
 * limit of the size of files, few descriptors, system calls that are not permitted. It says what
 * works.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#define MORE_DRIVER_CALLS(X)                                                                       \
	X(cuMemAllocManaged, (CUdeviceptr *, size_t, unsigned int))                                \
	X(cuMemHostAlloc, (void **, size_t, unsigned int))                                         \
	X(cuMemFreeHost, (void *))                                                                 \
	X(cuMemsetD8_v2, (CUdeviceptr, unsigned char, size_t))
#include "driver_api.h"

#define SIZE (32u << 20)
#define LIMIT 256

static const char ptx[] = ".version 7.0\n"
			  ".target sm_75\n"
			  ".address_size 64\n"
			  "// *p = 1\n"
			  ".visible .entry one(.param .u64 p, .param .align 8 .b8 more[3000])\n"
			  "{\n"
			  "	.reg .b64 %rd1;\n"
			  "	.reg .b32 %r1;\n"
			  "	ld.param.u64 %rd1, [p];\n"
			  "	mov.u32 %r1, 1;\n"
			  "	st.global.u32 [%rd1], %r1;\n"
			  "	ret;\n"
			  "}\n";

static CUcontext ctx;

static CUresult check(const char *what, CUresult err)
{
	if (err)
		printf("%s: %d\n", what, (int)err);
	return err;
}

static CUresult begin(void)
{
	CUdevice dev;

	return check("cuInit", cu.cuInit(0)) || check("cuDeviceGet", cu.cuDeviceGet(&dev, 0)) ||
	       check("cuDevicePrimaryCtxRetain", cu.cuDevicePrimaryCtxRetain(&ctx, dev)) ||
	       check("cuCtxSetCurrent", cu.cuCtxSetCurrent(ctx));
}

/* A kernel with much to pass, a copy. 0: right. */
static CUresult kernel(void)
{
	static char more[3000];
	CUdeviceptr d;
	CUmodule module;
	CUfunction f;
	void *params[] = {&d, more};
	int out = 0;
	CUresult err = check("cuCtxSetCurrent", cu.cuCtxSetCurrent(ctx)) ||
		       check("cuModuleLoadData", cu.cuModuleLoadData(&module, ptx)) ||
		       check("cuModuleGetFunction", cu.cuModuleGetFunction(&f, module, "one")) ||
		       check("cuMemAlloc", cu.cuMemAlloc_v2(&d, 4)) ||
		       check("cuLaunchKernel",
			     cu.cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL)) ||
		       check("cuMemcpyDtoH", cu.cuMemcpyDtoH_v2(&out, d, sizeof(out)));

	printf("kernel: %d\n", out);
	return err;
}

/* Is each byte @value? */
static int all(const char *p, char value)
{
	return p[0] == value && memcmp(p, p + 1, SIZE - 1) == 0;
}

/* Fetched, and sent and fetched again. */
static void pageable_memory(CUdeviceptr d)
{
	char *host = calloc(1, SIZE);
	int right;

	if (check("cuMemcpyDtoH", cu.cuMemcpyDtoH_v2(host, d, SIZE)))
		return;
	right = all(host, 5);
	memset(host, 9, SIZE);
	if (check("cuMemcpyHtoD", cu.cuMemcpyHtoD_v2(d, host, SIZE)))
		return;
	memset(host, 0, SIZE);
	if (check("cuMemcpyDtoH", cu.cuMemcpyDtoH_v2(host, d, SIZE)))
		return;
	printf("pageable: %s\n", right && all(host, 9) ? "right" : "wrong");
	free(host);
}

static void memories(void)
{
	CUdeviceptr d, managed;
	void *pinned;

	if (check("cuMemAlloc", cu.cuMemAlloc_v2(&d, SIZE)))
		return;
	cu.cuMemsetD8_v2(d, 5, SIZE);
	pageable_memory(d);
	if (!check("cuMemHostAlloc", cu.cuMemHostAlloc(&pinned, SIZE, 2)) &&
	    !check("pinned", cu.cuMemcpyDtoH_v2(pinned, d, SIZE)))
		printf("pinned: %s\n", all(pinned, 9) ? "right" : "wrong");
	if (!check("cuMemAllocManaged", cu.cuMemAllocManaged(&managed, SIZE, 1))) {
		memset((void *)managed, 7, SIZE);
		cu.cuMemsetD8_v2(managed, 6, SIZE / 2);
		cu.cuCtxSynchronize();
		printf("managed: %s\n", *(char *)managed == 6 && ((char *)managed)[SIZE - 1] == 7
						? "right"
						: "wrong");
	}
}

static void *in_thread(void *arg)
{
	if (!begin() && !kernel())
		memories();
	return arg;
}

static void little_stack(long bytes)
{
	pthread_attr_t attr;
	pthread_t t;

	pthread_attr_init(&attr);
	if (pthread_attr_setstacksize(&attr, (size_t)bytes) != 0 ||
	    pthread_create(&t, &attr, in_thread, NULL) != 0)
		abort();
	pthread_join(t, NULL);
}

/* SIGXFSZ has its default action. */
static void small_files(long bytes)
{
	const struct rlimit limit = {(rlim_t)bytes, (rlim_t)bytes};

	setrlimit(RLIMIT_FSIZE, &limit);
	if (!begin() && !kernel())
		memories();
}

static void few_descriptors(long left)
{
	const struct rlimit limit = {LIMIT, LIMIT};

	setrlimit(RLIMIT_NOFILE, &limit);
	while (open("/dev/null", O_RDONLY) >= 0)
		;
	for (long i = 1; i <= left; i++)
		close((int)(LIMIT - i));
	if (!begin())
		kernel();
}

/* System call @number gets EPERM, as by a container's filter; a thread by clone3 too, which the C
 * library then tries by clone. */
static void not_permitted(long number)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned int)number, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	const struct sock_fprog program = {sizeof(code) / sizeof(code[0]), code};

	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) < 0)
		abort();
	if (!begin() && !kernel())
		memories();
}

int main(int argc, char **argv)
{
	static const struct {
		const char *what;
		void (*run)(long n);
		long number; /* instead of the argument's */
	} table[] = {
		{"stack", little_stack, 0},
		{"files", small_files, 0},
		{"descriptors", few_descriptors, 0},
		{"eventfd2", not_permitted, SYS_eventfd2},
		{"epoll_create1", not_permitted, SYS_epoll_create1},
		{"memfd_create", not_permitted, SYS_memfd_create},
		{"clone3", not_permitted, SYS_clone3},
		{"socketpair", not_permitted, SYS_socketpair},
	};

	setbuf(stdout, NULL);
	if (driver_open() < 0 || argc < 2)
		return 2;
	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		if (strcmp(table[i].what, argv[1]) == 0)
			table[i].run(argc > 2 ? atol(argv[2]) : table[i].number);
	}
	return 0;
}
