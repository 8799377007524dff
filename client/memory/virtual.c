/*
 * client/memory/virtual.c - virtual memory management: physical memory, and its mappings at
 * reserved addresses (reservation.c). Mapped memory counts as device memory (allocation.c), that of
 * the host as managed memory.
 */
#include <stdlib.h>
#include <string.h>

#include "client/link/client.h"
#include "client/managed/managed.h"
#include "client/memory/arena.h"
#include "client/memory/pools/pool.h"
#include "client/memory/reservation.h"
#include "client/memory/share.h"

/* The physical memory of a handle. CUDA has no special error for an invalid one. */
static struct ckc_physical *physical_from(CUmemGenericAllocationHandle handle)
{
	return ckc_object_check((const void *)(uintptr_t)handle, CK_OBJECT_PHYSICAL);
}

/*
 * --- physical memory of the host. Its mappings are for the program's instructions and for kernels,
 * like mapped pinned memory. So it is memory of the current device on the server, its pages are
 * tracked (client/managed), and it travels when the other side uses it.
 */

static bool is_in_host(const CUmemLocation *location)
{
	return location->type == CU_MEM_LOCATION_TYPE_HOST ||
	       location->type == CU_MEM_LOCATION_TYPE_HOST_NUMA ||
	       location->type == CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT;
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

/* [at, at+size) has been mapped to such memory. */
static CUresult open_to_program(uint64_t at, size_t size)
{
	struct ckc_context *context;
	CUresult err = ckc_context_usable(&context);

	return err ? err : ckc_managed_adopt(at, size, context);
}

/*
 * Send what the program has written to mappings of such memory in [at, at+size): they may end while
 * these bytes are in its pages only, and the memory be mapped at another place. @end: they have
 * ended.
 */
static void close_to_program(uint64_t at, size_t size, bool end)
{
	struct ckc_allocation a;

	for (uint64_t from = at; from < at + size && ckc_allocation_next(from, &a);
	     from = a.base + a.size) {
		if (a.base >= at + size)
			break;
		if (!ckc_allocation_in_host(&a))
			continue;
		if (end)
			ckc_managed_leave(a.base, a.size);
		else
			ckc_managed_device(a.base, a.size, true);
	}
}

/*
 * The access to @ptr that @desc, of @count entries, means for devices, if it is such memory: that
 * of the host is its device's. Returns the number of entries in @out, which has room for @count.
 */
static size_t translate_access(CUdeviceptr ptr, const CUmemAccessDesc *desc, size_t count,
			       CUmemAccessDesc *out)
{
	struct ckc_allocation a;
	bool ours = ckc_allocation_find(ptr, &a) && ckc_allocation_in_host(&a);
	size_t n = 0, own = count;

	for (size_t i = 0; i < count; i++) {
		CUmemAccessDesc each = desc[i];

		if (ours && is_in_host(&each.location))
			each.location = (CUmemLocation){.type = CU_MEM_LOCATION_TYPE_DEVICE,
							.id = a.device};
		if (!ours || each.location.id != a.device) {
			out[n++] = each;
		} else if (own == count) { /* once, with what either side may do */
			own = n;
			out[n++] = each;
		} else {
			out[own].flags = ck_max(out[own].flags, each.flags);
		}
	}
	return n;
}

/* --- physical memory */

/* Translate @prop for the server, and tell the device that the memory will be on. */
static CUresult prop_id(const CUmemAllocationProp *prop, CUmemAllocationProp *out, int *device)
{
	CUresult err = CUDA_SUCCESS;

	*out = *prop;
	out->win32HandleMetaData = NULL;
	if (is_in_host(&prop->location))
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

CK_EXPORT CUresult cuMemRetainAllocationHandle(CUmemGenericAllocationHandle *handle, void *addr)
{
	struct ckc_allocation a;
	uint64_t ctx;
	CUresult err = ckc_enter_any(&ctx);

	if (err)
		return err;
	if (!handle || !ckc_allocation_find((uintptr_t)addr, &a) || !a.mapped)
		return CUDA_ERROR_INVALID_VALUE;
	err = add_handle(handle, ctx, (uintptr_t)addr, retain_physical);
	if (!err && ckc_allocation_in_host(&a))
		physical_from(*handle)->prop.location = a.location;
	return err;
}

/* --- mappings */

/* Note that [ptr, ptr+size) is mapped to @p, and open it to the program if it is the host's. */
static CUresult note_mapping(CUdeviceptr ptr, size_t size, const struct ckc_physical *p)
{
	bool host = is_in_host(&p->prop.location);
	CUresult err = host ? open_to_program(ptr, size) : CUDA_SUCCESS;

	if (err)
		return err;
	return ckc_allocation_note(&(struct ckc_allocation){
		.base = ptr,
		.size = size,
		.kind = host ? CK_MEMORY_MANAGED : CK_MEMORY_DEVICE,
		.device = p->device,
		.location = p->prop.location,
		.mapped = true,
		.handle_types = (unsigned int)p->prop.requestedHandleTypes,
	});
}

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
	err = note_mapping(ptr, size, p);
	if (err)
		ck_wire_cuMemUnmap(ctx, ptr, size);
	return err;
}

CK_EXPORT CUresult cuMemUnmap(CUdeviceptr ptr, size_t size)
{
	uint64_t ctx;
	CUresult err = ckc_enter_any(&ctx);

	if (err)
		return err;
	close_to_program(ptr, size, false);
	err = ck_wire_cuMemUnmap(ctx, ptr, size);
	if (err)
		return err;
	close_to_program(ptr, size, true);
	ckc_allocation_unmap(ptr, size);
	return CUDA_SUCCESS;
}

CK_EXPORT CUresult cuMemSetAccess(CUdeviceptr ptr, size_t size, const CUmemAccessDesc *desc,
				  size_t count)
{
	uint64_t ctx, gained, lost;
	CUmemAccessDesc *ids = NULL, *devices;
	CUresult err = ckc_enter_any(&ctx);

	if (err)
		return err;
	devices = desc && count > 0 ? calloc(count, sizeof(*devices)) : NULL;
	if (!devices)
		return desc && count > 0 ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_ERROR_INVALID_VALUE;
	count = translate_access(ptr, desc, count, devices);
	err = ckc_access_ids(devices, count, &ids, &gained, &lost);
	free(devices);
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
	CUmemAccessDesc wanted, device;
	CUmemLocation at;
	uint64_t ctx;
	CUresult err = ckc_enter_any(&ctx);

	if (!err && (!flags || !location))
		err = CUDA_ERROR_INVALID_VALUE;
	if (err)
		return err;
	wanted = (CUmemAccessDesc){.location = *location};
	translate_access(ptr, &wanted, 1, &device);
	err = ckc_location_id(&device.location, &at);
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
