/*
 * server/policy/meter_limits.c - device memory that the limits of a context take, counted.
 *
 * A context begins with some, which does not count, as nothing of a context does. NVIDIA's driver
 * takes more when a kernel or a module first needs it, without a word. So the memory that a program
 * has requested beyond the limit's first value counts from then on, until it requests less or the
 * context ends.
 */
#include <stdlib.h>

#include "server/policy/meter.h"
#include "server/policy/meter_part.h"
#include "server/session/locks.h"
#include "util/util.h"

#define real cks_meter_driver

enum { LIMITS = CU_LIMIT_MALLOC_HEAP_SIZE + 1 }; /* the first three */

_Static_assert(CU_LIMIT_STACK_SIZE == 0 && CU_LIMIT_PRINTF_FIFO_SIZE == 1, "these three");

/* The limits of one context that the program has set. */
struct limited {
	CUcontext context;
	CUdevice device;
	bool known[LIMITS];
	size_t first[LIMITS];	/* their values before */
	uint64_t taken[LIMITS]; /* bytes that are counted */
	struct limited *next;
};

static struct {
	struct ck_mutex lock;
	struct limited *contexts;
} noted = {.lock = CK_MUTEX(CK_RANK_METER_LIMITS)};

/* Call with the lock held. */
static struct limited **find_context(CUcontext context)
{
	struct limited **at = &noted.contexts;

	while (*at && (*at)->context != context)
		at = &(*at)->next;
	return at;
}

/* NULL: no memory. Call with the lock held. */
static struct limited *note_context(CUcontext context, CUdevice device)
{
	struct limited **at = find_context(context);

	if (*at)
		return *at;
	*at = calloc(1, sizeof(**at));
	if (*at) {
		(*at)->context = context;
		(*at)->device = device;
	}
	return *at;
}

/* The value of @limit before the program set it. False: it is not known. */
static bool first_value(CUcontext context, CUdevice device, CUlimit limit, size_t *first)
{
	struct limited *l;
	size_t now;
	bool known = real.cuCtxGetLimit && !real.cuCtxGetLimit(&now, limit);

	ck_lock(&noted.lock);
	l = known ? note_context(context, device) : NULL;
	if (l && !l->known[limit]) {
		l->first[limit] = now;
		l->known[limit] = true;
	}
	*first = l ? l->first[limit] : 0;
	ck_unlock(&noted.lock);
	return l != NULL;
}

/* How many threads of @device can have a stack at a time. */
static size_t count_threads(CUdevice device)
{
	int units = 0, threads = 0;

	if (!real.cuDeviceGetAttribute ||
	    real.cuDeviceGetAttribute(&units, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, device) ||
	    real.cuDeviceGetAttribute(&threads, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR,
				      device))
		return 1;
	return (size_t)units * (size_t)threads;
}

/* The bytes that @value takes beyond @first. */
static size_t bytes_of(CUdevice device, CUlimit limit, size_t value, size_t first)
{
	size_t size = value > first ? value - first : 0;

	if (limit == CU_LIMIT_STACK_SIZE && ck_mul_overflow(size, count_threads(device), &size))
		return SIZE_MAX / 2;
	return ck_min(size, SIZE_MAX / 2);
}

/* Count @size bytes for @limit from now on; returns how many were counted. */
static uint64_t replace_taken(CUcontext context, CUlimit limit, uint64_t size)
{
	struct limited *l;
	uint64_t before = size;

	ck_lock(&noted.lock);
	l = *find_context(context);
	if (l) {
		before = l->taken[limit];
		l->taken[limit] = size;
	}
	ck_unlock(&noted.lock);
	return before;
}

/* The same, and in the account. False: the quota has no room. */
static bool count_taken(CUcontext context, CUdevice device, CUlimit limit, uint64_t size,
			uint64_t *before)
{
	*before = replace_taken(context, limit, size);
	if (size <= *before) {
		cks_meter_refund(device, *before - size);
		return true;
	}
	if (cks_meter_charge(device, size - *before))
		return true;
	replace_taken(context, limit, *before);
	return false;
}

static uint64_t get_taken(CUcontext context, CUlimit limit)
{
	const struct limited *l;
	uint64_t taken;

	ck_lock(&noted.lock);
	l = *find_context(context);
	taken = l ? l->taken[limit] : 0;
	ck_unlock(&noted.lock);
	return taken;
}

/* More is counted before the driver may take it, and less when it has agreed. */
static CUresult set_counted(CUcontext context, CUdevice device, CUlimit limit, size_t value,
			    size_t first)
{
	uint64_t size = bytes_of(device, limit, value, first), before;
	bool more = size > get_taken(context, limit);
	CUresult err;

	if (more && !count_taken(context, device, limit, size, &before))
		return CUDA_ERROR_OUT_OF_MEMORY;
	err = real.cuCtxSetLimit(limit, value);
	if (more && err)
		count_taken(context, device, limit, before, &size);
	else if (!more && !err)
		count_taken(context, device, limit, size, &before);
	return err;
}

static CUresult set_limit(CUlimit limit, size_t value)
{
	CUcontext context;
	CUdevice device;
	size_t first;

	if ((unsigned int)limit >= LIMITS || real.cuCtxGetCurrent(&context) ||
	    real.cuCtxGetDevice(&device) || !first_value(context, device, limit, &first))
		return real.cuCtxSetLimit(limit, value);
	return set_counted(context, device, limit, value, first);
}

void cks_meter_limits_end(CUcontext context)
{
	struct limited **at, *l;

	ck_lock(&noted.lock);
	at = find_context(context);
	l = *at;
	if (l)
		*at = l->next;
	ck_unlock(&noted.lock);
	for (int i = 0; l && i < LIMITS; i++)
		cks_meter_refund(l->device, l->taken[i]);
	free(l);
}

void cks_meter_take_over_limits(void)
{
	if (real.cuCtxSetLimit && real.cuCtxGetCurrent && real.cuCtxGetDevice)
		ck_driver.cuCtxSetLimit = set_limit;
}
