/*
 * client/managed/managed.c - managed memory: work that is about to start on the device; ranges that
 * are added, attached and removed. See client/managed/managed.h.
 */
#include <stdlib.h>

#include "client/objects/callback.h"
#include "client/managed/fault.h"
#include "client/managed/pages.h"
#include "client/managed/rebind.h"
#include "client/link/hooks.h"

/* --- work about to start */

void ckc_managed_launch(void)
{
	struct ckc_pages *pages = ckc_pages_current();

	if (likely(atomic_load_explicit(&pages->active, memory_order_relaxed) == 0 &&
		   atomic_load_explicit(&pages->attached, memory_order_relaxed) == 0))
		return;
	ckc_fault_rearm();
	ck_lock(&pages->lock);
	for (size_t i = 0; i < ck_ranges_count(pages->table); i++) {
		struct ckc_managed *m = ck_ranges_at(pages->table, i)->value;

		if (ckc_pages_active(m) && !m->lost)
			ckc_pages_release(m, 0, m->pages, true);
	}
	pages->doubtful = pages->attached > 0;
	ck_unlock(&pages->lock);
}

/* Messages that began when there was no function, and may wait for newer commands, end first. */
static void function_added(void)
{
	struct ckc_pages *pages = ckc_pages_current();

	ck_lock(&pages->lock);
	ck_unlock(&pages->lock);
}
CK_ON_FUNCTION_ADDED(function_added);

static void function_returned(void)
{
	ckc_aside = true;
	ckc_managed_launch();
	ckc_aside = false;
}
CK_ON_FUNCTION_END(function_returned);

/*
 * The driver loads a kernel at its first launch (580, lazy loading). The load waits for the host
 * functions that block streams, and all copies wait for the load. A host function that touched
 * managed memory meanwhile would wait for its pages without end. So let these functions return
 * first.
 */
void ckc_managed_loading(void)
{
	struct ckc_pages *pages = ckc_pages_current();
	bool any;

	if (likely(!ckc_callback_pending()))
		return;
	ck_lock(&pages->lock);
	any = pages->table && ck_ranges_count(pages->table) > 0;
	ck_unlock(&pages->lock);
	if (any)
		ckc_callbacks_let_return();
}

void ckc_managed_device(uint64_t address, size_t size, bool write)
{
	struct ckc_pages *pages = ckc_pages_current();
	struct ckc_managed *m;

	if (likely(atomic_load_explicit(&pages->active, memory_order_relaxed) == 0) || size == 0)
		return;
	ckc_fault_rearm();
	ck_lock(&pages->lock);
	m = ckc_pages_of(pages, address);
	if (m && ckc_pages_active(m) && !m->lost) {
		ckc_pages_release(m, ckc_page_first(m, address), ckc_page_last(m, address, size),
				  write);
		m->reading |= !write && !m->shadow;
	}
	if (m && m->attach != CU_MEM_ATTACH_GLOBAL)
		pages->doubtful = true;
	ck_unlock(&pages->lock);
}

/* --- work that is done */

/* Is all work of the session done? With several GPUs, a context does not know. */
static bool is_quiet(void)
{
	const struct ckc_context *context = ckc_context_current();

	return ckc_client_root()->gpu_count == 1 && context &&
	       context->synced == ckc_command_last();
}

static void work_done(void)
{
	struct ckc_pages *pages = ckc_pages_current();

	ckc_rebind(); /* the next call may be one of a library that the program has just loaded */
	if (likely(!atomic_load_explicit(&pages->doubtful, memory_order_relaxed)))
		return;
	ck_lock(&pages->lock);
	for (size_t i = 0; i < ck_ranges_count(pages->table); i++) {
		struct ckc_managed *m = ck_ranges_at(pages->table, i)->value;

		if (ckc_pages_active(m) && m->attach != CU_MEM_ATTACH_GLOBAL && !m->lost)
			ckc_pages_invalidate_clean(m);
	}
	pages->doubtful = !is_quiet();
	ck_unlock(&pages->lock);
}
CK_ON_WORK_DONE(work_done);

/* --- ranges */

/* A range that is not tracked yet; NULL: out of memory. */
static struct ckc_managed *range_make(uint64_t base, size_t size, struct ckc_context *context,
				      unsigned int attach)
{
	struct ckc_managed *m = calloc(1, sizeof(*m));

	if (!m)
		return NULL;
	*m = (struct ckc_managed){.base = base,
				  .pages = CK_ALIGN_UP(size, CK_PAGE) / CK_PAGE,
				  .context = context,
				  .ctx = context->object.id,
				  .attach = attach,
				  .attached_first = attach,
				  .alias = ckc_window_alias(base)};
	m->state = calloc(m->pages, 1);
	if (m->state)
		return m;
	free(m);
	return NULL;
}

static void range_free(struct ckc_managed *m)
{
	ckc_shadow_destroy(m);
	free(m->state);
	free(m);
}

/* All pages are dirty at first: they are accessible, and this side's bytes count. On failure, frees
 * the range. */
static CUresult range_insert(struct ckc_managed *m)
{
	struct ckc_pages *pages = ckc_pages_of_context(m->context);
	CUresult err;

	ck_lock(&pages->lock);
	err = ckc_pages_insert(m, CK_PAGE_DIRTY);
	ck_unlock(&pages->lock);
	if (err)
		range_free(m);
	return err;
}

