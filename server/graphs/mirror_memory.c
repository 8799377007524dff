/*
 * server/graphs/mirror_memory.c - the memory of mirrors, and how long launches use it; see
 * mirror_list.h.
 *
 * A graph may be destroyed while its launch still runs, and while no context is current. Unpinning
 * memory waits for the device, perhaps for a host function that itself waits for the caller. So a
 * dropped mirror is kept: for reuse once no launch uses it, or until its context ends.
 */
#include <stdlib.h>
#include <sys/mman.h>

#include "server/graphs/mirror_list.h"
#include "server/memory/pinned.h"
#include "util/util.h"

#define CK_EVENT_DISABLE_TIMING 2
#define CK_KEPT_MAX ((size_t)256 << 20) /* bytes kept for reuse */

/* --- marks */

CUresult cks_mark_make(struct cks_request *q, CUstream stream, struct cks_mark **out)
{
	struct cks_mark *mark;
	CUresult err;

	if (!ck_driver.cuEventCreate || !ck_driver.cuEventRecord || !ck_driver.cuEventQuery ||
	    !ck_driver.cuEventSynchronize || !ck_driver.cuEventDestroy_v2)
		return CUDA_ERROR_NOT_SUPPORTED;
	mark = calloc(1, sizeof(*mark));
	if (!mark)
		return CUDA_ERROR_OUT_OF_MEMORY;
	mark->users = 1;
	mark->ctx = q->ctx;
	err = ck_driver.cuEventCreate(&mark->event, CK_EVENT_DISABLE_TIMING);
	if (!err)
		err = ck_driver.cuEventRecord(mark->event, stream);
	if (err)
		cks_mark_put(mark);
	else
		*out = mark;
	return err;
}

void cks_mark_put(struct cks_mark *mark)
{
	if (!mark || --mark->users > 0)
		return;
	if (mark->event)
		ck_driver.cuEventDestroy_v2(mark->event);
	free(mark);
}

CUresult cks_mark_wait(struct cks_mirrors *ms, struct cks_mark *mark)
{
	CUevent event = mark->event;
	CUresult err;

	mark->users++;
	ck_unlock(&ms->lock);
	err = ck_driver.cuEventSynchronize(event);
	ck_lock(&ms->lock);
	mark->done = true; /* or it has failed, which is reported once */
	cks_mark_put(mark);
	return err;
}

/* --- memory */

/* Pin the memory if the driver can: otherwise it copies through its own buffer. */
static void pin_mirror(struct cks_request *q, struct cks_mirror *m)
{
	m->ctx = q->ctx;
	cks_context_find(q, q->ctx, &m->context);
	if (ck_driver.cuMemHostRegister_v2 && ck_driver.cuMemHostUnregister)
		m->pinned = ck_driver.cuMemHostRegister_v2(
				    m->host, m->room, CU_MEMHOSTREGISTER_PORTABLE) == CUDA_SUCCESS;
}

/* The driver requires a current context; any will do. The call may wait for the device. */
static void unpin_mirror(struct cks_mirror *m)
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

static struct cks_mirror *mirror_new(struct cks_request *q, size_t room)
{
	struct cks_pinned *limit = q->session->pinned;
	struct cks_mirror *m = calloc(1, sizeof(*m));

	q->session->mirrors->refused = !cks_pinned_charge(limit, room);
	if (q->session->mirrors->refused) {
		free(m);
		return NULL;
	}
	if (m)
		m->host = mmap(NULL, room, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
			       0);
	if (!m || m->host == MAP_FAILED) {
		cks_pinned_refund(limit, room);
		free(m);
		return NULL;
	}
	m->room = room;
	m->limit = limit;
	pin_mirror(q, m);
	return m;
}

void cks_mirror_free(struct cks_mirror *m)
{
	if (m->whole) {
		free(m);
		return;
	}
	if (m->mark && !m->mark->done)
		ck_driver.cuEventSynchronize(m->mark->event);
	cks_mark_put(m->mark);
	unpin_mirror(m);
	munmap(m->host, m->room);
	cks_pinned_refund(m->limit, m->room);
	free(m);
}

bool cks_mirror_leave(struct cks_mirrors *ms, struct cks_mirror *m, uint64_t ctx)
{
	struct cks_mark *mark = m->mark;
	bool pinned = m->pinned && m->ctx == ctx;
	bool busy = mark && mark->event && mark->ctx == ctx && !mark->done;

	if (!pinned && !busy) {
		if (mark && mark->event && mark->ctx == ctx) {
			ck_driver.cuEventDestroy_v2(mark->event);
			mark->event = NULL;
		}
		return false;
	}
	m->uses++;
	if (busy)
		cks_mark_wait(ms, mark);
	if (pinned) {
		ck_unlock(&ms->lock);
		unpin_mirror(m);
		ck_lock(&ms->lock);
	}
	cks_mirror_drop(ms, m, NULL);
	return true;
}

/* --- kept mirrors */

/* Has every launch finished with it? */
static bool mirror_is_idle(struct cks_mirror *m)
{
	struct cks_mark *mark = m->mark;

	if (mark && !mark->done)
		mark->done = ck_driver.cuEventQuery(mark->event) != CUDA_ERROR_NOT_READY;
	return !mark || mark->done;
}

/*
 * Empty the list at @link, and free its entries. Releases the lock meanwhile: the driver may wait
 * for functions of graphs, which need it.
 */
static void free_kept(struct cks_mirrors *ms, struct cks_mirror **link)
{
	struct cks_mirror *m = *link;

	*link = m->next;
	while (m->mark && !m->mark->done)
		cks_mark_wait(ms, m->mark);
	cks_mark_put(m->mark);
	m->mark = NULL;
	ck_unlock(&ms->lock);
	cks_mirror_free(m);
	ck_lock(&ms->lock);
}

void cks_disconnected_free(struct cks_mirrors *ms, uint64_t ctx)
{
	struct cks_mirror **link = &ms->kept, *m;

	while ((m = *link) != NULL) {
		if (ctx && m->ctx != ctx && (!m->mark || m->mark->ctx != ctx)) {
			link = &m->next;
			continue;
		}
		free_kept(ms, link);
		link = &ms->kept; /* which may have changed */
	}
}

void cks_disconnected_give(struct cks_mirrors *ms, struct cks_mirror *m)
{
	if (m->mark && m->mark->done) {
		cks_mark_put(m->mark);
		m->mark = NULL;
	}
	m->next = ms->kept;
	ms->kept = m;
}

bool cks_disconnected_trim(struct cks_mirrors *ms, bool all)
{
	struct cks_mirror **link = &ms->kept, *m;
	size_t sum = 0, most = all ? 0 : CK_KEPT_MAX;
	bool any = false;

	while ((m = *link) != NULL) {
		sum += m->room;
		if ((m->pinned && sum <= most) || !mirror_is_idle(m)) {
			link = &m->next;
			continue;
		}
		free_kept(ms, link);
		link = &ms->kept; /* which may have changed */
		sum = 0;
		any = true;
	}
	return any;
}

struct cks_mirror *cks_disconnected_take(struct cks_request *q, size_t room)
{
	struct cks_mirrors *ms = q->session->mirrors;
	struct cks_mirror *m;

	for (struct cks_mirror **link = &ms->kept; (m = *link) != NULL; link = &m->next) {
		if (m->ctx == q->ctx && m->room >= room && m->room / 2 <= room && m->pinned &&
		    mirror_is_idle(m)) {
			*link = m->next;
			return m;
		}
	}
	return mirror_new(q, room);
}
