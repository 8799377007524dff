/*
 * client/managed.c - the states of pages that program and device both use; see client/managed.h.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "client/fault.h"
#include "client/managed.h"
#include "client/stats.h"
#include "client/window.h"
#include "util/log.h"
#include "util/range.h"

CK_LOG_DEFINE("client");

#define FETCH_FIRST 16u		/* pages: 64 KiB, */
#define FETCH_MAX 2048u		/* up to 8 MiB when touched in order */
#define WRITE_MAX 512u		/* pages opened for writing at a time, likewise */
#define PIECE ((size_t)64 << 20) /* bytes of one message */

enum page {
	INVALID, /* newest on the device */
	CLEAN,
	DIRTY,
};

/* Bytes of the device. */
struct part {
	uint64_t from, to;
};

struct managed {
	uint64_t base;
	size_t pages;
	struct ck_context *context;
	uint64_t ctx;
	unsigned int attach, attached_first;
	uint64_t stream;	/* SINGLE: its stream; HOST: where it was attached; else 0 */
	size_t lo, hi;		/* no page outside of [lo, hi) is valid here */
	bool dirty;		/* some page is */
	bool reading;		/* the device may yet read pages that are valid here */
	bool lost;		/* the device's pages are out of reach for good */
	uint64_t quiet;		/* the last command when we have waited for the device */
	uint8_t *state;
	char *alias;		/* where we see the pages */
	struct part *parts;	/* variables in the pages, */
	unsigned int users;	/* so many; 0: the range is of the window, all of it */
};

_Atomic unsigned int ck_managed_active, ck_managed_elsewhere;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct ck_ranges *table;

static struct managed *find(uint64_t address)
{
	const struct ck_range *r = table ? ck_ranges_find(table, address) : NULL;

	return r ? r->value : NULL;
}

static uint64_t page_address(const struct managed *m, size_t page)
{
	return m->base + page * CK_PAGE;
}

static void *page_alias(const struct managed *m, size_t page)
{
	return m->alias + page * CK_PAGE;
}

/* --- states and what the program may do. The lock is held. */

static int protect(const struct managed *m, size_t first, size_t last, int prot)
{
	return mprotect((void *)(uintptr_t)page_address(m, first), (last - first) * CK_PAGE, prot);
}

static bool is_active(const struct managed *m)
{
	return m->lo < m->hi;
}

/* Pages [first, last) are valid here from now on, in @state. */
static void note(struct managed *m, size_t first, size_t last, enum page state)
{
	if (!is_active(m)) {
		m->lo = first;
		m->hi = last;
		atomic_fetch_add(&ck_managed_active, 1);
	}
	m->lo = ck_min(m->lo, first);
	m->hi = ck_max(m->hi, last);
	m->dirty |= state == DIRTY;
	memset(m->state + first, state, last - first);
}

/* The first page from @page on that is (or is not) in @state, or @last. */
static size_t skip(const struct managed *m, size_t page, size_t last, enum page state, bool is)
{
	while (page < last && (m->state[page] == state) != is)
		page++;
	return page;
}

/* --- the device's side */

static uint64_t private_stream(struct ck_context *context)
{
	struct ck_stream *s;

	if (context->copies)
		return context->copies;
	s = ck_object_new(CK_OBJECT_STREAM, context);
	if (!s)
		return 0;
	if (ck_wire_cuStreamCreateWithPriority(context->object.id, s->object.id,
					       CU_STREAM_NON_BLOCKING, 0))
		return 0;
	context->copies = s->object.id;
	return context->copies;
}

/*
 * The next pages to send of [first, last): dirty, and touched since there is this memory; what was
 * not is zero on both sides. *@end is behind them; @last: there are none.
 */
static size_t next_dirty(const struct managed *m, size_t first, size_t last, size_t *end)
{
	size_t count;

	do {
		first = skip(m, first, last, DIRTY, true);
		*end = skip(m, first, ck_min(last, first + PIECE / CK_PAGE), DIRTY, false);
		count = *end - first;
		if (m->users == 0)
			first += ck_window_used(page_address(m, first), &count);
	} while (count == 0 && first < last);
	*end = first + count;
	return count ? first : last;
}

/*
 * The bytes of pages [first, last) that the device has too, the @index-th stretch of them, as
 * (address, size), and where we see them; NULL: no more.
 */
