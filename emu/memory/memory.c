/*
 * emu/memory/memory.c - device memory: allocation, and queries about it.
 */
#include "emu/memory/arena.h"
#include "emu/core/emu.h"
#include "emu/core/hooks.h"
#include "emu/memory/pool.h"
#include "libcuda/advice.h"

#define PITCH_ALIGN 512ul

/* The allocation of a context, or OUT_OF_MEMORY; the output is set only on success. */
static CUresult alloc_device_memory(CUdeviceptr *dptr, size_t size)
{
	struct ck_emu_context *context;
	CUresult result = ck_emu_enter(&context);
	uint64_t address;

	if (result == CUDA_SUCCESS)
		result = ck_emu_hooks->capture_unsafe();
	if (result != CUDA_SUCCESS)
		return result;
	if (!dptr || !size)
		return CUDA_ERROR_INVALID_VALUE;
	address = ck_emu_arena_alloc(context, size, CK_EMU_MEMORY_DEVICE, NULL);
	if (!address)
		return ck_emu_context_refusal(context);
	*dptr = address;
	return CUDA_SUCCESS;
}

CUresult cuMemAlloc_v2(CUdeviceptr *dptr, size_t bytesize)
{
	return alloc_device_memory(dptr, bytesize);
}

CUresult cuMemAllocPitch_v2(CUdeviceptr *dptr, size_t *pPitch, size_t WidthInBytes, size_t Height,
			    unsigned int ElementSizeBytes)
{
	struct ck_emu_context *context;
	CUresult result = ck_emu_enter(&context);
	size_t pitch, size;

	if (result != CUDA_SUCCESS)
		return result;
	if (!dptr || !pPitch || !WidthInBytes || !Height ||
	    (ElementSizeBytes != 4 && ElementSizeBytes != 8 && ElementSizeBytes != 16))
		return CUDA_ERROR_INVALID_VALUE;
	if (ck_add_overflow(WidthInBytes, PITCH_ALIGN - 1, &pitch) ||
	    ck_mul_overflow(pitch & ~(PITCH_ALIGN - 1), Height, &size))
		return CUDA_ERROR_OUT_OF_MEMORY;
	result = alloc_device_memory(dptr, size);
	if (result == CUDA_SUCCESS)
		*pPitch = pitch & ~(PITCH_ALIGN - 1);
	return result;
}

CUresult cuMemFree_v2(CUdeviceptr dptr)
{
	struct ck_emu_context *context;
	CUresult result = ck_emu_enter_owned(&context);
	struct ck_emu_context *owner;
	struct ck_emu_memory memory;

	if (result == CUDA_SUCCESS)
		result = ck_emu_hooks->capture_unsafe();
	if (result != CUDA_SUCCESS)
		return result;
	if (!dptr)
		return CUDA_SUCCESS;
	result = ck_emu_hooks->graph_memory_free(dptr);
	if (result != CUDA_ERROR_NOT_FOUND)
		return result;
	if (!ck_emu_arena_find(dptr, &memory) || memory.lo != dptr || memory.retired)
		return CUDA_ERROR_INVALID_VALUE;
	if (memory.kind == CK_EMU_MEMORY_POOL && ck_emu_arena_retire(dptr)) {
		ck_emu_all_wait();
		ck_emu_pool_return(dptr);
		return ck_emu_context_state(context);
	}
	/* memory with an owner is a variable */
	if ((memory.kind != CK_EMU_MEMORY_DEVICE && memory.kind != CK_EMU_MEMORY_MANAGED) ||
	    memory.owner)
		return CUDA_ERROR_INVALID_VALUE;
	/* freeing waits for the work that may still use the memory: its own context's */
	owner = ck_emu_object_get(memory.context, CK_EMU_CONTEXT);
	if (owner) {
		ck_emu_context_wait(owner);
		ck_emu_object_put(&owner->base);
	}
	result = ck_emu_context_state(context);
	if (result != CUDA_SUCCESS)
		return result;
	if (!ck_emu_arena_remove(dptr, memory.kind, &memory))
		return CUDA_ERROR_INVALID_VALUE;
	if (memory.kind == CK_EMU_MEMORY_MANAGED)
		ck_advice_forget(memory.lo, memory.size);
	return CUDA_SUCCESS;
}

CUresult cuMemGetInfo_v2(size_t *free, size_t *total)
{
	struct ck_emu_context *context;
	CUresult result = ck_emu_enter(&context);
	size_t used;

	if (result != CUDA_SUCCESS)
		return result;
	if (!free || !total)
		return CUDA_ERROR_INVALID_VALUE;
	ck_emu_arena_info(context->device, &used);
	*total = context->device->memory_total;
	*free = *total - used;
	return CUDA_SUCCESS;
}

CUresult cuMemGetAddressRange_v2(CUdeviceptr *pbase, size_t *psize, CUdeviceptr dptr)
{
	struct ck_emu_context *context;
	CUresult result = ck_emu_enter(&context);
	struct ck_emu_memory memory;

	if (result != CUDA_SUCCESS)
		return result;
	if (!ck_emu_arena_find(dptr, &memory) || memory.kind == CK_EMU_MEMORY_HEAP)
		return CUDA_ERROR_NOT_FOUND;
	if (pbase)
		*pbase = memory.lo;
	if (psize)
		*psize = memory.size;
	return CUDA_SUCCESS;
}
