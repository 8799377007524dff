/*
 * server/worker/dispatch.h - the messages of one connection, in sequence.
 */
#ifndef CK_SERVER_WORKER_DISPATCH_H
#define CK_SERVER_WORKER_DISPATCH_H

#include <stdint.h>

#include "server/session/session.h"

struct cks_lane;

#define CK_DISPATCH_BYE 1 /* the client has said goodbye */

/*
 * Execute the one-way messages of the command connection until it ends. 0: the peer closed it
 * between two messages; -EPROTO: protocol error (logged); else -errno of the channel.
 */
int cks_dispatch_commands(struct cks_session *session, struct ck_chan *chan,
			  struct ck_reader *reader);

/* Answer the calls of a lane until it ends. Returns the same, or CK_DISPATCH_BYE. */
int cks_dispatch_calls(struct cks_session *session, struct ck_chan *chan, struct ck_reader *reader);

/* Send the reply @res to call @xid, encoded by @xdr. 0 or -errno. */
int cks_dispatch_reply(struct ck_chan *chan, uint32_t xid, xdrproc_t xdr, const void *res);

/* --- how long calls take, and round trips to the client, for metrics (call_times.c) */

/* A call of @lane that arrived at @began, in us, is about to be answered. */
void cks_call_times_note(struct cks_lane *lane, int64_t began);

#endif
