/*
 * tests/test_apps/awkward.c - what processes do around CUDA: awkward WHAT. Threads are cancelled,
 * descriptors run out or are closed, children are forked, signals are masked. Nothing of it may end
 * or stop the process, or cost it its GPU; it says what it has seen. For the remote modes alone.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#define MORE_DRIVER_CALLS(X)                                                                       \
	X(cuMemAllocManaged, (CUdeviceptr *, size_t, unsigned int))                                \
	X(cuMemHostAlloc, (void **, size_t, unsigned int))                                         \
	X(cuMemcpyDtoHAsync_v2, (void *, CUdeviceptr, size_t, CUstream))                           \
	X(cuLaunchHostFunc, (CUstream, CUhostFn, void *))                                          \
	X(cuMemFreeHost, (void *))                                                                 \
	X(cuMemHostRegister_v2, (void *, size_t, unsigned int))                                    \
	X(cuMemHostUnregister, (void *))                                                           \
	X(cuMemcpyHtoDAsync_v2, (CUdeviceptr, const void *, size_t, CUstream))                     \
	X(cuMemsetD8Async, (CUdeviceptr, unsigned char, size_t, CUstream))
#include "driver_api.h"

#define PAGES (64u << 10)
#define BIG (1u << 20)
#define CHILDREN 6
#define CROWD 800

static const char ptx[] = ".version 7.0\n"
			  ".target sm_75\n"
			  ".address_size 64\n"
			  "// *p = 1\n"
			  ".visible .entry one(.param .u64 p)\n"
			  "{\n"
			  "	.reg .b64 %rd1;\n"
			  "	.reg .b32 %r1;\n"
			  "	ld.param.u64 %rd1, [p];\n"
			  "	mov.u32 %r1, 1;\n"
			  "	st.global.u32 [%rd1], %r1;\n"
			  "	ret;\n"
			  "}\n";

static CUcontext ctx;

static void check(const char *what, CUresult err)
{
	if (!err)
		return;
	printf("%s: %d\n", what, (int)err);
	exit(1);
}

static void begin(void)
{
	CUdevice dev;

	check("cuInit", cu.cuInit(0));
	check("cuDeviceGet", cu.cuDeviceGet(&dev, 0));
	check("cuDevicePrimaryCtxRetain", cu.cuDevicePrimaryCtxRetain(&ctx, dev));
	check("cuCtxSetCurrent", cu.cuCtxSetCurrent(ctx));
	check("cuCtxSynchronize", cu.cuCtxSynchronize());
}

/* There is a GPU yet, for this thread. */
static void still_works(void)
{
	int in = 42, out = 0;
	CUdeviceptr d;

	check("cuMemAlloc", cu.cuMemAlloc_v2(&d, sizeof(in)));
	check("cuMemcpyHtoD", cu.cuMemcpyHtoD_v2(d, &in, sizeof(in)));
	check("cuMemcpyDtoH", cu.cuMemcpyDtoH_v2(&out, d, sizeof(out)));
	check("cuMemFree", cu.cuMemFree_v2(d));
	printf("works: %d\n", out);
}

static pthread_t thread(void *(*run)(void *))
{
	pthread_t t;

	if (pthread_create(&t, NULL, run, NULL) != 0)
		abort();
	return t;
}

/* --- cancel: in the middle of whatever a thread calls */

static void *busy(void *arg)
{
	static char bytes[BIG];
	CUdeviceptr d;

	check("cuCtxSetCurrent", cu.cuCtxSetCurrent(ctx));
	check("cuMemAlloc", cu.cuMemAlloc_v2(&d, BIG));
	for (unsigned int i = 0;; i++) {
		cu.cuMemcpyHtoDAsync_v2(d, bytes, BIG, NULL);
		cu.cuMemsetD8Async(d, 0, BIG, NULL);
		if (i % 8 == 7)
			cu.cuCtxSynchronize();
		pthread_testcancel();
	}
	return arg;
}

