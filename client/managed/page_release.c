/*
 * client/managed/page_release.c - pages that the device is about to use: send those that the
 * program has written, and protect those that the device may write. Call everything here with the
 * lock held; see client/managed/pages.h.
 */
#include <string.h>
#include <sys/mman.h>

#include "client/managed/pages.h"
#include "client/link/stats.h"
#include "client/objects/callback.h"

/* --- sending */

/*
 * Find the next pages in [first, last) to send: dirty, and touched since allocation (untouched ones
 * are zero on both sides). *@end is the end of them; @last: there are none.
 */
static size_t next_dirty(const struct ckc_managed *m, size_t first, size_t last, size_t *end,
			 struct ckc_window_extent *touched)
{
	size_t count;

	do {
		first = ckc_pages_skip(m, first, last, CK_PAGE_DIRTY, true);
		*end = ckc_pages_skip(m, first, ck_min(last, first + CK_PAGE_PIECE / CK_PAGE),
				      CK_PAGE_DIRTY, false);
		count = *end - first;
		if (m->users == 0)
			first += ckc_window_used(ckc_page_address(m, first), &count, touched);
	} while (count == 0 && first < last);
	*end = first + count;
	return count ? first : last;
}

static void send_by_calls(struct ckc_managed *m, size_t first, size_t last)
{
	uint64_t stream = m->context->copies, at;
	bool was = ckc_pages_aside(m);
	unsigned int index = 0;
	void *bytes;
	size_t size;

	while ((bytes = ckc_pages_bytes(m, first, last, &index, &at, &size)) != NULL)
		ck_wire_upload_part(m->ctx, at, stream, bytes, size);
	ck_wire_fetch(m->ctx, 0, 0, 0, CK_FETCH_STREAM, stream, &(struct ckc_sink){0});
	ckc_pages_aside_end(was);
}

static void send_by_commands(struct ckc_managed *m, size_t first, size_t last, bool wait)
{
	uint64_t stream = m->context->copies, at;
	unsigned int index = 0;
	void *bytes;
	size_t size;

	/* pieces of variables are few: wait for each, since each may be the last one */
	while ((bytes = ckc_pages_bytes(m, first, last, &index, &at, &size)) != NULL)
		ck_wire_upload(m->ctx, at, stream, wait || m->users, bytes, size);
	ckc_pages_sent(m);
}

/* A command could wait for a host function, and the function for the pages. */
static void send_run(struct ckc_managed *m, size_t first, size_t last, bool wait)
{
	if (ckc_aside || ckc_callback_blocks())
		send_by_calls(m, first, last);
	else
		send_by_commands(m, first, last, wait);
	ckc_stats_pages(last - first, 0);
}

/*
 * Send the dirty pages of [first, last), in runs, and mark them clean. Later work in any stream
 * finds the bytes in place: the server waits for the last copy.
 */
static void flush_pages(struct ckc_managed *m, size_t first, size_t last)
{
	struct ckc_window_extent touched = {0};
	size_t at, end, next, next_end;

	if (!m->dirty || m->lost)
		return;
	for (at = next_dirty(m, first, last, &end, &touched); at < last;
	     at = next, end = next_end) {
		next = next_dirty(m, end, last, &next_end, &touched);
		send_run(m, at, end, next == last);
	}
	for (at = first; at < last; at++) {
		if (m->state[at] == CK_PAGE_DIRTY)
			m->state[at] = CK_PAGE_CLEAN;
	}
}

/* --- protection */

/* The device has the bytes of [first, last) and may write there: fetch them before the next
 * access. */
static void invalidate_pages(struct ckc_managed *m, size_t first, size_t last)
{
	struct ckc_pages *pages = ckc_pages_of_context(m->context);

	memset(m->state + first, CK_PAGE_INVALID, last - first);
	if (first > m->lo || last < m->hi)
		return;
	m->dirty = m->reading = false; /* any later access waits for the device */
	m->lo = m->hi = 0;
	atomic_fetch_sub(&pages->active, 1);
}

/*
 * Send the dirty pages of [first, last), which are protected from writes. If they could not be,
 * they stay dirty: the next release sends them again.
 */
static void send_for_reading(struct ckc_managed *m, size_t first, size_t last)
{
	bool protected = ckc_pages_protect(m, first, last, PROT_READ) == 0;

	if (!protected) /* the kernel may have protected a part */
		ckc_pages_protect(m, first, last, PROT_READ | PROT_WRITE);
	flush_pages(m, first, last);
	if (!protected)
		ckc_pages_mark(m, first, last, CK_PAGE_DIRTY);
	else if (first == m->lo && last == m->hi)
		m->dirty = false;
}

