/*
 * tests/loader/toy_lh.c - the lower half of toy.h; built under two names.
 */
#define _GNU_SOURCE
#include <asm/prctl.h>
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "loader/halves/half.h"
#include "rseq.h"
#include "toy.h"

extern const char *const lh_names[];
extern const unsigned long lh_hash;

static __thread int word = 7;
static int constructed, handled;

__attribute__((constructor)) static void construct(void)
{
	constructed++;
	if (getenv("TOY_TALK"))
		printf("%s: constructor\n", TOY_NAME);
}

__attribute__((destructor)) static void destroy(void)
{
	if (getenv("TOY_TALK"))
		printf("%s: destructor\n", TOY_NAME);
}

long toy_add(long a, long b)
{
	return a + b;
}

double toy_scale(double x, float y)
{
	return x * (double)y;
}

long toy_twelve(long a, long b, long c, long d, long e, long f, long g, long h, long i, long j,
		long k, long l)
{
	return a + 2 * b + 3 * c + 4 * d + 5 * e + 6 * f + 7 * g + 8 * h + 9 * i + 10 * j + 11 * k +
	       12 * l;
}

void toy_errno(int value)
{
	errno = value;
}

int *toy_word(void)
{
	return &word;
}

void *toy_malloc(size_t size)
{
	return malloc(size);
}

void toy_free(void *p)
{
	free(p);
}

/* Blocks of all sizes, each filled with its own pattern and looked at before it goes. */
long toy_churn(int rounds)
{
	enum { LIVE = 64 };
	unsigned char *blocks[LIVE] = {0};
	size_t sizes[LIVE] = {0};
	long bad = 0;

	for (int r = 0; r < rounds; r++) {
		int i = (int)((unsigned int)r * 2654435761u >> 26) % LIVE;

		for (size_t k = 0; blocks[i] && k < sizes[i]; k += 97)
			bad += blocks[i][k] != (unsigned char)(i + (int)sizes[i]);
		free(blocks[i]);
		sizes[i] = 1 + (size_t)(r % 4) * 300 + (size_t)(r % 57) * 37;
		blocks[i] = malloc(sizes[i]);
		if (!blocks[i])
			return -1;
		memset(blocks[i], i + (int)sizes[i], sizes[i]);
	}
	for (int i = 0; i < LIVE; i++)
		free(blocks[i]);
	return bad;
}

struct call {
	long (*function)(long);
	long value;
};

static void *run(void *argument)
{
	struct call *call = argument;

	call->value = call->function(call->value);
	return NULL;
}

long toy_lh_call(long (*function)(long), long value);
long toy_lh_call(long (*function)(long), long value)
{
	return function(value);
}

long toy_lh_call_in_thread(long (*function)(long), long value);
long toy_lh_call_in_thread(long (*function)(long), long value)
{
	struct call call = {function, value};
	pthread_t thread;

	if (pthread_create(&thread, NULL, run, &call))
		return -1;
	pthread_join(thread, NULL);
	return call.value;
}

long toy_wait(int *flag)
{
	int unseen = -1;

	__atomic_compare_exchange_n(flag, &unseen, 0, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
	while (!__atomic_load_n(flag, __ATOMIC_ACQUIRE))
		;
	return word;
}

static void handler(int sig)
{
	(void)sig;
	handled += word == 7;
}

int toy_handle(int sig)
{
	return signal(sig, handler) == SIG_ERR ? -1 : 0;
}

int toy_handled(void)
{
	return handled;
}

/* 0: an address of the stack, 1: of code, 2: size of rseq, 3: tid in the thread block, 4: FS,
 * 5: canary, 6: low end of the stack that pthread_getattr_np reports, 7: its size, 8: a new
 * thread's stack */
static void *where(void *argument)
{
	*(unsigned long *)argument = (unsigned long)__builtin_frame_address(0);
	return NULL;
}

unsigned long toy_fact(int which)
{
	unsigned long value = 0;
	pthread_attr_t attr;
	pthread_t thread;
	size_t size = 0;
	void *low = NULL;

	switch (which) {
	case 0:
		return (unsigned long)__builtin_frame_address(0);
	case 1:
		return (unsigned long)(void *)toy_fact;
	case 2:
		return rseq_size();
	case 3:
		__asm__("movl %%fs:0x2d0, %k0" : "=r"(value));
		return value;
	case 4:
		syscall(SYS_arch_prctl, ARCH_GET_FS, &value);
		return value;
	case 5:
		__asm__("movq %%fs:0x28, %0" : "=r"(value));
		return value;
	case 6:
	case 7:
		pthread_getattr_np(pthread_self(), &attr);
		pthread_attr_getstack(&attr, &low, &size);
		pthread_attr_destroy(&attr);
		return which == 6 ? (unsigned long)low : size;
	case 8:
		if (!pthread_create(&thread, NULL, where, &value))
			pthread_join(thread, NULL);
		return value;
	}
	return 0;
}

void toy_say(const char *text)
{
	printf("%s", text);
}

int toy_constructed(void)
{
	return constructed;
}

void *toy_open(const char *path)
{
	return dlopen(path, RTLD_NOW);
}

static void *write_to_null(void *unused)
{
	(void)unused;
	*(volatile int *)NULL = 1;
	return NULL;
}

int toy_fault_in_thread(void)
{
	pthread_t thread;

	return pthread_create(&thread, NULL, write_to_null, NULL);
}

static void *sleep_for_ever(void *unused)
{
	(void)unused;
	for (;;)
		pause();
	return NULL;
}

void *toy_map(void *at, size_t size)
{
	return mmap(at, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
		    -1, 0);
}

void *toy_fix(void *at, size_t size)
{
	return mmap(at, size, PROT_NONE,
		    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
}

void *toy_resize(void *at, size_t old, size_t size)
{
	return mremap(at, old, size, 0);
}

/* Two numbers are free afterwards, and stdout is the program's as before. */
int toy_files(void)
{
	const char *path = "/proc/self/exe";
	int fds[9], n = 0, fd = open(path, O_RDONLY);
	FILE *gone = fopen(path, "r");
	DIR *folder = fdopendir(openat(AT_FDCWD, "/proc/self", O_RDONLY | O_DIRECTORY));
	int out = dup(1);

	fds[n++] = fd;
	fds[n++] = open64(path, O_RDONLY);
	fds[n++] = openat(AT_FDCWD, path, O_RDONLY);
	fds[n++] = dup(fd);
	fds[n++] = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	n += pipe(fds + n) ? 0 : 2;
	fds[n++] = memfd_create("toy", 0);
	fds[n++] = fopen(path, "r") ? 0 : -1;
	fclose(gone);
	closedir(folder);
	dup2(out, 1);
	dup3(out, 1, 0);
	close(out);
	while (n > 0 && fds[n - 1] >= 0)
		n--;
	return n ? -1 : 9;
}

int toy_threads(int more)
{
	pthread_t thread;

	while (more-- > 0)
		if (pthread_create(&thread, NULL, sleep_for_ever, NULL))
			return -1;
	return 0;
}

static void *find(const char *name)
{
	return dlsym(RTLD_DEFAULT, name);
}

int main(void)
{
	if (getenv("TOY_TALK"))
		printf("%s: main\n", TOY_NAME);
	return ck_half_offer(lh_names, lh_hash + TOY_OLDER, find);
}
