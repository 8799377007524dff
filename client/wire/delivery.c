/*
 * client/wire/delivery.c - see client/wire/delivery.h.
 *
 * Threads of ours, one at first and more for large copies, ask the server for what is done
 * (ck_delivery_next) and receive it straight into its place, each on a lane of its own. The server
 * names a copy by our number of it, never by an address.
 */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "client/wire/delivery.h"
#include "client/wire/lane.h"
#include "client/wire/spread.h"
#include "client/wire/status.h"
#include "client/wire/hooks.h"
#include "rpc/proc.h"
#include "rpc/status.h"
#include "util/cancel.h"
#include "util/map.h"
#include "util/until.h"

#define IDLE_MS 10000
#define LOOK_MS 200		/* whether the session is still there */
#define LOOKS_A_SECOND (1000 / LOOK_MS)
#define EARLY 1024		/* ranks that have come before an earlier one: far more than threads */

/* A copy of which bytes are to come. */
struct ck_copy {
	uint64_t number;
	char *to;		/* NULL: nobody wants it any more */
	size_t size, left;
	unsigned int busy;	/* threads that receive a part of it */
};

static struct {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	struct ck_map *copies;
	uint64_t numbers;
	uint32_t early[EARLY];
	size_t early_count;
} all = { .lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER };

static pthread_mutex_t starting = PTHREAD_MUTEX_INITIALIZER; /* taken first: of threads */
static unsigned int threads;

_Atomic unsigned int ck_delivery_count;

/* --- what has come. The lock is held. */

static bool is_beyond(uint32_t rank)
{
	return (int32_t)(rank - atomic_load(&ck_delivered)) > 0;
}

/* Go on with ranks that came early, as long as they follow. */
static void advance(uint32_t rank)
{
	atomic_store(&ck_delivered, rank);
	for (size_t i = 0; i < all.early_count;) {
		if (all.early[i] != atomic_load(&ck_delivered) + 1) {
			i++;
			continue;
		}
		atomic_store(&ck_delivered, all.early[i]);
		all.early[i] = all.early[--all.early_count];
		i = 0;
	}
	pthread_cond_broadcast(&all.changed);
}

static void wait_a_while(void)
{
	struct timespec until = ck_until(CLOCK_REALTIME, LOOK_MS * CK_NS_PER_MS);
	int cancel = ck_cancel_disable();

	pthread_cond_timedwait(&all.changed, &all.lock, &until);
	ck_cancel_restore(cancel);
}

static void note_rank(uint32_t rank)
{
	while (all.early_count == EARLY && rank != atomic_load(&ck_delivered) + 1 &&
	       ck_client.state == CK_STATE_READY)
		wait_a_while();
	if (rank == atomic_load(&ck_delivered) + 1)
		advance(rank);
	else if (all.early_count < EARLY)
		all.early[all.early_count++] = rank;
}

CUresult ck_delivery_wait(uint32_t rank)
{
	unsigned int looks = 0;
	bool missing;

	pthread_mutex_lock(&all.lock);
	while ((missing = is_beyond(rank)) && ck_client.state == CK_STATE_READY) {
		wait_a_while();
		if (++looks % LOOKS_A_SECOND == 0)
			ck_quiet();
	}
	pthread_mutex_unlock(&all.lock);
	return missing ? CUDA_ERROR_DEVICE_UNAVAILABLE : CUDA_SUCCESS;
}

/* --- receiving */

void *ck_delivery_place(void *closure, const void *results, size_t size)
{
	const ck_delivery_next_res *res = results;
	struct ck_arrival *arrival = closure;
	struct ck_copy *c;
	void *to = NULL;

	if (res->number == 0 && size == 0)	/* nothing has come for a while */
		return closure;
	arrival->news = res->number & CK_DELIVERY_NEWS && res->span == 0 && size == 0;
	if (arrival->news)
		return closure;
	pthread_mutex_lock(&all.lock);
	c = all.copies ? ck_map_find(all.copies, &res->number, sizeof(res->number)) : NULL;
	if (c && res->span > 0 && res->span <= c->left && res->offset <= c->size &&
	    res->span <= c->size - res->offset && size <= res->span) {
		arrival->copy = c;
		c->busy++;
		to = c->to ? c->to + res->offset : (arrival->scratch = malloc(size + 1));
	}
	pthread_mutex_unlock(&all.lock);
	return to;
}

static void arrived(const struct ck_arrival *arrival, const ck_delivery_next_res *res)
{
	struct ck_copy *c = arrival->copy;

	free(arrival->scratch);
	pthread_mutex_lock(&all.lock);
	c->busy--;
	c->left -= res->span;
	if (c->left == 0 && c->busy == 0) {
		ck_map_remove(all.copies, &c->number, sizeof(c->number));
		atomic_fetch_sub(&ck_delivery_count, 1);
		free(c);
	}
	note_rank(res->rank);
	pthread_cond_broadcast(&all.changed);
	pthread_mutex_unlock(&all.lock);
}

