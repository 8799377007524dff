/*
 * client/link/reconnect.h - a session over tcp outlives its connections (D15).
 *
 * Its channels are lasting ones (rpc/lasting.h). A thread, the keeper, notices when connections
 * break, makes new ones for all broken channels together, and gives up the session when the time
 * for that has passed. Calls wait meanwhile.
 */
#ifndef CK_CLIENT_LINK_RECONNECT_H
#define CK_CLIENT_LINK_RECONNECT_H

#include <stdbool.h>

#include "client/link/client.h"

struct ck_chan;

/* How many seconds the user wishes (CRICKET_RESUME). */
unsigned int ckc_reconnect_seconds(void);

/* The server keeps the session: the connection of the hello becomes a lasting channel, and *@chan
 * is that. @lost ends the session. 0 or -errno. */
int ckc_reconnect_begin(struct ckc_client *c, struct ck_chan **chan,
			void (*lost)(struct ckc_client *c, const char *why));

/* Is it such a session? */
static inline bool ckc_keeps(const struct ckc_client *c)
{
	return c->keeping.links != NULL;
}

/*
 * Make a lasting channel over @connection, or, with NULL, over one that the keeper makes. Does not
 * wait for the server; on a channel that it refuses, reads return -EACCES. Owns @connection. 0 or
 * -errno.
 */
int ckc_reconnect_link(struct ckc_client *c, ck_lane_kind kind, struct ck_chan *connection,
		       struct ck_chan **chan);

/* A process relays the connection of the hello, and TLS of the others ends in the worker: replace
 * it, soon. Does nothing in a session without lasting channels. */
void ckc_reconnect_replace_first(struct ckc_client *c);

/* Are connections missing, and has the user been told? */
bool ckc_reconnect_misses(const struct ckc_client *c);

void ckc_reconnect_stop(struct ckc_client *c); /* the session is over */
void ckc_reconnect_bye(struct ckc_client *c);  /* the process ends: the server need not wait */
/* The same for a process that cannot do it itself: the keeper does. Async-signal-safe. In other
 * processes, nothing is to be done. */
void ckc_reconnect_leave(struct ckc_client *c);
bool ckc_reconnect_left(const struct ckc_client *c); /* it has been done, as far as possible */
/* in a child: as ckc_lane_forked, of all connections */
void ckc_reconnect_forked(struct ckc_client *c);
void ckc_reconnect_forget(
	struct ckc_client *c); /* in a child that starts anew, whose channels are closed */

#endif
