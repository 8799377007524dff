/*
 * client/objects/context.c - contexts: the current one, creation, destruction.
 *
 * The stack of current contexts (link/thread.c) exists in this process only; each message names its
 * context. Calls with dead and placeholder contexts return what driver 580 on an H200 returns.
 */
#include "client/objects/context.h"
#include "client/objects/state.h"
#include "libcuda/local.h"
#include "client/link/hooks.h"
#include "client/link/session_list.h"
#include "client/link/stats.h"

CUresult ckc_context_usable(struct ckc_context **context)
{
	struct ckc_context *current = ckc_context_current();
	CUresult err = ckc_session_check();

	if (err)
		return err;
	if (!current)
		return CUDA_ERROR_INVALID_CONTEXT;
	if (!ckc_context_active(current))
		return ckc_context_dead(current);
	if (current->fault)
		return (CUresult)current->fault;
	*context = current;
	return CUDA_SUCCESS;
}

/* A context is current only after cuInit, so these checks cover all that the slow path checks. */
static inline bool enter_fast(uint64_t *ctx)
{
	struct ckc_context *current = ckc_context_current();

	if (unlikely(!current ||
		     atomic_load_explicit(&current->client->state, memory_order_relaxed) !=
			     CK_STATE_READY ||
		     !ckc_context_active(current) || current->fault || ckc_slow_entry))
		return false;
	*ctx = current->object.id;
	return true;
}

CUresult ckc_enter(uint64_t *ctx)
{
	struct ckc_context *context;
	CUresult err;

	if (likely(enter_fast(ctx)))
		return CUDA_SUCCESS;
	err = ckc_context_usable(&context);
	if (!err)
		*ctx = context->object.id;
	return err;
}

CUresult ckc_enter_any(uint64_t *ctx)
{
	struct ckc_context *current = ckc_context_current();
	CUresult err;

	if (likely(enter_fast(ctx)))
		return CUDA_SUCCESS;
	err = ckc_session_check();
	if (!err)
		*ctx = current && ckc_context_active(current) ? current->object.id : 0;
	return err;
}

CUresult ckc_enter_owned(uint64_t *ctx)
{
	CUresult err = ckc_enter(ctx);

	if (err != CUDA_ERROR_INVALID_CONTEXT || ckc_context_current())
		return err;
	*ctx = 0;
	return CUDA_SUCCESS;
}

/* --- handles */

struct ckc_context *ckc_context_known(CUcontext handle)
{
	return ckc_object_check(handle, CK_OBJECT_CONTEXT);
}

struct ckc_context *ckc_context_from(CUcontext handle)
{
	struct ckc_context *context = handle ? ckc_context_known(handle) : ckc_context_current();

	return context && (context->primary || ckc_context_active(context)) ? context : NULL;
}

CUresult ckc_context_id(CUcontext handle, uint64_t *id)
{
	struct ckc_context *context = ckc_context_known(handle);

	if (!context || !ckc_context_active(context))
		return CUDA_ERROR_INVALID_CONTEXT;
	*id = context->object.id;
	return CUDA_SUCCESS;
}

uint64_t ckc_context_number(void)
{
	static _Atomic uint64_t last;
	uint64_t number = atomic_fetch_add(&last, 1) + 1;

	if (number > 1) /* the streams of two contexts have no order */
		ckc_client_current()->unordered_streams = true;
	return number;
}

bool ckc_context_flags_valid(unsigned int flags)
{
	unsigned int wait = flags & CU_CTX_SCHED_MASK;

	return (flags & ~(unsigned int)CU_CTX_FLAGS_MASK) == 0 && (wait & (wait - 1)) == 0;
}

static void object_forget(struct ckc_object *object, void *unused)
{
	(void)unused;
	ckc_object_free(object);
}

void ckc_context_forget(struct ckc_context *context)
{
	ck_local_forget((CUcontext)context);
	for (int layer = CK_LAYER_COUNT; layer-- > 0;)
		ckc_each_hook(context_end, h) if ((int)h->layer == layer) h->run(context);
	ckc_object_each(context, object_forget, NULL);
	ckc_cache_clear();
}

/* --- creation and destruction */

static CUresult create_context(CUcontext *pctx, unsigned int flags, CUdevice dev)
{
	CUresult err = ckc_process_check();
	const struct ckc_thread *t;
	struct ckc_context *context;
	struct ckc_gpu *gpu;

	if (err)
		return err;
	if (!pctx || !ckc_context_flags_valid(flags))
		return CUDA_ERROR_INVALID_VALUE;
	gpu = ckc_gpu(dev);
	if (!gpu)
		return CUDA_ERROR_INVALID_DEVICE;
	t = ckc_thread();
	if (!t || t->depth == CK_CONTEXT_STACK)
		return CUDA_ERROR_OUT_OF_MEMORY;
	ckc_route(gpu->primary->client);
	context = ckc_object_new(CK_OBJECT_CONTEXT, NULL);
	if (!context)
		return CUDA_ERROR_OUT_OF_MEMORY;
	context->client = gpu->primary->client;
	err = ck_wire_context_create(0, context->object.id, gpu->server_ordinal, flags);
	if (err) {
		ckc_object_free(context);
		return err;
	}
	context->device = dev;
	context->flags = flags;
	context->retained = 1;
	context->was_active = true;
	context->unique_id = ckc_context_number();
	atomic_store(&context->active, true);
	ckc_context_push(context);
	*pctx = (CUcontext)context;
	return CUDA_SUCCESS;
}

