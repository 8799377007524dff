/*
 * client/memory/hostmem.c - pinned host memory, and the GPU's access to it.
 *
 * If the server is on this host, the worker shares allocations and registers them with the driver:
 * copies and kernels use the program's own pages (client/memory/pinned.h). The same holds for
 * memory that the program registers, where possible (client/memory/adopt.h).
 *
 * Otherwise, "pinned" first means only that the client knows the range: copies to and from it are
 * asynchronous, and queries about it work. Allocations lie in the window (client/managed/window.h).
 * An allocation becomes "mapped" when the program queries its device address, requests mapped
 * memory, or passes its address to a kernel. Then device memory is mapped at the same address, and
 * pages are transferred as for managed memory (client/managed/managed.h). Memory used only for
 * copies does not pay for this. Registered memory is at an address of the program, and cannot be
 * mapped.
 */
#include <sys/mman.h>
#include <unistd.h>

#include "client/memory/adopt.h"
#include "libcuda/advice.h"
#include "client/objects/callback.h"
#include "client/objects/capture.h"
#include "client/link/client.h"
#include "client/wire/delivery.h"
#include "client/link/session_list.h"
#include "client/managed/managed.h"
#include "client/memory/pinned.h"
#include "client/memory/state.h"
#include "client/managed/window.h"
#include "util/cancel.h"
#include "util/page.h"
#include "util/process/proc_file.h"

#define ALLOC_FLAGS                                                                                \
	(CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP | CU_MEMHOSTALLOC_WRITECOMBINED)
#define REGISTER_FLAGS                                                                             \
	(CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP |                              \
	 CU_MEMHOSTREGISTER_IOMEMORY | CU_MEMHOSTREGISTER_READ_ONLY)

bool ckc_hostmem_find(const void *p, struct ckc_allocation *a)
{
	return ckc_allocation_find((uintptr_t)p, a) && !ckc_kind_on_device(a->kind);
}

/* Can the GPUs of the current session use the memory? Not memory that another server shares. */
static bool is_of_session(const struct ckc_allocation *a)
{
	return likely(!ckc_many) || ckc_gpu_client(a->device) == ckc_client_current();
}

/* --- pages */

/* Allocate whole pages, so that freed memory is unmapped: a late access faults. */
static CUresult pages_take(struct ckc_context *context, size_t size, struct ckc_allocation *a)
{
	void *p;

	a->size = size;
	a->shared = ckc_pinned_open();
	if (a->shared)
		return ckc_pinned_take(context->object.id, size, &a->base);
	if (ckc_window_open() == CUDA_SUCCESS)
		return ckc_window_take(context->object.id, size, true, &a->base);
	p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	a->base = (uintptr_t)p;
	return p == MAP_FAILED ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
}

static void pages_give(const struct ckc_allocation *a)
{
	if (a->shared)
		ckc_pinned_give(a->context->object.id, a->base, a->size);
	else if (ckc_window_holds(a->base))
		ckc_window_give(a->base, a->size);
	else
		munmap((void *)(uintptr_t)a->base, a->size);
}

void ckc_hostmem_dispose(const struct ckc_allocation *a)
{
	ckc_route(ckc_gpu_client(a->device));
	if (!ckc_kind_on_device(a->kind))
		ckc_delivery_forget(a->context->client, a->base, a->size);
	if (a->kind == CK_MEMORY_HOST_REGISTERED && a->shared)
		ckc_adopt_end(a->context->object.id, a->base);
	if (a->variable || a->kind == CK_MEMORY_DEVICE || a->kind == CK_MEMORY_HOST_REGISTERED)
		return;
	if (a->kind == CK_MEMORY_MANAGED)
		ck_advice_forget(a->base, a->size);
	if (ckc_managed_untrack(a->base))
		ckc_window_unback(a->context->object.id, a->base, a->size);
	pages_give(a);
}

/* Shadowed memory is the server's own, with the same address there. */
static CUresult back_and_track(const struct ckc_allocation *a)
{
	CUresult err;

	if (ckc_window_shadows(&a->context->client->managed->window, a->base))
		return ckc_managed_track_pinned(a->base, a->size, a->context);
	err = ckc_window_back(a->context, a->base, a->size);
	if (err)
		return err;
	err = ckc_managed_track(a->base, a->size, a->context, CU_MEM_ATTACH_GLOBAL);
	if (err)
		ckc_window_unback(a->context->object.id, a->base, a->size);
	return err;
}

/* Map device memory at the address of an allocation, and track its pages. */
static CUresult map_allocation(const struct ckc_allocation *a)
{
	struct ckc_client *c = a->context->client;
	CUresult err = CUDA_SUCCESS;

	if (!is_of_session(a) || !ckc_window_holds(a->base))
		return CUDA_ERROR_NOT_SUPPORTED;
	if (ckc_delivery_expects(c, a->base, a->size)) {
		err = ck_wire_cuCtxSynchronize(a->context->object.id);
		if (err)
			return err;
	}
	ck_lock(&c->memory->host_map_lock);
	if (!ckc_managed_is(a->base))
		err = back_and_track(a);
	ck_unlock(&c->memory->host_map_lock);
	return err;
}

