/*
 * server/session/identity.c - see identity.h.
 */
#define _GNU_SOURCE
#include <pwd.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>

#include "rpc/relayed.h"
#include "server/session/identity.h"
#include "util/log.h"
#include "util/address/sockaddr.h"

CK_LOG_DEFINE("server");

#define CK_SECRET_MAX 1024 /* bytes of a token */
#define CK_USER_ROOM 4096  /* of a user's entry */

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

void cks_identity_key_of_holder(const char *name, struct ck_hash *key)
{
	make_key("holder", name, strlen(name), key);
}

static void key_of_host(const char *host, struct ck_hash *key)
{
	make_key("address", host, strlen(host), key);
}

bool cks_identity_key_of_address(const char *text, struct ck_hash *key)
{
	struct sockaddr_storage address;
	char host[CK_SOCKADDR_TEXT];

	if (!ck_sockaddr_parse(text, &address) || !ck_sockaddr_print(&address, host))
		return false;
	key_of_host(host, key);
	return true;
}

void cks_identity_key_of_user(uid_t uid, struct ck_hash *key)
{
	char number[32];

	snprintf(number, sizeof(number), "user %lu", (unsigned long)uid);
	make_key("user", number, strlen(number), key);
}

/* The number counts: a name may change its meaning, and is for display. */
static void of_user(uid_t uid, struct cks_identity *identity)
{
	char room[CK_USER_ROOM];
	struct passwd entry, *found = NULL;

	cks_identity_key_of_user(uid, &identity->key);
	getpwuid_r(uid, &entry, room, sizeof(room), &found);
	if (found)
		snprintf(identity->name, sizeof(identity->name), "user %s", entry.pw_name);
	else
		snprintf(identity->name, sizeof(identity->name), "user %lu", (unsigned long)uid);
}

static void of_token(const void *token, size_t size, struct cks_identity *identity)
{
	snprintf(identity->name, sizeof(identity->name), "the token's holder");
	make_key("token", token, size, &identity->key);
}

static bool of_address(const struct sockaddr_storage *peer, struct cks_identity *identity)
{
	char host[CK_SOCKADDR_TEXT];

	if (!ck_sockaddr_print(peer, host))
		return false;
	snprintf(identity->name, sizeof(identity->name), "address %.55s", host);
	key_of_host(host, &identity->key);
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

/* The user at the other end of a unix socket; false: it is none, or a process of this server that
 * relays. */
static bool by_kernel(int fd, struct cks_identity *identity)
{
	struct sockaddr_storage own = {.ss_family = AF_UNSPEC};
	socklen_t length = sizeof(own), room = sizeof(struct ucred);
	struct ucred user;

	if (ck_relayed_get(fd, NULL) || getsockname(fd, (struct sockaddr *)&own, &length) < 0 ||
	    own.ss_family != AF_UNIX || getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &user, &room) < 0)
		return false;
	of_user(user.uid, identity);
	return true;
}

void cks_identity_of_holder(int fd, const char *name, struct cks_identity *identity)
{
	if (by_kernel(fd, identity))
		return;
	snprintf(identity->name, sizeof(identity->name), "%s", name);
	cks_identity_key_of_holder(name, &identity->key);
}

void cks_identity_of_certificate(const char *name, struct cks_identity *identity)
{
	char hash[CK_HASH_TEXT];
	int all;

	make_key("certificate", name, strlen(name), &identity->key);
	all = snprintf(identity->name, sizeof(identity->name), "certificate %s", name);
	if (all < (int)sizeof(identity->name))
		return;
	ck_hash_print(&identity->key, hash);
	snprintf(identity->name, sizeof(identity->name), "certificate %.42s~%.8s", name, hash);
}

void cks_identity_of(int fd, const void *token, size_t size, struct cks_identity *identity)
{
	struct sockaddr_storage peer;

	if (by_kernel(fd, identity))
		return;
	if (token) {
		of_token(token, size, identity);
		return;
	}
	ck_relayed_peer(fd, &peer);
	if (!of_address(&peer, identity))
		of_stranger(identity);
}