CK_EXPORT CUresult cuCtxCreate_v2(CUcontext *pctx, unsigned int flags, CUdevice dev)
{
	return create_context(pctx, flags, dev);
}

/* CUctxCreateParams of CUDA 12.5 */
struct create_params {
	void *affinity;
	int affinity_count;
	void *graphics; /* share the context with a graphics client */
};

CK_EXPORT CUresult cuCtxCreate_v4(CUcontext *pctx, void *ctxCreateParams, unsigned int flags,
				  CUdevice dev)
{
	static bool told;
	const struct create_params *params = ctxCreateParams;
	CUresult err = ckc_session_check();

	if (err)
		return err;
	if (params && params->graphics)
		return ckc_refused("cuCtxCreate_v4 for a graphics client", &told);
	return cuCtxCreate_v3(pctx, params ? params->affinity : NULL,
			      params ? params->affinity_count : 0, flags, dev);
}

/* Destroy @context when its usage count, less @count, is 0. The slot is not reused. */
static CUresult release_context(struct ckc_context *context, unsigned int count)
{
	CUresult err = CUDA_SUCCESS;
	bool last = false;

	ck_lock(&context->client->objects->usage_lock);
	if (context->retained == 0) {
		err = CUDA_ERROR_CONTEXT_IS_DESTROYED;
	} else {
		context->retained -= ck_min(count, context->retained);
		last = context->retained == 0;
	}
	ck_unlock(&context->client->objects->usage_lock);
	if (!last)
		return err;
	ck_local_forget((CUcontext)context); /* first: the destructors may still use the context */
	ckc_each_hook(context_closing, h) h->run(context);
	atomic_store_explicit(&context->active, false, memory_order_release);
	ckc_context_forget(context);
	if (ckc_context_current() == context)
		ckc_context_pop();
	return ck_wire_context_destroy(0, context->object.id);
}

CK_EXPORT CUresult cuCtxDestroy_v2(CUcontext ctx)
{
	struct ckc_context *context = ckc_context_known(ctx);
	CUresult err = ckc_process_check();

	if (err)
		return err;
	if (!ctx)
		return CUDA_ERROR_INVALID_VALUE;
	if (!context || context->primary || context->green)
		return CUDA_ERROR_INVALID_CONTEXT;
	return release_context(context, ~0u);
}

CK_EXPORT CUresult cuCtxAttach(CUcontext *pctx, unsigned int flags)
{
	struct ckc_context *context;
	CUresult err = ckc_context_usable(&context);

	if (err)
		return err;
	if (!pctx || flags)
		return CUDA_ERROR_INVALID_VALUE;
	if (context->primary) {
		err = cuDevicePrimaryCtxRetain(pctx, context->device);
	} else {
		ck_lock(&context->client->objects->usage_lock);
		context->retained++;
		ck_unlock(&context->client->objects->usage_lock);
		*pctx = (CUcontext)context;
	}
	return err;
}

CK_EXPORT CUresult cuCtxDetach(CUcontext ctx)
{
	struct ckc_context *current = ckc_context_current();
	CUresult err = ckc_session_check();

	if (err)
		return err;
	if (!current || ckc_context_known(ctx) != current)
		return CUDA_ERROR_INVALID_CONTEXT;
	if (current->primary)
		return cuDevicePrimaryCtxRelease_v2(current->device);
	return release_context(current, 1);
}

/* --- the stack as the application sees it; it may contain dead contexts */

CK_EXPORT CUresult cuCtxPushCurrent_v2(CUcontext ctx)
{
	struct ckc_context *context = ckc_context_known(ctx);
	CUresult err = ckc_process_check();

	if (err)
		return err;
	if (!ctx)
		return CUDA_ERROR_INVALID_VALUE;
	return context ? ckc_context_push(context) : CUDA_ERROR_INVALID_CONTEXT;
}

CK_EXPORT CUresult cuCtxPopCurrent_v2(CUcontext *pctx)
{
	CUresult err = ckc_process_check();
	struct ckc_context *context;

	if (err)
		return err;
	context = ckc_context_pop();
	if (!context)
		return CUDA_ERROR_INVALID_CONTEXT;
	if (pctx)
		*pctx = (CUcontext)context;
	return CUDA_SUCCESS;
}

CK_EXPORT CUresult cuCtxSetCurrent(CUcontext ctx)
{
	CUresult err = ckc_process_check();
	struct ckc_context *context = NULL;

	if (err)
		return err;
	if (ctx) {
		context = ckc_context_known(ctx);
		if (!context)
			return CUDA_ERROR_INVALID_CONTEXT;
	}
	ckc_context_pop();
	return context ? ckc_context_push(context) : CUDA_SUCCESS;
}

CK_EXPORT CUresult cuCtxGetCurrent(CUcontext *pctx)
{
	CUresult err = ckc_process_check();

	if (err)
		return err;
	if (!pctx)
		return CUDA_ERROR_INVALID_VALUE;
	*pctx = (CUcontext)ckc_context_current();
	return CUDA_SUCCESS;
}
