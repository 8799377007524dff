/*
 * client/memory/arena_lease.c - the size of the session's leases: grown ahead of need, returned.
 *
 * A thread of the client asks for more memory before the lease is used up, so that the program
 * does not wait. A program that has run before gets at once about as much as it used then. Free
 * memory goes back when another session needs it, or after a while without an allocation.
 */
#include <errno.h>
#include <stdlib.h>
#include <time.h>

#include "client/memory/arena.h"
#include "client/memory/state.h"
#include "client/objects/callback.h"
#include "client/objects/capture.h"
#include "client/link/hooks.h"
#include "client/link/session_list.h"
#include "util/log.h"
#include "util/spin.h"
#include "util/until.h"
#include "util/util.h"

CK_LOG_DEFINE("client");

#define FREE_LEAST ((size_t)64 << 20)  /* a session of any size has this free, */
#define FREE_AT_REST ((size_t)8 << 20) /* and keeps this while it allocates nothing */
#define FREE_MOST ((size_t)1 << 30)
#define UNITS_MIN ((size_t)256 << 20) /* a lease of this size is in units instead of chunks */
#define SHARE 64		      /* of a device, at most this part */
#define RECALLED_SHARE 16	      /* the same for the bytes of an earlier run */
#define LEVELS 56		      /* up to 3.5 TiB */
#define PATIENCE_NS ((uint64_t)1000000000)
#define GROWTH_NS ((uint64_t)50000000) /* the server waits longer for the return of memory */
#define HOLD_NS ((uint64_t)5000000000) /* no growth: another session needs memory */
/* For work that uses freed memory, where an allocation would otherwise fail; if the program has
 * streams that wait for values, which it may be about to write; after such work has not ended. */
#define SHORT_NS ((uint64_t)60000000000)
#define HOLDS_NS ((uint64_t)5000000000)
#define HELD_NS ((uint64_t)100000000)

struct growth {
	struct ckc_client *client;
	CUdevice device;
	uint64_t at;
	size_t size, unit;
};

/* --- return */

bool ckc_arena_may_be_held(void)
{
	return ckc_command_loud() > 0 &&
	       ckc_session_offers(ckc_client_current(), CK_PROC_lease_quiet);
}

uint64_t ckc_arena_patience(void)
{
	return ckc_client_current()->memory->arena.values ? HOLDS_NS : SHORT_NS;
}

bool ckc_arena_await_quiet(struct ckc_arena_device *d, uint64_t context, uint64_t stream, bool all,
			   uint64_t time)
{
	uint64_t now = ck_now_ns(), end;
	int over = 0;

	if (time > 0 && d->held)
		time = HELD_NS;
	end = now + time;
	do {
		if (ck_wire_lease_quiet(context, stream, all, ck_min(end - now, CKC_QUIET_NS),
					&over))
			return false;
		now = ck_now_ns();
	} while (!over && now < end);
	if (time > 0)
		d->held = !over;
	return over;
}

bool ckc_arena_return_one(struct ckc_heap *heap, bool over)
{
	uint64_t at;
	size_t size;

	if (!ckc_heap_take_free(heap, over, &at, &size))
		return false;
	if (over && ckc_session_offers(ckc_client_current(), CK_PROC_lease_drop))
		ck_wire_lease_drop(0, at, size);
	else
		ck_wire_lease_end(0, at, size);
	return true;
}

static bool return_some(struct ckc_heap *heap, size_t keep, bool over)
{
	bool any = false;

	while (ckc_heap_free(heap) > keep && ckc_arena_return_one(heap, over))
		any = true;
	return any;
}

bool ckc_arena_return(struct ckc_arena_device *d, size_t keep, uint64_t time)
{
	struct ckc_heap *heap = d->heap;
	bool any;

	if (ckc_captures_any()) /* a wait would end it */
		return false;
	ckc_arena_end_uses(heap);
	any = return_some(heap, keep, true);
	if (time == 0 || ckc_heap_free(heap) <= keep || ckc_heap_idle(heap) == 0)
		return any;
	if (!ckc_arena_may_be_held())
		return return_some(heap, keep, false) || any;
	if (ckc_arena_await_quiet(d, d->context, 0, true, time))
		ckc_arena_end_all_uses(heap);
	return return_some(heap, keep, true) || any;
}

bool ckc_arena_await(struct ckc_arena *all, const struct ckc_arena_device *d,
		     const struct timespec *until)
{
	bool any = d->asking > 0;
	int err = 0;

	while (d->asking > 0 && err != ETIMEDOUT) {
		if (until)
			err = ck_cond_timedwait(&all->answered, &all->lock, until);
		else
			ck_cond_wait(&all->answered, &all->lock);
	}
	return any;
}

