/*
 * server/mirror.c - mirrors and who owns them; see mirror.h. What travels is in mirror_serve.c.
 */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "server/mirror_list.h"
#include "util/log.h"
#include "util/util.h"

CK_LOG_DEFINE("server");

#define CK_EVENT_DISABLE_TIMING 2

int ck_mirrors_create(struct ck_mirrors **out)
{
	struct ck_mirrors *ms = calloc(1, sizeof(*ms));

	if (!ms)
		return -ENOMEM;
	pthread_mutex_init(&ms->lock, NULL);
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

/* Pinned where the driver can: without that it copies through memory of its own. */
static void pin(struct ck_request *q, struct ck_mirror *m)
{
	m->ctx = q->ctx;
	ck_context_find(q, q->ctx, &m->context);
	if (ck_driver.cuMemHostRegister_v2 && ck_driver.cuMemHostUnregister)
		m->pinned = ck_driver.cuMemHostRegister_v2(
				    m->host, m->size, CU_MEMHOSTREGISTER_PORTABLE) == CUDA_SUCCESS;
}

/* Whatever context is current, if any: the driver wants one. It may wait for the device. */
static void unpin(struct ck_mirror *m)
{
	CUcontext popped;
	bool away;

	if (!m->pinned)
		return;
	away = m->context && ck_driver.cuCtxPushCurrent_v2 && ck_driver.cuCtxPopCurrent_v2 &&
	       ck_driver.cuCtxPushCurrent_v2(m->context) == CUDA_SUCCESS;
	ck_driver.cuMemHostUnregister(m->host);
	if (away)
		ck_driver.cuCtxPopCurrent_v2(&popped);
	m->pinned = false;
}

static void mirror_free(struct ck_mirror *m)
{
	unpin(m);
	munmap(m->host, m->room);
	free(m);
}

/* Free what is kept in a context; 0: in any. */
static void kept_free(struct ck_mirrors *ms, uint64_t ctx)
{
	struct ck_mirror **link = &ms->kept, *m;

	while ((m = *link) != NULL) {
		if (ctx && m->ctx != ctx) {
			link = &m->next;
			continue;
		}
		*link = m->next;
		mirror_free(m);
	}
}

/* One that is kept and not much too large, or NULL. */
static struct ck_mirror *kept_take(struct ck_mirrors *ms, uint64_t ctx, size_t room)
{
	struct ck_mirror *m;

	for (struct ck_mirror **link = &ms->kept; (m = *link) != NULL; link = &m->next) {
		if (m->ctx == ctx && m->room >= room && m->room / 2 <= room) {
			*link = m->next;
			return m;
		}
	}
	return NULL;
}

static void owner_free(struct ck_owner *o)
{
	if (o->event)
		ck_driver.cuEventDestroy_v2(o->event);
	free(o->uses);
	free(o);
}

void ck_mirrors_destroy(struct ck_mirrors *ms)
{
	struct ck_map_iter mirrors = CK_MAP_ITER_INIT, owners = CK_MAP_ITER_INIT;

	if (!ms)
		return;
	while (ms->by_id && ck_map_next(ms->by_id, &mirrors))
		mirror_free(mirrors.value);
	kept_free(ms, 0);
	while (ms->owners && ck_map_next(ms->owners, &owners))
		owner_free(owners.value);
	ck_map_destroy(ms->by_id);
	ck_map_destroy(ms->owners);
	ck_ranges_destroy(ms->by_address);
	pthread_mutex_destroy(&ms->lock);
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

static struct ck_mirror *mirror_new(struct ck_request *q, size_t room)
{
	struct ck_mirror *m = calloc(1, sizeof(*m));

	if (!m)
		return NULL;
	m->room = room;
	m->host = mmap(NULL, room, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (m->host == MAP_FAILED) {
		free(m);
		return NULL;
	}
	pin(q, m);
	return m;
}

CUresult ck_mirror_make(struct ck_request *q, uint64_t id, size_t size, struct ck_mirror **out)
{
	struct ck_mirrors *ms = q->session->mirrors;
	size_t room = CK_ALIGN_UP(size, (size_t)sysconf(_SC_PAGESIZE));
	struct ck_mirror *m;

	if (id == 0 || size == 0 || size > CK_MIRROR_MAX || ck_mirror_of(ms, id))
		return CUDA_ERROR_INVALID_VALUE;
	m = kept_take(ms, q->ctx, room);
	if (!m)
		m = mirror_new(q, room);
	if (!m)
		return CUDA_ERROR_OUT_OF_MEMORY;
	m->id = id;
	m->size = size;
	if (ck_map_insert(ms->by_id, &id, sizeof(id), m) < 0 ||
	    ck_ranges_insert(ms->by_address, (uintptr_t)m->host, (uintptr_t)m->host + size, m)) {
		ck_map_remove(ms->by_id, &id, sizeof(id));
		mirror_free(m);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	*out = m;
	return CUDA_SUCCESS;
}

/*
 * The mirror goes with its last use; its id is then added to @gone. Pinned memory is kept for the
 * next one, until its context goes: to unpin it is to wait for the device, for which a graph's end
 * does not.
 */
void ck_mirror_drop(struct ck_mirrors *ms, struct ck_mirror *m, struct ck_gone *gone)
{
	if (m->uses > 0 && --m->uses > 0)
		return;
	if (gone && gone->ids)
		gone->ids[gone->count++] = m->id;
	ck_map_remove(ms->by_id, &m->id, sizeof(m->id));
	ck_ranges_remove(ms->by_address, (uintptr_t)m->host, NULL);
	if (!m->pinned) {
		mirror_free(m);
		return;
	}
	m->next = ms->kept;
	ms->kept = m;
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

/* The uses of @o from the @first-th on are given up. */
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

	pthread_mutex_lock(&ms->lock);
	from = ck_owner_of(ms, from_id, false);
	if (from && from->count > 0 && from_id != to_id) {
		to = ck_owner_of(ms, to_id, true);
		err = to ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
		for (size_t i = 0; i < from->count && !err; i++)
			err = ck_owner_add(to, from->uses[i].mirror, NULL);
	}
	pthread_mutex_unlock(&ms->lock);
	return err;
}

void ck_mirrors_owner_gone(struct ck_mirrors *ms, uint64_t id, uint64_t **ids, u_int *count)
{
	struct ck_gone gone = { 0 };
	struct ck_owner *o;

	pthread_mutex_lock(&ms->lock);
	o = ck_map_remove(ms->owners, &id, sizeof(id));
	if (o) {
		gone.ids = ids ? calloc(o->count + 1, sizeof(*gone.ids)) : NULL;
		ck_owner_cut(ms, o, 0, &gone);
		owner_free(o);
	}
	pthread_mutex_unlock(&ms->lock);
	if (ids) {
		*ids = gone.ids;
		*count = (u_int)gone.count;
	}
}

bool ck_mirrors_has(struct ck_mirrors *ms, uint64_t exec)
{
	const struct ck_owner *o;
	bool has;

	pthread_mutex_lock(&ms->lock);
	o = ck_owner_of(ms, exec, false);
	has = o && o->count > 0;
	pthread_mutex_unlock(&ms->lock);
	return has;
}

/* An event in the context of the launch: another context needs another event. */
static CUresult event_prepare(struct ck_owner *o, uint64_t ctx)
{
	if (o->event && o->ctx != ctx) {
		ck_driver.cuEventDestroy_v2(o->event);
		o->event = NULL;
	}
	o->ctx = ctx;
	if (o->event)
		return CUDA_SUCCESS;
	if (!ck_driver.cuEventCreate || !ck_driver.cuEventRecord ||
	    !ck_driver.cuEventSynchronize || !ck_driver.cuEventDestroy_v2)
		return CUDA_ERROR_NOT_SUPPORTED;
	return ck_driver.cuEventCreate(&o->event, CK_EVENT_DISABLE_TIMING);
}

CUresult ck_mirrors_launched(struct ck_request *q, uint64_t exec, CUstream stream)
{
	struct ck_mirrors *ms = q->session->mirrors;
	CUresult err = CUDA_SUCCESS;
	struct ck_owner *o;

	pthread_mutex_lock(&ms->lock);
	o = ck_owner_of(ms, exec, false);
	if (o && o->count > 0) {
		err = event_prepare(o, q->ctx);
		if (!err)
			err = ck_driver.cuEventRecord(o->event, stream);
		o->pending = !err;
	}
	pthread_mutex_unlock(&ms->lock);
	return err;
}

/* Has @o a mirror that @other uses? */
static bool shares(const struct ck_owner *o, const struct ck_owner *other)
{
	for (size_t i = 0; i < o->count; i++) {
		for (size_t j = 0; j < other->count; j++) {
			if (o->uses[i].mirror == other->uses[j].mirror)
				return true;
		}
	}
	return false;
}

/* An owner whose launch may still use a mirror of @o; its event is then in *@event. */
static bool next_pending(struct ck_mirrors *ms, const struct ck_owner *o, CUevent *event)
{
	struct ck_map_iter it = CK_MAP_ITER_INIT;

	while (ck_map_next(ms->owners, &it)) {
		struct ck_owner *other = it.value;

		if (other->pending && (other == o || shares(o, other))) {
			other->pending = false;
			*event = other->event;
			return true;
		}
	}
	return false;
}

/*
 * Launches of other execs count that use the same mirrors. The driver is asked without the lock: a
 * host function of the very launch may need it. One waiting thread is enough for each launch: the
 * client's threads take turns in launching what has mirrors.
 */
CUresult ck_mirrors_wait(struct ck_mirrors *ms, uint64_t exec)
{
	CUresult err = CUDA_SUCCESS;
	struct ck_owner *o;
	CUevent event;

	pthread_mutex_lock(&ms->lock);
	while ((o = ck_owner_of(ms, exec, false)) != NULL && !err && next_pending(ms, o, &event)) {
		pthread_mutex_unlock(&ms->lock);
		err = ck_driver.cuEventSynchronize(event);
		pthread_mutex_lock(&ms->lock);
	}
	pthread_mutex_unlock(&ms->lock);
	return err;
}

void ck_mirrors_drop_context(struct ck_mirrors *ms, uint64_t ctx)
{
	struct ck_map_iter it = CK_MAP_ITER_INIT, mirrors = CK_MAP_ITER_INIT;

	pthread_mutex_lock(&ms->lock);
	while (ck_map_next(ms->owners, &it)) {
		struct ck_owner *o = it.value;

		if (o->event && o->ctx == ctx) {
			if (o->pending)
				ck_driver.cuEventSynchronize(o->event);
			ck_driver.cuEventDestroy_v2(o->event);
			o->event = NULL;
			o->pending = false;
		}
	}
	while (ck_map_next(ms->by_id, &mirrors)) {
		struct ck_mirror *m = mirrors.value;

		if (m->ctx == ctx)
			unpin(m);
	}
	kept_free(ms, ctx);
	pthread_mutex_unlock(&ms->lock);
}
