/*
 * client/objects/primary.c - the primary context of each device.
 *
 * The object is made with the session, before any retain: the CUDA runtime makes it current first
 * and retains it later. The handle stays the same for the life of the process. The number of
 * cuCtxGetId is new each time the context is activated.
 *
 * A reset ends the context but keeps the usage count, as driver 580 does: a release is still valid
 * afterwards, and the next retain activates the context again.
 */
#include "client/objects/context.h"
#include "client/objects/state.h"
#include "client/link/hooks.h"
#include "client/link/session_list.h"
#include "libcuda/local.h"

static struct ck_mutex *lock_of(const struct ckc_gpu *gpu)
{
	return &gpu->primary->client->objects->primary_lock;
}

static CUresult begin_primary_call(CUdevice dev, struct ckc_gpu **gpu)
{
	CUresult err = ckc_process_check();

	if (err)
		return err;
	*gpu = ckc_gpu(dev);
	if (!*gpu)
		return CUDA_ERROR_INVALID_DEVICE;
	ckc_route((*gpu)->primary->client);
	return CUDA_SUCCESS;
}

static void activate_primary(struct ckc_gpu *gpu)
{
	struct ckc_context *context = gpu->primary;

	context->flags = gpu->primary_flags | CU_CTX_MAP_HOST;
	context->unique_id = ckc_context_number();
	context->was_active = true;
	atomic_store(&context->synced, 0);
	atomic_store(&context->legacy_synced, 0);
	atomic_store(&context->fault, 0);
	atomic_store_explicit(&context->active, true, memory_order_release);
}

static void deactivate_primary(struct ckc_gpu *gpu)
{
	atomic_store_explicit(&gpu->primary->active, false, memory_order_release);
	ckc_context_forget(gpu->primary);
}

CK_EXPORT CUresult cuDevicePrimaryCtxRetain(CUcontext *pctx, CUdevice dev)
{
	struct ckc_gpu *gpu;
	CUresult err = begin_primary_call(dev, &gpu);

	if (err)
		return err;
	if (!pctx)
		return CUDA_ERROR_INVALID_VALUE;
	ck_lock(lock_of(gpu));
	if (!ckc_context_active(gpu->primary)) {
		err = ck_wire_primary_retain(0, gpu->primary->object.id, gpu->server_ordinal);
		if (!err)
			activate_primary(gpu);
	}
	if (!err) {
		gpu->primary->retained++;
		*pctx = (CUcontext)gpu->primary;
	}
	ck_unlock(lock_of(gpu));
	return err;
}

CK_EXPORT CUresult cuDevicePrimaryCtxRelease_v2(CUdevice dev)
{
	struct ckc_gpu *gpu;
	CUresult err = begin_primary_call(dev, &gpu);
	bool last = false;

	if (err)
		return err;
	ck_lock(lock_of(gpu));
	if (gpu->primary->retained == 0)
		err = CUDA_ERROR_INVALID_CONTEXT;
	else
		last = --gpu->primary->retained == 0 && ckc_context_active(gpu->primary);
	ck_unlock(lock_of(gpu));
	if (!last)
		return err;
	ck_local_forget((CUcontext)gpu->primary);
	ck_lock(lock_of(gpu));
	/* another thread, or a destructor, may have retained it meanwhile */
	if (gpu->primary->retained == 0 && ckc_context_active(gpu->primary)) {
		deactivate_primary(gpu);
		err = ck_wire_primary_release(0, gpu->primary->object.id, gpu->server_ordinal);
	}
	ck_unlock(lock_of(gpu));
	return err;
}

CK_EXPORT CUresult cuDevicePrimaryCtxReset_v2(CUdevice dev)
{
	struct ckc_gpu *gpu;
	CUresult err = begin_primary_call(dev, &gpu);

	if (err)
		return err;
	ck_local_forget((CUcontext)gpu->primary);
	ckc_each_hook(context_closing, h) h->run(gpu->primary);
	ck_lock(lock_of(gpu));
	gpu->primary_flags = CU_CTX_SCHED_AUTO;
	gpu->primary->flags = CU_CTX_SCHED_AUTO;
	if (ckc_context_active(gpu->primary)) {
		deactivate_primary(gpu);
		err = ck_wire_primary_reset(0, gpu->primary->object.id, gpu->server_ordinal);
	}
	ck_unlock(lock_of(gpu));
	return err;
}

CK_EXPORT CUresult cuDevicePrimaryCtxGetState(CUdevice dev, unsigned int *flags, int *active)
{
	struct ckc_gpu *gpu;
	CUresult err = begin_primary_call(dev, &gpu);

	if (err)
		return err;
	if (!flags || !active)
		return CUDA_ERROR_INVALID_VALUE;
	ck_lock(lock_of(gpu));
	*flags = gpu->primary_flags;
	*active = ckc_context_active(gpu->primary);
	ck_unlock(lock_of(gpu));
	return CUDA_SUCCESS;
}

CK_EXPORT CUresult cuDevicePrimaryCtxSetFlags_v2(CUdevice dev, unsigned int flags)
{
	struct ckc_gpu *gpu;
	CUresult err = begin_primary_call(dev, &gpu);

	if (err)
		return err;
	if (!ckc_context_flags_valid(flags))
		return CUDA_ERROR_INVALID_VALUE;
	ck_lock(lock_of(gpu));
	gpu->primary_flags = flags;
	if (ckc_context_active(gpu->primary))
		gpu->primary->flags = flags | CU_CTX_MAP_HOST;
	err = ck_wire_primary_flags(0, gpu->server_ordinal, flags);
	ck_unlock(lock_of(gpu));
	return err;
}
