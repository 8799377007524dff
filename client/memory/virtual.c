/*
 * client/memory/virtual.c - virtual memory management: physical memory, and its mappings at
 * reserved addresses (reservation.c). Mapped memory counts as device memory (allocation.c).
 */
#include <stdlib.h>
#include <string.h>

#include "client/link/client.h"
#include "client/memory/arena.h"
#include "client/memory/pool.h"
#include "client/memory/reservation.h"
#include "client/memory/share.h"

/* The physical memory of a handle. CUDA has no special error for an invalid one. */
static struct ckc_physical *physical_from(CUmemGenericAllocationHandle handle)
{
	return ckc_object_check((const void *)(uintptr_t)handle, CK_OBJECT_PHYSICAL);
}

/* --- physical memory */

/* Translate @prop for the server. Host memory is refused: the device cannot reach it. */
static CUresult prop_id(const CUmemAllocationProp *prop, CUmemAllocationProp *out)
{
	*out = *prop;
	out->win32HandleMetaData = NULL;
	if (prop->location.type == CU_MEM_LOCATION_TYPE_DEVICE)
		return ckc_location_id(&prop->location, &out->location);
	return prop->location.type == CU_MEM_LOCATION_TYPE_INVALID ? CUDA_ERROR_INVALID_VALUE
								   : CUDA_ERROR_NOT_SUPPORTED;
}

CK_EXPORT CUresult cuMemGetAllocationGranularity(size_t *granularity,
						 const CUmemAllocationProp *prop,
						 CUmemAllocationGranularity_flags option)
{
	struct {
		uint64_t proc, ctx, option;
		CUmemAllocationProp prop;
	} key;
	uint64_t ctx;
	CUresult err = ckc_enter_any(&ctx);

	memset(&key, 0, sizeof(key));
	key.proc = CK_PROC_cuMemGetAllocationGranularity;
	key.option = option;
	if (!err)
		err = granularity && prop ? prop_id(prop, &key.prop) : CUDA_ERROR_INVALID_VALUE;
	if (err || ckc_cache_get(&key, sizeof(key), granularity, sizeof(*granularity)))
		return err;
	err = ck_wire_cuMemGetAllocationGranularity(ctx, granularity, &key.prop, option);
	if (!err)
		ckc_cache_put(&key, sizeof(key), granularity, sizeof(*granularity));
	return err;
}

CK_EXPORT CUresult cuMemCreate(CUmemGenericAllocationHandle *handle, size_t size,
			       const CUmemAllocationProp *prop, unsigned long long flags)
{
	struct ckc_physical *p;
	CUmemAllocationProp sent;
	uint64_t ctx;
	CUresult err = ckc_enter_any(&ctx);

	if (!err)
		err = handle && prop && size ? prop_id(prop, &sent) : CUDA_ERROR_INVALID_VALUE;
	if (err)
		return err;
	p = ckc_object_new(CK_OBJECT_PHYSICAL, NULL);
	if (!p)
		return CUDA_ERROR_OUT_OF_MEMORY;
	p->unique = ckc_share_unique();
	p->prop = *prop;
	err = ck_wire_cuMemCreate(ctx, p->object.id, size, &sent, flags);
	if (err)
		ckc_object_free(p);
	else
		*handle = (uintptr_t)p;
	return err;
}

CK_EXPORT CUresult cuMemRelease(CUmemGenericAllocationHandle handle)
{
	struct ckc_physical *p = physical_from(handle);
	uint64_t ctx;
	CUresult err = ckc_enter_any(&ctx);

	if (err)
		return err;
	if (!p)
		return CUDA_ERROR_INVALID_VALUE;
	err = ck_wire_cuMemRelease(ctx, p->object.id);
	ckc_object_free(p);
	return err;
}

CK_EXPORT CUresult cuMemGetAllocationPropertiesFromHandle(CUmemAllocationProp *prop,
							  CUmemGenericAllocationHandle handle)
{
	const struct ckc_physical *p = physical_from(handle);
	CUresult err = ckc_session_check();

	if (err)
		return err;
	if (!prop || !p)
		return CUDA_ERROR_INVALID_VALUE;
	*prop = p->prop;
	return CUDA_SUCCESS;
}

/* The server has made its memory @p's and reported the properties; or failed with @err. */
static CUresult another_made(CUmemGenericAllocationHandle *handle, struct ckc_physical *p,
			     CUresult err)
{
	p->unique = ckc_share_unique();
	p->prop.location.id = ckc_share_ordinal(p->prop.location.id);
	if (err)
		ckc_object_free(p);
	else
		*handle = (uintptr_t)p;
	return err;
}

/* Make a further handle; @ask obtains the memory by @what: an address, or an object's id. */
static CUresult add_handle(CUmemGenericAllocationHandle *handle, uint64_t ctx, uint64_t what,
			   CUresult (*ask)(uint64_t ctx, uint64_t id, uint64_t what,
					   CUmemAllocationProp *prop))
{
	struct ckc_physical *p = ckc_object_new(CK_OBJECT_PHYSICAL, NULL);

	if (!p)
		return CUDA_ERROR_OUT_OF_MEMORY;
	return another_made(handle, p, ask(ctx, p->object.id, what, &p->prop));
}

static CUresult retain_physical(uint64_t ctx, uint64_t id, uint64_t address,
				CUmemAllocationProp *prop)
{
	return ck_wire_physical_retain(ctx, id, address, prop);
}

