/* Made by tools/apigen.py from rpc/driver.api: change those, not this file. */
#include "client/cupti/call_numbers.h"
#include "client/wire/profile.h"
#include "gen/api.h"
#include "util/util.h"

/* Weak: a function of libcuda/ comes first. */
#define CALL __attribute__((weak)) CK_EXPORT
#define BODY __attribute__((weak, visibility("hidden")))

BODY CUresult ckc_do_cuThingCreate(CUevent *phThing, unsigned int flags);
CALL CUresult cuThingCreate(CUevent *phThing, unsigned int flags)
{
	if (likely(!ckc_profile_watches()))
		return ckc_do_cuThingCreate(phThing, flags);

	struct {
		CUevent *phThing;
		unsigned int flags;
	} given = {phThing, flags};
	struct ckc_call call = {"cuThingCreate", CKC_CALL_cuThingCreate, &given, 0};

	ckc_profile_enter(&call);
	call.result = ckc_do_cuThingCreate(phThing, flags);
	ckc_profile_leave(&call);
	return call.result;
}

BODY CUresult ckc_do_cuThingDestroy(CUevent hThing);
CALL CUresult cuThingDestroy(CUevent hThing)
{
	if (likely(!ckc_profile_watches()))
		return ckc_do_cuThingDestroy(hThing);

	struct {
		CUevent hThing;
	} given = {hThing};
	struct ckc_call call = {"cuThingDestroy", CKC_CALL_cuThingDestroy, &given, 0};

	ckc_profile_enter(&call);
	call.result = ckc_do_cuThingDestroy(hThing);
	ckc_profile_leave(&call);
	return call.result;
}

BODY CUresult ckc_do_cuThingDestroy_v2(CUevent hThing);
CALL CUresult cuThingDestroy_v2(CUevent hThing)
{
	if (likely(!ckc_profile_watches()))
		return ckc_do_cuThingDestroy_v2(hThing);

	struct {
		CUevent hThing;
	} given = {hThing};
	struct ckc_call call = {"cuThingDestroy_v2", CKC_CALL_cuThingDestroy_v2, &given, 0};

	ckc_profile_enter(&call);
	call.result = ckc_do_cuThingDestroy_v2(hThing);
	ckc_profile_leave(&call);
	return call.result;
}

BODY CUresult ckc_do_cuThingGetColour(size_t *colour, CUdevice dev);
CALL CUresult cuThingGetColour(size_t *colour, CUdevice dev)
{
	if (likely(!ckc_profile_watches()))
		return ckc_do_cuThingGetColour(colour, dev);

	struct {
		size_t *colour;
		CUdevice dev;
	} given = {colour, dev};
	struct ckc_call call = {"cuThingGetColour", CKC_CALL_cuThingGetColour, &given, 0};

	ckc_profile_enter(&call);
	call.result = ckc_do_cuThingGetColour(colour, dev);
	ckc_profile_leave(&call);
	return call.result;
}

BODY CUresult ckc_do_cuThingGetHeat(int *heat, int place, CUfunction hfunc);
CALL CUresult cuThingGetHeat(int *heat, int place, CUfunction hfunc)
{
	if (likely(!ckc_profile_watches()))
		return ckc_do_cuThingGetHeat(heat, place, hfunc);

	struct {
		int *heat;
		int place;
		CUfunction hfunc;
	} given = {heat, place, hfunc};
	struct ckc_call call = {"cuThingGetHeat", CKC_CALL_cuThingGetHeat, &given, 0};

	ckc_profile_enter(&call);
	call.result = ckc_do_cuThingGetHeat(heat, place, hfunc);
	ckc_profile_leave(&call);
	return call.result;
}

BODY CUresult ckc_do_cuThingSetHeat(CUfunction hfunc, int heat);
CALL CUresult cuThingSetHeat(CUfunction hfunc, int heat)
{
	if (likely(!ckc_profile_watches()))
		return ckc_do_cuThingSetHeat(hfunc, heat);

	struct {
		CUfunction hfunc;
		int heat;
	} given = {hfunc, heat};
	struct ckc_call call = {"cuThingSetHeat", CKC_CALL_cuThingSetHeat, &given, 0};

	ckc_profile_enter(&call);
	call.result = ckc_do_cuThingSetHeat(hfunc, heat);
	ckc_profile_leave(&call);
	return call.result;
}

BODY CUresult ckc_do_cuThingPaint(CUevent hThing, CUcolour colour, float shade, const CUDA_MEMCPY3D *how, CUstreamAttrValue *before, unsigned int *coats);
CALL CUresult cuThingPaint(CUevent hThing, CUcolour colour, float shade, const CUDA_MEMCPY3D *how, CUstreamAttrValue *before, unsigned int *coats)
{
	if (likely(!ckc_profile_watches()))
		return ckc_do_cuThingPaint(hThing, colour, shade, how, before, coats);

	struct {
		CUevent hThing;
		CUcolour colour;
		float shade;
		const CUDA_MEMCPY3D *how;
		CUstreamAttrValue *before;
		unsigned int *coats;
	} given = {hThing, colour, shade, how, before, coats};
	struct ckc_call call = {"cuThingPaint", CKC_CALL_cuThingPaint, &given, 0};

	ckc_profile_enter(&call);
	call.result = ckc_do_cuThingPaint(hThing, colour, shade, how, before, coats);
	ckc_profile_leave(&call);
	return call.result;
}

