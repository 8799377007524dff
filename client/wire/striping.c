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

#include "client/link/client.h"
#include "client/link/lane.h"
#include "client/wire/profile.h"
#include "client/link/session_list.h"
#include "client/wire/striping.h"
#include "rpc/chan.h"
#include "util/cancel.h"
#include "util/env.h"
#include "util/log.h"
#include "util/process/process_limits.h"
#include "util/until.h"

CK_LOG_DEFINE("client");

#define WIDTH_FIRST 4L

/* Of the free descriptors, and of the session's connections for calls, one part in so many is for
 * one use. */
#define DESCRIPTORS_SHARE 16
#define PLACES_SHARE 8
#define PART_ALIGN ((size_t)256 << 10)
#define PART_MIN ((size_t)1 << 20)

unsigned int ckc_striping_choice(void)
{
	long n = ck_env_long("CRICKET_CONNECTIONS");

	return n > 0 ? (unsigned int)ck_min(n, (long)CK_CONNECTIONS_MOST) : 0;
}

unsigned int ckc_striping_most(const struct ckc_client *c)
{
	unsigned int places = c->lanes_offer.most / PLACES_SHARE;
	unsigned long files = ck_limit_free_files() / DESCRIPTORS_SHARE;

	return ck_max((unsigned int)ck_min(ck_min(files, (unsigned long)places),
					   (unsigned long)CK_CONNECTIONS_MOST),
		      1u);
}

/* The count for the direction that @flags name. Call with the lock held. */
static struct ckc_connection_count *get_count(struct ckc_client *c, unsigned int flags)
{
	struct ckc_connection_count *count = &c->spreading.counts[(flags & CK_STRIPING_DOWN) != 0];
	unsigned int choice, first;

	if (count->now > 0)
		return count;
	choice = ckc_striping_choice();
	first = (unsigned int)ck_max(ck_min(WIDTH_FIRST, sysconf(_SC_NPROCESSORS_ONLN) / 2), 1L);
	if (choice)
		ckc_connection_count_init(count, choice, choice);
	else
		ckc_connection_count_init(count, first, ckc_striping_most(c));
	return count;
}

/*
 * The round trip of the path that connections take; 0: the server is on this host. The shortest
 * call so far may have taken far longer than the network, so the kernel is asked. Through a tunnel,
 * it tells the way to the tunnel, which limits all connections together.
 */
static uint64_t get_round_trip(const struct ckc_client *c)
{
	uint64_t shortest = c->passes_fds ? 0 : atomic_load(&c->lanes.round_trip_ns);
	uint64_t kernel;

	if (shortest < CK_CONNECTIONS_LONG_NS)
		return shortest;
	kernel = ck_chan_round_trip_us(c->command.chan) * UINT64_C(1000);
	return kernel ? ck_min(kernel, shortest) : shortest;
}

void ckc_striping_note(const struct ckc_client *c, struct ckc_connection_count *n, size_t size,
		       uint64_t ns)
{
	ckc_connection_count_note(n, size, ns, get_round_trip(c));
}

bool ckc_striping_is_long(const struct ckc_client *c)
{
	return get_round_trip(c) >= CK_CONNECTIONS_LONG_NS;
}

unsigned int ckc_striping_width(struct ckc_client *c, unsigned int flags)
{
	unsigned int width;

	ck_lock(&c->spreading.lock);
	width = get_count(c, flags)->now;
	ck_unlock(&c->spreading.lock);
	return width;
}

size_t ckc_striping_step(struct ckc_client *c, unsigned int flags, size_t size)
{
	struct ckc_connection_count *count;

	ck_lock(&c->spreading.lock);
	count = get_count(c, flags);
	if (ckc_connection_count_grows(count, get_round_trip(c)))
		size = ck_min(size, ckc_connection_count_sample(count));
	ck_unlock(&c->spreading.lock);
	return size;
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

/* Does a copy use as many helpers? Those that are left over after a trial end, and the program's
 * threads get their lanes. Call with the lock held. */
static bool is_needed(const struct ckc_spreading *s)
{
	return s->threads < ck_max(s->counts[0].now, s->counts[1].now);
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
		for (size_t i = 0; i < CK_ARRAY_SIZE(s->counts); i++)
			ckc_connection_count_stop(&s->counts[i]);
		ck_unlock(&s->lock);
		ck_debug("no connection for a large copy: %s", strerror(-ret));
		return NULL;
	}
	while (is_needed(s)) {
		if (!take_part(s))
			ck_cond_wait(&s->work, &s->lock);
	}
	s->threads--;
	ck_unlock(&s->lock);
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

/* A copy over @width connections has ended: the next may need more. */
static void note_copy(struct ckc_client *c, unsigned int flags, unsigned int width, size_t size,
		      uint64_t ns)
{
	struct ckc_connection_count *count;

	if (!(flags & CK_STRIPING_PLAIN))
		return;
	ck_lock(&c->spreading.lock);
	count = get_count(c, flags);
	if (width == count->now)
		ckc_striping_note(c, count, size, ns);
	if (width != count->now)
		ck_debug("the next large copy %s the server uses %u connections",
			 flags & CK_STRIPING_DOWN ? "from" : "to", count->now);
	ck_unlock(&c->spreading.lock);
}

/* Copy in parts over @width connections. Call with the copies' lock held. */
static CUresult copy_parts(struct ckc_client *c, ckc_share_fn fn, const void *copy, size_t size,
			   unsigned int flags, unsigned int width)
{
	struct ckc_spreading *s = &c->spreading;
	int cancel = ck_cancel_disable();
	CUresult err;

	ck_lock(&s->lock);
	start_helpers(c, width - 1);
	s->fn = fn;
	s->copy = copy;
	s->err = CUDA_SUCCESS;
	s->number = ckc_profile_number();
	s->share = (struct ckc_share){.lock = &s->lock, .size = size, .threads = width};
	if (flags & CK_STRIPING_EVEN)
		s->share.even = CK_ALIGN_UP((size + width - 1) / width, PART_ALIGN);
	err = copy_together(s);
	s->share.next = s->share.size = 0;
	ck_unlock(&s->lock);
	ck_cancel_restore(cancel);
	return err;
}

CUresult ckc_striping(struct ckc_client *c, ckc_share_fn fn, const void *copy, size_t size,
		      unsigned int flags)
{
	struct ckc_share alone = {.size = size};
	unsigned int width = ckc_striping_width(c, flags);
	uint64_t began = ck_now_ns();
	CUresult err;

	/* with two large copies at once, the processors are busy already */
	if (size < CK_STRIPING_MIN || ck_trylock(&c->spreading.one_lock))
		return fn(copy, &alone);
	err = width == 1 ? fn(copy, &alone) : copy_parts(c, fn, copy, size, flags, width);
	if (!err)
		note_copy(c, flags, width, size, ck_now_ns() - began);
	ck_unlock(&c->spreading.one_lock);
	return err;
}
