/*
 * server/graphs/mirror.c - mirrors and their owners; see mirror.h. Transfers are in mirror_serve.c.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "server/graphs/mirror_list.h"
#include "server/session/locks.h"
#include "util/page.h"
#include "util/util.h"

int cks_mirrors_create(struct cks_mirrors **out)
{
	struct cks_mirrors *ms = calloc(1, sizeof(*ms));

	if (!ms)
		return -ENOMEM;
	ms->lock = (struct ck_mutex)CK_MUTEX(CK_RANK_MIRRORS);
	ms->by_id = ck_map_create();
	ms->by_address = ck_ranges_create();
	ms->owners = ck_map_create();
	*out = ms;
	if (ms->by_id && ms->by_address && ms->owners)
		return 0;
	cks_mirrors_destroy(ms);
	*out = NULL;
	return -ENOMEM;
}

static void owner_free(struct cks_owner *o)
{
	free(o->uses);
	free(o);
}

void cks_mirrors_destroy(struct cks_mirrors *ms)
{
	struct ck_map_iter mirrors = CK_MAP_ITER_INIT, owners = CK_MAP_ITER_INIT;

	if (!ms)
		return;
	while (ms->by_id && ck_map_next(ms->by_id, &mirrors))
		cks_mirror_free(mirrors.value);
	ck_lock(&ms->lock);
	cks_disconnected_free(ms, 0);
	ck_unlock(&ms->lock);
	while (ms->owners && ck_map_next(ms->owners, &owners))
		owner_free(owners.value);
	ck_map_destroy(ms->by_id);
	ck_map_destroy(ms->owners);
	ck_ranges_destroy(ms->by_address);
	ck_mutex_destroy(&ms->lock);
	free(ms);
}

struct cks_mirror *cks_mirror_of(struct cks_mirrors *ms, uint64_t id)
{
	return ck_map_find(ms->by_id, &id, sizeof(id));
}

struct cks_mirror *cks_mirror_at(struct cks_mirrors *ms, uint64_t address)
{
	const struct ck_range *range = ck_ranges_find(ms->by_address, address);

	return range ? range->value : NULL;
}

struct cks_owner *cks_owner_of(struct cks_mirrors *ms, uint64_t id, bool make)
{
	struct cks_owner *o = ck_map_find(ms->owners, &id, sizeof(id));

	if (o || !make)
		return o;
	o = calloc(1, sizeof(*o));
	if (o && ck_map_insert(ms->owners, &id, sizeof(id), o) < 0) {
		free(o);
		return NULL;
	}
	return o;
}

CUresult cks_mirror_make(struct cks_request *q, uint64_t id, size_t size, struct cks_mirror **out)
{
	struct cks_mirrors *ms = q->session->mirrors;
	size_t room = CK_ALIGN_UP(size, ck_page());
	struct cks_mirror *m;

	if (id == 0 || size == 0 || size > CK_MIRROR_MAX || cks_mirror_of(ms, id))
		return CUDA_ERROR_INVALID_VALUE;
	m = cks_disconnected_take(q, room);
	if (!m)
		return CUDA_ERROR_OUT_OF_MEMORY;
	m->id = id;
	m->size = size;
	if (ck_map_insert(ms->by_id, &id, sizeof(id), m) < 0 ||
	    ck_ranges_insert(ms->by_address, (uintptr_t)m->host, (uintptr_t)m->host + size, m)) {
		ck_map_remove(ms->by_id, &id, sizeof(id));
		cks_mirror_free(m);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	*out = m;
	return CUDA_SUCCESS;
}

/* Its address leads to @whole. */
CUresult cks_mirror_make_part(struct cks_mirrors *ms, uint64_t id, size_t size,
			      struct cks_mirror *whole, uint64_t offset, struct cks_mirror **out)
{
	struct cks_mirror *m;