CUresult ckc_managed_track(uint64_t base, size_t size, struct ckc_context *context,
			   unsigned int attach)
{
	struct ckc_managed *m;

	if (ckc_fault_start() < 0)
		return CUDA_ERROR_OPERATING_SYSTEM;
	m = range_make(base, size, context, attach);
	return m ? range_insert(m) : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult ckc_managed_track_pinned(uint64_t base, size_t size, struct ckc_context *context)
{
	struct ckc_managed *m;
	CUresult err;

	if (ckc_fault_start() < 0)
		return CUDA_ERROR_OPERATING_SYSTEM;
	m = range_make(base, size, context, CU_MEM_ATTACH_GLOBAL);
	if (!m)
		return CUDA_ERROR_OUT_OF_MEMORY;
	ckc_shadow_create(m); /* without one, pages are fetched */
	err = ckc_pages_announce(context);
	if (!err)
		err = ck_wire_shadow_map(m->ctx, base, m->pages * CK_PAGE,
					 ckc_shadow_number(m->shadow));
	if (err) {
		range_free(m);
		return err;
	}
	err = range_insert(m);
	if (err)
		ckc_window_unback(context->object.id, base, size);
	return err;
}

bool ckc_managed_untrack(uint64_t base)
{
	struct ckc_pages *pages = ckc_pages_current();
	struct ckc_managed *m;
	bool found;

	ck_lock(&pages->lock);
	m = ckc_pages_of(pages, base);
	found = m && m->base == base;
	if (found)
		ckc_pages_drop(m);
	ck_unlock(&pages->lock);
	return found;
}

static void context_ended(struct ckc_context *context)
{
	struct ckc_pages *pages = ckc_pages_of_context(context);

	ck_lock(&pages->lock);
	for (size_t i = pages->table ? ck_ranges_count(pages->table) : 0; i-- > 0;) {
		struct ckc_managed *m = ck_ranges_at(pages->table, i)->value;

		if (m->context == context)
			ckc_pages_drop(m);
	}
	context->copies = 0;
	ck_unlock(&pages->lock);
}
CK_ON_CONTEXT_END(CK_LAYER_MANAGED, context_ended);

bool ckc_managed_is(uint64_t address)
{
	struct ckc_pages *pages = ckc_pages_current();
	bool is;

	ck_lock(&pages->lock);
	is = ckc_pages_of(pages, address) != NULL;
	ck_unlock(&pages->lock);
	return is;
}

/* The range that the device of @client has at the same address. Call with the pages' lock held. */
static const struct ckc_managed *find_backed(struct ckc_pages *pages,
					     const struct ckc_client *client, uint64_t address)
{
	const struct ckc_managed *m = ckc_pages_of(pages, address);

	return m && !m->lost && m->context->client == client ? m : NULL;
}

bool ckc_managed_backs(const struct ckc_client *client, uint64_t address)
{
	struct ckc_pages *pages = ckc_pages_current();
	bool backs;

	if (likely(!ckc_managed_may_be(address)))
		return false;
	ck_lock(&pages->lock);
	backs = find_backed(pages, client, address) != NULL;
	ck_unlock(&pages->lock);
	return backs;
}

bool ckc_managed_moves(const struct ckc_client *client, uint64_t address, size_t size)
{
	struct ckc_pages *pages = ckc_pages_current();
	const struct ckc_managed *m;
	bool moves;

	if (likely(!ckc_managed_may_be(address)))
		return false;
	ck_lock(&pages->lock);
	m = find_backed(pages, client, address);
	moves = m && !m->shadow && size <= ckc_page_address(m, m->pages) - address;
	ck_unlock(&pages->lock);
	return moves;
}

bool ckc_managed_is_attached(uint64_t address)
{
	struct ckc_pages *pages = ckc_pages_current();
	const struct ckc_managed *m;
	bool is;

	if (likely(atomic_load_explicit(&pages->attached, memory_order_relaxed) == 0))
		return false;
	ck_lock(&pages->lock);
	m = ckc_pages_of(pages, address);
	is = m && m->attach != CU_MEM_ATTACH_GLOBAL;
	ck_unlock(&pages->lock);
	return is;
}

void ckc_managed_attach(uint64_t base, unsigned int attach, uint64_t stream)
{
	struct ckc_pages *pages = ckc_pages_current();
	struct ckc_managed *m;

	ck_lock(&pages->lock);
	m = ckc_pages_of(pages, base);
	if (m) {
		ckc_pages_attach(m, attach, stream);
		m->since = ckc_command_last();
		m->quiet = 0;
		pages->doubtful = pages->attached > 0;
	}
	ck_unlock(&pages->lock);
}

static void stream_ended(const struct ckc_stream *stream)
{
	struct ckc_pages *pages = ckc_pages_of_context(stream->object.context);

	ck_lock(&pages->lock);
	for (size_t i = 0; pages->table && i < ck_ranges_count(pages->table); i++) {
		struct ckc_managed *m = ck_ranges_at(pages->table, i)->value;

		if (m->attach == CU_MEM_ATTACH_SINGLE && m->stream == stream->object.id)
			ckc_pages_attach(m, m->attached_first, 0);
	}
	ck_unlock(&pages->lock);
}
CK_ON_STREAM_END(stream_ended);
