/*
 * rpc/transport/lasting_read.c - reads from a lasting channel; see lasting.h.
 */
#include <errno.h>
#include <poll.h>

#include "rpc/transport/lasting.h"
#include "util/util.h"

#define DIRECT_LEAST (16u << 10) /* fewer bytes are read together with the next head */
#define CONFIRM_EVERY (4u << 20) /* bytes received; sooner if the peer asks */
#define ROOM_MS 1000		 /* for a wait for room to send a confirmation, or for bytes */

/* Free the bytes that the last head confirms. A peer cannot have received unsent bytes. */
static int take_confirmation(struct ck_lasting *l)
{
	uint64_t to = l->out.from + (uint32_t)(l->in.confirmed - (uint32_t)l->out.from);

	if (!l->in.heard)
		return 0;
	if (to > l->reached)
		return -EPROTO;
	l->in.heard = to > l->sent; /* a thread still reads those bytes: later */
	to = ck_min(to, l->sent);
	if (to > l->out.from) {
		ck_replay_confirm(&l->out, to);
		ck_lasting_wake(l);
	}
	return 0;
}

/* Bytes have come and were parsed with result @ret. */
void ck_lasting_take_heads(struct ck_lasting *l, int ret)
{
	if (ret == 0)
		ret = take_confirmation(l);
	if (ret < 0)
		ck_lasting_end(l, ret);
	else if (l->in.bye)
		ck_lasting_end(l, -EPIPE);
	if (l->in.asked || l->in.received - l->told >= CONFIRM_EVERY)
		l->owes = true;
	l->in.asked = false;
}

/* The spin time belongs to the thread that reads the connection, so it is set in its turn. */
static void read_begin(struct ck_lasting *l)
{
	l->reading = true;
	if (l->spin_due)
		ck_chan_spin(l->inner, l->spin_us);
	l->spin_due = false;
}

static void read_end(struct ck_lasting *l)
{
	l->reading = false;
	ck_lasting_wake(l);
	if (l->missed) {
		l->missed = false;
		ck_lasting_notify(l); /* it looks again */
	}
}

/* The read of @inner failed. -ETIMEDOUT if only the caller's time is over, else 0: the connection
 * is lost. */
static int read_failed(struct ck_lasting *l, const struct ck_chan *inner, int error)
{
	if (error == -ETIMEDOUT && inner->timeout_ms > 0)
		return error;
	ck_lasting_failed(l, inner, error);
	return 0;
}

/* Read the peer's first words. */
static long read_greeting(struct ck_lasting *l)
{
	struct ck_chan *inner = ck_lasting_enter(l);
	int ret = l->owner.accept ? l->owner.accept(l->owner.closure, inner) : 0;

	ck_lasting_leave(l);
	if (ret == 0 && !l->detaching)
		l->greets = false;
	else if (ret == -EACCES)
		ck_lasting_end(l, ret);
	else if (ret < 0)
		ck_lasting_failed(l, inner, ret);
	return 0;
}

/* Read into the buffer; 0, or as read_failed. -ENOBUFS: it is full. */
static long read_buffered(struct ck_lasting *l, bool grow)
{
	size_t size = 0;
	void *to = ck_frames_room(&l->in, grow, l->out.limit + CK_FRAME_MAX, &size);
	struct ck_chan *inner;
	long n;

	if (!to)
		return -ENOBUFS;
	inner = ck_lasting_enter(l);
	n = inner->ops->read(inner, to, size, 1);
	ck_lasting_leave(l);
	if (n < 0)
		return read_failed(l, inner, (int)n);
	ck_lasting_take_heads(l, ck_frames_came(&l->in, (size_t)n));
	return 0;
}

/* Read a head by itself: much data follows, which goes to its place. */
static long read_head(struct ck_lasting *l)
{
	unsigned char *to = l->in.part + l->in.part_size;
	size_t size = CK_FRAME_HEAD - l->in.part_size;
	struct ck_chan *inner = ck_lasting_enter(l);
	long n = inner->ops->read(inner, to, size, size);

	ck_lasting_leave(l);
	if (n < 0)
		return read_failed(l, inner, (int)n);
	ck_lasting_take_heads(l, ck_frames_part(&l->in, (size_t)n));
	return 0;
}

