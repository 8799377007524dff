/*
 * client/memory/arena.c - device memory that the client lays out: see arena.h.
 */
#include "client/memory/arena.h"
#include "client/memory/pools/pool.h"
#include "client/memory/reservation.h"
#include "client/memory/state.h"
#include "client/objects/capture.h"
#include "client/link/hooks.h"
#include "client/link/session_list.h"
#include "client/wire/user_messages.h"
#include "util/log.h"
#include "util/spin.h"
#include "util/until.h"
#include "util/util.h"

CK_LOG_DEFINE("client");

#define SMALL_LEASE (16 * CK_CHUNK)	/* chunks to ask for when an allocation below one waits */
#define OFFER_NS ((uint64_t)3000000000) /* the server waits twice as long */
#define CACHED_MAX ((size_t)1 << 30)	/* free blocks that are kept for another use */
#define TRIES 64			/* others may take the returned memory */

static struct ckc_arena *get_arena(void)
{
	return &ckc_client_current()->memory->arena;
}

/* That of the session of @device, which the messages that follow go to. */
static struct ckc_arena *arena_of(CUdevice device)
{
	ckc_route(ckc_gpu_client(device));
	return get_arena();
}

/* --- heaps */

/*
 * Take the lease that the reply to hello offered. Taking it is one-way, so the client must know
 * that it is there: the server keeps it for a while, whoever else needs memory. A client that is
 * late leaves its addresses alone.
 */
static void take_offer(struct ckc_client *c, struct ckc_heap *heap, uint64_t ctx)
{
	size_t size = (size_t)c->offers.lease_size;
	uint64_t at;

	ckc_arena_watch(c); /* also without an offer: it may have much later */
	if (size == 0 || size % CK_CHUNK)
		return;
	at = ckc_heap_place(heap, size, CK_CHUNK);
	if (!at || ck_now_ns() - c->offered_ns >= OFFER_NS || ck_wire_lease_keep(ctx))
		return;
	ckc_heap_add(heap, at, size, CK_CHUNK);
}

/* Call with the lock held. */
static struct ckc_heap *open_heap(struct ckc_client *c, CUdevice device, uint64_t ctx)
{
	const struct ckc_gpu *gpu = ckc_gpu(device);
	size_t size = CK_ALIGN_UP(2 * (size_t)gpu->facts->memory, CK_CHUNK);
	struct ckc_heap *heap;
	uint64_t at;
	bool offered;

	if (!ckc_session_offers(c, CK_PROC_lease) || c->memory->arena.off)
		return NULL;
	at = ckc_reservation_heap(ctx, device, size, &offered);
	if (!at) {
		ck_info("no address range for device memory: the server chooses the addresses");
		return NULL;
	}
	heap = ckc_heap_create(at, at + size);
	if (heap && offered)
		take_offer(c, heap, ctx);
	return heap;
}

/* The heap of @device; NULL: it has none. Call with the lock held. */
static struct ckc_heap *heap_of(struct ckc_arena *all, CUdevice device, uint64_t ctx)
{
	struct ckc_arena_device *d;

	if (device < 0 || device >= CK_MAX_DEVICES)
		return NULL;
	d = &all->devices[device];
	if (!d->tried) {
		d->tried = true;
		d->heap = open_heap(ckc_client_current(), device, ctx);
	}
	return d->heap;
}

/* --- uses of freed memory */

/* Has a synchronise covered the use? */
static bool is_over(const struct ckc_use *use)
{
	struct ckc_context *context = use->context;

	if (!context)
		return false;
	if (use->in_stream)
		return ckc_stream_waited(context, use->stream, use->command);
	return context->synced >= use->command ||
	       (!context->client->unordered_streams && context->legacy_synced >= use->command);
}

void ckc_arena_end_uses(struct ckc_heap *heap)
{
	ckc_heap_finish(heap, is_over);
}

static bool match_any_use(const struct ckc_use *use)
{
	(void)use;
	return true;
}

void ckc_arena_end_all_uses(struct ckc_heap *heap)
{
	ckc_heap_finish(heap, match_any_use);
}

static bool is_in_living_stream(const struct ckc_use *use)
{
	return use->context && use->in_stream && ckc_stream_lives(use->stream, use->command);
}

/* Can @user's stream wait for that of @use? The driver's pools do the same. */
static bool can_follow(const struct ckc_use *use, const struct ckc_user *user)
{
	return is_in_living_stream(use) && user->in_stream && use->context == user->context;
}

/*
 * Have the server wait for @use before the commands that follow. If both are in streams, only
 * @user's stream waits. Then the smallest sufficient piece can be taken.
 */
static CUresult wait_in_order(struct ckc_heap *heap, const struct ckc_use *use,
			      const struct ckc_user *user)
{
	uint64_t ctx = user->context->object.id;
	CUresult err;

	if (can_follow(use, user))
		return ck_wire_order(ctx, use->stream, user->stream);
	err = ck_wire_lease_settle(ctx);
	if (!err)
		ckc_arena_end_all_uses(heap);
	return err;
}

