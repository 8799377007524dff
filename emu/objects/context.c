/*
 * emu/objects/context.c - making, clearing and switching contexts, and the entry check of every
 * call.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "emu/core/locks.h"
#include "emu/core/hooks.h"
#include "libcuda/local.h"

static void context_free(struct ck_emu_object *object)
{
	struct ck_emu_context *context = (struct ck_emu_context *)object;

	ck_mutex_destroy(&context->print_lock);
	free(context->print_text);
	free(context);
}

/* The default settings of a context. */
static void settings_reset(struct ck_emu_context *context)
{
	/* by CUlimit; the values of an H200 */
	static const size_t limits[CK_EMU_LIMITS] = {
		[CU_LIMIT_STACK_SIZE] = 1024,
		[CU_LIMIT_PRINTF_FIFO_SIZE] = 8650752,
		[CU_LIMIT_MALLOC_HEAP_SIZE] = 8388608,
		[CU_LIMIT_DEV_RUNTIME_PENDING_LAUNCH_COUNT] = 2048,
		[CU_LIMIT_MAX_L2_FETCH_GRANULARITY] = 64,
		[CU_LIMIT_PERSISTING_L2_CACHE_SIZE] = 11796480,
		[CU_LIMIT_SHMEM_SIZE] = CK_EMU_SHARED_OPTIN,
	};

	for (int i = 0; i < CK_EMU_LIMITS; i++)
		atomic_store(&context->limits[i], limits[i]);
	atomic_store(&context->fault, CUDA_SUCCESS);
	atomic_store(&context->cancelled, false);
	atomic_store(&context->cache_config, CU_FUNC_CACHE_PREFER_NONE);
	atomic_store(&context->shared_config, CU_SHARED_MEM_CONFIG_FOUR_BYTE_BANK_SIZE);
	atomic_store(&context->peers, 0);
	atomic_store(&context->heap_used, 0);
}

struct ck_emu_context *ck_emu_context_create(struct ck_emu_device *device, unsigned int flags)
{
	static atomic_uint_fast64_t last_id;
	struct ck_emu_context *context = calloc(1, sizeof(*context));

	if (!context)
		return NULL;
	ck_emu_object_init(&context->base, CK_EMU_CONTEXT, NULL, context_free);
	context->device = device;
	context->id = atomic_fetch_add(&last_id, 1) + 1;
	context->print_lock = (struct ck_mutex)CK_MUTEX(CK_RANK_PRINT);
	settings_reset(context);
	atomic_store(&context->flags, flags);
	atomic_store(&context->live, true);
	return context;
}

/* ck_emu_context_clear() returns its reference, also after an error. */
static int context_begin(struct ck_emu_context *context)
{
	const struct ck_emu_device *device = context->device;

	if (!ck_emu_hooks->memory_take(device->ordinal, device->context_memory))
		return -ENOMEM;
	context->memory = device->context_memory;
	return ck_emu_context_start(context);
}

int ck_emu_context_reset(struct ck_emu_context *context)
{
	int ret;

	settings_reset(context);
	atomic_store(&context->live, true);
	ret = context_begin(context);
	if (ret < 0)
		ck_emu_context_clear(context);
	return ret;
}

/* An object that goes with its context; functions, levels and references go with their owners. */
static bool object_in_context(const struct ck_emu_object *object, const void *context)
{
	return object->context == context && !object->owner;
}

static void objects_sweep(struct ck_emu_context *context)
{
	struct ck_emu_object *object;

	while ((object = ck_emu_object_search(object_in_context, context))) {
		if (ck_emu_object_retract(object))
			ck_emu_object_put(object);
		ck_emu_object_put(object);
	}
}

bool ck_emu_context_clear(struct ck_emu_context *context)
{
	if (!atomic_exchange(&context->live, false))
		return false;
	atomic_store(&context->cancelled, true);
	ck_emu_hooks->context_stop(context);
	ck_emu_context_stop(context);
	ck_emu_print_flush(context);
	objects_sweep(context);
	ck_emu_hooks->context_end(context);
	ck_emu_hooks->memory_give(context->device->ordinal, context->memory);
	context->memory = 0;
	return true;
}

