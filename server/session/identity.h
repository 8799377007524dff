/*
 * server/session/identity.h - the identity of a session, as far as the server can verify it.
 *
 * Data that one identity leaves on the server is used only by sessions of the same identity. The
 * kernel vouches for the user at the other end of a unix socket, a token for its holder. With a
 * server without a token, a TCP client is identified by its address only.
 */
#ifndef CK_SERVER_SESSION_IDENTITY_H
#define CK_SERVER_SESSION_IDENTITY_H

#include <stddef.h>

#include "util/hash.h"

struct cks_identity {
	char name[64];	    /* for display: "user 1000", "the token's holder", "address 10.0.0.7" */
	struct ck_hash key; /* equal for the same identity, now and after a restart */
};

/*
 * The identity behind socket @fd. @token: what the client presented, if the server has a token and
 * it matched; else NULL. A peer that has disconnected gets a unique key.
 */
void cks_identity_of(int fd, const void *token, size_t size, struct cks_identity *identity);

#endif
