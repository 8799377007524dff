/*
 * server/evacuation/changes.c - sessions that are saved repeatedly: changes on the GPU since the
 * last copy; see evacuation.h.
 *
 * Memory keeps its place in the pool, which keeps its content. Each copy begins with hashes of the
 * device memory, so that only stale slots are copied. Rounds do that while the program runs, so
 * that little is left when it has to stop.
 */
#include <stdlib.h>
#include <string.h>

#include "cricket.h"
#include "server/evacuation/evacuation_part.h"
#include "server/memory/lease.h"
#include "server/session/session.h"
#include "util/log.h"
#include "util/until.h"
#include "util/util.h"

CK_LOG_DEFINE("server");

#define SLOT CKS_HASHED_PIECE
#define BATCH ((size_t)256 << 20) /* of a round: no lease ends meanwhile */
#define STEP ((size_t)1 << 30)	  /* of the pool's growth: no context ends meanwhile */

/* --- places in the pool */

/* Those that fit into @room bytes, one behind the other. */
static void place_anew(struct cks_evacuation *e, uint64_t room)
{
	size_t kept = 0, end = 0;

	for (size_t i = 0; i < e->count; i++) {
		if (e->list[i].size > room - end)
			continue;
		e->list[kept] = e->list[i];
		e->list[kept].offset = end;
		end = ck_min((uint64_t)CK_ALIGN_UP(end + e->list[kept++].size, SLOT), room);
	}
	e->count = kept;
	e->extent = end;
}

/* Where it was; SIZE_MAX: it is new. @next: in the list of places, which has the same order. */
static size_t find_place(const struct cks_evacuation *e, const struct cks_evacuated *p,
			 size_t *next)
{
	while (*next < e->place_count && e->places[*next].at < p->at)
		++*next;
	if (*next == e->place_count || e->places[*next].at != p->at ||
	    e->places[*next].size != p->size)
		return SIZE_MAX;
	return e->places[*next].offset;
}

/* Where they were, and new ones behind. False: the pool would be too large. */
static bool place_again(struct cks_evacuation *e, uint64_t room)
{
	size_t total = 0, next = 0, end = 0;

	for (size_t i = 0; i < e->place_count; i++)
		end = ck_max(end, CK_ALIGN_UP(e->places[i].offset + e->places[i].size, SLOT));
	for (size_t i = 0; i < e->count; i++) {
		struct cks_evacuated *p = &e->list[i];

		p->offset = find_place(e, p, &next);
		if (p->offset == SIZE_MAX) {
			p->offset = end;
			end += CK_ALIGN_UP(p->size, SLOT);
		}
		total += p->size;
	}
	e->extent = end;
	return e->place_count > 0 && end <= room && end <= 2 * total;
}

static void note_places(struct cks_evacuation *e)
{
	struct cks_pool_place *places = realloc(e->places, (e->count + 1) * sizeof(*places));

	e->place_count = 0;
	if (!places)
		return;
	e->places = places;
	for (; e->place_count < e->count; e->place_count++) {
		const struct cks_evacuated *p = &e->list[e->place_count];

		places[e->place_count] =
			(struct cks_pool_place){.at = p->at, .size = p->size, .offset = p->offset};
	}
}

void cks_evacuation_place(struct cks_evacuation *e, uint64_t room, bool saves)
{
	if (!saves || !place_again(e, room))
		place_anew(e, room);
	note_places(e);
}

/* --- marks */

void cks_evacuation_mark(struct cks_evacuation *e, bool saves)
{
	e->marked = false;
	if (!saves) {
		if (e->marks)
			cks_marks_forget(e->marks);
		if (cks_host_pool_file(e->pool) >= 0) /* CRIU would write the file, too */
			cks_host_pool_release(e->pool);
		return;
	}
	if (!e->marks)
		e->marks = cks_marks_create();
	if (!e->hasher)
		e->hasher = cks_piece_hasher_create();
	if (!e->marks || !e->hasher || cks_marks_grow(e->marks, e->extent) < 0)
		return;
	if (cks_host_pool_file(e->pool) < 0)
		cks_marks_forget(e->marks); /* the pool has lost its content */
	e->marked = cks_host_pool_use_file(e->pool);
}

