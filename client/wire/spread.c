/*
 * client/wire/spread.c - spread a large copy over several connections.
 *
 * One thread that copies into a socket is slower than GPU memory and most networks. So a few client
 * threads, started on first use, take a part each. A part is an ordinary call on the lane of its
 * thread. The caller copies a part too, and waits for all of them. The parts do not overlap, so
 * they need no order. All threads connect at the same time, and the caller does not wait for them.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include "client/wire/client.h"
#include "client/wire/lane.h"
#include "client/wire/spread.h"
#include "util/cancel.h"
#include "util/env.h"
#include "util/log.h"

CK_LOG_DEFINE("client");

#define MAX_PARTS 8
#define PART_ALIGN ((size_t)256 << 10)

unsigned int ckc_spread_width(void)
{
	static _Atomic unsigned int known;
	long n = known;

	if (n == 0) {
		n = ck_env_long("CRICKET_CONNECTIONS");
		if (n <= 0)
			n = ck_min(4L, sysconf(_SC_NPROCESSORS_ONLN) / 2);
		n = n < 1 ? 1 : ck_min(n, (long)MAX_PARTS);
		known = (unsigned int)n;
	}
	return (unsigned int)n;
}

/* Take the next part, if any, and copy it. Call with the lock held; it is released during the
 * copy. */
static bool take_part(struct ckc_spreading *s)
{
	size_t at, n;
	CUresult err;

	if (s->next == s->parts)
		return false;
	at = s->next++ * s->part_size;
	n = ck_min(s->part_size, s->size - at);
	ck_unlock(&s->lock);
	err = s->fn(s->copy, at, n);
	ck_lock(&s->lock);
	if (err && !s->err)
		s->err = err;
	if (--s->pending == 0)
		pthread_cond_signal(&s->done);
	return true;
}

/* Connect, while the caller of the copy has begun; then take parts of this copy and of later ones. */
static void *helper(void *client)
{
	struct ckc_spreading *s = &((struct ckc_client *)client)->spreading;
	int ret = ckc_lane_open(client);

	ck_lock(&s->lock);
	if (ret < 0) {
		s->threads--;
		ck_unlock(&s->lock);
		ck_debug("no connection for a large copy: %s", strerror(-ret));
		return NULL;
	}
	for (;;) {
		if (!take_part(s))
			ck_cond_wait(&s->work, &s->lock);
	}
	return NULL;
}

static void start_helpers(struct ckc_client *c, unsigned int count)
{
	struct ckc_spreading *s = &c->spreading;

	while (s->threads < count && ckc_thread_start(helper, c) == 0)
		s->threads++;
	if (s->threads < count)
		ck_debug("no thread for a large copy: fewer connections are used");
}

CUresult ckc_spread(struct ckc_client *c, ckc_part_fn fn, const void *copy, size_t size)
{
	struct ckc_spreading *s = &c->spreading;
	unsigned int parts = ckc_spread_width();
	int cancel;
	CUresult err;

	/* with two large copies at once, the processors are busy already */
	if (parts == 1 || size < CK_SPREAD_MIN || ck_trylock(&s->one_lock))
		return fn(copy, 0, size);
	cancel = ck_cancel_disable();
	ck_lock(&s->lock);
	start_helpers(c, parts - 1);
	s->fn = fn;
	s->copy = copy;
	s->size = size;
	s->part_size = CK_ALIGN_UP((size + parts - 1) / parts, PART_ALIGN);
	s->parts = s->pending = (unsigned int)((size + s->part_size - 1) / s->part_size);
	s->err = CUDA_SUCCESS;
	s->next = 0;
	pthread_cond_broadcast(&s->work);
	while (take_part(s))
		;
	while (s->pending > 0)
		ck_cond_wait(&s->done, &s->lock);
	s->parts = s->next = 0;
	err = s->err;
	ck_unlock(&s->lock);
	ck_unlock(&s->one_lock);
	ck_cancel_restore(cancel);
	return err;
}
