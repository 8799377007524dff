/*
 * emu/memory/managed.c - managed memory. Device memory lies in this process, so host and device
 * access the same bytes and nothing moves; the calls have CUDA's checks.
 */
#include "emu/memory/arena.h"
#include "emu/core/emu.h"
#include "libcuda/advice.h"
#include "libcuda/libcuda.h"

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
static CUresult check_managed_range(CUdeviceptr address, size_t size, CUstream handle,
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
	if (!size || !ck_emu_arena_find(address, memory) || memory->kind != CK_EMU_MEMORY_MANAGED ||
	    size > memory->size - (address - memory->lo))
		return CUDA_ERROR_INVALID_VALUE;
	return CUDA_SUCCESS;
}

/* --- prefetches: nothing moves, and the location is stored and reported */

static CUresult location_check(const CUmemLocation *location)
{
	if (location->type < CU_MEM_LOCATION_TYPE_DEVICE ||
	    location->type > CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT)
		return CUDA_ERROR_INVALID_VALUE;
	if (location->type == CU_MEM_LOCATION_TYPE_DEVICE && !ck_emu_device_at(location->id))
		return CUDA_ERROR_INVALID_DEVICE;
	return CUDA_SUCCESS;
}

/* The old form of the calls names the CPU as a device. */
static CUmemLocation location_of(CUdevice device)
{
	CUmemLocation location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device};

	if (device == CU_DEVICE_CPU)
		location = (CUmemLocation){.type = CU_MEM_LOCATION_TYPE_HOST};
	return location;
}

CUresult cuMemPrefetchAsync_v2(CUdeviceptr devPtr, size_t count, CUmemLocation location,
			       unsigned int flags, CUstream hStream)
{
	struct ck_emu_memory memory;
	CUresult result = check_managed_range(devPtr, count, hStream, &memory);

	if (result == CUDA_SUCCESS)
		result = flags ? CUDA_ERROR_INVALID_VALUE : location_check(&location);
	if (result != CUDA_SUCCESS)
		return result;
	return ck_advice_prefetched(devPtr, count, &location);
}

CUresult cuMemPrefetchAsync(CUdeviceptr devPtr, size_t count, CUdevice dstDevice, CUstream hStream)
{
	return cuMemPrefetchAsync_v2(devPtr, count, location_of(dstDevice), 0, hStream);
}

/* --- batches of ranges */

static CUresult batch_check(const CUdeviceptr *at, const size_t *sizes, size_t count,
			    unsigned long long flags, CUstream stream)
{
	struct ck_emu_memory memory;
	CUresult result = ck_libcuda_takes_batch(stream);

	if (result == CUDA_SUCCESS && (!at || !sizes || count == 0 || flags))
		result = CUDA_ERROR_INVALID_VALUE;
	for (size_t i = 0; result == CUDA_SUCCESS && i < count; i++)
		result = check_managed_range(at[i], sizes[i], stream, &memory);
	return result;
}

/* Where each run of @ranges ranges goes: the first begins at the first, the others behind it. */
static CUresult places_check(const CUmemLocation *places, const size_t *first, size_t count,
			     size_t ranges)
{
	CUresult result = CUDA_SUCCESS;

	if (!places || !first || count == 0 || count > ranges || first[0] != 0)
		return CUDA_ERROR_INVALID_VALUE;
	for (size_t i = 0; result == CUDA_SUCCESS && i < count; i++) {
		if (first[i] >= ranges || (i > 0 && first[i] <= first[i - 1]))
			return CUDA_ERROR_INVALID_VALUE;
		result = location_check(&places[i]);
	}
	return result;
}

CUresult cuMemPrefetchBatchAsync(CUdeviceptr *dptrs, size_t *sizes, size_t count,
				 CUmemLocation *prefetchLocs, size_t *prefetchLocIdxs,
				 size_t numPrefetchLocs, unsigned long long flags, CUstream hStream)
{
	CUresult result = batch_check(dptrs, sizes, count, flags, hStream);

	if (result == CUDA_SUCCESS)
		result = places_check(prefetchLocs, prefetchLocIdxs, numPrefetchLocs, count);
	for (size_t i = 0, place = 0; result == CUDA_SUCCESS && i < count; i++) {
		if (place + 1 < numPrefetchLocs && prefetchLocIdxs[place + 1] == i)
			place++;
		result = ck_advice_prefetched(dptrs[i], sizes[i], &prefetchLocs[place]);
	}
	return result;
}