/* Can a kernel on @device read the piece? On memory that is mapped without access it would
 * fault. */
static bool is_hashed(const struct cks_evacuated *p, CUdevice device)
{
	return p->device == device && (p->writers | p->readers) >> device & 1;
}

/* The addresses of all whole slots of @device. Without @places: how many there are. */
static size_t list_slots(const struct cks_evacuation *e, CUdevice device, uint64_t *places)
{
	size_t count = 0;

	for (size_t i = 0; i < e->count; i++) {
		const struct cks_evacuated *p = &e->list[i];

		if (!is_hashed(p, device))
			continue;
		for (size_t done = 0; done + SLOT <= p->size; done += SLOT) {
			if (places)
				places[count] = p->at + done;
			count++;
		}
	}
	return count;
}

/* @hashes: in the order of list_slots(); NULL: there are none. */
static void set_device_marks(struct cks_evacuation *e, CUdevice device,
			     const struct cks_piece_hash *hashes)
{
	for (size_t i = 0; i < e->count; i++) {
		const struct cks_evacuated *p = &e->list[i];

		if (p->device != device)
			continue;
		for (size_t done = 0; done < p->size; done += SLOT) {
			bool hashed = done + SLOT <= p->size && is_hashed(p, device);

			cks_marks_set_device(e->marks, (p->offset + done) / SLOT,
					     hashed ? hashes : NULL);
			hashes += hashes && hashed;
		}
	}
}

void cks_evacuation_compare(struct cks_evacuation *e, CUdevice device, CUstream stream)
{
	size_t count = list_slots(e, device, NULL);
	uint64_t *places = malloc((count + 1) * sizeof(*places));
	const struct cks_piece_hash *hashes = NULL;

	set_device_marks(e, device, NULL);
	if (!places || count == 0)
		goto out;
	list_slots(e, device, places);
	if (cks_piece_hasher_run(e->hasher, stream, places, count, &e->marks->key, &hashes) == 0)
		set_device_marks(e, device, hashes);
out:
	free(places);
}

/* @size bytes from @from on have been copied to the pool. */
static void note_bytes(struct cks_evacuation *e, size_t from, size_t size, bool changing)
{
	size_t room = 0;

	for (size_t done = 0; done < size; done += room) {
		const char *bytes = cks_host_pool_at(e->pool, from + done, &room);

		if (!bytes)
			return;
		room = ck_min(room, size - done);
		cks_marks_set_copied(e->marks, from + done, room, bytes, changing);
	}
}

void cks_evacuation_note_copied(struct cks_evacuation *e, CUdevice device, size_t count,
				bool changing)
{
	for (size_t i = 0; i < count; i++) {
		const struct cks_evacuated *p = &e->list[i];
		size_t from = p->offset, end = p->offset + p->size, size;

		while (p->device == device && (size = cks_marks_next(e->marks, &from, end)) > 0) {
			note_bytes(e, from, size, changing);
			e->copied += size;
			from += size;
		}
	}
}

static const struct cks_pool_saved *describe_pool(struct cks_evacuation *e)
{
	if (!e->marked)
		return NULL;
	e->saved = (struct cks_pool_saved){.marks = (uintptr_t)e->marks->pool,
					   .count = ck_min(e->extent / SLOT, e->marks->count),
					   .key = e->marks->key,
					   .fd = cks_host_pool_file(e->pool)};
	return &e->saved;
}

const struct cks_pool_saved *cks_evacuation_saved(struct cks_session *s)
{
	return cks_evacuation_away(s) > 0 ? describe_pool(s->evacuation) : NULL;
}

/* --- rounds */

