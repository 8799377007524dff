/*
 * client/memory/pools/host_pool.c - memory pools whose location is the host; see host_pool.h.
 *
 * A piece has the same size for all requests that round up to it, so freed pieces fit later
 * requests. The lock guards the kept pieces and the sums of the pools. Pieces end without it,
 * because their end takes the locks of their pages.
 */
#include <stdlib.h>

#include "client/link/hooks.h"
#include "client/link/session_list.h"
#include "client/managed/window.h"
#include "client/memory/pinned.h"
#include "client/memory/pools/host_pool.h"
#include "util/util.h"

#define FLAGS (CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP)

/* A freed piece, which work may still use. */
struct ckc_kept_piece {
	struct ckc_kept_piece *next;
	struct ckc_allocation a;
	struct ckc_use use;
};

/* The pool of a piece; NULL: it was destroyed, and its memory outlives it. */
static struct ckc_pool *pool_of(const struct ckc_allocation *a)
{
	return ckc_object_by_id(CK_OBJECT_POOL, a->pool);
}

/* --- pieces */

/* At most an eighth of a piece is not used. */
static size_t size_piece(size_t size)
{
	size_t unit = CK_PAGE;

	while (unit < size / 8)
		unit *= 2;
	return CK_ALIGN_UP(size, unit);
}

/* The pool uses so many bytes more, or less, and reserves so many. Call with the lock held. */
static void count(struct ckc_pool *pool, int64_t used, int64_t reserved)
{
	if (!pool)
		return;
	pool->use.used += (uint64_t)used;
	pool->use.reserved += (uint64_t)reserved;
	ck_atomic_lift(&pool->use.used_high, atomic_load(&pool->use.used));
	ck_atomic_lift(&pool->use.reserved_high, atomic_load(&pool->use.reserved));
}

static void count_locked(struct ckc_pool *pool, int64_t used, int64_t reserved)
{
	struct ckc_host_pools *all = ckc_host_pools_current();

	ck_lock(&all->lock);
	count(pool, used, reserved);
	ck_unlock(&all->lock);
}

static void dispose_piece(const struct ckc_allocation *a)
{
	struct ckc_allocation piece = *a;

	piece.size = size_piece(a->size);
	ckc_hostmem_dispose(&piece);
}

/* Has a synchronise covered the use, and all that the stream had to follow? */
static bool is_over(const struct ckc_use *use)
{
	if (!use->in_stream)
		return use->context->synced >= use->command;
	return ckc_stream_waited(use->context, use->stream, use->command) &&
	       !ckc_stream_follows(use->context, use->stream, use->command);
}

/* Does @user follow the use, without a wait? */
static bool is_followed(const struct ckc_use *use, const struct ckc_user *user)
{
	return use->in_stream && use->context == user->context && use->stream == user->stream &&
	       ckc_stream_lives(use->stream, use->command);
}

static void dispose_list(struct ckc_kept_piece *list)
{
	while (list) {
		struct ckc_kept_piece *next = list->next;

		dispose_piece(&list->a);
		free(list);
		list = next;
	}
}

void ckc_host_pool_trim(const struct ckc_pool *pool, uint64_t keep)
{
	struct ckc_host_pools *all = ckc_host_pools_current();
	struct ckc_kept_piece **link = &all->kept, *gone = NULL, *k;

	ck_lock(&all->lock);
	while ((k = *link) != NULL) {
		struct ckc_pool *of = pool_of(&k->a);
		uint64_t most = !of ? 0 : of == pool ? keep : of->use.threshold;

		if ((of && of->use.reserved <= most) || !is_over(&k->use)) {
			link = &k->next;
			continue;
		}
		*link = k->next;
		count(of, 0, -(int64_t)size_piece(k->a.size));
		k->next = gone;
		gone = k;
	}
	ck_unlock(&all->lock);
	dispose_list(gone);
}

/* Take a kept piece of @size bytes; false: there is none that @user can have without a wait. */
static bool take_kept(struct ckc_pool *pool, size_t size, const struct ckc_user *user,
		      struct ckc_allocation *a)
{
	struct ckc_host_pools *all = ckc_host_pools_current();
	struct ckc_kept_piece **link, *k;

	ck_lock(&all->lock);
	for (link = &all->kept; (k = *link) != NULL; link = &k->next) {
		if (k->a.pool == pool->object.id && k->a.context == user->context &&
		    size_piece(k->a.size) == size &&
		    (is_followed(&k->use, user) || is_over(&k->use)))
			break;
	}
	if (k) {
		*link = k->next;
		*a = k->a;
		count(pool, (int64_t)size, 0);
	}
	ck_unlock(&all->lock);
	free(k);
	return k != NULL;
}

