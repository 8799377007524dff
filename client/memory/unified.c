/*
 * client/memory/unified.c - calls on managed memory: allocation, attaching, prefetches.
 *
 * The device reports no concurrent managed access: after a launch, the program must synchronise
 * before it accesses managed memory. An access while the device is busy would crash a program on
 * such a device; here it waits.
 */
#include "libcuda/advice.h"
#include "client/link/client.h"
#include "client/managed/managed.h"
#include "client/managed/window.h"

/* Allocate pages, map device memory behind them and track them; undo in reverse order on error. */
static CUresult allocate_managed(struct ckc_context *context, size_t size, unsigned int flags,
				 uint64_t *at)
{
	uint64_t ctx = context->object.id;
	CUresult err = ckc_window_open();

	if (!err)
		err = ckc_window_take(ctx, size, false, at);
	if (err)
		return err;
	err = ckc_window_back(context, *at, size);
	if (err)
		goto give;
	err = ckc_managed_track(*at, size, context, flags);
	if (err)
		goto unback;
	err = ckc_allocation_add(*at, size, CK_MEMORY_MANAGED, context, flags, false);
	if (!err)
		return CUDA_SUCCESS;
	ckc_managed_untrack(*at);
unback:
	ckc_window_unback(ctx, *at, size);
give:
	ckc_window_give(*at, size);
	return err;
}

CK_EXPORT CUresult cuMemAllocManaged(CUdeviceptr *dptr, size_t bytesize, unsigned int flags)
{
	struct ckc_context *context;
	CUresult err = ckc_context_usable(&context);
	uint64_t at;

	if (err)
		return err;
	if (!dptr || bytesize == 0 ||
	    (flags != CU_MEM_ATTACH_GLOBAL && flags != CU_MEM_ATTACH_HOST))
		return CUDA_ERROR_INVALID_VALUE;
	err = allocate_managed(context, bytesize, flags, &at);
	if (!err)
		*dptr = at;
	return err;
}

/* The managed allocation that contains [address, address+size). */
static CUresult managed_range(CUdeviceptr address, size_t size, struct ckc_allocation *a)
{
	CUresult err = ckc_session_check();

	if (err)
		return err;
	if (size == 0 || !ckc_allocation_find(address, a) || a->kind != CK_MEMORY_MANAGED ||
	    a->mapped || size > a->size - (address - a->base))
		return CUDA_ERROR_INVALID_VALUE;
	return CUDA_SUCCESS;
}

/* The stream of a call, whose context is current and works. */
static CUresult take_stream(CUstream stream, struct ckc_stream **out)
{
	struct ckc_context *context;
	CUresult err = ckc_context_usable(&context);

	return err ? err : ckc_stream_from(stream, out);
}

/* --- attaching */

CK_EXPORT CUresult cuStreamAttachMemAsync(CUstream hStream, CUdeviceptr dptr, size_t length,
					  unsigned int flags)
{
	struct ckc_allocation a;
	struct ckc_stream *s;
	CUresult err = take_stream(hStream, &s);

	if (err)
		return err;
	if (flags != CU_MEM_ATTACH_GLOBAL && flags != CU_MEM_ATTACH_HOST &&
	    flags != CU_MEM_ATTACH_SINGLE)
		return CUDA_ERROR_INVALID_VALUE;
	if (managed_range(dptr, 1, &a) || a.base != dptr || (length != 0 && length != a.size) ||
	    (flags == CU_MEM_ATTACH_SINGLE && !s))
		return CUDA_ERROR_INVALID_VALUE;
	ckc_managed_attach(dptr, flags, s ? s->object.id : 0);
	return CUDA_SUCCESS;
}

/* --- prefetches */

static CUresult location_check(const CUmemLocation *location)
{
	switch (location->type) {
	case CU_MEM_LOCATION_TYPE_DEVICE:
		return ckc_gpu(location->id) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
	case CU_MEM_LOCATION_TYPE_HOST:
	case CU_MEM_LOCATION_TYPE_HOST_NUMA:
	case CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT:
		return CUDA_SUCCESS;
	default:
		return CUDA_ERROR_INVALID_VALUE;
	}
}

/* The old form of the calls passes the CPU as a device. */
static CUmemLocation location_of(CUdevice device)
{
	CUmemLocation l = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device};

	if (device == CU_DEVICE_CPU)
		l = (CUmemLocation){.type = CU_MEM_LOCATION_TYPE_HOST};
	return l;
}

static CUresult prefetch_range(CUdeviceptr at, size_t size, const CUmemLocation *location,
			       CUstream stream)
{
	struct ckc_allocation a;
	struct ckc_stream *s;
	CUresult err = take_stream(stream, &s);

	if (!err)
		err = managed_range(at, size, &a);
	if (!err)
		err = location_check(location);
	if (err)
		return err;
	if (location->type == CU_MEM_LOCATION_TYPE_DEVICE)
		ckc_managed_device(at, size, false);
	else
		ckc_managed_fetch(at, size);
	return ck_advice_prefetched(at, size, location);
}

CK_EXPORT CUresult cuMemPrefetchAsync_v2(CUdeviceptr devPtr, size_t count, CUmemLocation location,
					 unsigned int flags, CUstream hStream)
{
	if (flags != 0)
		return CUDA_ERROR_INVALID_VALUE;
	return prefetch_range(devPtr, count, &location, hStream);
}

