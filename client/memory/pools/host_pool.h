/*
 * client/memory/pools/host_pool.h - memory pools whose location is the host.
 *
 * The server has no part in them: their memory is pinned memory (client/memory/hostmem.c), so the
 * program, copies and kernels use it at one address. A free takes effect in the order of a stream:
 * the pool keeps the memory until the use is over, or gives it out again in the same stream.
 */
#ifndef CK_CLIENT_MEMORY_POOLS_HOST_POOL_H
#define CK_CLIENT_MEMORY_POOLS_HOST_POOL_H

#include "client/link/client.h"
#include "client/memory/heap.h"
#include "client/memory/state.h"

/* Of this session. */
static inline struct ckc_host_pools *ckc_host_pools_current(void)
{
	return &ckc_client_current()->memory->host_pools;
}

/* NOT_SUPPORTED: with a way to share it. INVALID_VALUE. */
CUresult ckc_host_pool_create(CUmemoryPool *pool, const CUmemPoolProps *props);
CUresult ckc_host_pool_destroy(struct ckc_pool *pool);
/* The pool that a place in the host has from the start, or the current one. */
CUresult ckc_host_pool_of(CUmemoryPool *pool, const CUmemLocation *place, bool from_start);
CUresult ckc_host_pool_set(const CUmemLocation *place, const struct ckc_pool *pool);

/* Allocate in a stream; the memory ends with the stream's context, if not earlier. */
CUresult ckc_host_pool_take(struct ckc_pool *pool, size_t size, const struct ckc_user *user,
			    CUdeviceptr *at);
/* Is @a memory of such a pool? */
static inline bool ckc_host_pool_owns(const struct ckc_allocation *a)
{
	return a->pooled && a->kind == CK_MEMORY_HOST_ALLOC;
}
/* Free it in stream @s (NULL: the legacy one) of @home. @home NULL: all work of its own context may
 * use it. */
CUresult ckc_host_pool_free(CUdeviceptr at, struct ckc_context *home, struct ckc_stream *s);
/* Return kept memory that no work uses any more: that of @pool beyond @keep bytes, that of other
 * pools beyond their threshold, and that of destroyed ones. */
void ckc_host_pool_trim(const struct ckc_pool *pool, uint64_t keep);
/* Its context ends, and it is no longer in the table of known memory. */
void ckc_host_pool_end(const struct ckc_allocation *a);

/* Attributes; those of an int are 0 or 1. INVALID_VALUE: it cannot be set, or not to that. */
uint64_t ckc_host_pool_attribute(const struct ckc_pool *pool, CUmemPool_attribute attr);
CUresult ckc_host_pool_change(struct ckc_pool *pool, CUmemPool_attribute attr, uint64_t value);

CUresult ckc_host_pool_set_access(struct ckc_pool *pool, const CUmemAccessDesc *map, size_t count);
CUresult ckc_host_pool_get_access(const struct ckc_pool *pool, const CUmemLocation *location,
				  CUmemAccess_flags *flags);

#endif