/* Release dirty runs only: read protection must not open invalid pages between them. */
static void release_for_reading(struct ckc_managed *m, size_t first, size_t last)
{
	first = ck_max(first, m->lo);
	last = ck_min(last, m->hi);
	while (first < last && m->dirty) {
		size_t end;

		first = ckc_pages_skip(m, first, last, CK_PAGE_DIRTY, true);
		end = ckc_pages_skip(m, first, last, CK_PAGE_DIRTY, false);
		if (first < end)
			send_for_reading(m, first, end);
		first = end;
	}
}

/* Can ranges @a and @b, with @b at the end of @a, be one mapping of the kernel? */
static bool are_adjacent(const struct ckc_managed *a, const struct ckc_managed *b)
{
	return ckc_page_address(a, a->pages) == b->base && !a->shadow && !b->shadow && !a->lost &&
	       !b->lost;
}

/* The tracked ranges from @first up to, not including, @last. */
struct run {
	size_t first, last;
};

/* The ranges side by side that @m is one of. */
static struct run find_run(const struct ck_ranges *table, const struct ckc_managed *m)
{
	struct run r = {0};

	while (ck_ranges_at(table, r.first)->value != m)
		r.first++;
	r.last = r.first + 1;
	while (r.first > 0 && are_adjacent(ck_ranges_at(table, r.first - 1)->value,
					   ck_ranges_at(table, r.first)->value))
		r.first--;
	while (r.last < ck_ranges_count(table) &&
	       are_adjacent(ck_ranges_at(table, r.last - 1)->value,
			    ck_ranges_at(table, r.last)->value))
		r.last++;
	return r;
}

/*
 * The kernel limits the number of mappings, and protecting a part of one makes two of it. Ranges
 * side by side may be one mapping: release all of them together, which needs none more. If that is
 * impossible, too, the program could read pages that the device has changed since: end the session.
 */
static void release_neighbours(const struct ckc_managed *m)
{
	const struct ck_ranges *table = ckc_pages_of_context(m->context)->table;
	struct run r = find_run(table, m);
	uint64_t lo = ck_ranges_at(table, r.first)->lo, hi = ck_ranges_at(table, r.last - 1)->hi;
	bool protected = mprotect((void *)(uintptr_t)lo, hi - lo, PROT_NONE) == 0;

	if (!protected)
		ckc_session_lost(m->context->client,
				 "managed memory cannot be protected: the process has too many "
				 "mappings (sysctl vm.max_map_count)");
	for (size_t i = r.first; i < r.last; i++) {
		struct ckc_managed *each = ck_ranges_at(table, i)->value;

		if (!protected) {
			ckc_pages_lose(each, CUDA_ERROR_DEVICE_UNAVAILABLE);
			continue;
		}
		flush_pages(each, 0, each->pages);
		if (ckc_pages_active(each))
			invalidate_pages(each, 0, each->pages);
	}
}

static void release_for_writing(struct ckc_managed *m, size_t first, size_t last)
{
	first = ck_max(first, m->lo);
	last = ck_min(last, m->hi);
	if (first >= last)
		return;
	if (ckc_pages_protect(m, first, last, PROT_NONE) < 0) {
		release_neighbours(m);
		return;
	}
	flush_pages(m, first, last);
	invalidate_pages(m, first, last);
}

void ckc_pages_release(struct ckc_managed *m, size_t first, size_t last, bool write)
{
	if (m->shadow)
		ckc_shadow_send(m, first, last);
	else if (write)
		release_for_writing(m, first, last);
	else
		release_for_reading(m, first, last);
}

void ckc_pages_invalidate_clean(struct ckc_managed *m)
{
	struct ckc_pages *pages = ckc_pages_of_context(m->context);
	size_t end;

	for (size_t first = m->lo; first < m->hi; first = end) {
		first = ckc_pages_skip(m, first, m->hi, CK_PAGE_CLEAN, true);
		end = ckc_pages_skip(m, first, m->hi, CK_PAGE_CLEAN, false);
		if (first == end)
			break;
		if (ckc_pages_protect(m, first, end, PROT_NONE) < 0) {
			release_neighbours(m);
			return;
		}
		memset(m->state + first, CK_PAGE_INVALID, end - first);
	}
	m->lo = ckc_pages_skip(m, m->lo, m->hi, CK_PAGE_INVALID, false);
	if (!ckc_pages_active(m)) {
		m->lo = m->hi = 0;
		atomic_fetch_sub(&pages->active, 1);
	}
}
