/*
 * emu/memory/pool.c - memory pools: pieces of memory that are given and taken back in stream order.
 *
 * A piece is handed out at the call, and freed when the stream gets there. Pieces that are freed
 * are kept up to the pool's threshold. The pieces of a pool that can be exported are files, which
 * an imported pointer shows at a second address, in this process or in another.
 */
#define _GNU_SOURCE
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "emu/memory/arena.h"
#include "emu/core/locks.h"
#include "emu/memory/pool.h"
#include "util/process/fd.h"
#include "util/page.h"

#define PAGE ck_page()

struct ck_mutex ck_emu_pool_lock = CK_MUTEX(CK_RANK_POOLS);

static struct ck_emu_pool *initial[CK_EMU_PLACES], *current[CK_EMU_PLACES];

/* --- pieces; the lock is held in all of these */

/* The pages of a pool in the host are not a device's. */
static bool room_take(const struct ck_emu_pool *pool, size_t size)
{
	return ck_emu_pool_in_host(pool) || ck_emu_arena_take(pool->place, size);
}

static void room_give(const struct ck_emu_pool *pool, size_t size)
{
	if (!ck_emu_pool_in_host(pool))
		ck_emu_arena_give(pool->place, size);
}

static void block_release(struct ck_emu_pool *pool, struct ck_emu_block *block)
{
	munmap((void *)block->address, block->size);
	if (block->fd >= 0)
		close(block->fd);
	if (!block->alias) {
		room_give(pool, block->size);
		pool->reserved -= block->size;
	}
	free(block);
}

void ck_emu_pool_trim(struct ck_emu_pool *pool, uint64_t keep)
{
	struct ck_emu_block **link = &pool->blocks;

	while (*link && pool->reserved > keep) {
		struct ck_emu_block *block = *link;

		if (block->used) {
			link = &block->next;
			continue;
		}
		*link = block->next;
		block_release(pool, block);
	}
}

/* A kept piece that is not much too large, or NULL. */
static struct ck_emu_block *block_kept(const struct ck_emu_pool *pool, size_t size)
{
	struct ck_emu_block *block;

	for (block = pool->blocks; block; block = block->next) {
		if (!block->used && block->size >= size && block->size / 2 <= size)
			return block;
	}
	return NULL;
}

/* Pages for a piece: of a file of their own where others may want them. */
static bool block_map(const struct ck_emu_pool *pool, struct ck_emu_block *block, size_t size)
{
	bool shared = pool->props.handleTypes != CU_MEM_HANDLE_TYPE_NONE;
	void *at = MAP_FAILED;

	block->size = size;
	block->fd = shared ? memfd_create("cricket pool piece", MFD_CLOEXEC) : -1;
	if (!shared)
		at = mmap(NULL, size, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	else if (block->fd >= 0 && ck_fd_resize(block->fd, (off_t)size) == 0)
		at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, block->fd,
			  0);
	if (at == MAP_FAILED && block->fd >= 0)
		close(block->fd);
	block->address = (uint64_t)at;
	return at != MAP_FAILED;
}

static struct ck_emu_block *block_new(struct ck_emu_pool *pool, size_t size)
{
	struct ck_emu_block *block;

	if (pool->props.maxSize &&
	    (size > pool->props.maxSize || pool->reserved > pool->props.maxSize - size))
		return NULL;
	if (!room_take(pool, size))
		return NULL;
	block = calloc(1, sizeof(*block));
	if (!block || !block_map(pool, block, size)) {
		room_give(pool, size);
		free(block);
		return NULL;
	}
	block->next = pool->blocks;
	pool->blocks = block;
	pool->reserved += size;
	pool->reserved_high = ck_max(pool->reserved_high, pool->reserved);
	return block;
}

