/*
 * server/session/profile.h - records of the GPU's work for this session, for a profiler in the
 * client.
 *
 * The worker opens the real CUPTI, or the emulated driver's, when the client first enables a kind.
 * Around each message it pushes the message's number as an external correlation id, which ties
 * records to calls.
 */
#ifndef CK_SERVER_SESSION_PROFILE_H
#define CK_SERVER_SESSION_PROFILE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "util/util.h"

extern atomic_bool cks_profile_on;

void cks_profile_push(uint64_t id);
void cks_profile_pop(void);

/* Returns whether to call cks_profile_pop. */
static inline bool cks_profile_enter(uint64_t id)
{
	if (likely(!atomic_load_explicit(&cks_profile_on, memory_order_relaxed)))
		return false;
	cks_profile_push(id);
	return true;
}

#endif
