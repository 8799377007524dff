/*
 * server/policy/meter_physical.c - physical memory, counted: it ends when its last handle is
 * released and its last mapping is gone.
 */
#include <stdlib.h>

#include "server/policy/meter_part.h"
#include "server/session/locks.h"
#include "util/range.h"
#include "util/util.h"

#define real cks_meter_driver

struct physical {
	CUmemGenericAllocationHandle handle;
	CUdevice device;
	size_t size;
	unsigned int handles, mappings;
};

static struct {
	struct ck_mutex lock;
	struct ck_ranges *handles; /* by the number of the handle: struct physical, which it owns */
	struct ck_ranges *mappings; /* by address: the same */
} noted = {.lock = CK_MUTEX(CK_RANK_METER_PHYSICAL)};

static bool create_ranges(void)
{
	if (!noted.handles)
		noted.handles = ck_ranges_create();
	if (!noted.mappings)
		noted.mappings = ck_ranges_create();
	return noted.handles && noted.mappings;
}

/* The memory of @handle; NULL: it is not this session's, or not a GPU's. Call with the lock
 * held. */
static struct physical *find_physical(CUmemGenericAllocationHandle handle)
{
	const struct ck_range *range = noted.handles ? ck_ranges_find(noted.handles, handle) : NULL;

	return range ? range->value : NULL;
}

/* Forget it if nothing keeps it; returns the piece to refund and free. Call with the lock held. */
static struct physical *forget_unused(struct physical *p)
{
	if (!p || p->handles > 0 || p->mappings > 0)
		return NULL;
	ck_ranges_remove(noted.handles, p->handle, NULL);
	return p;
}

static void refund_physical(struct physical *p)
{
	if (p)
		cks_meter_refund(p->device, p->size);
	free(p);
}

static bool record_physical(CUmemGenericAllocationHandle handle, CUdevice device, size_t size)
{
	struct physical *p = malloc(sizeof(*p)), *before = NULL;
	int ret = -1;

	if (!p)
		return false;
	*p = (struct physical){.handle = handle, .device = device, .size = size, .handles = 1};
	ck_lock(&noted.lock);
	before = find_physical(handle);
	if (before) { /* the driver gives the number of memory that it has freed */
		before->handles = before->mappings = 0;
		before = forget_unused(before);
	}
	if (create_ranges())
		ret = ck_ranges_insert(noted.handles, handle, handle + 1, p);
	ck_unlock(&noted.lock);
	refund_physical(before);
	if (ret < 0)
		free(p);
	return ret == 0;
}

static CUresult create_physical(CUmemGenericAllocationHandle *out, size_t size,
				const CUmemAllocationProp *prop, unsigned long long flags)
{
	CUdevice device = prop->location.id;
	CUresult err;

	if (prop->location.type != CU_MEM_LOCATION_TYPE_DEVICE)
		return real.cuMemCreate(out, size, prop, flags);
	if (!cks_meter_charge(device, size))
		return CUDA_ERROR_OUT_OF_MEMORY;
	err = real.cuMemCreate(out, size, prop, flags);
	if (!err && record_physical(*out, device, size))
		return CUDA_SUCCESS;
	cks_meter_refund(device, size);
	if (err)
		return err;
	real.cuMemRelease(*out);
	return CUDA_ERROR_OUT_OF_MEMORY;
}

/* The number of the handle may be another's as soon as the driver has released it. */
static CUresult release_handle(CUmemGenericAllocationHandle handle)
{
	struct physical *p;
	CUresult err;

	ck_lock(&noted.lock);
	p = find_physical(handle);
	if (p && p->handles > 0)
		p->handles--;
	p = forget_unused(p);
	ck_unlock(&noted.lock);
	err = real.cuMemRelease(handle);
	refund_physical(p);
	return err;
}

/* One more handle with the same number, of memory that is here already. */
static void add_handle(CUmemGenericAllocationHandle handle)
{
	struct physical *p;

	ck_lock(&noted.lock);
	p = find_physical(handle);
	if (p)
		p->handles++;
	ck_unlock(&noted.lock);
}

static CUresult retain_handle(CUmemGenericAllocationHandle *out, void *address)
{
	CUresult err = real.cuMemRetainAllocationHandle(out, address);

	if (!err)
		add_handle(*out);
	return err;
}

static CUresult import_handle(CUmemGenericAllocationHandle *out, void *os,
			      CUmemAllocationHandleType type)
{
	CUresult err = real.cuMemImportFromShareableHandle(out, os, type);

	if (!err)
		add_handle(*out);
	return err;
}

static CUresult map_physical(CUdeviceptr at, size_t size, size_t offset,
			     CUmemGenericAllocationHandle handle, unsigned long long flags)
{
	CUresult err = real.cuMemMap(at, size, offset, handle, flags);
	struct physical *p;
	bool known = true;

	if (err)
		return err;
	ck_lock(&noted.lock);
	p = find_physical(handle);
	if (p) {
		known = ck_ranges_insert(noted.mappings, at, at + size, p) == 0;
		p->mappings += known;
	}
	ck_unlock(&noted.lock);
	if (known)
		return CUDA_SUCCESS;
	real.cuMemUnmap(at, size);
	return CUDA_ERROR_OUT_OF_MEMORY;
}

/* Take the mapping that begins in [@at, @end); false: there is none. *@out: memory that has ended
 * with it. */
static bool take_mapping(CUdeviceptr at, CUdeviceptr end, struct physical **out)
{
	const struct ck_range *range;
	void *value = NULL;
	bool any;

	*out = NULL;
	ck_lock(&noted.lock);
	range = noted.mappings ? ck_ranges_overlap(noted.mappings, at, end) : NULL;
	any = range && ck_ranges_remove(noted.mappings, range->lo, &value) == 0;
	if (any) {
		struct physical *p = value;

		p->mappings--;
		*out = forget_unused(p);
	}
	ck_unlock(&noted.lock);
	return any;
}

static CUresult unmap_physical(CUdeviceptr at, size_t size)
{
	CUresult err = real.cuMemUnmap(at, size);
	struct physical *p;

	while (!err && take_mapping(at, at + size, &p))
		refund_physical(p);
	return err;
}

#define TAKE(name, function) ck_driver.name = real.name ? (function) : NULL

void cks_meter_take_over_physical(void)
{
	TAKE(cuMemCreate, create_physical);
	TAKE(cuMemRelease, release_handle);
	TAKE(cuMemRetainAllocationHandle, retain_handle);
	TAKE(cuMemImportFromShareableHandle, import_handle);
	TAKE(cuMemMap, map_physical);
	TAKE(cuMemUnmap, unmap_physical);
}
