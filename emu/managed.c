/*
 * emu/managed.c - managed memory. Device memory lies in this process, so host and device touch the
 * same bytes and nothing moves; what CUDA checks is checked.
 */

#include "emu/emu.h"

CUresult cuMemAllocManaged(CUdeviceptr *dptr, size_t bytesize, unsigned int flags)
{
	struct ck_emu_context *context;
	CUresult result = ck_emu_enter(&context);
	uint64_t address;

	if (result != CUDA_SUCCESS)
		return result;
	if (!dptr || !bytesize || (flags != CU_MEM_ATTACH_GLOBAL && flags != CU_MEM_ATTACH_HOST))
		return CUDA_ERROR_INVALID_VALUE;
	address = ck_emu_arena_alloc(context, bytesize, CK_EMU_MEMORY_MANAGED, NULL);
	if (!address)
		return ck_emu_context_refusal(context);
	*dptr = address;
	return CUDA_SUCCESS;
}

/* A managed range, and a stream that is one. */
static CUresult check(CUdeviceptr address, size_t size, CUstream handle,
		      struct ck_emu_memory *memory)
{
	struct ck_emu_context *context;
	struct ck_emu_stream *stream;
	CUresult result = ck_emu_enter(&context);

	if (result != CUDA_SUCCESS)
		return result;
	result = ck_emu_stream_get(handle, context, &stream);
	if (result != CUDA_SUCCESS)
		return result;
	ck_emu_object_put(&stream->base);
	if (!size || !ck_emu_arena_find(address, memory) ||
	    memory->kind != CK_EMU_MEMORY_MANAGED || size > memory->size - (address - memory->lo))
		return CUDA_ERROR_INVALID_VALUE;
	return CUDA_SUCCESS;
}

CUresult cuMemPrefetchAsync_v2(CUdeviceptr devPtr, size_t count, CUmemLocation location,
			       unsigned int flags, CUstream hStream)
{
	struct ck_emu_memory memory;
	CUresult result = check(devPtr, count, hStream, &memory);

	if (result != CUDA_SUCCESS)
		return result;
	if (flags || location.type < CU_MEM_LOCATION_TYPE_DEVICE ||
	    location.type > CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT)
		return CUDA_ERROR_INVALID_VALUE;
	if (location.type == CU_MEM_LOCATION_TYPE_DEVICE && !ck_emu_device_at(location.id))
		return CUDA_ERROR_INVALID_DEVICE;
	return CUDA_SUCCESS;
}

CUresult cuMemPrefetchAsync(CUdeviceptr devPtr, size_t count, CUdevice dstDevice, CUstream hStream)
{
	CUmemLocation location = { .type = CU_MEM_LOCATION_TYPE_DEVICE, .id = dstDevice };

	if (dstDevice == CU_DEVICE_CPU)
		location.type = CU_MEM_LOCATION_TYPE_HOST;
	return cuMemPrefetchAsync_v2(devPtr, count, location, 0, hStream);
}

CUresult cuStreamAttachMemAsync(CUstream hStream, CUdeviceptr dptr, size_t length,
				unsigned int flags)
{
	struct ck_emu_memory memory;
	CUresult result = check(dptr, 1, hStream, &memory);

	if (result != CUDA_SUCCESS)
		return result;
	if (memory.lo != dptr || (length && length != memory.size) ||
	    (flags != CU_MEM_ATTACH_GLOBAL && flags != CU_MEM_ATTACH_HOST &&
	     flags != CU_MEM_ATTACH_SINGLE) ||
	    (flags == CU_MEM_ATTACH_SINGLE && (!hStream || hStream == CU_STREAM_LEGACY)))
		return CUDA_ERROR_INVALID_VALUE;
	return CUDA_SUCCESS;
}
