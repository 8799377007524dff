/* Made by tools/apigen.py from rpc/driver.api: change those, not this file. */
#include "client/wire/stats.h"
#include "gen/api.h"

const char *const ck_stats_names[] = {
	"cuThingCreate",
	"cuThingDestroy",
	"cuThingDestroy_v2",
	"cuThingGetColour",
	"cuThingPaint",
	"cuThingPlan",
	"cuThingPlanDestroy",
	"cuThingPlanOf",
	"cuThingMany",
	"cuThingPaint_ptsz",
	"cuThingCount",
	"cuThingCopy",
};

const unsigned int ck_stats_name_count = 12;

struct ck_stats_row ck_stats_rows[12];

CUresult ck_counted_cuThingCreate(CUevent *phThing, unsigned int flags)
{
	struct ck_stats_call call;
	CUresult err;

	ck_stats_begin(&call, 0);
	err = cuThingCreate(phThing, flags);
	ck_stats_end(&call);
	return err;
}

CUresult ck_counted_cuThingDestroy(CUevent hThing)
{
	struct ck_stats_call call;
	CUresult err;

	ck_stats_begin(&call, 1);
	err = cuThingDestroy(hThing);
	ck_stats_end(&call);
	return err;
}

CUresult ck_counted_cuThingDestroy_v2(CUevent hThing)
{
	struct ck_stats_call call;
	CUresult err;

	ck_stats_begin(&call, 2);
	err = cuThingDestroy_v2(hThing);
	ck_stats_end(&call);
	return err;
}

CUresult ck_counted_cuThingGetColour(size_t *colour, CUdevice dev)
{
	struct ck_stats_call call;
	CUresult err;

	ck_stats_begin(&call, 3);
	err = cuThingGetColour(colour, dev);
	ck_stats_end(&call);
	return err;
}

CUresult ck_counted_cuThingPaint(CUevent hThing, CUcolour colour, float shade, const CUDA_MEMCPY3D *how, CUstreamAttrValue *before, unsigned int *coats)
{
	struct ck_stats_call call;
	CUresult err;

	ck_stats_begin(&call, 4);
	err = cuThingPaint(hThing, colour, shade, how, before, coats);
	ck_stats_end(&call);
	return err;
}

CUresult ck_counted_cuThingPlan(CUgraph *phPlan, CUmemoryPool hPool)
{
	struct ck_stats_call call;
	CUresult err;

	ck_stats_begin(&call, 5);
	err = cuThingPlan(phPlan, hPool);
	ck_stats_end(&call);
	return err;
}

CUresult ck_counted_cuThingPlanDestroy(CUgraph hPlan)
{
	struct ck_stats_call call;
	CUresult err;

	ck_stats_begin(&call, 6);
	err = cuThingPlanDestroy(hPlan);
	ck_stats_end(&call);
	return err;
}

CUresult ck_counted_cuThingPlanOf(CUevent hThing, CUgraph *phPlan)
{
	struct ck_stats_call call;
	CUresult err;

	ck_stats_begin(&call, 7);
	err = cuThingPlanOf(hThing, phPlan);
	ck_stats_end(&call);
	return err;
}

CUresult ck_counted_cuThingMany(ids things, ids *plans, id *first)
{
	struct ck_stats_call call;
	CUresult err;

	ck_stats_begin(&call, 8);
	err = cuThingMany(things, plans, first);
	ck_stats_end(&call);
	return err;
}

CUresult ck_counted_cuThingPaint_ptsz(CUevent hThing, CUcolour colour, float shade, const CUDA_MEMCPY3D *how, CUstreamAttrValue *before, unsigned int *coats)
{
	struct ck_stats_call call;
	CUresult err;

	ck_stats_begin(&call, 9);
	err = cuThingPaint_ptsz(hThing, colour, shade, how, before, coats);
	ck_stats_end(&call);
	return err;
}

CUresult ck_counted_cuThingCount(int *count)
{
	struct ck_stats_call call;
	CUresult err;

	ck_stats_begin(&call, 10);
	err = cuThingCount(count);
	ck_stats_end(&call);
	return err;
}

CUresult ck_counted_cuThingCopy(CUdeviceptr dst, CUstream hStream)
{
	struct ck_stats_call call;
	CUresult err;

	ck_stats_begin(&call, 11);
	err = cuThingCopy(dst, hStream);
	ck_stats_end(&call);
	return err;
}