/*
 * Take a piece whose use @use the server finds over; 0: it is not. A free in a stream waits for
 * nothing. cuMemFree waits natively, so its work may take a while here, but not without end.
 */
static uint64_t take_if_over(struct ckc_arena_device *d, size_t size, const struct ckc_use *use,
			     const struct ckc_user *user, bool short_of)
{
	const struct ckc_user same = {use->context, true, use->stream};
	bool alone = is_in_living_stream(use), over;
	const struct ckc_context *context = alone ? use->context : user->context;
	uint64_t time = short_of ? ckc_arena_patience() : use->in_stream ? 0 : CKC_QUIET_NS;

	over = ckc_arena_await_quiet(d, context->object.id, alone ? use->stream : 0, !alone, time);
	if (over && !alone)
		ckc_arena_end_all_uses(d->heap);
	return over ? ckc_heap_take(d->heap, size, alone ? &same : user) : 0;
}

/*
 * Take leased memory; 0: not possible. @short_of: there is no other memory, so wait for that which
 * work still uses. Call with the lock held.
 */
static uint64_t take_leased(struct ckc_arena_device *d, size_t size, const struct ckc_user *user,
			    bool short_of)
{
	struct ckc_heap *heap = d->heap;
	uint64_t at = ckc_heap_take(heap, size, user);
	struct ckc_use use;

	if (at)
		return at;
	ckc_arena_end_uses(heap);
	at = ckc_heap_take(heap, size, user);
	if (at || ckc_captures_any() || !ckc_heap_blocked(heap, size, &use))
		return at; /* a wait would end a capture */
	if (ckc_arena_may_be_held() && !(short_of && can_follow(&use, user)))
		return take_if_over(d, size, &use, user, short_of);
	if (wait_in_order(heap, &use, user))
		return 0;
	return ckc_heap_take(heap, size, NULL);
}

void ckc_arena_shed(CUdevice device, uint64_t ctx, bool wait)
{
	struct ckc_arena *all = arena_of(device);
	struct ckc_heap *heap;

	ck_lock(&all->lock);
	heap = heap_of(all, device, ctx);
	ckc_arena_await(all, &all->devices[device], NULL);
	if (heap)
		ckc_arena_return(&all->devices[device], 0, wait ? CKC_QUIET_NS : 0);
	ck_unlock(&all->lock);
}

/* Lease @size bytes in units of @unit, and take @want bytes of them. */
static CUresult lease_memory(struct ckc_arena *all, CUdevice device, size_t size, size_t unit,
			     size_t want, const struct ckc_user *user, uint64_t *at)
{
	struct ckc_arena_device *d = &all->devices[device];
	struct ckc_heap *heap = d->heap;
	bool block = unit > CK_CHUNK || unit == want;
	uint64_t place;
	CUresult err;

	ck_lock(&all->lock);
	place = ckc_heap_place(heap, size, CK_CHUNK);
	d->asking += place && !block;
	ck_unlock(&all->lock);
	if (!place)
		return CUDA_ERROR_NOT_SUPPORTED;
	err = ck_wire_lease(user->context->object.id, ckc_gpu(device)->server_ordinal, place, size,
			    unit);
	ck_lock(&all->lock);
	if (err) {
		ckc_heap_cancel_place(heap, place);
	} else if (block) {
		ckc_heap_add_block(heap, place);
		*at = place;
	} else {
		*at = ckc_heap_add(heap, place, size, CK_CHUNK) < 0
			      ? 0
			      : ckc_heap_take(heap, want, user);
		err = *at ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
	}
	d->asking -= !block;
	ck_cond_broadcast(&all->answered);
	ck_unlock(&all->lock);
	return err;
}

/*
 * The server has no room for @size bytes: take them from memory that has come meanwhile, by a lease
 * or a free of another thread. If they do not fit there, return it, so that a larger lease has
 * room; and ask other sessions to do so. @again: as much seemed to be free before, so more is
 * needed. False: there is no more. *@at is 0 if nothing was taken.
 */
static bool make_room(struct ckc_arena *all, CUdevice device, size_t size, bool again,
		      const struct ckc_user *user, uint64_t *at)
{
	struct ckc_arena_device *d = &all->devices[device];
	size_t enough = again ? SIZE_MAX : CK_ALIGN_UP(size, CK_CHUNK);
	bool any;

	ck_lock(&all->lock);
	any = ckc_arena_await(all, d, NULL);
	*at = take_leased(d, size, user, true);
	if (!*at)
		any |= ckc_arena_return_all(user->context->client);
	ck_unlock(&all->lock);
	if (*at || any || ckc_arena_press(user->context->object.id, enough))
		return true;
	ckc_user_messages_refused(user->context->client);
	return false;
}

