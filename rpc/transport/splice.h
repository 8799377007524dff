/*
 * rpc/transport/splice.h - send bytes over TCP without copying them into the kernel: it sends the
 * pages that hold them, through a pipe (vmsplice(2), splice(2)).
 *
 * The bytes must stay as they are until the peer has read them. The pipe is open only during a
 * transfer.
 */
#ifndef CK_RPC_TRANSPORT_SPLICE_H
#define CK_RPC_TRANSPORT_SPLICE_H

#include <stdbool.h>
#include <stddef.h>

#include "rpc/transport/transport.h"

#define CK_SPLICE_LEAST (256u << 10) /* fewer bytes are copied as fast */

struct ck_splice {
	struct ck_private_fd ends[2];
	bool open, failed; /* failed: the kernel declines, so do not try again */
};

/* Send up to @size bytes; how many were sent. If these are fewer, the kernel cannot send the others
 * in this way: copy them. -errno: the connection has failed. */
long ck_splice_send(struct ck_splice *s, struct ck_chan *chan, const void *data, size_t size);

void ck_splice_close(struct ck_splice *s);

#endif
