/*
 * client/memory/adopt.c - see client/memory/adopt.h.
 *
 * Pages are exchanged in pieces: shut for writing, copied, replaced by one system call. So the
 * program's threads may go on meanwhile: one that writes gets a fault and tries again. What shares
 * the first and the last page with the program's bytes, as its neighbours in the heap do, comes
 * along.
 *
 * What CUDA promises of such memory and a shared page does not, is kept at a fork: the child gets
 * pages of its own.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "client/memory/adopt.h"
#include "client/memory/state.h"
#include "client/managed/fault.h"
#include "client/memory/pinned.h"
#include "client/managed/space.h"
#include "client/wire/hooks.h"
#include "util/cancel.h"
#include "util/log.h"

CK_LOG_DEFINE("client");

#define PIECE ((size_t)2 << 20)		/* exchanged at a time: a writer waits for so long */
#define COPIED_AT_FORK ((size_t)4 << 20) /* larger memory is shared with a child until it writes */
#define LATE_NS 1000000000u		/* how late the handler of a fault may run */
#define PAUSE_NS 20000

/* Pages that have been exchanged. */
struct ck_adopted {
	char *at;
	size_t size, offset;		/* in the file */
	struct ck_adopted *next;
};

static struct ck_adoptions *adoptions(void)
{
	return &ck_client_current()->memory->adoptions;
}

static uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

bool ck_adopt_retry(uint64_t address)
{
	/* in a signal handler, which stands since there is a session */
	const struct ck_adoptions *all = &ck_client_default->memory->adoptions;
	const struct timespec pause = { .tv_nsec = PAUSE_NS };
	uint64_t end;

	if (address < all->moving_lo || address >= all->moving_hi)
		return false;
	end = all->moved_ns;
	if (end && now_ns() - end > LATE_NS)
		return false;
	nanosleep(&pause, NULL);
	return true;
}
CK_ON_FAULT(ck_adopt_retry);

/* --- which memory */

/* One line of /proc/self/maps. */
struct mapping {
	uint64_t lo, hi;
	char rights[5];
	char name[32];
};

static bool next_mapping(FILE *maps, struct mapping *m)
{
	char line[512];
	int c = 0;

	if (!fgets(line, sizeof(line), maps))
		return false;
	if (!strchr(line, '\n'))	/* a long path: the rest of the line is of no interest */
		while ((c = fgetc(maps)) != '\n' && c != EOF)
			;
	m->name[0] = '\0';
	return sscanf(line, "%lx-%lx %4s %*s %*s %*s %31s", &m->lo, &m->hi, m->rights,
		      m->name) >= 3;
}

/*
 * The program's own: private, and not the stack that we are on. Of a file too, as static data is:
 * what it has in memory is what counts. But devices and huge pages are another matter.
 */
static bool is_private(const struct mapping *m)
{
	uint64_t here = (uintptr_t)__builtin_frame_address(0);

	return strcmp(m->rights, "rw-p") == 0 && !(here >= m->lo && here < m->hi) &&
	       strcmp(m->name, "[stack]") != 0 && strncmp(m->name, "/dev/", 5) != 0 &&
	       strncmp(m->name, "/anon_hugepage", 14) != 0;
}

/* Pages of the file, still. A program may have given them back without a word. */
static bool is_of_file(const struct mapping *m)
{
	return strcmp(m->rights, "rw-s") == 0 && strncmp(m->name, "/memfd:cricket", 14) == 0;
}

/* Are all the pages of @a such? */
static bool all_are(const struct ck_adopted *a, bool (*such)(const struct mapping *m))
{
	uint64_t lo = (uintptr_t)a->at, hi = lo + a->size;
	FILE *maps = fopen("/proc/self/maps", "re");
	struct mapping m;
	bool are = true;

	if (!maps)
		return false;
	while (are && lo < hi && next_mapping(maps, &m)) {
		if (m.hi <= lo)
			continue;
		are = m.lo <= lo && such(&m);
		lo = m.hi;
	}
	fclose(maps);
	return are && lo >= hi;
}