static void cancel(void)
{
	begin();
	for (unsigned int i = 0; i < 8; i++) {
		pthread_t t = thread(busy);

		usleep(20000 + i * 777);
		pthread_cancel(t);
		pthread_join(t, NULL);
	}
	still_works();
}

/* --- pending: threads that are cancelled before they call end behind the call, which holds a lock
 * meanwhile */
static char registered[BIG];
static void *pinned;
static CUdeviceptr managed;
static CUevent event;
static size_t which;
static void register_it(void)
{
	check("cuMemHostRegister", cu.cuMemHostRegister_v2(registered, BIG, 0));
}
static void unregister_it(void)
{
	check("cuMemHostUnregister", cu.cuMemHostUnregister(registered));
}
static void take_pinned(void)
{
	check("cuMemHostAlloc", cu.cuMemHostAlloc(&pinned, BIG, 0));
}
static void give_pinned(void)
{
	check("cuMemFreeHost", cu.cuMemFreeHost(pinned));
}
static void take_managed(void)
{
	check("cuMemAllocManaged", cu.cuMemAllocManaged(&managed, BIG, 1));
}
static void give_managed(void)
{
	check("cuMemFree", cu.cuMemFree_v2(managed));
}
static void query(void)
{
	cu.cuEventQuery(event);
}

static void (*const calls[])(void) = {take_managed, give_managed,  take_pinned, give_pinned,
				      register_it,  unregister_it, query};

static void *call_pending(void *arg)
{
	check("cuCtxSetCurrent", cu.cuCtxSetCurrent(ctx));
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
	pthread_cancel(pthread_self());
	pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, NULL);
	calls[which]();
	return arg;
}

static void pending(void)
{
	begin();
	check("cuEventCreate", cu.cuEventCreate(&event, 0));
	check("cuEventRecord", cu.cuEventRecord(event, NULL));
	for (which = 0; which < sizeof(calls) / sizeof(calls[0]); which++)
		pthread_join(thread(call_pending), NULL);
	for (which = 0; which < sizeof(calls) / sizeof(calls[0]); which++)
		calls[which]();
	still_works();
}

/* --- exit: by the handler of a signal, in the middle of whatever the thread calls */

static void leave(int sig)
{
	(void)sig;
	exit(0);
}

static void exits(void)
{
	struct itimerval soon = {0};
	int status, ended = 0;

	for (unsigned int i = 0; i < CHILDREN; i++) {
		if (fork() == 0) {
			alarm(0);
			signal(SIGALRM, leave);
			begin();
			soon.it_value.tv_usec = 60000 + i * 1777;
			setitimer(ITIMER_REAL, &soon, NULL);
			busy(NULL);
		}
	}
	for (unsigned int i = 0; i < CHILDREN; i++)
		ended += wait(&status) > 0 && status == 0;
	printf("ended: %d\n", ended);
}

/* --- descriptors: none is left for another thread's connection */

static void *ask(void *arg)
{
	size_t avail, total;

	check("cuCtxSetCurrent", cu.cuCtxSetCurrent(ctx));
	printf("another thread: %d\n", (int)cu.cuMemGetInfo_v2(&avail, &total));
	return arg;
}

/* Keep a connection, so that the client has none in reserve for the next thread. */
static pthread_barrier_t held, end_of_hold;

static void *hold(void *arg)
{
	size_t avail, total;

	check("cuCtxSetCurrent", cu.cuCtxSetCurrent(ctx));
	check("cuMemGetInfo", cu.cuMemGetInfo_v2(&avail, &total));
	pthread_barrier_wait(&held);
	pthread_barrier_wait(&end_of_hold);
	return arg;
}

static void only_descriptors(rlim_t count)
{
	struct rlimit limit;

	getrlimit(RLIMIT_NOFILE, &limit);
	limit.rlim_cur = count;
	setrlimit(RLIMIT_NOFILE, &limit);
}

