/*
 * server/session/identity.c - see identity.h.
 */
#define _GNU_SOURCE
#include <netdb.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>

#include "server/session/identity.h"
#include "util/log.h"

CK_LOG_DEFINE("server");

#define CK_SECRET_MAX 1024 /* bytes of a token */

/* Include the kind of name in the key, so that a token cannot pose as a user. */
static void make_key(const char *kind, const void *bytes, size_t size, struct ck_hash *key)
{
	unsigned char text[32 + CK_SECRET_MAX];
	size_t n = (size_t)snprintf((char *)text, 32, "cricket %s", kind) + 1;

	if (size > CK_SECRET_MAX)
		size = CK_SECRET_MAX;
	memcpy(text + n, bytes, size);
	ck_hash(text, n + size, key);
}

static void of_user(uid_t uid, struct cks_identity *identity)
{
	snprintf(identity->name, sizeof(identity->name), "user %lu", (unsigned long)uid);
	make_key("user", identity->name, strlen(identity->name), &identity->key);
}

static void of_token(const void *token, size_t size, struct cks_identity *identity)
{
	snprintf(identity->name, sizeof(identity->name), "the token's holder");
	make_key("token", token, size, &identity->key);
}

static bool of_address(const struct sockaddr_storage *peer, socklen_t length,
		       struct cks_identity *identity)
{
	char host[46 + 1];

	if (getnameinfo((const struct sockaddr *)peer, length, host, sizeof(host), NULL, 0,
			NI_NUMERICHOST) != 0)
		return false;
	snprintf(identity->name, sizeof(identity->name), "address %s", host);
	make_key("address", host, strlen(host), &identity->key);
	return true;
}

static void of_stranger(struct cks_identity *identity)
{
	unsigned char bytes[32] = {0};

	snprintf(identity->name, sizeof(identity->name), "an unknown peer");
	if (getrandom(bytes, sizeof(bytes), 0) != sizeof(bytes))
		ck_warn("no random bytes: %m");
	make_key("stranger", bytes, sizeof(bytes), &identity->key);
}

void cks_identity_of(int fd, const void *token, size_t size, struct cks_identity *identity)
{
	struct sockaddr_storage peer = {.ss_family = AF_UNSPEC};
	socklen_t length = sizeof(peer), room = sizeof(struct ucred);
	struct ucred user;

	if (getsockname(fd, (struct sockaddr *)&peer, &length) == 0 && peer.ss_family == AF_UNIX &&
	    getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &user, &room) == 0) {
		of_user(user.uid, identity);
		return;
	}
	if (token) {
		of_token(token, size, identity);
		return;
	}
	length = sizeof(peer);
	if (getpeername(fd, (struct sockaddr *)&peer, &length) < 0 ||
	    !of_address(&peer, length, identity))
		of_stranger(identity);
}
