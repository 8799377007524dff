/*
 * client/memory/pinned.c - see client/memory/pinned.h: the file, its addresses, and their
 * allocation.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/falloc.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "client/managed/page_allocator.h"
#include "client/managed/shadow.h"
#include "client/memory/pinned.h"
#include "client/link/hooks.h"
#include "client/memory/state.h"
#include "client/link/session_list.h"
#include "util/cancel.h"
#include "util/log.h"
#include "util/process/private_fds.h"

CK_LOG_DEFINE("client");

/* Next to those of the window (client/managed/window.c); 0: any free address. */
#ifndef __SANITIZE_THREAD__
static const uint64_t places[] = {
	0x220000000000, 0x320000000000, 0x420000000000, 0x120000000000, 0, 0};
static const size_t sizes[] = {1ul << 40, 1ul << 37, 1ul << 35};
#else
static const uint64_t places[] = {0, 0, 0};
static const size_t sizes[] = {1ul << 36, 1ul << 35};
#endif

static struct ck_pinned_file *get_pinned_file(void)
{
	return &ckc_client_current()->memory->pinned;
}

static bool worker_takes(uint64_t at, size_t size)
{
	ck_pinned_file_args args = {.address = at, .size = size};
	ck_pinned_file_res res = {0};

	return ckc_call_fd(CK_PROC_pinned_file, &args, &res, &get_pinned_file()->file) ==
		       CUDA_SUCCESS &&
	       res.taken;
}

static void open_once(struct ck_pinned_file *f)
{
	uint64_t at = 0;
	size_t size = 0;
	int ret;

	for (size_t i = 0; !at && i < CK_ARRAY_SIZE(sizes); i++) {
		size = sizes[i];
		ret = ck_private_fd_memory(&f->file, "cricket pinned", size, true);
		if (ret < 0) {
			ck_debug("no file for pinned memory: %s", strerror(-ret));
			return;
		}
		at = ckc_page_allocator_agree(places, CK_ARRAY_SIZE(places), size, worker_takes);
		if (!at)
			ck_private_fd_close(&f->file);
	}
	if (!at) {
		ck_info("no address range for pinned memory is free on both client and server: "
			"pinned memory is copied");
		return;
	}
	f->base = at;
	f->space = ckc_page_allocator_create(at, at + size);
	ck_debug("pinned memory is shared: %zu GiB at %#llx", size >> 30, (unsigned long long)at);
}

bool ckc_pinned_open(void)
{
	struct ckc_client *c = ckc_client_current();
	struct ck_pinned_file *f = &c->memory->pinned;
	int cancel;

	if (!c->passes_fds)
		return false;
	cancel = ck_lock_uncancelled(&f->lock);
	if (!f->tried)
		open_once(f);
	f->tried = true;
	ck_unlock_uncancelled(&f->lock, cancel);
	return f->space != NULL;
}

/* --- pieces. The lock is held over the call, so that no unit is used before the worker has it. */

static int map_pages(struct ck_pinned_file *f, uint64_t at, size_t size)
{
	void *p = (void *)(uintptr_t)at;

	if (mmap(p, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE | MAP_FIXED,
		 ck_private_fd_number(&f->file), (off_t)(at - f->base)) == MAP_FAILED)
		return -errno;
	madvise(p, size, MADV_DONTFORK);
	return 0;
}

/* Have the worker register the units behind a piece, unless another piece already did. */
static CUresult register_behind(struct ck_pinned_file *f, uint64_t ctx, uint64_t at, size_t size)
{
	size_t length;
	uint64_t behind = ckc_page_allocator_behind(at, size, &length);
	uint16_t *users = ckc_page_allocator_users(f->space, at, size);
	CUresult err = CUDA_SUCCESS;

	if (!users || *users == 0)
		err = ck_wire_pinned_map(ctx, behind, length, behind - f->base, 0);
	if (users && !err)
		++*users;
	return err;
}

