/* Made by tools/apigen.py from rpc/driver.api: change those, not this file. */
#include "cuda/types.h"

#define REFUSE(name) \
	CUresult name(void); \
	__attribute__((weak, visibility("default"))) CUresult name(void) \
	{ return CUDA_ERROR_NOT_SUPPORTED; }

REFUSE(cuThingCreate)
REFUSE(cuThingDestroy_v2)
REFUSE(cuThingGetColour)
REFUSE(cuThingPaint)
REFUSE(cuThingPlan)
REFUSE(cuThingPlanDestroy)
REFUSE(cuThingPlanOf)
REFUSE(cuThingMany)
REFUSE(cuThingCount)
REFUSE(cuThingCopy)
REFUSE(cuThingSing)
REFUSE(cudbgThing)
