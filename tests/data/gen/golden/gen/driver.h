/* Made by tools/apigen.py from rpc/driver.api: change those, not this file. */
#ifndef CK_GEN_DRIVER_H
#define CK_GEN_DRIVER_H

#include "cuda/types.h"

/* The driver library's functions; NULL where it has none. */
struct ck_driver {
	CUresult (*cuThingCreate)(CUevent *phThing, unsigned int flags);
	CUresult (*cuThingDestroy_v2)(CUevent hThing);
	CUresult (*cuThingGetColour)(size_t *colour, CUdevice dev);
	CUresult (*cuThingGetHeat)(int *heat, int place, CUfunction hfunc);
	CUresult (*cuThingSetHeat)(CUfunction hfunc, int heat);
	CUresult (*cuThingPaint)(CUevent hThing, CUcolour colour, float shade, const CUDA_MEMCPY3D *how, CUstreamAttrValue *before, unsigned int *coats);
	CUresult (*cuThingPlan)(CUgraph *phPlan, CUmemoryPool hPool);
	CUresult (*cuThingPlanDestroy)(CUgraph hPlan);
	CUresult (*cuThingPlanOf)(CUevent hThing, CUgraph *phPlan);
	CUresult (*cuThingMany)(ids things, ids *plans, id *first);
	CUresult (*cuThingCount)(int *count);
	CUresult (*cuThingCopy)(CUdeviceptr dst, CUstream hStream);
};

extern struct ck_driver ck_driver;

struct ck_driver_symbol {
	const char *name;
	void **slot;
};

extern const struct ck_driver_symbol ck_driver_symbols[];	/* ends with a NULL name */

#endif
