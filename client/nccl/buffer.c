/*
 * client/nccl/buffer.c - memory for NCCL, registered buffers and windows.
 *
 * The memory is the session's, with the properties that NCCL's own has: physical memory that other
 * processes can import, and that the GPUs of the server reach. So quotas count it, and the client
 * knows its addresses.
 */
#include <string.h>

#include "client/nccl/nccl.h"
#include "util/util.h"

static CUmemAllocationProp make_properties(CUdevice device)
{
	CUmemAllocationProp prop;

	memset(&prop, 0, sizeof(prop));
	prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
	prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
	prop.location.id = device;
	prop.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
	return prop;
}

/* Access for @device and those that reach its memory. */
static CUresult open_to_peers(CUdeviceptr at, size_t size, CUdevice device)
{
	CUmemAccessDesc access = {.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
	CUresult err;
	int count = 0, can;

	access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
	access.location.id = device;
	err = cuMemSetAccess(at, size, &access, 1);
	cuDeviceGetCount(&count);
	for (int i = 0; !err && i < count; i++) {
		if (i == device || cuDeviceCanAccessPeer(&can, i, device) || !can)
			continue;
		access.location.id = i;
		err = cuMemSetAccess(at, size, &access, 1);
	}
	return err;
}

static CUresult map_new(CUdeviceptr *at, size_t size, CUdevice device)
{
	CUmemAllocationProp prop = make_properties(device);
	CUmemGenericAllocationHandle physical;
	size_t unit = 0;
	CUresult err =
		cuMemGetAllocationGranularity(&unit, &prop, CU_MEM_ALLOC_GRANULARITY_RECOMMENDED);

	if (err)
		return err;
	size = CK_ALIGN_UP(size, unit);
	err = cuMemCreate(&physical, size, &prop, 0);
	if (err)
		return err;
	err = cuMemAddressReserve(at, size, unit, 0, 0);
	if (!err) {
		err = cuMemMap(*at, size, 0, physical, 0);
		if (!err && (err = open_to_peers(*at, size, device)))
			cuMemUnmap(*at, size);
		if (err)
			cuMemAddressFree(*at, size);
	}
	cuMemRelease(physical); /* it stays while it is mapped */
	return err;
}

ncclResult_t ckc_ncclMemAlloc(void **ptr, size_t size)
{
	struct ckc_context *context;
	CUdeviceptr at = 0;
	CUresult err;

	if (!ptr || size == 0)
		return ckc_nccl_fail(ncclInvalidArgument, "ncclMemAlloc: %zu bytes", size);
	err = ckc_context_usable(&context);
	if (!err) {
		err = map_new(&at, size, context->device);
		if (err && err != CUDA_ERROR_OUT_OF_MEMORY) /* a driver without such memory */
			err = cuMemAlloc_v2(&at, size);
	}
	if (!err)
		*ptr = (void *)(uintptr_t)at;
	return ckc_nccl_from_driver(err);
}

ncclResult_t ckc_ncclMemFree(void *ptr)
{
	struct ckc_allocation a;
	CUdeviceptr at = (uintptr_t)ptr;
	CUresult err;

	if (!ptr)
		return ncclSuccess;
	if (!ckc_allocation_find(at, &a) || a.base != at)
		return ckc_nccl_fail(ncclInvalidArgument,
				     "ncclMemFree: %p is not from ncclMemAlloc", ptr);
	if (!a.mapped)
		return ckc_nccl_from_driver(cuMemFree_v2(at));
	err = cuCtxSynchronize(); /* as the free of other memory */
	if (!err)
		err = cuMemUnmap(at, a.size);
	return ckc_nccl_from_driver(err ? err : cuMemAddressFree(at, a.size));
}

/* --- registered */

static ncclResult_t register_buffer(ncclComm_t handle, void *buffer, size_t size, void **value,
				    unsigned int what, int flags)
{
	struct ck_nccl_op o = {
		.what = what, .send = (uintptr_t)buffer, .count = size, .root = flags};
	struct ckc_nccl_after after = {.value = value};
	ncclResult_t ret = ckc_nccl_comm_idle(handle, &after.comm);

	if (!ret && (!value || !buffer || size == 0))
		ret = ckc_nccl_fail(ncclInvalidArgument, "%zu bytes at %p cannot be registered",
				    size, buffer);
	if (ret)
		return ckc_nccl_group_fail(ret);
	*value = NULL;
	after.registers = 1;
	return ckc_nccl_group_fail(ckc_nccl_do(&o, NULL, 0, &after, CKC_NCCL_WAITS));
}

static ncclResult_t deregister_buffer(ncclComm_t handle, const void *value, unsigned int what)
{
	struct ck_nccl_op o = {.what = what, .send = (uintptr_t)value};
	struct ckc_nccl_after after = {.registers = -1};
	ncclResult_t ret = ckc_nccl_comm_idle(handle, &after.comm);

	return ckc_nccl_group_fail(ret ? ret : ckc_nccl_do(&o, NULL, 0, &after, CKC_NCCL_WAITS));
}

ncclResult_t ckc_ncclCommRegister(const ncclComm_t comm, void *buff, size_t size, void **handle)
{
	return register_buffer(comm, buff, size, handle, CK_NCCL_REGISTER, 0);
}

ncclResult_t ckc_ncclCommDeregister(const ncclComm_t comm, void *handle)
{
	return deregister_buffer(comm, handle, CK_NCCL_DEREGISTER);
}

ncclResult_t ckc_ncclCommWindowRegister(ncclComm_t comm, void *buff, size_t size, ncclWindow_t *win,
					int flags)
{
	return register_buffer(comm, buff, size, (void **)win, CK_NCCL_WINDOW, flags);
}

ncclResult_t ckc_ncclCommWindowDeregister(ncclComm_t comm, ncclWindow_t win)
{
	return deregister_buffer(comm, win, CK_NCCL_WINDOW_END);
}