/* Discarded memory may be kept: a read then finds old bytes. */
CUresult cuMemDiscardBatchAsync(CUdeviceptr *dptrs, size_t *sizes, size_t count,
				unsigned long long flags, CUstream hStream)
{
	return batch_check(dptrs, sizes, count, flags, hStream);
}

CUresult cuMemDiscardAndPrefetchBatchAsync(CUdeviceptr *dptrs, size_t *sizes, size_t count,
					   CUmemLocation *prefetchLocs, size_t *prefetchLocIdxs,
					   size_t numPrefetchLocs, unsigned long long flags,
					   CUstream hStream)
{
	return cuMemPrefetchBatchAsync(dptrs, sizes, count, prefetchLocs, prefetchLocIdxs,
				       numPrefetchLocs, flags, hStream);
}

/* --- advice: stored and reported */

CUresult cuMemAdvise_v2(CUdeviceptr devPtr, size_t count, CUmem_advise advice,
			CUmemLocation location)
{
	bool located = advice != CU_MEM_ADVISE_SET_READ_MOSTLY &&
		       advice != CU_MEM_ADVISE_UNSET_READ_MOSTLY &&
		       advice != CU_MEM_ADVISE_UNSET_PREFERRED_LOCATION;
	struct ck_emu_memory memory;
	CUresult result = check_managed_range(devPtr, count, NULL, &memory);

	if (result == CUDA_SUCCESS &&
	    (advice < CU_MEM_ADVISE_SET_READ_MOSTLY || advice > CU_MEM_ADVISE_UNSET_ACCESSED_BY))
		result = CUDA_ERROR_INVALID_VALUE;
	if (result == CUDA_SUCCESS && located)
		result = location_check(&location);
	return result == CUDA_SUCCESS ? ck_advice_set(devPtr, count, advice, &location) : result;
}

CUresult cuMemAdvise(CUdeviceptr devPtr, size_t count, CUmem_advise advice, CUdevice device)
{
	return cuMemAdvise_v2(devPtr, count, advice, location_of(device));
}

CUresult cuMemRangeGetAttribute(void *data, size_t dataSize, CUmem_range_attribute attribute,
				CUdeviceptr devPtr, size_t count)
{
	struct ck_emu_memory memory;
	CUresult result = check_managed_range(devPtr, count, NULL, &memory);

	if (result != CUDA_SUCCESS)
		return result;
	return data ? ck_advice_get(devPtr, count, attribute, data, dataSize)
		    : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMemRangeGetAttributes(void **data, size_t *dataSizes, CUmem_range_attribute *attributes,
				 size_t numAttributes, CUdeviceptr devPtr, size_t count)
{
	CUresult result = ck_emu_enter_bare();

	if (result != CUDA_SUCCESS)
		return result;
	if (!data || !dataSizes || !attributes || numAttributes == 0)
		return CUDA_ERROR_INVALID_VALUE;
	for (size_t i = 0; result == CUDA_SUCCESS && i < numAttributes; i++)
		result =
			cuMemRangeGetAttribute(data[i], dataSizes[i], attributes[i], devPtr, count);
	return result;
}

/* --- attaching: every stream reaches everything here */

CUresult cuStreamAttachMemAsync(CUstream hStream, CUdeviceptr dptr, size_t length,
				unsigned int flags)
{
	struct ck_emu_memory memory;
	CUresult result = check_managed_range(dptr, 1, hStream, &memory);

	if (result != CUDA_SUCCESS)
		return result;
	if (memory.lo != dptr || (length && length != memory.size) ||
	    (flags != CU_MEM_ATTACH_GLOBAL && flags != CU_MEM_ATTACH_HOST &&
	     flags != CU_MEM_ATTACH_SINGLE) ||
	    (flags == CU_MEM_ATTACH_SINGLE && ck_emu_stream_is_legacy(hStream)))
		return CUDA_ERROR_INVALID_VALUE;
	return CUDA_SUCCESS;
}
