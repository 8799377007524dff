/*
 * client/managed/page_call.c - system calls on memory that program and device share, for
 * client/managed/interpose.c. The kernel reads the alias, which stays accessible when a launch by
 * another thread protects the pages. Bytes that it has written elsewhere are stored after the call.
 */
#include <errno.h>
#include <string.h>

#include "client/managed/pages.h"

/* The range of @address, with the lock; NULL, without it: not tracked. */
static struct ckc_managed *lock_range(uint64_t address)
{
	struct ckc_pages *pages = ckc_pages_current();
	struct ckc_managed *m;

	ck_lock(&pages->lock);
	m = ckc_pages_of(pages, address);
	if (!m)
		ck_unlock(&pages->lock);
	return m;
}

static void unlock_range(const struct ckc_managed *m)
{
	ck_unlock(&ckc_pages_of_context(m->context)->lock);
}

/* The child of a fork has neither the memory nor a session: let the kernel return EFAULT, as for
 * any invalid address. */
bool ckc_managed_keeps(uint64_t address)
{
	struct ckc_client *was = ckc_client_current();
	struct ckc_managed *m;
	int error = errno;
	bool keeps = false;

	if (unlikely(was->state == CK_STATE_FORKED))
		return false;
	ckc_pages_route(address);
	m = lock_range(address);
	if (m) {
		keeps = !m->lost;
		unlock_range(m);
	}
	ckc_route(was);
	errno = error;
	return keeps;
}

static bool is_one_range(uint64_t address, size_t size)
{
	struct ckc_client *was = ckc_pages_route(address);
	struct ckc_managed *m = lock_range(address);
	bool one = m && size <= ckc_page_address(m, m->pages) - address;

	if (m)
		unlock_range(m);
	ckc_route(was);
	return one;
}

const void *ckc_managed_source(uint64_t address, size_t size)
{
	int error = errno;
	const void *bytes = ckc_pages_reach(address, size, false, NULL, false);

	if (bytes && !is_one_range(address, size))
		bytes = NULL;
	errno = error;
	return bytes;
}

/* Only pages that are not overwritten as a whole are fetched. Returns the bytes stored; 0: pages
 * are lost, or not tracked. */
static size_t put_in_range(uint64_t address, const void *bytes, size_t size)
{
	struct ckc_managed *m =
		ckc_pages_lock_idle(address, size, true, ckc_inside_callback, false);
	size_t first, last;

	if (!m)
		return 0;
	size = ck_min(size, ckc_page_address(m, m->pages) - address);
	first = ckc_page_first(m, address);
	last = ckc_page_last(m, address, size);
	if (address % CK_PAGE)
		ckc_pages_fetch(m, first, first + 1);
	if ((address + size) % CK_PAGE)
		ckc_pages_fetch(m, last - 1, last);
	ckc_pages_mark_dirty(m, first, last);
	if (ckc_pages_skip(m, first, last, CK_PAGE_DIRTY, false) < last)
		size = 0;
	else
		memcpy(m->alias + (address - m->base), bytes, size);
	unlock_range(m);
	return size;
}

bool ckc_managed_put(uint64_t address, const void *bytes, size_t size)
{
	struct ckc_client *was = ckc_pages_route(address);
	int error = errno;
	size_t done = 0, more = 1;

	for (; done < size && more > 0; done += more)
		more = put_in_range(address + done, (const char *)bytes + done, size - done);
	ckc_route(was);
	errno = error;
	return done == size;
}

void ckc_managed_need(uint64_t address, size_t size, bool write)
{
	int error = errno;

	if (ckc_managed_keeps(address))
		ckc_pages_reach(address, size, write, NULL, false);
	errno = error;
}
