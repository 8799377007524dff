/*
 * server/worker/first_message.h - the first message on a further connection of a session.
 */
#ifndef CK_SERVER_WORKER_FIRST_MESSAGE_H
#define CK_SERVER_WORKER_FIRST_MESSAGE_H

#include <stdbool.h>
#include <stdint.h>

#include "cricket.h"
#include "rpc/chan.h"

struct cks_session;

struct cks_first_message {
	uint32_t xid;
	enum { CK_FIRST_JOIN, CK_FIRST_LINK, CK_FIRST_DIRECT } kind;
	ck_link_args args;     /* of a join: its session, key and lane */
	ck_direct_args direct; /* of a connection from another server's worker */
};

/* Read it, and no byte more: the next bytes may be frames. -EPROTO: it is none of them. */
int cks_first_message_read(struct ck_chan *chan, struct cks_first_message *first);

/* Does it name the session and its key? */
bool cks_first_message_proves(const struct cks_first_message *first,
			      const struct cks_session *session);

#endif
