/*
 * util/process/stack.c - see stack.h.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "util/process/stack.h"

#define ROOM ((size_t)64 << 10) /* for data of the C library, or a sanitizer, on each stack */

bool ck_stack_has(size_t bytes)
{
	uintptr_t here = (uintptr_t)__builtin_frame_address(0);
	pthread_attr_t attr;
	size_t size = 0;
	void *low;

	if (syscall(SYS_gettid) == getpid())
		return true;
	if (pthread_getattr_np(pthread_self(), &attr) != 0)
		return false;
	if (pthread_attr_getstack(&attr, &low, &size) != 0)
		size = 0;
	pthread_attr_destroy(&attr);
	return here - (uintptr_t)low < size && here - (uintptr_t)low >= bytes;
}

struct errand {
	void (*run)(void *arg);
	void *arg;
};

static void *run_errand(void *arg)
{
	const struct errand *e = arg;

	e->run(e->arg);
	return NULL;
}

int ck_stack_run(size_t bytes, void (*run)(void *arg), void *arg)
{
	struct errand e = {run, arg};
	sigset_t all, was;
	pthread_attr_t attr;
	pthread_t thread;
	int ret;

	if (ck_stack_has(bytes)) {
		run(arg);
		return 0;
	}
	if (pthread_attr_init(&attr) != 0)
		return -EAGAIN;
	ret = pthread_attr_setstacksize(&attr, bytes + ROOM);
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &was);
	if (ret == 0)
		ret = pthread_create(&thread, &attr, run_errand, &e);
	pthread_sigmask(SIG_SETMASK, &was, NULL);
	pthread_attr_destroy(&attr);
	if (ret != 0)
		return -EAGAIN;
	return pthread_join(thread, NULL) == 0 ? 0 : -EAGAIN;
}
