/*
 * client/memory/pools/pool_info.c - memory pools: attributes and access.
 */
#include <stdlib.h>
#include <string.h>

#include "client/link/client.h"
#include "client/memory/location.h"
#include "client/memory/pools/host_pool.h"
#include "client/memory/pools/pool.h"

/* --- attributes: some are ints, some 64 bits wide */

static size_t attribute_size(CUmemPool_attribute attr)
{
	if (attr >= CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES &&
	    attr <= CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES)
		return sizeof(int);
	if (attr >= CU_MEMPOOL_ATTR_RELEASE_THRESHOLD && attr <= CU_MEMPOOL_ATTR_USED_MEM_HIGH)
		return sizeof(cuuint64_t);
	return 0;
}

/* Can only a call of this process change it? Not usage figures, nor the pools of other
 * processes. */
static bool attribute_is_lasting(const struct ckc_pool *pool, CUmemPool_attribute attr)
{
	return pool->located && attr <= CU_MEMPOOL_ATTR_RELEASE_THRESHOLD;
}

static CUresult enter_attribute(CUmemoryPool pool, CUmemPool_attribute attr, const void *value,
				uint64_t *ctx, uint64_t *id)
{
	CUresult err = ckc_enter_any(ctx);

	if (!err)
		err = ckc_pool_id(pool, id);
	if (err)
		return err;
	return value && attribute_size(attr) > 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CK_EXPORT CUresult cuMemPoolGetAttribute(CUmemoryPool pool, CUmemPool_attribute attr, void *value)
{
	uint64_t key[] = {CK_PROC_pool_attribute, 0, 0, attr};
	cuuint64_t result = 0, ours;
	bool all;
	uint64_t ctx, id;
	CUresult err = enter_attribute(pool, attr, value, &ctx, &id);

	if (err)
		return err;
	if (((struct ckc_pool *)pool)->host) {
		result = ckc_host_pool_attribute((struct ckc_pool *)pool, attr);
		all = true;
	} else {
		result = ckc_pool_usage((struct ckc_pool *)pool, attr, &all);
	}
	if (all) {
		memcpy(value, &result, attribute_size(attr));
		return CUDA_SUCCESS;
	}
	key[2] = id;
	ours = result;
	if (!ckc_cache_get(key, sizeof(key), &result, sizeof(result))) {
		err = ck_wire_pool_attribute(ctx, id, attr, false, 0, &result);
		if (!err && attribute_is_lasting((struct ckc_pool *)pool, attr))
			ckc_cache_put(key, sizeof(key), &result, sizeof(result));
	}
	result += ours;
	if (!err)
		memcpy(value, &result, attribute_size(attr)); /* for an int, the low half */
	return err;
}

CK_EXPORT CUresult cuMemPoolSetAttribute(CUmemoryPool pool, CUmemPool_attribute attr, void *value)
{
	cuuint64_t word = 0, unused;
	uint64_t ctx, id;
	CUresult err = enter_attribute(pool, attr, value, &ctx, &id);

	if (err)
		return err;
	memcpy(&word, value, attribute_size(attr));
	if (((struct ckc_pool *)pool)->host)
		return ckc_host_pool_change((struct ckc_pool *)pool, attr, word);
	err = ck_wire_pool_attribute(ctx, id, attr, true, word, &unused);
	if (!err)
		ckc_pool_changed((struct ckc_pool *)pool, attr, word);
	ckc_cache_clear();
	return err;
}

/* --- access */

CK_EXPORT CUresult cuMemPoolSetAccess(CUmemoryPool pool, const CUmemAccessDesc *map, size_t count)
{
	uint64_t ctx, id, gained, lost;
	CUmemAccessDesc *ids;
	struct ckc_pool *p;
	CUresult err = ckc_enter_any(&ctx);

	if (!err)
		err = ckc_pool_id(pool, &id);
	if (err)
		return err;
	p = (struct ckc_pool *)pool;
	if (p->host)
		return ckc_host_pool_set_access(p, map, count);
	err = ckc_access_ids(map, count, &ids, &gained, &lost);
	if (err)
		return err;
	err = ck_wire_pool_access(ctx, id, ids, count * sizeof(*ids));
	if (!err && gained & ~((uint64_t)1 << p->device))
		err = ckc_pool_spread(ctx, p, ids, count * sizeof(*ids));
	free(ids);
	return err;
}

CK_EXPORT CUresult cuMemPoolGetAccess(CUmemAccess_flags *flags, CUmemoryPool memPool,
				      const CUmemLocation *location)
{
	CUmemLocation at;
	uint64_t ctx, id;
	CUresult err = ckc_enter_any(&ctx);

	if (!err)
		err = ckc_pool_id(memPool, &id);
	if (!err && flags && location && ((struct ckc_pool *)memPool)->host)
		return ckc_host_pool_get_access((struct ckc_pool *)memPool, location, flags);
	if (!err)
		err = flags && location ? ckc_location_id(location, &at) : CUDA_ERROR_INVALID_VALUE;
	return err ? err : ck_wire_cuMemPoolGetAccess(ctx, flags, id, &at);
}
