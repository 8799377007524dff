/*
 * rpc/transport/shm.c - a unix connection that continues in shared memory.
 *
 * The client makes a memory file with a ring for each direction, seals its size, and sends it with
 * the connection's first record. A server that accepts it marks it, and replies over the socket;
 * then both continue in the rings. A server without this feature drops the descriptor and sets no
 * mark, and the connection remains a socket without delay.
 *
 * The socket stays open. It carries descriptors, and it shows when the other process dies: a
 * sleeper checks it twice a second, and before the first sleep.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "rpc/pipe.h"
#include "rpc/transport/shm.h"
#include "rpc/transport/transport.h"
#include "util/until.h"
#include "util/util.h"

#define QUIET_NS (2 * CK_STALL_MS * 1000000ull - 1000000)
#define CK_SHM_PART (128u << 10) /* bytes per publication: the reader copies them meanwhile */

bool ck_chan_enter_rings(struct ck_chan *chan)
{
	struct ck_shm *shm = chan->shm;

	if (!shm)
		return false;
	if (shm->client && atomic_load(&shm->header->taken) != 1) {
		ck_shm_free(shm);
		chan->shm = NULL;
		chan->release = NULL;
		return false;
	}
	ck_private_fd_close(&shm->file);
	chan->ops = &ck_transport_shm;
	memcpy(chan->peer, "shm ", 4); /* one character shorter than "unix" before it */
	memmove(chan->peer + 4, chan->peer + 5, strlen(chan->peer + 5) + 1);
	return true;
}

bool ck_chan_in_rings(const struct ck_chan *chan)
{
	return chan->ops == &ck_transport_shm;
}

struct ck_pipe *ck_chan_ring(struct ck_chan *chan)
{
	return ck_chan_in_rings(chan) ? &chan->shm->in : NULL;
}

typedef long (*look_fn)(struct ck_pipe *ring);
typedef int (*sleep_fn)(struct ck_pipe *ring, int timeout_ms);

/* Why the peer counts as gone. */
static int gone_error(struct ck_chan *chan)
{
	return ck_chan_fd(chan) < 0 && !atomic_load(&chan->down) ? -EBADF : -EPIPE;
}

/* Sleep until @look returns nonzero, the peer is gone, or the channel's timeout expires. */
static long sleep_until(struct ck_chan *chan, struct ck_pipe *ring, look_fn look, sleep_fn sleep)
{
	int64_t deadline = ck_deadline(chan->timeout_ms > 0 ? chan->timeout_ms : -1);
	uint64_t next = ck_now_ns() + QUIET_NS;
	long n = 0;

	for (;;) {
		bool gone = atomic_load(&chan->down) || ck_chan_peer_gone(chan);
		int left = ck_deadline_left(deadline);

		n = look(ring); /* after the check for the end: bytes written before it count */
		if (n != 0)
			return n;
		if (gone)
			return gone_error(chan);
		if (left == 0)
			return -ETIMEDOUT;
		n = sleep(ring, left > 0 ? ck_min(left, CK_STALL_MS) : CK_STALL_MS);
		if (n < 0)
			return n;
		if (chan->quiet && ck_now_ns() >= next) {
			chan->quiet(chan->quiet_closure);
			next = ck_now_ns() + QUIET_NS;
		}
	}
}

/* Wait for bytes or room in @ring; returns their number, or -errno. */
static long wait_for_ring(struct ck_chan *chan, struct ck_pipe *ring, look_fn look, sleep_fn sleep)
{
	struct ck_spin_turn turn;
	long n;

	if (unlikely(atomic_load_explicit(&chan->down, memory_order_relaxed)))
		return -EPIPE;
	n = look(ring);
	if (likely(n != 0))
		return n;
	turn = ck_spin_begin(&chan->spin);
	do {
		n = look(ring);
	} while (n == 0 && ck_spin_again(&turn));
	if (n == 0)
		n = sleep_until(chan, ring, look, sleep);
	ck_spin_end(&turn);
	return n;
}

static long shm_read(struct ck_chan *chan, void *buf, size_t size, size_t least)
{
	long n = wait_for_ring(chan, &chan->shm->in, ck_pipe_filled, ck_pipe_sleep_filled);

	(void)least; /* the caller reads the rest with another call */
	if (n < 0)
		return n;
	size = ck_min(size, (size_t)n);
	ck_pipe_take(&chan->shm->in, buf, size);
	return (long)size;
}

/* Send one dummy byte with @fd. */
static int send_fd(struct ck_chan *chan, int fd)
{
	struct iovec iov = {(char *)(uintptr_t) "", 1};

	return ck_socket_writev(chan, &iov, 1, fd);
}

static int put_all(struct ck_chan *chan, const unsigned char *from, size_t size)
{
	struct ck_pipe *out = &chan->shm->out;

	while (size > 0) {
		size_t part;
		long n = ck_pipe_room(out);

		if (n == 0) {
			ck_pipe_publish(out); /* only then can the reader make room */
			n = wait_for_ring(chan, out, ck_pipe_room, ck_pipe_sleep_room);
		}
		if (n < 0)
			return (int)n;
		part = ck_min(size, (size_t)n);
		part = ck_min(part, ck_min(out->size / 4, (size_t)CK_SHM_PART));
		ck_pipe_put(out, from, part);
		from += part;
		size -= part;
		if (size > 0)
			ck_pipe_publish(out);
	}
	return 0;
}

static int shm_writev(struct ck_chan *chan, struct iovec *iov, int count, int fd)
{
	int ret = fd >= 0 ? send_fd(chan, fd) : 0;

	if (unlikely(atomic_load_explicit(&chan->down, memory_order_relaxed)))
		return -EPIPE;
	for (int i = 0; ret == 0 && i < count; i++)
		ret = put_all(chan, iov[i].iov_base, iov[i].iov_len);
	/* the sleeper may be dead: a sender that never waits finds out here */
	if (ret == 0 && ck_pipe_publish(&chan->shm->out) && ck_chan_peer_gone(chan))
		ret = gone_error(chan);
	return ret;
}

/* The descriptor was sent before the record was written, so it is in the socket by now. */
static int shm_take_fd(struct ck_chan *chan)
{
	char byte;
	int fd = ck_socket_take_fd(chan);

	if (fd != -ENOENT)
		return fd;
	if (ck_socket_receive(chan, &byte, 1, MSG_DONTWAIT) <= 0)
		return -ENOENT;
	return ck_socket_take_fd(chan);
}

static size_t shm_pending(struct ck_chan *chan)
{
	struct ck_pipe_control *control = chan->shm->in.control;

	return (size_t)(atomic_load(&control->written) - atomic_load(&control->taken));
}

/* Sleepers at the other end wake and find the socket closed. */
static void shm_shutdown(struct ck_chan *chan)
{
	ck_socket_shutdown(chan);
	ck_pipe_wake(&chan->shm->in);
	ck_pipe_wake(&chan->shm->out);
}

static int shm_dial(const struct ck_address *where, int timeout_ms, struct ck_chan **chans,
		    unsigned int count)
{
	return ck_transport_unix.dial(where, timeout_ms, chans, count);
}

const struct ck_transport_ops ck_transport_shm = {
	.name = "shm",
	.dial = shm_dial,
	.writev = shm_writev,
	.read = shm_read,
	.take_fd = shm_take_fd,
	.pending = shm_pending,
	.shutdown = shm_shutdown,
	.close = ck_socket_close,
};
