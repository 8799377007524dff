/*
 * client/copy/state.h - the session state of client/copy.
 */
#ifndef CK_CLIENT_COPY_STATE_H
#define CK_CLIENT_COPY_STATE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "client/link/client.h"
#include "client/wire/striping.h"
#include "util/address/servers.h"
#include "util/wait.h"

struct ck_map;

#define CK_STAGES 8

struct ckc_staging {
	bool taken;
	struct ckc_context *ctx; /* NULL: the slot has no window */
	uint64_t address;
	uint64_t stream, used; /* of its last copies: stream id, and number of the last command */
};

struct ckc_stages { /* staging.c */
	struct ck_mutex lock;
	struct ckc_staging windows[CK_STAGES];
	bool refused; /* windows cannot be made: do not retry */
	_Atomic size_t copied;
};

struct ckc_mirrors {		     /* mirror.c, mirror_launch.c */
	struct ck_mutex launch_lock; /* taken first: mirrors hold the bytes of one launch */
	struct ck_mutex lock;
	struct ck_map *map;
	_Atomic size_t count;
	_Atomic bool functions;	 /* some graph may contain host functions */
	uint64_t exec;		 /* that was launched last */
	struct ckc_exec *kept;	 /* the same, if the program has destroyed it meanwhile */
	uint64_t *running;	 /* the mirrors of a launch that may still run functions */
	size_t running_count;	 /* their number */
	uint64_t launch;	 /* which one it is */
	unsigned int exchanging; /* functions that exchange bytes now */
	struct ck_cond exchanged;
};

/* Since all that the work of a stream follows was done, there have been only small uploads in it,
 * up to this command. */
struct ckc_uploaded {
	_Atomic(const struct ckc_context *) context; /* written before the number, read after it */
	_Atomic uint64_t stream;		     /* likewise; 0: the legacy one */
	_Atomic uint64_t command;
};

#define CK_BRIDGES 4 /* between two servers: copies at the same time */

/* Between the workers of this session and of one that comes later in the list of servers:
 * bridge.c. */
struct ckc_bridges {
	struct ck_mutex lock;
	struct ck_cond given;
	struct ckc_bridge {
		bool taken; /* a copy uses it; no other thread touches the rest */
		bool live;
		uint64_t near, far; /* its numbers on both servers */
	} list[CK_SERVERS_MAX][CK_BRIDGES];
	bool making[CK_SERVERS_MAX];	  /* a thread makes one */
	int64_t retry_ms[CK_SERVERS_MAX]; /* until then there is none */
	_Atomic uint64_t numbers;	  /* of copies */
};

#define CKC_FILLED 1024

struct ckc_kept {	     /* stored_upload.c, stored_pays.c */
	_Atomic bool proven; /* the server had the bytes of one, or the network's rate is known */
	/* the network was to be measured; a long round trip may hide its rate */
	_Atomic bool sampled;
	_Atomic bool missed; /* the server did not have the bytes of the newest one */
	/* A mapping that is no file, so that it need not be looked up so many times more. Uploads
	 * of several threads may lose an update: one lookup. */
	_Atomic uintptr_t plain_lo, plain_hi;
	_Atomic int plain_left;
	/* since the rate was last compared: bytes and nanoseconds of uploads that the server
	 * lacked, and of those that it had */
	_Atomic uint64_t bytes[2], ns[2];
	_Atomic bool slow; /* they were slower than to send the bytes: do not retry */
	/* where unknown bytes of other memory than files went, by the hash of the address; bytes
	 * for such places that had been filled before */
	_Atomic uint64_t filled[CKC_FILLED];
	_Atomic uint64_t refilled;
};

struct ckc_promises { /* held_upload.c */
	struct ck_mutex lock;
	struct promise *list;  /* of the newest answer */
	struct ck_map *chunks; /* a hash to its promise; NULL: there is none */
	uint64_t asked_ns;
	unsigned int pause; /* uploads that do not ask */
};

#define CK_BESIDE_WAITING 64 /* replies that any buffer of a socket holds */

struct ckc_beside { /* parallel_upload.c */
	struct ck_mutex lock;
	struct ckc_beside_lane {
		struct ckc_lane *lane;
		unsigned int sent, answered; /* calls */
		size_t ahead;		     /* bytes of those without a reply */
		unsigned int sizes[CK_BESIDE_WAITING];
	} lanes[CK_CONNECTIONS_MOST];
	unsigned int open, opening; /* lanes that are connected; that are connecting */
	/* the first ones, by uploads; 0: the connection for commands is */
	unsigned int used;
	unsigned int next;
	bool refused;			   /* one could not be connected: none is used */
	uint64_t sent;			   /* calls on lanes */
	struct ckc_connection_count count; /* connections that uploads are to use */
	/* How fast uploads are, from the end of one that waited for the network to that of
	 * another. */
	struct {
		uint64_t began, waited_ns; /* began: 0: not yet */
		size_t size;
		unsigned int skips; /* while buffers of new connections fill */
	} sample;
};

struct ckc_copying {
	struct ckc_beside beside;
	struct ckc_kept kept;
	struct ckc_promises promises;
	struct ckc_bridges bridges;
	struct ckc_stages stages;
	struct ckc_mirrors mirrors;
	struct ckc_uploaded uploaded;
};

#endif
