/*
 * client/wire/striping.c - spread a large copy over several connections.
 *
 * One thread that copies into a socket is slower than GPU memory and most networks. So a few client
 * threads, started on first use, take parts. A part is an ordinary call on the lane of its thread.
 * The caller copies parts too, and waits for all of them. The parts do not overlap, so they need no
 * order. All threads connect at the same time, and the caller does not wait for them.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include "client/wire/client.h"
#include "client/wire/lane.h"
#include "client/wire/profile.h"
#include "client/wire/servers.h"
#include "client/wire/striping.h"
#include "util/cancel.h"
#include "util/env.h"
#include "util/log.h"

CK_LOG_DEFINE("client");

#define MAX_WIDTH 8
#define PART_ALIGN ((size_t)256 << 10)
#define PART_MIN ((size_t)1 << 20)

unsigned int ckc_striping_width(void)
{
	static _Atomic unsigned int known;
	long n = known;

	if (n == 0) {
		n = ck_env_long("CRICKET_CONNECTIONS");
		if (n <= 0)
			n = ck_min(4L, sysconf(_SC_NPROCESSORS_ONLN) / 2);
		n = n < 1 ? 1 : ck_min(n, (long)MAX_WIDTH);
		known = (unsigned int)n;
	}
	return (unsigned int)n;
}

bool ckc_share_next(struct ckc_share *s, size_t *at, size_t *size)
{
	size_t left, n;

	if (!s->lock) { /* one thread copies all of it */
		*at = 0;
		*size = s->size - s->next;
		s->next = s->size;
		return *size > 0;
	}
	ck_lock(s->lock);
	left = s->size - s->next;
	n = s->even ? s->even : CK_ALIGN_UP(left / (2 * s->threads), PART_ALIGN);
	*at = s->next;
	*size = ck_min(left, ck_max(n, PART_MIN));
	s->next += *size;
	ck_unlock(s->lock);
	return *size > 0;
}

/* Take part in the current copy, if any of it is left. Call with the lock held; it is released
 * during the copy. */
static bool take_part(struct ckc_spreading *s)
{
	uint32_t number = s->number;
	CUresult err;

	if (s->share.next == s->share.size)
		return false;
	s->busy++;
	ck_unlock(&s->lock);
	if (unlikely(number))
		ckc_profile_help(number);
	err = s->fn(s->copy, &s->share);
	if (unlikely(number))
		ckc_profile_help(0);
	ck_lock(&s->lock);
	if (err && !s->err)
		s->err = err;
	if (err) /* the copy has failed: skip the rest */
		s->share.next = s->share.size;
	if (--s->busy == 0)
		ck_cond_signal(&s->done);
	return true;
}

/* Connect, while the caller of the copy has begun; then take parts of this copy and of later
 * ones. */
static void *run_helper(void *client)
{
	struct ckc_spreading *s = &((struct ckc_client *)client)->spreading;
	int ret;

	ckc_route_serve(client);
	ret = ckc_lane_open(client);
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

	while (s->threads < count && ckc_thread_start(run_helper, c) == 0)
		s->threads++;
	if (s->threads < count)
		ck_debug("no thread for a large copy: fewer connections are used");
}

/* Copy with helpers. Call with the lock held. */
static CUresult copy_together(struct ckc_spreading *s)
{
	ck_cond_broadcast(&s->work);
	while (take_part(s))
		;
	while (s->busy > 0)
		ck_cond_wait(&s->done, &s->lock);
	return s->err;
}

CUresult ckc_striping(struct ckc_client *c, ckc_share_fn fn, const void *copy, size_t size,
		      bool even)
{
	struct ckc_spreading *s = &c->spreading;
	struct ckc_share alone = {.size = size};
	unsigned int width = ckc_striping_width();
	int cancel;
	CUresult err;

	/* with two large copies at once, the processors are busy already */
	if (width == 1 || size < CK_STRIPING_MIN || ck_trylock(&s->one_lock))
		return fn(copy, &alone);
	cancel = ck_cancel_disable();
	ck_lock(&s->lock);
	start_helpers(c, width - 1);
	s->fn = fn;
	s->copy = copy;
	s->err = CUDA_SUCCESS;
	s->number = ckc_profile_number();
	s->share = (struct ckc_share){.lock = &s->lock, .size = size, .threads = width};
	if (even)
		s->share.even = CK_ALIGN_UP((size + width - 1) / width, PART_ALIGN);
	err = copy_together(s);
	s->share.next = s->share.size = 0;
	ck_unlock(&s->lock);
	ck_unlock(&s->one_lock);
	ck_cancel_restore(cancel);
	return err;
}
