/*
 * emu/checkpoint/evict.c - see evict.h.
 *
 * No bytes are copied: a device's memory is host memory. It is taken out of its addresses, where
 * inaccessible pages keep the place, until it comes back. Only the thread of the mailbox comes
 * here, while no other thread is inside of the driver.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "emu/checkpoint/evict.h"
#include "emu/memory/arena.h"
#include "emu/memory/pool.h"
#include "emu/memory/vmm.h"
#include "util/log.h"
#include "util/page.h"

CK_LOG_DEFINE("emu");

#define PAGE ck_page()

struct extent {
	uint64_t address;
	size_t size; /* whole pages */
	int file;    /* whose part it is, which can be mapped again; or -1: its pages move */
	uint64_t offset;
	void *moved; /* where they are meanwhile; NULL: in their place */
};

static struct {
	struct extent *list;
	size_t count, room;
	/* a way back has failed: as NVIDIA's driver (580), this one cannot try again */
	bool invalid;
} extents;

/* --- which memory moves */

static bool is_shared(const struct ck_emu_memory *memory)
{
	const struct ck_emu_physical *physical = memory->owner;
	const struct ck_emu_pool *pool = memory->owner;

	if (memory->kind == CK_EMU_MEMORY_VIRTUAL)
		return physical->imported || physical->exported;
	if (memory->kind == CK_EMU_MEMORY_POOL)
		return pool->imported || pool->exported;
	return memory->shared || memory->kind == CK_EMU_MEMORY_IPC;
}

/* Small pieces of a device's file share pages. */
static bool try_merge_extent(struct extent *last, const struct extent *e)
{
	uint64_t end = last->address + last->size;

	if (e->file < 0 || e->file != last->file || e->address > end)
		return false;
	last->size = ck_max(end, e->address + e->size) - last->address;
	return true;
}

static int record_extent(const struct ck_emu_memory *memory, int file, uint64_t offset)
{
	uint64_t before = memory->lo & (PAGE - 1);
	struct extent e = {.address = memory->lo - before,
			   .size = CK_ALIGN_UP(memory->size + before, PAGE),
			   .file = file,
			   .offset = offset - before};

	if (is_shared(memory))
		return -EOPNOTSUPP;
	if (extents.count > 0 && try_merge_extent(&extents.list[extents.count - 1], &e))
		return 0;
	if (extents.count == extents.room) {
		size_t room = extents.room ? 2 * extents.room : 64;
		void *bigger = realloc(extents.list, room * sizeof(*extents.list));

		if (!bigger)
			return -ENOMEM;
		extents.list = bigger;
		extents.room = room;
	}
	extents.list[extents.count++] = e;
	return 0;
}

/* --- moving */

/* Take the pages away from their place, which stays mapped, so that nothing else comes there. */
static void *detach_pages(const struct extent *e)
{
	int flags = MREMAP_MAYMOVE | MREMAP_FIXED;
	void *at = (void *)e->address, *moved;
	void *to =
		mmap(NULL, e->size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (to == MAP_FAILED)
		return NULL;
	moved = mremap(at, e->size, e->size, flags | MREMAP_DONTUNMAP, to);
	if (moved == MAP_FAILED && errno == EINVAL) /* Linux before 5.13 */
		moved = mremap(at, e->size, e->size, flags, to);
	if (moved != MAP_FAILED)
		return moved;
	munmap(to, e->size);
	return NULL;
}

static bool move_out(struct extent *e)
{
	void *at = (void *)e->address;

	if (e->file < 0) {
		e->moved = detach_pages(e);
		if (!e->moved)
			return false;
	}
	if (mmap(at, e->size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED,
		 -1, 0) == MAP_FAILED)
		return false;
	e->moved = e->file < 0 ? e->moved : at;
	return true;
}

static bool move_in(struct extent *e)
{
	void *at = (void *)e->address;

	if (!e->moved)
		return true;
	if (e->file < 0)
		at = mremap(e->moved, e->size, e->size, MREMAP_MAYMOVE | MREMAP_FIXED, at);
	else
		at = mmap(at, e->size, PROT_READ | PROT_WRITE,
			  MAP_SHARED | MAP_NORESERVE | MAP_FIXED, e->file, (off_t)e->offset);
	if (at != MAP_FAILED)
		e->moved = NULL;
	return at != MAP_FAILED;
}

static bool all_in(void)
{
	bool ok = true;

	for (size_t i = 0; i < extents.count; i++)
		ok &= move_in(&extents.list[i]);
	return ok;
}

CUresult ck_emu_evict(void)
{
	int ret;

	extents.count = 0;
	ret = ck_emu_arena_walk(record_extent);
	if (ret < 0)
		return ret == -EOPNOTSUPP ? CUDA_ERROR_NOT_SUPPORTED : CUDA_ERROR_OUT_OF_MEMORY;
	for (size_t i = 0; i < extents.count; i++) {
		if (move_out(&extents.list[i]))
			continue;
		ck_warn("device memory cannot be saved: %m");
		all_in();
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	ck_emu_arena_vacate();
	return CUDA_SUCCESS;
}

CUresult ck_emu_evict_undo(const CUcheckpointGpuPair *pairs, unsigned int count, unsigned int gpus)
{
	CUresult result = CUDA_SUCCESS;

	if (extents.invalid)
		return CUDA_ERROR_OPERATING_SYSTEM;
	if (count > 0)
		result = ck_emu_devices_move(pairs, count, gpus);
	if (result != CUDA_SUCCESS)
		return result;
	extents.invalid = true;
	if (!ck_emu_arena_reclaim()) {
		if (count > 0)
			ck_emu_devices_move_undo();
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	extents.invalid = false;
	if (all_in())
		return CUDA_SUCCESS;
	ck_warn("device memory cannot be restored: %m");
	ck_emu_arena_vacate();
	return CUDA_ERROR_OUT_OF_MEMORY;
}
