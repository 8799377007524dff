/*
 * m3/answer.c - the broker's answers and notices.
 */
#define _GNU_SOURCE
#include <stddef.h>
#include <sys/socket.h>

#include "m3/broker.h"

/* A client that does not read its answers has no use for them. */
void ck_m3_answer(struct ck_m3_broker *b, struct ck_m3_conn *conn, const struct ck_m3_reply *reply,
		  const void *data, size_t size, int fd)
{
	struct ck_m3_reply r = *reply;

	r.magic = CK_M3_MAGIC;
	r.version = CK_M3_VERSION;
	r.epoch = b->epoch;
	r.data_size = (uint32_t)size;
	if (conn->fd >= 0 && !conn->closing &&
	    ck_m3_send(conn->fd, &r, sizeof(r), data, size, fd, MSG_DONTWAIT) < 0)
		conn->closing = true;
}

void ck_m3_notify(struct ck_m3_broker *b, unsigned int event, const struct ck_m3_piece *piece,
		  const struct ck_m3_principal *principal)
{
	struct ck_m3_reply r = {
		.op = CK_M3_SUBSCRIBE, .count = event, .region = piece ? piece->rid : 0};

	for (struct ck_m3_conn *c = b->conns; c; c = c->next) {
		if ((c->events & event) && (!principal || c->principal == principal) &&
		    (!piece || ck_m3_piece_access(piece, c->principal)))
			ck_m3_answer(b, c, &r, NULL, 0, -1);
	}
}
