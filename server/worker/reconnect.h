/*
 * server/worker/reconnect.h - a session that outlives its connections: its lasting channels, and
 * when it ends without them.
 */
#ifndef CK_SERVER_WORKER_RECONNECT_H
#define CK_SERVER_WORKER_RECONNECT_H

#include <stdbool.h>
#include <stdint.h>

#include "cricket.h"
#include "rpc/links.h"

struct cks_reconnect;

/* @seconds: the time that the session waits for new connections when all are cut. -errno. */
int cks_reconnect_create(unsigned int seconds, struct cks_reconnect **keep);

/* The connection of the hello becomes the first lasting channel. -errno. */
int cks_reconnect_first(struct cks_reconnect *keep, struct ck_chan *connection,
			struct ck_chan **chan);

/*
 * A client with the session's key asks to link @connection, with call @xid: answer it. The
 * connection is the channel's from then on, or closed. *@fresh: the channel, if it is new, and the
 * caller is to serve it; else NULL. @admit: may there be a new channel of this kind? -errno if
 * there is no channel.
 */
int cks_reconnect_link(struct cks_reconnect *keep, struct ck_chan *connection, uint32_t xid,
		       const ck_link_args *args, bool (*admit)(ck_lane_kind kind),
		       struct ck_chan **fresh);

/* A descriptor to poll, for reading; then call cks_reconnect_handle. */
int cks_reconnect_fd(const struct cks_reconnect *keep);
void cks_reconnect_handle(struct cks_reconnect *keep);

/* Is the session over? The reason, or NULL; *@left: milliseconds until it may be, if nothing
 * happens; -1: it will not. */
const char *cks_reconnect_verdict(struct cks_reconnect *keep, int64_t *left);

/*
 * The session goes away for a while: close its connections, and refuse others. No thread may be in
 * cks_reconnect_link, or call it, before cks_reconnect_return. From then on the client has the
 * whole time to come back.
 */
void cks_reconnect_leave(struct cks_reconnect *keep);
void cks_reconnect_return(struct cks_reconnect *keep);

/* The session ends here: tell the client not to come back. */
void cks_reconnect_bye(struct cks_reconnect *keep);

#endif
