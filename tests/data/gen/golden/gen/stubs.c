/* Made by tools/apigen.py from rpc/driver.api: change those, not this file. */
#include <stdlib.h>
#include <string.h>

#include "client/link/stub.h"
#include "gen/api.h"
#include "gen/wire.h"

CUresult ck_wire_put(uint64_t ctx, CUdeviceptr dst, const void *data, size_t data_size)
{
	ck_put_args a;

	memset(&a, 0, sizeof(a));
	a.head.ctx = ctx;
	a.dst = dst;
	a.data_length = (u_int)data_size;
	return ckc_send(CK_PROC_put, &a, data, data_size);
}

CUresult ck_wire_get(ck_get_args *a, ck_get_res *r, struct ckc_sink *data)
{
	memset(r, 0, sizeof(*r));
	return ckc_call(CK_PROC_get, a, r, data);
}

CUresult ck_wire_cuThingCreate(uint64_t ctx, uint64_t phThing, unsigned int flags)
{
	cuThingCreate_args a;

	memset(&a, 0, sizeof(a));
	a.head.ctx = ctx;
	a.phThing = phThing;
	a.flags = flags;
	return ckc_send(CK_PROC_cuThingCreate, &a, NULL, 0);
}

CK_EXPORT CUresult cuThingDestroy(CUevent hThing)
{
	return cuThingDestroy_v2(hThing);
}

CUresult ck_wire_cuThingDestroy_v2(uint64_t ctx, uint64_t hThing)
{
	cuThingDestroy_v2_args a;

	memset(&a, 0, sizeof(a));
	a.head.ctx = ctx;
	a.hThing = hThing;
	return ckc_send(CK_PROC_cuThingDestroy_v2, &a, NULL, 0);
}

CUresult ck_wire_cuThingGetColour(uint64_t ctx, size_t *colour, int dev)
{
	cuThingGetColour_args a;
	cuThingGetColour_res r;
	CUresult err;

	memset(&a, 0, sizeof(a));
	a.head.ctx = ctx;
	a.dev = dev;
	memset(&r, 0, sizeof(r));
	err = ckc_call(CK_PROC_cuThingGetColour, &a, &r, NULL);
	if (err == CUDA_SUCCESS) {
		if (colour)
			*colour = (size_t)r.colour;
	}
	return err;
}

CK_EXPORT CUresult cuThingGetColour(size_t *colour, CUdevice dev)
{
	uint64_t ctx;
	int dev_id;
	CUresult err = ckc_enter(&ctx);

	if (err)
		return err;
	if (!colour)
		return CUDA_ERROR_INVALID_VALUE;
	err = ckc_device_id(dev, &dev_id);
	if (err)
		return err;
	const uint64_t key[] = { CK_PROC_cuThingGetColour, ctx, (uint64_t)dev_id };

	if (ckc_cache_get(key, sizeof(key), colour, sizeof(*colour)))
		return CUDA_SUCCESS;
	err = ck_wire_cuThingGetColour(ctx, colour, dev_id);
	if (!err)
		ckc_cache_put(key, sizeof(key), colour, sizeof(*colour));
	return err;
}

CUresult ck_wire_cuThingGetHeat(uint64_t ctx, int *heat, int place, uint64_t hfunc)
{
	cuThingGetHeat_args a;
	cuThingGetHeat_res r;
	CUresult err;

	memset(&a, 0, sizeof(a));
	a.head.ctx = ctx;
	a.place = place;
	a.hfunc = hfunc;
	memset(&r, 0, sizeof(r));
	err = ckc_call(CK_PROC_cuThingGetHeat, &a, &r, NULL);
	if (err == CUDA_SUCCESS) {
		if (heat)
			*heat = (int)r.heat;
	}
	return err;
}

