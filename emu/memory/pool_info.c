/*
 * emu/memory/pool_info.c - what can be asked of memory pools and set on them, and sharing them.
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

/* --- the pool of a device */

static CUresult pool_of(CUmemoryPool *out, CUdevice dev, bool initial)
{
	CUresult result = ck_emu_enter_bare();
	struct ck_emu_pool *pool;

	if (result != CUDA_SUCCESS)
		return result;
	if (!out)
		return CUDA_ERROR_INVALID_VALUE;
	if (!ck_emu_device_at(dev))
		return CUDA_ERROR_INVALID_DEVICE;
	pool = ck_emu_pool_of(dev, initial);
	if (!pool)
		return CUDA_ERROR_OUT_OF_MEMORY;
	*out = (CUmemoryPool)pool;
	ck_emu_object_put(&pool->base);
	return CUDA_SUCCESS;
}

CUresult cuDeviceGetDefaultMemPool(CUmemoryPool *pool_out, CUdevice dev)
{
	return pool_of(pool_out, dev, true);
}

CUresult cuDeviceGetMemPool(CUmemoryPool *pool, CUdevice dev)
{
	return pool_of(pool, dev, false);
}

/* Pools of devices are all that there are. */
static CUresult location_check(const CUmemLocation *location, CUmemAllocationType type)
{
	if (!location)
		return CUDA_ERROR_INVALID_VALUE;
	if (location->type != CU_MEM_LOCATION_TYPE_DEVICE || type != CU_MEM_ALLOCATION_TYPE_PINNED)
		return CUDA_ERROR_NOT_SUPPORTED;
	return CUDA_SUCCESS;
}

CUresult cuMemGetDefaultMemPool(CUmemoryPool *pool_out, const CUmemLocation *location,
				CUmemAllocationType type)
{
	CUresult result = location_check(location, type);

	return result == CUDA_SUCCESS ? pool_of(pool_out, location->id, true) : result;
}

CUresult cuMemGetMemPool(CUmemoryPool *pool, const CUmemLocation *location,
			 CUmemAllocationType type)
{
	CUresult result = location_check(location, type);

	return result == CUDA_SUCCESS ? pool_of(pool, location->id, false) : result;
}

CUresult cuMemSetMemPool(const CUmemLocation *location, CUmemAllocationType type, CUmemoryPool pool)
{
	CUresult result = location_check(location, type);

	return result == CUDA_SUCCESS ? cuDeviceSetMemPool(location->id, pool) : result;
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

/* --- access: the pool's own device always has it */

static CUresult desc_check(const struct ck_emu_pool *pool, const CUmemAccessDesc *desc)
{
	if (desc->location.type != CU_MEM_LOCATION_TYPE_DEVICE ||
	    (desc->flags != CU_MEM_ACCESS_FLAGS_PROT_NONE &&
	     desc->flags != CU_MEM_ACCESS_FLAGS_PROT_READWRITE))
		return CUDA_ERROR_INVALID_VALUE;
	if (!ck_emu_device_at(desc->location.id))
		return CUDA_ERROR_INVALID_DEVICE;
	return desc->location.id == pool->props.location.id && !desc->flags
		       ? CUDA_ERROR_INVALID_VALUE
		       : CUDA_SUCCESS;
}

static void access_set(struct ck_emu_pool *pool, const CUmemAccessDesc *desc)
{
	unsigned int bit = 1u << desc->location.id;
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

	if (result != CUDA_SUCCESS)
		return result;
	if (!flags || !location || location->type != CU_MEM_LOCATION_TYPE_DEVICE)
		return CUDA_ERROR_INVALID_VALUE;
	if (!ck_emu_device_at(location->id))
		return CUDA_ERROR_INVALID_DEVICE;
	pool = ck_emu_pool_get(memPool);
	if (!pool)
		return CUDA_ERROR_INVALID_VALUE;
	*flags = pool->access & 1u << location->id ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE
						   : CU_MEM_ACCESS_FLAGS_PROT_NONE;
	ck_emu_object_put(&pool->base);
	return CUDA_SUCCESS;
}
