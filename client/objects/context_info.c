/*
 * client/objects/context_info.c - queries about a context. For dead contexts they return what
 * driver 580 on an H200 returns.
 */
#include "client/objects/capture.h"
#include "client/objects/context.h"

#define API_VERSION 3020 /* the same for every context since CUDA 3.2 */

/* The context of @handle, NULL for the current one, dead or alive. */
static CUresult context_at(CUcontext handle, struct ckc_context **context)
{
	CUresult err = ckc_session_check();

	if (err)
		return err;
	*context = handle ? ckc_context_known(handle) : ckc_context_current();
	return *context ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}

CK_EXPORT CUresult cuCtxGetDevice_v2(CUdevice *device, CUcontext ctx)
{
	struct ckc_context *context;
	CUresult err = context_at(ctx, &context);

	if (err)
		return err;
	if (!device)
		return CUDA_ERROR_INVALID_VALUE;
	*device = context->device;
	return CUDA_SUCCESS;
}

CK_EXPORT CUresult cuCtxGetDevice(CUdevice *device)
{
	return cuCtxGetDevice_v2(device, NULL);
}

/* Runtimes use this call to find out whether a context is alive. */
CK_EXPORT CUresult cuCtxGetApiVersion(CUcontext ctx, unsigned int *version)
{
	struct ckc_context *context;
	CUresult err = context_at(ctx, &context);

	if (err)
		return err;
	if (!ckc_context_active(context))
		return ctx ? CUDA_ERROR_INVALID_CONTEXT : ckc_context_dead(context);
	if (!version)
		return CUDA_ERROR_INVALID_VALUE;
	*version = API_VERSION;
	return CUDA_SUCCESS;
}

CK_EXPORT CUresult cuCtxGetId(CUcontext ctx, unsigned long long *ctxId)
{
	struct ckc_context *context;
	CUresult err = context_at(ctx, &context);

	if (err)
		return err;
	if (!ckc_context_active(context))
		return ckc_context_dead(context);
	if (!ctxId)
		return CUDA_ERROR_INVALID_VALUE;
	*ctxId = atomic_load(&context->unique_id);
	return CUDA_SUCCESS;
}

CK_EXPORT CUresult cuCtxGetFlags(unsigned int *flags)
{
	struct ckc_context *context;
	CUresult err = context_at(NULL, &context);

	if (err)
		return err;
	if (!flags)
		return CUDA_ERROR_INVALID_VALUE;
	*flags = context->flags;
	return CUDA_SUCCESS;
}

/* The server need not know how the application waits for the GPU; mapping is always on. */
CK_EXPORT CUresult cuCtxSetFlags(unsigned int flags)
{
	struct ckc_context *context;
	CUresult err = ckc_context_usable(&context);

	if (err)
		return err;
	if (!ckc_context_flags_valid(flags))
		return CUDA_ERROR_INVALID_VALUE;
	context->flags = flags | (context->flags & CU_CTX_MAP_HOST);
	return CUDA_SUCCESS;
}

CK_EXPORT CUresult cuCtxGetStreamPriorityRange(int *leastPriority, int *greatestPriority)
{
	struct ckc_context *context;
	CUresult err = ckc_context_usable(&context);
	const ck_device *facts;

	if (err)
		return err;
	facts = ckc_gpu(context->device)->facts;
	if (leastPriority)
		*leastPriority = facts->stream_priority_low;
	if (greatestPriority)
		*greatestPriority = facts->stream_priority_high;
	return CUDA_SUCCESS;
}

/* Every library queries limits during set-up, so the answers are cached until one is set. */
CK_EXPORT CUresult cuCtxSetLimit(CUlimit limit, size_t value)
{
	uint64_t ctx;
	CUresult err = ckc_enter(&ctx);

	if (!err)
		err = ckc_capture_unsafe();
	if (err)
		return err;
	err = ck_wire_cuCtxSetLimit(ctx, limit, value);
	ckc_cache_altered();
	return err;
}

/* Preferences of the context; they may affect launches and occupancy. */
CK_EXPORT CUresult cuCtxSetCacheConfig(CUfunc_cache config)
{
	uint64_t ctx;
	CUresult err = ckc_enter(&ctx);

	if (!err && (unsigned int)config > CU_FUNC_CACHE_PREFER_EQUAL)
		err = CUDA_ERROR_INVALID_VALUE;
	if (err)
		return err;
	err = ck_wire_cuCtxSetCacheConfig(ctx, config);
	ckc_cache_altered();
	return err;
}

CK_EXPORT CUresult cuCtxSetSharedMemConfig(CUsharedconfig config)
{
	uint64_t ctx;
	CUresult err = ckc_enter(&ctx);

	if (!err && (unsigned int)config > CU_SHARED_MEM_CONFIG_EIGHT_BYTE_BANK_SIZE)
		err = CUDA_ERROR_INVALID_VALUE;
	if (err)
		return err;
	err = ck_wire_cuCtxSetSharedMemConfig(ctx, config);
	ckc_cache_altered();
	return err;
}
