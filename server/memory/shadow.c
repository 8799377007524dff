/*
 * server/memory/shadow.c - shadowed memory; see server/memory/pinned.h.
 *
 * A program may also wait for a kernel's write by reading the memory, without any call. So a thread
 * compares too, at intervals that grow with the time since the client's last command.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "gen/handlers.h"
#include "rpc/pinned.h"
#include "server/memory/delivery.h"
#include "server/memory/pinned.h"
#include "server/session/locks.h"
#include "server/session/session.h"
#include "util/log.h"
#include "util/page.h"
#include "util/until.h"
#include "util/util.h"
#include "util/wait.h"

CK_LOG_DEFINE("server");

#ifndef MAP_FIXED_NOREPLACE
#define MAP_FIXED_NOREPLACE 0x100000
#endif

/* Behind the addresses of server/memory/window.c, so that a client reserves both at once. */
#define PLACE ((uint64_t)0x210000000000)
#define PLACE_SIZE ((uint64_t)64 << 30)
#ifdef __SANITIZE_THREAD__
#define PLACE_FREE false /* TSan permits nothing there */
#else
#define PLACE_FREE true
#endif
#define CHUNK ((size_t)64 << 10) /* bytes compared for one list, at most */
#define PAUSE_MIN_NS 2000000
#define PAUSE_MOST_NS 1000000000
#define PAUSE_SHARE 8 /* of the time since the last command */

struct shadow {
	uint64_t number, address, ctx;
	size_t size;
	unsigned char *known; /* the client's bytes */
	struct shadow *next;
};

struct cks_shadows {
	struct ck_mutex lock;
	struct ck_cond work;
	struct shadow *first;
	size_t total; /* bytes */
	_Atomic unsigned int count;
	_Atomic uint64_t compared_ns;
	pthread_t thread;
	bool running, stop;
};

/* --- addresses. Of the process, which has one session: reserved before there is one. */

static bool reserved;

/* Has registered memory the same address for the device? */
static bool addresses_agree(void)
{
	CUdevice device;
	int agree = 0;

	return ck_driver.cuDeviceGet && ck_driver.cuDeviceGetAttribute &&
	       ck_driver.cuDeviceGet(&device, 0) == CUDA_SUCCESS &&
	       ck_driver.cuDeviceGetAttribute(
		       &agree, CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM,
		       device) == CUDA_SUCCESS &&
	       agree;
}

