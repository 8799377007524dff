/*
 * client/memory/adopt.c - see client/memory/adopt.h.
 *
 * Pages are exchanged in pieces. Each piece is write-protected, copied, and replaced by one system
 * call, so the program's threads can continue: a thread that writes faults and retries. The first
 * and last page may also contain other memory of the program, such as neighbours in the heap; it is
 * exchanged along with them.
 *
 * A page of the shared file would break CUDA's rules for fork, so the child gets private pages. It
 * copies them itself, because the locks of the C library are in order there. The parent's fork
 * returns after that, or the child would copy what the parent writes next.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "client/managed/fault.h"
#include "client/managed/page_allocator.h"
#include "client/memory/adopt.h"
#include "client/memory/pinned.h"
#include "client/link/hooks.h"
#include "util/cancel.h"
#include "util/log.h"
#include "util/page.h"
#include "util/process/proc_file.h"
#include "util/until.h"

CK_LOG_DEFINE("client");

#define PIECE ((size_t)2 << 20)		 /* exchanged at a time; blocks writers */
#define COPIED_AT_FORK ((size_t)4 << 20) /* the child gets larger memory copy-on-write */
#define LATE_NS 1000000000u		 /* a fault may be handled this long after the exchange */
#define COPY_NS 1000000000u		 /* a child that has not copied by then has been stopped */
#define PAUSE_NS 20000

/* An exchanged range. */
struct ckc_adopted {
	char *at;
	size_t size, offset; /* in the file */
	struct ckc_adopted *next;
};

/* Of the process, as its pages are, whichever session they are registered with. */
static struct {
	struct ck_mutex lock;
	struct ckc_adopted *list;
	/* The current or last exchange, for the fault handler; moved_ns is 0 during it. */
	_Atomic uint64_t moving_lo, moving_hi, moved_ns;
	_Atomic bool *copied; /* shared with the child of a fork; NULL: no memory for that */
} adoptions = {.lock = CK_MUTEX(CK_RANK_ADOPTIONS)};

static void pause_briefly(void)
{
	const struct timespec pause = {.tv_nsec = PAUSE_NS};

	nanosleep(&pause, NULL);
}

/* May an exchange have caused a fault at @address? If so, wait a moment: the access is to be
 * retried. Runs in a signal handler. */
static bool may_retry(uint64_t address)
{
	uint64_t end;

	if (address < adoptions.moving_lo || address >= adoptions.moving_hi)
		return false;
	end = adoptions.moved_ns;
	if (end && ck_now_ns() - end > LATE_NS)
		return false;
	pause_briefly();
	return true;
}
CK_ON_FAULT(may_retry);

/* --- which memory */

/*
 * Is it the program's own private memory, and not the current stack? Mappings of files are
 * accepted, as static data needs; devices and huge pages are not.
 */
static bool is_private(const struct ck_own_mapping *m)
{
	uint64_t here = (uintptr_t)__builtin_frame_address(0);

	return strcmp(m->rights, "rw-p") == 0 && !(here >= m->lo && here < m->hi) &&
	       strcmp(m->name, "[stack]") != 0 && strncmp(m->name, "/dev/", 5) != 0 &&
	       strncmp(m->name, "/anon_hugepage", 14) != 0;
}

/* Is it still mapped from the file? A program may have unmapped it directly. */
static bool is_of_file(const struct ck_own_mapping *m)
{
	return strcmp(m->rights, "rw-s") == 0 && strncmp(m->name, "/memfd:cricket", 14) == 0;
}

/* --- exchange; call with the lock held */

typedef bool (*exchange_fn)(const struct ckc_adopted *a, size_t done, size_t size, void *how);

/* Copy whole pages, including other memory of the program in them, which AddressSanitizer's memcpy
 * would report. */
static void copy_pages(void *to, const void *from, size_t size)
{
#if defined(__x86_64__)
	__asm__ volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(size) : : "memory");
#elif defined(__aarch64__)
	uint64_t low, high;

	__asm__ volatile("1:	ldp %3, %4, [%1], #16\n"
			 "	stp %3, %4, [%0], #16\n"
			 "	subs %2, %2, #16\n"
			 "	b.ne 1b\n"
			 : "+r"(to), "+r"(from), "+r"(size), "=&r"(low), "=&r"(high)
			 :
			 : "memory", "cc");
