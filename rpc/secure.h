/*
 * rpc/secure.h - which connections to a server are encrypted, as the environment says, and
 * encrypting them.
 *
 * CRICKET_TLS is require, offer (with servers that have TLS) or off. Unset, it means require where
 * a CRICKET_TLS_... variable says whom to trust; else off, but a token does not cross a network in
 * plain text. A socket of this host needs no TLS.
 */
#ifndef CK_RPC_SECURE_H
#define CK_RPC_SECURE_H

#include <stdbool.h>
#include <stddef.h>

#include "rpc/tls.h"

struct ck_secure;

/* Read the environment. -EINVAL: @why says which variable is wrong. */
int ck_secure_create(struct ck_secure **secure, char why[CK_TLS_WHY]);
void ck_secure_destroy(struct ck_secure *secure);

/*
 * Encrypt the channels just dialed to a server, all or none, within about @timeout_ms, if that is
 * wanted. @address: as the user has written it; its host is the name that the server's certificate
 * must have. -EKEYREJECTED with @why: the server cannot be trusted, or has no TLS and needs it;
 * -errno. On error, all are closed. @secure NULL: none is encrypted.
 */
int ck_secure_channels(struct ck_secure *secure, const char *address, struct ck_chan **chans,
		       unsigned int count, int timeout_ms, char why[CK_TLS_WHY]);

/* From now on, further channels belong to @session, and begin with its @secret (rpc/tls.h), which
 * is copied. Until it is forgotten, none is in plain text. */
void ck_secure_session(struct ck_secure *secure, const unsigned char session[CK_TLS_SESSION],
		       const unsigned char secret[CK_TLS_SECRET]);
/* The session is over: wipe the copy. @forked: this is a child of its process, whose other threads
 * may hold the lock. Accepts NULL. */
void ck_secure_forget(struct ck_secure *secure, bool forked);

/* Is @why another reason than the last one? A client that tries again and again says it once. */
bool ck_secure_news(struct ck_secure *secure, const char *why);

/* Say how @chan is encrypted, in @text; false: it is not. */
bool ck_secure_describe(struct ck_chan *chan, char *text, size_t size);

#endif