static void descriptors(void)
{
	size_t avail, total;
	pthread_t holder;

	begin();
	check("cuMemGetInfo",
	      cu.cuMemGetInfo_v2(&avail, &total)); /* this thread has a connection too */
	pthread_barrier_init(&held, NULL, 2);
	pthread_barrier_init(&end_of_hold, NULL, 2);
	holder = thread(hold);
	pthread_barrier_wait(&held);
	only_descriptors(3);
	pthread_join(thread(ask), NULL);
	only_descriptors(1024);
	still_works();
	pthread_join(thread(ask), NULL);
	pthread_barrier_wait(&end_of_hold);
	pthread_join(holder, NULL);
}

/* --- managed memory that is on the device */

static volatile int *shared;

static void on_device(void)
{
	void *args[] = {&shared};
	CUdeviceptr d;
	CUmodule module;
	CUfunction one;

	begin();
	check("cuMemAllocManaged", cu.cuMemAllocManaged(&d, PAGES, 1));
	check("cuModuleLoadData", cu.cuModuleLoadData(&module, ptx));
	check("cuModuleGetFunction", cu.cuModuleGetFunction(&one, module, "one"));
	shared = (int *)d;
	*shared = 5;
	check("cuLaunchKernel", cu.cuLaunchKernel(one, 1, 1, 1, 1, 1, 1, 0, NULL, args, NULL));
	check("cuCtxSynchronize", cu.cuCtxSynchronize());
}

/* --- none_left: nor for those of the client's own threads that work asks for */

static _Atomic int called;

static void count(void *unused)
{
	(void)unused;
	called++;
}

static void none_left(void)
{
	CUdeviceptr d;
	void *host;

	on_device();
	check("cuMemAlloc", cu.cuMemAlloc_v2(&d, BIG));
	check("cuMemHostAlloc", cu.cuMemHostAlloc(&host, BIG, 0));
	only_descriptors(3);
	printf("touched: %d\n", *shared);
	printf("function: %d\n", (int)cu.cuLaunchHostFunc(NULL, count, NULL));
	cu.cuMemcpyDtoHAsync_v2(host, d, BIG, NULL); /* over tcp it needs a thread */
	check("cuCtxSynchronize", cu.cuCtxSynchronize());
	only_descriptors(1024);
	check("cuLaunchHostFunc", cu.cuLaunchHostFunc(NULL, count, NULL));
	check("cuMemcpyDtoHAsync", cu.cuMemcpyDtoHAsync_v2(host, d, BIG, NULL));
	check("cuCtxSynchronize", cu.cuCtxSynchronize());
	printf("called: %d\n", called);
	still_works();
}

/* --- closed: descriptors that the program has not opened */

static void closed(void)
{
	on_device();
	for (int fd = 3; fd < 256; fd++)
		close(fd);
	printf("touched: %d\n", *shared);
}

/* --- masks: everything is blocked in a thread, and while a handler runs */

static int go[2];

static void *late(void *arg)
{
	char c;

	if (read(go[0], &c, 1) == 1)
		printf("all blocked: %d\n", *shared);
	return arg;
}

static void handler(int sig)
{
	char text[] = "handler: 0\n";

	(void)sig;
	text[9] = (char)('0' + *shared);
	if (write(STDOUT_FILENO, text, sizeof(text) - 1) < 0)
		abort();
}

static void masks(void)
{
	struct sigaction act = {.sa_handler = handler};
	sigset_t all, was;
	pthread_t t;

	setbuf(stdout, NULL);
	sigfillset(&act.sa_mask);
	sigaction(SIGUSR1, &act, NULL);
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &was);
	if (pipe(go) < 0)
		abort();
	t = thread(late);
	pthread_sigmask(SIG_SETMASK, &was, NULL);
	on_device();
	if (write(go[1], "", 1) != 1)
		abort();
	pthread_join(t, NULL);
	on_device();
	raise(SIGUSR1);
}

/* --- child: of a process with managed memory; it has none */

