/*
 * client/objects/state.h - what the files of client/objects keep of a session.
 */
#ifndef CK_CLIENT_OBJECTS_STATE_H
#define CK_CLIENT_OBJECTS_STATE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "client/wire/client.h"

#define CK_ELAPSED_KEPT 64	/* times between events */

/* The time between two records stays: a few answers are kept. */
struct ck_elapsed {
	uint64_t start, end;	/* versions */
	float milliseconds;
};

struct ck_callbacks {	/* callback.c */
	struct ck_mutex lock;
	struct ck_callback_entry *entries;
	uint32_t count, free;	/* free: index of the first, count: none */
	struct ck_map *persistent;	/* (function, data) to id + 1 */
	unsigned int threads, waiting;
	_Atomic unsigned int pending;	/* entries, and functions that run */
	/* What streams wait for, in rounds: each wait for them ends one. */
	uint64_t round;			/* the one that goes on, from 1 */
	uint64_t given_up;		/* of those before it none is waited for: it was in vain */
	unsigned int added, awaited;	/* functions of this round; of those between */
	pthread_cond_t returned;	/* the last awaited one has */
};

struct ck_captures {	/* capture.c */
	struct ck_mutex lock;
	struct ck_capture *list;
	_Atomic unsigned int count;
};

struct ck_objects {
	struct ck_mutex devices_lock;	/* init.c: building gpus, once */
	/* primary.c. Held while messages of a context's life are sent, so that the server sees them
	 * in the order in which they take effect here. Never held while destructors of the
	 * application's libraries run, which take locks of their own. */
	struct ck_mutex primary_lock;
	struct ck_mutex usage_lock;	/* context.c: usage counts of all other contexts */
	struct ck_callbacks callbacks;
	struct ck_captures captures;
	struct ck_mutex elapsed_lock;	/* event.c */
	struct ck_elapsed elapsed[CK_ELAPSED_KEPT];
};

#endif
