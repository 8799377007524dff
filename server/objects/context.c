/*
 * server/objects/context.c - contexts that the client makes, and the devices' primary ones.
 *
 * Each creation or end of a context raises session.context_epoch, so that threads bind their
 * context again: the driver may reuse the handle of an old context for a new one.
 */
#include "gen/handlers.h"
#include "server/copy/staging.h"
#include "server/modules/launch_pace.h"
#include "server/graphs/mirror.h"
#include "server/memory/delivery.h"
#include "server/memory/lease.h"
#include "server/memory/memory.h"
#include "server/memory/pinned.h"
#include "server/memory/status.h"
#include "server/memory/texture.h"
#include "server/modules/link.h"
#include "server/nccl/nccl.h"
#include "server/objects/context.h"
#include "server/objects/warm.h"
#include "server/policy/meter.h"
#include "server/session/device_map.h"
#include "server/session/session.h"
#include "util/log.h"

CK_LOG_DEFINE("server");

static void contexts_changed(struct cks_session *s)
{
	atomic_fetch_add(&s->context_epoch, 1);
}

void cks_context_retire(struct cks_session *s, uint64_t id, CUcontext context)
{
	cks_nccl_drop_context(s, id);
	cks_status_drop_all(s);
	cks_staging_drop_context(s->staging, id);
	cks_launch_pace_drop_context(s->launch_pace, id);
	cks_deliveries_drop_context(s->deliveries, id, context);
	cks_mirrors_drop_context(s->mirrors, id);
}

/* Forget the objects of context @id, which ended with it. */
static void forget_contents(struct cks_session *s, uint64_t id, CUcontext context)
{
	cks_meter_limits_end(context);
	cks_links_drop_context(s->handles, id);
	cks_handles_drop_context(s->handles, id);
	cks_memory_drop_context(s->memory, id);
	cks_lease_forget_ended(s->leases, id);
	cks_textures_drop_context(s->textures, id);
	cks_deliveries_forget_context(s->deliveries, id);
	cks_shadows_drop_context(s->shadows, id);
	cks_pinned_drop_context(s->pinned, id);
	contexts_changed(s);
}

/* The supervisor knows the GPU by a mark of its UUID. */
static void note_gpu(struct cks_session *s, CUdevice device)
{
	unsigned char uuid[16];

	if (device < 0 || device >= CK_NOTED_GPUS || atomic_load(&s->gpus[device]) ||
	    !cks_device_map_find(device, uuid))
		return;
	atomic_store(&s->gpus[device], cks_uuid_mark(uuid));
}

void cks_context_moved(struct cks_session *s)
{
	unsigned char uuid[16];

	for (int i = 0; i < CK_NOTED_GPUS; i++) {
		if (atomic_load(&s->gpus[i]) && cks_device_map_find(i, uuid))
			atomic_store(&s->gpus[i], cks_uuid_mark(uuid));
	}
}

/* The session uses the GPU of @device from now on. */
static void begin_use(struct cks_session *s, CUdevice device)
{
	contexts_changed(s);
	note_gpu(s, device);
	cks_lease_meet(s, device);
}

/* A context takes memory too. */
static bool is_full(CUresult err)
{
	return err == CUDA_ERROR_OUT_OF_MEMORY;
}

static CUresult create_context(CUcontext *context, unsigned int flags, CUdevice device)
{
	if (ck_driver.cuCtxCreate_v2)
		return ck_driver.cuCtxCreate_v2(context, flags, device);
	if (ck_driver.cuCtxCreate_v4)
		return ck_driver.cuCtxCreate_v4(context, NULL, flags, device);
	return CUDA_ERROR_NOT_SUPPORTED;
}

CUresult ck_serve_context_create(struct cks_request *q, ck_context_create_args *a,
				 ck_context_create_res *res)
{
	CUcontext context = NULL, popped;
	CUresult err;

	(void)res;
	if (!ck_driver.cuCtxDestroy_v2 || !ck_driver.cuCtxPopCurrent_v2)
		return CUDA_ERROR_NOT_SUPPORTED;
	if (!cks_meter_context_begin())
		return CUDA_ERROR_OUT_OF_MEMORY;
	cks_warm_drop(a->device);
	cks_lease_await_thaw(q);
	err = create_context(&context, a->flags, a->device);
	for (unsigned int i = 0; is_full(err) && cks_lease_make_room(q, i); i++)
		err = create_context(&context, a->flags, a->device);
	if (err) {
		cks_meter_context_end();
		return err;
	}
	ck_driver.cuCtxPopCurrent_v2(&popped); /* each message names its context */
	begin_use(q->session, a->device);
	err = cks_handles_put(q->session->handles, a->context, CK_KIND_CONTEXT, 0, context);
	if (err) {
		ck_driver.cuCtxDestroy_v2(context);
		cks_meter_context_end();
	}
	return err;
}

CUresult ck_serve_context_destroy(struct cks_request *q, ck_context_destroy_args *a,
				  ck_context_destroy_res *res)
{
	struct cks_session *s = q->session;
	CUcontext context;
	CUresult err;

	(void)res;
	if (!ck_driver.cuCtxDestroy_v2)
		return CUDA_ERROR_NOT_SUPPORTED;
	if (!cks_context_find(q, a->context, &context))
		return CUDA_ERROR_INVALID_CONTEXT;
	cks_handles_remove(s->handles, a->context); /* first, so that no thread binds it again */
	cks_context_retire(s, a->context, context);
	ck_lock(&s->contexts);
	err = ck_driver.cuCtxDestroy_v2(context);
	forget_contents(s, a->context, context);
	ck_unlock(&s->contexts);
	cks_meter_context_end();
	return err;
}

