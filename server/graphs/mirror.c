/*
 * server/graphs/mirror.c - mirrors and their owners; see mirror.h. Transfers are in mirror_serve.c.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "server/graphs/mirror_list.h"
#include "server/session/locks.h"
#include "util/util.h"

int ck_mirrors_create(struct ck_mirrors **out)
{
	struct ck_mirrors *ms = calloc(1, sizeof(*ms));

	if (!ms)
		return -ENOMEM;
	ms->lock = (struct ck_mutex)CK_MUTEX(CK_RANK_MIRRORS);
	ms->by_id = ck_map_create();
	ms->by_address = ck_ranges_create();
	ms->owners = ck_map_create();
	*out = ms;
	if (ms->by_id && ms->by_address && ms->owners)
		return 0;
	ck_mirrors_destroy(ms);
	*out = NULL;
	return -ENOMEM;
}

static void owner_free(struct ck_owner *o)
{
	free(o->uses);
	free(o);
}

void ck_mirrors_destroy(struct ck_mirrors *ms)
{
	struct ck_map_iter mirrors = CK_MAP_ITER_INIT, owners = CK_MAP_ITER_INIT;

	if (!ms)
		return;
	while (ms->by_id && ck_map_next(ms->by_id, &mirrors))
		ck_mirror_free(mirrors.value);
	ck_kept_free(ms, 0);
	while (ms->owners && ck_map_next(ms->owners, &owners))
		owner_free(owners.value);
	ck_map_destroy(ms->by_id);
	ck_map_destroy(ms->owners);
	ck_ranges_destroy(ms->by_address);
	ck_mutex_destroy(&ms->lock);
	free(ms);
}

struct ck_mirror *ck_mirror_of(struct ck_mirrors *ms, uint64_t id)
{
	return ck_map_find(ms->by_id, &id, sizeof(id));
}

struct ck_mirror *ck_mirror_at(struct ck_mirrors *ms, uint64_t address)
{
	const struct ck_range *range = ck_ranges_find(ms->by_address, address);

	return range ? range->value : NULL;
}

struct ck_owner *ck_owner_of(struct ck_mirrors *ms, uint64_t id, bool make)
{
	struct ck_owner *o = ck_map_find(ms->owners, &id, sizeof(id));

	if (o || !make)
		return o;
	o = calloc(1, sizeof(*o));
	if (o && ck_map_insert(ms->owners, &id, sizeof(id), o) < 0) {
		free(o);
		return NULL;
	}
	return o;
}

CUresult ck_mirror_make(struct ck_request *q, uint64_t id, size_t size, struct ck_mirror **out)
{
	struct ck_mirrors *ms = q->session->mirrors;
	size_t room = CK_ALIGN_UP(size, (size_t)sysconf(_SC_PAGESIZE));
	struct ck_mirror *m;

	if (id == 0 || size == 0 || size > CK_MIRROR_MAX || ck_mirror_of(ms, id))
		return CUDA_ERROR_INVALID_VALUE;
	m = ck_kept_take(q, room);
	if (!m)
		return CUDA_ERROR_OUT_OF_MEMORY;
	m->id = id;
	m->size = size;
	if (ck_map_insert(ms->by_id, &id, sizeof(id), m) < 0 ||
	    ck_ranges_insert(ms->by_address, (uintptr_t)m->host, (uintptr_t)m->host + size, m)) {
		ck_map_remove(ms->by_id, &id, sizeof(id));
		ck_mirror_free(m);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	*out = m;
	return CUDA_SUCCESS;
}

/* Drop one use; the mirror ends with its last use. Its id is then added to @gone. */
void ck_mirror_drop(struct ck_mirrors *ms, struct ck_mirror *m, struct ck_gone *gone)
{
	if (m->uses > 0 && --m->uses > 0)
		return;
	if (gone && gone->ids)
		gone->ids[gone->count++] = m->id;
	ck_map_remove(ms->by_id, &m->id, sizeof(m->id));
	ck_ranges_remove(ms->by_address, (uintptr_t)m->host, NULL);
	ck_kept_give(ms, m);
}

