/*
 * client/memory/memory.c - device memory: allocation, free, and the base address of a block.
 *
 * The client lays out device memory itself (arena.h), so neither an allocation nor a free waits as
 * a rule. Where it cannot, an allocation asks the server: the address is needed, and a program must
 * learn at once that memory is exhausted.
 */
#include "client/memory/arena.h"
#include "client/memory/busy_memory.h"
#include "client/memory/pools/host_pool.h"
#include "client/memory/pools/pool.h"
#include "client/memory/state.h"
#include "client/objects/capture.h"
#include "client/link/client.h"
#include "client/link/hooks.h"
#include "client/link/session_list.h"
#include "util/log.h"

CK_LOG_DEFINE("client");

#define TRIES 8 /* allocations that may clash with addresses in use here */

/* A request: bytes; rows, if height is not 0; or bytes of a pool. */
struct want {
	size_t bytes;
	size_t width, height, pitch;
	unsigned int element;
	bool pooled, captured;
	bool arena;		     /* the client has laid it out */
	uint64_t stream, pool;	     /* pool 0: the current one, or in the arena the default */
	const struct ckc_pool *from; /* NULL: the current one */
};

static CUresult allocate_on_server(uint64_t ctx, struct want *w, CUdeviceptr *at)
{
	CUresult err;

	if (w->pooled) { /* the stream may wait for the memory's last use by another */
		ckc_client_current()->memory->arena.asked = true;
		err = w->pool ? ck_wire_cuMemAllocFromPoolAsync(ctx, at, w->bytes, w->pool,
								w->stream)
			      : ck_wire_cuMemAllocAsync(ctx, at, w->bytes, w->stream);
		ckc_command_called();
		return err;
	}
	if (w->height == 0)
		return ck_wire_cuMemAlloc_v2(ctx, at, w->bytes);
	err = ck_wire_cuMemAllocPitch_v2(ctx, at, &w->pitch, w->width, w->height, w->element);
	return !err && ck_mul_overflow(w->pitch, w->height, &w->bytes) ? CUDA_ERROR_UNKNOWN : err;
}

static void give_back(uint64_t ctx, const struct want *w, CUdeviceptr at)
{
	if (w->pooled)
		ck_wire_cuMemFreeAsync(ctx, at, w->stream);
	else
		ck_wire_cuMemFree_v2(ctx, at);
}

static CUresult note_allocation(struct ckc_context *context, const struct want *w, CUdeviceptr at)
{
	struct ckc_allocation a = {
		.base = at,
		.size = w->bytes,
		.kind = CK_MEMORY_DEVICE,
		.context = w->pooled ? NULL : context,
		.device = w->from && w->from->located ? w->from->device : context->device,
		.pooled = w->pooled,
		.arena = w->arena,
		.pool = w->arena ? w->pool : 0,
		.graph = w->captured,
		.handle_types = w->from ? w->from->handle_types : 0,
	};
	CUresult err;

	err = ckc_allocation_note(&a);
	if (!err && a.arena && a.pooled)
		ckc_pool_count(&a, true);
	return err;
}

/*
 * Have the server allocate memory whose address is unused in this process. While a block clashes,
 * keep it and request another, then free the clashing ones. If no other block can be had, use the
 * clashing one: a clash affects only queries about addresses.
 */
static CUresult request_memory(struct ckc_context *context, struct want *w, CUdeviceptr *out)
{
	uint64_t ctx = context->object.id;
	CUdeviceptr held[TRIES], at;
	unsigned int count = 0;
	CUresult err = allocate_on_server(ctx, w, &at);

	while (!err && !ckc_address_claim(at, w->bytes) && count < TRIES) {
		held[count++] = at;
		if (allocate_on_server(ctx, w, &at)) {
			at = held[--count];
			break;
		}
	}
	if (!err && ckc_many && !ckc_address_claim(at, w->bytes)) {
		ck_warn("no address range of %zu bytes that no other server uses", w->bytes);
		give_back(ctx, w, at);
		err = CUDA_ERROR_OUT_OF_MEMORY;
	}
	while (count > 0)
		give_back(ctx, w, held[--count]);
	if (err)
		return err;
	err = note_allocation(context, w, at);
	if (err)
		give_back(ctx, w, at);
	else
		*out = at;
	return err;
}

/* Rows as far apart as the driver puts them. */
static CUresult lay_rows(struct want *w)
{
	if (w->height == 0)
		return CUDA_SUCCESS;
	w->pitch = CK_ALIGN_UP(w->width, CK_HEAP_ALIGN);
	return w->pitch < w->width || ck_mul_overflow(w->pitch, w->height, &w->bytes)
		       ? CUDA_ERROR_INVALID_VALUE
		       : CUDA_SUCCESS;
}