int ck_emu_pool_enter(struct ck_emu_pool *pool, struct ck_emu_block *block, size_t size)
{
	struct ck_emu_memory memory = {.lo = block->address,
				       .size = size,
				       .kind = CK_EMU_MEMORY_POOL,
				       .device = ck_emu_pool_in_host(pool) ? 0 : pool->place,
				       .owner = pool,
				       .host = ck_emu_pool_in_host(pool),
				       .readers = pool->access,
				       .writers = pool->access};
	int ret = ck_emu_arena_add_mapping(&memory);

	if (ret < 0)
		return ret;
	block->used = true;
	ck_emu_object_ref(&pool->base);
	if (!block->alias)
		pool->used += block->size;
	pool->used_high = ck_max(pool->used_high, pool->used);
	return 0;
}

uint64_t ck_emu_pool_take(struct ck_emu_pool *pool, size_t size)
{
	size_t rounded = CK_ALIGN_UP(size, PAGE);
	struct ck_emu_block *block;
	uint64_t address = 0;

	ck_lock(&ck_emu_pool_lock);
	block = block_kept(pool, rounded);
	if (!block)
		block = block_new(pool, rounded);
	if (!block) {
		ck_emu_pool_trim(pool, 0);
		block = block_new(pool, rounded);
	}
	if (block && ck_emu_pool_enter(pool, block, size) == 0)
		address = block->address;
	ck_unlock(&ck_emu_pool_lock);
	return address;
}

void ck_emu_pool_return(uint64_t address)
{
	struct ck_emu_memory memory;
	struct ck_emu_block **link, *block;
	struct ck_emu_pool *pool;

	if (!ck_emu_arena_remove(address, CK_EMU_MEMORY_POOL, &memory))
		return;
	pool = (struct ck_emu_pool *)(uintptr_t)memory.owner;
	ck_lock(&ck_emu_pool_lock);
	for (link = &pool->blocks; (block = *link)->address != address; link = &block->next)
		;
	block->used = false;
	if (!block->alias)
		pool->used -= block->size;
	if (block->alias || pool->reserved > pool->threshold) {
		*link = block->next;
		block_release(pool, block);
	}
	ck_unlock(&ck_emu_pool_lock);
	ck_emu_object_put(&pool->base);
}

CUmemoryPool ck_emu_pool_handle(const struct ck_emu_memory *memory)
{
	return (CUmemoryPool)(uintptr_t)memory->owner;
}

/* --- pools */

static void pool_free(struct ck_emu_object *object)
{
	struct ck_emu_pool *pool = (struct ck_emu_pool *)object;

	ck_lock(&ck_emu_pool_lock);
	ck_emu_pool_trim(pool, 0);
	ck_unlock(&ck_emu_pool_lock);
	free(pool);
}

CUresult ck_emu_pool_place(const CUmemLocation *location, int *place)
{
	switch (location->type) {
	case CU_MEM_LOCATION_TYPE_DEVICE:
		*place = location->id;
		return ck_emu_device_at(location->id) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
	case CU_MEM_LOCATION_TYPE_HOST:
		*place = CK_EMU_PLACE_HOST;
		return CUDA_SUCCESS;
	case CU_MEM_LOCATION_TYPE_HOST_NUMA:
		*place = CK_EMU_PLACE_NODE;
		return location->id == 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
	default:
		return CUDA_ERROR_INVALID_VALUE;
	}
}

struct ck_emu_pool *ck_emu_pool_create(const CUmemPoolProps *props)
{
	static _Atomic uint32_t last;
	struct ck_emu_pool *pool = calloc(1, sizeof(*pool));

	if (!pool)
		return NULL;
	ck_emu_object_init(&pool->base, CK_EMU_POOL, NULL, pool_free);
	pool->props = *props;
	ck_emu_pool_place(&props->location, &pool->place);
	pool->access = ck_emu_pool_in_host(pool) ? 0 : 1u << pool->place;
	pool->name = (uint64_t)getpid() << 32 | ++last;
	for (size_t i = 0; i < CK_ARRAY_SIZE(pool->reuse); i++)
		pool->reuse[i] = 1;
	return pool;
}

struct ck_emu_pool *ck_emu_pool_get(CUmemoryPool handle)
{
	return ck_emu_object_get(handle, CK_EMU_POOL);
}