CK_EXPORT CUresult cuThingGetHeat(int *heat, int place, CUfunction hfunc)
{
	uint64_t ctx;
	uint64_t hfunc_id;
	CUresult err = ckc_enter(&ctx);

	if (err)
		return err;
	if (!heat)
		return CUDA_ERROR_INVALID_VALUE;
	err = ckc_function_id(hfunc, &hfunc_id);
	if (err)
		return err;
	const uint64_t key[] = { CK_PROC_cuThingGetHeat, ctx, (uint64_t)place, (uint64_t)hfunc_id };

	if (ckc_cache_get(key, sizeof(key), heat, sizeof(*heat)))
		return CUDA_SUCCESS;
	err = ck_wire_cuThingGetHeat(ctx, heat, place, hfunc_id);
	if (!err)
		ckc_cache_put(key, sizeof(key), heat, sizeof(*heat));
	return err;
}

CUresult ck_wire_cuThingSetHeat(uint64_t ctx, uint64_t hfunc, int heat)
{
	cuThingSetHeat_args a;
	cuThingSetHeat_res r;
	CUresult err;

	memset(&a, 0, sizeof(a));
	a.head.ctx = ctx;
	a.hfunc = hfunc;
	a.heat = heat;
	memset(&r, 0, sizeof(r));
	err = ckc_call(CK_PROC_cuThingSetHeat, &a, &r, NULL);
	return err;
}

CUresult ck_wire_cuThingPaint(uint64_t ctx, uint64_t hThing, CUcolour colour, float shade, const CUDA_MEMCPY3D *how, CUstreamAttrValue *before, unsigned int *coats)
{
	cuThingPaint_args a;
	cuThingPaint_res r;
	CUresult err;

	memset(&a, 0, sizeof(a));
	a.head.ctx = ctx;
	a.hThing = hThing;
	a.colour = colour;
	a.shade = shade;
	memcpy(a.how, how, sizeof(a.how));
	memset(&r, 0, sizeof(r));
	err = ckc_call(CK_PROC_cuThingPaint, &a, &r, NULL);
	if (err == CUDA_SUCCESS) {
		memcpy(before, r.before, sizeof(r.before));
		if (coats)
			*coats = (unsigned int)r.coats;
	}
	return err;
}

CK_EXPORT CUresult cuThingPaint(CUevent hThing, CUcolour colour, float shade, const CUDA_MEMCPY3D *how, CUstreamAttrValue *before, unsigned int *coats)
{
	uint64_t ctx;
	uint64_t hThing_id;
	CUresult err = ckc_enter(&ctx);

	if (err)
		return err;
	if (!how)
		return CUDA_ERROR_INVALID_VALUE;
	if (!before)
		return CUDA_ERROR_INVALID_VALUE;
	err = ckc_event_id(hThing, &hThing_id);
	if (err)
		return err;
	return ck_wire_cuThingPaint(ctx, hThing_id, colour, shade, how, before, coats);
}

CUresult ck_wire_cuThingPlan(uint64_t ctx, uint64_t phPlan, uint64_t hPool)
{
	cuThingPlan_args a;
	cuThingPlan_res r;
	CUresult err;

	memset(&a, 0, sizeof(a));
	a.head.ctx = ctx;
	a.phPlan = phPlan;
	a.hPool = hPool;
	memset(&r, 0, sizeof(r));
	err = ckc_call(CK_PROC_cuThingPlan, &a, &r, NULL);
	return err;
}

CK_EXPORT CUresult cuThingPlan(CUgraph *phPlan, CUmemoryPool hPool)
{
	uint64_t ctx;
	uint64_t hPool_id;
	uint64_t phPlan_id = 0;
	CUresult err = ckc_enter(&ctx);

	if (err)
		return err;
	if (!phPlan)
		return CUDA_ERROR_INVALID_VALUE;
	err = ckc_pool_id(hPool, &hPool_id);
	if (err)
		return err;
	err = ckc_object_make(CK_OBJECT_GRAPH, &phPlan_id);
	if (err)
		return err;
	err = ck_wire_cuThingPlan(ctx, phPlan_id, hPool_id);
	if (err) {
		ckc_object_end(CK_OBJECT_GRAPH, phPlan_id);
		return err;
	}
	*phPlan = (CUgraph)(uintptr_t)ckc_object_by_id(CK_OBJECT_GRAPH, phPlan_id);
	return CUDA_SUCCESS;
}