CUresult ckc_pinned_take(uint64_t ctx, size_t size, uint64_t *address)
{
	struct ck_pinned_file *f = get_pinned_file();
	CUresult err = CUDA_ERROR_OUT_OF_MEMORY;
	uint64_t at;

	if (ck_add_overflow(size, CK_UNIT, &at))
		return err;
	size = CK_ALIGN_UP(size, CK_PAGE);
	ck_lock(&f->lock);
	at = ckc_page_allocator_take(f->space, ctx, size);
	if (at && map_pages(f, at, size) == 0)
		err = register_behind(f, ctx, at, size);
	if (at && err)
		ckc_page_allocator_give(f->space, at, size);
	ck_unlock(&f->lock);
	if (err)
		return err;
	atomic_fetch_add(&f->count, 1);
	*address = at;
	return CUDA_SUCCESS;
}

/* Return the pages of [@at, @at + @size) to the system. */
static void discard_pages(struct ck_pinned_file *f, uint64_t at, size_t size)
{
	fallocate(ck_private_fd_number(&f->file), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
		  (off_t)(at - f->base), (off_t)size);
}

/*
 * A late access of the program faults. When no piece in a unit is left and the GPU has finished
 * with it, its pages return to the system: by the worker, if there is one.
 */
void ckc_pinned_give(uint64_t ctx, uint64_t at, size_t size)
{
	struct ck_pinned_file *f = get_pinned_file();
	uint64_t behind;
	size_t length;
	uint16_t *users;
	int cancel = ck_lock_uncancelled(&f->lock);

	size = CK_ALIGN_UP(size, CK_PAGE);
	mmap((void *)(uintptr_t)at, size, PROT_NONE,
	     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
	behind = ckc_page_allocator_behind(at, size, &length);
	users = ckc_page_allocator_users(f->space, at, size);
	if ((!users || --*users == 0) && ck_wire_pinned_unmap(ctx, behind))
		discard_pages(f, behind, length);
	ckc_page_allocator_give(f->space, at, size);
	ck_unlock_uncancelled(&f->lock, cancel);
	atomic_fetch_sub(&f->count, 1);
}

/* Round up to a unit: a shared unit stays registered while any small piece is in use. */
static size_t of_units(size_t size)
{
	return ck_max(size, CK_UNIT);
}

bool ckc_pinned_reserve(uint64_t ctx, size_t size, size_t *offset)
{
	struct ck_pinned_file *f = get_pinned_file();
	uint64_t at;

	ck_lock(&f->lock);
	at = ckc_page_allocator_take(f->space, ctx, of_units(size));
	ck_unlock(&f->lock);
	if (!at)
		return false;
	*offset = at - f->base;
	atomic_fetch_add(&f->count, 1);
	return true;
}

void ckc_pinned_unreserve(size_t offset, size_t size)
{
	struct ck_pinned_file *f = get_pinned_file();
	int cancel = ck_lock_uncancelled(&f->lock);

	discard_pages(f, f->base + offset, size);
	ckc_page_allocator_give(f->space, f->base + offset, of_units(size));
	ck_unlock_uncancelled(&f->lock, cancel);
	atomic_fetch_sub(&f->count, 1);
}

int ckc_pinned_fd(void)
{
	struct ck_pinned_file *f = get_pinned_file();

	return ck_private_fd_number(&f->file);
}

bool ckc_pinned_holds(const void *p, size_t size)
{
	struct ck_pinned_file *f = get_pinned_file();
	struct ckc_allocation a;

	if (likely(atomic_load_explicit(&f->count, memory_order_relaxed) == 0))
		return ckc_shadow_holds(p, size);
	return ckc_allocation_find((uintptr_t)p, &a) && a.shared &&
	       (likely(!ckc_many) || ckc_gpu_client(a.device) == ckc_client_current()) &&
	       size <= a.base + a.size - (uintptr_t)p;
}

static bool has_shared(const struct ckc_client *c)
{
	return ckc_pinned_any(c);
}
CK_ON_CONTEXT_WRITES(has_shared);
