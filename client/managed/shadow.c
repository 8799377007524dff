/*
 * client/managed/shadow.c - see client/managed/shadow.h.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "client/managed/pages.h"
#include "client/managed/shadow.h"
#include "client/managed/state.h"
#include "client/wire/delivery.h"
#include "client/link/hooks.h"
#include "client/link/stats.h"
#include "client/objects/callback.h"
#include "rpc/pinned.h"

/*
 * Launches without a change of a writable page. A fault costs as much as so many comparisons, and a
 * program may use its buffers in turn, for several steps of many launches.
 */
#define IDLE_MOST 512u
#define CHUNK ((size_t)64 << 10) /* bytes compared for one message, at most */

struct ckc_shadow {
	uint64_t number;
	size_t size;
	char *alias;
	unsigned char *known; /* the server's bytes; under the lock of the shadows */
	uint16_t *idle;	      /* of each page; under the lock of the pages */
	unsigned char *list;  /* room for the changes of a chunk, likewise */
};

static void shadow_free(struct ckc_shadow *s)
{
	if (s) {
		free(s->known);
		free(s->idle);
		free(s->list);
	}
	free(s);
}

static struct ckc_shadow *shadow_make(const struct ckc_managed *m)
{
	struct ckc_shadow *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	s->size = m->pages * CK_PAGE;
	s->alias = m->alias;
	s->known = calloc(1, s->size);
	s->idle = calloc(m->pages, sizeof(*s->idle));
	s->list = malloc(CK_CHANGES_ROOM(CK_PAGE) * (CHUNK / CK_PAGE));
	if (s->known && s->idle && s->list)
		return s;
	shadow_free(s);
	return NULL;
}

/* Number it and enter it, if there is room. */
static bool shadow_enter(struct ckc_shadows *all, struct ckc_shadow *s)
{
	bool entered = false;

	ck_lock(&all->lock);
	if (!all->table)
		all->table = ck_map_create();
	if (all->table && s->size <= CK_SHADOWS_MOST - all->total) {
		s->number = ++all->numbers;
		entered = ck_map_insert(all->table, &s->number, sizeof(s->number), s) == 0;
	}
	if (entered)
		all->total += s->size;
	ck_unlock(&all->lock);
	return entered;
}

CUresult ckc_shadow_create(struct ckc_managed *m)
{
	struct ckc_client *c = m->context->client;
	struct ckc_shadow *s = ckc_delivery_listen(c) ? shadow_make(m) : NULL;

	if (!s || !shadow_enter(&c->managed->shadows, s)) {
		shadow_free(s);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	m->shadow = s;
	atomic_fetch_add(&c->shadows, 1);
	return CUDA_SUCCESS;
}

void ckc_shadow_destroy(struct ckc_managed *m)
{
	struct ckc_client *c = m->context->client;
	struct ckc_shadows *all = &c->managed->shadows;
	struct ckc_shadow *s = m->shadow;

	if (!s)
		return;
	ck_lock(&all->lock);
	ck_map_remove(all->table, &s->number, sizeof(s->number));
	all->total -= s->size;
	ck_unlock(&all->lock);
	atomic_fetch_sub(&c->shadows, 1);
	m->shadow = NULL;
	shadow_free(s);
}

uint64_t ckc_shadow_number(const struct ckc_shadow *s)
{
	return s ? s->number : 0;
}

/* --- the program's changes */

static void send_list(struct ckc_managed *m, const unsigned char *list, size_t size)
{
	bool was;

	if (!ckc_aside && !ckc_callback_blocks()) {
		ck_wire_shadow_write(m->ctx, list, size);
		ckc_pages_sent(m);
		return;
	}
	was = ckc_pages_aside(m);
	ck_wire_shadow_put(m->ctx, list, size);
	ckc_pages_aside_end(was);
}

/*
 * Compare a writable page, and append its changes to @list. If it has not changed for a while,
 * protect it before: the next write faults, and all earlier ones are found.
 */
static size_t compare_page(struct ckc_managed *m, size_t page, unsigned char *list)
{
	struct ckc_shadow *s = m->shadow;
	size_t size;

	if (s->idle[page] == IDLE_MOST) {
		void *at = (void *)(uintptr_t)ckc_page_address(m, page);

		s->idle[page] = 0;
		if (mprotect(at, CK_PAGE, PROT_READ) == 0) /* else: too many mappings */
			m->state[page] = CK_PAGE_CLEAN;
	}
	size = ck_changes_find(s->number, s->alias, s->known, page * CK_PAGE, CK_PAGE, list);
	s->idle[page] = size > 0 ? 0 : (uint16_t)(s->idle[page] + 1);
	return size;
}

/* Send the changes of the writable pages of [first, last), at most a chunk. True: there are such
 * pages. */
static bool send_pages(struct ckc_managed *m, size_t first, size_t last)
{
	struct ckc_shadows *all = &m->context->client->managed->shadows;
	struct ckc_shadow *s = m->shadow;
	bool writable = false;
	size_t size = 0;

	ck_lock(&all->lock);
	for (size_t page = first; page < last; page++) {
		if (m->state[page] != CK_PAGE_DIRTY)
			continue;
		size += compare_page(m, page, s->list + size);
		writable |= m->state[page] == CK_PAGE_DIRTY;
	}
	ck_unlock(&all->lock);
	if (size > 0)
		send_list(m, s->list, size);
	return writable;
}

/* All writable pages are in [lo, hi) of the range: while there are none, a launch has nothing to
 * do. */
void ckc_shadow_send(struct ckc_managed *m, size_t first, size_t last)
{
	struct ckc_pages *pages = ckc_pages_of_context(m->context);
	bool whole = first <= m->lo && last >= m->hi, writable = false;

	if (!ckc_pages_active(m))
		return;
	first = ck_max(first, m->lo);
	last = ck_min(last, m->hi);
	for (size_t at = first, end; at < last; at = end) {
		end = ck_min(last, at + CHUNK / CK_PAGE);
		writable |= send_pages(m, at, end);
	}
	if (whole && !writable) {
		m->dirty = false;
		m->lo = m->hi = 0;
		atomic_fetch_sub(&pages->active, 1);
	}
}

bool ckc_shadow_holds(const void *p, size_t size)
{
	struct ckc_client *c = ckc_client_current();
	uint64_t address = (uintptr_t)p;
	const struct ckc_managed *m;
	bool holds;

	if (likely(atomic_load_explicit(&c->shadows, memory_order_relaxed) == 0) ||
	    !ckc_window_has(&c->managed->window, address))
		return false;
	ck_lock(&c->managed->pages.lock);
	m = ckc_pages_of(&c->managed->pages, address);
	holds = m && m->shadow && size <= ckc_page_address(m, m->pages) - address;
	ck_unlock(&c->managed->pages.lock);
	return holds;
}

/* --- the device's changes */

/* Any lock may be held. The memory is accessible at the alias. */
static void changes_arrived(struct ckc_client *c, const void *list, size_t size)
{
	struct ckc_shadows *all = &c->managed->shadows;
	struct ck_changes_run run;
	size_t at = 0;

	ck_lock(&all->lock);
	while (ck_changes_next(list, size, &at, &run)) {
		struct ckc_shadow *s =
			all->table ? ck_map_find(all->table, &run.number, sizeof(run.number))
				   : NULL;

		if (!s || run.at > s->size || run.size > s->size - run.at)
			continue; /* it has been freed */
		ck_changes_apply(&run, s->alias);
		ck_changes_apply(&run, s->known);
	}
	ck_unlock(&all->lock);
}
CK_ON_CHANGES(changes_arrived);