BODY CUresult ckc_do_cuThingPlan(CUgraph *phPlan, CUmemoryPool hPool);
CALL CUresult cuThingPlan(CUgraph *phPlan, CUmemoryPool hPool)
{
	if (likely(!ckc_profile_watches()))
		return ckc_do_cuThingPlan(phPlan, hPool);

	struct {
		CUgraph *phPlan;
		CUmemoryPool hPool;
	} given = {phPlan, hPool};
	struct ckc_call call = {"cuThingPlan", CKC_CALL_cuThingPlan, &given, 0};

	ckc_profile_enter(&call);
	call.result = ckc_do_cuThingPlan(phPlan, hPool);
	ckc_profile_leave(&call);
	return call.result;
}

BODY CUresult ckc_do_cuThingPlanDestroy(CUgraph hPlan);
CALL CUresult cuThingPlanDestroy(CUgraph hPlan)
{
	if (likely(!ckc_profile_watches()))
		return ckc_do_cuThingPlanDestroy(hPlan);

	struct {
		CUgraph hPlan;
	} given = {hPlan};
	struct ckc_call call = {"cuThingPlanDestroy", CKC_CALL_cuThingPlanDestroy, &given, 0};

	ckc_profile_enter(&call);
	call.result = ckc_do_cuThingPlanDestroy(hPlan);
	ckc_profile_leave(&call);
	return call.result;
}

BODY CUresult ckc_do_cuThingPlanOf(CUevent hThing, CUgraph *phPlan);
CALL CUresult cuThingPlanOf(CUevent hThing, CUgraph *phPlan)
{
	if (likely(!ckc_profile_watches()))
		return ckc_do_cuThingPlanOf(hThing, phPlan);

	struct {
		CUevent hThing;
		CUgraph *phPlan;
	} given = {hThing, phPlan};
	struct ckc_call call = {"cuThingPlanOf", CKC_CALL_cuThingPlanOf, &given, 0};

	ckc_profile_enter(&call);
	call.result = ckc_do_cuThingPlanOf(hThing, phPlan);
	ckc_profile_leave(&call);
	return call.result;
}

BODY CUresult ckc_do_cuThingMany(ids things, ids *plans, id *first);
CALL CUresult cuThingMany(ids things, ids *plans, id *first)
{
	if (likely(!ckc_profile_watches()))
		return ckc_do_cuThingMany(things, plans, first);

	struct {
		ids things;
		ids *plans;
		id *first;
	} given = {things, plans, first};
	struct ckc_call call = {"cuThingMany", CKC_CALL_cuThingMany, &given, 0};

	ckc_profile_enter(&call);
	call.result = ckc_do_cuThingMany(things, plans, first);
	ckc_profile_leave(&call);
	return call.result;
}

BODY CUresult ckc_do_cuThingPaint_ptsz(CUevent hThing, CUcolour colour, float shade, const CUDA_MEMCPY3D *how, CUstreamAttrValue *before, unsigned int *coats);
CALL CUresult cuThingPaint_ptsz(CUevent hThing, CUcolour colour, float shade, const CUDA_MEMCPY3D *how, CUstreamAttrValue *before, unsigned int *coats)
{
	if (likely(!ckc_profile_watches()))
		return ckc_do_cuThingPaint_ptsz(hThing, colour, shade, how, before, coats);

	struct {
		CUevent hThing;
		CUcolour colour;
		float shade;
		const CUDA_MEMCPY3D *how;
		CUstreamAttrValue *before;
		unsigned int *coats;
	} given = {hThing, colour, shade, how, before, coats};
	struct ckc_call call = {"cuThingPaint_ptsz", CKC_CALL_cuThingPaint_ptsz, &given, 0};

	ckc_profile_enter(&call);
	call.result = ckc_do_cuThingPaint_ptsz(hThing, colour, shade, how, before, coats);
	ckc_profile_leave(&call);
	return call.result;
}

BODY CUresult ckc_do_cuThingCount(int *count);
CALL CUresult cuThingCount(int *count)
{
	if (likely(!ckc_profile_watches()))
		return ckc_do_cuThingCount(count);

	struct {
		int *count;
	} given = {count};
	struct ckc_call call = {"cuThingCount", CKC_CALL_cuThingCount, &given, 0};

	ckc_profile_enter(&call);
	call.result = ckc_do_cuThingCount(count);
	ckc_profile_leave(&call);
	return call.result;
}

BODY CUresult ckc_do_cuThingCopy(CUdeviceptr dst, CUstream hStream);
CALL CUresult cuThingCopy(CUdeviceptr dst, CUstream hStream)
{
	if (likely(!ckc_profile_watches()))
		return ckc_do_cuThingCopy(dst, hStream);

	struct {
		CUdeviceptr dst;
		CUstream hStream;
	} given = {dst, hStream};
	struct ckc_call call = {"cuThingCopy", CKC_CALL_cuThingCopy, &given, 0};

	ckc_profile_enter(&call);
	call.result = ckc_do_cuThingCopy(dst, hStream);
	ckc_profile_leave(&call);
	return call.result;
}

