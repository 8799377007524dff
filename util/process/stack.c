/*
 * util/process/stack.c - see stack.h.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "util/process/stack.h"

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
