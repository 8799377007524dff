/*
 * client/memory/pools/pool.h - memory locations with the server's device numbers.
 */
#ifndef CK_CLIENT_MEMORY_POOLS_POOL_H
#define CK_CLIENT_MEMORY_POOLS_POOL_H

#include <stdbool.h>
#include <stdint.h>

#include "client/link/object.h"
#include "cuda/types.h"

struct ckc_allocation;

static inline bool ckc_location_in_host(const CUmemLocation *location)
{
	return location->type == CU_MEM_LOCATION_TYPE_HOST ||
	       location->type == CU_MEM_LOCATION_TYPE_HOST_NUMA ||
	       location->type == CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT;
}

/* Translate the device of a location to the server's number: INVALID_DEVICE. Others are
 * unchanged. */
CUresult ckc_location_id(const CUmemLocation *location, CUmemLocation *out);

/*
 * The same for a list of access descriptors, which the caller frees. Also returns a bit for each
 * device that gains or loses access: INVALID_VALUE, OUT_OF_MEMORY.
 */
CUresult ckc_access_ids(const CUmemAccessDesc *desc, size_t count, CUmemAccessDesc **out,
			uint64_t *gained, uint64_t *lost);

/* --- pool_use.c: allocations of pools in the session's arena */

/*
 * The pool that an allocation of @device uses, @pool or the current one (NULL): *@id is 0 for the
 * device's default pool. False: the server must allocate from it.
 */
bool ckc_pool_arena(const struct ckc_pool *pool, CUdevice device, uint64_t *id);
/* @pool is the current one of @device from now on; the pool with this id is none any more. */
void ckc_pool_set(CUdevice device, const struct ckc_pool *pool);
void ckc_pool_unset(uint64_t id);
/* Count an allocation in the arena, or its end. */
void ckc_pool_count(const struct ckc_allocation *a, bool begins);
/* The arena's part of a usage attribute of @pool; *@all: the server has no part. */
uint64_t ckc_pool_usage(const struct ckc_pool *pool, CUmemPool_attribute attr, bool *all);
/* The program has set an attribute. */
void ckc_pool_changed(struct ckc_pool *pool, CUmemPool_attribute attr, uint64_t value);
/* Give other devices access to the pool's memory in the arena; from now on, the server
 * allocates. */
CUresult ckc_pool_spread(uint64_t ctx, struct ckc_pool *pool, const void *desc, size_t size);
/* The pool's handle for a pointer attribute; 0: unknown. */
uint64_t ckc_pool_handle(const struct ckc_allocation *a);

#endif