	if (id == 0 || size == 0 || cks_mirror_of(ms, id) || offset > whole->size ||
	    size > whole->size - offset)
		return CUDA_ERROR_INVALID_VALUE;
	m = calloc(1, sizeof(*m));
	if (!m)
		return CUDA_ERROR_OUT_OF_MEMORY;
	*m = (struct cks_mirror){
		.id = id, .host = whole->host + offset, .size = size, .whole = whole};
	if (ck_map_insert(ms->by_id, &id, sizeof(id), m) < 0) {
		free(m);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	whole->uses++;
	*out = m;
	return CUDA_SUCCESS;
}

/* Drop one use; the mirror ends with its last use. Its id is then added to @gone. */
void cks_mirror_drop(struct cks_mirrors *ms, struct cks_mirror *m, struct cks_gone *gone)
{
	struct cks_mirror *whole = m->whole;

	if (m->uses > 0 && --m->uses > 0)
		return;
	if (gone && gone->ids)
		gone->ids[gone->count++] = m->id;
	ck_map_remove(ms->by_id, &m->id, sizeof(m->id));
	if (whole) {
		free(m);
		cks_mirror_drop(ms, whole, gone);
		return;
	}
	ck_ranges_remove(ms->by_address, (uintptr_t)m->host, NULL);
	cks_disconnected_give(ms, m);
}

CUresult cks_owner_add(struct cks_owner *o, struct cks_mirror *m, CUgraphNode node)
{
	if (o->count == o->room) {
		size_t room = o->room ? 2 * o->room : 8;
		struct cks_use *more = realloc(o->uses, room * sizeof(*more));

		if (!more)
			return CUDA_ERROR_OUT_OF_MEMORY;
		o->uses = more;
		o->room = room;
	}
	o->uses[o->count++] = (struct cks_use){m, node};
	m->uses++;
	return CUDA_SUCCESS;
}

/* Drop the uses of @o from the @first-th on. */
void cks_owner_cut(struct cks_mirrors *ms, struct cks_owner *o, size_t first, struct cks_gone *gone)
{
	for (size_t i = first; i < o->count; i++)
		cks_mirror_drop(ms, o->uses[i].mirror, gone);
	o->count = first;
}

CUresult cks_mirrors_share(struct cks_mirrors *ms, uint64_t from_id, uint64_t to_id)
{
	struct cks_owner *from, *to;
	CUresult err = CUDA_SUCCESS;

	ck_lock(&ms->lock);
	from = cks_owner_of(ms, from_id, false);
	if (from && from->count > 0 && from_id != to_id) {
		to = cks_owner_of(ms, to_id, true);
		err = to ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
		for (size_t i = 0; i < from->count && !err; i++)
			err = cks_owner_add(to, from->uses[i].mirror, NULL);
	}
	ck_unlock(&ms->lock);
	return err;
}

void cks_mirrors_owner_gone(struct cks_mirrors *ms, uint64_t id, uint64_t **ids, u_int *count)
{
	struct cks_gone gone = {0};
	struct cks_owner *o;

	ck_lock(&ms->lock);
	o = ck_map_remove(ms->owners, &id, sizeof(id));
	if (o) {
		if (ids)
			gone = cks_gone_of(o);
		cks_owner_cut(ms, o, 0, &gone);
		owner_free(o);
	}
	ck_unlock(&ms->lock);
	if (ids) {
		*ids = gone.ids;
		*count = (u_int)gone.count;
	}
}

bool cks_mirrors_has(struct cks_mirrors *ms, uint64_t exec)
{
	const struct cks_owner *o;
	bool has;

	ck_lock(&ms->lock);
	o = cks_owner_of(ms, exec, false);
	has = o && o->count > 0;
	ck_unlock(&ms->lock);
	return has;
}

CUresult cks_mirrors_launched(struct cks_request *q, uint64_t exec, CUstream stream)
{
	struct cks_mirrors *ms = q->session->mirrors;
	struct cks_mark *mark = NULL;
	CUresult err = CUDA_SUCCESS;
	struct cks_owner *o;

	ck_lock(&ms->lock);
	o = cks_owner_of(ms, exec, false);
	if (o && o->count > 0)
		err = cks_mark_make(q, stream, &mark);
	for (size_t i = 0; mark && i < o->count; i++) {
		struct cks_mirror *m = cks_mirror_memory(o->uses[i].mirror);

		cks_mark_put(m->mark);
		m->mark = mark;
		mark->users++;
	}
	cks_mark_put(mark);
	ck_unlock(&ms->lock);
	return err;
}

/* The end of a launch that may still use a mirror of @o, or NULL. */
static struct cks_mark *next_mark(const struct cks_owner *o)
{
	for (size_t i = 0; i < o->count; i++) {
		struct cks_mark *mark = cks_mirror_memory(o->uses[i].mirror)->mark;

		if (mark && !mark->done)
			return mark;
	}
	return NULL;
}

CUresult cks_mirrors_wait(struct cks_mirrors *ms, uint64_t exec)
{
	CUresult err = CUDA_SUCCESS;
	struct cks_mark *mark;
	struct cks_owner *o;

	ck_lock(&ms->lock);
	while (!err && (o = cks_owner_of(ms, exec, false)) != NULL && (mark = next_mark(o)) != NULL)
		err = cks_mark_wait(ms, mark);
	ck_unlock(&ms->lock);
	return err;
}

void cks_mirrors_drop_context(struct cks_mirrors *ms, uint64_t ctx)
{
	struct ck_map_iter mirrors;
	bool released = true;

	ck_lock(&ms->lock);
	while (released) { /* the table may have changed meanwhile */
		mirrors = (struct ck_map_iter)CK_MAP_ITER_INIT;
		released = false;
		while (!released && ck_map_next(ms->by_id, &mirrors))
			released = cks_mirror_leave(ms, mirrors.value, ctx);
	}
	cks_disconnected_free(ms, ctx);
	ck_unlock(&ms->lock);
}
