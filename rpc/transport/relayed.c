/*
 * rpc/transport/relayed.c - the channel of a connection that arrives decrypted; see rpc/relayed.h.
 */
#include <errno.h>
#include <stdio.h>

#include "rpc/relayed.h"
#include "rpc/transport/transport.h"

/* The byte that says that the connection broke is the last one, and no data. */
static long relayed_read(struct ck_chan *chan, void *buf, size_t size, size_t least)
{
	long n;

	if (chan->fd_count > 0)
		return -ECONNRESET;
	n = ck_socket_read(chan, buf, size, least);
	if (n > 0 && chan->fd_count > 0 && --n == 0)
		return -ECONNRESET;
	return n;
}

const struct ck_transport_ops ck_transport_relayed = {
	.name = "relayed",
	.writev = ck_socket_writev,
	.read = relayed_read,
	.collects_fds = true,
	.pending = ck_socket_pending,
	.awake = ck_socket_awake,
	.shutdown = ck_socket_shutdown,
	.close = ck_socket_close,
};
