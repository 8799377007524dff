/*
 * client/objects/state.h - the session state of client/objects.
 */
#ifndef CK_CLIENT_OBJECTS_STATE_H
#define CK_CLIENT_OBJECTS_STATE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "client/wire/client.h"
#include "util/wait.h"

#define CK_ELAPSED_KEPT 64 /* cached times between events */

/* The time between two records does not change, so some answers are cached. */
struct ckc_elapsed {
	uint64_t start, end; /* versions */
	float milliseconds;
};

struct ckc_callbacks { /* callback.c */
	struct ck_mutex lock;
	struct ckc_callback_entry *entries;
	uint32_t count, free;	   /* free: index of the first free one; count: none */
	struct ck_map *persistent; /* (function, data) to id + 1 */
	unsigned int threads, waiting;
	_Atomic unsigned int
		pending; /* entries that may write the program's data, plus those that run now */
	/* Functions that streams are blocked on, grouped in rounds: each wait for them ends a
	 * round. */
	uint64_t round;		     /* the current round, from 1 */
	uint64_t given_up;	     /* earlier rounds are given up: a wait timed out */
	unsigned int added, awaited; /* functions of this round; of the rounds in between */
	struct ck_cond returned;     /* signalled when the last awaited one returns */
	/* The same functions: ours, which are all in one stream, and the program's. */
	unsigned int ours, theirs;
	uint64_t our_stream;
	struct ck_cond fewer; /* of them */
};

struct ckc_captures { /* capture.c */
	struct ck_mutex lock;
	struct ckc_capture *list;
	_Atomic unsigned int count;
};

struct ckc_objects {
	struct ck_mutex devices_lock; /* init.c: building gpus, once */
	/* primary.c. Held while messages about a context's life are sent, so that the server sees
	 * them in the order of their effect here. Never held while destructors of the application's
	 * libraries run: they take locks of their own. */
	struct ck_mutex primary_lock;
	struct ck_mutex usage_lock; /* context.c: usage counts of all other contexts */
	struct ckc_callbacks callbacks;
	struct ckc_captures captures;
	struct ck_mutex elapsed_lock; /* event.c */
	struct ckc_elapsed elapsed[CK_ELAPSED_KEPT];
};

#endif
