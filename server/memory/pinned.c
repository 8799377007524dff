/*
 * server/memory/pinned.c - pinned memory that a client on this host shares.
 *
 * The client has sent the descriptor of a memory file, sealed against shrinking, so no access here
 * can fail. Pieces of it are mapped at the client's addresses and registered with the driver, which
 * then knows them by these addresses. Only the driver accesses them, on the client's behalf.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/falloc.h>
#include <linux/magic.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "gen/handlers.h"
#include "server/memory/pinned.h"
#include "server/session/locks.h"
#include "server/session/session.h"
#include "server/session/user_messages.h"
#include "util/log.h"
#include "util/page.h"
#include "util/range.h"
#include "util/util.h"

CK_LOG_DEFINE("server");

#ifndef MAP_FIXED_NOREPLACE
#define MAP_FIXED_NOREPLACE 0x100000
#endif

#define PAGE ck_page()
#define SIZE_MOST ((size_t)4 << 40)

struct cks_pinned {
	/* Read: while a copy is enqueued, or waited for; written: mappings go. */
	pthread_rwlock_t moves; /* taken before the other lock */
	struct ck_mutex lock;
	int file;	 /* -1: none yet */
	size_t size;	 /* of the file */
	uint64_t lo, hi; /* addresses reserved for it here */
	size_t most;	 /* bytes */
	_Atomic size_t registered;
	struct ck_ranges *pieces; /* the registered ranges; values: struct piece */
};

struct piece {
	uint64_t address, ctx;
	size_t size;
};

int cks_pinned_create(struct cks_pinned **out)
{
	struct cks_pinned *p = calloc(1, sizeof(*p));

	if (!p)
		return -ENOMEM;
	p->pieces = ck_ranges_create();
	if (!p->pieces) {
		free(p);
		return -ENOMEM;
	}
	p->file = -1;
	p->most = SIZE_MOST;
	/* a steady stream of copies (readers) must not starve an unmap (writer), and with it the
	 * command thread */
	p->moves = (pthread_rwlock_t)PTHREAD_RWLOCK_WRITER_NONRECURSIVE_INITIALIZER_NP;
	p->lock = (struct ck_mutex)CK_MUTEX(CK_RANK_PINNED);
	*out = p;
	return 0;
}

void cks_pinned_bound(struct cks_pinned *p, size_t most)
{
	p->most = most;
}

bool cks_pinned_charge(struct cks_pinned *p, size_t size)
{
	size_t now = atomic_load(&p->registered);

	do {
		if (now > p->most || size > p->most - now)
			return false;
	} while (!atomic_compare_exchange_weak(&p->registered, &now, now + size));
	return true;
}

void cks_pinned_refund(struct cks_pinned *p, size_t size)
{
	atomic_fetch_sub(&p->registered, size);
}

void cks_pinned_report(const struct cks_pinned *p)
{
	char line[128];

	ck_warn("a session tries to pin more than %zu bytes of host memory: refused "
		"(--pinned-memory)",
		p->most);
	snprintf(line, sizeof(line),
		 "no more pinned memory: the limit is %zu MiB (--pinned-memory, or the policy's "
		 "host_memory)",
		 p->most >> 20);
	cks_user_messages_refuse(line);
}

/* --- mappings; call with the lock held */

/* The pages of a piece. The rest of its last page is mapped with it. */
static void *pages_of(uint64_t address, size_t size, size_t *length)
{
	uint64_t first = address & ~(PAGE - 1);

	*length = CK_ALIGN_UP(address + size, PAGE) - first;
	return (void *)(uintptr_t)first;
}

/* Lock before unmapping: a concurrent copy would access whatever is mapped there next. */
static void lock_for_end(struct cks_pinned *p)
{
	pthread_rwlock_wrlock(&p->moves);
	ck_lock(&p->lock);
}

