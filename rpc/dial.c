/*
 * rpc/dial.c - choose the transport for an address or a descriptor; see chan.h.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "rpc/chan.h"
#include "rpc/companion/companion.h"
#include "rpc/transport/transport.h"
#include "util/process/process_limits.h"
#include "util/process/stack.h"

/* By the kind of an address; NULL: that of no server. */
static const struct ck_transport_ops *const transports[CK_ADDRESS_UNKNOWN + 1] = {
	[CK_ADDRESS_TCP] = &ck_transport_tcp,	      [CK_ADDRESS_SSH] = &ck_transport_companion,
	[CK_ADDRESS_UNIX] = &ck_transport_unix,	      [CK_ADDRESS_SHM] = &ck_transport_shm,
	[CK_ADDRESS_LOCAL] = &ck_transport_companion,
};

/* The transport for @text, and its parts; NULL: it is no address of a server. */
static const struct ck_transport_ops *find_transport(const char *text, struct ck_address *address)
{
	char why[CK_ADDRESS_WHY];

	if (!text || ck_address_parse(text, address, why) < 0)
		return NULL;
	return transports[address->kind];
}

/* @timeout_ms: negative for none. Also -EINVAL: invalid address; -ENXIO: unknown host name;
 * -EAGAIN: no name server answers; -ETIMEDOUT; -EPERM: the socket in the temporary directory
 * belongs to another user. */
int ck_chan_dial_many(const char *address, int timeout_ms, struct ck_chan **chans,
		      unsigned int count)
{
	const struct ck_transport_ops *ops;
	struct ck_address where;

	ops = find_transport(address, &where);
	return ops ? ops->dial(&where, timeout_ms, chans, count) : -EINVAL;
}

int ck_chan_dial(const char *address, int timeout_ms, struct ck_chan **chan)
{
	return ck_chan_dial_many(address, timeout_ms, chan, 1);
}

/* On error, the caller still owns @fd. -ENOTSOCK, -EINVAL: neither TCP nor a unix stream. */
int ck_chan_adopt(int fd, struct ck_chan **chan)
{
	int domain, type, flags, ret;
	socklen_t size = sizeof(int);

	if (getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &size) < 0 ||
	    getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &size) < 0)
		return -errno;
	if (type != SOCK_STREAM)
		return -EINVAL;
	flags = fcntl(fd, F_GETFD);
	if (flags < 0 || fcntl(fd, F_SETFD, flags | FD_CLOEXEC) < 0)
		return -errno;
	ret = ck_socket_blocking(fd);
	if (ret < 0)
		return ret;
	if (domain == AF_INET || domain == AF_INET6)
		return ck_transport_tcp.adopt(fd, chan);
	return domain == AF_UNIX ? ck_transport_unix.adopt(fd, chan) : -EINVAL;
}

int ck_chan_listen(const char *address)
{
	const struct ck_transport_ops *ops;
	struct ck_address where;

	ops = find_transport(address, &where);
	return ops && ops->listen ? ops->listen(&where) : -EINVAL;
}

/* How much an error says about a socket that was not named. */
static int weight_of(int error)
{
	return error == -EACCES ? 2 : error != -ENOENT;
}

int ck_chan_try_usual(int (*try)(const char *path, void *own), void *own, const char **path)
{
	int best = -ENOENT;
	const char *next;

	*path = ck_chan_default_unix(0);
	for (unsigned int i = 0; (next = ck_chan_default_unix(i)) != NULL; i++) {
		int ret = try(next, own);

		if (ret >= 0 || weight_of(ret) > weight_of(best)) {
			*path = next;
			best = ret;
		}
		if (ret >= 0)
			break;
	}
	return best;
}

struct description {
	gid_t group;
	char *text;
	size_t size;
};

static void name_group(void *description)
{
	const struct description *d = description;
	struct group entry, *group = NULL;
	char room[1024];

	getgrgid_r(d->group, &entry, room, sizeof(room), &group);
	if (group)
		snprintf(d->text, d->size,
			 ": it is for the group %s: ask its administrator to add you",
			 group->gr_name);
}

/* Whom to ask for the right to use the socket: it belongs to a group. */
static void describe_group(const char *path, char *text, size_t size)
{
	struct description d = {.text = text, .size = size};
	struct stat st;

	snprintf(text, size, ": ask its administrator for the right to use it");
	if (stat(path, &st) < 0 || !(st.st_mode & S_IWGRP) || st.st_gid == 0)
		return;
	d.group = st.st_gid;
	ck_stack_run(CK_NAMES_STACK, name_group, &d);
}

/* Advice for @error, in @text. */
static void dial_advice(const struct ck_address *a, int error, char *text, size_t size)
{
	bool tcp = a->kind == CK_ADDRESS_TCP;

	text[0] = '\0';
	if (error == -ENOENT || error == -ECONNREFUSED)
		snprintf(text, size,
			 tcp ? ": is cricket-rpc-server running there? Other hosts reach it only "
			       "with --listen"
			     : ": is cricket-rpc-server running, with this socket?");
	else if (tcp && (error == -ETIMEDOUT || error == -EHOSTUNREACH))
		snprintf(text, size,
			 ": is it the right host, and does a firewall let the port through?");
	else if (error == -EACCES && a->path[0])
		describe_group(a->path, text, size);
}

bool ck_chan_helper_ended(const char *address, char *text, size_t size)
{
	char why[CK_COMPANION_WHY];

	if (!ck_companion_ended(address, why))
		return false;
	snprintf(text, size, "%s has ended: %s",
		 ck_address_kind_of(address) == CK_ADDRESS_LOCAL ? "cricket-rpc-server" : "ssh",
		 why[0] ? why : "it gives no reason");
	return true;
}

const char *ck_chan_dial_error(const char *address, int error, char *text, size_t size)
{
	char why[CK_ADDRESS_WHY] = "a port is a number from 1 to 65535", advice[160];
	struct ck_address a;
	int parsed = ck_address_parse(address, &a, why);

	if (error == -ECANCELED && ck_chan_helper_ended(address, text, size))
		return text;
	dial_advice(&a, error, advice, sizeof(advice));
	if (parsed < 0 || (error == -EINVAL && a.kind == CK_ADDRESS_TCP))
		snprintf(text, size, "%s", why);
	else if (error == -ENXIO)
		snprintf(text, size, "no host has this name");
	else if (error == -EAGAIN)
		snprintf(text, size, "no name server answers, which would know this name");
	else
		snprintf(text, size, "%s%s", ck_limit_text(error, why), advice);
	return text;
}
