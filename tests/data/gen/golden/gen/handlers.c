/* Made by tools/apigen.py from rpc/driver.api: change those, not this file. */
#include <string.h>

#include "gen/driver.h"
#include "gen/handlers.h"
#include "server/handles.h"

struct ck_driver ck_driver;

const struct ck_driver_symbol ck_driver_symbols[] = {
	{ "cuThingCreate", (void **)&ck_driver.cuThingCreate },
	{ "cuThingDestroy_v2", (void **)&ck_driver.cuThingDestroy_v2 },
	{ "cuThingGetColour", (void **)&ck_driver.cuThingGetColour },
	{ "cuThingPaint", (void **)&ck_driver.cuThingPaint },
	{ "cuThingCount", (void **)&ck_driver.cuThingCount },
	{ "cuThingCopy", (void **)&ck_driver.cuThingCopy },
	{ 0 }
};

static CUresult ck_serve_cuThingCreate(struct ck_request *q, cuThingCreate_args *a, void *res)
{
	CUevent phThing = NULL;
	CUresult err;

	(void)q;
	(void)a;
	(void)res;
	if (!ck_driver.cuThingCreate)
		return CUDA_ERROR_NOT_SUPPORTED;
	err = ck_driver.cuThingCreate(&phThing, (unsigned int)a->flags);
	if (!err)
		err = ck_event_put(q, a->phThing, phThing);
	return err;
}

static CUresult ck_serve_cuThingDestroy_v2(struct ck_request *q, cuThingDestroy_v2_args *a, void *res)
{
	CUevent hThing;

	(void)q;
	(void)a;
	(void)res;
	if (!ck_driver.cuThingDestroy_v2)
		return CUDA_ERROR_NOT_SUPPORTED;
	if (!ck_event_find(q, a->hThing, &hThing))
		return CUDA_ERROR_INVALID_HANDLE;
	ck_handle_remove(q, a->hThing);
	return ck_driver.cuThingDestroy_v2(hThing);
}

static CUresult ck_serve_cuThingGetColour(struct ck_request *q, cuThingGetColour_args *a, cuThingGetColour_res *res)
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

static CUresult ck_serve_cuThingPaint(struct ck_request *q, cuThingPaint_args *a, cuThingPaint_res *res)
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
	if (!ck_event_find(q, a->hThing, &hThing))
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

const ck_handler ck_handlers[CK_PROC_END] = {
	[CK_PROC_ck_put] = (ck_handler)ck_serve_ck_put,
	[CK_PROC_ck_get] = (ck_handler)ck_serve_ck_get,
	[CK_PROC_cuThingCreate] = (ck_handler)ck_serve_cuThingCreate,
	[CK_PROC_cuThingDestroy_v2] = (ck_handler)ck_serve_cuThingDestroy_v2,
	[CK_PROC_cuThingGetColour] = (ck_handler)ck_serve_cuThingGetColour,
	[CK_PROC_cuThingPaint] = (ck_handler)ck_serve_cuThingPaint,
};