void cks_shadows_prepare(void)
{
	void *want = (void *)(uintptr_t)PLACE, *got;

	if (reserved || !PLACE_FREE || !addresses_agree())
		return;
	got = mmap(want, PLACE_SIZE, PROT_NONE,
		   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
	reserved = got == want;
	if (got != MAP_FAILED && !reserved) /* an old kernel treats the address as a hint */
		munmap(got, PLACE_SIZE);
}

uint64_t cks_shadows_place(uint64_t *size)
{
	*size = reserved ? PLACE_SIZE : 0;
	return reserved ? PLACE : 0;
}

bool cks_shadows_reserved(uint64_t address, uint64_t size)
{
	return reserved && address >= PLACE && size <= PLACE_SIZE &&
	       address - PLACE <= PLACE_SIZE - size;
}

/* --- the table */

int cks_shadows_create(struct cks_shadows **out)
{
	struct cks_shadows *t = calloc(1, sizeof(*t));

	if (!t)
		return -ENOMEM;
	t->lock = (struct ck_mutex)CK_MUTEX(CK_RANK_SHADOWS);
	*out = t;
	return 0;
}

/* Call with the lock held, as for the next two. */
static void shadow_remove(struct cks_shadows *t, struct shadow **at)
{
	struct shadow *s = *at;

	*at = s->next;
	t->total -= s->size;
	atomic_fetch_sub(&t->count, 1);
	free(s->known);
	free(s);
}

static const struct shadow *shadow_find(const struct cks_shadows *t, uint64_t number)
{
	const struct shadow *s = t->first;

	while (s && s->number != number)
		s = s->next;
	return s;
}

void cks_shadows_drop(struct cks_shadows *t, uint64_t address)
{
	struct shadow **at = &t->first;

	if (atomic_load(&t->count) == 0)
		return;
	ck_lock(&t->lock);
	while (*at && (*at)->address != address)
		at = &(*at)->next;
	if (*at)
		shadow_remove(t, at);
	ck_unlock(&t->lock);
}

void cks_shadows_drop_context(struct cks_shadows *t, uint64_t ctx)
{
	struct shadow **at = &t->first;

	ck_lock(&t->lock);
	while (*at) {
		if ((*at)->ctx == ctx)
			shadow_remove(t, at);
		else
			at = &(*at)->next;
	}
	ck_unlock(&t->lock);
}

void cks_shadows_destroy(struct cks_shadows *t)
{
	if (!t)
		return;
	ck_lock(&t->lock);
	t->stop = true;
	ck_cond_signal(&t->work);
	ck_unlock(&t->lock);
	if (t->running)
		pthread_join(t->thread, NULL);
	while (t->first)
		shadow_remove(t, &t->first);
	ck_cond_destroy(&t->work);
	ck_mutex_destroy(&t->lock);
	free(t);
}

/* --- comparing; the lock is held */

/* Changes that are about to be delivered. */
struct changes {
	struct cks_session *session;
	unsigned char *list;
	size_t used;
	bool by_reply;
};

static void changes_send(struct changes *c)
{
	if (c->used == 0 ||
	    cks_deliveries_send_changes(c->session, c->list, c->used, c->by_reply) < 0)
		free(c->list);
	c->list = NULL;
	c->used = 0;
}

/* False: out of memory. */
static bool compare_chunk(struct changes *c, const struct shadow *s, size_t at, size_t size)
{
	const void *now = (const void *)(uintptr_t)s->address;

	if (memcmp((const char *)now + at, s->known + at, size) == 0)
		return true;
	if (c->used + CK_CHANGES_ROOM(size) > CK_CHANGES_MOST)
		changes_send(c);
	if (!c->list)
		c->list = malloc(CK_CHANGES_MOST);
	if (c->list)
		c->used += ck_changes_find(s->number, now, s->known, at, size, c->list + c->used);
	return c->list != NULL;
}

void cks_shadows_compare(struct cks_session *session, bool by_reply)
{
	struct cks_shadows *t = session->shadows;
	struct changes c = {.session = session, .by_reply = by_reply};
	bool room = true;

	if (likely(atomic_load_explicit(&t->count, memory_order_acquire) == 0))
		return;
	ck_lock(&t->lock);
	for (const struct shadow *s = t->first; s; s = s->next) {
		for (size_t at = 0; at < s->size && room; at += CHUNK)
			room = compare_chunk(&c, s, at, ck_min(s->size - at, CHUNK));
	}
	changes_send(&c);
	atomic_store(&t->compared_ns, ck_now_ns());
	ck_unlock(&t->lock);
	if (!room)
		ck_err("no memory for changes of pinned memory: the client gets them later");
}

/* --- the thread */

/* The time until the next comparison of this thread. */
static uint64_t pause_after(uint64_t command_ns)
{
	uint64_t since = (ck_now_ns() - command_ns) / PAUSE_SHARE;

	return ck_min(ck_max(since, (uint64_t)PAUSE_MIN_NS), (uint64_t)PAUSE_MOST_NS);
}

static void *compare_often(void *session)
{
	struct cks_session *s = session;
	struct cks_shadows *t = s->shadows;
	uint64_t executed = 0, command_ns = 0;

	ck_lock(&t->lock);
	while (!t->stop) {
		uint64_t pause = pause_after(command_ns);
		struct timespec until = ck_until(pause);

		if (atomic_load(&t->count) == 0)
			ck_cond_wait(&t->work, &t->lock);
		else
			ck_cond_timedwait(&t->work, &t->lock, &until);
		ck_unlock(&t->lock);
		if (executed != atomic_load(&s->executed)) {
			executed = atomic_load(&s->executed);
			command_ns = ck_now_ns();
		}
		if (ck_now_ns() - atomic_load(&t->compared_ns) >= pause)
			cks_shadows_compare(s, false);
		ck_lock(&t->lock);
	}
	ck_unlock(&t->lock);
	return NULL;
}

/* --- messages */

static CUresult shadow_add(struct cks_session *session, const ck_shadow_map_args *a, uint64_t ctx)
{
	struct cks_shadows *t = session->shadows;
	struct shadow *s = calloc(1, sizeof(*s));
	unsigned char *known = calloc(1, a->size);

	if (!s || !known) {
		free(s);
		free(known);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	*s = (struct shadow){
		.number = a->number, .address = a->address, .ctx = ctx, .size = a->size};
	s->known = known;
	ck_lock(&t->lock);
	s->next = t->first;
	t->first = s;
	t->total += s->size;
	atomic_fetch_add(&t->count, 1);
	if (!t->running)
		t->running = pthread_create(&t->thread, NULL, compare_often, session) == 0;
	ck_cond_signal(&t->work);
	ck_unlock(&t->lock);
	return CUDA_SUCCESS;
}

static bool is_valid(struct cks_shadows *t, const ck_shadow_map_args *a)
{
	bool valid;

	ck_lock(&t->lock);
	valid = a->size > 0 && a->size <= CK_SHADOW_MOST && a->size % ck_page() == 0 &&
		a->address % ck_page() == 0 && cks_shadows_reserved(a->address, a->size) &&
		(a->number == 0 ||
		 (a->size <= CK_SHADOWS_MOST - t->total && !shadow_find(t, a->number)));
	ck_unlock(&t->lock);
	return valid;
}

/* Memory without a number is not compared: the client fetches it. */
CUresult ck_serve_shadow_map(struct cks_request *q, ck_shadow_map_args *a, ck_shadow_map_res *res)
{
	CUresult err = CUDA_ERROR_INVALID_VALUE;

	(void)res;
	if (is_valid(q->session->shadows, a))
		err = cks_pinned_add_own(q->session->pinned, q->ctx, a->address, a->size);
	if (err || a->number == 0)
		return err;
	err = shadow_add(q->session, a, q->ctx);
	if (err)
		ck_serve_pinned_unmap(q, &(ck_pinned_unmap_args){.address = a->address}, NULL);
	return err;
}

/* The client's changes. Memory that is gone meanwhile is not an error. */
static CUresult take_changes(struct cks_shadows *t, const void *list, size_t size)
{
	struct ck_changes_run run;
	bool valid = true;
	size_t at = 0;

	ck_lock(&t->lock);
	while (valid && ck_changes_next(list, size, &at, &run)) {
		const struct shadow *s = shadow_find(t, run.number);

		if (!s)
			continue;
		valid = run.at <= s->size && run.size <= s->size - run.at;
		if (!valid)
			break;
		ck_changes_apply(&run, (void *)(uintptr_t)s->address);
		ck_changes_apply(&run, s->known);
	}
	ck_unlock(&t->lock);
	return valid && at == size ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult ck_serve_shadow_write(struct cks_request *q, ck_shadow_write_args *a, void *res)
{
	(void)res;
	return take_changes(q->session->shadows, a->changes.changes_val, a->changes.changes_len);
}

/* The same for a thread whose commands may wait: see function_returned in client/managed. */
CUresult ck_serve_shadow_put(struct cks_request *q, ck_shadow_put_args *a, ck_shadow_put_res *res)
{
	(void)res;
	return take_changes(q->session->shadows, a->changes.changes_val, a->changes.changes_len);
}
