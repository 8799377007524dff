/* Made by tools/apigen.py from rpc/driver.api: change those, not this file. */
#ifndef CK_GEN_CLIENT_BODIES_H
#define CK_GEN_CLIENT_BODIES_H

#define cuThingCreate ckc_do_cuThingCreate
#define cuThingDestroy ckc_do_cuThingDestroy
#define cuThingDestroy_v2 ckc_do_cuThingDestroy_v2
#define cuThingGetColour ckc_do_cuThingGetColour
#define cuThingGetHeat ckc_do_cuThingGetHeat
#define cuThingSetHeat ckc_do_cuThingSetHeat
#define cuThingPaint ckc_do_cuThingPaint
#define cuThingPlan ckc_do_cuThingPlan
#define cuThingPlanDestroy ckc_do_cuThingPlanDestroy
#define cuThingPlanOf ckc_do_cuThingPlanOf
#define cuThingMany ckc_do_cuThingMany
#define cuThingPaint_ptsz ckc_do_cuThingPaint_ptsz
#define cuThingCount ckc_do_cuThingCount
#define cuThingCopy ckc_do_cuThingCopy

#endif
