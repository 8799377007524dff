/*
 * client/memory/pinned.c - see client/memory/pinned.h: the file, its addresses, what is taken of them.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/falloc.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "client/memory/pinned.h"
#include "client/managed/space.h"
#include "util/cancel.h"
#include "util/fd.h"
#include "util/log.h"

CK_LOG_DEFINE("client");

/* Next to those of the window (client/managed/window.c); 0: where there is room. */
#ifndef __SANITIZE_THREAD__
static const uint64_t places[] = { 0x220000000000, 0x320000000000, 0x420000000000,
				   0x120000000000, 0, 0 };
static const size_t sizes[] = { 1ul << 40, 1ul << 37, 1ul << 35 };
#else
static const uint64_t places[] = { 0, 0, 0 };
static const size_t sizes[] = { 1ul << 36, 1ul << 35 };
#endif

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static bool tried;
static struct ck_fd_kept file = { .fd = -1 };
static uint64_t base;
static struct ck_space *space;

_Atomic unsigned int ck_pinned_count;

/* A file of @size bytes that cannot change its size: a worker must be able to rely on it. */
static int make_file(size_t size)
{
	int fd = memfd_create("cricket pinned", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	if (fd >= 0 && ftruncate(fd, (off_t)size) == 0 &&
	    fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0)
		return fd;
	ck_debug("no file for pinned memory: %s", strerror(errno));
	if (fd >= 0)
		close(fd);
	return -1;
}

static bool worker_takes(uint64_t at, size_t size)
{
	ck_pinned_file_args args = { .address = at, .size = size };
	ck_pinned_file_res res = { 0 };

	return ck_call_fd(CK_PROC_pinned_file, &args, &res, file.fd) == CUDA_SUCCESS && res.taken;
}

static void open_once(void)
{
	uint64_t at = 0;
	size_t size = 0;

	for (size_t i = 0; !at && i < CK_ARRAY_SIZE(sizes); i++) {
		size = sizes[i];
		file = ck_fd_keep(make_file(size));
		if (file.fd < 0)
			return;
		at = ck_space_agree(places, CK_ARRAY_SIZE(places), size, worker_takes);
		if (!at)
			close(file.fd);
	}
	if (!at) {
		ck_info("no addresses for pinned memory that are free both here and on the server: "
			"it is copied");
		return;
	}
	base = at;
	space = ck_space_create(at, at + size);
	ck_debug("pinned memory is shared: %zu GiB at %#llx", size >> 30, (unsigned long long)at);
}

bool ck_pinned_open(void)
{
	int cancel;

	if (!ck_client.passes_fds)
		return false;
	cancel = ck_cancel_lock(&lock);
	if (!tried)
		open_once();
	tried = true;
	ck_cancel_unlock(&lock, cancel);
	return space != NULL;
}

/* --- pieces. The lock is held over the call: a unit is not used before the worker has it. */

static int map_pages(uint64_t at, size_t size)
{
	void *p = (void *)(uintptr_t)at;

	if (mmap(p, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE | MAP_FIXED,
		 ck_fd_ours(&file), (off_t)(at - base)) == MAP_FAILED)
		return -errno;
	madvise(p, size, MADV_DONTFORK);
	return 0;
}

/* Have the worker register the units behind a piece, unless it has for another piece. */
static CUresult register_behind(uint64_t ctx, uint64_t at, size_t size)
{
	size_t length;
	uint64_t behind = ck_space_behind(at, size, &length);
	uint16_t *users = ck_space_users(space, at, size);
	CUresult err = CUDA_SUCCESS;

	if (!users || *users == 0)
		err = ck_wire_pinned_map(ctx, behind, length, behind - base, 0);
	if (users && !err)
		++*users;
	return err;
}

CUresult ck_pinned_take(uint64_t ctx, size_t size, uint64_t *address)
{
	CUresult err = CUDA_ERROR_OUT_OF_MEMORY;
	uint64_t at;

	if (ck_add_overflow(size, CK_UNIT, &at))
		return err;
	size = CK_ALIGN_UP(size, CK_PAGE);
	pthread_mutex_lock(&lock);
	at = ck_space_take(space, ctx, size);
	if (at && map_pages(at, size) == 0)
		err = register_behind(ctx, at, size);
	if (at && err)
		ck_space_give(space, at, size);
	pthread_mutex_unlock(&lock);
	if (err)
		return err;
	atomic_fetch_add(&ck_pinned_count, 1);
	*address = at;
	return CUDA_SUCCESS;
}

/* The pages of [@at, @at + @size) go back to the system. */
static void empty(uint64_t at, size_t size)
{
	fallocate(ck_fd_ours(&file), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)(at - base), (off_t)size);
}

/*
 * A late access of the program faults. The pages of a unit go back to the system when no piece in
 * it is left and the GPU has done with them, by the worker if there is one.
 */
void ck_pinned_give(uint64_t ctx, uint64_t at, size_t size)
{
	uint64_t behind;
	size_t length;
	uint16_t *users;
	int cancel = ck_cancel_lock(&lock);

	size = CK_ALIGN_UP(size, CK_PAGE);
	mmap((void *)(uintptr_t)at, size, PROT_NONE,
	     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
	behind = ck_space_behind(at, size, &length);
	users = ck_space_users(space, at, size);
	if ((!users || --*users == 0) && ck_wire_pinned_unmap(ctx, behind))
		empty(behind, length);
	ck_space_give(space, at, size);
	ck_cancel_unlock(&lock, cancel);
	atomic_fetch_sub(&ck_pinned_count, 1);
}

/* Of whole units: pages of a unit that small pieces share are registered as long as one is. */
static size_t of_units(size_t size)
{
	return ck_max(size, CK_UNIT);
}

bool ck_pinned_reserve(uint64_t ctx, size_t size, size_t *offset)
{
	uint64_t at;

	pthread_mutex_lock(&lock);
	at = ck_space_take(space, ctx, of_units(size));
	pthread_mutex_unlock(&lock);
	if (!at)
		return false;
	*offset = at - base;
	atomic_fetch_add(&ck_pinned_count, 1);
	return true;
}

void ck_pinned_unreserve(size_t offset, size_t size)
{
	int cancel = ck_cancel_lock(&lock);

	empty(base + offset, size);
	ck_space_give(space, base + offset, of_units(size));
	ck_cancel_unlock(&lock, cancel);
	atomic_fetch_sub(&ck_pinned_count, 1);
}

int ck_pinned_fd(void)
{
	return ck_fd_ours(&file);
}

bool ck_pinned_holds(const void *p, size_t size)
{
	struct ck_allocation a;

	return unlikely(atomic_load_explicit(&ck_pinned_count, memory_order_relaxed) > 0) &&
	       ck_allocation_find((uintptr_t)p, &a) && a.shared &&
	       size <= a.base + a.size - (uintptr_t)p;
}
