/*
 * util/lock.c - the check of the lock order; see util/lock.h.
 */
#ifdef CK_CHECK_LOCKS

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "util/lock.h"

static __thread uint64_t held __attribute__((tls_model("initial-exec"))); /* a bit for each rank */

void ck_lock_check(const struct ck_mutex *m)
{
	if (m->rank >= 1 && m->rank <= CK_RANK_LEAF && held >> m->rank == 0)
		return;
	fprintf(stderr, "lock order: rank %u is taken while ranks %#llx (bits) are held\n", m->rank,
		(unsigned long long)held);
	abort();
}

void ck_lock_note(const struct ck_mutex *m)
{
	held |= (uint64_t)1 << m->rank;
}

void ck_lock_drop(const struct ck_mutex *m)
{
	held &= ~((uint64_t)1 << m->rank);
}

#else
typedef int ck_nothing_to_check; /* ISO C wants a declaration in each file */
#endif
