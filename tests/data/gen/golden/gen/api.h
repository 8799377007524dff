/* Made by tools/apigen.py from rpc/driver.api: change those, not this file. */
#ifndef CK_GEN_API_H
#define CK_GEN_API_H

#include "cuda/types.h"

CUresult cuThingCreate(CUevent *phThing, unsigned int flags);
CUresult cuThingDestroy(CUevent hThing);
CUresult cuThingDestroy_v2(CUevent hThing);
CUresult cuThingGetColour(size_t *colour, CUdevice dev);
CUresult cuThingGetHeat(int *heat, int place, CUfunction hfunc);
CUresult cuThingSetHeat(CUfunction hfunc, int heat);
CUresult cuThingPaint(CUevent hThing, CUcolour colour, float shade, const CUDA_MEMCPY3D *how, CUstreamAttrValue *before, unsigned int *coats);
CUresult cuThingPlan(CUgraph *phPlan, CUmemoryPool hPool);
CUresult cuThingPlanDestroy(CUgraph hPlan);
CUresult cuThingPlanOf(CUevent hThing, CUgraph *phPlan);
CUresult cuThingMany(ids things, ids *plans, id *first);
CUresult cuThingPaint_ptsz(CUevent hThing, CUcolour colour, float shade, const CUDA_MEMCPY3D *how, CUstreamAttrValue *before, unsigned int *coats);
CUresult cuThingCount(int *count);
CUresult cuThingCopy(CUdeviceptr dst, CUstream hStream);

#endif
