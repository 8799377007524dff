/*
 * server/door/new_connection_part.h - new connections, for new_connection.c,
 * new_connection_purpose.c and new_connection_tls.c alone.
 */
#ifndef CK_SERVER_DOOR_NEW_CONNECTION_PART_H
#define CK_SERVER_DOOR_NEW_CONNECTION_PART_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "server/children/queue.h"
#include "server/door/admit.h"
#include "server/door/downloads.h"
#include "server/door/new_connection.h"
#include "server/door/offers.h"
#include "server/processes/connection_peek.h"
#include "server/processes/peer.h"

#define CK_YOUNG_MS 100	    /* a connection is safe from eviction this long */
#define CK_SILENCE_MS 10000 /* for the first record to arrive */
#define CK_JOIN_MS 2	    /* until a busy worker is asked again */
#define CK_BUCKETS 4096	    /* hash buckets for counting peers */

/* How far a connection with TLS is. The front process makes handshakes; a relay has a process of
 * its own. */
enum cks_new_connection_stage {
	CK_STAGE_PLAIN,
	CK_STAGE_HANDSHAKE, /* nothing has come over TLS */
	CK_STAGE_ANSWERED,  /* the same, but the client has answered the front process */
	CK_STAGE_RELAYED    /* something has, but not all of the first record */
};

struct cks_new_connection {
	int fd;
	int64_t deadline; /* in ms of CLOCK_MONOTONIC */
	int64_t born;	  /* the same, when it came */
	int64_t again;	  /* earliest time to peek again; 0: when bytes arrive */
	bool ready;	  /* has bytes to read, or is new */
	bool answered;	  /* has had a reply, such as to rpcinfo */
	bool probed;	  /* its client was told to begin TLS, and has not yet */
	enum cks_new_connection_stage stage;
	bool joining; /* waits for room at its worker, or for a session: it is not silent */
	int64_t held; /* for a session or a look at the GPUs, until this time; 0: for neither */
	unsigned int bucket;
	struct cks_peer peer;
};

struct cks_new_connection_list {
	struct cks_admission admission;
	struct cks_queue queue;
	struct cks_downloads downloads;
	struct cks_offers offers;
	const struct cks_absent_sessions *away; /* NULL: none is */
	struct cks_front_process *fronts;	/* NULL: no TLS */
	int64_t fronts_again;			/* when they may take another connection */
	unsigned char seed[16];			/* so that peers cannot choose their bucket */
	size_t most, count;
	unsigned short silent[CK_BUCKETS]; /* connections of each bucket, without joining ones */
	struct cks_new_connection list[CK_NEW_CONNECTION_MAX]; /* oldest first */
};

/* Does it wait for room or a session? It does not count as silent then. */
void cks_new_connection_set_joining(struct cks_new_connection_list *list,
				    struct cks_new_connection *fresh, bool joining);

/* --- new_connection_tls.c: for CK_PEEK_PROBE and CK_PEEK_HANDSHAKE; true: keep the connection. */
bool cks_new_connection_probed(struct cks_new_connection_list *list,
			       struct cks_new_connection *fresh, const struct cks_peeked *probe);
bool cks_new_connection_unwrap(struct cks_new_connection_list *list,
			       struct cks_new_connection *fresh, int64_t now);
/* Is the first of @bytes the front process's word that the client has answered it? Then it is taken
 * from the connection. */
bool cks_new_connection_proved(struct cks_new_connection_list *list,
			       struct cks_new_connection *fresh, const unsigned char *bytes);
/* Are the bytes that have come why the client's certificate is refused? Then that is recorded, and
 * the connection is done with. */
bool cks_new_connection_refused(struct cks_new_connection_list *list,
				const struct cks_new_connection *fresh, const unsigned char *bytes,
				size_t size);
/* Bytes of the client have come. */
void cks_new_connection_received(struct cks_new_connection_list *list,
				 struct cks_new_connection *fresh);

/* --- new_connection_purpose.c */

/* Peek at a connection and act on its first record; true: keep it. */
bool cks_new_connection_look(struct cks_new_connection_list *list, struct cks_new_connection *fresh,
			     int64_t now);

#endif