static void unlock_for_end(struct cks_pinned *p)
{
	ck_unlock(&p->lock);
	pthread_rwlock_unlock(&p->moves);
}

static bool is_kept(const struct cks_pinned *p, uint64_t address)
{
	return address >= p->lo && address < p->hi;
}

/* Unmap the pages; reserved addresses stay reserved. */
static void unmap_pages(const struct cks_pinned *p, uint64_t address, size_t size)
{
	size_t length;
	void *at = pages_of(address, size, &length);

	if (is_kept(p, address) || cks_shadows_reserved(address, size))
		mmap(at, length, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED,
		     -1, 0);
	else
		munmap(at, length);
}

/* Map memory of this process at an address reserved for shadowed memory. */
static CUresult map_own(uint64_t address, size_t size)
{
	void *at = (void *)(uintptr_t)address;

	if (mmap(at, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1,
		 0) == MAP_FAILED)
		return CUDA_ERROR_OUT_OF_MEMORY;
	madvise(at, size, MADV_DONTFORK); /* the device would keep the pages, a writer get others */
	return CUDA_SUCCESS;
}

/* NOT_SUPPORTED: the address is in use in this process. */
static CUresult map_pages(const struct cks_pinned *p, uint64_t address, size_t size, size_t offset)
{
	size_t length;
	void *at = pages_of(address, size, &length), *got;

	got = mmap(at, length, PROT_READ | PROT_WRITE,
		   MAP_SHARED | (is_kept(p, address) ? MAP_FIXED : MAP_FIXED_NOREPLACE), p->file,
		   (off_t)offset);
	if (got == MAP_FAILED)
		return errno == EEXIST ? CUDA_ERROR_NOT_SUPPORTED : CUDA_ERROR_OUT_OF_MEMORY;
	if (got != at) { /* an old kernel treats the address as a hint */
		munmap(got, length);
		return CUDA_ERROR_NOT_SUPPORTED;
	}
	madvise(at, length, MADV_HUGEPAGE); /* if such files can have huge pages */
	return CUDA_SUCCESS;
}

/* Register the memory with the driver, by the client's address. */
static CUresult register_memory(uint64_t address, size_t size)
{
	void *at = (void *)(uintptr_t)address;
	CUdeviceptr device = 0;
	CUresult err = ck_driver.cuMemHostRegister_v2(
		at, size, CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP);

	if (err)
		return err;
	err = ck_driver.cuMemHostGetDevicePointer_v2(&device, at, 0);
	if (!err && device == address)
		return CUDA_SUCCESS;
	ck_driver.cuMemHostUnregister(at);
	return err ? err : CUDA_ERROR_NOT_SUPPORTED;
}

static bool pinning_is_supported(void)
{
	return ck_driver.cuMemHostRegister_v2 && ck_driver.cuMemHostUnregister &&
	       ck_driver.cuMemHostGetDevicePointer_v2 && ck_driver.cuMemcpyHtoDAsync_v2 &&
	       ck_driver.cuMemcpyDtoHAsync_v2 && ck_driver.cuMemcpyHtoD_v2 &&
	       ck_driver.cuMemcpyDtoH_v2;
}

/* @own: of memory of this process. */
static CUresult piece_add(struct cks_pinned *p, uint64_t ctx, const ck_pinned_map_args *a, bool own)
{
	struct piece *piece = malloc(sizeof(*piece));
	CUresult err = CUDA_ERROR_OUT_OF_MEMORY;

	if (!piece)
		return err;
	*piece = (struct piece){.address = a->address, .size = a->size, .ctx = ctx};
	if (!cks_pinned_charge(p, a->size)) {
		cks_pinned_report(p);
		goto free_piece;
	}
	if (ck_ranges_insert(p->pieces, a->address, a->address + a->size, piece) < 0)
		goto refund;
	err = own ? map_own(a->address, a->size) : map_pages(p, a->address, a->size, a->offset);
	if (!err) {
		err = register_memory(a->address, a->size);
		if (!err)
			return CUDA_SUCCESS;
		unmap_pages(p, a->address, a->size);
	}
	ck_ranges_remove(p->pieces, a->address, NULL);
refund:
	cks_pinned_refund(p, a->size);
free_piece:
	free(piece);
	return err;
}

