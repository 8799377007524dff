/*
 * client/wire/delivery.c - see client/wire/delivery.h.
 *
 * Client threads, one at first and more for large copies, ask the server for finished copies
 * (ck_delivery_next). Each receives the bytes on its own lane, directly into their destination. The
 * server identifies a copy by the client's number, never by an address.
 */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "client/wire/delivery.h"
#include "client/link/hooks.h"
#include "client/link/lane.h"
#include "client/link/session_list.h"
#include "client/wire/status.h"
#include "client/wire/striping.h"
#include "rpc/pinned.h"
#include "rpc/proc.h"
#include "rpc/status.h"
#include "util/cancel.h"
#include "util/map.h"
#include "util/until.h"

#define IDLE_MS 10000
#define LOOK_MS 200 /* interval for checking that the session is alive */
#define LOOKS_A_SECOND (1000 / LOOK_MS)
#define LOOKED_AT 64u /* of more copies, any is taken for one into the same memory */

/* A copy with bytes outstanding. */
struct ckc_copy {
	uint64_t number;
	char *to; /* NULL: cancelled */
	size_t size, left;
	unsigned int busy; /* threads that receive a part of it */
	bool behind;	   /* an earlier copy into the same memory may not have arrived */
};

/* A part of a copy, or news, that arrives. */
struct arrival {
	struct ckc_client *client;
	struct ckc_copy *copy;
	void *scratch; /* for bytes of a cancelled copy, or a list of news */
	bool news, changes;
};

/* --- received parts; the lock is held */

static bool is_beyond(const struct ckc_client *c, uint32_t rank)
{
	return (int32_t)(rank - atomic_load(&c->lanes.delivered)) > 0;
}

/* Advance over ranks that came early, as long as they follow. */
static void advance_rank(struct ckc_client *c, uint32_t rank)
{
	struct ckc_deliveries *all = &c->deliveries;

	atomic_store(&c->lanes.delivered, rank);
	for (size_t i = 0; i < all->early_count;) {
		if (all->early[i] != atomic_load(&c->lanes.delivered) + 1) {
			i++;
			continue;
		}
		atomic_store(&c->lanes.delivered, all->early[i]);
		all->early[i] = all->early[--all->early_count];
		i = 0;
	}
	ck_cond_broadcast(&all->changed);
}

static void wait_a_while(struct ckc_deliveries *all)
{
	struct timespec until = ck_until(LOOK_MS * CK_NS_PER_MS);
	int cancel = ck_cancel_disable();

	ck_cond_timedwait(&all->changed, &all->lock, &until);
	ck_cancel_restore(cancel);
}

static void note_rank(struct ckc_client *c, uint32_t rank)
{
	struct ckc_deliveries *all = &c->deliveries;

	while (all->early_count == CK_DELIVERIES_EARLY &&
	       rank != atomic_load(&c->lanes.delivered) + 1 && c->state == CK_STATE_READY)
		wait_a_while(all);
	if (rank == atomic_load(&c->lanes.delivered) + 1)
		advance_rank(c, rank);
	else if (all->early_count < CK_DELIVERIES_EARLY)
		all->early[all->early_count++] = rank;
}

CUresult ckc_delivery_wait(struct ckc_client *c, uint32_t rank)
{
	struct ckc_deliveries *all = &c->deliveries;
	unsigned int looks = 0;
	bool missing;

	ck_lock(&all->lock);
	while ((missing = is_beyond(c, rank)) && c->state == CK_STATE_READY) {
		wait_a_while(all);
		if (++looks % LOOKS_A_SECOND == 0)
			ckc_quiet(c);
	}
	ck_unlock(&all->lock);
	return missing ? CUDA_ERROR_DEVICE_UNAVAILABLE : CUDA_SUCCESS;
}

/* --- receiving: as the list of hooks `along` says */

static bool is_news(const ck_delivery_next_res *res, size_t size)
{
	if (res->number == CK_DELIVERY_CHANGES)
		return size > 0 && size <= CK_CHANGES_MOST;
	if (res->number != CK_DELIVERY_LIST)
		return size == 0;
	return size > 0 && size % sizeof(struct ck_news) == 0 &&
	       size <= CK_NEWS_MOST * sizeof(struct ck_news);
}

