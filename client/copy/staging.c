/*
 * client/copy/staging.c - see client/copy/staging.h.
 *
 * One copy at a time uses a window. Copies between a window and the device are one-way messages. A
 * window may be reused when a synchronise has covered the last of them; the same or a later call of
 * the program waits for that anyway. Until then, other copies take another window, or none.
 *
 * Windows are small, so that they stay in a processor's cache: copying into uncached memory takes
 * twice as long (H200 host). Registering one costs the worker 1.5 ms, so a program gets windows
 * only after it has copied much.
 */
#include <string.h>

#include "client/copy/staging.h"
#include "client/copy/state.h"
#include "client/memory/pinned.h"
#include "client/link/hooks.h"
#include "rpc/pinned.h"

#define WINDOW ((size_t)2 << 20)
#define PIECE ((size_t)256 << 10)   /* a piece of an upload */
#define DOWN_MIN ((size_t)16 << 10) /* a smaller download comes with the reply */
#define HALF (WINDOW / 2)	    /* a download fills one half while the other is emptied */
#define EARNED ((size_t)16 << 20)   /* copied bytes per window */

static uint64_t stream_id(const struct ckc_staged *c)
{
	return c->stream ? c->stream->object.id : 0;
}

/* Make a window in a free slot, if the program has earned one more. Call with the lock held. */
static bool make_window(struct ckc_stages *all, struct ckc_staging *w, unsigned int count,
			const struct ckc_staged *c)
{
	if (!w || all->refused || all->copied / EARNED <= count)
		return false;
	all->refused =
		!ckc_pinned_open() || ckc_pinned_take(c->ctx->object.id, WINDOW, &w->address);
	if (all->refused)
		return false;
	w->ctx = c->ctx;
	w->stream = w->used = 0;
	return true;
}

/* Take a window for a copy of at least @least bytes; NULL: none is free, or the copy is too
 * small. */
static struct ckc_staging *acquire_window(const struct ckc_staged *c, size_t least)
{
	struct ckc_stages *all = &c->ctx->client->copying->stages;
	struct ckc_staging *found = NULL, *empty = NULL;
	unsigned int count = 0;

	if (!c->ctx->client->passes_fds || c->size < least)
		return NULL;
	all->copied += c->size;
	ck_lock(&all->lock);
	for (struct ckc_staging *w = all->windows; w < all->windows + CK_STAGES && !found; w++) {
		count += w->ctx != NULL;
		if (!w->ctx && !w->taken)
			empty = w;
		else if (!w->taken && w->ctx == c->ctx &&
			 ckc_stream_waited(w->ctx, w->stream, w->used))
			found = w;
	}
	if (!found && make_window(all, empty, count, c))
		found = empty;
	if (found)
		found->taken = true;
	ck_unlock(&all->lock);
	return found;
}

static void release_window(struct ckc_staging *w, const struct ckc_staged *c)
{
	struct ckc_stages *all = &c->ctx->client->copying->stages;

	ck_lock(&all->lock);
	w->stream = stream_id(c);
	w->used = ckc_command_last();
	w->taken = false;
	ck_unlock(&all->lock);
}

static CUresult enqueue_piece(const struct ckc_staged *c, size_t at, uint64_t window, size_t size,
			      bool up)
{
	return ck_wire_pinned_copy(c->ctx->object.id, up ? c->device + at : window,
				   up ? window : c->device + at, size, stream_id(c),
				   up ? CK_PINNED_TO_DEVICE : CK_PINNED_TO_HOST);
}

static CUresult upload_by_window(const struct ckc_staged *c, const struct ckc_staging *w)
{
	CUresult err = CUDA_SUCCESS;

	for (size_t at = 0, n; at < c->size && !err; at += n) {
		uint64_t slot = w->address + at % WINDOW;

		n = ck_min(PIECE, c->size - at);
		if (at > 0 && at % WINDOW == 0)
			err = ckc_stream_wait(c->ctx, c->stream); /* then the window is free */
		if (err)
			break;
		memcpy((void *)(uintptr_t)slot, (char *)c->host + at, n);
		err = enqueue_piece(c, at, slot, n, true);
	}
	return err;
}

bool ckc_staging_upload(const struct ckc_staged *c, CUresult *err)
{
	struct ckc_staging *w =
		c->size <= WINDOW || c->waits ? acquire_window(c, CK_STAGE_MIN) : NULL;

	if (!w)
		return false;
	*err = upload_by_window(c, w);
	release_window(w, c);
	return true;
}

/* The size of the piece at @at. A small copy is split into halves, so that both halves are moved at
 * the same time. */
static size_t next_piece(const struct ckc_staged *c, size_t at)
{
	size_t half = CK_ALIGN_UP(c->size / 2, PIECE);

	return ck_min(ck_min(half, HALF), c->size - at);
}

static CUresult download_by_window(const struct ckc_staged *c, const struct ckc_staging *w)
{
	uint64_t now = w->address, other = w->address + HALF;
	size_t at = 0, n = next_piece(c, 0);
	CUresult err = enqueue_piece(c, 0, now, n, false);

	while (n > 0 && !err) {
		size_t more = next_piece(c, at + n);
		uint64_t full = now;

		err = ckc_stream_wait(c->ctx, c->stream);
		if (!err && more > 0)
			err = enqueue_piece(c, at + n, other, more, false);
		if (err)
			break;
		memcpy((char *)c->host + at, (void *)(uintptr_t)full, n);
		now = other;
		other = full;
		at += n;
		n = more;
	}
	return err;
}

/* Fetch one piece in the legacy stream and wait: the driver has a faster path for that. */
static CUresult fetch_piece(const struct ckc_staged *c, const struct ckc_staging *w)
{
	CUresult err = ck_wire_pinned_move(c->ctx->object.id, w->address, c->device, c->size,
					   CK_PINNED_TO_HOST);

	if (!err)
		memcpy(c->host, (void *)(uintptr_t)w->address, c->size);
	return err;
}

bool ckc_staging_download(const struct ckc_staged *c, CUresult *err)
{
	struct ckc_staging *w = acquire_window(c, DOWN_MIN);

	if (!w)
		return false;
	*err = c->size <= PIECE && !c->stream ? fetch_piece(c, w) : download_by_window(c, w);
	release_window(w, c);
	return true;
}

static void stream_ended(const struct ckc_stream *stream)
{
	struct ckc_stages *all = &stream->object.context->client->copying->stages;

	ck_lock(&all->lock);
	for (struct ckc_staging *w = all->windows; w < all->windows + CK_STAGES; w++) {
		if (!w->taken && w->ctx == stream->object.context &&
		    w->stream == stream->object.id && ckc_stream_waited(w->ctx, w->stream, w->used))
			w->used = 0;
	}
	ck_unlock(&all->lock);
}
CK_ON_STREAM_END(stream_ended);

static void context_ended(struct ckc_context *context)
{
	struct ckc_stages *all = &context->client->copying->stages;

	ck_lock(&all->lock);
	for (struct ckc_staging *w = all->windows; w < all->windows + CK_STAGES; w++) {
		if (w->ctx != context)
			continue;
		if (!w->taken) /* otherwise its user sees an error, and the memory stays */
			ckc_pinned_give(context->object.id, w->address, WINDOW);
		w->ctx = NULL;
	}
	all->refused = false; /* it may work in another context */
	ck_unlock(&all->lock);
}
CK_ON_CONTEXT_END(CK_LAYER_COPY, context_ended);
