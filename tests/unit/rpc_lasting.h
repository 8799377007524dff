/*
 * tests/unit/rpc_lasting.h - lasting channels whose connections break after a chosen number of
 * bytes, and one whose peer is the test.
 */
#ifndef CK_TESTS_UNIT_RPC_LASTING_H
#define CK_TESTS_UNIT_RPC_LASTING_H

#include <pthread.h>

#include "rpc/lasting.h"
#include "rpc/transport/lasting.h"
#include "rpc/transport/transport.h"
#include "rpc_ends.h"
#include "util/util.h"

/* An assertion in a thread that cmocka did not start. */
#define check(condition)                                                                           \
	do {                                                                                       \
		if (!(condition)) {                                                                \
			fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition);    \
			abort();                                                                   \
		}                                                                                  \
	} while (0)

/* --- a connection that breaks */

struct cut {
	struct ck_chan base;
	struct ck_chan *inner;
	long left; /* bytes that may still be written */
};

static inline int cut_writev(struct ck_chan *chan, struct iovec *iov, int count, int fd)
{
	struct cut *c = (struct cut *)chan;
	int ret = 0;

	(void)fd;
	for (int i = 0; i < count && ret == 0; i++) {
		struct iovec part = {iov[i].iov_base,
				     (size_t)ck_min((long)iov[i].iov_len, c->left)};

		c->left -= (long)part.iov_len;
		if (part.iov_len > 0)
			ret = ck_chan_writev(c->inner, &part, 1);
		if (ret == 0 && c->left == 0) {
			ck_chan_shutdown(c->inner);
			ret = -ECONNRESET;
		}
	}
	return ret;
}

static inline long cut_read(struct ck_chan *chan, void *buf, size_t size, size_t least)
{
	struct cut *c = (struct cut *)chan;

	c->inner->timeout_ms = chan->timeout_ms;
	return c->inner->ops->read(c->inner, buf, size, least);
}

static inline size_t cut_pending(struct ck_chan *chan)
{
	return ck_chan_pending(((struct cut *)chan)->inner);
}

static inline void cut_shutdown(struct ck_chan *chan)
{
	ck_chan_shutdown(((struct cut *)chan)->inner);
}

static inline void cut_close(struct ck_chan *chan)
{
	ck_chan_close(((struct cut *)chan)->inner);
	free(chan);
}

static const struct ck_transport_ops cut_ops = {.name = "cut",
						.writev = cut_writev,
						.read = cut_read,
						.pending = cut_pending,
						.shutdown = cut_shutdown,
						.close = cut_close};

#define NEVER (1L << 40)

static inline void cut_pair(struct ck_chan *ends[2], long after, long after_back)
{
	long left[2] = {after, after_back};
	struct ck_chan *inner[2];

	socket_pair(inner);
	for (int i = 0; i < 2; i++) {
		struct cut *c = calloc(1, sizeof(*c));

		*c = (struct cut){.base = {.ops = &cut_ops, .kept = inner[i]->kept},
				  .inner = inner[i],
				  .left = left[i]};
		ends[i] = &c->base;
	}
}

/* --- two lasting channels, and one against bytes */

static inline void create_pair(struct ck_chan *chan[2], size_t limit)
{
	assert_int_equal(ck_lasting_create("client", NULL, limit, &chan[0]), 0);
	assert_int_equal(ck_lasting_create("server", NULL, limit, &chan[1]), 0);
}

static inline void link_pair(struct ck_chan *chan[2], long after, long after_back, bool narrow)
{
	const int few = 1;
	struct ck_chan *ends[2];
	uint64_t received[2];

	cut_pair(ends, after, after_back);
	for (int i = 0; i < 2 && narrow; i++)
		setsockopt(ck_chan_fd(ends[i]), SOL_SOCKET, SO_SNDBUF, &few, sizeof(few));
	for (int i = 0; i < 2; i++)
		ck_lasting_detach(chan[i], &received[i]);
	for (int i = 0; i < 2; i++)
		assert_int_equal(ck_lasting_attach(chan[i], ends[i], received[1 - i], false), 0);
}

/* A lasting channel, and the plain other end of its connection. */
static inline void create_against(struct ck_chan **lasting, struct ck_chan **plain, size_t limit)
{
	struct ck_chan *ends[2];
	uint64_t received;

	socket_pair(ends);
	assert_int_equal(ck_lasting_create("peer", NULL, limit, lasting), 0);
	ck_lasting_detach(*lasting, &received);
	assert_int_equal(received, 0);
	assert_int_equal(ck_lasting_attach(*lasting, ends[0], 0, false), 0);
	*plain = ends[1];
}

static inline void send_head(struct ck_chan *plain, uint32_t length, uint32_t count)
{
	uint32_t head[2] = {htonl(length), htonl(count)};
	struct iovec iov = {head, sizeof(head)};

	assert_int_equal(ck_chan_writev(plain, &iov, 1), 0);
}

#endif