/*
 * The driver has finished with the piece, so return its pages to the system; the client cannot know
 * when. Pages outside the reserved range are still the client's memory.
 */
static void piece_drop(struct cks_pinned *p, struct piece *piece)
{
	ck_ranges_remove(p->pieces, piece->address, NULL);
	cks_pinned_refund(p, piece->size);
	unmap_pages(p, piece->address, piece->size);
	if (is_kept(p, piece->address))
		fallocate(p->file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
			  (off_t)(piece->address - p->lo), (off_t)CK_ALIGN_UP(piece->size, PAGE));
	free(piece);
}

void cks_pinned_drop_context(struct cks_pinned *p, uint64_t ctx)
{
	lock_for_end(p);
	for (size_t i = ck_ranges_count(p->pieces); i-- > 0;) {
		struct piece *piece = ck_ranges_at(p->pieces, i)->value;

		if (piece->ctx == ctx)
			piece_drop(p, piece);
	}
	unlock_for_end(p);
}

void cks_pinned_destroy(struct cks_pinned *p)
{
	if (!p)
		return;
	while (ck_ranges_count(p->pieces) > 0)
		piece_drop(p, ck_ranges_at(p->pieces, 0)->value);
	ck_ranges_destroy(p->pieces);
	if (p->file >= 0) {
		munmap((void *)(uintptr_t)p->lo, p->hi - p->lo);
		close(p->file);
	}
	ck_mutex_destroy(&p->lock);
	pthread_rwlock_destroy(&p->moves);
	free(p);
}

CUresult cks_pinned_add_own(struct cks_pinned *p, uint64_t ctx, uint64_t address, size_t size)
{
	ck_pinned_map_args a = {.address = address, .size = size};
	CUresult err = CUDA_ERROR_INVALID_VALUE;

	if (!pinning_is_supported())
		return CUDA_ERROR_NOT_SUPPORTED;
	ck_lock(&p->lock);
	if (!ck_ranges_overlap(p->pieces, address, address + size))
		err = piece_add(p, ctx, &a, true);
	ck_unlock(&p->lock);
	return err;
}

bool cks_pinned_covers(struct cks_pinned *p, uint64_t address, size_t size)
{
	const struct ck_range *r;
	bool covers;

	ck_lock(&p->lock);
	r = ck_ranges_find(p->pieces, address);
	covers = r && size <= r->hi - address;
	ck_unlock(&p->lock);
	return covers;
}

void cks_pinned_hold(struct cks_pinned *p)
{
	pthread_rwlock_rdlock(&p->moves);
}

void cks_pinned_release(struct cks_pinned *p)
{
	pthread_rwlock_unlock(&p->moves);
}

/* --- messages */

/*
 * Does the file have at least @size bytes, a fixed size and normal pages? A mapping of huge pages
 * would be rounded up and replace what follows it.
 */
static bool is_sound(int fd, size_t size)
{
	struct stat st;
	struct statfs fs;
	int seals = fcntl(fd, F_GET_SEALS);

	return seals >= 0 && seals & F_SEAL_SHRINK && fstatfs(fd, &fs) == 0 &&
	       fs.f_type == TMPFS_MAGIC && fstat(fd, &st) == 0 && st.st_size > 0 &&
	       (uint64_t)st.st_size >= size;
}

/* Reserve the addresses that the client proposes for its file, if they are free. Once per
 * session. */
