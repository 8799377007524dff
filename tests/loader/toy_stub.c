/*
 * tests/loader/toy_stub.c - libtoy.so for the application: what the entries do not do by
 * themselves.
 */
#include <stdio.h>

#include "loader/stubs/stub.h"
#pragma GCC visibility push(default)
#include "toy.h"
#pragma GCC visibility pop

const char lh_stub_half[] = TOY_NAME;

long toy_lh_call(long (*function)(long), long value);
long toy_lh_call_in_thread(long (*function)(long), long value);

long lh_stub_error(const char *name)
{
	fprintf(stderr, "toy: %s cannot be called\n", name);
	return -1000;
}

static long target(long a, long b, long c, long d, long e, long f, void *user, const long *stack)
{
	(void)b, (void)c, (void)d, (void)e, (void)f, (void)stack;
	return ((long (*)(long))user)(a);
}

long toy_call(long (*function)(long), long value)
{
	return toy_lh_call((long (*)(long))lh_callback(target, (void *)function), value);
}

long toy_call_in_thread(long (*function)(long), long value)
{
	return toy_lh_call_in_thread(
		(long (*)(long))lh_callback_any_thread(target, (void *)function), value);
}
