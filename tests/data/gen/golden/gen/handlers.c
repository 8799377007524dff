/* Made by tools/apigen.py from rpc/driver.api: change those, not this file. */
#include <string.h>

#include "gen/driver.h"
#include "gen/handlers.h"
#include "server/session/handles.h"

struct ck_driver ck_driver;

const struct ck_driver_symbol ck_driver_symbols[] = {
	{ "cuThingCreate", (void **)&ck_driver.cuThingCreate },
	{ "cuThingDestroy_v2", (void **)&ck_driver.cuThingDestroy_v2 },
	{ "cuThingGetColour", (void **)&ck_driver.cuThingGetColour },
	{ "cuThingGetHeat", (void **)&ck_driver.cuThingGetHeat },
	{ "cuThingSetHeat", (void **)&ck_driver.cuThingSetHeat },
	{ "cuThingPaint", (void **)&ck_driver.cuThingPaint },
	{ "cuThingPlan", (void **)&ck_driver.cuThingPlan },
	{ "cuThingPlanDestroy", (void **)&ck_driver.cuThingPlanDestroy },
	{ "cuThingPlanOf", (void **)&ck_driver.cuThingPlanOf },
	{ "cuThingMany", (void **)&ck_driver.cuThingMany },
	{ "cuThingCount", (void **)&ck_driver.cuThingCount },
	{ "cuThingCopy", (void **)&ck_driver.cuThingCopy },
	{ 0 }
};

static CUresult ck_serve_cuThingCreate(struct cks_request *q, cuThingCreate_args *a, void *res)
{
	CUevent phThing = 0;
	CUresult err;

	(void)q;
	(void)a;
	(void)res;
	if (!ck_driver.cuThingCreate)
		return CUDA_ERROR_NOT_SUPPORTED;
	err = ck_driver.cuThingCreate(&phThing, (unsigned int)a->flags);
	if (!err)
		err = cks_event_put(q, a->phThing, phThing);
	return err;
}

static CUresult ck_serve_cuThingDestroy_v2(struct cks_request *q, cuThingDestroy_v2_args *a, void *res)
{
	CUevent hThing;

	(void)q;
	(void)a;
	(void)res;
	if (!ck_driver.cuThingDestroy_v2)
		return CUDA_ERROR_NOT_SUPPORTED;
	if (!cks_event_find(q, a->hThing, &hThing))
		return CUDA_ERROR_INVALID_HANDLE;
	cks_handle_remove(q, a->hThing);
	return ck_driver.cuThingDestroy_v2(hThing);
}

static CUresult ck_serve_cuThingGetColour(struct cks_request *q, cuThingGetColour_args *a, cuThingGetColour_res *res)
{
	size_t colour = 0;
	CUresult err;

	(void)q;
	(void)a;
	(void)res;
	if (!ck_driver.cuThingGetColour)
		return CUDA_ERROR_NOT_SUPPORTED;
	err = ck_driver.cuThingGetColour(&colour, (CUdevice)a->dev);
	res->colour = colour;
	return err;
}

static CUresult ck_serve_cuThingGetHeat(struct cks_request *q, cuThingGetHeat_args *a, cuThingGetHeat_res *res)
{
	int heat = 0;
	CUfunction hfunc;
	CUresult err;

	(void)q;
	(void)a;
	(void)res;
	if (!ck_driver.cuThingGetHeat)
		return CUDA_ERROR_NOT_SUPPORTED;
	if (!cks_function_find(q, a->hfunc, &hfunc))
		return CUDA_ERROR_INVALID_HANDLE;
	err = ck_driver.cuThingGetHeat(&heat, (int)a->place, hfunc);
	res->heat = heat;
	return err;
}

static CUresult ck_serve_cuThingSetHeat(struct cks_request *q, cuThingSetHeat_args *a, cuThingSetHeat_res *res)
{
	CUfunction hfunc;

	(void)q;
	(void)a;
	(void)res;
	if (!ck_driver.cuThingSetHeat)
		return CUDA_ERROR_NOT_SUPPORTED;
	if (!cks_function_find(q, a->hfunc, &hfunc))
		return CUDA_ERROR_INVALID_HANDLE;
	return ck_driver.cuThingSetHeat(hfunc, (int)a->heat);
}