CUresult ck_wire_cuThingPlanDestroy(uint64_t ctx, uint64_t hPlan)
{
	cuThingPlanDestroy_args a;
	cuThingPlanDestroy_res r;
	CUresult err;

	memset(&a, 0, sizeof(a));
	a.head.ctx = ctx;
	a.hPlan = hPlan;
	memset(&r, 0, sizeof(r));
	err = ckc_call(CK_PROC_cuThingPlanDestroy, &a, &r, NULL);
	return err;
}

CK_EXPORT CUresult cuThingPlanDestroy(CUgraph hPlan)
{
	uint64_t ctx;
	uint64_t hPlan_id;
	CUresult err = ckc_enter(&ctx);

	if (err)
		return err;
	err = ckc_graph_id(hPlan, &hPlan_id);
	if (err)
		return err;
	err = ck_wire_cuThingPlanDestroy(ctx, hPlan_id);
	if (err)
		return err;
	ckc_object_end(CK_OBJECT_GRAPH, hPlan_id);
	return CUDA_SUCCESS;
}

CUresult ck_wire_cuThingPlanOf(uint64_t ctx, uint64_t hThing, uint64_t *phPlan)
{
	cuThingPlanOf_args a;
	cuThingPlanOf_res r;
	CUresult err;

	memset(&a, 0, sizeof(a));
	a.head.ctx = ctx;
	a.hThing = hThing;
	memset(&r, 0, sizeof(r));
	err = ckc_call(CK_PROC_cuThingPlanOf, &a, &r, NULL);
	if (err == CUDA_SUCCESS) {
		if (phPlan)
			*phPlan = (uint64_t)r.phPlan;
	}
	return err;
}

CK_EXPORT CUresult cuThingPlanOf(CUevent hThing, CUgraph *phPlan)
{
	uint64_t ctx;
	uint64_t hThing_id;
	uint64_t phPlan_id = 0;
	CUresult err = ckc_enter(&ctx);

	if (err)
		return err;
	if (!phPlan)
		return CUDA_ERROR_INVALID_VALUE;
	err = ckc_event_id(hThing, &hThing_id);
	if (err)
		return err;
	err = ck_wire_cuThingPlanOf(ctx, hThing_id, &phPlan_id);
	if (err)
		return err;
	*phPlan = (CUgraph)(uintptr_t)ckc_object_named(CK_OBJECT_GRAPH, phPlan_id);
	if (!*phPlan)
		return CUDA_ERROR_OUT_OF_MEMORY;
	return CUDA_SUCCESS;
}

CUresult ck_wire_cuThingMany(uint64_t ctx, const uint64_t *things, size_t things_count, uint64_t **plans, size_t *plans_count, uint64_t *first)
{
	cuThingMany_args a;
	cuThingMany_res r;
	CUresult err;

	memset(&a, 0, sizeof(a));
	a.head.ctx = ctx;
	a.things.things_val = (void *)(uintptr_t)things;
	a.things.things_len = (u_int)things_count;
	memset(&r, 0, sizeof(r));
	err = ckc_call(CK_PROC_cuThingMany, &a, &r, NULL);
	*plans = r.plans.plans_val;
	*plans_count = r.plans.plans_len;
	r.plans.plans_val = NULL;
	if (first)
		*first = (uint64_t)r.first;
	return err;
}

CK_EXPORT CUresult cuThingPaint_ptsz(CUevent hThing, CUcolour colour, float shade, const CUDA_MEMCPY3D *how, CUstreamAttrValue *before, unsigned int *coats)
{
	CUstream was = ck_default_stream_set(CU_STREAM_PER_THREAD);
	CUresult err = cuThingPaint(hThing, colour, shade, how, before, coats);

	ck_default_stream_set(was);
	return err;
}

CK_REFUSE(cuThingSing)

CK_REFUSE(cudbgThing)

