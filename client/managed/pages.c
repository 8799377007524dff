/*
 * client/managed/pages.c - page states, and pages that are fetched from the device. Call everything
 * here with the lock held; see client/managed/pages.h.
 */
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "client/managed/pages.h"
#include "client/link/stats.h"
#include "client/objects/callback.h"
#include "client/wire/command.h"
#include "util/env.h"
#include "util/log.h"

CK_LOG_DEFINE("client");

struct ckc_managed *ckc_pages_of(const struct ckc_pages *pages, uint64_t address)
{
	const struct ck_range *r = pages->table ? ck_ranges_find(pages->table, address) : NULL;

	return r ? r->value : NULL;
}

static void *page_alias(const struct ckc_managed *m, size_t page)
{
	return m->alias + page * CK_PAGE;
}

/* --- states, and the program's access */

int ckc_pages_protect(const struct ckc_managed *m, size_t first, size_t last, int prot)
{
	void *start = (void *)(uintptr_t)ckc_page_address(m, first);

	return mprotect(start, (last - first) * CK_PAGE, prot);
}

void ckc_pages_mark(struct ckc_managed *m, size_t first, size_t last, enum ckc_page state)
{
	struct ckc_pages *pages = ckc_pages_of_context(m->context);

	if (!ckc_pages_active(m)) {
		m->lo = first;
		m->hi = last;
		atomic_fetch_add(&pages->active, 1);
	}
	m->lo = ck_min(m->lo, first);
	m->hi = ck_max(m->hi, last);
	m->dirty |= state == CK_PAGE_DIRTY;
	memset(m->state + first, state, last - first);
}

size_t ckc_pages_skip(const struct ckc_managed *m, size_t page, size_t last, enum ckc_page state,
		      bool is)
{
	while (page < last && (m->state[page] == state) != is)
		page++;
	return page;
}

/* --- the device's side */

CUresult ckc_pages_announce(struct ckc_context *context)
{
	struct ckc_stream *s;
	CUresult err;

	if (context->copies)
		return CUDA_SUCCESS;
	s = ckc_object_new(CK_OBJECT_STREAM, context);
	if (!s)
		return CUDA_ERROR_OUT_OF_MEMORY;
	err = ck_wire_cuStreamCreateWithPriority(context->object.id, s->object.id,
						 CU_STREAM_NON_BLOCKING, 0);
	if (err)
		ckc_object_free(s);
	else
		context->copies = s->object.id;
	return err;
}

CUresult ckc_pages_stream(struct ckc_context *context, uint64_t *id)
{
	struct ckc_pages *pages = ckc_pages_of_context(context);
	CUresult err;

	ck_lock(&pages->lock);
	err = ckc_pages_announce(context);
	*id = context->copies;
	ck_unlock(&pages->lock);
	return err;
}

CUresult ckc_pages_prepare(struct ckc_context *context)
{
	CUresult err;

	if (context->copies)
		return CUDA_SUCCESS;
	err = ckc_pages_announce(context);
	return err ? err : ck_wire_wait(0);
}

void *ckc_pages_bytes(const struct ckc_managed *m, size_t first, size_t last, unsigned int *index,
		      uint64_t *at, size_t *size)
{
	uint64_t lo = ckc_page_address(m, first), hi = ckc_page_address(m, last);

	for (; *index < ck_max(m->users, 1u); ++*index) {
		uint64_t from = m->users ? ck_max(lo, m->parts[*index].from) : lo;
		uint64_t to = m->users ? ck_min(hi, m->parts[*index].to) : hi;

		if (from >= to)
			continue;
		++*index;
		*at = from;
		*size = to - from;
		return m->alias + (from - m->base);
	}
	return NULL;
}

bool ckc_pages_aside(const struct ckc_managed *m)
{
	const struct ckc_client *c = m->context->client;
	struct ckc_thread *t = ckc_thread();
	bool was = ckc_aside;

	ckc_aside = true;
	if (t) /* else its calls fail */
		t->aside_after = was ? m->sent : ck_max(m->sent, (uint64_t)c->command.last_wait);
	return was;
}

