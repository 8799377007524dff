/*
 * client/memory/pools/pool.c - memory pools: creation, the pools of devices, and sharing.
 * Attributes are in pool_info.c, allocations in client/memory/memory.c.
 *
 * Device numbers in structures are translated; pointers for Windows are not sent. The server knows
 * nothing of pools in the host (host_pool.h).
 */
#include "client/link/client.h"
#include "client/memory/location.h"
#include "client/memory/pools/host_pool.h"
#include "client/memory/pools/pool.h"
#include "client/memory/share.h"

CK_EXPORT CUresult cuMemPoolCreate(CUmemoryPool *pool, const CUmemPoolProps *poolProps)
{
	struct ckc_pool *p;
	CUmemPoolProps props;
	uint64_t ctx;
	CUresult err = ckc_enter_any(&ctx);

	if (err)
		return err;
	if (!pool || !poolProps)
		return CUDA_ERROR_INVALID_VALUE;
	if (ckc_location_in_host(&poolProps->location))
		return ckc_host_pool_create(pool, poolProps);
	if (poolProps->location.type != CU_MEM_LOCATION_TYPE_DEVICE)
		return poolProps->location.type == CU_MEM_LOCATION_TYPE_INVALID
			       ? CUDA_ERROR_INVALID_VALUE
			       : CUDA_ERROR_NOT_SUPPORTED;
	props = *poolProps;
	props.win32SecurityAttributes = NULL;
	err = ckc_location_id(&poolProps->location, &props.location);
	if (err)
		return err;
	p = ckc_object_new(CK_OBJECT_POOL, NULL);
	if (!p)
		return CUDA_ERROR_OUT_OF_MEMORY;
	p->unique = ckc_share_unique();
	p->handle_types = (unsigned int)props.handleTypes;
	p->use.elsewhere = props.handleTypes != 0 || props.maxSize != 0;
	p->located = true;
	p->device = poolProps->location.id;
	err = ck_wire_cuMemPoolCreate(ctx, p->object.id, &props);
	if (err)
		ckc_object_free(p);
	else
		*pool = (CUmemoryPool)p;
	return err;
}

/* Cached answers about it, and about devices that use it, are dropped with it. */
CK_EXPORT CUresult cuMemPoolDestroy(CUmemoryPool pool)
{
	uint64_t ctx, id;
	CUresult err = ckc_enter_any(&ctx);

	if (!err)
		err = ckc_pool_id(pool, &id);
	if (!err && ((struct ckc_pool *)pool)->host)
		return ckc_host_pool_destroy((struct ckc_pool *)pool);
	if (!err)
		err = ck_wire_cuMemPoolDestroy(ctx, id);
	if (err)
		return err;
	ckc_cache_clear();
	ckc_pool_unset(id);
	ckc_object_end(CK_OBJECT_POOL, id);
	return CUDA_SUCCESS;
}

/* --- the pool of a location: some programs query it for each allocation, and few change it */

static CUresult enter_location(const void *pool, const CUmemLocation *location,
			       CUmemAllocationType type, uint64_t *ctx, CUmemLocation *out)
{
	CUresult err = ckc_enter_any(ctx);

	if (err)
		return err;
	if (!pool || !location)
		return CUDA_ERROR_INVALID_VALUE;
	if (type != CU_MEM_ALLOCATION_TYPE_PINNED ||
	    (location->type != CU_MEM_LOCATION_TYPE_DEVICE && !ckc_location_in_host(location)))
		return CUDA_ERROR_NOT_SUPPORTED;
	return ckc_location_id(location, out);
}

/* Note the pool that the server reported for @device. */
static CUresult note_reported_pool(CUresult err, uint64_t id, CUdevice device, CUmemoryPool *pool)
{
	struct ckc_pool *p;

	if (err)
		return err;
	p = ckc_object_named(CK_OBJECT_POOL, id);
	if (!p)
		return CUDA_ERROR_OUT_OF_MEMORY;
	p->located = true;
	p->standard = p->unique == 0;
	p->device = device;
	*pool = (CUmemoryPool)p;
	return CUDA_SUCCESS;
}