CUresult ck_owner_add(struct ck_owner *o, struct ck_mirror *m, CUgraphNode node)
{
	if (o->count == o->room) {
		size_t room = o->room ? 2 * o->room : 8;
		struct ck_use *more = realloc(o->uses, room * sizeof(*more));

		if (!more)
			return CUDA_ERROR_OUT_OF_MEMORY;
		o->uses = more;
		o->room = room;
	}
	o->uses[o->count++] = (struct ck_use){ m, node };
	m->uses++;
	return CUDA_SUCCESS;
}

/* Drop the uses of @o from the @first-th on. */
void ck_owner_cut(struct ck_mirrors *ms, struct ck_owner *o, size_t first, struct ck_gone *gone)
{
	for (size_t i = first; i < o->count; i++)
		ck_mirror_drop(ms, o->uses[i].mirror, gone);
	o->count = first;
}

CUresult ck_mirrors_share(struct ck_mirrors *ms, uint64_t from_id, uint64_t to_id)
{
	struct ck_owner *from, *to;
	CUresult err = CUDA_SUCCESS;

	ck_lock(&ms->lock);
	from = ck_owner_of(ms, from_id, false);
	if (from && from->count > 0 && from_id != to_id) {
		to = ck_owner_of(ms, to_id, true);
		err = to ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
		for (size_t i = 0; i < from->count && !err; i++)
			err = ck_owner_add(to, from->uses[i].mirror, NULL);
	}
	ck_unlock(&ms->lock);
	return err;
}

void ck_mirrors_owner_gone(struct ck_mirrors *ms, uint64_t id, uint64_t **ids, u_int *count)
{
	struct ck_gone gone = { 0 };
	struct ck_owner *o;

	ck_lock(&ms->lock);
	o = ck_map_remove(ms->owners, &id, sizeof(id));
	if (o) {
		gone.ids = ids ? calloc(o->count + 1, sizeof(*gone.ids)) : NULL;
		ck_owner_cut(ms, o, 0, &gone);
		owner_free(o);
	}
	ck_unlock(&ms->lock);
	if (ids) {
		*ids = gone.ids;
		*count = (u_int)gone.count;
	}
}

bool ck_mirrors_has(struct ck_mirrors *ms, uint64_t exec)
{
	const struct ck_owner *o;
	bool has;

	ck_lock(&ms->lock);
	o = ck_owner_of(ms, exec, false);
	has = o && o->count > 0;
	ck_unlock(&ms->lock);
	return has;
}

CUresult ck_mirrors_launched(struct ck_request *q, uint64_t exec, CUstream stream)
{
	struct ck_mirrors *ms = q->session->mirrors;
	struct ck_mark *mark = NULL;
	CUresult err = CUDA_SUCCESS;
	struct ck_owner *o;

	ck_lock(&ms->lock);
	o = ck_owner_of(ms, exec, false);
	if (o && o->count > 0)
		err = ck_mark_make(q, stream, &mark);
	for (size_t i = 0; mark && i < o->count; i++) {
		struct ck_mirror *m = o->uses[i].mirror;

		ck_mark_put(m->mark);
		m->mark = mark;
		mark->users++;
	}
	ck_mark_put(mark);
	ck_unlock(&ms->lock);
	return err;
}

/* The end of a launch that may still use a mirror of @o, or NULL. */
static struct ck_mark *next_mark(const struct ck_owner *o)
{
	for (size_t i = 0; i < o->count; i++) {
		struct ck_mark *mark = o->uses[i].mirror->mark;

		if (mark && !mark->done)
			return mark;
	}
	return NULL;
}

CUresult ck_mirrors_wait(struct ck_mirrors *ms, uint64_t exec)
{
	CUresult err = CUDA_SUCCESS;
	struct ck_mark *mark;
	struct ck_owner *o;

	ck_lock(&ms->lock);
	while (!err && (o = ck_owner_of(ms, exec, false)) != NULL && (mark = next_mark(o)) != NULL)
		err = ck_mark_wait(ms, mark);
	ck_unlock(&ms->lock);
	return err;
}

void ck_mirrors_drop_context(struct ck_mirrors *ms, uint64_t ctx)
{
	struct ck_map_iter mirrors = CK_MAP_ITER_INIT;

	ck_lock(&ms->lock);
	while (ck_map_next(ms->by_id, &mirrors))
		ck_mirror_leave(mirrors.value, ctx);
	ck_kept_free(ms, ctx);
	ck_unlock(&ms->lock);
}