static void *place_delivery(void *closure, const void *results, size_t size)
{
	const ck_delivery_next_res *res = results;
	struct arrival *arrival = closure;
	struct ckc_deliveries *all = &arrival->client->deliveries;
	struct ckc_copy *c;
	void *to = NULL;

	if (res->number == 0 && size == 0) /* the server had nothing to send for a while */
		return closure;
	arrival->news = res->number & CK_DELIVERY_NEWS && res->span == 0 && is_news(res, size);
	arrival->changes = arrival->news && res->number == CK_DELIVERY_CHANGES;
	if (arrival->news)
		return size == 0 ? closure : (arrival->scratch = malloc(size));
	ck_lock(&all->lock);
	c = all->copies ? ck_map_find(all->copies, &res->number, sizeof(res->number)) : NULL;
	if (c && res->span > 0 && res->span <= c->left && res->offset <= c->size &&
	    res->span <= c->size - res->offset && size <= res->span) {
		arrival->copy = c;
		c->busy++;
		to = c->to && !c->behind ? c->to + res->offset
					 : (arrival->scratch = malloc(size + 1));
	}
	ck_unlock(&all->lock);
	return to;
}

static void handle_arrival(const struct arrival *arrival, const ck_delivery_next_res *res)
{
	struct ckc_client *client = arrival->client;
	struct ckc_deliveries *all = &client->deliveries;
	struct ckc_copy *c = arrival->copy;

	/* busy, it is not cancelled meanwhile */
	if (c->behind && c->to && ckc_delivery_wait(client, res->rank - 1) == CUDA_SUCCESS)
		memcpy(c->to + res->offset, arrival->scratch, res->data_length);
	free(arrival->scratch);
	ck_lock(&all->lock);
	c->busy--;
	c->left -= res->span;
	if (c->left == 0 && c->busy == 0) {
		ck_map_remove(all->copies, &c->number, sizeof(c->number));
		atomic_fetch_sub(&all->count, 1);
		free(c);
	}
	note_rank(client, res->rank);
	ck_cond_broadcast(&all->changed);
	ck_unlock(&all->lock);
}

/* Lists of changes overwrite each other, and copies into the same memory: keep their order. */
static void changes_arrived(const struct arrival *arrival, const ck_delivery_next_res *res)
{
	struct ckc_client *c = arrival->client;

	if (ckc_delivery_wait(c, res->rank - 1) == CUDA_SUCCESS) {
		ckc_each_hook(changes, h) h->run(c, arrival->scratch, res->data_length);
		ck_lock(&c->deliveries.lock);
		note_rank(c, res->rank);
		ck_unlock(&c->deliveries.lock);
	}
	free(arrival->scratch);
}

/* Publish a completion only after everything ranked before it has arrived. */
static bool handle_news(struct ckc_client *c, const struct ck_news *news)
{
	uint32_t rank = (uint32_t)news->rank;

	if (ckc_delivery_wait(c, rank - 1))
		return false;
	ckc_status_news(c, news->number, news->what);
	ck_lock(&c->deliveries.lock);
	note_rank(c, rank);
	ck_unlock(&c->deliveries.lock);
	return true;
}

static void news_arrived(const struct arrival *arrival, const ck_delivery_next_res *res)
{
	const struct ck_news one = {res->number & ~CK_DELIVERY_NEWS, res->offset, res->rank};
	const struct ck_news *news = arrival->scratch ? arrival->scratch : &one;
	size_t count = arrival->scratch ? res->data_length / sizeof(*news) : 1;

	for (size_t i = 0; i < count && handle_news(arrival->client, &news[i]); i++)
		;
	free(arrival->scratch);
}

static void part_arrived(const void *closure, const void *results)
{
	const struct arrival *arrival = closure;

	if (arrival->copy)
		handle_arrival(arrival, results);
	if (arrival->changes)
		changes_arrived(arrival, results);
	else if (arrival->news)
		news_arrived(arrival, results);
}

/* The connection broke while the part was arriving: its memory is no longer written. */
static void part_broken(const void *closure)
{
	const struct arrival *arrival = closure;
	struct ckc_deliveries *all = &arrival->client->deliveries;

	free(arrival->scratch);
	if (!arrival->copy)
		return;
	ck_lock(&all->lock);
	arrival->copy->busy--;
	ck_cond_broadcast(&all->changed);
	ck_unlock(&all->lock);
}
CK_HOOK(along, delivery, place_delivery, part_arrived, part_broken, ckc_delivery_wait);
_Static_assert(sizeof(struct arrival) <= sizeof(struct ckc_along),
	       "a lane has no room for an arrival");

/* Give this thread a connection, and report the result to the thread that waits for the first
 * one. */
static bool open_lane(struct ckc_client *c)
{
	struct ckc_deliveries *all = &c->deliveries;
	bool open = ckc_lane_open(c) == 0;

	ck_lock(&all->lock);
	all->opening--;
	all->threads += open;
	ck_cond_broadcast(&all->changed);
	ck_unlock(&all->lock);
	return open;
}

