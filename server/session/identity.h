/*
 * server/session/identity.h - the identity of a session, as far as the server can verify it.
 *
 * Data that one identity leaves on the server is used only by sessions of the same identity. The
 * kernel vouches for the user at the other end of a unix socket, a token for its holder. With a
 * server without a token, a TCP client is identified by its address only.
 */
#ifndef CK_SERVER_SESSION_IDENTITY_H
#define CK_SERVER_SESSION_IDENTITY_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "util/hash.h"

struct cks_identity {
	/* For display, and different for each identity: "user alice", "user 1000" without a name,
	 * "certificate alice", "alice" of a named token, "the token's holder", "address
	 * 10.0.0.7". */
	char name[64];
	struct ck_hash key; /* equal for the same identity, now and after a restart */
};

/*
 * The identity behind socket @fd. @token: the client's, if the server has a token and it matched;
 * else NULL. A peer that has disconnected gets a unique key.
 */
void cks_identity_of(int fd, const void *token, size_t size, struct cks_identity *identity);

/* That of the owner of a certificate that an authority of the server has signed. The end of a name
 * of more than 51 characters is replaced in the display by a part of the key. */
void cks_identity_of_certificate(const char *name, struct cks_identity *identity);

/* The same as cks_identity_of for a client that has presented a token of @name. */
void cks_identity_of_holder(int fd, const char *name, struct cks_identity *identity);

/* The keys of identities that are known by other means: the holder of a named token, a user of this
 * host, an address as text, in any of its spellings (util/address/sockaddr.h); false: it is
 * none. */
void cks_identity_key_of_holder(const char *name, struct ck_hash *key);
void cks_identity_key_of_user(uid_t uid, struct ck_hash *key);
bool cks_identity_key_of_address(const char *text, struct ck_hash *key);

#endif
