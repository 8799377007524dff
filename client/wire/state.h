/*
 * client/wire/state.h - what the files of client/wire keep of a session: parts of struct ck_client.
 * Each structure is used by the file of its name alone.
 */
#ifndef CK_CLIENT_WIRE_STATE_H
#define CK_CLIENT_WIRE_STATE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "client/wire/locks.h"
#include "cuda/types.h"
#include "util/spin.h"

struct ck_chan;
struct ck_lane;
struct ck_map;
struct ck_status_file;

/* session.c */
struct ck_connection {
	struct ck_mutex set_up_lock;
	char address[512];		/* where the server was found */
	char joins[512];		/* the same one, whatever a name stands for later */
	/* Over what, where it is on this host. */
	enum { CK_SOCKETS, CK_RINGS_IF_ANY, CK_RINGS } wanted;
	CUresult failed;		/* what an attempt to connect ended with */
	bool connecting;		/* such an attempt is being made */
	struct ck_mutex images_lock;
	struct ck_map *images;		/* that the server holds, by alias (rpc/alias.h) */
};

struct ck_lanes {
	struct ck_mutex lock;
	struct ck_lane *pool;
	struct ck_lane *newest;		/* all lanes, for a forked child */
	_Atomic uint32_t delivered;	/* deliveries up to this rank, and all before, have come */
};

struct ck_command {
	struct ck_mutex lock;
	pthread_cond_t written;		/* the writer has finished a piece */
	pthread_cond_t work;		/* the sender is to write */
	struct ck_chan *chan;
	bool shared;			/* it is in shared memory: what follows is not used */
	unsigned char *buf[2];
	_Atomic size_t len;		/* of the buffer being filled */
	int fill;
	bool writing;			/* somebody writes the other buffer */
	bool sender_sleeps;
	bool broken;
	uint64_t last_write_ns;
	struct ck_spin spin;
	_Atomic uint64_t seq;
	_Atomic uint64_t calls;		/* that have enqueued work */
};

#define CK_DELIVERIES_EARLY 1024	/* ranks before an earlier one: far more than threads */

/* delivery.c */
struct ck_deliveries {
	struct ck_mutex lock;
	pthread_cond_t changed;
	struct ck_map *copies;
	uint64_t numbers;
	uint32_t early[CK_DELIVERIES_EARLY];
	size_t early_count;
	_Atomic unsigned int count;	/* copies that have bytes to come */
	struct ck_mutex starting_lock;	/* taken first */
	unsigned int threads;
};

struct ck_watches {	/* status.c */
	struct ck_mutex lock;
	bool tried;
	struct ck_status_file *_Atomic file; /* NULL: nothing tells us */
	_Atomic uint64_t numbers;
};

/* alive.c */
struct ck_suspicion {
	struct ck_mutex lock;
	pthread_cond_t asked;
	bool running, wanted;
	uint64_t since;			/* of the thread that asks, as is told */
	bool told;
};

/* spread.c: one copy and its parts. Under the lock, except for what the thread of a part reads. */
struct ck_spreading {
	struct ck_mutex one_lock;	/* held by the caller whose copy this is */
	struct ck_mutex lock;
	pthread_cond_t work, done;
	unsigned int threads;		/* helpers that run */
	unsigned int next, parts, pending;
	CUresult (*fn)(const void *copy, size_t at, size_t size);
	const void *copy;
	size_t size, part_size;
	CUresult err;
};

struct ck_answers {	/* cache.c */
	pthread_rwlock_t lock;		/* leaf */
	struct ck_map *map;
	uint64_t changes;		/* how often something was forgotten */
};

/* object.c */
struct ck_named {
	struct ck_mutex lock;
	struct ck_map *objects;		/* by ids that the server picked */
};

#endif
