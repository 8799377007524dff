/* Made by tools/apigen.py from rpc/driver.api: change those, not this file. */
#include "cuda/types.h"
#include "gen/api.h"
#include "emu/core/call_gate.h"
#include "util/util.h"

CUstream ck_default_stream_set(CUstream stream);

#define CALL __attribute__((weak)) CK_EXPORT
#define BODY __attribute__((weak, visibility("hidden")))

#define REFUSE(name) \
	CUresult name(void); \
	CALL CUresult name(void) \
	{ return CUDA_ERROR_NOT_SUPPORTED; }

#define COUNTED(call) \
	{ \
		CUresult err; \
\
		ck_emu_call_gate_enter(); \
		err = call; \
		ck_emu_call_gate_leave(); \
		return err; \
	}

#define PER_THREAD(call) \
	{ \
		CUstream was = ck_default_stream_set(CU_STREAM_PER_THREAD); \
		CUresult err = call; \
\
		ck_default_stream_set(was); \
		return err; \
	}

BODY CUresult ck_emu_do_cuThingCreate(CUevent *phThing, unsigned int flags);
CALL CUresult cuThingCreate(CUevent *phThing, unsigned int flags)
{
	if (!ck_emu_do_cuThingCreate)
		return CUDA_ERROR_NOT_SUPPORTED;
	COUNTED(ck_emu_do_cuThingCreate(phThing, flags))
}

BODY CUresult ck_emu_do_cuThingDestroy(CUevent hThing);
CALL CUresult cuThingDestroy(CUevent hThing)
{
	if (!ck_emu_do_cuThingDestroy)
		return cuThingDestroy_v2(hThing);
	COUNTED(ck_emu_do_cuThingDestroy(hThing))
}

BODY CUresult ck_emu_do_cuThingDestroy_v2(CUevent hThing);
CALL CUresult cuThingDestroy_v2(CUevent hThing)
{
	if (!ck_emu_do_cuThingDestroy_v2)
		return CUDA_ERROR_NOT_SUPPORTED;
	COUNTED(ck_emu_do_cuThingDestroy_v2(hThing))
}

BODY CUresult ck_emu_do_cuThingGetColour(size_t *colour, CUdevice dev);
CALL CUresult cuThingGetColour(size_t *colour, CUdevice dev)
{
	if (!ck_emu_do_cuThingGetColour)
		return CUDA_ERROR_NOT_SUPPORTED;
	COUNTED(ck_emu_do_cuThingGetColour(colour, dev))
}

BODY CUresult ck_emu_do_cuThingGetHeat(int *heat, int place, CUfunction hfunc);
CALL CUresult cuThingGetHeat(int *heat, int place, CUfunction hfunc)
{
	if (!ck_emu_do_cuThingGetHeat)
		return CUDA_ERROR_NOT_SUPPORTED;
	COUNTED(ck_emu_do_cuThingGetHeat(heat, place, hfunc))
}

BODY CUresult ck_emu_do_cuThingSetHeat(CUfunction hfunc, int heat);
CALL CUresult cuThingSetHeat(CUfunction hfunc, int heat)
{
	if (!ck_emu_do_cuThingSetHeat)
		return CUDA_ERROR_NOT_SUPPORTED;
	COUNTED(ck_emu_do_cuThingSetHeat(hfunc, heat))
}

BODY CUresult ck_emu_do_cuThingPaint(CUevent hThing, CUcolour colour, float shade, const CUDA_MEMCPY3D *how, CUstreamAttrValue *before, unsigned int *coats);
CALL CUresult cuThingPaint(CUevent hThing, CUcolour colour, float shade, const CUDA_MEMCPY3D *how, CUstreamAttrValue *before, unsigned int *coats)
{
	if (!ck_emu_do_cuThingPaint)
		return CUDA_ERROR_NOT_SUPPORTED;
	COUNTED(ck_emu_do_cuThingPaint(hThing, colour, shade, how, before, coats))
}

BODY CUresult ck_emu_do_cuThingPlan(CUgraph *phPlan, CUmemoryPool hPool);
CALL CUresult cuThingPlan(CUgraph *phPlan, CUmemoryPool hPool)
{
	if (!ck_emu_do_cuThingPlan)
		return CUDA_ERROR_NOT_SUPPORTED;
	COUNTED(ck_emu_do_cuThingPlan(phPlan, hPool))
}

BODY CUresult ck_emu_do_cuThingPlanDestroy(CUgraph hPlan);
CALL CUresult cuThingPlanDestroy(CUgraph hPlan)
{
	if (!ck_emu_do_cuThingPlanDestroy)
		return CUDA_ERROR_NOT_SUPPORTED;
	COUNTED(ck_emu_do_cuThingPlanDestroy(hPlan))
}

BODY CUresult ck_emu_do_cuThingPlanOf(CUevent hThing, CUgraph *phPlan);
CALL CUresult cuThingPlanOf(CUevent hThing, CUgraph *phPlan)
{
	if (!ck_emu_do_cuThingPlanOf)
		return CUDA_ERROR_NOT_SUPPORTED;
	COUNTED(ck_emu_do_cuThingPlanOf(hThing, phPlan))
}

BODY CUresult ck_emu_do_cuThingMany(ids things, ids *plans, id *first);
CALL CUresult cuThingMany(ids things, ids *plans, id *first)
{
	if (!ck_emu_do_cuThingMany)
		return CUDA_ERROR_NOT_SUPPORTED;
	COUNTED(ck_emu_do_cuThingMany(things, plans, first))
}

BODY CUresult ck_emu_do_cuThingPaint_ptsz(CUevent hThing, CUcolour colour, float shade, const CUDA_MEMCPY3D *how, CUstreamAttrValue *before, unsigned int *coats);
CALL CUresult cuThingPaint_ptsz(CUevent hThing, CUcolour colour, float shade, const CUDA_MEMCPY3D *how, CUstreamAttrValue *before, unsigned int *coats)
{
	if (!ck_emu_do_cuThingPaint_ptsz)
		PER_THREAD(cuThingPaint(hThing, colour, shade, how, before, coats))
	COUNTED(ck_emu_do_cuThingPaint_ptsz(hThing, colour, shade, how, before, coats))
}

BODY CUresult ck_emu_do_cuThingCount(int *count);
CALL CUresult cuThingCount(int *count)
{
	if (!ck_emu_do_cuThingCount)
		return CUDA_ERROR_NOT_SUPPORTED;
	COUNTED(ck_emu_do_cuThingCount(count))
}

BODY CUresult ck_emu_do_cuThingCopy(CUdeviceptr dst, CUstream hStream);
CALL CUresult cuThingCopy(CUdeviceptr dst, CUstream hStream)
{
	if (!ck_emu_do_cuThingCopy)
		return CUDA_ERROR_NOT_SUPPORTED;
	COUNTED(ck_emu_do_cuThingCopy(dst, hStream))
}

REFUSE(cuThingSing)

REFUSE(cudbgThing)

