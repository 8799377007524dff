/*
 * wcm/message.c - packets with descriptors, and the address of the meeting place.
 *
 * It is an abstract address, which needs no file and ends with its last open socket. Other users
 * may take the name of one of our groups, so both ends check the owner of the other process.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "util/util.h"
#include "wcm/message.h"
#include "wcm/wcm.h"

#define BACKLOG 64

void ck_wcm_message_init(struct ck_wcm_message *m, enum ck_wcm_op op)
{
	memset(m, 0, sizeof(*m));
	m->magic = CK_WCM_MAGIC;
	m->version = CK_WCM_VERSION;
	m->op = (uint16_t)op;
}

union control {
	char room[CMSG_SPACE(WCM_RANKS_MAX * sizeof(int))];
	struct cmsghdr align;
};

int ck_wcm_send(int sock, const struct ck_wcm_message *m, const void *bytes, size_t size,
		const int *fds, unsigned int count, int flags)
{
	struct iovec parts[2] = {{(void *)m, sizeof(*m)}, {(void *)bytes, size}};
	struct msghdr message = {.msg_iov = parts, .msg_iovlen = 2};
	union control control;
	struct cmsghdr *c;

	if (count) {
		memset(&control, 0, sizeof(control));
		message.msg_control = control.room;
		message.msg_controllen = CMSG_SPACE(count * sizeof(int));
		c = CMSG_FIRSTHDR(&message);
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(count * sizeof(int));
		memcpy(CMSG_DATA(c), fds, count * sizeof(int));
	}
	while (sendmsg(sock, &message, MSG_NOSIGNAL | flags) < 0) {
		if (errno != EINTR)
			return -errno;
	}
	return 0;
}

static unsigned int take_fds(struct msghdr *message, int fds[WCM_RANKS_MAX])
{
	unsigned int count = 0;
	int fd;

	for (struct cmsghdr *c = CMSG_FIRSTHDR(message); c; c = CMSG_NXTHDR(message, c)) {
		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		for (size_t i = 0; CMSG_LEN((i + 1) * sizeof(int)) <= c->cmsg_len; i++) {
			memcpy(&fd, CMSG_DATA(c) + i * sizeof(int), sizeof(fd));
			if (count < WCM_RANKS_MAX)
				fds[count++] = fd;
			else
				close(fd);
		}
	}
	return count;
}

/* Whether a packet of @n bytes with @count descriptors is one of ours. */
static int check_packet(const struct ck_wcm_message *m, size_t n, unsigned int count)
{
	size_t behind = 0;

	if (n < sizeof(*m) || m->magic != CK_WCM_MAGIC)
		return -EPROTO;
	if (m->version != CK_WCM_VERSION)
		return 0; /* the receiver can report it */
	if (m->size > CK_WCM_PART_MAX || m->mask >> WCM_RANKS_MAX ||
	    (unsigned int)__builtin_popcount(m->fds) != count)
		return -EPROTO;
	if (m->op == CK_WCM_EXCHANGE)
		behind = m->size;
	else if (m->op == CK_WCM_EXCHANGED && m->status == WCM_OK)
		behind = (size_t)m->size * (unsigned int)__builtin_popcount(m->mask);
	return n == sizeof(*m) + behind ? 0 : -EPROTO;
}

int ck_wcm_receive(int sock, struct ck_wcm_packet *packet, int fds[WCM_RANKS_MAX],
		   unsigned int *count, int flags)
{
	struct iovec part = {packet, sizeof(*packet)};
	union control control;
	struct msghdr message = {.msg_iov = &part,
				 .msg_iovlen = 1,
				 .msg_control = control.room,
				 .msg_controllen = sizeof(control.room)};
	ssize_t n;
	int ret;

	do {
		n = recvmsg(sock, &message, MSG_CMSG_CLOEXEC | flags);
	} while (n < 0 && errno == EINTR);
	if (n <= 0)
		return n < 0 ? -errno : -ECONNRESET;
	*count = take_fds(&message, fds);
	ret = message.msg_flags & (MSG_TRUNC | MSG_CTRUNC)
		      ? -EPROTO
		      : check_packet(&packet->head, (size_t)n, *count);
	if (ret < 0) {
		while (*count > 0)
			close(fds[--*count]);
	}
	return ret;
}

static socklen_t address_of(const char *name, struct sockaddr_un *address)
{
	int length;

	memset(address, 0, sizeof(*address));
	address->sun_family = AF_UNIX;
	/* the first byte stays 0: an abstract address */
	length = snprintf(address->sun_path + 1, sizeof(address->sun_path) - 1, "wcm-%u-%s",
			  (unsigned int)geteuid(), name);
	return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)length);
}

_Static_assert(WCM_GROUP_NAME_MAX + sizeof("wcm-4294967295-") <
		       sizeof(((struct sockaddr_un *)0)->sun_path),
	       "a name fits into an address");

int ck_wcm_check_user(int sock)
{
	struct ucred peer;
	socklen_t size = sizeof(peer);

	if (getsockopt(sock, SOL_SOCKET, SO_PEERCRED, &peer, &size) < 0)
		return -errno;
	return peer.uid == geteuid() ? 0 : -EPERM;
}

int ck_wcm_listen(const char *name)
{
	struct sockaddr_un address;
	socklen_t length = address_of(name, &address);
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), ret;

	if (fd < 0)
		return -errno;
	if (bind(fd, (struct sockaddr *)&address, length) == 0 && listen(fd, BACKLOG) == 0)
		return fd;
	ret = -errno;
	close(fd);
	return ret;
}

int ck_wcm_dial(const char *name)
{
	struct sockaddr_un address;
	socklen_t length = address_of(name, &address);
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0), ret;

	if (fd < 0)
		return -errno;
	while ((ret = connect(fd, (struct sockaddr *)&address, length)) < 0 && errno == EINTR)
		;
	ret = ret < 0 ? -errno : ck_wcm_check_user(fd);
	if (ret == 0)
		return fd;
	close(fd);
	return ret;
}
