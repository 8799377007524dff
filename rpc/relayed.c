/*
 * rpc/relayed.c - see relayed.h.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/un.h>
#include <unistd.h>

#include "rpc/relayed.h"
#include "util/process/fd.h"
#include "util/address/sockaddr.h"

#define MAGIC "ck-tls1"
#define TRIES 8

/* The name, behind the first byte, which is 0. */
struct label {
	char zero;
	char magic[sizeof(MAGIC) - 1];
	unsigned char unique[8];
	uint8_t family; /* 4 or 6 */
	uint8_t address[16], port[2], scope[4];
	char name[CK_RELAYED_NAME];
};

union address {
	struct sockaddr any;
	struct sockaddr_un local;
};

_Static_assert(sizeof(struct label) <= sizeof(((struct sockaddr_un *)0)->sun_path), "fits");

static bool put_address(struct label *label, const struct sockaddr_storage *peer)
{
	const struct sockaddr_in *v4 = (const struct sockaddr_in *)peer;
	const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)peer;

	if (peer->ss_family == AF_INET) {
		label->family = 4;
		memcpy(label->address, &v4->sin_addr, 4);
		memcpy(label->port, &v4->sin_port, 2);
	} else if (peer->ss_family == AF_INET6) {
		label->family = 6;
		memcpy(label->address, &v6->sin6_addr, 16);
		memcpy(label->port, &v6->sin6_port, 2);
		memcpy(label->scope, &v6->sin6_scope_id, 4);
	}
	return label->family;
}

static bool get_address(const struct label *label, struct sockaddr_storage *peer)
{
	struct sockaddr_in *v4 = (struct sockaddr_in *)peer;
	struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)peer;

	memset(peer, 0, sizeof(*peer));
	if (label->family == 4) {
		v4->sin_family = AF_INET;
		memcpy(&v4->sin_addr, label->address, 4);
		memcpy(&v4->sin_port, label->port, 2);
	} else if (label->family == 6) {
		v6->sin6_family = AF_INET6;
		memcpy(&v6->sin6_addr, label->address, 16);
		memcpy(&v6->sin6_port, label->port, 2);
		memcpy(&v6->sin6_scope_id, label->scope, 4);
	}
	return label->family == 4 || label->family == 6;
}

int ck_relayed_set(int fd, const struct ck_relayed *who)
{
	union address at = {.local.sun_family = AF_UNIX};
	struct label label = {.magic = {0}};
	int ret = -EADDRINUSE;

	memcpy(label.magic, MAGIC, sizeof(label.magic));
	if (!put_address(&label, &who->peer))
		return -EAFNOSUPPORT;
	snprintf(label.name, sizeof(label.name), "%s", who->name);
	for (int i = 0; i < TRIES && ret == -EADDRINUSE; i++) {
		if (getrandom(label.unique, sizeof(label.unique), 0) != sizeof(label.unique))
			return -EIO;
		memcpy(at.local.sun_path, &label, sizeof(label));
		ret = bind(fd, &at.any,
			   (socklen_t)(offsetof(struct sockaddr_un, sun_path) + sizeof(label)));
		ret = ret < 0 ? -errno : 0;
	}
	return ret;
}

/* Is @fd an end of a socketpair, with no name of its own? */
static bool is_nameless(int fd)
{
	union address own = {.any.sa_family = AF_UNSPEC};
	socklen_t size = sizeof(own);

	return getsockname(fd, &own.any, &size) == 0 && own.any.sa_family == AF_UNIX &&
	       size <= offsetof(struct sockaddr_un, sun_path);
}

bool ck_relayed_get(int fd, struct ck_relayed *who)
{
	union address peer = {.any.sa_family = AF_UNSPEC};
	socklen_t size = sizeof(peer);
	struct ck_relayed ignored;
	struct label label;

	if (!is_nameless(fd) || getpeername(fd, &peer.any, &size) < 0 ||
	    size != offsetof(struct sockaddr_un, sun_path) + sizeof(label))
		return false;
	memcpy(&label, peer.local.sun_path, sizeof(label));
	if (label.zero || memcmp(label.magic, MAGIC, sizeof(label.magic)) != 0)
		return false;
	who = who ? who : &ignored;
	label.name[sizeof(label.name) - 1] = '\0';
	memcpy(who->name, label.name, sizeof(who->name));
	if (!get_address(&label, &who->peer))
		return false;
	ck_sockaddr_unmap(&who->peer); /* the relay may be of an older release */
	return true;
}

void ck_relayed_peer(int fd, struct sockaddr_storage *peer)
{
	struct ck_relayed who;

	if (ck_relayed_get(fd, &who))
		*peer = who.peer;
	else
		ck_sockaddr_peer(fd, peer);
}

void ck_relayed_break(int fd, int ms)
{
	struct pollfd room = {.fd = fd, .events = POLLOUT};
	int any = open("/dev/null", O_RDONLY | O_CLOEXEC);

	if (any >= 0 && poll(&room, 1, ms) == 1 && (room.revents & POLLOUT))
		ck_fd_send(fd, any, "", 1);
	if (any >= 0)
		close(any);
}
