/*
 * emu/objects/context_info.c - queries about a context: flags, limits, preferences, peers.
 */
#include "emu/core/emu.h"
#include "emu/core/hooks.h"

#define STACK_MAX (512ul << 10) /* bytes of local memory that a thread may have */
#define API_VERSION 3020	/* of every context since CUDA 3.2 */

/* The context of a handle, or the current one for NULL; with a reference. */
static CUresult context_get(CUcontext handle, struct ck_emu_context **context)
{
	CUresult result = ck_emu_enter_bare();

	if (result != CUDA_SUCCESS)
		return result;
	if (!handle)
		handle = (CUcontext)ck_emu_thread_context();
	*context = ck_emu_object_get(handle, CK_EMU_CONTEXT);
	return *context ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}

/* ck_emu_enter() for a call that has an output. */
static CUresult begin_context_query(const void *output, struct ck_emu_context **context)
{
	CUresult result = ck_emu_enter(context);

	return result == CUDA_SUCCESS && !output ? CUDA_ERROR_INVALID_VALUE : result;
}

CUresult cuCtxGetDevice(CUdevice *device)
{
	CUresult result = ck_emu_enter_bare();
	struct ck_emu_context *context = ck_emu_thread_context();

	if (result != CUDA_SUCCESS)
		return result;
	if (!context)
		return CUDA_ERROR_INVALID_CONTEXT;
	if (!device)
		return CUDA_ERROR_INVALID_VALUE;
	*device = context->device->ordinal;
	return CUDA_SUCCESS;
}

