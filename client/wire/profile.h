/*
 * client/wire/profile.h - tell a profiler in this library (client/cupti) of each message, and of
 * each call of the program.
 *
 * While no profiler is on, each pays one predicted branch. On or off, messages are the same: both
 * sides know the number of a message without being told.
 */
#ifndef CK_CLIENT_WIRE_PROFILE_H
#define CK_CLIENT_WIRE_PROFILE_H

#include <stdatomic.h>
#include <stdint.h>

#include "client/link/hooks.h"
#include "util/util.h"

extern atomic_bool ckc_profile_on;
extern atomic_bool ckc_profile_watch; /* tell of the program's calls, too */

static inline bool ckc_profile_watches(void)
{
	return atomic_load_explicit(&ckc_profile_watch, memory_order_relaxed);
}

static inline void ckc_profile_enter(struct ckc_call *call)
{
	ckc_each_hook(call, h) h->enter(call);
}

static inline void ckc_profile_leave(struct ckc_call *call)
{
	ckc_each_hook(call, h) h->leave(call);
}

/* A thread of the client does a part of a call of the program: its messages belong to that. */
static inline uint32_t ckc_profile_number(void)
{
	if (likely(!atomic_load_explicit(&ckc_profile_on, memory_order_relaxed)))
		return 0;
	ckc_each_hook(call, h) return h->number();
	return 0;
}

static inline void ckc_profile_help(uint32_t number)
{
	ckc_each_hook(call, h) h->help(number);
}

/* The time, if a profiler is on; else 0. */
static inline uint64_t ckc_profile_begin(void)
{
	if (likely(!atomic_load_explicit(&ckc_profile_on, memory_order_relaxed)))
		return 0;
	ckc_each_hook(message, h) return h->clock();
	return 0;
}

static inline void ckc_profile_end(const struct ckc_message *m)
{
	ckc_each_hook(message, h) h->run(m);
}

#endif