/* What was done before is here before anybody sees that it is done. */
static void told(const ck_delivery_next_res *res)
{
	if (ck_delivery_wait(res->rank - 1))
		return;
	ck_status_news(res->number & ~CK_DELIVERY_NEWS, res->offset);
	pthread_mutex_lock(&all.lock);
	note_rank(res->rank);
	pthread_mutex_unlock(&all.lock);
}

void ck_delivery_arrived(const void *closure, const void *results)
{
	const struct ck_arrival *arrival = closure;
	if (arrival->copy)
		arrived(arrival, results);
	if (arrival->news)
		told(results);
}

void ck_delivery_broken(const void *closure)
{
	const struct ck_arrival *arrival = closure;
	if (!arrival->copy)
		return;
	free(arrival->scratch);
	pthread_mutex_lock(&all.lock);
	arrival->copy->busy--;
	pthread_cond_broadcast(&all.changed);
	pthread_mutex_unlock(&all.lock);
}
CK_HOOK(along, delivery, ck_delivery_place, ck_delivery_arrived, ck_delivery_broken, ck_delivery_wait);
_Static_assert(sizeof(struct ck_arrival) <= CK_ALONG_CLOSURE, "a lane has no room for an arrival");

/* Without this thread no wait would end: its end is the session's. */
static void *receive(void *unused)
{
	ck_delivery_next_args args = { .milliseconds = IDLE_MS };

	(void)unused;
	for (;;) {
		struct ck_arrival arrival = { 0 };
		ck_delivery_next_res res = { 0 };

		if (ck_call_aside_bulk(CK_PROC_delivery_next, &args, &res, ck_delivery_place,
				       &arrival)) {
			ck_delivery_broken(&arrival);
			ck_session_lost("no more deliveries");
			return NULL;
		}
		ck_delivery_arrived(&arrival, &res);
	}
}

/* --- what others call */

/* False: there is no thread at all. */
static bool start_threads(unsigned int count)
{
	int cancel = ck_cancel_lock(&starting);
	bool any;

	while (threads < count && ck_thread_start_calling(receive) == 0)
		threads++;
	any = threads > 0;
	ck_cancel_unlock(&starting, cancel);
	return any;
}

bool ck_delivery_listen(void)
{
	return start_threads(1);
}

static CUresult enter_copy(void *to, size_t size, uint64_t *number)
{
	CUresult err = CUDA_ERROR_OUT_OF_MEMORY;
	struct ck_copy *c;

	if (!start_threads(size < CK_SPREAD_MIN ? 1 : ck_spread_width()))
		return CUDA_ERROR_OPERATING_SYSTEM;
	c = malloc(sizeof(*c));
	if (!c)
		return err;
	pthread_mutex_lock(&all.lock);
	if (!all.copies)
		all.copies = ck_map_create();
	*c = (struct ck_copy){
		.number = ++all.numbers | CK_DELIVERY_ALONG, .to = to, .size = size, .left = size
	};
	if (all.copies && ck_map_insert(all.copies, &c->number, sizeof(c->number), c) == 0) {
		*number = c->number;
		atomic_fetch_add(&ck_delivery_count, 1);
		err = CUDA_SUCCESS;
	}
	pthread_mutex_unlock(&all.lock);
	if (err)
		free(c);
	return err;
}

CUresult ck_delivery_copy(uint64_t ctx, uint64_t stream, void *to, CUdeviceptr src, size_t size)
{
	uint64_t number;
	CUresult err = enter_copy(to, size, &number);

	return err ? err : ck_wire_deliver(ctx, src, size, stream, number);
}

/* The first copy into the range that somebody still wants. */
static struct ck_copy *copy_into(uint64_t base, size_t size)
{
	struct ck_map_iter it = CK_MAP_ITER_INIT;

	while (all.copies && ck_map_next(all.copies, &it)) {
		struct ck_copy *c = it.value;
		uint64_t to = (uintptr_t)c->to;

		if (to && to < base + size && base < to + c->size)
			return c;
	}
	return NULL;
}

bool ck_delivery_expects(uint64_t base, size_t size)
{
	bool expects;

	if (likely(atomic_load_explicit(&ck_delivery_count, memory_order_relaxed) == 0))
		return false;
	pthread_mutex_lock(&all.lock);
	expects = copy_into(base, size) != NULL;
	pthread_mutex_unlock(&all.lock);
	return expects;
}

void ck_delivery_forget(uint64_t base, size_t size)
{
	struct ck_copy *c;

	if (likely(atomic_load_explicit(&ck_delivery_count, memory_order_relaxed) == 0))
		return;
	pthread_mutex_lock(&all.lock);
	while ((c = copy_into(base, size)) != NULL) {
		if (c->busy > 0)	/* not for long, also when the session is lost */
			wait_a_while();
		else
			c->to = NULL;
	}
	pthread_mutex_unlock(&all.lock);
}
