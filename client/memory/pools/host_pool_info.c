/*
 * client/memory/pools/host_pool_info.c - memory pools whose location is the host: creation, the
 * pools that a place in the host has, attributes, access.
 */
#include <stdlib.h>

#include "client/memory/location.h"
#include "client/memory/pools/host_pool.h"

/* A place in the host: the ids of its pools. */
struct ckc_host_place {
	struct ckc_host_place *next;
	CUmemLocation at;
	uint64_t standard, current;
};

/* One node, or the whole host, where the number has no meaning. */
static CUresult check_place(const CUmemLocation *location, CUmemLocation *out)
{
	*out = *location;
	if (location->type == CU_MEM_LOCATION_TYPE_HOST)
		out->id = 0;
	return location->type == CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT || out->id < 0
		       ? CUDA_ERROR_INVALID_VALUE
		       : CUDA_SUCCESS;
}

static bool is_same(const CUmemLocation *a, const CUmemLocation *b)
{
	return a->type == b->type && a->id == b->id;
}

/* --- creation */

static struct ckc_pool *make_pool(const CUmemLocation *place, size_t most)
{
	struct ckc_pool *p = ckc_object_new(CK_OBJECT_POOL, NULL);

	if (!p)
		return NULL;
	p->host = true;
	p->place = *place;
	p->most = most ? most : UINT64_MAX;
	p->reuse = UINT8_MAX;
	return p;
}

CUresult ckc_host_pool_create(CUmemoryPool *pool, const CUmemPoolProps *props)
{
	CUmemLocation place;
	CUresult err = check_place(&props->location, &place);
	struct ckc_pool *p;

	if (err || props->allocType != CU_MEM_ALLOCATION_TYPE_PINNED)
		return CUDA_ERROR_INVALID_VALUE;
	if (props->handleTypes)
		return place.type == CU_MEM_LOCATION_TYPE_HOST ? CUDA_ERROR_INVALID_VALUE
							       : CUDA_ERROR_NOT_SUPPORTED;
	p = make_pool(&place, props->maxSize);
	if (!p)
		return CUDA_ERROR_OUT_OF_MEMORY;
	*pool = (CUmemoryPool)p;
	return CUDA_SUCCESS;
}

CUresult ckc_host_pool_destroy(struct ckc_pool *pool)
{
	struct ckc_host_pools *all = ckc_host_pools_current();

	if (pool->standard)
		return CUDA_ERROR_INVALID_VALUE;
	ck_lock(&all->lock);
	for (struct ckc_host_place *p = all->places; p; p = p->next) {
		if (p->current == pool->object.id)
			p->current = p->standard;
	}
	ckc_object_free(pool);
	ck_unlock(&all->lock);
	ckc_host_pool_trim(NULL, 0);
	return CUDA_SUCCESS;
}

/* --- the pools of a place */

/* The place, with its standard pool; NULL: out of memory. Call with the lock held. */
static struct ckc_host_place *find_place(struct ckc_host_pools *all, const CUmemLocation *at)
{
	struct ckc_host_place *p = all->places;
	struct ckc_pool *standard;

	while (p && !is_same(&p->at, at))
		p = p->next;
	if (p)
		return p;
	p = calloc(1, sizeof(*p));
	standard = p ? make_pool(at, 0) : NULL;
	if (!standard) {
		free(p);
		return NULL;
	}
	standard->standard = true;
	p->at = *at;
	p->standard = p->current = standard->object.id;
	p->next = all->places;
	all->places = p;
	return p;
}

