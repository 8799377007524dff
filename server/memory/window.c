/*
 * server/memory/window.c - the window: addresses reserved for memory that has the same address in
 * the client's process and on the device, and the device memory mapped there.
 */
#include "gen/handlers.h"
#include "server/memory/lease.h"
#include "server/memory/memory.h"
#include "server/memory/virtual.h"
#include "server/session/session.h"
#include "util/log.h"

CK_LOG_DEFINE("server");

#define UNIT ((size_t)2 << 20)
#define WINDOW_MAX ((size_t)4 << 40)
/* The offered range: neither Linux nor a driver places anything there by itself. */
#define OFFER ((CUdeviceptr)0x200000000000)
#define OFFER_SIZE ((size_t)1 << 40)

/* False: the driver is too old. */
static bool window_is_supported(void)
{
	return cks_virtual_supported() && ck_driver.cuCtxGetDevice;
}

/* --- the addresses */

/* Of the process, which has one session: reserved before there is one. */
static bool prepared;

void cks_window_prepare(void)
{
	if (!prepared && window_is_supported())
		prepared = cks_virtual_reserve(OFFER, OFFER_SIZE);
}

bool cks_window_offer(struct cks_session *s)
{
	if (prepared) {
		s->window_lo = OFFER;
		s->window_hi = OFFER + OFFER_SIZE;
	}
	return prepared;
}

/*
 * Reserve the range that the client proposes, if it is free here: once per session. A client that
 * proposes another than the offered one cannot use that.
 */
CUresult ck_serve_window(struct cks_request *q, ck_window_args *a, ck_window_res *res)
{
	struct cks_session *s = q->session;

	if (!window_is_supported())
		return CUDA_ERROR_NOT_SUPPORTED;
	if (a->address == 0 || a->address % UNIT || a->size == 0 || a->size % UNIT ||
	    a->size > WINDOW_MAX || a->address + a->size < a->address ||
	    (s->window_hi && !prepared))
		return CUDA_ERROR_INVALID_VALUE;
	res->taken = prepared && a->address == s->window_lo && a->size == OFFER_SIZE;
	if (prepared && !res->taken) {
		ck_driver.cuMemAddressFree(OFFER, OFFER_SIZE);
		s->window_lo = s->window_hi = 0;
	}
	prepared = false;
	if (!res->taken && cks_virtual_reserve(a->address, a->size)) {
		s->window_lo = a->address;
		s->window_hi = a->address + a->size;
		res->taken = 1;
	}
	return CUDA_SUCCESS;
}

/* --- memory in it */

/* Give access to every device that supports it; the memory's own device must. */
static CUresult grant_access(const struct cks_session *s, CUdeviceptr at, size_t size, CUdevice own)
{
	CUmemAccessDesc access = {
		.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = own},
		.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE,
	};
	CUresult err = ck_driver.cuMemSetAccess(at, size, &access, 1);

	for (int i = 0; !err && i < s->device_count; i++) {
		access.location.id = i;
		if (i != own && ck_driver.cuMemSetAccess(at, size, &access, 1))
			ck_debug("device %d cannot reach managed memory of device %d", i, own);
	}
	return err;
}

/* Zero the memory on a separate stream, so that no other work is waited for. */
static CUresult clear_memory(CUdeviceptr at, size_t size)
{
	CUstream stream;
	CUresult err = ck_driver.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING);

	if (err)
		return err;
	err = ck_driver.cuMemsetD8Async(at, 0, size, stream);
	if (!err)
		err = ck_driver.cuStreamSynchronize(stream);
	ck_driver.cuStreamDestroy_v2(stream);
	return err;
}

/* Map physical memory of device @own at @at; the mapping keeps it after the handle is released. */
static CUresult map_memory(const struct cks_session *s, CUdeviceptr at, size_t size, CUdevice own)
{
	CUmemAllocationProp prop = {
		.type = CU_MEM_ALLOCATION_TYPE_PINNED,
		.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = own},
	};
	CUmemGenericAllocationHandle handle;
	CUresult err = ck_driver.cuMemCreate(&handle, size, &prop, 0);

	if (err)
		return err;
	err = ck_driver.cuMemMap(at, size, 0, handle, 0);
	ck_driver.cuMemRelease(handle);
	if (err)
		return err;
	err = grant_access(s, at, size, own);
	if (!err)
		err = clear_memory(at, size);
	if (err)
		ck_driver.cuMemUnmap(at, size);
	return err;
}

CUresult ck_serve_map(struct cks_request *q, ck_map_args *a, ck_map_res *res)
{
	const struct cks_session *s = q->session;
	CUdevice device;
	CUresult err;

	(void)res;
	if (a->address % UNIT || a->size == 0 || a->size % UNIT || a->address < s->window_lo ||
	    a->address >= s->window_hi || a->size > s->window_hi - a->address)
		return CUDA_ERROR_INVALID_VALUE;
	err = ck_driver.cuCtxGetDevice(&device);
	if (!err)
		err = cks_memory_map(s->memory, a->address, a->size, 0, false);
	if (err)
		return err;
	err = map_memory(s, a->address, a->size, device);
	if (err)
		cks_memory_unmap(s->memory, a->address, a->size);
	return err;
}

/* Wait for running work first: unmapping under it would break the context. */
CUresult ck_serve_unmap(struct cks_request *q, ck_unmap_args *a, void *res)
{
	const struct cks_session *s = q->session;
	struct cks_allocation mapped;

	(void)res;
	if (a->address < s->window_lo || a->address >= s->window_hi ||
	    !cks_memory_find(s->memory, a->address, &mapped) || mapped.address != a->address)
		return CUDA_ERROR_INVALID_VALUE;
	cks_memory_unmap(s->memory, a->address, mapped.size);
	cks_context_wait(q->session, q->ctx);
	return ck_driver.cuMemUnmap(a->address, mapped.size);
}