CUresult cuCtxGetDevice_v2(CUdevice *device, CUcontext ctx)
{
	struct ck_emu_context *context;
	CUresult result = context_get(ctx, &context);

	if (result != CUDA_SUCCESS)
		return result;
	if (device)
		*device = context->device->ordinal;
	ck_emu_object_put(&context->base);
	return device ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuCtxGetApiVersion(CUcontext ctx, unsigned int *version)
{
	struct ck_emu_context *context;
	CUresult result = context_get(ctx, &context);

	if (result != CUDA_SUCCESS)
		return result;
	/* runtimes take this call for the question whether the context lives */
	if (!atomic_load(&context->live))
		result = CUDA_ERROR_INVALID_CONTEXT;
	else if (!version)
		result = CUDA_ERROR_INVALID_VALUE;
	else
		*version = API_VERSION;
	ck_emu_object_put(&context->base);
	return result;
}

CUresult cuCtxGetId(CUcontext ctx, unsigned long long *ctxId)
{
	struct ck_emu_context *context;
	CUresult result = context_get(ctx, &context);

	if (result != CUDA_SUCCESS)
		return result;
	if (ctxId)
		*ctxId = context->id;
	ck_emu_object_put(&context->base);
	return ctxId ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuCtxGetFlags(unsigned int *flags)
{
	struct ck_emu_context *context;
	CUresult result = begin_context_query(flags, &context);

	if (result == CUDA_SUCCESS)
		*flags = atomic_load(&context->flags);
	return result;
}

CUresult cuCtxSetFlags(unsigned int flags)
{
	struct ck_emu_context *context;
	CUresult result = ck_emu_enter(&context);

	if (result != CUDA_SUCCESS)
		return result;
	if (flags & ~(unsigned int)CU_CTX_FLAGS_MASK)
		return CUDA_ERROR_INVALID_VALUE;
	atomic_store(&context->flags, flags);
	return CUDA_SUCCESS;
}

/* Whether a limit has a value: as on an H200. */
static CUresult limit_check(CUlimit limit)
{
	switch ((int)limit) {
	case CU_LIMIT_STACK_SIZE:
	case CU_LIMIT_PRINTF_FIFO_SIZE:
	case CU_LIMIT_MALLOC_HEAP_SIZE:
	case CU_LIMIT_DEV_RUNTIME_PENDING_LAUNCH_COUNT:
	case CU_LIMIT_MAX_L2_FETCH_GRANULARITY:
	case CU_LIMIT_PERSISTING_L2_CACHE_SIZE:
	case CU_LIMIT_SHMEM_SIZE:
	case CU_LIMIT_CIG_ENABLED:
		return CUDA_SUCCESS;
	case CU_LIMIT_DEV_RUNTIME_SYNC_DEPTH:
	case CU_LIMIT_CIG_SHMEM_FALLBACK_ENABLED:
		return CUDA_ERROR_UNSUPPORTED_LIMIT;
	default:
		return CUDA_ERROR_INVALID_VALUE;
	}
}

CUresult cuCtxGetLimit(size_t *pvalue, CUlimit limit)
{
	struct ck_emu_context *context;
	CUresult result = begin_context_query(pvalue, &context);

	if (result == CUDA_SUCCESS)
		result = limit_check(limit);
	if (result == CUDA_SUCCESS)
		*pvalue = atomic_load(&context->limits[limit]);
	return result;
}

CUresult cuCtxSetLimit(CUlimit limit, size_t value)
{
	struct ck_emu_context *context;
	CUresult result = ck_emu_enter(&context);

	if (result == CUDA_SUCCESS)
		result = limit_check(limit);
	if (result == CUDA_SUCCESS)
		result = ck_emu_hooks->capture_unsafe();
	if (result != CUDA_SUCCESS)
		return result;
	/* these two tell of the hardware and of graphics: they can only be read */
	if (limit == CU_LIMIT_SHMEM_SIZE || limit == CU_LIMIT_CIG_ENABLED)
		return CUDA_ERROR_UNSUPPORTED_LIMIT;
	if (limit == CU_LIMIT_STACK_SIZE && value > STACK_MAX)
		return CUDA_ERROR_INVALID_VALUE;
	if (limit == CU_LIMIT_MAX_L2_FETCH_GRANULARITY)
		value = ck_min(value, (size_t)128);
	atomic_store(&context->limits[limit], value);
	return CUDA_SUCCESS;
}

CUresult cuCtxGetCacheConfig(CUfunc_cache *pconfig)
{
	struct ck_emu_context *context;
	CUresult result = begin_context_query(pconfig, &context);

	if (result == CUDA_SUCCESS)
		*pconfig = (CUfunc_cache)atomic_load(&context->cache_config);
	return result;
}

CUresult cuCtxSetCacheConfig(CUfunc_cache config)
{
	struct ck_emu_context *context;
	CUresult result = ck_emu_enter(&context);

	if (result != CUDA_SUCCESS)
		return result;
	if ((unsigned int)config > CU_FUNC_CACHE_PREFER_EQUAL)
		return CUDA_ERROR_INVALID_VALUE;
	atomic_store(&context->cache_config, (unsigned int)config);
	return CUDA_SUCCESS;
}

CUresult cuCtxGetSharedMemConfig(CUsharedconfig *pConfig)
{
	struct ck_emu_context *context;
	CUresult result = begin_context_query(pConfig, &context);

	if (result == CUDA_SUCCESS)
		*pConfig = (CUsharedconfig)atomic_load(&context->shared_config);
	return result;
}

CUresult cuCtxSetSharedMemConfig(CUsharedconfig config)
{
	struct ck_emu_context *context;
	CUresult result = ck_emu_enter(&context);

	if (result != CUDA_SUCCESS)
		return result;
	/* banks have been four bytes wide for long: accepted, without effect */
	if ((unsigned int)config > CU_SHARED_MEM_CONFIG_EIGHT_BYTE_BANK_SIZE)
		return CUDA_ERROR_INVALID_VALUE;
	return CUDA_SUCCESS;
}

CUresult cuCtxGetStreamPriorityRange(int *leastPriority, int *greatestPriority)
{
	struct ck_emu_context *context;
	CUresult result = ck_emu_enter(&context);

	if (result != CUDA_SUCCESS)
		return result;
	if (leastPriority)
		*leastPriority = CK_EMU_PRIORITY_LEAST;
	if (greatestPriority)
		*greatestPriority = CK_EMU_PRIORITY_GREATEST;
	return CUDA_SUCCESS;
}

CUresult cuCtxResetPersistingL2Cache(void)
{
	struct ck_emu_context *context;

	return ck_emu_enter(&context);
}

/* The bit of the device of @handle, a context that is not on @context's device. */
static CUresult peer_bit(CUcontext handle, const struct ck_emu_context *context, unsigned int *bit)
{
	struct ck_emu_context *peer = ck_emu_object_get(handle, CK_EMU_CONTEXT);
	CUresult result = CUDA_SUCCESS;

	if (!peer)
		return CUDA_ERROR_INVALID_CONTEXT;
	if (!atomic_load(&peer->live) || peer == context)
		result = CUDA_ERROR_INVALID_CONTEXT;
	else if (peer->device == context->device)
		result = CUDA_ERROR_INVALID_DEVICE;
	*bit = 1u << peer->device->ordinal;
	ck_emu_object_put(&peer->base);
	return result;
}

CUresult cuCtxEnablePeerAccess(CUcontext peerContext, unsigned int Flags)
{
	struct ck_emu_context *context;
	CUresult result = ck_emu_enter(&context);
	unsigned int bit;

	if (result == CUDA_SUCCESS && Flags)
		result = CUDA_ERROR_INVALID_VALUE;
	if (result == CUDA_SUCCESS)
		result = peer_bit(peerContext, context, &bit);
	if (result == CUDA_SUCCESS && !ck_emu_device_reaches(0, 1))
		result = CUDA_ERROR_PEER_ACCESS_UNSUPPORTED;
	if (result != CUDA_SUCCESS)
		return result;
	return atomic_fetch_or(&context->peers, bit) & bit ? CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED
							   : CUDA_SUCCESS;
}

CUresult cuCtxDisablePeerAccess(CUcontext peerContext)
{
	struct ck_emu_context *context;
	CUresult result = ck_emu_enter(&context);
	unsigned int bit;

	if (result == CUDA_SUCCESS)
		result = peer_bit(peerContext, context, &bit);
	if (result != CUDA_SUCCESS)
		return result;
	return atomic_fetch_and(&context->peers, ~bit) & bit ? CUDA_SUCCESS
							     : CUDA_ERROR_PEER_ACCESS_NOT_ENABLED;
}