void ckc_pages_aside_end(bool was)
{
	struct ckc_thread *t = ckc_thread();

	ckc_aside = was;
	if (t)
		t->aside_after = 0;
}

void ckc_pages_sent(struct ckc_managed *m)
{
	m->sent = ckc_command_number(m->context->client);
}

static CUresult fetch_bytes(struct ckc_managed *m, size_t first, size_t last)
{
	uint64_t stream = m->context->copies, at;
	CUresult err = CUDA_SUCCESS;
	unsigned int index = 0;
	struct ckc_sink sink;

	while (!err &&
	       (sink.data = ckc_pages_bytes(m, first, last, &index, &at, &sink.size)) != NULL)
		err = ck_wire_fetch(m->ctx, at, sink.size, stream, CK_FETCH_NOW, 0, &sink);
	return err;
}

static CUresult fetch_run(struct ckc_managed *m, size_t first, size_t last)
{
	CUresult err;
	bool was;

	ckc_stats_pages(0, last - first);
	if (!ckc_aside && !ckc_callback_blocks())
		return fetch_bytes(m, first, last);
	was = ckc_pages_aside(m);
	err = fetch_bytes(m, first, last);
	ckc_pages_aside_end(was);
	return err;
}

/* --- lost pages */

/*
 * Make every access to pages [first, last) raise SIGBUS, by mapping a file that ends before them. A
 * system call on them fails with EFAULT. False: no descriptors or mappings are left.
 */
static bool raise_at(const struct ckc_managed *m, size_t first, size_t last)
{
	void *start = (void *)(uintptr_t)ckc_page_address(m, first);
	size_t size = (last - first) * CK_PAGE;
	int fd = memfd_create("cricket lost", MFD_CLOEXEC);
	bool done = fd >= 0 && mmap(start, size, PROT_READ | PROT_WRITE,
				    MAP_SHARED | MAP_NORESERVE | MAP_FIXED, fd, 0) != MAP_FAILED;

	if (done)
		madvise(start, size, MADV_DONTFORK);
	if (fd >= 0)
		close(fd);
	return done;
}

/* Valid pages stay usable; accesses to the others raise SIGBUS. */
static void give_up_pages(struct ckc_managed *m)
{
	size_t end;

	m->raises = true;
	for (size_t first = 0; first < m->pages; first = end) {
		bool invalid = m->state[first] == CK_PAGE_INVALID;

		end = ckc_pages_skip(m, first, m->pages, CK_PAGE_INVALID, !invalid);
		if (invalid) {
			m->raises = raise_at(m, first, end) && m->raises;
		} else if (ckc_pages_protect(m, first, end, PROT_READ | PROT_WRITE) == 0) {
			ckc_pages_mark(m, first, end, CK_PAGE_DIRTY);
		} else { /* the access that faults next ends the program: SIGSEGV */
			memset(m->state + first, CK_PAGE_INVALID, end - first);
			m->raises = false;
		}
	}
}

/* Where the pages cannot be opened, they are given up. */
static void zero_pages(struct ckc_managed *m)
{
	for (size_t page = 0; page < m->pages; page++) {
		if (m->state[page] == CK_PAGE_INVALID)
			memset(page_alias(m, page), 0, CK_PAGE);
	}
	if (ckc_pages_protect(m, 0, m->pages, PROT_READ | PROT_WRITE) == 0)
		ckc_pages_mark(m, 0, m->pages, CK_PAGE_DIRTY);
	else
		give_up_pages(m);
}

void ckc_pages_lose(struct ckc_managed *m, CUresult err)
{
	bool zeros = strcmp(ck_env_string("CRICKET_LOST"), "zeros") == 0;
	struct ckc_pages *pages = ckc_pages_of_context(m->context);

	if (!pages->told)
		ck_err("managed memory cannot be accessed (%s): %s",
		       err == CUDA_ERROR_DEVICE_UNAVAILABLE ? "the server is lost"
							    : "the device has failed",
		       zeros ? "it reads as zeros"
			     : "an access raises SIGBUS (CRICKET_LOST=zeros: it reads as zeros)");
	pages->told = true;
	m->lost = true;
	if (zeros)
		zero_pages(m);
	else
		give_up_pages(m);
}