/* The pool that a place has from the start; made when first asked for. Lock held. */
static struct ck_emu_pool *initial_of(int place)
{
	CUmemPoolProps props = {
		.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
		.location = {CU_MEM_LOCATION_TYPE_DEVICE, place},
	};

	if (place >= CK_EMU_PLACE_HOST)
		props.location =
			(CUmemLocation){place == CK_EMU_PLACE_HOST ? CU_MEM_LOCATION_TYPE_HOST
								   : CU_MEM_LOCATION_TYPE_HOST_NUMA,
					0};
	if (!initial[place]) {
		initial[place] = ck_emu_pool_create(&props);
		if (initial[place] &&
		    ck_emu_object_publish(&initial[place]->base) != CUDA_SUCCESS) {
			free(initial[place]);
			initial[place] = NULL;
		}
		if (initial[place])
			initial[place]->is_default = true;
	}
	return initial[place];
}

struct ck_emu_pool *ck_emu_pool_of(int place, bool from_start)
{
	struct ck_emu_pool *pool;

	ck_lock(&ck_emu_pool_lock);
	pool = from_start || !current[place] ? initial_of(place) : current[place];
	if (pool)
		ck_emu_object_ref(&pool->base);
	ck_unlock(&ck_emu_pool_lock);
	return pool;
}

CUresult cuMemPoolCreate(CUmemoryPool *handle, const CUmemPoolProps *poolProps)
{
	CUresult result = ck_emu_enter_bare();
	struct ck_emu_pool *pool;
	int place;

	if (result != CUDA_SUCCESS)
		return result;
	if (!handle || !poolProps || poolProps->allocType != CU_MEM_ALLOCATION_TYPE_PINNED ||
	    poolProps->handleTypes & ~CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
		return CUDA_ERROR_INVALID_VALUE;
	result = ck_emu_pool_place(&poolProps->location, &place);
	if (result == CUDA_SUCCESS && place >= CK_EMU_PLACE_HOST && poolProps->handleTypes)
		result = place == CK_EMU_PLACE_HOST ? CUDA_ERROR_INVALID_VALUE
						    : CUDA_ERROR_NOT_SUPPORTED;
	if (result != CUDA_SUCCESS)
		return result;
	pool = ck_emu_pool_create(poolProps);
	if (!pool)
		return CUDA_ERROR_OUT_OF_MEMORY;
	result = ck_emu_object_publish(&pool->base);
	if (result == CUDA_SUCCESS)
		*handle = (CUmemoryPool)pool;
	else
		ck_emu_object_put(&pool->base);
	return result;
}

/* Its allocations stay, and so does the pool for as long. */
CUresult cuMemPoolDestroy(CUmemoryPool handle)
{
	CUresult result = ck_emu_enter_bare();
	struct ck_emu_pool *pool;

	if (result != CUDA_SUCCESS)
		return result;
	pool = ck_emu_pool_get(handle);
	if (!pool)
		return CUDA_ERROR_INVALID_VALUE;
	if (pool->is_default || !ck_emu_object_retract(&pool->base)) {
		ck_emu_object_put(&pool->base);
		return CUDA_ERROR_INVALID_VALUE;
	}
	ck_lock(&ck_emu_pool_lock);
	if (current[pool->place] == pool)
		current[pool->place] = NULL;
	pool->threshold = 0;
	ck_unlock(&ck_emu_pool_lock);
	ck_emu_object_put(&pool->base);
	ck_emu_object_put(&pool->base); /* the handle's own */
	return CUDA_SUCCESS;
}

CUresult ck_emu_pool_set(int place, CUmemoryPool handle)
{
	struct ck_emu_pool *pool = ck_emu_pool_get(handle);
	CUresult result = CUDA_SUCCESS;

	if (!pool)
		return CUDA_ERROR_INVALID_VALUE;
	if (pool->place != place || pool->imported)
		result = CUDA_ERROR_INVALID_VALUE;
	ck_lock(&ck_emu_pool_lock);
	if (result == CUDA_SUCCESS)
		current[place] = pool; /* its destruction takes it out again */
	ck_unlock(&ck_emu_pool_lock);
	ck_emu_object_put(&pool->base);
	return result;
}