bool ckc_arena_return_all(struct ckc_client *c)
{
	bool any = false;

	c->offered_ns = 0; /* too late: lease_press ends the offer */
	for (int i = 0; i < CK_MAX_DEVICES; i++) {
		struct ckc_arena_device *d = &c->memory->arena.devices[i];

		any |= d->heap && ckc_arena_return(d, 0, ckc_arena_patience());
	}
	return any;
}

bool ckc_arena_press(uint64_t ctx, size_t size)
{
	int more = 0;

	return !ck_wire_lease_press(ctx, size, &more) && more;
}

/* Wait a little until all that was requested has come. */
static void await_growth(struct ckc_client *c)
{
	const struct timespec until = ck_until(GROWTH_NS);
	struct ckc_arena *all = &c->memory->arena;

	ck_lock(&all->lock);
	for (int i = 0; i < CK_MAX_DEVICES; i++)
		ckc_arena_await(all, &all->devices[i], &until);
	ck_unlock(&all->lock);
}

/* The caller may hold any lock, this one or one that a lease on its way needs: do not wait long. */
static bool return_all_soon(struct ckc_client *c)
{
	const struct timespec until = ck_until(PATIENCE_NS);
	struct ckc_arena *all = &c->memory->arena;
	bool any = false;

	if (ck_lock_until(&all->lock, &until) != 0)
		return false;
	for (int i = 0; i < CK_MAX_DEVICES; i++)
		any |= ckc_arena_await(all, &all->devices[i], &until);
	any |= ckc_arena_return_all(c);
	ck_unlock(&all->lock);
	return any;
}

/* Memory that the program has freed is free for each kind of allocation. */
static bool find_memory(struct ckc_client *c, uint64_t ctx)
{
	ckc_route(c);
	return return_all_soon(c) ||
	       (ckc_session_offers(c, CK_PROC_lease_press) && ckc_arena_press(ctx, SIZE_MAX));
}
CK_ON_SHORTAGE(find_memory);

static void release_all_free(struct ckc_client *c, size_t keep, uint64_t hold_until, uint64_t time)
{
	struct ckc_arena *all = &c->memory->arena;

	ck_lock(&all->lock);
	for (int i = 0; i < CK_MAX_DEVICES; i++) {
		struct ckc_arena_device *d = &all->devices[i];

		if (hold_until)
			d->hold_until = hold_until;
		if (d->heap)
			ckc_arena_return(d, keep, time);
	}
	ck_unlock(&all->lock);
}

/* The server runs it: another session is out of memory, or this one is about to leave the GPU and
 * must not take free memory along. */
static void handle_pressure(const struct ckc_callback *callback, int status, uint64_t value)
{
	(void)status;
	(void)value;
	release_all_free(callback->data, 0, ck_now_ns() + HOLD_NS, CKC_QUIET_NS);
	await_growth(callback->data); /* or it asks a session that has left */
	if (ckc_session_offers(callback->data, CK_PROC_lease_returned))
		ck_wire_lease_returned(0);
}

/* The program has made no call for the server's threads for a while: has it allocated anything? */
static void trim_idle_arena(struct ckc_client *c)
{
	struct ckc_arena *all = &c->memory->arena;
	uint64_t takes = all->takes;

	if (takes == all->takes_at_rest)
		release_all_free(c, FREE_AT_REST, 0, 0);
	all->takes_at_rest = takes;
}
CK_ON_REST(trim_idle_arena);

/* Have the server tell this session when another one needs memory. */
static void watch_pressure(struct ckc_client *c)
{
	const struct ckc_callback callback = {
		.run = handle_pressure,
		.data = c,
		.persistent = true,
		.ours = true,
	};
	uint64_t id;

	if (atomic_exchange(&c->memory->arena.watching, true))
		return;
	c->memory->arena.takes_at_rest = c->memory->arena.takes;
	if (ckc_callback_add(&callback, &id) == CUDA_SUCCESS)
		ck_wire_lease_watch(0, id);
}

/* A program that ends within this time need not be asked for memory: its own end returns it. */
static void *watch_later(void *client)
{
	const struct timespec time = {.tv_sec = 1};
	struct ckc_client *c = client;

	ckc_route_serve(c);
	nanosleep(&time, NULL);
	if (c->state == CK_STATE_READY)
		watch_pressure(c);
	return NULL;
}

void ckc_arena_watch(struct ckc_client *c)
{
	if (ckc_thread_start(watch_later, c) < 0)
		ck_debug("no thread: other sessions cannot have this one's free memory");
}

