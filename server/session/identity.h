/*
 * server/session/identity.h - on whose behalf a session runs, as far as the server knows it by itself.
 *
 * What one identity leaves on the server is used by sessions of the same identity only. The kernel
 * vouches for the user at the other end of a unix socket, the token for its holder. A TCP client of
 * a server without a token is known by its address only.
 */
#ifndef CK_SERVER_SESSION_IDENTITY_H
#define CK_SERVER_SESSION_IDENTITY_H

#include <stddef.h>

#include "util/hash.h"

struct ck_identity {
	char name[64];	    /* for people: "user 1000", "the token's holder", "address 10.0.0.7" */
	struct ck_hash key; /* equal for the same identity, now and after a restart */
};

/*
 * The identity behind socket @fd. @token: what the client has shown, if the server has a token and
 * found it right; else NULL. A peer that has gone gets a key that no other session has.
 */
void ck_identity_of(int fd, const void *token, size_t size, struct ck_identity *identity);

#endif
