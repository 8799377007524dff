/*
 * m3/message.c - the packets of message.h: their checks, and moving them over a socket.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "m3/message.h"
#include "util/text.h"

#define FDS 8 /* descriptors that one packet may bring; all but the first are closed */

/* The required fields of each request. */
enum { NAMED = 1, REGION = 2, DATA = 4, OPTIONAL_DATA = 8 };
static const unsigned char needs[CK_M3_OPS] = {
	[CK_M3_ECHO] = OPTIONAL_DATA,
	[CK_M3_UNLINK] = NAMED,
	[CK_M3_FETCH] = REGION,
	[CK_M3_UNMAP] = REGION,
	[CK_M3_RETAIN] = REGION,
	[CK_M3_RELEASE] = REGION,
	[CK_M3_SEAL] = REGION,
	[CK_M3_LEASE] = REGION,
	[CK_M3_UNLEASE] = REGION,
	[CK_M3_STAT] = REGION,
	[CK_M3_CHMOD] = REGION,
	[CK_M3_GRANT] = REGION,
	[CK_M3_EVENT_SET] = REGION | DATA,
	[CK_M3_EVENT_GET] = REGION,
	[CK_M3_READ] = REGION,
	[CK_M3_WRITE] = REGION | DATA,
	[CK_M3_FILL] = REGION,
	[CK_M3_COPY] = REGION,
	[CK_M3_DEPOSIT] = OPTIONAL_DATA,
	[CK_M3_CLAIM] = REGION | DATA,
	[CK_M3_WITHDRAW] = REGION,
};

bool ck_m3_text_ok(const char *text, size_t room, size_t least)
{
	size_t length = strnlen(text, room), at = 0;

	if (length == room || length < least)
		return false;
	while (at < length) {
		if (!ck_text_prints(text + at, length - at))
			return false;
		at += ck_text_character(text + at, length - at);
	}
	return true;
}

int ck_m3_request_check(const struct ck_m3_question *q, size_t size)
{
	const struct ck_m3_request *r = &q->head;
	unsigned int need;

	if (size < sizeof(*r) || r->magic != CK_M3_MAGIC)
		return M3_EPROTO;
	if (r->version != CK_M3_VERSION)
		return M3_EVERSION;
	if (r->op == 0 || r->op >= CK_M3_OPS || r->zero || r->data_size > CK_M3_DATA_MAX ||
	    size != sizeof(*r) + r->data_size)
		return M3_EPROTO;
	need = needs[r->op];
	if (r->data_size && !(need & (DATA | OPTIONAL_DATA)))
		return M3_EPROTO;
	if ((need & DATA && !r->data_size) || (need & REGION && !r->region) ||
	    !ck_m3_text_ok(r->name, sizeof(r->name), need & NAMED ? 1 : 0) ||
	    !ck_m3_text_ok(r->principal, sizeof(r->principal), 0) || (r->access & ~3u) ||
	    r->access == 2)
		return M3_EINVAL;
	return M3_OK;
}

int ck_m3_reply_check(const struct ck_m3_answer *a, size_t size, unsigned int op)
{
	const struct ck_m3_reply *r = &a->head;

	if (size < sizeof(*r) || r->magic != CK_M3_MAGIC || r->data_size > CK_M3_DATA_MAX ||
	    size != sizeof(*r) + r->data_size || r->op != op || r->status > 0)
		return M3_EPROTO;
	return r->version == CK_M3_VERSION ? M3_OK : M3_EVERSION;
}

void ck_m3_request_init(struct ck_m3_request *r, enum ck_m3_op op)
{
	memset(r, 0, sizeof(*r));
	r->magic = CK_M3_MAGIC;
	r->version = CK_M3_VERSION;
	r->op = (uint16_t)op;
	r->device = -1;
}

int ck_m3_send(int sock, const void *head, size_t head_size, const void *data, size_t size, int fd,
	       int flags)
{
	union {
		struct cmsghdr align;
		char space[CMSG_SPACE(sizeof(int))];
	} control = {.space = {0}};
	struct iovec iov[2] = {{(void *)(uintptr_t)head, head_size},
			       {(void *)(uintptr_t)data, size}};
	struct msghdr message = {.msg_iov = iov, .msg_iovlen = size ? 2 : 1};
	struct cmsghdr *c;

	if (fd >= 0) {
		message.msg_control = control.space;
		message.msg_controllen = sizeof(control.space);
		c = CMSG_FIRSTHDR(&message);
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(sizeof(int));
		memcpy(CMSG_DATA(c), &fd, sizeof(int));
	}
	while (sendmsg(sock, &message, MSG_NOSIGNAL | flags) < 0) {
		if (errno != EINTR)
			return -errno;
	}
	return 0;
}

/* Keep the first descriptor, close the others. */
static void take_fds(struct msghdr *message, int *fd)
{
	int got;

	for (struct cmsghdr *c = CMSG_FIRSTHDR(message); c; c = CMSG_NXTHDR(message, c)) {
		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		for (size_t at = 0; CMSG_LEN(at + sizeof(int)) <= c->cmsg_len; at += sizeof(int)) {
			memcpy(&got, CMSG_DATA(c) + at, sizeof(int));
			if (*fd < 0)
				*fd = got;
			else
				close(got);
		}
	}
}

long ck_m3_receive(int sock, void *buffer, size_t room, int *fd, int flags)
{
	union {
		struct cmsghdr align;
		char space[CMSG_SPACE(FDS * sizeof(int))];
	} control;
	struct iovec iov = {buffer, room};
	struct msghdr message = {.msg_iov = &iov,
				 .msg_iovlen = 1,
				 .msg_control = control.space,
				 .msg_controllen = sizeof(control.space)};
	ssize_t n;

	*fd = -1;
	while ((n = recvmsg(sock, &message, MSG_CMSG_CLOEXEC | flags)) < 0) {
		if (errno != EINTR)
			return -errno;
	}
	take_fds(&message, fd);
	if (message.msg_flags & MSG_TRUNC) {
		if (*fd >= 0)
			close(*fd);
		*fd = -1;
		return -EMSGSIZE;
	}
	return n;
}
