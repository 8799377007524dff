/*
 * client/managed/variable.c - __managed__ variables: pages at addresses that the server's driver
 * chose. Other variables of the program may lie in the same pages.
 */
#define _GNU_SOURCE
#include <stdlib.h>
#include <sys/mman.h>

#include "client/managed/fault.h"
#include "client/managed/pages.h"
#include "util/cancel.h"
#include "util/log.h"

CK_LOG_DEFINE("client");

/* Replace the place that begins at @was; false: there is none. Call with the lock held. */
static bool place_set(struct ckc_managed_variables *v, uint64_t was, uint64_t lo, uint64_t hi)
{
	for (size_t i = 0; i < CK_VARIABLE_PLACES; i++) {
		if (v->places[i].lo != was)
			continue;
		v->places[i].hi = 0;
		v->places[i].lo = lo;
		v->places[i].hi = hi;
		return true;
	}
	return false;
}

/* Reserve the addresses again, and return the memory. */
static void close_pages(const struct ckc_managed *m)
{
	size_t size = m->pages * CK_PAGE;

	mmap((void *)(uintptr_t)m->base, size, PROT_NONE,
	     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
	munmap(m->alias, size);
}

/* Map pages at @m's address, without access, and their alias; false: impossible. */
static bool open_pages(struct ckc_managed *m)
{
	size_t size = m->pages * CK_PAGE;
	void *view = (void *)(uintptr_t)m->base;

	m->alias = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (m->alias == MAP_FAILED)
		return false;
	/* a second mapping of the same pages */
	if (mremap(m->alias, 0, size, MREMAP_MAYMOVE | MREMAP_FIXED, view) == MAP_FAILED ||
	    mprotect(view, size, PROT_NONE) < 0) {
		close_pages(m);
		return false;
	}
	madvise(view, size, MADV_DONTFORK);
	madvise(m->alias, size, MADV_DONTFORK);
	return true;
}

static void unmap_variable(struct ckc_managed *m)
{
	struct ckc_managed_variables *v = &m->context->client->managed->variables;

	close_pages(m);
	place_set(v, m->base, 0, 0);
	atomic_fetch_sub(&v->ranges, 1);
}

/* Add a range for pages [lo, hi), none of which is tracked. */
static CUresult adopt_pages(uint64_t lo, uint64_t hi, struct ckc_context *context)
{
	struct ckc_managed_state *s = context->client->managed;
	CUresult err = ckc_pages_prepare(context);
	struct ckc_managed *m;
	int cancel;

	if (err)
		return err;
	err = CUDA_ERROR_OUT_OF_MEMORY;
	m = calloc(1, sizeof(*m));
	if (!m)
		return err;
	*m = (struct ckc_managed){.base = lo,
				  .pages = (hi - lo) / CK_PAGE,
				  .context = context,
				  .ctx = context->object.id,
				  .attach = CU_MEM_ATTACH_GLOBAL,
				  .attached_first = CU_MEM_ATTACH_GLOBAL,
				  .shut = unmap_variable};
	m->state = calloc(m->pages, 1);
	cancel = ck_lock_uncancelled(&s->pages.lock);
	if (m->state && place_set(&s->variables, 0, lo, hi)) {
		if (open_pages(m))
			err = ckc_pages_insert(m, CK_PAGE_INVALID);
		if (err)
			place_set(&s->variables, lo, 0, 0);
	}
	ck_unlock_uncancelled(&s->pages.lock, cancel);
	if (err) {
		free(m->state);
		free(m);
		return err;
	}
	atomic_fetch_add(&s->variables.ranges, 1);
	return CUDA_SUCCESS;
}

/* Add a variable at [from, to) to the pages of @m. */
static CUresult add_part(struct ckc_managed *m, uint64_t from, uint64_t to)
{
	struct ckc_part *more = realloc(m->parts, (m->users + 1) * sizeof(*more));

	if (!more)
		return CUDA_ERROR_OUT_OF_MEMORY;
	m->parts = more;
	ckc_pages_release(m, 0, m->pages, true);
	m->parts[m->users++] = (struct ckc_part){from, to};
	return CUDA_SUCCESS;
}

/* The first tracked range that ends after @lo and begins before @hi. */
static struct ckc_managed *next_range(const struct ckc_pages *pages, uint64_t lo, uint64_t hi)
{
	const struct ck_range *r = NULL;

	if (pages->table)
		r = ck_ranges_overlap(pages->table, lo, hi);
	return r ? r->value : NULL;
}

CUresult ckc_managed_adopt(uint64_t at, size_t size, struct ckc_context *context)
{
	struct ckc_pages *pages = &context->client->managed->pages;
	uint64_t lo = at & ~(CK_PAGE - 1), hi = CK_ALIGN_UP(at + size, CK_PAGE);
	CUresult err = CUDA_SUCCESS;

	if (!ckc_address_claim(at, size)) {
		ck_err("a __managed__ variable is at %#llx on the server, an address that this "
		       "process already uses: the program cannot have it. Start the program again: "
		       "addresses change",
		       (unsigned long long)at);
		return CUDA_ERROR_NOT_SUPPORTED;
	}
	if (ckc_fault_start() < 0)
		return CUDA_ERROR_OPERATING_SYSTEM;
	while (!err && lo < hi) {
		struct ckc_managed *m;
		uint64_t next;

		ck_lock(&pages->lock);
		m = next_range(pages, lo, hi);
		next = !m ? hi : m->base > lo ? m->base : ckc_page_address(m, m->pages);
		if (m && m->base <= lo) {
			err = add_part(m, ck_max(at, m->base), ck_min(at + size, next));
			lo = next;
		}
		ck_unlock(&pages->lock);
		if (!m || m->base > lo)
			err = adopt_pages(lo, next, context);
	}
	return err;
}

/* Remove a variable; false: it was the last one in the pages. */
static bool remove_part(struct ckc_managed *m, uint64_t from)
{
	unsigned int i = 0;

	while (i < m->users && m->parts[i].from != from)
		i++;
	if (m->users < 2 || i == m->users)
		return m->users > 1;
	m->parts[i] = m->parts[--m->users];
	return true;
}

void ckc_managed_leave(uint64_t at, size_t size)
{
	struct ckc_pages *pages = ckc_pages_current();
	uint64_t lo = at & ~(CK_PAGE - 1);
	struct ckc_managed *m;

	ck_lock(&pages->lock);
	while ((m = next_range(pages, lo, at + size)) != NULL) {
		lo = ckc_page_address(m, m->pages);
		if (!remove_part(m, ck_max(at, m->base)))
			ckc_pages_drop(m);
	}
	ck_unlock(&pages->lock);
}