/* The list has all memory, in its places. Call with the leases' lock held. */
static bool list_places(struct cks_session *s, uint64_t room)
{
	struct cks_evacuation *e = s->evacuation;
	CUcontext context;
	size_t kept = 0;
	uint64_t id;

	if (cks_evacuation_list(s, &e->list, &e->count) < 0)
		return false;
	for (size_t i = 0; i < e->count; i++) {
		if (cks_evacuation_context(s, e->list[i].device, &id, &context))
			e->list[kept++] = e->list[i];
	}
	e->count = kept;
	cks_evacuation_place(e, room, true);
	return e->count > 0;
}

/* A step towards room in the pool for all memory, and marks. No context ends meanwhile; leases
 * may. *@more: another step is to follow. */
static bool grow_pool(struct cks_session *s, uint64_t room, bool *more)
{
	struct cks_evacuation *e = s->evacuation;
	size_t had = cks_host_pool_size(e->pool);
	CUcontext context, popped;
	uint64_t id;
	bool ok;

	*more = false;
	ck_lock(&s->contexts);
	ck_lock(&s->leases->lock);
	ok = list_places(s, room) && cks_evacuation_context(s, e->list[0].device, &id, &context) &&
	     ck_driver.cuCtxPushCurrent_v2(context) == CUDA_SUCCESS;
	ck_unlock(&s->leases->lock);
	if (ok) {
		cks_evacuation_mark(e, true);
		ck_driver.cuCtxPopCurrent_v2(&popped);
		cks_host_pool_grow(e->pool, ck_min(e->extent, had / STEP * STEP + STEP), id,
				   context);
		cks_host_pool_finish(e->pool);
		*more = cks_host_pool_size(e->pool) > had &&
			cks_host_pool_size(e->pool) < e->extent;
		ok = e->marked;
	}
	ck_unlock(&s->contexts);
	cks_evacuation_forget_list(e);
	return ok;
}

/* The first time takes long, so the program's contexts may end between two steps. */
static bool prepare_round(struct cks_session *s, uint64_t room)
{
	bool more, ok;

	do
		ok = grow_pool(s, room, &more);
	while (ok && more);
	return ok;
}

/* Leave leased pieces from *@at on in the list, as many as are one batch, and set *@at behind
 * them. */
static bool take_batch(struct cks_evacuation *e, CUdeviceptr *at)
{
	size_t size = 0, count = 0;

	for (size_t i = 0; i < e->count && size < BATCH; i++) {
		struct cks_evacuated p = e->list[i];

		if (p.at < *at || !p.leased)
			continue;
		e->list[count++] = p;
		size += p.size;
		*at = p.at + p.size;
	}
	e->count = count;
	return count > 0;
}

static bool run_batch(struct cks_session *s, uint64_t room, CUdeviceptr *at)
{
	struct cks_evacuation *e = s->evacuation;
	size_t count;
	bool more;

	ck_lock(&s->contexts); /* none ends while its stream is used */
	ck_lock(&s->leases->lock);
	more = list_places(s, room) && e->extent <= cks_host_pool_size(e->pool) &&
	       cks_marks_grow(e->marks, e->extent) == 0 && take_batch(e, at);
	count = e->count;
	if (more)
		more = cks_evacuation_copy(s, true, true, 0, &count) == CUDA_SUCCESS;
	ck_unlock(&s->leases->lock);
	ck_unlock(&s->contexts);
	cks_evacuation_forget_list(e);
	return more;
}

const struct cks_pool_saved *cks_evacuation_round(struct cks_session *s, uint64_t room)
{
	struct cks_evacuation *e = s->evacuation;
	CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
	int64_t began = ck_now_us();
	CUdeviceptr at = 0;
	bool prepared;

	if (room == 0 || !cks_evacuation_possible(e))
		return NULL;
	if (ck_driver.cuThreadExchangeStreamCaptureMode) /* no capture of the program is hurt */
		ck_driver.cuThreadExchangeStreamCaptureMode(&mode);
	e->copied = 0;
	prepared = prepare_round(s, room);
	while (prepared && run_batch(s, room, &at))
		;
	ck_debug("beside the program: %zu MiB copied in %lld us", e->copied >> 20,
		 (long long)(ck_now_us() - began));
	return prepared ? describe_pool(e) : NULL;
}