/* Allocate in the arena. NOT_SUPPORTED: the server is to be asked. */
static CUresult allocate_in_arena(struct ckc_context *context, struct want *w, CUdeviceptr *out)
{
	const struct ckc_user user = {context, w->pooled, w->stream};
	CUdevice device = w->from ? w->from->device : context->device;
	uint64_t at, pool = w->pool;
	CUresult err = lay_rows(w);

	if (err)
		return err;
	if (w->pooled && !ckc_pool_arena(w->from, device, &pool))
		return CUDA_ERROR_NOT_SUPPORTED;
	err = ckc_arena_take(device, w->bytes, &user, &at);
	if (err)
		return err;
	w->arena = true;
	w->pool = pool;
	err = note_allocation(context, w, at);
	if (err)
		ckc_arena_give(
			&(struct ckc_allocation){.base = at, .size = w->bytes, .device = device},
			&user);
	else
		*out = at;
	return err;
}

static CUresult allocate_memory(struct ckc_context *context, struct want *w, CUdeviceptr *out)
{
	CUresult err = w->pooled ? CUDA_SUCCESS : ckc_capture_unsafe();

	if (err)
		return err;
	err = w->captured ? CUDA_ERROR_NOT_SUPPORTED : allocate_in_arena(context, w, out);
	return err == CUDA_ERROR_NOT_SUPPORTED ? request_memory(context, w, out) : err;
}

CK_EXPORT CUresult cuMemAlloc_v2(CUdeviceptr *dptr, size_t bytesize)
{
	struct want w = {.bytes = bytesize};
	struct ckc_context *context;
	CUresult err = ckc_context_usable(&context);

	if (err)
		return err;
	if (!dptr || bytesize == 0)
		return CUDA_ERROR_INVALID_VALUE;
	return allocate_memory(context, &w, dptr);
}

CK_EXPORT CUresult cuMemAllocPitch_v2(CUdeviceptr *dptr, size_t *pPitch, size_t WidthInBytes,
				      size_t Height, unsigned int ElementSizeBytes)
{
	struct want w = {.width = WidthInBytes, .height = Height, .element = ElementSizeBytes};
	struct ckc_context *context;
	CUresult err = ckc_context_usable(&context);

	if (err)
		return err;
	if (!dptr || !pPitch || WidthInBytes == 0 || Height == 0)
		return CUDA_ERROR_INVALID_VALUE;
	if (ElementSizeBytes != 4 && ElementSizeBytes != 8 && ElementSizeBytes != 16)
		return CUDA_ERROR_INVALID_VALUE;
	err = allocate_memory(context, &w, dptr);
	if (!err)
		*pPitch = w.pitch;
	return err;
}

/* Allocate from a pool, in stream order. A pool and its memory belong to a device, not a
 * context. */
static CUresult obtain_async(CUdeviceptr *dptr, size_t size, struct ckc_pool *pool, CUstream stream)
{
	static bool told;
	struct want w = {.bytes = size, .pooled = true, .from = pool};
	struct ckc_context *context;
	struct ckc_stream *s;
	CUresult err = ckc_context_usable(&context);

	if (!err)
		err = ckc_stream_work(stream, &s, &w.stream);
	if (err)
		return err;
	w.captured = ckc_capturing(s);
	if (!dptr)
		return CUDA_ERROR_INVALID_VALUE;
	if (size == 0) {
		*dptr = 0;
		return CUDA_SUCCESS;
	}
	if (pool && pool->host && w.captured)
		return ckc_refused("a graph's allocation from a pool in the host", &told);
	if (pool && pool->host)
		return ckc_host_pool_take(
			pool, size, &(struct ckc_user){ckc_stream_home(s), true, w.stream}, dptr);
	w.pool = pool ? pool->object.id : 0;
	return allocate_memory(context, &w, dptr);
}

CK_EXPORT CUresult cuMemAllocAsync(CUdeviceptr *dptr, size_t bytesize, CUstream hStream)
{
	return obtain_async(dptr, bytesize, NULL, hStream);
}

CK_EXPORT CUresult cuMemAllocFromPoolAsync(CUdeviceptr *dptr, size_t bytesize, CUmemoryPool pool,
					   CUstream hStream)
{
	struct ckc_pool *from = ckc_object_check(pool, CK_OBJECT_POOL);
	CUresult err = ckc_session_check();

	if (err)
		return err;
	if (!from)
		return pool ? CUDA_ERROR_INVALID_HANDLE : CUDA_ERROR_INVALID_VALUE;
	return obtain_async(dptr, bytesize, from, hStream);
}

/* Note that memory is freed; false: no device memory, or memory of kind @also, begins there. */
static bool release_memory(CUdeviceptr at, enum ckc_memory_kind also, struct ckc_allocation *a)
{
	if (!ckc_allocation_find(at, a) || a->variable || a->mapped || a->opened || a->base != at ||
	    (a->kind != CK_MEMORY_DEVICE && a->kind != also))
		return false;
	ckc_route(ckc_gpu_client(a->device));
	return a->graph || ckc_allocation_remove(at, a->kind, a);
}