CK_EXPORT CUresult cuMemRetainAllocationHandle(CUmemGenericAllocationHandle *handle, void *addr)
{
	struct ckc_allocation a;
	uint64_t ctx;
	CUresult err = ckc_enter_any(&ctx);

	if (err)
		return err;
	if (!handle || !ckc_allocation_find((uintptr_t)addr, &a) || !a.mapped)
		return CUDA_ERROR_INVALID_VALUE;
	return add_handle(handle, ctx, (uintptr_t)addr, retain_physical);
}

/* --- mappings */

CK_EXPORT CUresult cuMemMap(CUdeviceptr ptr, size_t size, size_t offset,
			    CUmemGenericAllocationHandle handle, unsigned long long flags)
{
	const struct ckc_physical *p = physical_from(handle);
	uint64_t ctx;
	CUresult err = ckc_enter_any(&ctx);

	if (err)
		return err;
	if (!p || size == 0 || !ckc_reservation_holds(ptr, size))
		return CUDA_ERROR_INVALID_VALUE;
	err = ck_wire_cuMemMap(ctx, ptr, size, offset, p->object.id, flags);
	if (err)
		return err;
	return ckc_allocation_note(&(struct ckc_allocation){
		.base = ptr,
		.size = size,
		.kind = CK_MEMORY_DEVICE,
		.device = p->prop.location.id,
		.mapped = true,
		.handle_types = (unsigned int)p->prop.requestedHandleTypes,
	});
}

CK_EXPORT CUresult cuMemUnmap(CUdeviceptr ptr, size_t size)
{
	uint64_t ctx;
	CUresult err = ckc_enter_any(&ctx);

	if (err)
		return err;
	err = ck_wire_cuMemUnmap(ctx, ptr, size);
	if (!err)
		ckc_allocation_unmap(ptr, size);
	return err;
}

CK_EXPORT CUresult cuMemSetAccess(CUdeviceptr ptr, size_t size, const CUmemAccessDesc *desc,
				  size_t count)
{
	uint64_t ctx, gained, lost;
	CUmemAccessDesc *ids;
	CUresult err = ckc_enter_any(&ctx);

	if (!err)
		err = ckc_access_ids(desc, count, &ids, &gained, &lost);
	if (err)
		return err;
	err = ck_wire_set_access(ctx, ptr, size, ids, count * sizeof(*ids));
	free(ids);
	if (!err)
		ckc_allocation_access(ptr, size, gained, lost);
	return err;
}

CK_EXPORT CUresult cuMemGetAccess(unsigned long long *flags, const CUmemLocation *location,
				  CUdeviceptr ptr)
{
	CUmemLocation at;
	uint64_t ctx;
	CUresult err = ckc_enter_any(&ctx);

	if (!err)
		err = flags && location ? ckc_location_id(location, &at) : CUDA_ERROR_INVALID_VALUE;
	return err ? err : ck_wire_cuMemGetAccess(ctx, flags, &at, ptr);
}

/* --- sharing */

CK_EXPORT CUresult cuMemExportToShareableHandle(void *shareableHandle,
						CUmemGenericAllocationHandle handle,
						CUmemAllocationHandleType handleType,
						unsigned long long flags)
{
	const struct ckc_physical *p = physical_from(handle);
	uint64_t ctx;
	CUresult err = ckc_enter_any(&ctx);

	if (err)
		return err;
	if (!shareableHandle || !p || flags)
		return CUDA_ERROR_INVALID_VALUE;
	return ckc_share_export(ctx, &p->object, p->unique, handleType, shareableHandle);
}

/* Import an object of this session by its id, or one of another by its ticket. */
static CUresult import_physical(const struct ckc_shared *shared, uint64_t ctx,
				CUmemGenericAllocationHandle *handle)
{
	const struct ckc_physical *source;
	struct ckc_physical *p;
	CUresult err;

	if (shared->here) {
		source = ckc_object_by_id(CK_OBJECT_PHYSICAL, shared->id);
		if (!source || source->unique != shared->unique)
			return CUDA_ERROR_INVALID_VALUE;
		return add_handle(handle, ctx, shared->id, ck_wire_import);
	}
	p = ckc_object_new(CK_OBJECT_PHYSICAL, NULL);
	if (!p)
		return CUDA_ERROR_OUT_OF_MEMORY;
	err = ck_wire_import_ticket(ctx, p->object.id, 0, &shared->ticket, sizeof(shared->ticket),
				    &p->prop);
	return another_made(handle, p, err);
}

CK_EXPORT CUresult cuMemImportFromShareableHandle(CUmemGenericAllocationHandle *handle,
						  void *osHandle,
						  CUmemAllocationHandleType shHandleType)
{
	struct ckc_shared shared;
	uint64_t ctx;
	CUresult err = ckc_enter_any(&ctx);

	if (err)
		return err;
	if (!handle || shHandleType != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
		return CUDA_ERROR_INVALID_VALUE;
	err = ckc_share_read((int)(intptr_t)osHandle, CK_OBJECT_PHYSICAL, &shared);
	return err ? err : import_physical(&shared, ctx, handle);
}

CUresult ckc_physical_import(uint64_t rid, unsigned int part, unsigned int access,
			     CUmemGenericAllocationHandle *handle)
{
	struct ckc_physical *p;
	uint64_t ctx;
	CUresult err = ckc_enter_any(&ctx);

	if (err)
		return err;
	p = ckc_object_new(CK_OBJECT_PHYSICAL, NULL);
	if (!p)
		return CUDA_ERROR_OUT_OF_MEMORY;
	err = ck_wire_m3_import(ctx, p->object.id, rid, part, access, &p->prop);
	return another_made(handle, p, err);
}
