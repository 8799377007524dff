/*
 * server/session/rate_limit.h - a bound on the bytes per second of a session's connections, in each
 * direction.
 *
 * It is a token bucket with a burst of one second: a message waits until the rate allows the bytes
 * before it. Small messages are not counted. Without a bound it costs one comparison.
 */
#ifndef CK_SERVER_SESSION_RATE_LIMIT_H
#define CK_SERVER_SESSION_RATE_LIMIT_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "util/util.h"

enum cks_way { CK_WAY_IN, CK_WAY_OUT, CK_WAYS };

#define CK_PACE_LEAST 32768 /* bytes of a message that counts */

struct cks_rate_limit {
	uint64_t rate; /* bytes per second; 0: no bound. Set before others use it */
	_Atomic int64_t until[CK_WAYS]; /* when the bytes so far are paid for, in us */
};

void cks_rate_limit_count(struct cks_rate_limit *pace, enum cks_way way, size_t size);
void cks_rate_limit_sleep(const struct cks_rate_limit *pace, enum cks_way way);

/* @size bytes have been sent or received. */
static inline void cks_rate_limit_take(struct cks_rate_limit *pace, enum cks_way way, size_t size)
{
	if (unlikely(pace->rate) && size >= CK_PACE_LEAST)
		cks_rate_limit_count(pace, way, size);
}

/* Wait until more of them may be. Not inside of the gate. */
static inline void cks_rate_limit_wait(const struct cks_rate_limit *pace, enum cks_way way)
{
	if (unlikely(pace->rate))
		cks_rate_limit_sleep(pace, way);
}

#endif