#endif
}

/* Replace the program's pages by pages of the file; @view is the client's mapping of the file. */
static bool to_file(const struct ckc_adopted *a, size_t done, size_t size, void *view)
{
	copy_pages((char *)view + done, a->at + done, size);
	return mmap(a->at + done, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED,
		    ckc_pinned_fd(), (off_t)(a->offset + done)) != MAP_FAILED;
}

/* Replace pages of the file by the new pages at @fresh. */
static bool from_file(const struct ckc_adopted *a, size_t done, size_t size, void *fresh)
{
	copy_pages((char *)fresh + done, a->at + done, size);
	return mremap((char *)fresh + done, size, size, MREMAP_MAYMOVE | MREMAP_FIXED,
		      a->at + done) != MAP_FAILED;
}

/*
 * Exchange piece by piece. While a piece is write-protected, take no lock, allocate nothing and
 * block signals: any of these might write to the piece.
 */
static bool exchange_pages(const struct ckc_adopted *a, exchange_fn replace, void *how)
{
	sigset_t every, was;
	bool done = true;

	sigfillset(&every);
	adoptions.moved_ns = 0;
	adoptions.moving_hi = 0;
	adoptions.moving_lo = (uintptr_t)a->at;
	adoptions.moving_hi = (uintptr_t)a->at + a->size;
	for (size_t at = 0; done && at < a->size; at += PIECE) {
		size_t size = ck_min(a->size - at, PIECE);

		pthread_sigmask(SIG_SETMASK, &every, &was);
		done = mprotect(a->at + at, size, PROT_READ) == 0;
		done = done && replace(a, at, size, how);
		if (!done)
			mprotect(a->at + at, size, PROT_READ | PROT_WRITE);
		pthread_sigmask(SIG_SETMASK, &was, NULL);
	}
	adoptions.moved_ns = ck_now_ns();
	return done;
}

static bool make_private(const struct ckc_adopted *a)
{
	void *fresh =
		mmap(NULL, a->size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	return fresh != MAP_FAILED && exchange_pages(a, from_file, fresh);
}

static bool make_shared(const struct ckc_adopted *a)
{
	void *view = mmap(NULL, a->size, PROT_READ | PROT_WRITE, MAP_SHARED, ckc_pinned_fd(),
			  (off_t)a->offset);
	bool done;

	if (view == MAP_FAILED)
		return false;
	done = exchange_pages(a, to_file, view);
	munmap(view, a->size);
	return done;
}

/* --- fork */

/* In the child: replace pages of the file by private ones, copied now with @copy if that is
 * possible, else on write. False: they are the parent's as before. */
static bool leave_shared(const struct ckc_adopted *a, char *at, size_t size, bool copy)
{
	void *fresh =
		copy ? mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)
		     : MAP_FAILED;

	if (fresh != MAP_FAILED) {
		memcpy(fresh, at, size);
		if (mremap(fresh, size, size, MREMAP_MAYMOVE | MREMAP_FIXED, at) != MAP_FAILED)
			return true;
		munmap(fresh, size);
	}
	return mmap(at, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED, ckc_pinned_fd(),
		    (off_t)(a->offset + (size_t)(at - a->at))) != MAP_FAILED;
}

/* Always copy the outer pages: they also contain other memory of the program. With too many
 * mappings, replace all pages at once, which needs none more. */
static void leave_all_shared(const struct ckc_adopted *a)
{
	size_t page = ck_page();
	bool left;

	if (a->size <= COPIED_AT_FORK)
		left = leave_shared(a, a->at, a->size, true);
	else
		left = leave_shared(a, a->at, page, true) &&
		       leave_shared(a, a->at + a->size - page, page, true) &&
		       leave_shared(a, a->at + page, a->size - 2 * page, false);
	if (!left)
		leave_shared(a, a->at, a->size, false);
}

static void in_child(void)
{
	for (const struct ckc_adopted *a = adoptions.list; a; a = a->next) {
		if (ck_mappings_all((uintptr_t)a->at, a->size, is_of_file))
			leave_all_shared(a);
	}
	if (adoptions.copied)
		*adoptions.copied = true;
	adoptions.copied = NULL; /* the parent's */
	adoptions.list = NULL;
	ck_unlock(&adoptions.lock);
}