static void child(void)
{
	int ends[2], status = -1;
	ssize_t n;

	on_device();
	if (pipe(ends) < 0)
		abort();
	if (fork() == 0) {
		alarm(20);
		n = write(ends[1], (void *)shared, PAGES);
		_exit(n < 0 && errno == EFAULT ? 0 : 1);
	}
	wait(&status);
	printf("child: %#x\n", status);
	printf("touched: %d\n", *shared);
	still_works();
}

/* --- fork: while another thread is in cuInit */

static void *initialise(void *arg)
{
	cu.cuInit(0);
	return arg;
}

static void fork_early(void)
{
	int status = -1;

	thread(initialise);
	usleep(300000);
	if (fork() == 0) {
		alarm(20);
		_exit((int)cu.cuInit(0));
	}
	wait(&status);
	printf("child: %#x\n", status);
	fflush(stdout);
	_exit(0); /* the thread may be in cuInit yet */
}

/* --- vectors: that the kernel refuses */

static void refused(const char *what, ssize_t n)
{
	const char *name = errno == EFAULT ? "EFAULT" : errno == EINVAL ? "EINVAL" : "?";

	printf("%s: %s\n", what, n < 0 ? name : "taken");
}

static void vectors(void)
{
	struct iovec none = {NULL, 0}, *volatile nowhere = NULL;
	volatile int many = 1 << 28; /* the compiler knows better */
	int fd = open("/dev/null", O_RDWR);

	begin();
	refused("no vector", writev(fd, nowhere, 1));
	refused("a longer one than there may be", writev(fd, &none, many));
}

/* --- reader: nobody reads stderr */

static void reader(void)
{
	int ends[2];

	if (pipe(ends) < 0)
		abort();
	dup2(ends[1], STDERR_FILENO);
	close(ends[0]);
	close(ends[1]);
	printf("cuInit: %d\n", (int)cu.cuInit(0));
}

/* --- crowd: many threads make their first call at one moment, and stay */

static pthread_barrier_t gate;

static void *one_of_many(void *served)
{
	CUdeviceptr d;

	check("cuCtxSetCurrent", cu.cuCtxSetCurrent(ctx));
	pthread_barrier_wait(&gate);
	if (cu.cuMemAlloc_v2(&d, 256) == CUDA_SUCCESS && cu.cuMemFree_v2(d) == CUDA_SUCCESS)
		*(char *)served = 1;
	pthread_barrier_wait(&gate);
	return NULL;
}

static void crowd(void)
{
	static char served[CROWD];
	static pthread_t threads[CROWD];
	pthread_attr_t small;
	struct rlimit files;
	int count = 0;

	getrlimit(RLIMIT_NOFILE, &files);
	files.rlim_cur = files.rlim_max;
	setrlimit(RLIMIT_NOFILE, &files);
	begin();
	pthread_barrier_init(&gate, NULL, CROWD);
	pthread_attr_init(&small);
	pthread_attr_setstacksize(&small, 256u << 10);
	for (int i = 0; i < CROWD; i++) {
		if (pthread_create(&threads[i], &small, one_of_many, &served[i]) != 0)
			abort();
	}
	for (int i = 0; i < CROWD; i++) {
		pthread_join(threads[i], NULL);
		count += served[i];
	}
	printf("served: %d of %d\n", count, CROWD);
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*run)(void);
	} all[] = {
		{"cancel", cancel},	  {"pending", pending},
		{"exit", exits},	  {"descriptors", descriptors},
		{"none_left", none_left}, {"closed", closed},
		{"masks", masks},	  {"child", child},
		{"fork", fork_early},	  {"vectors", vectors},
		{"reader", reader},	  {"crowd", crowd},
	};

	if (driver_open() < 0)
		return 1;
	alarm(100);
	for (size_t i = 0; argc == 2 && i < sizeof(all) / sizeof(all[0]); i++) {
		if (strcmp(all[i].name, argv[1]) != 0)
			continue;
		all[i].run();
		return 0;
	}
	fprintf(stderr, "usage: awkward WHAT\n");
	return 2;
}