static void *bytes_of(const struct managed *m, size_t first, size_t last, unsigned int *index,
		      uint64_t *at, size_t *size)
{
	uint64_t lo = page_address(m, first), hi = page_address(m, last);

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

static void send_run(struct managed *m, size_t first, size_t last, bool wait)
{
	uint64_t stream = private_stream(m->context), at;
	unsigned int index = 0;
	void *bytes;
	size_t size;

	/* pieces of variables are few: each may be the last one, and is waited for */
	while ((bytes = bytes_of(m, first, last, &index, &at, &size)) != NULL) {
		if (ck_aside)
			ck_wire_ck_upload_part(m->ctx, at, stream, bytes, size);
		else
			ck_wire_ck_upload(m->ctx, at, stream, wait || m->users, bytes, size);
	}
	if (ck_aside)
		ck_wire_ck_fetch(m->ctx, 0, 0, 0, CK_FETCH_STREAM, stream, &(struct ck_sink){ 0 });
	ck_stats_pages(last - first, 0);
}

static CUresult fetch_run(struct managed *m, size_t first, size_t last)
{
	uint64_t stream = private_stream(m->context), at;
	CUresult err = CUDA_SUCCESS;
	unsigned int index = 0;
	struct ck_sink sink;

	while (!err && (sink.data = bytes_of(m, first, last, &index, &at, &sink.size)) != NULL)
		err = ck_wire_ck_fetch(m->ctx, at, sink.size, stream, CK_FETCH_NOW, 0, &sink);
	ck_stats_pages(0, last - first);
	return err;
}

/*
 * Send the dirty pages of [first, last), in runs; they are clean then. What is sent later, to any
 * stream, finds them in place: the server waits for the last of the copies.
 */
static void flush(struct managed *m, size_t first, size_t last)
{
	size_t at, end, next, next_end;

	if (!m->dirty || m->lost)
		return;
	for (at = next_dirty(m, first, last, &end); at < last; at = next, end = next_end) {
		next = next_dirty(m, end, last, &next_end);
		send_run(m, at, end, next == last);
	}
	for (at = first; at < last; at++) {
		if (m->state[at] == DIRTY)
			m->state[at] = CLEAN;
	}
}

/* The device is about to read pages of [first, last), or to write them: then none stays valid. */
static void surrender(struct managed *m, size_t first, size_t last, bool write)
{
	first = ck_max(first, m->lo);
	last = ck_min(last, m->hi);
	if (first >= last || (!write && !m->dirty))
		return;
	protect(m, first, last, write ? PROT_NONE : PROT_READ);
	flush(m, first, last);
	if (write)
		memset(m->state + first, INVALID, last - first);
	if (first == m->lo && last == m->hi) {
		m->dirty = false;
		if (write) {
			m->reading = false; /* a touch waits now, whatever for */
			m->lo = m->hi = 0;
			atomic_fetch_sub(&ck_managed_active, 1);
		}
	}
}

/* A read protection must not open pages that are invalid: those between valid ones stay shut. */
static void surrender_to_reading(struct managed *m, size_t first, size_t last)
{
	first = ck_max(first, m->lo);
	last = ck_min(last, m->hi);
	while (first < last && m->dirty) {
		size_t end;

		first = skip(m, first, last, DIRTY, true);
		end = skip(m, first, last, DIRTY, false);
		if (first < end)
			surrender(m, first, end, false);
		first = end;
	}
}

static void lose(struct managed *m, CUresult err)
{
	static bool told;

	if (!told)
		ck_err("managed memory is out of reach (%s): it reads as zeros",
		       err == CUDA_ERROR_DEVICE_UNAVAILABLE ? "the server is lost" :
							      "the device has failed");
	told = true;
	m->lost = true;
	for (size_t page = 0; page < m->pages; page++) {
		if (m->state[page] == INVALID)
			memset(page_alias(m, page), 0, CK_PAGE);
	}
	protect(m, 0, m->pages, PROT_READ | PROT_WRITE);
	note(m, 0, m->pages, DIRTY);
}

/* Fill the invalid pages of [first, last) from the device; false: it is lost. */
static bool fill(struct managed *m, size_t first, size_t last)
{
	CUresult err = CUDA_SUCCESS;
	size_t end;

	for (; !err && first < last; first = end) {
		first = skip(m, first, last, INVALID, true);
		end = skip(m, first, ck_min(last, first + PIECE / CK_PAGE), INVALID, false);
		if (first < end)
			err = fetch_run(m, first, end);
	}
	if (err)
		lose(m, err);
	return !err;
}

/* The kernel bounds the number of stretches of different protection: make it one stretch. */
static void open_all(struct managed *m)
{
	if (fill(m, 0, m->pages) && protect(m, 0, m->pages, PROT_READ | PROT_WRITE) == 0)
		note(m, 0, m->pages, DIRTY);
}

/* Fetch the invalid pages of [first, last) and open them for reading. */
static void fetch(struct managed *m, size_t first, size_t last)
{
	size_t end;

	if (m->lost || !fill(m, first, last))
		return;
	for (; first < last; first = end) {
		first = skip(m, first, last, INVALID, true);
		end = skip(m, first, last, INVALID, false);
		if (first == end)
			return;
		if (protect(m, first, end, PROT_READ) < 0) {
			open_all(m);
			return;
		}
		note(m, first, end, CLEAN);
	}
}

/* Open the valid pages of [first, last) for writing. */
static void soil(struct managed *m, size_t first, size_t last)
{
	if (m->lost)
		return;
	if (protect(m, first, last, PROT_READ | PROT_WRITE) < 0)
		open_all(m);
	else
		note(m, first, last, DIRTY);
}

/* --- touches */

/* Pages in @state right before @page, at most @max. */
static size_t run_before(const struct managed *m, size_t page, size_t max, bool dirty)
{
	size_t n = 0;

	while (n < max && n < page &&
	       (dirty ? m->state[page - 1 - n] == DIRTY : m->state[page - 1 - n] != INVALID))
		n++;
	return n;
}

/*
 * How far a touch reaches: as many pages as were touched in order before it, so that what is
 * scanned comes in few messages and what is touched here and there alone.
 */
static void admit(struct managed *m, size_t page, bool write)
{
	size_t reach = ck_max(run_before(m, page, FETCH_MAX, false), (size_t)FETCH_FIRST);

	if (m->state[page] == INVALID)
		fetch(m, page, ck_min(m->pages, page + reach));
	if (!write || m->state[page] == DIRTY)
		return;
	reach = ck_max(run_before(m, page, WRITE_MAX, true), (size_t)1);
	soil(m, page, skip(m, page, ck_min(m->pages, page + reach), INVALID, true));
}

/* What a touch must wait for. */
struct busy {
	uint64_t ctx, stream, last;
	unsigned int wait;
};

/* True when the device may still work on what @m's pages hold; @b says how to wait for it. */
static bool is_busy(const struct managed *m, struct busy *b)
{
	bool global = m->attach == CU_MEM_ATTACH_GLOBAL;

	*b = (struct busy){ .ctx = m->ctx, .stream = m->stream, .last = ck_command_last(),
			    .wait = global ? CK_FETCH_CONTEXT : CK_FETCH_STREAM };
	if (m->lost || m->quiet == b->last)
		return false;
	return !global || m->context->synced != b->last;
}

/* Several devices may work on one memory. An error here will be the fetch's as well. */
static void wait_for(const struct busy *b)
{
	ck_wire_ck_fetch(b->ctx, 0, 0, 0, b->wait, b->stream, &(struct ck_sink){ 0 });
	for (int i = 0; i < ck_client.gpu_count && b->wait == CK_FETCH_CONTEXT; i++) {
		const struct ck_context *other = ck_client.gpus[i].primary;

		if (other->active && other->object.id != b->ctx)
			ck_wire_ck_fetch(other->object.id, 0, 0, 0, b->wait, 0,
					 &(struct ck_sink){ 0 });
	}
}

/*
 * The range of @address with the lock held, and no work of the device on it, when some page is to
 * be fetched, or written while the device may yet read it; NULL, without the lock: not tracked.
 */
static struct managed *settle(uint64_t address, size_t size, bool write, bool inside)
{
	struct managed *m;
	struct busy b = { 0 };

	for (bool waited = inside;; waited = true) {
		size_t first, last;
		bool alone;

		pthread_mutex_lock(&lock);
		m = find(address);
		if (!m)
			break;
		if (b.last)
			m->quiet = b.last;
		first = (address - m->base) / CK_PAGE;
		last = ck_min(m->pages, (address + size - m->base + CK_PAGE - 1) / CK_PAGE);
		alone = skip(m, first, last, INVALID, true) == last && !(write && m->reading);
		if (waited || alone || !is_busy(m, &b)) {
			m->reading = m->reading && !write;
			return m;
		}
		pthread_mutex_unlock(&lock);
		wait_for(&b);
	}
	pthread_mutex_unlock(&lock);
	return NULL;
}

int ck_managed_touch(uint64_t address, bool write, bool inside)
{
	struct managed *m = settle(address, 1, write, inside);
	size_t page;
	int ret;

	if (!m)
		return -ENOENT;
	page = (address - m->base) / CK_PAGE;
	admit(m, page, write);
	ret = m->state[page] == DIRTY || (m->state[page] == CLEAN && !write) ? 0 : -EFAULT;
	pthread_mutex_unlock(&lock);
	return ret;
}

/* Fetch what is invalid in a range, whole, and make it writable if it is to be written: its
 * alias, or NULL when it is not tracked. */
static char *prepare(uint64_t address, size_t size, bool write)
{
	struct managed *m = settle(address, size, write, ck_inside_callback);
	size_t first, last;
	char *alias;

	if (!m)
		return NULL;
	alias = m->alias + (address - m->base);
	first = (address - m->base) / CK_PAGE;
	last = ck_min(m->pages, (address + size - m->base + CK_PAGE - 1) / CK_PAGE);
	fetch(m, first, last);
	if (write)
		soil(m, first, last);
	pthread_mutex_unlock(&lock);
	return alias;
}

void *ck_managed_host(const void *p, size_t size, bool write)
{
	uint64_t address = (uintptr_t)p;

	char *alias;

	if (likely(!ck_managed_may_be(address)) || size == 0)
		return (void *)(uintptr_t)p;
	alias = prepare(address, size, write);
	return alias ? alias : (void *)(uintptr_t)p;
}

void ck_managed_need(uint64_t address, size_t size, bool write)
{
	prepare(address, size, write);
}

/* While the device is at work the pages are left to the first touch, which waits for it. */
void ck_managed_fetch(uint64_t address, size_t size)
{
	struct managed *m;
	struct busy b;

	pthread_mutex_lock(&lock);
	m = find(address);
	if (m && !is_busy(m, &b))
		fetch(m, (address - m->base) / CK_PAGE,
		      (address + size - m->base + CK_PAGE - 1) / CK_PAGE);
	pthread_mutex_unlock(&lock);
}

/* --- what is about to run */

#define ANY_STREAM UINT64_MAX

static bool may_use(const struct managed *m, uint64_t stream)
{
	if (stream == ANY_STREAM)
		return m->attach != CU_MEM_ATTACH_HOST;
	return m->attach == CU_MEM_ATTACH_GLOBAL ||
	       (m->attach == CU_MEM_ATTACH_SINGLE && m->stream == stream);
}

void ck_managed_launch(uint64_t stream)
{
	if (likely(atomic_load_explicit(&ck_managed_active, memory_order_relaxed) == 0))
		return;
	ck_fault_rearm();
	pthread_mutex_lock(&lock);
	for (size_t i = 0; i < ck_ranges_count(table); i++) {
		struct managed *m = ck_ranges_at(table, i)->value;

		if (is_active(m) && may_use(m, stream) && !m->lost)
			surrender(m, 0, m->pages, true);
	}
	pthread_mutex_unlock(&lock);
}

void ck_managed_function_done(void)
{
	ck_aside = true;
	ck_managed_launch(ANY_STREAM);
	ck_aside = false;
}

void ck_managed_device(uint64_t address, size_t size, bool write)
{
	struct managed *m;

	if (likely(atomic_load_explicit(&ck_managed_active, memory_order_relaxed) == 0) ||
	    size == 0)
		return;
	ck_fault_rearm();
	pthread_mutex_lock(&lock);
	m = find(address);
	if (m && is_active(m) && !m->lost) {
		size_t first = (address - m->base) / CK_PAGE;
		size_t last = (address + size - m->base + CK_PAGE - 1) / CK_PAGE;

		if (write)
			surrender(m, first, last, true);
		else
			surrender_to_reading(m, first, last);
		m->reading |= !write;
	}
	pthread_mutex_unlock(&lock);
}

/* --- ranges */

/* Enter a range whose pages are all in @state. The lock is held. */
static CUresult insert(struct managed *m, enum page state)
{
	CUresult err = CUDA_SUCCESS;

	if (!table)
		table = ck_ranges_create();
	if (!table || ck_ranges_insert(table, m->base, page_address(m, m->pages), m) < 0)
		err = CUDA_ERROR_OUT_OF_MEMORY;
	else if (state != INVALID)
		note(m, 0, m->pages, state);
	return err;
}

/* All pages are dirty at first: they are open, and what is in them is what counts. */
CUresult ck_managed_track(uint64_t base, size_t size, struct ck_context *context,
			  unsigned int attach)
{
	struct managed *m;
	CUresult err = CUDA_ERROR_OUT_OF_MEMORY;

	if (ck_fault_start() < 0)
		return CUDA_ERROR_OUT_OF_MEMORY;
	m = calloc(1, sizeof(*m));
	if (!m)
		return err;
	*m = (struct managed){ .base = base, .pages = CK_ALIGN_UP(size, CK_PAGE) / CK_PAGE,
			       .context = context, .ctx = context->object.id, .attach = attach,
			       .attached_first = attach, .alias = ck_window_alias(base) };
	m->state = calloc(m->pages, 1);
	pthread_mutex_lock(&lock);
	if (m->state)
		err = insert(m, DIRTY);
	pthread_mutex_unlock(&lock);
	if (err) {
		free(m->state);
		free(m);
	}
	return err;
}

/* --- variables: pages at addresses that the server's driver has chosen */

#define PLACES 256

/* Where they are, for handlers and system calls, which cannot take the lock. */
static struct {
	_Atomic uint64_t lo, hi;
} places[PLACES];

bool ck_managed_foreign(uint64_t address)
{
	for (size_t i = 0; i < PLACES; i++) {
		if (address >= places[i].lo && address < places[i].hi)
			return true;
	}
	return false;
}

/* Replace the place that begins at @was; false: there is none. The lock is held. */
static bool place_set(uint64_t was, uint64_t lo, uint64_t hi)
{
	for (size_t i = 0; i < PLACES; i++) {
		if (places[i].lo != was)
			continue;
		places[i].hi = 0;
		places[i].lo = lo;
		places[i].hi = hi;
		return true;
	}
	return false;
}

/* Pages of a file in memory at @m's address, shut, and their alias; false: not possible. */
static bool open_pages(struct managed *m)
{
	size_t size = m->pages * CK_PAGE;
	int fd = memfd_create("cricket variables", MFD_CLOEXEC);
	void *view = (void *)(uintptr_t)m->base;
	bool done = false;

	if (fd >= 0 && ftruncate(fd, (off_t)size) == 0) {
		m->alias = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
		done = m->alias != MAP_FAILED &&
		       mmap(view, size, PROT_NONE, MAP_SHARED | MAP_FIXED, fd, 0) != MAP_FAILED;
	}
	if (done) {
		madvise(view, size, MADV_DONTFORK);
		madvise(m->alias, size, MADV_DONTFORK);
	}
	close(fd);
	return done;
}

/* The addresses stay reserved: the driver may hand them out again. */
static void shut(struct managed *m)
{
	size_t size = m->pages * CK_PAGE;

	mmap((void *)(uintptr_t)m->base, size, PROT_NONE,
	     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
	munmap(m->alias, size);
	place_set(m->base, 0, 0);
	atomic_fetch_sub(&ck_managed_elsewhere, 1);
}

/* Take @m out; with @keep, its pages are fetched and opened. The lock is held. */
static void drop(struct managed *m, bool keep)
{
	if (keep) {
		fetch(m, 0, m->pages);
		protect(m, 0, m->pages, PROT_READ | PROT_WRITE);
	}
	if (is_active(m))
		atomic_fetch_sub(&ck_managed_active, 1);
	ck_ranges_remove(table, m->base, NULL);
	if (m->users > 0)
		shut(m);
	free(m->parts);
	free(m->state);
	free(m);
}

/* A range for pages [lo, hi), none of which is tracked. */
static CUresult adopt_pages(uint64_t lo, uint64_t hi, struct ck_context *context)
{
	struct managed *m = calloc(1, sizeof(*m));
	CUresult err = CUDA_ERROR_OUT_OF_MEMORY;

	if (!m)
		return err;
	*m = (struct managed){ .base = lo, .pages = (hi - lo) / CK_PAGE, .context = context,
			       .ctx = context->object.id, .attach = CU_MEM_ATTACH_GLOBAL,
			       .attached_first = CU_MEM_ATTACH_GLOBAL };
	m->state = calloc(m->pages, 1);
	pthread_mutex_lock(&lock);
	if (m->state && place_set(0, lo, hi)) {
		if (open_pages(m))
			err = insert(m, INVALID);
		if (err)
			place_set(lo, 0, 0);
	}
	pthread_mutex_unlock(&lock);
	if (err) {
		free(m->state);
		free(m);
		return err;
	}
	atomic_fetch_add(&ck_managed_elsewhere, 1);
	return CUDA_SUCCESS;
}

/* [from, to) is one more variable in the pages of @m: more of them is the device's from now on. */
static CUresult add_part(struct managed *m, uint64_t from, uint64_t to)
{
	struct part *more = realloc(m->parts, (m->users + 1) * sizeof(*more));

	if (!more)
		return CUDA_ERROR_OUT_OF_MEMORY;
	m->parts = more;
	surrender(m, 0, m->pages, true);
	m->parts[m->users++] = (struct part){ from, to };
	return CUDA_SUCCESS;
}

/* The tracked range at or behind @lo, before @hi. */
static struct managed *next_range(uint64_t lo, uint64_t hi)
{
	const struct ck_range *r = table ? ck_ranges_overlap(table, lo, hi) : NULL;

	return r ? r->value : NULL;
}

CUresult ck_managed_adopt(uint64_t at, size_t size, struct ck_context *context)
{
	uint64_t lo = at & ~(CK_PAGE - 1), hi = CK_ALIGN_UP(at + size, CK_PAGE);
	CUresult err = CUDA_SUCCESS;

	if (!ck_address_claim(at, size)) {
		ck_err("a __managed__ variable is at %#llx on the server, where this process has "
		       "something else", (unsigned long long)at);
		return CUDA_ERROR_NOT_SUPPORTED;
	}
	if (ck_fault_start() < 0)
		return CUDA_ERROR_OUT_OF_MEMORY;
	while (!err && lo < hi) {
		struct managed *m;
		uint64_t next;

		pthread_mutex_lock(&lock);
		m = next_range(lo, hi);
		next = !m ? hi : m->base > lo ? m->base : page_address(m, m->pages);
		if (m && m->base <= lo) {
			err = add_part(m, ck_max(at, m->base), ck_min(at + size, next));
			lo = next;
		}
		pthread_mutex_unlock(&lock);
		if (!m || m->base > lo)
			err = adopt_pages(lo, next, context);
	}
	return err;
}

/* False: there is no other variable in the pages. */
static bool remove_part(struct managed *m, uint64_t from)
{
	unsigned int i = 0;

	while (i < m->users && m->parts[i].from != from)
		i++;
	if (m->users < 2 || i == m->users)
		return m->users > 1;
	m->parts[i] = m->parts[--m->users];
	return true;
}

void ck_managed_leave(uint64_t at, size_t size)
{
	uint64_t lo = at & ~(CK_PAGE - 1);
	struct managed *m;

	pthread_mutex_lock(&lock);
	while ((m = next_range(lo, at + size)) != NULL) {
		lo = page_address(m, m->pages);
		if (!remove_part(m, ck_max(at, m->base)))
			drop(m, false);
	}
	pthread_mutex_unlock(&lock);
}

bool ck_managed_untrack(uint64_t base, bool keep)
{
	struct managed *m;
	bool found = true;

	if (keep) {
		m = settle(base, SIZE_MAX / 2, true, false);
	} else {
		pthread_mutex_lock(&lock);
		m = find(base);
	}
	if (m && m->base == base)
		drop(m, keep);
	else
		found = false;
	if (m || !keep)
		pthread_mutex_unlock(&lock);
	return found;
}

void ck_managed_forget(struct ck_context *context)
{
	pthread_mutex_lock(&lock);
	for (size_t i = table ? ck_ranges_count(table) : 0; i-- > 0;) {
		struct managed *m = ck_ranges_at(table, i)->value;

		if (m->context == context)
			drop(m, false);
	}
	context->copies = 0;
	pthread_mutex_unlock(&lock);
}

bool ck_managed_is(uint64_t address)
{
	bool is;

	pthread_mutex_lock(&lock);
	is = find(address) != NULL;
	pthread_mutex_unlock(&lock);
	return is;
}

void ck_managed_attach(uint64_t base, unsigned int attach, uint64_t stream)
{
	struct managed *m;

	pthread_mutex_lock(&lock);
	m = find(base);
	if (m) {
		m->attach = attach;
		m->stream = stream;
		m->quiet = 0;
	}
	pthread_mutex_unlock(&lock);
}

void ck_managed_detach(uint64_t stream)
{
	pthread_mutex_lock(&lock);
	for (size_t i = 0; table && i < ck_ranges_count(table); i++) {
		struct managed *m = ck_ranges_at(table, i)->value;

		if (m->stream == stream) {
			m->attach = m->attached_first;
			m->stream = 0;
		}
	}
	pthread_mutex_unlock(&lock);
}
