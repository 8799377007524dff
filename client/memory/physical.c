/*
 * client/memory/physical.c - physical memory of virtual memory management: its handles, and their
 * export and import. Its mappings are in virtual.c.
 */
#include <string.h>

#include "client/link/client.h"
#include "client/memory/physical.h"
#include "client/memory/location.h"
#include "client/memory/share.h"

struct ckc_physical *ckc_physical_from(CUmemGenericAllocationHandle handle)
{
	return ckc_object_check((const void *)(uintptr_t)handle, CK_OBJECT_PHYSICAL);
}

/* With a way to share it, another process would find memory of a device. */
static CUresult stand_in(CUmemAllocationProp *prop)
{
	const struct ckc_context *context = ckc_context_current();

	if (prop->requestedHandleTypes)
		return CUDA_ERROR_NOT_SUPPORTED;
	prop->location = (CUmemLocation){.type = CU_MEM_LOCATION_TYPE_DEVICE,
					 .id = context ? context->device : 0};
	return CUDA_SUCCESS;
}

/* Translate @prop for the server, and tell the device that the memory will be on. */
static CUresult prop_id(const CUmemAllocationProp *prop, CUmemAllocationProp *out, int *device)
{
	CUresult err = CUDA_SUCCESS;

	*out = *prop;
	out->win32HandleMetaData = NULL;
	if (ckc_location_in_host(&prop->location))
		err = stand_in(out);
	else if (prop->location.type != CU_MEM_LOCATION_TYPE_DEVICE)
		err = CUDA_ERROR_INVALID_VALUE;
	*device = out->location.id;
	return err ? err
		   : ckc_location_id(&(CUmemLocation){out->location.type, *device}, &out->location);
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
	int device;

	memset(&key, 0, sizeof(key));
	key.proc = CK_PROC_cuMemGetAllocationGranularity;
	key.option = option;
	if (!err)
		err = granularity && prop ? prop_id(prop, &key.prop, &device)
					  : CUDA_ERROR_INVALID_VALUE;
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
	int device;

	if (!err)
		err = handle && prop && size ? prop_id(prop, &sent, &device)
					     : CUDA_ERROR_INVALID_VALUE;
	if (err)
		return err;
	p = ckc_object_new(CK_OBJECT_PHYSICAL, NULL);
	if (!p)
		return CUDA_ERROR_OUT_OF_MEMORY;
	p->unique = ckc_share_unique();
	p->prop = *prop;
	p->device = device;
	err = ck_wire_cuMemCreate(ctx, p->object.id, size, &sent, flags);
	if (err)
		ckc_object_free(p);
	else
		*handle = (uintptr_t)p;
	return err;
}

/* Was the handle given to the program more than once? Then a release ends one of these times. */
static bool take_back(struct ckc_physical *p)
{
	unsigned int again = atomic_load(&p->again);

	while (again > 0 && !atomic_compare_exchange_weak(&p->again, &again, again - 1))
		;
	return again > 0;
}

CK_EXPORT CUresult cuMemRelease(CUmemGenericAllocationHandle handle)
{
	struct ckc_physical *p = ckc_physical_from(handle);
	uint64_t ctx;
	CUresult err = ckc_enter_any(&ctx);

	if (err)
		return err;
	if (!p)
		return CUDA_ERROR_INVALID_VALUE;
	if (take_back(p))
		return CUDA_SUCCESS;
	err = ck_wire_cuMemRelease(ctx, p->object.id);
	ckc_object_free(p);
	return err;
}

CK_EXPORT CUresult cuMemGetAllocationPropertiesFromHandle(CUmemAllocationProp *prop,
							  CUmemGenericAllocationHandle handle)
{
	const struct ckc_physical *p = ckc_physical_from(handle);
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
	p->device = p->prop.location.id = ckc_share_ordinal(p->prop.location.id);
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

/* The handle that the memory was mapped by; NULL: it has been released. */
static struct ckc_physical *mapped_by(const struct ckc_allocation *a)
{
	struct ckc_physical *p = ckc_object_by_id(CK_OBJECT_PHYSICAL, a->physical.id);

	return p && p->unique == a->physical.unique ? p : NULL;
}

/* CUDA documents that it is the handle that the memory was mapped by. After the release of that
 * one, it is a new one here. */
CK_EXPORT CUresult cuMemRetainAllocationHandle(CUmemGenericAllocationHandle *handle, void *addr)
{
	struct ckc_physical *p;
	struct ckc_allocation a;
	uint64_t ctx;
	CUresult err = ckc_enter_any(&ctx);

	if (err)
		return err;
	if (!handle || !ckc_allocation_find((uintptr_t)addr, &a) || !a.mapped)
		return CUDA_ERROR_INVALID_VALUE;
	p = mapped_by(&a);
	if (p) {
		atomic_fetch_add(&p->again, 1);
		*handle = (uintptr_t)p;
		return CUDA_SUCCESS;
	}
	err = add_handle(handle, ctx, (uintptr_t)addr, retain_physical);
	if (!err && ckc_allocation_in_host(&a))
		ckc_physical_from(*handle)->prop.location = a.location;
	return err;
}

/* --- sharing */

CK_EXPORT CUresult cuMemExportToShareableHandle(void *shareableHandle,
						CUmemGenericAllocationHandle handle,
						CUmemAllocationHandleType handleType,
						unsigned long long flags)
{
	const struct ckc_physical *p = ckc_physical_from(handle);
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