CUresult ckc_host_pool_of(CUmemoryPool *pool, const CUmemLocation *location, bool from_start)
{
	struct ckc_host_pools *all = ckc_host_pools_current();
	struct ckc_host_place *p;
	CUmemLocation place;
	CUresult err = check_place(location, &place);

	if (err)
		return err;
	ck_lock(&all->lock);
	p = find_place(all, &place);
	if (p)
		*pool = ckc_object_by_id(CK_OBJECT_POOL, from_start ? p->standard : p->current);
	ck_unlock(&all->lock);
	return p ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult ckc_host_pool_set(const CUmemLocation *location, const struct ckc_pool *pool)
{
	struct ckc_host_pools *all = ckc_host_pools_current();
	struct ckc_host_place *p;
	CUmemLocation place;
	CUresult err = check_place(location, &place);

	if (err || !is_same(&place, &pool->place))
		return CUDA_ERROR_INVALID_VALUE;
	ck_lock(&all->lock);
	p = find_place(all, &place);
	if (p)
		p->current = pool->object.id;
	ck_unlock(&all->lock);
	return p ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

/* --- attributes */

uint64_t ckc_host_pool_attribute(const struct ckc_pool *pool, CUmemPool_attribute attr)
{
	const struct ckc_pool_use *use = &pool->use;

	ckc_host_pool_trim(NULL, 0); /* memory that a synchronise has released */
	switch (attr) {
	case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD:
		return use->threshold;
	case CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT:
		return use->reserved;
	case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
		return use->reserved_high;
	case CU_MEMPOOL_ATTR_USED_MEM_CURRENT:
		return use->used;
	case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
		return use->used_high;
	default:
		return pool->reuse >> attr & 1;
	}
}

/* High marks can be reset; the flags permit kinds of reuse, and demand none. */
CUresult ckc_host_pool_change(struct ckc_pool *pool, CUmemPool_attribute attr, uint64_t value)
{
	struct ckc_pool_use *use = &pool->use;

	if (attr == CU_MEMPOOL_ATTR_RELEASE_THRESHOLD)
		use->threshold = value;
	else if (attr == CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH && value == 0)
		use->reserved_high = use->reserved;
	else if (attr == CU_MEMPOOL_ATTR_USED_MEM_HIGH && value == 0)
		use->used_high = use->used;
	else if (attr < CU_MEMPOOL_ATTR_RELEASE_THRESHOLD)
		pool->reuse = (uint8_t)((pool->reuse & ~(1u << attr)) | (value ? 1u << attr : 0));
	else
		return CUDA_ERROR_INVALID_VALUE;
	return CUDA_SUCCESS;
}

/* --- access: the host always has it; that of devices is only noted, since they have it too */

CUresult ckc_host_pool_set_access(struct ckc_pool *pool, const CUmemAccessDesc *map, size_t count)
{
	CUmemAccessDesc *ids;
	uint64_t gained, lost;
	CUresult err = ckc_access_ids(map, count, &ids, &gained, &lost);

	if (err)
		return err;
	free(ids);
	for (size_t i = 0; i < count && !err; i++) {
		bool host = ckc_location_in_host(&map[i].location);
		bool none = map[i].flags == CU_MEM_ACCESS_FLAGS_PROT_NONE;

		if ((host && none) ||
		    (!none && map[i].flags != CU_MEM_ACCESS_FLAGS_PROT_READWRITE) ||
		    (!host && map[i].location.type != CU_MEM_LOCATION_TYPE_DEVICE))
			err = CUDA_ERROR_INVALID_VALUE;
	}
	if (!err)
		pool->access = (pool->access & ~lost) | gained;
	return err;
}

CUresult ckc_host_pool_get_access(const struct ckc_pool *pool, const CUmemLocation *location,
				  CUmemAccess_flags *flags)
{
	CUmemLocation at;
	bool has = ckc_location_in_host(location);
	CUresult err = has || location->type == CU_MEM_LOCATION_TYPE_DEVICE
			       ? ckc_location_id(location, &at)
			       : CUDA_ERROR_INVALID_VALUE;

	if (err)
		return err;
	if (!has)
		has = pool->access >> (location->id & 63) & 1;
	*flags = has ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE : CU_MEM_ACCESS_FLAGS_PROT_NONE;
	return CUDA_SUCCESS;
}
