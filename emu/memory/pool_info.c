/*
 * emu/memory/pool_info.c - attributes of memory pools, and sharing them.
 *
 * A descriptor stands for a pool by its address in this process: another process has other pools.
 */
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "emu/memory/arena.h"
#include "emu/memory/pool.h"

/* --- the pool of a device, and of a place in the host */

static CUresult pool_of(CUmemoryPool *out, const CUmemLocation *location, bool initial)
{
	CUresult result = ck_emu_enter_bare();
	struct ck_emu_pool *pool;
	int place;

	if (result != CUDA_SUCCESS)
		return result;
	if (!out)
		return CUDA_ERROR_INVALID_VALUE;
	result = ck_emu_pool_place(location, &place);
	if (result != CUDA_SUCCESS)
		return result;
	pool = ck_emu_pool_of(place, initial);
	if (!pool)
		return CUDA_ERROR_OUT_OF_MEMORY;
	*out = (CUmemoryPool)pool;
	ck_emu_object_put(&pool->base);
	return CUDA_SUCCESS;
}

CUresult cuDeviceGetDefaultMemPool(CUmemoryPool *pool_out, CUdevice dev)
{
	return pool_of(pool_out, &(CUmemLocation){CU_MEM_LOCATION_TYPE_DEVICE, dev}, true);
}

CUresult cuDeviceGetMemPool(CUmemoryPool *pool, CUdevice dev)
{
	return pool_of(pool, &(CUmemLocation){CU_MEM_LOCATION_TYPE_DEVICE, dev}, false);
}

/* No pool has managed memory. */
static CUresult location_check(const CUmemLocation *location, CUmemAllocationType type)
{
	if (!location)
		return CUDA_ERROR_INVALID_VALUE;
	return type == CU_MEM_ALLOCATION_TYPE_PINNED ? CUDA_SUCCESS : CUDA_ERROR_NOT_SUPPORTED;
}

CUresult cuMemGetDefaultMemPool(CUmemoryPool *pool_out, const CUmemLocation *location,
				CUmemAllocationType type)
{
	CUresult result = location_check(location, type);

	return result == CUDA_SUCCESS ? pool_of(pool_out, location, true) : result;
}

CUresult cuMemGetMemPool(CUmemoryPool *pool, const CUmemLocation *location,
			 CUmemAllocationType type)
{
	CUresult result = location_check(location, type);

	return result == CUDA_SUCCESS ? pool_of(pool, location, false) : result;
}

CUresult cuMemSetMemPool(const CUmemLocation *location, CUmemAllocationType type, CUmemoryPool pool)
{
	CUresult result = ck_emu_enter_bare();
	int place;

	if (result == CUDA_SUCCESS)
		result = location_check(location, type);
	if (result == CUDA_SUCCESS)
		result = ck_emu_pool_place(location, &place);
	return result == CUDA_SUCCESS ? ck_emu_pool_set(place, pool) : result;
}

CUresult cuDeviceSetMemPool(CUdevice dev, CUmemoryPool handle)
{
	const CUmemLocation location = {CU_MEM_LOCATION_TYPE_DEVICE, dev};

	return cuMemSetMemPool(&location, CU_MEM_ALLOCATION_TYPE_PINNED, handle);
}

/* --- attributes */

/* The word of an attribute of 64 bits; NULL for another one. */
static uint64_t *word_of(struct ck_emu_pool *pool, CUmemPool_attribute attr)
{
	switch (attr) {
	case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD:
		return &pool->threshold;
	case CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT:
		return &pool->reserved;
	case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
		return &pool->reserved_high;
	case CU_MEMPOOL_ATTR_USED_MEM_CURRENT:
		return &pool->used;
	case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
		return &pool->used_high;
	default:
		return NULL;
	}
}

/* High marks can be reset, and only to 0; current usage cannot be set. */
static CUresult word_set(struct ck_emu_pool *pool, CUmemPool_attribute attr, uint64_t value)
{
	if (attr == CU_MEMPOOL_ATTR_RELEASE_THRESHOLD)
		pool->threshold = value;
	else if (attr == CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH && value == 0)
		pool->reserved_high = pool->reserved;
	else if (attr == CU_MEMPOOL_ATTR_USED_MEM_HIGH && value == 0)
		pool->used_high = pool->used;
	else
		return CUDA_ERROR_INVALID_VALUE;
	return CUDA_SUCCESS;
}

