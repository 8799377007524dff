/*
 * client/managed/page_access.c - accesses to pages that program and device share: by the program's
 * own instructions (through fault.c), by the kernel on its behalf, and by the client.
 */
#include <errno.h>

#include "client/managed/pages.h"
#include "client/link/hooks.h"
#include "client/link/session_list.h"

#define FETCH_FIRST 16u /* pages: 64 KiB, */
#define FETCH_MAX 2048u /* up to 8 MiB when touched in order */
#define WRITE_MAX 512u	/* pages opened for writing at a time, likewise */

/* The number of valid (with @dirty: dirty) pages directly before @page; at most @max. */
static size_t run_before(const struct ckc_managed *m, size_t page, size_t max, bool dirty)
{
	size_t n = 0;

	while (n < max && n < page) {
		uint8_t before = m->state[page - 1 - n];

		if (dirty ? before != CK_PAGE_DIRTY : before == CK_PAGE_INVALID)
			break;
		n++;
	}
	return n;
}

/*
 * Decide how many pages an access opens: as many as were accessed in sequence before it. So a scan
 * needs few messages, and a scattered access fetches few pages.
 */
static void open_pages(struct ckc_managed *m, size_t page, bool write)
{
	size_t reach = ck_max(run_before(m, page, FETCH_MAX, false), (size_t)FETCH_FIRST);

	if (m->state[page] == CK_PAGE_INVALID)
		ckc_pages_fetch(m, page, ck_min(m->pages, page + reach));
	if (!write || m->lost || m->state[page] == CK_PAGE_DIRTY)
		return;
	reach = ck_max(run_before(m, page, WRITE_MAX, true), (size_t)1);
	ckc_pages_mark_dirty(
		m, page,
		ckc_pages_skip(m, page, ck_min(m->pages, page + reach), CK_PAGE_INVALID, true));
}

/* The work an access must wait for. */
struct busy {
	uint64_t ctx, stream, last;
	unsigned int wait;
};

/* May the device still use @m's pages? If so, @b says how to wait for it. */
static bool is_busy(const struct ckc_managed *m, struct busy *b)
{
	bool global = m->attach == CU_MEM_ATTACH_GLOBAL;

	*b = (struct busy){.ctx = m->ctx,
			   .stream = m->stream,
			   .last = ckc_command_last(),
			   .wait = global ? CK_FETCH_CONTEXT : CK_FETCH_STREAM};
	if (m->lost || m->quiet == b->last)
		return false;
	if (m->attach == CU_MEM_ATTACH_HOST && /* wait for the attach call only */
	    (m->quiet >= m->since || ckc_stream_waited(m->context, m->stream, m->since)))
		return false;
	return !global || m->context->synced != b->last;
}

/* Several devices may use the memory. Ignore errors here: the fetch will report them. */
static void wait_for(const struct ckc_client *c, const struct busy *b)
{
	const struct ckc_client *root = ckc_client_root();

	ck_wire_fetch(b->ctx, 0, 0, 0, b->wait, b->stream, &(struct ckc_sink){0});
	for (int i = 0; i < root->gpu_count && b->wait == CK_FETCH_CONTEXT; i++) {
		const struct ckc_context *other = root->gpus[i].primary;

		if (other->active && other->client == c && other->object.id != b->ctx)
			ck_wire_fetch(other->object.id, 0, 0, 0, b->wait, 0, &(struct ckc_sink){0});
	}
}

struct ckc_managed *ckc_pages_lock_idle(uint64_t address, size_t size, bool write, bool inside,
					bool newest)
{
	struct ckc_client *c = ckc_client_current();
	struct ckc_pages *pages = &c->managed->pages;
	struct ckc_managed *m;
	struct busy b = {0};

	for (bool waited = inside;; waited = true) {
		size_t first, last;
		bool alone;

		ck_lock(&pages->lock);
		m = ckc_pages_of(pages, address);
		if (!m)
			break;
		if (b.last)
			m->quiet = b.last;
		first = ckc_page_first(m, address);
		last = ckc_page_last(m, address, size);
		alone = ckc_pages_skip(m, first, last, CK_PAGE_INVALID, true) == last &&
			!(write && m->reading) && !(newest && m->shadow);
		if (waited || alone || !is_busy(m, &b)) {
			m->reading = m->reading && !write;
			return m;
		}
		ck_unlock(&pages->lock);
		wait_for(c, &b);
	}
	ck_unlock(&pages->lock);
	return NULL;
}

struct ckc_client *ckc_pages_route(uint64_t address)
{
	struct ckc_client *was = ckc_client_current(), *c;

	c = unlikely(ckc_many) ? ckc_managed_session(address) : NULL;
	if (c)
		ckc_route(c);
	return was;
}

int ckc_managed_touch(uint64_t address, bool write, bool inside)
{
	struct ckc_managed *m;
	size_t page;
	int ret = -EFAULT;

	ckc_pages_route(address);
	m = ckc_pages_lock_idle(address, 1, write, inside, false);
	if (!m)
		return -ENOENT;
	page = ckc_page_first(m, address);
	open_pages(m, page, write);
	if (m->state[page] == CK_PAGE_DIRTY || (m->state[page] == CK_PAGE_CLEAN && !write))
		ret = 0;
	else if (m->state[page] == CK_PAGE_INVALID && m->raises)
		ret = 0; /* the repeated access raises SIGBUS */
	ck_unlock(&ckc_pages_of_context(m->context)->lock);
	return ret;
}

static char *fetch_range(uint64_t address, size_t size, bool write, char *other, bool newest)
{
	struct ckc_managed *m =
		ckc_pages_lock_idle(address, size, write, ckc_inside_callback, newest);
	size_t first, last;
	char *alias;

	if (!m)
		return other;
	alias = m->alias + (address - m->base);
	first = ckc_page_first(m, address);
	last = ckc_page_last(m, address, size);
	ckc_pages_fetch(m, first, last);
	if (write)
		ckc_pages_mark_dirty(m, first, last);
	if (write ? ckc_pages_skip(m, first, last, CK_PAGE_DIRTY, false) < last
		  : m->lost && ckc_pages_skip(m, first, last, CK_PAGE_INVALID, true) < last)
		alias = NULL;
	ck_unlock(&ckc_pages_of_context(m->context)->lock);
	return alias;
}

char *ckc_pages_reach(uint64_t address, size_t size, bool write, char *other, bool newest)
{
	struct ckc_client *was = ckc_pages_route(address);
	char *alias = fetch_range(address, size, write, other, newest);

	ckc_route(was);
	return alias;
}

void *ckc_managed_host(const void *p, size_t size, bool write)
{
	uint64_t address = (uintptr_t)p;

	if (likely(!ckc_managed_may_be(address)) || size == 0)
		return (void *)(uintptr_t)p;
	return ckc_pages_reach(address, size, write, (char *)(uintptr_t)p, true);
}
CK_ON_PAYLOAD(ckc_managed_host);

/* While the device is at work, leave the pages to the first access, which waits for it. */
void ckc_managed_fetch(uint64_t address, size_t size)
{
	struct ckc_client *was = ckc_pages_route(address);
	struct ckc_pages *pages = ckc_pages_current();
	struct ckc_managed *m;
	struct busy b;

	ck_lock(&pages->lock);
	m = ckc_pages_of(pages, address);
	if (m && !is_busy(m, &b))
		ckc_pages_fetch(m, ckc_page_first(m, address), ckc_page_last(m, address, size));
	ck_unlock(&pages->lock);
	ckc_route(was);
}