/* Ask the server. Where memory is short, ask for no more than is needed. */
static CUresult take_more(struct ckc_arena *all, CUdevice device, size_t size,
			  const struct ckc_user *user, uint64_t *at)
{
	size_t unit = CK_ALIGN_UP(size, CK_CHUNK);
	size_t first = size < CK_CHUNK ? SMALL_LEASE : unit;
	CUresult err = lease_memory(all, device, first, unit, size, user, at);

	for (int tries = 0; err == CUDA_ERROR_OUT_OF_MEMORY && tries < TRIES; tries++) {
		if (first == unit && !make_room(all, device, size, tries > 1, user, at))
			break;
		if (*at)
			return CUDA_SUCCESS;
		first = unit;
		err = lease_memory(all, device, unit, unit, size, user, at);
	}
	/* whatever else the driver says of mapped memory: it may have memory of another kind */
	if (err && err != CUDA_ERROR_OUT_OF_MEMORY && err != CUDA_ERROR_DEVICE_UNAVAILABLE)
		err = CUDA_ERROR_NOT_SUPPORTED;
	return err;
}

/* The lease was used up. Small pieces come in numbers: have more of it for the next ones, if the
 * server gives leases in advance. */
static CUresult take_beyond(struct ckc_arena *all, CUdevice device, size_t size,
			    const struct ckc_user *user, uint64_t *at)
{
	CUresult err = take_more(all, device, size, user, at);
	struct ckc_client *c = user->context->client;

	if (err || size > SMALL_LEASE || c->offers.lease_size == 0)
		return err;
	ck_lock(&all->lock);
	ckc_arena_request_more(c, device);
	ck_unlock(&all->lock);
	return CUDA_SUCCESS;
}

CUresult ckc_arena_take(CUdevice device, size_t size, const struct ckc_user *user, uint64_t *at)
{
	struct ckc_arena *all = arena_of(device);
	struct ckc_heap *heap;

	if (size > SIZE_MAX - CK_CHUNK)
		return CUDA_ERROR_OUT_OF_MEMORY;
	*at = 0;
	ck_lock(&all->lock);
	heap = heap_of(all, device, user->context->object.id);
	if (heap) {
		all->devices[device].context = user->context->object.id;
		*at = take_leased(&all->devices[device], size, user, false);
	}
	if (*at)
		ckc_arena_request_more(user->context->client, device);
	ck_unlock(&all->lock);
	if (!heap)
		return CUDA_ERROR_NOT_SUPPORTED;
	return *at ? CUDA_SUCCESS : take_beyond(all, device, size, user, at);
}

void ckc_arena_give(const struct ckc_allocation *a, const struct ckc_user *user)
{
	struct ckc_arena *all = arena_of(a->device);
	struct ckc_use use = {
		.command = ckc_command_last(),
		.context = user->context,
		.in_stream = user->in_stream,
		.stream = user->stream,
	};
	struct ckc_heap *heap = all->devices[a->device].heap;

	if (a->pooled)
		ckc_pool_count(a, false);
	if (a->left)
		ck_wire_lease_private(0, a->base);
	if (use.command && is_over(&use))
		use.command = 0;
	ck_lock(&all->lock);
	if (ckc_heap_give(heap, a->base, a->size, &use) < 0)
		ck_warn("out of memory: freed device memory stays allocated");
	/* a free in a stream does not wait */
	while (ckc_heap_cached(heap) > CACHED_MAX && !ckc_captures_any() &&
	       (ckc_arena_return_one(heap, true) ||
		(!user->in_stream && ckc_arena_return_one(heap, false))))
		;
	ck_unlock(&all->lock);
}

/* Has the session a lease that was offered, and that no heap has taken? */
static bool has_offer(const struct ckc_client *c, unsigned int ordinal)
{
	return c->offers.lease_device == (int)ordinal && ck_now_ns() - c->offered_ns < OFFER_NS;
}

size_t ckc_arena_idle(struct ckc_client *c, unsigned int ordinal)
{
	struct ckc_arena *all = &c->memory->arena;
	bool any = false;
	size_t idle = 0;

	ck_lock(&all->lock);
	for (CUdevice i = 0; i < CK_MAX_DEVICES; i++) {
		const struct ckc_arena_device *d = &all->devices[i];

		if (!d->heap || ckc_gpu(i)->server_ordinal != (int)ordinal)
			continue;
		ckc_arena_await(all, d, NULL);
		any = true;
		idle += ckc_heap_idle(d->heap);
	}
	if (!any && has_offer(c, ordinal))
		idle = (size_t)c->offers.lease_size;
	ck_unlock(&all->lock);
	return idle;
}

/* After the end of a context, only a wait for all work ends its uses. */
static void context_ended(struct ckc_context *context)
{
	struct ckc_arena *all = &context->client->memory->arena;

	ck_lock(&all->lock);
	for (int i = 0; i < CK_MAX_DEVICES; i++) {
		struct ckc_heap *heap = all->devices[i].heap;

		if (heap)
			ckc_heap_disown(heap, context);
	}
	ck_unlock(&all->lock);
}
CK_ON_CONTEXT_END(CK_LAYER_MEMORY, context_ended);