CUresult ck_emu_enter(struct ck_emu_context **context)
{
	CUresult result = ck_emu_enter_bare();

	if (result != CUDA_SUCCESS)
		return result;
	*context = ck_emu_thread_context();
	return *context ? ck_emu_context_state(*context) : CUDA_ERROR_INVALID_CONTEXT;
}

CUresult ck_emu_enter_owned(struct ck_emu_context **context)
{
	CUresult result = ck_emu_enter_bare();

	if (result != CUDA_SUCCESS)
		return result;
	*context = ck_emu_thread_context();
	return ck_emu_context_state(*context);
}

/* Make a new context the current one; the rest of cuCtxCreate. */
static CUresult context_make(CUcontext *pctx, unsigned int flags, CUdevice dev)
{
	struct ck_emu_device *device = ck_emu_device_at(dev);
	CUresult result = ck_emu_enter_bare();
	struct ck_emu_context *context;

	if (result != CUDA_SUCCESS)
		return result;
	if (!pctx || flags & ~(unsigned int)CU_CTX_FLAGS_MASK)
		return CUDA_ERROR_INVALID_VALUE;
	if (!device)
		return CUDA_ERROR_INVALID_DEVICE;
	context = ck_emu_context_create(device, flags);
	if (!context)
		return CUDA_ERROR_OUT_OF_MEMORY;
	if (context_begin(context) < 0 || ck_emu_object_publish(&context->base) != CUDA_SUCCESS)
		goto clear;
	if (ck_emu_thread_push(context, (CUcontext)context) < 0) {
		ck_emu_object_retract(&context->base);
		goto clear;
	}
	*pctx = (CUcontext)context;
	return CUDA_SUCCESS;
clear:
	ck_emu_context_clear(context);
	ck_emu_object_put(&context->base);
	return CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult cuCtxCreate_v2(CUcontext *pctx, unsigned int flags, CUdevice dev)
{
	return context_make(pctx, flags, dev);
}

CUresult cuCtxCreate_v3(CUcontext *pctx, CUexecAffinityParam *paramsArray, int numParams,
			unsigned int flags, CUdevice dev)
{
	(void)paramsArray;
	/* the parameters ask for an execution affinity, that is, for part of the device */
	return numParams > 0 ? CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY
			     : context_make(pctx, flags, dev);
}

CUresult cuCtxCreate_v4(CUcontext *pctx, void *ctxCreateParams, unsigned int flags, CUdevice dev)
{
	const CUctxCreateParams *params = ctxCreateParams;

	if (params && params->numExecAffinityParams > 0)
		return CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY;
	if (params && params->cigParams)
		return CUDA_ERROR_NOT_SUPPORTED;
	return context_make(pctx, flags, dev);
}

CUresult cuCtxDestroy_v2(CUcontext ctx)
{
	CUresult result = ck_emu_enter_bare();
	struct ck_emu_context *context;

	if (result != CUDA_SUCCESS)
		return result;
	context = ck_emu_object_get(ctx, CK_EMU_CONTEXT);
	if (!context)
		return CUDA_ERROR_INVALID_CONTEXT;
	if (!context->is_primary) {
		ck_local_forget(ctx); /* the destructors may still use the context */
		ck_emu_context_drain(context);
	}
	/* a primary context goes with its last release, not this way */
	if (context->is_primary || !ck_emu_object_retract(&context->base)) {
		ck_emu_object_put(&context->base);
		return CUDA_ERROR_INVALID_CONTEXT;
	}
	ck_emu_context_clear(context);
	if (ck_emu_thread_context() == context) {
		ck_emu_thread_pop();
		ck_emu_object_put(&context->base);
	}
	ck_emu_object_put(&context->base);
	ck_emu_object_put(&context->base);
	return CUDA_SUCCESS;
}

/* A further use of the current context: it takes as many detachments. */
CUresult cuCtxAttach(CUcontext *pctx, unsigned int flags)
{
	struct ck_emu_context *context;
	CUresult result = ck_emu_enter(&context);

	if (result != CUDA_SUCCESS)
		return result;
	if (!pctx || flags)
		return CUDA_ERROR_INVALID_VALUE;
	if (context->is_primary)
		return cuDevicePrimaryCtxRetain(pctx, context->device->ordinal);
	atomic_fetch_add(&context->attached, 1);
	*pctx = (CUcontext)context;
	return CUDA_SUCCESS;
}

CUresult cuCtxDetach(CUcontext ctx)
{
	CUresult result = ck_emu_enter_bare();
	struct ck_emu_context *context = ck_emu_thread_context();
	unsigned int attached;

	if (result != CUDA_SUCCESS)
		return result;
	if (!context || ctx != ck_emu_thread_handle())
		return CUDA_ERROR_INVALID_CONTEXT;
	if (context->is_primary)
		return cuDevicePrimaryCtxRelease_v2(context->device->ordinal);
	attached = atomic_load(&context->attached);
	while (attached > 0) {
		if (atomic_compare_exchange_weak(&context->attached, &attached, attached - 1))
			return CUDA_SUCCESS;
	}
	return cuCtxDestroy_v2(ctx);
}

CUresult cuCtxPushCurrent_v2(CUcontext ctx)
{
	CUresult result = ck_emu_enter_bare();
	struct ck_emu_context *context;

	if (result != CUDA_SUCCESS)
		return result;
	context = ck_emu_object_get(ctx, CK_EMU_CONTEXT);
	if (!context)
		return CUDA_ERROR_INVALID_CONTEXT;
	if (ck_emu_thread_push(context, ctx) < 0)
		result = CUDA_ERROR_OUT_OF_MEMORY;
	ck_emu_object_put(&context->base);
	return result;
}

CUresult cuCtxPopCurrent_v2(CUcontext *pctx)
{
	CUresult result = ck_emu_enter_bare();
	struct ck_emu_context *context;
	CUcontext handle;

	if (result != CUDA_SUCCESS)
		return result;
	handle = ck_emu_thread_handle();
	context = ck_emu_thread_pop();
	if (!context)
		return CUDA_ERROR_INVALID_CONTEXT;
	if (pctx)
		*pctx = handle;
	ck_emu_object_put(&context->base);
	return CUDA_SUCCESS;
}

CUresult cuCtxSetCurrent(CUcontext ctx)
{
	CUresult result = ck_emu_enter_bare();
	struct ck_emu_context *context = NULL, *old;

	if (result != CUDA_SUCCESS)
		return result;
	if (ctx) {
		context = ck_emu_object_get(ctx, CK_EMU_CONTEXT);
		if (!context)
			return CUDA_ERROR_INVALID_CONTEXT;
	}
	old = ck_emu_thread_pop();
	if (context && ck_emu_thread_push(context, ctx) < 0)
		result = CUDA_ERROR_OUT_OF_MEMORY;
	if (context)
		ck_emu_object_put(&context->base);
	if (old)
		ck_emu_object_put(&old->base);
	return result;
}

CUresult cuCtxGetCurrent(CUcontext *pctx)
{
	CUresult result = ck_emu_enter_bare();

	if (result != CUDA_SUCCESS)
		return result;
	if (!pctx)
		return CUDA_ERROR_INVALID_VALUE;
	*pctx = ck_emu_thread_handle();
	return CUDA_SUCCESS;
}

CUresult cuCtxSynchronize(void)
{
	struct ck_emu_context *context;
	CUresult result = ck_emu_enter(&context);

	if (result == CUDA_SUCCESS)
		result = ck_emu_hooks->capture_context(context);
	return result == CUDA_SUCCESS ? ck_emu_context_wait(context) : result;
}

CUresult cuCtxSynchronize_v2(CUcontext ctx)
{
	CUresult result = ck_emu_enter_bare();
	struct ck_emu_context *context;

	if (!ctx)
		return cuCtxSynchronize();
	if (result != CUDA_SUCCESS)
		return result;
	context = ck_emu_object_get(ctx, CK_EMU_CONTEXT);
	if (!context)
		return CUDA_ERROR_INVALID_CONTEXT;
	result = ck_emu_hooks->capture_context(context);
	if (result == CUDA_SUCCESS)
		result = ck_emu_context_wait(context);
	ck_emu_object_put(&context->base);
	return result;
}
