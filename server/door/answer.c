/*
 * server/door/answer.c - see answer.h.
 */
#include <sys/socket.h>

#include "rpc/record.h"
#include "server/door/answer.h"

#define CK_ANSWER_SIZE 16384 /* the largest: ck_offer_res with all GPUs */

/* Read @size bytes from the connection; a peek has shown that they are there. */
static bool consume_bytes(int fd, size_t size)
{
	unsigned char bytes[CK_PEEK_MAX];

	return recv(fd, bytes, size, MSG_DONTWAIT) == (ssize_t)size;
}

static bool send_now(int fd, const void *bytes, long size)
{
	return size > 0 && send(fd, bytes, (size_t)size, MSG_DONTWAIT | MSG_NOSIGNAL) == size;
}

bool cks_answer(int fd, const struct cks_peeked *call, xdrproc_t xdr, const void *res)
{
	unsigned char out[CK_ANSWER_SIZE];

	return consume_bytes(fd, call->record) &&
	       send_now(fd, out, ck_reply_encode(out, sizeof(out), call->xid, xdr, res, 0));
}

bool cks_answer_bytes(int fd, const struct cks_peeked *call, const void *reply, size_t size)
{
	return consume_bytes(fd, call->record) && send_now(fd, reply, (long)size);
}

bool cks_answer_small(int fd, enum cks_connection_peek kind, const struct cks_peeked *call)
{
	unsigned char out[CK_ANSWER_SIZE];
	enum accept_stat stat = PROC_UNAVAIL;
	long size;

	if (kind == CK_PEEK_NULL)
		return cks_answer(fd, call, ck_code_nothing, NULL);
	if (kind == CK_PEEK_NO_PROGRAM)
		stat = PROG_UNAVAIL;
	else if (kind == CK_PEEK_NO_VERSION)
		stat = PROG_MISMATCH;
	size = kind == CK_PEEK_NO_RPC_VERSION
		       ? ck_mismatch_encode(out, sizeof(out), call->xid)
		       : ck_refusal_encode(out, sizeof(out), call->xid, stat);
	return consume_bytes(fd, call->record) && send_now(fd, out, size);
}
