/*
 * client/memory/pools/pool.h - pool_use.c: allocations of pools in the session's arena.
 */
#ifndef CK_CLIENT_MEMORY_POOLS_POOL_H
#define CK_CLIENT_MEMORY_POOLS_POOL_H

#include <stdbool.h>
#include <stdint.h>

#include "client/link/object.h"
#include "cuda/types.h"

struct ckc_allocation;

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