static CUresult get_or_set_attribute(CUmemoryPool handle, CUmemPool_attribute attr, void *value,
				     bool set)
{
	CUresult result = ck_emu_enter_bare();
	struct ck_emu_pool *pool;
	uint64_t *word, copy;
	int *flag;

	if (result != CUDA_SUCCESS)
		return result;
	pool = value ? ck_emu_pool_get(handle) : NULL;
	if (!pool)
		return CUDA_ERROR_INVALID_VALUE;
	ck_lock(&ck_emu_pool_lock);
	word = word_of(pool, attr);
	if (word && set) {
		memcpy(&copy, value, sizeof(copy));
		result = word_set(pool, attr, copy);
	} else if (word) {
		memcpy(value, word, sizeof(*word));
	} else if (attr >= CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES &&
		   attr <= CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES) {
		flag = &pool->reuse[attr - CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES];
		memcpy(set ? (void *)flag : value, set ? value : (void *)flag, sizeof(*flag));
	} else {
		result = CUDA_ERROR_INVALID_VALUE;
	}
	ck_unlock(&ck_emu_pool_lock);
	ck_emu_object_put(&pool->base);
	return result;
}

CUresult cuMemPoolGetAttribute(CUmemoryPool pool, CUmemPool_attribute attr, void *value)
{
	return get_or_set_attribute(pool, attr, value, false);
}

CUresult cuMemPoolSetAttribute(CUmemoryPool pool, CUmemPool_attribute attr, void *value)
{
	return get_or_set_attribute(pool, attr, value, true);
}

CUresult cuMemPoolTrimTo(CUmemoryPool handle, size_t minBytesToKeep)
{
	CUresult result = ck_emu_enter_bare();
	struct ck_emu_pool *pool;

	if (result != CUDA_SUCCESS)
		return result;
	pool = ck_emu_pool_get(handle);
	if (!pool)
		return CUDA_ERROR_INVALID_VALUE;
	ck_lock(&ck_emu_pool_lock);
	ck_emu_pool_trim(pool, minBytesToKeep);
	ck_unlock(&ck_emu_pool_lock);
	ck_emu_object_put(&pool->base);
	return CUDA_SUCCESS;
}

/* --- access: the pool's own device, or the host, always has it */

static bool in_host(const CUmemLocation *location)
{
	return location->type == CU_MEM_LOCATION_TYPE_HOST ||
	       location->type == CU_MEM_LOCATION_TYPE_HOST_NUMA;
}

static CUresult desc_check(const struct ck_emu_pool *pool, const CUmemAccessDesc *desc)
{
	CUresult result;
	int place;

	if (desc->flags != CU_MEM_ACCESS_FLAGS_PROT_NONE &&
	    desc->flags != CU_MEM_ACCESS_FLAGS_PROT_READWRITE)
		return CUDA_ERROR_INVALID_VALUE;
	result = ck_emu_pool_place(&desc->location, &place);
	if (result != CUDA_SUCCESS)
		return result;
	if (place >= CK_EMU_PLACE_HOST)
		return ck_emu_pool_in_host(pool) && desc->flags ? CUDA_SUCCESS
								: CUDA_ERROR_INVALID_VALUE;
	return place == pool->place && !desc->flags ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

static void access_set(struct ck_emu_pool *pool, const CUmemAccessDesc *desc)
{
	unsigned int bit = in_host(&desc->location) ? 0 : 1u << desc->location.id;
	const struct ck_emu_block *block;

	pool->access = desc->flags ? pool->access | bit : pool->access & ~bit;
	for (block = pool->blocks; block; block = block->next) {
		if (block->used)
			ck_emu_arena_grant(block->address, bit, desc->flags, desc->flags);
	}
}

CUresult cuMemPoolSetAccess(CUmemoryPool handle, const CUmemAccessDesc *map, size_t count)
{
	CUresult result = ck_emu_enter_bare();
	struct ck_emu_pool *pool;

	if (result != CUDA_SUCCESS)
		return result;
	pool = map && count ? ck_emu_pool_get(handle) : NULL;
	if (!pool)
		return CUDA_ERROR_INVALID_VALUE;
	for (size_t i = 0; i < count && result == CUDA_SUCCESS; i++)
		result = desc_check(pool, &map[i]);
	ck_lock(&ck_emu_pool_lock);
	for (size_t i = 0; i < count && result == CUDA_SUCCESS; i++)
		access_set(pool, &map[i]);
	ck_unlock(&ck_emu_pool_lock);
	ck_emu_object_put(&pool->base);
	return result;
}

CUresult cuMemPoolGetAccess(CUmemAccess_flags *flags, CUmemoryPool memPool,
			    const CUmemLocation *location)
{
	CUresult result = ck_emu_enter_bare();
	struct ck_emu_pool *pool;
	int place;
	bool has;

	if (result != CUDA_SUCCESS)
		return result;
	if (!flags || !location)
		return CUDA_ERROR_INVALID_VALUE;
	result = ck_emu_pool_place(location, &place);
	if (result != CUDA_SUCCESS)
		return result;
	pool = ck_emu_pool_get(memPool);
	if (!pool)
		return CUDA_ERROR_INVALID_VALUE;
	has = place < CK_EMU_PLACE_HOST ? pool->access >> place & 1 : ck_emu_pool_in_host(pool);
	*flags = has ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE : CU_MEM_ACCESS_FLAGS_PROT_NONE;
	ck_emu_object_put(&pool->base);
	return CUDA_SUCCESS;
}