CK_EXPORT CUresult cuMemPrefetchAsync(CUdeviceptr devPtr, size_t count, CUdevice dstDevice,
				      CUstream hStream)
{
	CUmemLocation location = location_of(dstDevice);

	return prefetch_range(devPtr, count, &location, hStream);
}

/* Check the ranges and the location of each run of them. The legacy stream takes no batch, as with
 * the driver. */
static CUresult batch_check(CUdeviceptr *at, size_t *sizes, size_t count, unsigned long long flags,
			    CUstream stream)
{
	struct ckc_allocation a;
	struct ckc_stream *s;
	CUresult err = take_stream(stream, &s);

	if (err)
		return err;
	if (!at || !sizes || count == 0 || flags != 0 || !s)
		return CUDA_ERROR_INVALID_VALUE;
	for (size_t i = 0; !err && i < count; i++)
		err = managed_range(at[i], sizes[i], &a);
	return err;
}

static CUresult places_check(const CUmemLocation *places, const size_t *index, size_t count,
			     size_t ranges)
{
	CUresult err = CUDA_SUCCESS;

	if (!places || !index || count == 0 || count > ranges || index[0] != 0)
		return CUDA_ERROR_INVALID_VALUE;
	for (size_t i = 0; !err && i < count; i++) {
		if (index[i] >= ranges || (i > 0 && index[i] <= index[i - 1]))
			return CUDA_ERROR_INVALID_VALUE;
		err = location_check(&places[i]);
	}
	return err;
}

CK_EXPORT CUresult cuMemPrefetchBatchAsync(CUdeviceptr *dptrs, size_t *sizes, size_t count,
					   CUmemLocation *prefetchLocs, size_t *prefetchLocIdxs,
					   size_t numPrefetchLocs, unsigned long long flags,
					   CUstream hStream)
{
	CUresult err = batch_check(dptrs, sizes, count, flags, hStream);

	if (!err)
		err = places_check(prefetchLocs, prefetchLocIdxs, numPrefetchLocs, count);
	for (size_t i = 0, place = 0; !err && i < count; i++) {
		if (place + 1 < numPrefetchLocs && prefetchLocIdxs[place + 1] == i)
			place++;
		err = prefetch_range(dptrs[i], sizes[i], &prefetchLocs[place], hStream);
	}
	return err;
}

/* A discard permits the loss of the contents. Keeping them is allowed: a read finds old bytes. */
CK_EXPORT CUresult cuMemDiscardBatchAsync(CUdeviceptr *dptrs, size_t *sizes, size_t count,
					  unsigned long long flags, CUstream hStream)
{
	return batch_check(dptrs, sizes, count, flags, hStream);
}

CK_EXPORT CUresult cuMemDiscardAndPrefetchBatchAsync(CUdeviceptr *dptrs, size_t *sizes,
						     size_t count, CUmemLocation *prefetchLocs,
						     size_t *prefetchLocIdxs,
						     size_t numPrefetchLocs,
						     unsigned long long flags, CUstream hStream)
{
	return cuMemPrefetchBatchAsync(dptrs, sizes, count, prefetchLocs, prefetchLocIdxs,
				       numPrefetchLocs, flags, hStream);
}

/* --- advice */

CK_EXPORT CUresult cuMemAdvise_v2(CUdeviceptr devPtr, size_t count, CUmem_advise advice,
				  CUmemLocation location)
{
	bool located = advice != CU_MEM_ADVISE_SET_READ_MOSTLY &&
		       advice != CU_MEM_ADVISE_UNSET_READ_MOSTLY &&
		       advice != CU_MEM_ADVISE_UNSET_PREFERRED_LOCATION;
	struct ckc_allocation a;
	CUresult err = managed_range(devPtr, count, &a);

	if (!err &&
	    (advice < CU_MEM_ADVISE_SET_READ_MOSTLY || advice > CU_MEM_ADVISE_UNSET_ACCESSED_BY))
		err = CUDA_ERROR_INVALID_VALUE;
	if (!err && located)
		err = location_check(&location);
	return err ? err : ck_advice_set(devPtr, count, advice, &location);
}

CK_EXPORT CUresult cuMemAdvise(CUdeviceptr devPtr, size_t count, CUmem_advise advice,
			       CUdevice device)
{
	return cuMemAdvise_v2(devPtr, count, advice, location_of(device));
}

CK_EXPORT CUresult cuMemRangeGetAttribute(void *data, size_t dataSize,
					  CUmem_range_attribute attribute, CUdeviceptr devPtr,
					  size_t count)
{
	struct ckc_allocation a;
	CUresult err = managed_range(devPtr, count, &a);

	if (err)
		return err;
	return data ? ck_advice_get(devPtr, count, attribute, data, dataSize)
		    : CUDA_ERROR_INVALID_VALUE;
}

CK_EXPORT CUresult cuMemRangeGetAttributes(void **data, size_t *dataSizes,
					   CUmem_range_attribute *attributes, size_t numAttributes,
					   CUdeviceptr devPtr, size_t count)
{
	CUresult err = ckc_session_check();

	if (err)
		return err;
	if (!data || !dataSizes || !attributes || numAttributes == 0)
		return CUDA_ERROR_INVALID_VALUE;
	for (size_t i = 0; !err && i < numAttributes; i++)
		err = cuMemRangeGetAttribute(data[i], dataSizes[i], attributes[i], devPtr, count);
	return err;
}
