/* Made by tools/apigen.py from rpc/driver.api: change those, not this file. */
#ifndef CK_GEN_WIRE_H
#define CK_GEN_WIRE_H

#include "cricket.h"
#include "cuda/types.h"
#include "gen/numbers.h"

struct ckc_sink;

CUresult ck_wire_put(uint64_t ctx, CUdeviceptr dst, const void *data, size_t data_size);
CUresult ck_wire_get(ck_get_args *a, ck_get_res *r, struct ckc_sink *data);
CUresult ck_wire_cuThingCreate(uint64_t ctx, uint64_t phThing, unsigned int flags);
CUresult ck_wire_cuThingDestroy_v2(uint64_t ctx, uint64_t hThing);
CUresult ck_wire_cuThingGetColour(uint64_t ctx, size_t *colour, int dev);
CUresult ck_wire_cuThingGetHeat(uint64_t ctx, int *heat, int place, uint64_t hfunc);
CUresult ck_wire_cuThingSetHeat(uint64_t ctx, uint64_t hfunc, int heat);
CUresult ck_wire_cuThingPaint(uint64_t ctx, uint64_t hThing, CUcolour colour, float shade, const CUDA_MEMCPY3D *how, CUstreamAttrValue *before, unsigned int *coats);
CUresult ck_wire_cuThingPlan(uint64_t ctx, uint64_t phPlan, uint64_t hPool);
CUresult ck_wire_cuThingPlanDestroy(uint64_t ctx, uint64_t hPlan);
CUresult ck_wire_cuThingPlanOf(uint64_t ctx, uint64_t hThing, uint64_t *phPlan);
CUresult ck_wire_cuThingMany(uint64_t ctx, const uint64_t *things, size_t things_count, uint64_t **plans, size_t *plans_count, uint64_t *first);

#endif
