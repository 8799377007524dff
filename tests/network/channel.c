/*
 * tests/network/channel.c - a channel that uses another one as if over a slower network.
 *
 * Each direction is a queue of pieces with their arrival times (inject.h). A writer queues its
 * bytes and continues; a thread sends them to the channel below when they are due. Another thread
 * reads the channel below at once and notes the times; the reader waits until bytes are due. So the
 * delay hides the cost of waking a thread, and many bytes can be in transit at once.
 */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "rpc/transport/transport.h"
#include "tests/network/delay.h"
#include "tests/network/inject.h"

#define CLOSE_NS 1000000000	/* how long a hung peer delays the close of a channel */
#define LATE_NS 80000		/* maximal delay of a timer plus wake-up */
#define LATE_SLACKLESS_NS 20000 /* the same for a thread whose timers have no slack */

enum { UP, DOWN };

struct injected {
	struct ck_chan base;
	struct ck_chan *inner;
	struct ck_inject like;
	struct ck_delay queue[2];
	pid_t owner; /* a forked child does not have the threads */
};

/* Reserve the link of @direction for @p, and queue it. */
static int send_piece(struct injected *c, int direction, struct ck_piece *p, int64_t deadline)
{
	ck_delay_sleep(ck_inject_hold_until(direction));
	p->due = ck_inject_arrival(&c->like, direction, p->size, ck_delay_now());
	return ck_delay_put(&c->queue[direction], p, deadline);
}

/* To the server: send pieces when they are due. */
static void *pass_up(void *arg)
{
	struct injected *c = arg;
	struct ck_delay *q = &c->queue[UP];
	struct ck_piece *p;
	int error;

	prctl(PR_SET_TIMERSLACK, 1000);
	pthread_mutex_lock(&q->lock);
	while ((p = ck_delay_first(q, -1, &error))) {
		struct iovec iov = {p->data, p->size};

		ck_delay_drop(q);
		pthread_mutex_unlock(&q->lock);
		error = ck_chan_writev(c->inner, &iov, 1);
		free(p);
		if (error < 0)
			ck_delay_end(q, error, 0);
		pthread_mutex_lock(&q->lock);
	}
	ck_delay_left(q);
	pthread_mutex_unlock(&q->lock);
	return NULL;
}

/* From the server: receive bytes and queue them with their times. */
static void *pass_down(void *arg)
{
	struct injected *c = arg;
	struct ck_piece *p;
	long n = 0;

	while (n >= 0) {
		p = ck_piece_new(ck_inject_piece(&c->like));
		n = p ? ck_chan_read_some(c->inner, p->data, p->size) : -ENOMEM;
		if (n >= 0) {
			p->size = (size_t)n;
			n = send_piece(c, DOWN, p, -1);
		} else {
			free(p);
		}
	}
	ck_delay_end(&c->queue[DOWN], (int)n, ck_delay_now() + c->like.delay_ns);
	pthread_mutex_lock(&c->queue[DOWN].lock);
	ck_delay_left(&c->queue[DOWN]);
	pthread_mutex_unlock(&c->queue[DOWN].lock);
	return NULL;
}

static int64_t deadline_of(const struct ck_chan *chan)
{
	return chan->timeout_ms > 0 ? ck_delay_now() + (int64_t)chan->timeout_ms * 1000000 : -1;
}

/* Copy up to @size bytes from the front of @iov. */
static size_t gather_iov(struct iovec **iov, int *count, unsigned char *to, size_t size)
{
	size_t done = 0;

	while (*count > 0 && done < size) {
		struct iovec *v = *iov;
		size_t n = v->iov_len < size - done ? v->iov_len : size - done;

		if (n > 0)
			memcpy(to + done, v->iov_base, n);
		done += n;
		v->iov_base = (char *)v->iov_base + n;
		v->iov_len -= n;
		if (v->iov_len == 0) {
			(*iov)++;
			(*count)--;
		}
	}
	return done;
}

static int inject_writev(struct ck_chan *chan, struct iovec *iov, int count, int fd)
{
	struct injected *c = (struct injected *)chan;
	size_t left = 0, most = ck_inject_piece(&c->like);
	int ret = 0;

	(void)fd;
	for (int i = 0; i < count; i++)
		left += iov[i].iov_len;
	while (left > 0 && ret == 0) {
		struct ck_piece *p = ck_piece_new(left < most ? left : most);

		if (!p)
			return -ENOMEM;
		left -= gather_iov(&iov, &count, p->data, p->size);
		ret = send_piece(c, UP, p, deadline_of(chan));
	}
	return ret;
}

