/* Made by tools/apigen.py from rpc/driver.api: change those, not this file. */
#include "client/link/stats.h"
#include "gen/api.h"

const char *const ckc_stats_names[] = {
	"cuThingCreate",
	"cuThingDestroy",
	"cuThingDestroy_v2",
	"cuThingGetColour",
	"cuThingGetHeat",
	"cuThingSetHeat",
	"cuThingPaint",
	"cuThingPlan",
	"cuThingPlanDestroy",
	"cuThingPlanOf",
	"cuThingMany",
	"cuThingPaint_ptsz",
	"cuThingCount",
	"cuThingCopy",
};

const unsigned int ckc_stats_name_count = 14;

struct ckc_stats_row ckc_stats_rows[14];

CUresult ck_counted_cuThingCreate(CUevent *phThing, unsigned int flags)
{
	struct ckc_stats_call call;
	CUresult err;

	ckc_stats_begin(&call, 0);
	err = cuThingCreate(phThing, flags);
	ckc_stats_end(&call);
	return err;
}

CUresult ck_counted_cuThingDestroy(CUevent hThing)
{
	struct ckc_stats_call call;
	CUresult err;

	ckc_stats_begin(&call, 1);
	err = cuThingDestroy(hThing);
	ckc_stats_end(&call);
	return err;
}

CUresult ck_counted_cuThingDestroy_v2(CUevent hThing)
{
	struct ckc_stats_call call;
	CUresult err;

	ckc_stats_begin(&call, 2);
	err = cuThingDestroy_v2(hThing);
	ckc_stats_end(&call);
	return err;
}

CUresult ck_counted_cuThingGetColour(size_t *colour, CUdevice dev)
{
	struct ckc_stats_call call;
	CUresult err;

	ckc_stats_begin(&call, 3);
	err = cuThingGetColour(colour, dev);
	ckc_stats_end(&call);
	return err;
}

CUresult ck_counted_cuThingGetHeat(int *heat, int place, CUfunction hfunc)
{
	struct ckc_stats_call call;
	CUresult err;

	ckc_stats_begin(&call, 4);
	err = cuThingGetHeat(heat, place, hfunc);
	ckc_stats_end(&call);
	return err;
}

CUresult ck_counted_cuThingSetHeat(CUfunction hfunc, int heat)
{
	struct ckc_stats_call call;
	CUresult err;

	ckc_stats_begin(&call, 5);
	err = cuThingSetHeat(hfunc, heat);
	ckc_stats_end(&call);
	return err;
}

CUresult ck_counted_cuThingPaint(CUevent hThing, CUcolour colour, float shade, const CUDA_MEMCPY3D *how, CUstreamAttrValue *before, unsigned int *coats)
{
	struct ckc_stats_call call;
	CUresult err;

	ckc_stats_begin(&call, 6);
	err = cuThingPaint(hThing, colour, shade, how, before, coats);
	ckc_stats_end(&call);
	return err;
}

CUresult ck_counted_cuThingPlan(CUgraph *phPlan, CUmemoryPool hPool)
{
	struct ckc_stats_call call;
	CUresult err;

	ckc_stats_begin(&call, 7);
	err = cuThingPlan(phPlan, hPool);
	ckc_stats_end(&call);
	return err;
}

CUresult ck_counted_cuThingPlanDestroy(CUgraph hPlan)
{
	struct ckc_stats_call call;
	CUresult err;

	ckc_stats_begin(&call, 8);
	err = cuThingPlanDestroy(hPlan);
	ckc_stats_end(&call);
	return err;
}

CUresult ck_counted_cuThingPlanOf(CUevent hThing, CUgraph *phPlan)
{
	struct ckc_stats_call call;
	CUresult err;

	ckc_stats_begin(&call, 9);
	err = cuThingPlanOf(hThing, phPlan);
	ckc_stats_end(&call);
	return err;
}

CUresult ck_counted_cuThingMany(ids things, ids *plans, id *first)
{
	struct ckc_stats_call call;
	CUresult err;

	ckc_stats_begin(&call, 10);
	err = cuThingMany(things, plans, first);
	ckc_stats_end(&call);
	return err;
}

CUresult ck_counted_cuThingPaint_ptsz(CUevent hThing, CUcolour colour, float shade, const CUDA_MEMCPY3D *how, CUstreamAttrValue *before, unsigned int *coats)
{
	struct ckc_stats_call call;
	CUresult err;

	ckc_stats_begin(&call, 11);
	err = cuThingPaint_ptsz(hThing, colour, shade, how, before, coats);
	ckc_stats_end(&call);
	return err;
}

CUresult ck_counted_cuThingCount(int *count)
{
	struct ckc_stats_call call;
	CUresult err;

	ckc_stats_begin(&call, 12);
	err = cuThingCount(count);
	ckc_stats_end(&call);
	return err;
}

CUresult ck_counted_cuThingCopy(CUdeviceptr dst, CUstream hStream)
{
	struct ckc_stats_call call;
	CUresult err;

	ckc_stats_begin(&call, 13);
	err = cuThingCopy(dst, hStream);
	ckc_stats_end(&call);
	return err;
}