/* Receive until the session ends. No wait would end without this thread, so its failure ends the
 * session. */
static void *receive_deliveries(void *client)
{
	ck_delivery_next_args args = {.milliseconds = IDLE_MS};

	ckc_route_serve(client);
	if (!open_lane(client))
		return NULL;
	for (;;) {
		struct arrival arrival = {.client = client};
		ck_delivery_next_res res = {0};

		if (ckc_call_aside_bulk(client, CK_PROC_delivery_next, &args, &res, place_delivery,
					&arrival)) {
			part_broken(&arrival);
			ckc_session_lost(client, "no more deliveries");
			return NULL;
		}
		part_arrived(&arrival, &res);
	}
}

/* --- called from other files */

/* Start threads, which connect at the same time, and wait until one of them can receive. False:
 * none can. */
static bool start_threads(struct ckc_client *c, unsigned int count)
{
	struct ckc_deliveries *all = &c->deliveries;
	int cancel = ck_lock_uncancelled(&all->starting_lock);
	bool any;

	ck_lock(&all->lock);
	while (all->threads + all->opening < count && ckc_thread_start(receive_deliveries, c) == 0)
		all->opening++;
	while (all->threads == 0 && all->opening > 0)
		ck_cond_wait(&all->changed, &all->lock);
	any = all->threads > 0;
	ck_unlock(&all->lock);
	ck_unlock_uncancelled(&all->starting_lock, cancel);
	return any;
}

bool ckc_delivery_listen(struct ckc_client *c)
{
	return start_threads(c, 1);
}

/* The first copy into the range that is not cancelled. */
static struct ckc_copy *copy_into(struct ckc_deliveries *all, uint64_t base, size_t size)
{
	struct ck_map_iter it = CK_MAP_ITER_INIT;

	while (all->copies && ck_map_next(all->copies, &it)) {
		struct ckc_copy *c = it.value;
		uint64_t to = (uintptr_t)c->to;

		if (to && to < base + size && base < to + c->size)
			return c;
	}
	return NULL;
}

static CUresult enter_copy(struct ckc_client *client, void *to, size_t size, uint64_t *number)
{
	struct ckc_deliveries *all = &client->deliveries;
	CUresult err = CUDA_ERROR_OUT_OF_MEMORY;
	struct ckc_copy *c;

	if (!start_threads(client, size < CK_STRIPING_MIN
					   ? 1
					   : ckc_striping_width(client, CK_STRIPING_DOWN)))
		return CUDA_ERROR_OPERATING_SYSTEM;
	c = malloc(sizeof(*c));
	if (!c)
		return err;
	ck_lock(&all->lock);
	if (!all->copies)
		all->copies = ck_map_create();
	*c = (struct ckc_copy){
		.number = ++all->numbers | CK_DELIVERY_ALONG,
		.to = to,
		.size = size,
		.left = size,
		.behind = all->count > LOOKED_AT || copy_into(all, (uintptr_t)to, size),
	};
	if (all->copies && ck_map_insert(all->copies, &c->number, sizeof(c->number), c) == 0) {
		*number = c->number;
		atomic_fetch_add(&all->count, 1);
		err = CUDA_SUCCESS;
	}
	ck_unlock(&all->lock);
	if (err)
		free(c);
	return err;
}

CUresult ckc_delivery_copy(struct ckc_client *c, uint64_t ctx, uint64_t stream, void *to,
			   CUdeviceptr src, size_t size)
{
	uint64_t number;
	CUresult err = enter_copy(c, to, size, &number);

	return err ? err : ck_wire_deliver(ctx, src, size, stream, number);
}

bool ckc_delivery_expects(struct ckc_client *c, uint64_t base, size_t size)
{
	struct ckc_deliveries *all = &c->deliveries;
	bool expects;

	if (likely(atomic_load_explicit(&all->count, memory_order_relaxed) == 0))
		return false;
	ck_lock(&all->lock);
	expects = copy_into(all, base, size) != NULL;
	ck_unlock(&all->lock);
	return expects;
}

void ckc_delivery_forget(struct ckc_client *client, uint64_t base, size_t size)
{
	struct ckc_deliveries *all = &client->deliveries;
	struct ckc_copy *c;

	if (likely(atomic_load_explicit(&all->count, memory_order_relaxed) == 0))
		return;
	ck_lock(&all->lock);
	while ((c = copy_into(all, base, size)) != NULL) {
		if (c->busy > 0) /* short, even if the session is lost */
			wait_a_while(all);
		else
			c->to = NULL;
	}
	ck_unlock(&all->lock);
}