static long inject_read(struct ck_chan *chan, void *buf, size_t size, size_t least)
{
	struct injected *c = (struct injected *)chan;
	struct ck_delay *q = &c->queue[DOWN];
	struct ck_piece *p;
	size_t n;
	int error;

	(void)least; /* return what has arrived: the rest may come much later */
	pthread_mutex_lock(&q->lock);
	p = ck_delay_first(q, deadline_of(chan), &error);
	if (!p) {
		pthread_mutex_unlock(&q->lock);
		return error;
	}
	n = p->size - p->taken < size ? p->size - p->taken : size;
	memcpy(buf, p->data + p->taken, n);
	p->taken += n;
	if (p->taken == p->size) {
		ck_delay_drop(q);
		free(p);
	}
	pthread_mutex_unlock(&q->lock);
	return (long)n;
}

/* Of the first piece, if it is due. */
static size_t inject_pending(struct ck_chan *chan)
{
	struct ck_delay *q = &((struct injected *)chan)->queue[DOWN];
	size_t n = 0;

	pthread_mutex_lock(&q->lock);
	if (q->first && q->first->due <= ck_delay_now())
		n = q->first->size - q->first->taken;
	pthread_mutex_unlock(&q->lock);
	return n;
}

static void inject_shutdown(struct ck_chan *chan)
{
	struct injected *c = (struct injected *)chan;

	ck_delay_close(&c->queue[UP]);
	ck_delay_close(&c->queue[DOWN]);
	ck_chan_shutdown(c->inner);
}

static void inject_close(struct ck_chan *chan)
{
	struct injected *c = (struct injected *)chan;

	if (c->owner == getpid()) {
		/* send written bytes, as a closed socket would */
		ck_delay_end(&c->queue[UP], -EPIPE, 0);
		ck_delay_await_left(&c->queue[UP], ck_delay_now() + c->like.delay_ns + CLOSE_NS);
		inject_shutdown(chan);
		for (int i = 0; i < 2; i++) {
			ck_delay_await_left(&c->queue[i], -1);
			ck_delay_destroy(&c->queue[i]);
		}
	}
	ck_chan_close(c->inner);
	free(c);
}

static const struct ck_transport_ops inject_ops = {
	.name = "inject",
	.writev = inject_writev,
	.read = inject_read,
	.pending = inject_pending,
	.shutdown = inject_shutdown,
	.close = inject_close,
};

/* Block signals in these threads: they are for the application's threads. A channel that is never
 * closed, because the program ends, may outlive them, so they are detached; close waits for the
 * notes that they leave in the queues. */
static int start_threads(struct injected *c)
{
	pthread_attr_t detached;
	pthread_t thread;
	sigset_t all, was;
	int ret;

	pthread_attr_init(&detached);
	pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED);
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &was);
	ret = pthread_create(&thread, &detached, pass_up, c);
	if (ret == 0) {
		ret = pthread_create(&thread, &detached, pass_down, c);
		if (ret) {
			ck_delay_close(&c->queue[UP]);
			ck_delay_await_left(&c->queue[UP], -1);
		}
	}
	pthread_sigmask(SIG_SETMASK, &was, NULL);
	pthread_attr_destroy(&detached);
	return -ret;
}

void ck_inject_connect(const struct ck_inject *like)
{
	ck_delay_sleep(ck_delay_now() + 2 * like->delay_ns);
}

int ck_inject_wrap(const struct ck_inject *like, struct ck_chan *inner, struct ck_chan **out)
{
	struct injected *c = calloc(1, sizeof(*c));
	int ret = -ENOMEM;

	if (!c)
		goto close_inner;
	c->base.ops = &inject_ops;
	ck_private_fd_share(&c->base.kept, &inner->kept);
	atomic_init(&c->base.down, false);
	snprintf(c->base.peer, sizeof(c->base.peer), "%s", ck_chan_peer(inner));
	c->inner = inner;
	c->like = *like;
	c->owner = getpid();
	ck_delay_init(&c->queue[UP], LATE_SLACKLESS_NS);
	ck_delay_init(&c->queue[DOWN], LATE_NS);
	ret = start_threads(c);
	if (ret < 0)
		goto destroy;
	*out = &c->base;
	return 0;
destroy:
	ck_delay_destroy(&c->queue[UP]);
	ck_delay_destroy(&c->queue[DOWN]);
	free(c);
close_inner:
	ck_chan_close(inner);
	return ret;
}