/* Read data straight to their place; returns how many. */
static long read_direct(struct ck_lasting *l, void *to, size_t size, size_t least)
{
	size_t most = ck_min(size, (size_t)l->in.left);
	struct ck_chan *inner = ck_lasting_enter(l);
	long n = inner->ops->read(inner, to, most, ck_min(least, most));

	ck_lasting_leave(l);
	if (n < 0)
		return read_failed(l, inner, (int)n);
	ck_frames_passed(&l->in, (size_t)n);
	ck_lasting_take_heads(l, 0);
	return n;
}

/* Read the connection once, as the thread whose turn it is. Returns the bytes at @to; 0: look
 * again. */
long ck_lasting_receive(struct ck_lasting *l, void *to, size_t size, size_t least)
{
	long n;

	read_begin(l);
	if (l->greets)
		n = read_greeting(l);
	else if (ck_frames_ready(&l->in) == 0 && l->in.left > 0 && size >= DIRECT_LEAST)
		n = read_direct(l, to, size, least);
	else if (ck_frames_ready(&l->in) == 0 && l->in.left == 0 && least >= DIRECT_LEAST)
		n = read_head(l);
	else
		n = read_buffered(l, size == 0);
	read_end(l);
	return n;
}

void ck_lasting_drain_input(struct ck_lasting *l, bool all)
{
	long ret = 0;

	while (ret == 0 && ck_lasting_up(l) && !l->reading) {
		if (ck_chan_pending(l->inner) == 0 && !(all && ck_chan_peer_gone(l->inner)))
			return;
		read_begin(l);
		ret = l->greets ? read_greeting(l) : read_buffered(l, all);
		read_end(l);
	}
	if (all && ck_lasting_up(l))
		l->missed = true;
}

/* Send the confirmation that is owed, unless that would have to wait: the peer may be waiting for
 * this thread to read. */
static void send_owed_ack(struct ck_lasting *l)
{
	struct pollfd pfd = {.events = POLLOUT};

	if (!l->owes || l->writing || !ck_lasting_up(l))
		return;
	pfd.fd = ck_chan_fd(l->inner);
	if (poll(&pfd, 1, 0) > 0)
		ck_lasting_transmit(l);
}

/* Before a read that may wait: a confirmation is owed, and there was no room for it. Wait for
 * either. */
static void repay_or_wait(struct ck_lasting *l)
{
	struct pollfd pfd = {.events = POLLIN | POLLOUT};

	pfd.fd = ck_chan_fd(ck_lasting_enter(l));
	poll(&pfd, 1, ROOM_MS);
	ck_lasting_leave(l);
	ck_lasting_wake(l);
	send_owed_ack(l);
}

static long read_locked(struct ck_lasting *l, void *buf, size_t size, size_t least)
{
	int64_t deadline = ck_lasting_deadline(l);
	bool waited = false;
	long n;

	for (;;) {
		if (atomic_load_explicit(&l->base.down, memory_order_relaxed))
			return -EPIPE;
		n = (long)ck_frames_take(&l->in, buf, size);
		if (n > 0)
			return n;
		if (l->ended)
			return l->ended;
		if (!ck_lasting_up(l) || l->reading) {
			n = ck_lasting_sleep(l, deadline);
		} else if (l->owes && !l->writing && !waited) {
			repay_or_wait(l);
			/* without the lock: another thread may have buffered all that
			 * came */
			waited = true;
		} else {
			n = ck_lasting_receive(l, buf, size, least);
			waited = false;
		}
		if (n != 0)
			return n;
	}
}

long ck_lasting_read(struct ck_chan *chan, void *buf, size_t size, size_t least)
{
	struct ck_lasting *l = ck_lasting_of(chan);
	long n;

	pthread_mutex_lock(&l->lock);
	n = read_locked(l, buf, size, least);
	send_owed_ack(l);
	pthread_mutex_unlock(&l->lock);
	return n;
}

int ck_lasting_greeted(struct ck_chan *chan)
{
	struct ck_lasting *l = ck_lasting_of(chan);
	int64_t deadline;
	long n = 0;

	pthread_mutex_lock(&l->lock);
	deadline = ck_lasting_deadline(l);
	while (n == 0 && !ck_lasting_over(l) && !(l->inner && !l->greets)) {
		if (ck_lasting_up(l) && !l->reading)
			n = ck_lasting_receive(l, NULL, 0, 1);
		else
			n = ck_lasting_sleep(l, deadline);
	}
	if (ck_lasting_over(l))
		n = ck_lasting_over(l);
	pthread_mutex_unlock(&l->lock);
	return (int)n;
}