/* Make a piece of a->size bytes. */
static CUresult make_piece(struct ckc_pool *pool, struct ckc_allocation *a)
{
	struct ckc_host_pools *all = ckc_host_pools_current();
	int64_t size = (int64_t)a->size;
	CUresult err;
	bool fits;

	if (!ckc_pinned_open() && ckc_window_open())
		return CUDA_ERROR_NOT_SUPPORTED; /* no addresses at which kernels could use it */
	ck_lock(&all->lock);
	fits = a->size <= pool->most && pool->use.reserved <= pool->most - a->size;
	if (fits)
		count(pool, size, size);
	ck_unlock(&all->lock);
	if (!fits)
		return CUDA_ERROR_OUT_OF_MEMORY;
	err = ckc_hostmem_obtain(a);
	if (err)
		count_locked(pool, -size, -size);
	return err;
}

/* The same; in want of memory, pieces whose use is over, or that a wait can end, make room. */
static CUresult make_room_and_piece(struct ckc_pool *pool, struct ckc_allocation *a)
{
	CUresult err = make_piece(pool, a);

	for (int wait = 0; wait < 2 && err == CUDA_ERROR_OUT_OF_MEMORY; wait++) {
		if (wait && ckc_hostmem_await(a->context))
			break;
		ckc_host_pool_trim(pool, 0);
		err = make_piece(pool, a);
	}
	return err;
}

CUresult ckc_host_pool_take(struct ckc_pool *pool, size_t size, const struct ckc_user *user,
			    CUdeviceptr *at)
{
	struct ckc_allocation a = {.kind = CK_MEMORY_HOST_ALLOC,
				   .context = user->context,
				   .device = user->context->device,
				   .flags = FLAGS,
				   .pooled = true,
				   .pool = pool->object.id};
	CUresult err = CUDA_SUCCESS;

	if (size > INT64_MAX / 2)
		return CUDA_ERROR_OUT_OF_MEMORY;
	ckc_route(user->context->client);
	if (!take_kept(pool, size_piece(size), user, &a)) {
		a.size = size_piece(size);
		err = make_room_and_piece(pool, &a);
	}
	ckc_host_pool_trim(NULL, 0);
	if (err)
		return err;
	a.size = size;
	err = ckc_allocation_note(&a);
	if (err)
		ckc_host_pool_end(&a);
	else
		*at = a.base;
	return err;
}

CUresult ckc_host_pool_free(CUdeviceptr at, struct ckc_context *home, struct ckc_stream *s)
{
	struct ckc_host_pools *all;
	struct ckc_kept_piece *k = malloc(sizeof(*k));

	if (!k)
		return CUDA_ERROR_OUT_OF_MEMORY;
	if (!ckc_allocation_remove(at, CK_MEMORY_HOST_ALLOC, &k->a)) {
		free(k);
		return CUDA_ERROR_INVALID_VALUE;
	}
	ckc_route(k->a.context->client);
	all = ckc_host_pools_current();
	k->use = (struct ckc_use){.command = ckc_command_last(), .context = k->a.context};
	if (home && likely(home->client == k->a.context->client)) {
		k->use.context = home;
		k->use.in_stream = true;
		k->use.stream = s ? s->object.id : 0;
	}
	ck_lock(&all->lock);
	count(pool_of(&k->a), -(int64_t)size_piece(k->a.size), 0);
	k->next = all->kept;
	all->kept = k;
	ck_unlock(&all->lock);
	ckc_host_pool_trim(NULL, 0);
	return CUDA_SUCCESS;
}

void ckc_host_pool_end(const struct ckc_allocation *a)
{
	int64_t size = (int64_t)size_piece(a->size);

	ckc_route(a->context->client);
	count_locked(pool_of(a), -size, -size);
	dispose_piece(a);
}

/* Pinned memory ends with its context; memory that another one's stream has used, when all work is
 * over. */
static void context_ended(struct ckc_context *context)
{
	struct ckc_host_pools *all = &context->client->memory->host_pools;
	struct ckc_kept_piece **link = &all->kept, *gone = NULL, *k;

	ck_lock(&all->lock);
	while ((k = *link) != NULL) {
		if (k->a.context == context) {
			*link = k->next;
			count(pool_of(&k->a), 0, -(int64_t)size_piece(k->a.size));
			k->next = gone;
			gone = k;
			continue;
		}
		if (k->use.context == context)
			k->use = (struct ckc_use){.command = ckc_command_last(),
						  .context = k->a.context};
		link = &k->next;
	}
	ck_unlock(&all->lock);
	dispose_list(gone);
}
CK_ON_CONTEXT_END(CK_LAYER_MEMORY, context_ended);
