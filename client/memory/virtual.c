/*
 * client/memory/virtual.c - virtual memory management: mappings of physical memory (physical.c) at
 * reserved addresses (reservation.c). Mapped memory counts as device memory (allocation.c), that of
 * the host as managed memory.
 */
#include <stdlib.h>

#include "client/link/client.h"
#include "client/managed/managed.h"
#include "client/memory/physical.h"
#include "client/memory/location.h"
#include "client/memory/reservation.h"
#include "util/util.h"

/*
 * --- physical memory of the host. Its mappings are for the program's instructions and for kernels,
 * like mapped pinned memory. So it is memory of the current device on the server, its pages are
 * tracked (client/managed), and it travels when the other side uses it.
 */

/* [at, at+size) has been mapped to such memory. */
static CUresult open_to_program(uint64_t at, size_t size)
{
	struct ckc_context *context;
	CUresult err = ckc_context_usable(&context);

	return err ? err : ckc_managed_adopt(at, size, context);
}

/*
 * Send the program's changes in mappings of such memory in [at, at+size): they may end while these
 * bytes are in its pages only, and the memory be mapped at another place. @end: they have ended.
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

		if (ours && ckc_location_in_host(&each.location))
			each.location = (CUmemLocation){.type = CU_MEM_LOCATION_TYPE_DEVICE,
							.id = a.device};
		if (!ours || each.location.id != a.device) {
			out[n++] = each;
		} else if (own == count) { /* once, with the rights of both sides */
			own = n;
			out[n++] = each;
		} else {
			out[own].flags = ck_max(out[own].flags, each.flags);
		}
	}
	return n;
}

/* --- mappings */

/* Note that [ptr, ptr+size) is mapped to @p, and open it to the program if it is the host's. */
static CUresult note_mapping(CUdeviceptr ptr, size_t size, const struct ckc_physical *p)
{
	bool host = ckc_location_in_host(&p->prop.location);
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
		.physical = {p->object.id, p->unique},
		.handle_types = (unsigned int)p->prop.requestedHandleTypes,
	});
}

CK_EXPORT CUresult cuMemMap(CUdeviceptr ptr, size_t size, size_t offset,
			    CUmemGenericAllocationHandle handle, unsigned long long flags)
{
	const struct ckc_physical *p = ckc_physical_from(handle);
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