/* --- recall: the memory of earlier runs of the program (client/modules/answer_store.c) */

/* Four levels for each power of two, from 256 MiB on: the first lease is as large. */
static size_t bytes_of(unsigned int level)
{
	return (size_t)(4 + level % 4) << (26 + level / 4);
}

/* Have they used as much as @level? @learn: this run does. */
static bool was_used(CUdevice device, unsigned int level, bool learn)
{
	const uint64_t key[] = {CK_PROC_lease, 0, (uint64_t)ckc_gpu(device)->server_ordinal, level};
	int yes = 1;
	bool was = ckc_cache_get(key, sizeof(key), &yes, sizeof(yes));

	if (learn && !was)
		ckc_cache_put(key, sizeof(key), &yes, sizeof(yes));
	return was;
}

/* Call both with the lock held. The most that they have used; 0: less than the first level. */
static size_t recall_usage(struct ckc_arena_device *d, CUdevice device)
{
	unsigned int level = LEVELS;

	if (d->recalled)
		return d->recall_size;
	while (level > 0 && !was_used(device, level - 1, false))
		level--;
	d->recalled = true;
	d->recall_size = level > 0 ? bytes_of(level) : 0;
	return d->recall_size;
}

static void learn_use(struct ckc_arena_device *d, CUdevice device, size_t used)
{
	for (; unlikely(used >= bytes_of(d->level)) && d->level < LEVELS; d->level++)
		was_used(device, d->level, true);
}

/* --- growth */

static size_t in_use(const struct ckc_heap *heap)
{
	return ckc_heap_leased(heap) - ckc_heap_free(heap);
}

static void *grow_arena(void *data)
{
	struct growth *g = data;
	struct ckc_arena *all = &g->client->memory->arena;
	struct ckc_arena_device *d = &all->devices[g->device];
	CUresult err;
	bool held;

	ckc_route_serve(g->client);
	ckc_aside = true; /* the lease does not depend on commands */
	watch_pressure(g->client);
	ck_lock(&all->lock);
	held = ck_now_ns() < d->hold_until; /* since the thread was made */
	ck_unlock(&all->lock);
	err = held ? CUDA_ERROR_OUT_OF_MEMORY
		   : ck_wire_lease(0, ckc_gpu(g->device)->server_ordinal, g->at, g->size, g->unit);
	ck_lock(&all->lock);
	if (err) {
		ckc_heap_cancel_place(d->heap, g->at);
		d->hold_until = ck_now_ns() + HOLD_NS;
	} else {
		ckc_heap_add(d->heap, g->at, g->size, g->unit);
		if (ck_now_ns() < d->hold_until) /* another session needs memory */
			ckc_arena_return(d, 0, 0);
	}
	d->asking--;
	ck_cond_broadcast(&all->answered);
	ck_unlock(&all->lock);
	free(g);
	return NULL;
}

/* How much should be free: as much as is in use, or as will be by an earlier run, within limits.
 * Call with the lock held. */
static size_t compute_free_target(struct ckc_arena_device *d, CUdevice device)
{
	size_t used = in_use(d->heap), before = recall_usage(d, device);
	size_t memory = (size_t)ckc_gpu(device)->facts->memory;
	size_t free = ck_min(ck_max(used, FREE_LEAST), ck_min(FREE_MOST, memory / SHARE));

	return ck_max(free, before > used ? ck_min(before - used, memory / RECALLED_SHARE) : 0);
}

void ckc_arena_request_more(struct ckc_client *c, CUdevice device)
{
	struct ckc_arena *all = &c->memory->arena;
	struct ckc_arena_device *d = &all->devices[device];
	size_t idle = ckc_heap_free(d->heap), goal = compute_free_target(d, device);
	struct growth *g;

	all->takes++;
	learn_use(d, device, in_use(d->heap));
	if (likely(idle >= goal / 4 * 3 || d->asking > 0) || ck_now_ns() < d->hold_until)
		return;
	g = malloc(sizeof(*g));
	if (!g)
		return;
	*g = (struct growth){c, device, .unit = goal - idle < UNITS_MIN ? CK_CHUNK : CK_HEAP_UNIT};
	g->size = CK_ALIGN_UP(goal - idle, g->unit);
	g->at = ckc_heap_place(d->heap, g->size, g->unit);
	if (g->at && ckc_thread_start(grow_arena, g) == 0) {
		d->asking++;
		return;
	}
	if (g->at)
		ckc_heap_cancel_place(d->heap, g->at);
	free(g);
}