CUresult ckc_hostmem_expose(uint64_t address, bool structure)
{
	struct ckc_allocation a;

	if (!ckc_allocation_find(address, &a) || a.kind != CK_MEMORY_HOST_ALLOC ||
	    (structure && a.copied))
		return CUDA_SUCCESS;
	return map_allocation(&a);
}

void ckc_hostmem_copied(const void *host)
{
	if (ckc_window_holds((uintptr_t)host))
		ckc_allocation_copied((uintptr_t)host);
}

CUresult ckc_device_reach(uint64_t address, size_t size)
{
	struct ckc_allocation a;
	CUresult err = ckc_device_range(address, size);

	if (err && ckc_allocation_find(address, &a) && is_of_session(&a) &&
	    size <= a.base + a.size - address) {
		if (a.shared)
			err = CUDA_SUCCESS;
		else if (a.kind == CK_MEMORY_HOST_ALLOC && ckc_window_holds(address))
			err = map_allocation(&a);
	}
	return err;
}

/* --- calls */

CUresult ckc_hostmem_obtain(struct ckc_allocation *a)
{
	CUresult err = pages_take(a->context, a->size, a);

	if (err)
		return err;
	if (a->flags & CU_MEMHOSTALLOC_DEVICEMAP && ckc_window_holds(a->base))
		err = map_allocation(a);
	if (err)
		pages_give(a);
	return err;
}

static CUresult allocate_memory(struct ckc_allocation *a)
{
	CUresult err = ckc_hostmem_obtain(a);

	if (err)
		return err;
	err = ckc_allocation_note(a);
	if (err)
		ckc_hostmem_dispose(a);
	return err;
}

CK_EXPORT CUresult cuMemHostAlloc(void **pp, size_t bytesize, unsigned int Flags)
{
	struct ckc_allocation a = {.kind = CK_MEMORY_HOST_ALLOC, .size = bytesize, .flags = Flags};
	CUresult err = ckc_context_usable(&a.context);

	if (!err)
		err = ckc_capture_unsafe();
	if (err)
		return err;
	if (!pp || Flags & ~(unsigned int)ALLOC_FLAGS)
		return CUDA_ERROR_INVALID_VALUE;
	a.device = a.context->device;
	if (bytesize > 0)
		err = allocate_memory(&a);
	if (!err)
		*pp = (void *)(uintptr_t)a.base;
	return err;
}

CK_EXPORT CUresult cuMemAllocHost_v2(void **pp, size_t bytesize)
{
	return cuMemHostAlloc(pp, bytesize, 0);
}

/* A capture in relaxed mode allows the call but would not survive the wait. */
CUresult ckc_hostmem_await(struct ckc_context *context)
{
	uint64_t last = ckc_command_last();
	CUresult err;

	if (context->synced == last || ckc_captures_any())
		return CUDA_SUCCESS;
	err = ck_wire_cuCtxSynchronize(context->object.id);
	if (!err)
		context->synced = last;
	return err;
}

CK_EXPORT CUresult cuMemFreeHost(void *p)
{
	CUresult err = ckc_session_check();
	struct ckc_allocation a;

	if (err || !p)
		return err;
	err = ckc_capture_unsafe();
	if (err)
		return err;
	if (!ckc_hostmem_find(p, &a) || a.pooled ||
	    !ckc_allocation_remove((uintptr_t)p, CK_MEMORY_HOST_ALLOC, &a))
		return CUDA_ERROR_INVALID_VALUE;
	ckc_route(a.context->client);
	if (a.shared || ckc_delivery_expects(a.context->client, a.base, a.size))
		err = ckc_hostmem_await(a.context);
	ckc_hostmem_dispose(&a);
	return err;
}

/* Are all pages of the range mapped, and may devices write them, or read them if @read_only? Checks
 * without touching them; of the rights nothing is known without /proc. */
static bool is_pinnable(const void *p, size_t size, bool read_only)
{
	uintptr_t page = ck_page();
	uintptr_t first = (uintptr_t)p & ~(page - 1), end;
	int ret, cancel;

	if (ck_add_overflow((uintptr_t)p, size, &end))
		return false;
	cancel = ck_cancel_disable();
	ret = msync((void *)first, end - first, MS_ASYNC);
	if (ret == 0 &&
	    !ck_mappings_all(first, end - first,
			     read_only ? ck_mapping_readable : ck_mapping_writable) &&
	    access("/proc/self/maps", R_OK) == 0)
		ret = -1;
	ck_cancel_restore(cancel);
	return ret == 0;
}