/* Accepts memory of cuMemAlloc, and NULL. Under capture, frees memory of the graph. */
CK_EXPORT CUresult cuMemFreeAsync(CUdeviceptr dptr, CUstream hStream)
{
	struct ckc_allocation a;
	struct ckc_context *home;
	struct ckc_stream *s;
	uint64_t ctx, stream;
	CUresult err = ckc_enter(&ctx);

	if (!err)
		err = ckc_stream_work(hStream, &s, &stream);
	if (err || dptr == 0)
		return err;
	if (ckc_capturing(s) && !(ckc_allocation_find(dptr, &a) && a.graph))
		return CUDA_ERROR_INVALID_VALUE;
	home = ckc_stream_home(s);
	if (ckc_allocation_find(dptr, &a) && ckc_host_pool_owns(&a))
		return ckc_host_pool_free(dptr, home, s);
	if (!release_memory(dptr, CK_MEMORY_DEVICE, &a))
		return CUDA_ERROR_INVALID_VALUE;
	if (unlikely(ckc_many) && home->client != ckc_client_current()) {
		/* the stream of one server, the memory of another */
		err = ckc_stream_reach(home, s);
		ckc_allocation_note(&a);
		return err ? err : cuMemFree_v2(dptr);
	}
	if (a.arena) {
		ckc_arena_give(&a, &(struct ckc_user){home, true, stream});
		return CUDA_SUCCESS;
	}
	return ck_wire_cuMemFreeAsync(ctx, dptr, stream);
}

/* The message names the context of the memory, which may differ from the current one. */
CK_EXPORT CUresult cuMemFree_v2(CUdeviceptr dptr)
{
	struct ckc_allocation a;
	uint64_t ctx;
	CUresult err = ckc_enter_owned(&ctx);

	if (err || dptr == 0)
		return err;
	err = ckc_capture_unsafe();
	if (err)
		return err;
	if (ckc_allocation_find(dptr, &a) && ckc_host_pool_owns(&a)) {
		err = ckc_hostmem_await(a.context);
		return err ? err : ckc_host_pool_free(dptr, NULL, NULL);
	}
	if (!release_memory(dptr, CK_MEMORY_MANAGED, &a))
		return CUDA_ERROR_INVALID_VALUE;
	if (a.kind == CK_MEMORY_MANAGED) {
		ckc_hostmem_dispose(&a);
		return CUDA_SUCCESS;
	}
	if (unlikely(ckc_many))
		ckc_busy_memory_wait(ckc_gpu_client(a.device), a.base, a.size);
	if (a.arena) {
		ckc_arena_give(&a,
			       &(struct ckc_user){.context = a.context ? a.context
								       : ckc_context_current()});
		return CUDA_SUCCESS;
	}
	return ck_wire_cuMemFree_v2(a.context ? a.context->object.id : ctx, dptr);
}

/* Leased memory that is free counts as free: the program can have it, although the driver
 * cannot. */
CK_EXPORT CUresult cuMemGetInfo_v2(size_t *free, size_t *total)
{
	struct ckc_context *context;
	CUresult err = ckc_context_usable(&context);
	size_t idle;

	if (err)
		return err;
	if (!free || !total)
		return CUDA_ERROR_INVALID_VALUE;
	idle = ckc_arena_idle(context->client,
			      (unsigned int)ckc_gpu(context->device)->server_ordinal);
	err = ck_wire_cuMemGetInfo_v2(context->object.id, free, total);
	if (!err)
		*free += idle;
	return err;
}

/* Works for pinned host memory too. */
CK_EXPORT CUresult cuMemGetAddressRange_v2(CUdeviceptr *pbase, size_t *psize, CUdeviceptr dptr)
{
	struct ckc_allocation a;
	uint64_t ctx;
	CUresult err = ckc_enter(&ctx);

	if (err)
		return err;
	if (!pbase && !psize)
		return CUDA_SUCCESS;
	if (!ckc_allocation_find(dptr, &a))
		return CUDA_ERROR_NOT_FOUND;
	if (pbase)
		*pbase = a.base;
	if (psize)
		*psize = a.size;
	return CUDA_SUCCESS;
}

/* Memory ends with its context; pinned memory can then no longer be accessed. */
void ckc_allocation_forget(struct ckc_context *context)
{
	struct ckc_allocation a;

	for (int on_device = 1; on_device >= 0; on_device--) {
		size_t at = SIZE_MAX;

		while (ckc_allocation_take(context, on_device, &at, &a)) {
			if (a.arena)
				ckc_arena_give(&a, &(struct ckc_user){.context = NULL});
			else if (ckc_host_pool_owns(&a))
				ckc_host_pool_end(&a);
			else
				ckc_hostmem_dispose(&a);
		}
	}
}
CK_ON_CONTEXT_END(CK_LAYER_MEMORY, ckc_allocation_forget);