/* --- exchanging. The lock is held. */

typedef bool (*exchange_fn)(const struct ck_adopted *a, size_t done, size_t size, void *how);

/* Whole pages, and what of the program's lies around the memory with them: AddressSanitizer's memcpy
 * would take that for a mistake. */
static void copy_pages(void *to, const void *from, size_t size)
{
	__asm__ volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(size) : : "memory");
}

/* Pages of the file in place of the program's; @view is where we see the file. */
static bool to_file(const struct ck_adopted *a, size_t done, size_t size, void *view)
{
	copy_pages((char *)view + done, a->at + done, size);
	return mmap(a->at + done, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED,
		    ck_pinned_fd(), (off_t)(a->offset + done)) != MAP_FAILED;
}

/* New pages, at @fresh so far, in place of those of the file. */
static bool from_file(const struct ck_adopted *a, size_t done, size_t size, void *fresh)
{
	copy_pages((char *)fresh + done, a->at + done, size);
	return mremap((char *)fresh + done, size, size, MREMAP_MAYMOVE | MREMAP_FIXED,
		      a->at + done) != MAP_FAILED;
}

/*
 * Piece by piece. While one is shut we take no lock, allocate nothing and take no signal: what
 * these would write to may be in it.
 */
static bool exchange(struct ck_adoptions *all, const struct ck_adopted *a, exchange_fn replace,
		     void *how)
{
	sigset_t every, was;
	bool done = true;

	sigfillset(&every);
	all->moved_ns = 0;
	all->moving_hi = 0;
	all->moving_lo = (uintptr_t)a->at;
	all->moving_hi = (uintptr_t)a->at + a->size;
	for (size_t at = 0; done && at < a->size; at += PIECE) {
		size_t size = ck_min(a->size - at, PIECE);

		pthread_sigmask(SIG_SETMASK, &every, &was);
		done = mprotect(a->at + at, size, PROT_READ) == 0;
		done = done && replace(a, at, size, how);
		if (!done)
			mprotect(a->at + at, size, PROT_READ | PROT_WRITE);
		pthread_sigmask(SIG_SETMASK, &was, NULL);
	}
	all->moved_ns = now_ns();
	return done;
}

static bool make_private(struct ck_adoptions *all, const struct ck_adopted *a)
{
	void *fresh = mmap(NULL, a->size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
			   0);

	return fresh != MAP_FAILED && exchange(all, a, from_file, fresh);
}

static bool make_shared(struct ck_adoptions *all, const struct ck_adopted *a)
{
	void *view = mmap(NULL, a->size, PROT_READ | PROT_WRITE, MAP_SHARED, ck_pinned_fd(),
			  (off_t)a->offset);
	bool done;

	if (view == MAP_FAILED)
		return false;
	done = exchange(all, a, to_file, view);
	munmap(view, a->size);
	return done;
}

/* --- fork */

/* In the child: no page of the file where the program had pages of its own. */
static void leave_shared(const struct ck_adopted *a, char *at, size_t size, bool copy)
{
	void *fresh = copy ? mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
				  -1, 0) : MAP_FAILED;

	if (fresh != MAP_FAILED) {
		memcpy(fresh, at, size);
		mremap(fresh, size, size, MREMAP_MAYMOVE | MREMAP_FIXED, at);
	} else {
		mmap(at, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED, ck_pinned_fd(),
		     (off_t)(a->offset + (size_t)(at - a->at)));
	}
}