/* --- accesses */

/* Fetch the invalid pages of [first, last) from the device; false: the device is lost. */
static bool fetch_invalid_pages(struct ckc_managed *m, size_t first, size_t last)
{
	CUresult err = CUDA_SUCCESS;
	size_t end;

	for (; !err && first < last; first = end) {
		first = ckc_pages_skip(m, first, last, CK_PAGE_INVALID, true);
		end = ckc_pages_skip(m, first, ck_min(last, first + CK_PAGE_PIECE / CK_PAGE),
				     CK_PAGE_INVALID, false);
		if (first < end)
			err = fetch_run(m, first, end);
	}
	if (err)
		ckc_pages_lose(m, err);
	return !err;
}

/* The kernel limits the number of mappings: open all pages, so that they need only one. */
static void open_all(struct ckc_managed *m)
{
	if (fetch_invalid_pages(m, 0, m->pages) &&
	    ckc_pages_protect(m, 0, m->pages, PROT_READ | PROT_WRITE) == 0)
		ckc_pages_mark(m, 0, m->pages, CK_PAGE_DIRTY);
}

void ckc_pages_fetch(struct ckc_managed *m, size_t first, size_t last)
{
	size_t end;

	if (m->lost || !fetch_invalid_pages(m, first, last))
		return;
	for (; first < last; first = end) {
		first = ckc_pages_skip(m, first, last, CK_PAGE_INVALID, true);
		end = ckc_pages_skip(m, first, last, CK_PAGE_INVALID, false);
		if (first == end)
			return;
		if (ckc_pages_protect(m, first, end, PROT_READ) < 0) {
			open_all(m);
			return;
		}
		ckc_pages_mark(m, first, end, CK_PAGE_CLEAN);
	}
}

void ckc_pages_mark_dirty(struct ckc_managed *m, size_t first, size_t last)
{
	if (m->lost)
		return;
	if (ckc_pages_protect(m, first, last, PROT_READ | PROT_WRITE) < 0)
		open_all(m);
	else
		ckc_pages_mark(m, first, last, CK_PAGE_DIRTY);
}

/* --- ranges */

CUresult ckc_pages_insert(struct ckc_managed *m, enum ckc_page state)
{
	struct ckc_pages *pages = ckc_pages_of_context(m->context);
	CUresult err = CUDA_SUCCESS;

	if (!pages->table)
		pages->table = ck_ranges_create();
	if (!pages->table ||
	    ck_ranges_insert(pages->table, m->base, ckc_page_address(m, m->pages), m) < 0)
		err = CUDA_ERROR_OUT_OF_MEMORY;
	else if (state != CK_PAGE_INVALID)
		ckc_pages_mark(m, 0, m->pages, state);
	if (!err && m->attach != CU_MEM_ATTACH_GLOBAL)
		atomic_fetch_add(&pages->attached, 1);
	return err;
}

void ckc_pages_attach(struct ckc_managed *m, unsigned int attach, uint64_t stream)
{
	struct ckc_pages *pages = ckc_pages_of_context(m->context);

	if (m->attach != CU_MEM_ATTACH_GLOBAL)
		atomic_fetch_sub(&pages->attached, 1);
	m->attach = attach;
	m->stream = stream;
	if (m->attach != CU_MEM_ATTACH_GLOBAL)
		atomic_fetch_add(&pages->attached, 1);
}

void ckc_pages_drop(struct ckc_managed *m)
{
	struct ckc_pages *pages = ckc_pages_of_context(m->context);

	if (ckc_pages_active(m))
		atomic_fetch_sub(&pages->active, 1);
	ckc_pages_attach(m, CU_MEM_ATTACH_GLOBAL, 0);
	ck_ranges_remove(pages->table, m->base, NULL);
	if (m->users > 0)
		m->shut(m);
	ckc_shadow_destroy(m);
	free(m->parts);
	free(m->state);
	free(m);
}