static void before_fork(void)
{
	void *page;

	ck_lock(&adoptions.lock);
	if (adoptions.list && !adoptions.copied) {
		page = mmap(NULL, ck_page(), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
			    0);
		adoptions.copied = page == MAP_FAILED ? NULL : page;
	}
	if (adoptions.copied)
		*adoptions.copied = false;
}

/* If the fork has failed, which handlers do not learn, this waits in vain. */
static void after_fork(void)
{
	uint64_t end = ck_now_ns() + COPY_NS;
	int cancel = ck_cancel_disable();

	while (adoptions.list && adoptions.copied && !*adoptions.copied && ck_now_ns() < end)
		pause_briefly();
	ck_unlock_uncancelled(&adoptions.lock, cancel);
}

/* --- called from other files */

/* Install the fault handler and the fork handlers. Both must exist before pages are protected. */
static bool install_handlers(void)
{
	static bool prepared;

	if (!prepared)
		prepared = ckc_fault_start() == 0 &&
			   pthread_atfork(before_fork, after_fork, in_child) == 0;
	ckc_fault_rearm();
	return prepared;
}

/* Pages that cannot be exchanged back, for lack of memory, stay in the file. */
static void end_adoption(uint64_t ctx, uint64_t address, const struct ckc_adopted *a)
{
	ck_wire_pinned_unmap(ctx, address);
	if (ck_mappings_all((uintptr_t)a->at, a->size, is_of_file) && make_private(a))
		ckc_pinned_unreserve(a->offset, a->size);
}

/* Register with the worker first, which may refuse, then exchange the pages. */
static CUresult adopt_pages(uint64_t ctx, uint64_t address, size_t size, struct ckc_adopted *a)
{
	CUresult err;

	if (!ckc_pinned_reserve(ctx, a->size, &a->offset))
		return CUDA_ERROR_OUT_OF_MEMORY;
	err = ck_wire_pinned_map(ctx, address, size, a->offset, 0);
	if (err) {
		ckc_pinned_unreserve(a->offset, a->size);
		return err;
	}
	if (!make_shared(a)) {
		ck_wire_pinned_unmap(ctx, address);
		if (make_private(a))
			ckc_pinned_unreserve(a->offset, a->size);
		return CUDA_ERROR_NOT_SUPPORTED;
	}
	a->next = adoptions.list;
	adoptions.list = a;
	return CUDA_SUCCESS;
}

CUresult ckc_adopt(uint64_t ctx, uint64_t address, size_t size)
{
	uint64_t lo = address & ~(ck_page() - 1), hi = CK_ALIGN_UP(address + size, ck_page());
	CUresult err = CUDA_ERROR_NOT_SUPPORTED;
	struct ckc_adopted *a;
	int cancel;

	if (!ckc_pinned_open())
		return err;
	a = malloc(sizeof(*a));
	if (!a)
		return CUDA_ERROR_OUT_OF_MEMORY;
	*a = (struct ckc_adopted){.at = (char *)lo, .size = hi - lo};
	cancel = ck_lock_uncancelled(&adoptions.lock);
	if (ck_mappings_all((uintptr_t)a->at, a->size, is_private) && install_handlers())
		err = adopt_pages(ctx, address, size, a);
	ck_unlock_uncancelled(&adoptions.lock, cancel);
	if (err) {
		ck_debug("registered memory at %#llx is not shared: %d",
			 (unsigned long long)address, (int)err);
		free(a);
	}
	return err;
}

void ckc_adopt_end(uint64_t ctx, uint64_t address)
{
	uint64_t lo = address & ~(ck_page() - 1);
	struct ckc_adopted **at = &adoptions.list, *a;
	int cancel = ck_lock_uncancelled(&adoptions.lock);

	while (*at && (uintptr_t)(*at)->at != lo)
		at = &(*at)->next;
	a = *at;
	if (a) {
		*at = a->next;
		ckc_fault_rearm();
		end_adoption(ctx, address, a);
	}
	ck_unlock_uncancelled(&adoptions.lock, cancel);
	free(a);
}
