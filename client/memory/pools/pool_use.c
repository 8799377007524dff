/*
 * client/memory/pools/pool_use.c - memory pools whose memory lies in the session's arena.
 *
 * A pool that only this process and its own device use is a matter of counting: allocations come
 * from the device's heap (arena.h), whatever the pool. Pools that other processes or devices use,
 * and allocations of graphs, are left to the server's driver.
 */
#include "client/memory/arena.h"
#include "client/memory/pools/host_pool.h"
#include "client/memory/pools/pool.h"
#include "client/memory/state.h"
#include "client/link/client.h"
#include "util/util.h"

static struct ckc_arena *get_arena(void)
{
	return &ckc_client_current()->memory->arena;
}

/* That of the session of @device. */
static struct ckc_arena *arena_of(CUdevice device)
{
	struct ckc_client *c = ckc_gpu_client(device);

	return c ? &c->memory->arena : get_arena();
}

static struct ckc_arena_device *device_of(CUdevice device)
{
	return &arena_of(device)->devices[device];
}

static struct ckc_pool_use *use_of(const struct ckc_pool *pool)
{
	return pool->located && pool->standard ? &device_of(pool->device)->standard
					       : (struct ckc_pool_use *)&pool->use;
}

/* Is all that the pool holds in the arena? Then the server knows nothing more of it. */
static bool is_ours(const struct ckc_pool *pool)
{
	return pool->located && !use_of(pool)->elsewhere && !arena_of(pool->device)->asked &&
	       !arena_of(pool->device)->off;
}

/* --- which pool */

bool ckc_pool_arena(const struct ckc_pool *pool, CUdevice device, uint64_t *id)
{
	const struct ckc_arena_device *d = device_of(device);

	if (!pool && d->current)
		pool = ckc_object_by_id(CK_OBJECT_POOL, d->current);
	*id = pool && !pool->standard ? pool->object.id : 0;
	if (pool && !pool->located)
		return false;
	return pool ? !use_of(pool)->elsewhere : !d->standard.elsewhere;
}

void ckc_pool_set(CUdevice device, const struct ckc_pool *pool)
{
	device_of(device)->current = pool->standard ? 0 : pool->object.id;
}

void ckc_pool_unset(uint64_t id)
{
	for (int i = 0; i < CK_MAX_DEVICES; i++) {
		_Atomic uint64_t *current = &get_arena()->devices[i].current;

		if (*current == id)
			*current = 0;
	}
}

uint64_t ckc_pool_handle(const struct ckc_allocation *a)
{
	CUmemoryPool pool = NULL;

	if (a->pool)
		return (uintptr_t)ckc_object_by_id(CK_OBJECT_POOL, a->pool);
	return cuDeviceGetDefaultMemPool(&pool, a->device) ? 0 : (uintptr_t)pool;
}

/* --- how much */

void ckc_pool_count(const struct ckc_allocation *a, bool begins)
{
	const struct ckc_pool *pool = a->pool ? ckc_object_by_id(CK_OBJECT_POOL, a->pool) : NULL;
	struct ckc_pool_use *use;
	uint64_t used;

	if (a->pool && !pool)
		return; /* destroyed; its memory outlives it */
	use = pool ? use_of(pool) : &device_of(a->device)->standard;
	if (!begins) {
		atomic_fetch_sub(&use->used, a->size);
		return;
	}
	used = atomic_fetch_add(&use->used, a->size) + a->size;
	ck_atomic_lift(&use->used_high, used);
	ck_atomic_lift(&use->reserved, CK_ALIGN_UP(used, (uint64_t)CK_CHUNK));
	ck_atomic_lift(&use->reserved_high, CK_ALIGN_UP(used, (uint64_t)CK_CHUNK));
}

/* Memory above the threshold is released when it is not used. */
static uint64_t compute_reserved(const struct ckc_pool_use *use)
{
	uint64_t used = atomic_load(&use->used), kept = atomic_load(&use->reserved);

	used = CK_ALIGN_UP(used, (uint64_t)CK_CHUNK);
	kept = ck_min(kept, (uint64_t)atomic_load(&use->threshold));
	return ck_max(used, kept);
}

uint64_t ckc_pool_usage(const struct ckc_pool *pool, CUmemPool_attribute attr, bool *all)
{
	const struct ckc_pool_use *use = use_of(pool);

	*all = is_ours(pool);
	switch (attr) {
	case CU_MEMPOOL_ATTR_USED_MEM_CURRENT:
		return use->used;
	case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
		return use->used_high;
	case CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT:
		return compute_reserved(use);
	case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
		return use->reserved_high;
	default:
		*all = false;
		return 0;
	}
}

void ckc_pool_changed(struct ckc_pool *pool, CUmemPool_attribute attr, uint64_t value)
{
	struct ckc_pool_use *use = use_of(pool);

	if (attr == CU_MEMPOOL_ATTR_RELEASE_THRESHOLD)
		use->threshold = value;
	else if (attr == CU_MEMPOOL_ATTR_USED_MEM_HIGH)
		use->used_high = use->used;
	else if (attr == CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH)
		use->reserved_high = compute_reserved(use);
}

/* Other sessions and devices can then have the memory. */
CK_EXPORT CUresult cuMemPoolTrimTo(CUmemoryPool pool, size_t minBytesToKeep)
{
	struct ckc_pool *p = ckc_object_check(pool, CK_OBJECT_POOL);
	struct ckc_pool_use *use;
	uint64_t ctx, used, keep = CK_ALIGN_UP((uint64_t)minBytesToKeep, (uint64_t)CK_CHUNK);
	CUresult err = ckc_enter_any(&ctx);

	if (err)
		return err;
	if (!p)
		return pool ? CUDA_ERROR_INVALID_HANDLE : CUDA_ERROR_INVALID_VALUE;
	if (p->host) {
		ckc_host_pool_trim(p, minBytesToKeep);
		return CUDA_SUCCESS;
	}
	use = use_of(p);
	if (keep < use->reserved) {
		used = atomic_load(&use->used);
		used = CK_ALIGN_UP(used, (uint64_t)CK_CHUNK);
		use->reserved = ck_max(keep, used);
		ckc_arena_shed(p->device, ctx, false);
	}
	return is_ours(p) ? CUDA_SUCCESS
			  : ck_wire_cuMemPoolTrimTo(ctx, p->object.id, minBytesToKeep);
}

/* --- other devices */

CUresult ckc_pool_spread(uint64_t ctx, struct ckc_pool *pool, const void *desc, size_t size)
{
	uint64_t id = pool->standard ? 0 : pool->object.id;
	struct ckc_allocation a = {.base = 0};
	CUresult err = CUDA_SUCCESS;

	if (!pool->located)
		return CUDA_SUCCESS;
	use_of(pool)->elsewhere = true;
	while (!err && ckc_allocation_next(a.base + a.size, &a)) {
		uint64_t lo = a.base & ~((uint64_t)CK_CHUNK - 1);
		uint64_t hi = CK_ALIGN_UP(a.base + a.size, (uint64_t)CK_CHUNK);

		if (a.arena && a.pooled && a.pool == id && a.device == pool->device)
			err = ck_wire_set_access(ctx, lo, hi - lo, desc, size);
	}
	return err;
}