/* The outer pages hold other memory of the program too, which must stay as it was. */
static void in_child(void)
{
	struct ck_adoptions *all = adoptions();

	for (const struct ck_adopted *a = all->list; a; a = a->next) {
		if (!all_are(a, is_of_file))
			continue;
		if (a->size <= COPIED_AT_FORK) {
			leave_shared(a, a->at, a->size, true);
			continue;
		}
		leave_shared(a, a->at, CK_PAGE, true);
		leave_shared(a, a->at + a->size - CK_PAGE, CK_PAGE, true);
		leave_shared(a, a->at + CK_PAGE, a->size - 2 * CK_PAGE, false);
	}
	ck_unlock(&all->lock);
}

static void before_fork(void)
{
	struct ck_adoptions *all = adoptions();

	ck_lock(&all->lock);
}

static void after_fork(void)
{
	struct ck_adoptions *all = adoptions();

	ck_unlock(&all->lock);
}

/* --- what others call */

/* The handler must stand before anything is shut, and so must the handlers of a fork. */
static bool prepare(void)
{
	static bool prepared;

	if (!prepared)
		prepared = ck_fault_start() == 0 &&
			   pthread_atfork(before_fork, after_fork, in_child) == 0;
	ck_fault_rearm();
	return prepared;
}

/* Pages that are not exchanged back, for want of memory say, stay the program's in the file. */
static void end(struct ck_adoptions *all, uint64_t ctx, uint64_t address,
		const struct ck_adopted *a)
{
	ck_wire_ck_pinned_unmap(ctx, address);
	if (all_are(a, is_of_file) && make_private(all, a))
		ck_pinned_unreserve(a->offset, a->size);
}

/* First the worker, which may refuse, then the pages. */
static CUresult adopt(struct ck_adoptions *all, uint64_t ctx, uint64_t address, size_t size,
		      struct ck_adopted *a)
{
	CUresult err;

	if (!ck_pinned_reserve(ctx, a->size, &a->offset))
		return CUDA_ERROR_OUT_OF_MEMORY;
	err = ck_wire_ck_pinned_map(ctx, address, size, a->offset, 0);
	if (err) {
		ck_pinned_unreserve(a->offset, a->size);
		return err;
	}
	if (!make_shared(all, a)) {
		ck_wire_ck_pinned_unmap(ctx, address);
		if (make_private(all, a))
			ck_pinned_unreserve(a->offset, a->size);
		return CUDA_ERROR_NOT_SUPPORTED;
	}
	a->next = all->list;
	all->list = a;
	return CUDA_SUCCESS;
}

CUresult ck_adopt(uint64_t ctx, uint64_t address, size_t size)
{
	struct ck_adoptions *all = adoptions();
	uint64_t lo = address & ~(CK_PAGE - 1), hi = CK_ALIGN_UP(address + size, CK_PAGE);
	CUresult err = CUDA_ERROR_NOT_SUPPORTED;
	struct ck_adopted *a;
	int cancel;

	if (!ck_pinned_open())
		return err;
	a = malloc(sizeof(*a));
	if (!a)
		return CUDA_ERROR_OUT_OF_MEMORY;
	*a = (struct ck_adopted){ .at = (char *)lo, .size = hi - lo };
	cancel = ck_lock_uncancelled(&all->lock);
	if (all_are(a, is_private) && prepare())
		err = adopt(all, ctx, address, size, a);
	ck_unlock_uncancelled(&all->lock, cancel);
	if (err) {
		ck_debug("registered memory at %#llx is not shared: %d",
			 (unsigned long long)address, (int)err);
		free(a);
	}
	return err;
}

void ck_adopt_end(uint64_t ctx, uint64_t address)
{
	struct ck_adoptions *all = adoptions();
	uint64_t lo = address & ~(CK_PAGE - 1);
	struct ck_adopted **at = &all->list, *a;
	int cancel = ck_lock_uncancelled(&all->lock);

	while (*at && (uintptr_t)(*at)->at != lo)
		at = &(*at)->next;
	a = *at;
	if (a) {
		*at = a->next;
		ck_fault_rearm();
		end(all, ctx, address, a);
	}
	ck_unlock_uncancelled(&all->lock, cancel);
	free(a);
}
