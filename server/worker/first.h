/*
 * server/worker/first.h - the first message on a further connection of a session.
 */
#ifndef CK_SERVER_WORKER_FIRST_H
#define CK_SERVER_WORKER_FIRST_H

#include <stdbool.h>
#include <stdint.h>

#include "cricket.h"
#include "rpc/chan.h"

struct cks_session;

struct cks_first {
	uint32_t xid;
	bool links;	   /* CK_LINK, else CK_JOIN */
	ck_link_args args; /* of a join: its session, key and lane */
};

/* Read it, and no byte more: what follows may be frames. -EPROTO: it is neither. */
int cks_first_read(struct ck_chan *chan, struct cks_first *first);

/* Does it name the session and its key? */
bool cks_first_proves(const struct cks_first *first, const struct cks_session *session);

#endif