/* The pool of @dev, cached; @ask queries the server. */
static CUresult pool_of_device(CUmemoryPool *pool, CUdevice dev, uint64_t proc,
			       CUresult (*ask)(uint64_t ctx, uint64_t *id, int ordinal))
{
	uint64_t key[] = {proc, 0, (uint64_t)dev};
	uint64_t ctx, id = 0;
	int ordinal;
	CUresult err = ckc_enter_any(&ctx);

	if (err)
		return err;
	err = pool ? ckc_device_id(dev, &ordinal) : CUDA_ERROR_INVALID_VALUE;
	if (err || ckc_cache_get(key, sizeof(key), pool, sizeof(*pool)))
		return err;
	err = ask(ctx, &id, ordinal);
	err = note_reported_pool(err, id, dev, pool);
	if (!err)
		ckc_cache_put(key, sizeof(key), pool, sizeof(*pool));
	return err;
}

CK_EXPORT CUresult cuDeviceGetDefaultMemPool(CUmemoryPool *pool_out, CUdevice dev)
{
	return pool_of_device(pool_out, dev, CK_PROC_cuDeviceGetDefaultMemPool,
			      ck_wire_cuDeviceGetDefaultMemPool);
}

CK_EXPORT CUresult cuDeviceGetMemPool(CUmemoryPool *pool, CUdevice dev)
{
	return pool_of_device(pool, dev, CK_PROC_cuDeviceGetMemPool, ck_wire_cuDeviceGetMemPool);
}

CK_EXPORT CUresult cuDeviceSetMemPool(CUdevice dev, CUmemoryPool pool)
{
	uint64_t ctx, id;
	int ordinal;
	CUresult err = ckc_enter_any(&ctx);

	if (!err)
		err = ckc_device_id(dev, &ordinal);
	if (!err)
		err = ckc_pool_id(pool, &id);
	if (!err && ((struct ckc_pool *)pool)->host)
		err = CUDA_ERROR_INVALID_VALUE;
	if (err)
		return err;
	err = ck_wire_cuDeviceSetMemPool(ctx, ordinal, id);
	if (!err)
		ckc_pool_set(dev, (struct ckc_pool *)pool);
	ckc_cache_clear();
	return err;
}

CK_EXPORT CUresult cuMemGetDefaultMemPool(CUmemoryPool *pool_out, const CUmemLocation *location,
					  CUmemAllocationType type)
{
	CUmemLocation at;
	uint64_t ctx, id = 0;
	CUresult err = enter_location(pool_out, location, type, &ctx, &at);

	if (!err && ckc_location_in_host(&at))
		return ckc_host_pool_of(pool_out, &at, true);
	if (!err)
		err = ck_wire_cuMemGetDefaultMemPool(ctx, &id, &at, type);
	return note_reported_pool(err, id, location ? location->id : 0, pool_out);
}

CK_EXPORT CUresult cuMemGetMemPool(CUmemoryPool *pool, const CUmemLocation *location,
				   CUmemAllocationType type)
{
	CUmemLocation at;
	uint64_t ctx, id = 0;
	CUresult err = enter_location(pool, location, type, &ctx, &at);

	if (!err && ckc_location_in_host(&at))
		return ckc_host_pool_of(pool, &at, false);
	if (!err)
		err = ck_wire_cuMemGetMemPool(ctx, &id, &at, type);
	return note_reported_pool(err, id, location ? location->id : 0, pool);
}

CK_EXPORT CUresult cuMemSetMemPool(const CUmemLocation *location, CUmemAllocationType type,
				   CUmemoryPool pool)
{
	CUmemLocation at;
	uint64_t ctx, id;
	CUresult err = enter_location(location, location, type, &ctx, &at);

	if (!err)
		err = ckc_pool_id(pool, &id);
	if (err)
		return err;
	if (ckc_location_in_host(&at))
		return ckc_host_pool_set(&at, (struct ckc_pool *)pool);
	if (((struct ckc_pool *)pool)->host)
		return CUDA_ERROR_INVALID_VALUE;
	err = ck_wire_cuMemSetMemPool(ctx, &at, type, id);
	if (!err)
		ckc_pool_set(location->id, (struct ckc_pool *)pool);
	ckc_cache_clear();
	return err;
}

/* --- sharing */

CK_EXPORT CUresult cuMemPoolExportToShareableHandle(void *handle_out, CUmemoryPool pool,
						    CUmemAllocationHandleType handleType,
						    unsigned long long flags)
{
	struct ckc_pool *p = ckc_object_check(pool, CK_OBJECT_POOL);
	uint64_t ctx;
	CUresult err = ckc_enter_any(&ctx);

	if (err)
		return err;
	if (!p)
		return CUDA_ERROR_INVALID_HANDLE;
	if (!handle_out || flags || p->host)
		return CUDA_ERROR_INVALID_VALUE;
	return ckc_share_export(ctx, &p->object, p->unique, handleType, handle_out);
}

