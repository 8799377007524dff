/*
 * emu/memory/pool_alloc.c - allocating from pools and freeing, in the order of a stream.
 */
#include <stdlib.h>

#include "emu/memory/arena.h"
#include "emu/core/hooks.h"
#include "emu/memory/pool.h"

static CUresult alloc_from_pool(CUdeviceptr *dptr, size_t size, struct ck_emu_pool *pool)
{
	uint64_t address;

	if (pool->imported)
		return CUDA_ERROR_INVALID_VALUE;
	address = ck_emu_pool_take(pool, size);
	if (!address && !ck_emu_thread_in_callback()) {
		/* frees that are queued before it may make room */
		ck_emu_all_wait();
		address = ck_emu_pool_take(pool, size);
	}
	*dptr = address ? address : *dptr;
	return address ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

/* @handle: NULL for the current pool of the stream's device. */
static CUresult alloc_async(CUdeviceptr *dptr, size_t size, const CUmemoryPool *handle,
			    CUstream stream_handle)
{
	struct ck_emu_context *context;
	struct ck_emu_stream *stream;
	struct ck_emu_pool *pool;
	CUresult result = ck_emu_enter(&context);

	if (result == CUDA_SUCCESS)
		result = ck_emu_stream_get(stream_handle, context, &stream);
	if (result != CUDA_SUCCESS)
		return result;
	pool = handle ? ck_emu_pool_get(*handle)
		      : ck_emu_pool_of(stream->base.context->device->ordinal, false);
	if (!pool || !dptr || !size)
		result = CUDA_ERROR_INVALID_VALUE;
	else if (ck_emu_pool_in_host(pool) && ck_emu_capturing(stream))
		result = CUDA_ERROR_NOT_SUPPORTED; /* graphs have memory of devices */
	else if (!ck_emu_hooks->capture_alloc(stream, size, dptr, &result))
		result = alloc_from_pool(dptr, size, pool);
	if (pool)
		ck_emu_object_put(&pool->base);
	ck_emu_object_put(&stream->base);
	return result;
}

CUresult cuMemAllocAsync(CUdeviceptr *dptr, size_t bytesize, CUstream hStream)
{
	return alloc_async(dptr, bytesize, NULL, hStream);
}

CUresult cuMemAllocFromPoolAsync(CUdeviceptr *dptr, size_t bytesize, CUmemoryPool pool,
				 CUstream hStream)
{
	return alloc_async(dptr, bytesize, &pool, hStream);
}

/* --- freeing in stream order */

struct release {
	struct ck_emu_command command;
	uint64_t address;
	enum ck_emu_memory_kind kind;
};

static CUresult release_run(struct ck_emu_command *command, struct ck_emu_context *context)
{
	struct release *r = (struct release *)command;
	struct ck_emu_memory memory;

	(void)context;
	if (r->kind == CK_EMU_MEMORY_POOL)
		ck_emu_pool_return(r->address);
	else
		ck_emu_arena_remove(r->address, r->kind, &memory);
	return CUDA_SUCCESS;
}

static void release_free(struct ck_emu_command *command)
{
	free(command);
}

static bool freed_first(CUdeviceptr dptr, struct ck_emu_memory *memory)
{
	return ck_emu_arena_find(dptr, memory) && memory->lo == dptr &&
	       (memory->kind == CK_EMU_MEMORY_POOL || memory->kind == CK_EMU_MEMORY_DEVICE) &&
	       ck_emu_arena_retire(dptr);
}

static CUresult free_queue(CUdeviceptr dptr, struct ck_emu_stream *stream)
{
	struct release *r = calloc(1, sizeof(*r));
	struct ck_emu_memory memory;

	if (!r)
		return CUDA_ERROR_OUT_OF_MEMORY;
	if (!freed_first(dptr, &memory)) {
		free(r);
		return CUDA_ERROR_INVALID_VALUE;
	}
	r->command.run = release_run;
	r->command.free = release_free;
	r->command.always = true;
	r->address = dptr;
	r->kind = memory.kind;
	return ck_emu_stream_submit(stream, &r->command, NULL, NULL);
}

CUresult cuMemFreeAsync(CUdeviceptr dptr, CUstream hStream)
{
	struct ck_emu_context *context;
	struct ck_emu_stream *stream;
	CUresult result = ck_emu_enter(&context);

	if (result == CUDA_SUCCESS)
		result = ck_emu_stream_get(hStream, context, &stream);
	if (result != CUDA_SUCCESS)
		return result;
	if (dptr && !ck_emu_hooks->capture_free(stream, dptr, &result))
		result = free_queue(dptr, stream);
	ck_emu_object_put(&stream->base);
	return result;
}