CUresult ck_serve_primary_retain(struct cks_request *q, ck_primary_retain_args *a, void *res)
{
	struct cks_session *s = q->session;
	CUcontext context = NULL, known;
	CUresult err = CUDA_SUCCESS;

	(void)res;
	if (!ck_driver.cuDevicePrimaryCtxRetain)
		return CUDA_ERROR_NOT_SUPPORTED;
	q->bounded = !cks_meter_primary_begin(a->device);
	if (q->bounded)
		return CUDA_ERROR_OUT_OF_MEMORY;
	cks_lease_await_thaw(q);
	if (!cks_warm_take(a->device, &context)) /* the spare worker may have made it in advance */
		err = ck_driver.cuDevicePrimaryCtxRetain(&context, a->device);
	known = cks_handles_get(s->handles, a->context, CK_KIND_CONTEXT);
	if (err) {
		if (!known)
			cks_meter_primary_end(a->device);
		return err;
	}
	begin_use(s, a->device);
	if (known == context)
		return CUDA_SUCCESS;
	if (known)
		cks_handles_remove(s->handles, a->context);
	return cks_handles_put(s->handles, a->context, CK_KIND_CONTEXT, 0, context);
}

/* The client reuses the id of a primary context after it has ended and been retained again. */
CUresult ck_serve_primary_release(struct cks_request *q, ck_primary_release_args *a, void *res)
{
	unsigned int flags = 0;
	int active = 0;
	CUcontext context;
	CUresult err;

	(void)res;
	if (!ck_driver.cuDevicePrimaryCtxRelease_v2 || !ck_driver.cuDevicePrimaryCtxGetState)
		return CUDA_ERROR_NOT_SUPPORTED;
	if (cks_warm_drop(a->device))
		return CUDA_ERROR_INVALID_CONTEXT; /* the client has no context */
	context = cks_handles_get(q->session->handles, a->context, CK_KIND_CONTEXT);
	cks_context_retire(q->session, a->context, context);
	ck_lock(&q->session->contexts);
	err = ck_driver.cuDevicePrimaryCtxRelease_v2(a->device);
	if (!err && !ck_driver.cuDevicePrimaryCtxGetState(a->device, &flags, &active) && !active) {
		forget_contents(q->session, a->context, context);
		cks_meter_primary_end(a->device);
	}
	ck_unlock(&q->session->contexts);
	return err;
}

CUresult ck_serve_primary_reset(struct cks_request *q, ck_primary_reset_args *a,
				ck_primary_reset_res *res)
{
	CUcontext context;
	CUresult err;

	(void)res;
	if (!ck_driver.cuDevicePrimaryCtxReset_v2)
		return CUDA_ERROR_NOT_SUPPORTED;
	cks_warm_drop(a->device);
	context = cks_handles_get(q->session->handles, a->context, CK_KIND_CONTEXT);
	cks_context_retire(q->session, a->context, context);
	ck_lock(&q->session->contexts);
	err = ck_driver.cuDevicePrimaryCtxReset_v2(a->device);
	if (!err) {
		forget_contents(q->session, a->context, context);
		cks_meter_primary_end(a->device);
	}
	ck_unlock(&q->session->contexts);
	return err;
}

CUresult ck_serve_primary_flags(struct cks_request *q, ck_primary_flags_args *a, void *res)
{
	CUresult err;

	(void)q;
	(void)res;
	if (!ck_driver.cuDevicePrimaryCtxSetFlags_v2)
		return CUDA_ERROR_NOT_SUPPORTED;
	/* an existing context accepts scheduling flags; the others apply at creation */
	if (a->flags & ~(unsigned int)(CU_CTX_SCHED_MASK | CU_CTX_MAP_HOST))
		cks_warm_drop(a->device);
	err = ck_driver.cuDevicePrimaryCtxSetFlags_v2(a->device, a->flags);
	if (err && cks_warm_drop(a->device))
		err = ck_driver.cuDevicePrimaryCtxSetFlags_v2(a->device, a->flags);
	return err;
}

/* --- access to the memory of other devices */

CUresult ck_serve_cuCtxEnablePeerAccess(struct cks_request *q, cuCtxEnablePeerAccess_args *a,
					cuCtxEnablePeerAccess_res *res)
{
	CUcontext peer = cks_handles_get(q->session->handles, a->peerContext, CK_KIND_CONTEXT);

	(void)res;
	return ck_driver.cuCtxEnablePeerAccess ? ck_driver.cuCtxEnablePeerAccess(peer, a->Flags)
					       : CUDA_ERROR_NOT_SUPPORTED;
}

CUresult ck_serve_cuCtxDisablePeerAccess(struct cks_request *q, cuCtxDisablePeerAccess_args *a,
					 cuCtxDisablePeerAccess_res *res)
{
	CUcontext peer = cks_handles_get(q->session->handles, a->peerContext, CK_KIND_CONTEXT);

	(void)res;
	return ck_driver.cuCtxDisablePeerAccess ? ck_driver.cuCtxDisablePeerAccess(peer)
						: CUDA_ERROR_NOT_SUPPORTED;
}