static CUresult take_file(struct cks_pinned *p, int fd, uint64_t address, size_t size, int *taken)
{
	void *want = (void *)(uintptr_t)address, *got;

	if (p->file >= 0 || !is_sound(fd, size))
		return CUDA_ERROR_INVALID_VALUE;
	got = mmap(want, size, PROT_NONE,
		   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
	if (got == MAP_FAILED)
		return CUDA_SUCCESS;
	if (got != want) {
		munmap(got, size);
		return CUDA_SUCCESS;
	}
	p->file = fd;
	p->size = size;
	p->lo = address;
	p->hi = address + size;
	*taken = 1;
	return CUDA_SUCCESS;
}

CUresult ck_serve_pinned_file(struct cks_request *q, ck_pinned_file_args *a,
			      ck_pinned_file_res *res)
{
	struct cks_pinned *p = q->session->pinned;
	int fd = ck_chan_take_fd(q->chan);
	CUresult err = CUDA_ERROR_INVALID_VALUE;

	if (fd < 0)
		return fd == -EOPNOTSUPP ? CUDA_ERROR_NOT_SUPPORTED : err;
	if (!pinning_is_supported())
		err = CUDA_ERROR_NOT_SUPPORTED;
	else if (a->address && a->address % PAGE == 0 && a->size && a->size % PAGE == 0 &&
		 a->size <= SIZE_MOST && a->address + a->size > a->address) {
		ck_lock(&p->lock);
		err = take_file(p, fd, a->address, a->size, &res->taken);
		ck_unlock(&p->lock);
	}
	if (!res->taken)
		close(fd);
	return err;
}

/*
 * A piece in the reserved range lies at its offset in the file. Elsewhere, it is memory that the
 * client had before; its address must be free here too.
 */
static bool is_valid(const struct cks_pinned *p, const ck_pinned_map_args *a)
{
	uint64_t end, offset_end;

	if (p->file < 0 || a->size == 0 || a->offset % PAGE || a->flags || /* none defined yet */
	    ck_add_overflow(a->address, CK_ALIGN_UP(a->size, PAGE) + PAGE, &end) ||
	    ck_add_overflow(a->offset, a->address % PAGE + a->size, &offset_end) ||
	    a->size > SIZE_MOST || offset_end > p->size)
		return false;
	if (is_kept(p, a->address))
		return a->address - p->lo == a->offset && a->size <= p->hi - a->address;
	return a->address >= PAGE && (a->address + a->size <= p->lo || a->address >= p->hi);
}

CUresult ck_serve_pinned_map(struct cks_request *q, ck_pinned_map_args *a, ck_pinned_map_res *res)
{
	struct cks_pinned *p = q->session->pinned;
	CUresult err = CUDA_ERROR_INVALID_VALUE;

	(void)res;
	ck_lock(&p->lock);
	if (is_valid(p, a) && !ck_ranges_overlap(p->pieces, a->address, a->address + a->size))
		err = piece_add(p, q->ctx, a, false);
	ck_unlock(&p->lock);
	if (err)
		ck_debug("pinned memory of %zu bytes at %#llx: %s", (size_t)a->size,
			 (unsigned long long)a->address, cks_error_name(err));
	return err;
}

/*
 * The driver waits for work that uses the memory, as for a local program. An error from this call
 * belongs to that work, which reports it.
 */
CUresult ck_serve_pinned_unmap(struct cks_request *q, ck_pinned_unmap_args *a, void *res)
{
	struct cks_pinned *p = q->session->pinned;
	const struct ck_range *r;

	(void)res;
	cks_shadows_drop(q->session->shadows, a->address);
	lock_for_end(p);
	r = ck_ranges_find(p->pieces, a->address);
	if (r && r->lo == a->address) {
		CUresult err = ck_driver.cuMemHostUnregister((void *)(uintptr_t)a->address);

		if (err)
			ck_debug("unregistering pinned memory: %s", cks_error_name(err));
		piece_drop(p, r->value);
	}
	unlock_for_end(p);
	return CUDA_SUCCESS;
}
