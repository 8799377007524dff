/* Made by tools/apigen.py from rpc/driver.api: change those, not this file. */
#ifndef CK_GEN_EMU_BODIES_H
#define CK_GEN_EMU_BODIES_H

#define cuThingCreate ck_emu_do_cuThingCreate
#define cuThingDestroy ck_emu_do_cuThingDestroy
#define cuThingDestroy_v2 ck_emu_do_cuThingDestroy_v2
#define cuThingGetColour ck_emu_do_cuThingGetColour
#define cuThingGetHeat ck_emu_do_cuThingGetHeat
#define cuThingSetHeat ck_emu_do_cuThingSetHeat
#define cuThingPaint ck_emu_do_cuThingPaint
#define cuThingPlan ck_emu_do_cuThingPlan
#define cuThingPlanDestroy ck_emu_do_cuThingPlanDestroy
#define cuThingPlanOf ck_emu_do_cuThingPlanOf
#define cuThingMany ck_emu_do_cuThingMany
#define cuThingPaint_ptsz ck_emu_do_cuThingPaint_ptsz
#define cuThingCount ck_emu_do_cuThingCount
#define cuThingCopy ck_emu_do_cuThingCopy

#endif