static CUresult ck_serve_cuThingPaint(struct cks_request *q, cuThingPaint_args *a, cuThingPaint_res *res)
{
	CUevent hThing;
	CUDA_MEMCPY3D how;
	CUstreamAttrValue before;
	unsigned int coats = 0;
	CUresult err;

	(void)q;
	(void)a;
	(void)res;
	if (!ck_driver.cuThingPaint)
		return CUDA_ERROR_NOT_SUPPORTED;
	if (!cks_event_find(q, a->hThing, &hThing))
		return CUDA_ERROR_INVALID_HANDLE;
	_Static_assert(sizeof(how) == sizeof(a->how), "it travels as its bytes");
	memcpy(&how, a->how, sizeof(how));
	_Static_assert(sizeof(before) == sizeof(res->before), "it travels as its bytes");
	memset(&before, 0, sizeof(before));
	err = ck_driver.cuThingPaint(hThing, (CUcolour)a->colour, (float)a->shade, &how, &before, &coats);
	memcpy(res->before, &before, sizeof(before));
	res->coats = coats;
	return err;
}

static CUresult ck_serve_cuThingPlan(struct cks_request *q, cuThingPlan_args *a, cuThingPlan_res *res)
{
	CUgraph phPlan = 0;
	CUmemoryPool hPool;
	CUresult err;

	(void)q;
	(void)a;
	(void)res;
	if (!ck_driver.cuThingPlan)
		return CUDA_ERROR_NOT_SUPPORTED;
	if (!cks_pool_find(q, a->hPool, &hPool))
		return CUDA_ERROR_INVALID_HANDLE;
	err = ck_driver.cuThingPlan(&phPlan, hPool);
	if (!err)
		err = cks_graph_put(q, a->phPlan, phPlan);
	return err;
}

static CUresult ck_serve_cuThingPlanDestroy(struct cks_request *q, cuThingPlanDestroy_args *a, cuThingPlanDestroy_res *res)
{
	CUgraph hPlan;
	CUresult err;

	(void)q;
	(void)a;
	(void)res;
	if (!ck_driver.cuThingPlanDestroy)
		return CUDA_ERROR_NOT_SUPPORTED;
	if (!cks_graph_find(q, a->hPlan, &hPlan))
		return CUDA_ERROR_INVALID_HANDLE;
	err = ck_driver.cuThingPlanDestroy(hPlan);
	if (!err)
		cks_handle_remove(q, a->hPlan);
	return err;
}

static CUresult ck_serve_cuThingPlanOf(struct cks_request *q, cuThingPlanOf_args *a, cuThingPlanOf_res *res)
{
	CUevent hThing;
	CUgraph phPlan = 0;
	CUresult err;

	(void)q;
	(void)a;
	(void)res;
	if (!ck_driver.cuThingPlanOf)
		return CUDA_ERROR_NOT_SUPPORTED;
	if (!cks_event_find(q, a->hThing, &hThing))
		return CUDA_ERROR_INVALID_HANDLE;
	err = ck_driver.cuThingPlanOf(hThing, &phPlan);
	if (!err)
		err = cks_handle_name(q, CK_KIND_GRAPH, (void *)(uintptr_t)phPlan, 0, &res->phPlan);
	return err;
}

static CUresult ck_serve_cuThingMany(struct cks_request *q, cuThingMany_args *a, cuThingMany_res *res)
{
	ids plans = 0;
	id first = 0;
	CUresult err;

	(void)q;
	(void)a;
	(void)res;
	if (!ck_driver.cuThingMany)
		return CUDA_ERROR_NOT_SUPPORTED;
	err = ck_driver.cuThingMany((ids)a->things, &plans, &first);
	res->plans = plans;
	res->first = first;
	return err;
}

const ck_handler ck_handlers[CK_PROC_END] = {
	[CK_PROC_put] = (ck_handler)ck_serve_put,
	[CK_PROC_get] = (ck_handler)ck_serve_get,
	[CK_PROC_cuThingCreate] = (ck_handler)ck_serve_cuThingCreate,
	[CK_PROC_cuThingDestroy_v2] = (ck_handler)ck_serve_cuThingDestroy_v2,
	[CK_PROC_cuThingGetColour] = (ck_handler)ck_serve_cuThingGetColour,
	[CK_PROC_cuThingPaint] = (ck_handler)ck_serve_cuThingPaint,
	[CK_PROC_cuThingPlan] = (ck_handler)ck_serve_cuThingPlan,
	[CK_PROC_cuThingPlanDestroy] = (ck_handler)ck_serve_cuThingPlanDestroy,
	[CK_PROC_cuThingPlanOf] = (ck_handler)ck_serve_cuThingPlanOf,
	[CK_PROC_cuThingMany] = (ck_handler)ck_serve_cuThingMany,
	[CK_PROC_cuThingGetHeat] = (ck_handler)ck_serve_cuThingGetHeat,
	[CK_PROC_cuThingSetHeat] = (ck_handler)ck_serve_cuThingSetHeat,
};