CK_EXPORT CUresult cuMemHostRegister_v2(void *p, size_t bytesize, unsigned int Flags)
{
	static bool told;
	struct ckc_allocation a;
	struct ckc_context *context;
	CUresult err = ckc_context_usable(&context);

	if (!err)
		err = ckc_capture_unsafe();
	if (err)
		return err;
	if (!p || bytesize == 0 || Flags & ~(unsigned int)REGISTER_FLAGS)
		return CUDA_ERROR_INVALID_VALUE;
	if (Flags & CU_MEMHOSTREGISTER_IOMEMORY)
		return ckc_refused("cuMemHostRegister of I/O memory", &told);
	/* the pages of registered memory may be protected here, for the client to notice
	 * accesses */
	if (!is_pinnable(p, bytesize, Flags & CU_MEMHOSTREGISTER_READ_ONLY))
		return ckc_hostmem_find(p, &a) && a.kind == CK_MEMORY_HOST_REGISTERED
			       ? CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED
			       : CUDA_ERROR_INVALID_VALUE;
	err = ckc_allocation_add((uintptr_t)p, bytesize, CK_MEMORY_HOST_REGISTERED, context, Flags,
				 false);
	if (!err && ckc_adopt(context->object.id, (uintptr_t)p, bytesize) == CUDA_SUCCESS)
		ckc_allocation_share((uintptr_t)p);
	return err;
}

CK_EXPORT CUresult cuMemHostUnregister(void *p)
{
	CUresult err = ckc_session_check();
	struct ckc_allocation a;

	if (!err)
		err = ckc_capture_unsafe();
	if (err)
		return err;
	if (!p)
		return CUDA_ERROR_INVALID_VALUE;
	if (ckc_allocation_remove((uintptr_t)p, CK_MEMORY_HOST_REGISTERED, &a)) {
		ckc_route(a.context->client);
		if (a.shared || ckc_delivery_expects(a.context->client, a.base, a.size))
			err = ckc_hostmem_await(a.context);
		ckc_hostmem_dispose(&a);
		return err;
	}
	/* pinned, but not registered at this address */
	return ckc_hostmem_find(p, &a) ? CUDA_ERROR_INVALID_VALUE
				       : CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
}

CK_EXPORT CUresult cuMemHostGetFlags(unsigned int *pFlags, void *p)
{
	struct ckc_allocation a;
	uint64_t ctx;
	CUresult err = ckc_enter(&ctx);

	if (err)
		return err;
	if (!pFlags || !ckc_hostmem_find(p, &a))
		return CUDA_ERROR_INVALID_VALUE;
	*pFlags = a.flags |
		  CU_MEMHOSTALLOC_DEVICEMAP; /* with unified addressing, all of it is mapped */
	return CUDA_SUCCESS;
}

CK_EXPORT CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr *pdptr, void *p, unsigned int Flags)
{
	static bool told, elsewhere;
	struct ckc_allocation a;
	uint64_t ctx;
	CUresult err = ckc_enter(&ctx);

	if (err)
		return err;
	if (!pdptr || Flags != 0 || !ckc_hostmem_find(p, &a))
		return CUDA_ERROR_INVALID_VALUE;
	if (!is_of_session(&a))
		return ckc_refused("cuMemHostGetDevicePointer for another server's GPU",
				   &elsewhere);
	if (a.kind == CK_MEMORY_HOST_REGISTERED && !a.shared)
		return ckc_refused("cuMemHostGetDevicePointer of registered memory", &told);
	err = a.shared ? CUDA_SUCCESS : map_allocation(&a);
	if (!err)
		*pdptr = (uintptr_t)p;
	return err;
}

/*
 * CUDA reads pinned memory when the stream reaches the copy; the client reads it when the copy is
 * enqueued. The difference matters only for bytes still to be written: by pending host functions,
 * by outstanding deliveries, or by the device.
 */
CUresult ckc_hostmem_await_writers(struct ckc_context *context, struct ckc_stream *stream,
				   const void *source)
{
	struct ckc_allocation a;

	if (unlikely(ckc_many) && ckc_allocation_find((uintptr_t)source, &a) && !is_of_session(&a))
		return ckc_stream_reach(context, stream); /* maybe for another server to write it */
	if (likely(!ckc_callback_pending() && !ckc_pinned_any(context->client) &&
		   !ckc_delivery_any(context->client)))
		return CUDA_SUCCESS;
	if (!ckc_allocation_find((uintptr_t)source, &a) || a.kind == CK_MEMORY_DEVICE)
		return CUDA_SUCCESS;
	if (!ckc_callback_pending() && !ckc_delivery_expects(context->client, a.base, a.size) &&
	    !a.shared)
		return CUDA_SUCCESS;
	return ckc_stream_reach(context, stream);
}

CUresult ckc_hostmem_await_delivery(struct ckc_context *context, struct ckc_stream *stream,
				    const void *to, size_t size)
{
	return ckc_delivery_expects(context->client, (uintptr_t)to, size)
		       ? ckc_stream_reach(context, stream)
		       : CUDA_SUCCESS;
}

bool ckc_hostmem_takes_delivery(const void *to, size_t size)
{
	uint64_t at = (uintptr_t)to;
	struct ckc_allocation a;

	return ckc_hostmem_find(to, &a) && !a.shared && is_of_session(&a) &&
	       size <= a.base + a.size - at && !(ckc_managed_may_be(at) && ckc_managed_is(at));
}
