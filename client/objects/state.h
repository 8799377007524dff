/*
 * client/objects/state.h - the session state of client/objects.
 */
#ifndef CK_CLIENT_OBJECTS_STATE_H
#define CK_CLIENT_OBJECTS_STATE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "client/link/client.h"
#include "util/wait.h"

#define CK_RECORDS_KEPT 1024 /* records of timed events */
#define CK_TIMES_KEPT 2	     /* times that end with each of them */

/* The time since another record, which does not change. */
struct ckc_elapsed {
	uint64_t start; /* version; 0: none */
	float milliseconds;
};

struct ckc_record {
	uint64_t number;	 /* in the order of all records; 0: forgotten */
	uint64_t event, context; /* ids */
	uint64_t version;
	struct ckc_elapsed time[CK_TIMES_KEPT];
	unsigned int oldest; /* of the times */
};

struct ckc_times { /* event_times.c */
	struct ck_mutex lock;
	uint64_t records; /* how many there have been */
	uint64_t covered; /* so many when a wait last brought times */
	/* The last question: the number of the record of its start, how far its end was from there,
	 * and whether the question before it had the same start. */
	uint64_t start, distance;
	bool same_start;
	_Atomic unsigned int credit; /* so many further waits bring times */
	struct ckc_record kept[CK_RECORDS_KEPT];
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
	struct ckc_times times;
};

#endif