CK_EXPORT CUresult cuMemPoolImportFromShareableHandle(CUmemoryPool *pool_out, void *handle,
						      CUmemAllocationHandleType handleType,
						      unsigned long long flags)
{
	const struct ckc_pool *source;
	CUmemAllocationProp unused;
	struct ckc_shared shared;
	struct ckc_pool *p;
	uint64_t ctx;
	CUresult err = ckc_enter_any(&ctx);

	if (err)
		return err;
	if (!pool_out || flags || handleType != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
		return CUDA_ERROR_INVALID_VALUE;
	err = ckc_share_read((int)(intptr_t)handle, CK_OBJECT_POOL, &shared);
	if (err)
		return err;
	source = shared.here ? ckc_object_by_id(CK_OBJECT_POOL, shared.id) : NULL;
	if (shared.here && (!source || source->unique != shared.unique))
		return CUDA_ERROR_INVALID_VALUE;
	p = ckc_object_new(CK_OBJECT_POOL, NULL);
	if (!p)
		return CUDA_ERROR_OUT_OF_MEMORY;
	p->unique = ckc_share_unique();
	err = shared.here ? ck_wire_import(ctx, p->object.id, shared.id, &unused)
			  : ck_wire_import_ticket(ctx, p->object.id, 1, &shared.ticket,
						  sizeof(shared.ticket), &unused);
	if (err)
		ckc_object_free(p);
	else
		*pool_out = (CUmemoryPool)p;
	return err;
}

/* The driver decides whether it can be exported; the export is deposited for other sessions. */
CK_EXPORT CUresult cuMemPoolExportPointer(CUmemPoolPtrExportData *shareData_out, CUdeviceptr ptr)
{
	struct ckc_ticket ticket;
	void *bytes = NULL;
	size_t size = 0;
	uint64_t ctx;
	CUresult err = ckc_enter_any(&ctx);

	if (err)
		return err;
	if (!shareData_out)
		return CUDA_ERROR_INVALID_VALUE;
	err = ck_wire_pool_pointer_leave(ctx, ptr, &bytes, &size);
	if (err)
		return err;
	ticket = ckc_ticket_take(bytes, size);
	ckc_share_pointer_make(shareData_out, ptr, &ticket);
	return CUDA_SUCCESS;
}

/* Import a pointer of this session, whose memory is known. */
static CUresult pointer_of_ours(uint64_t ctx, uint64_t pool, CUdeviceptr source,
				struct ckc_allocation *a)
{
	CUdeviceptr at = 0;
	CUresult err;

	if (!ckc_allocation_find(source, a) || a->base != source || !a->pooled)
		return CUDA_ERROR_INVALID_VALUE;
	err = ck_wire_pool_pointer(ctx, pool, source, &at);
	a->base = at;
	return err;
}

static CUresult pointer_of_another(uint64_t ctx, uint64_t pool, const struct ckc_ticket *ticket,
				   struct ckc_allocation *a)
{
	CUdeviceptr at = 0;
	size_t size = 0;
	int device = -1;
	CUresult err =
		ck_wire_pool_pointer_claim(ctx, pool, ticket, sizeof(*ticket), &at, &size, &device);

	*a = (struct ckc_allocation){.base = at,
				     .size = size,
				     .kind = CK_MEMORY_DEVICE,
				     .pooled = true,
				     .device = ckc_share_ordinal(device)};
	return err;
}

CK_EXPORT CUresult cuMemPoolImportPointer(CUdeviceptr *ptr_out, CUmemoryPool pool,
					  CUmemPoolPtrExportData *shareData)
{
	struct ckc_allocation a;
	struct ckc_shared shared;
	uint64_t ctx, id;
	CUresult err = ckc_enter_any(&ctx);

	if (!err)
		err = ckc_pool_id(pool, &id);
	if (!err)
		err = ptr_out && shareData ? ckc_share_pointer_read(shareData, &shared)
					   : CUDA_ERROR_INVALID_VALUE;
	if (!err)
		err = shared.here ? pointer_of_ours(ctx, id, shared.id, &a)
				  : pointer_of_another(ctx, id, &shared.ticket, &a);
	if (err)
		return err;
	ckc_address_claim(a.base, a.size);
	err = ckc_allocation_note(&a);
	if (!err)
		*ptr_out = a.base;
	return err;
}
