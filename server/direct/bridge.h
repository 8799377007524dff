/*
 * server/direct/bridge.h - the parts of a bridge, for bridge.c, transfer.c, dial.c and direct.c
 * alone.
 */
#ifndef CK_SERVER_DIRECT_BRIDGE_H
#define CK_SERVER_DIRECT_BRIDGE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cuda/types.h"
#include "server/copy/copy_iterator.h"
#include "server/direct/direct.h"
#include "server/session/session.h"
#include "util/wait.h"

#define CK_BRIDGE_WIDTH 8	   /* connections of a bridge */
#define CK_BRIDGES_MAX 64	   /* of a session */
#define CK_BRIDGE_ENDS_MAX 128	   /* connections of all its bridges */
#define CK_BRIDGE_TICKET_MS 10000  /* a ticket is valid for so long */
#define CK_BRIDGE_SILENCE_MS 30000 /* a copy without a byte for so long has failed */

struct ck_tls;
struct cks_ring;

/* One copy, at this end; it lives in the thread of its call. */
struct cks_part {
	struct cks_copy_iterator walk; /* sending: its position; receiving: the shape */
	bool sends;
	uint64_t number; /* the client's; both ends have the same */
	uint64_t ctx, serial;
	CUcontext context;
	CUstream stream;
	/* guarded by the bridge's lock: */
	unsigned int width, left; /* connections that carry it, and those that are not done */
	unsigned char *arrived;	  /* receiving a range: a bit for each piece */
	size_t received;	  /* bytes */
	CUresult err;		  /* the first error of the driver at this end */
	bool failed;		  /* the connections or the other end failed */
};

/* One connection of a bridge, and its thread. */
struct cks_end {
	struct cks_bridge *bridge;
	struct ck_chan *chan; /* NULL: it is not there (yet) */
	unsigned char ticket[CK_TICKET];
	bool issued;   /* the ticket has not been shown: guarded by the list's lock */
	uint64_t turn; /* the last copy of its thread */
	struct cks_ring *ring;
	struct cks_pass pass;
};

struct cks_bridge {
	struct cks_direct *owner;
	struct cks_bridge *next;
	uint64_t number;
	int64_t until; /* in ms: then all connections must be there */
	_Atomic unsigned int users;
	struct ck_mutex lock;
	struct ck_cond changed;
	atomic_bool broken;
	unsigned int width;	    /* connections */
	_Atomic unsigned int there; /* those that are in use */
	struct ck_tls
		*tls;  /* of the connections; NULL: they have none, or this end did not begin it */
	uint64_t turn; /* counts copies */
	struct cks_part *part; /* the copy in progress; NULL: none */
	struct cks_end ends[CK_BRIDGE_WIDTH];
};

struct cks_direct {
	struct cks_session *session;
	const struct cks_allowed_peers *allowed;
	const char *const *listen;
	size_t listen_count;
	struct ck_mutex lock; /* of the list */
	struct ck_cond gone;
	struct cks_bridge *bridges;
	unsigned int open;  /* connections that are not closed */
	unsigned int ends;  /* connections of bridges that exist */
	unsigned int count; /* bridges that exist, listed or not */
	uint64_t numbers;
};

/* bridge.c: make a bridge of @width connections and list it; the caller has a use of it. NULL:
 * there are too many, or no memory. */
struct cks_bridge *cks_bridge_create(struct cks_direct *direct, unsigned int width);
/* Find bridge @number and use it; NULL: there is none. */
struct cks_bridge *cks_bridge_get(struct cks_direct *direct, uint64_t number);
void cks_bridge_put(struct cks_bridge *bridge);
/* Connection @chan is number @at of the bridge, which owns it. */
void cks_bridge_place(struct cks_bridge *bridge, unsigned int at, struct ck_chan *chan);
/* Start the thread of a connection. -errno: the bridge is broken. */
int cks_bridge_start(struct cks_end *end);
/* It is of no use any more: connections are shut down, and it is no longer listed. */
void cks_bridge_break(struct cks_bridge *bridge);
/* Carry out @part on all connections that it has use for. OPERATING_SYSTEM: the bridge has
 * failed. */
CUresult cks_bridge_run(struct cks_bridge *bridge, struct cks_part *part);

/* ticket.c: issue the tickets of a bridge, which are written one after the other. -EIO: there are
 * no random bytes. */
int cks_bridge_issue(struct cks_direct *direct, struct cks_bridge *bridge, unsigned char *tickets);

/* transfer.c: one connection's share of @part. False: the bridge is of no use any more. */
bool cks_transfer(struct cks_end *end, struct cks_part *part);
/* The piece of a range at which both ends cut. */
size_t cks_transfer_piece(const struct cks_part *part);

/* dial.c: connect to the peer at one of @addresses (lines) and show it the tickets. 0 or -errno,
 * logged. */
struct cks_dial {
	const char *addresses;
	size_t addresses_size;
	const char *pin; /* of the peer's key; empty: no TLS */
	const unsigned char *session;
	const unsigned char *tickets;
	unsigned int count;
	struct ck_tls *tls; /* result: destroy it when the channels are closed; NULL: no TLS */
};
int cks_dial(const struct cks_direct *direct, struct cks_dial *dial, struct ck_chan **chans);
/* The addresses at which this host's server can be reached, as lines. Returns the length. */
size_t cks_dial_own(const struct cks_direct *direct, char *text, size_t size);

#endif
