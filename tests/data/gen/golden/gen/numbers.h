/* Made by tools/apigen.py from rpc/driver.api: change those, not this file. */
#ifndef CK_GEN_NUMBERS_H
#define CK_GEN_NUMBERS_H

#define CK_PROC_put 10
#define CK_PROC_get 11
#define CK_PROC_cuThingCreate 100
#define CK_PROC_cuThingDestroy_v2 102
#define CK_PROC_cuThingGetColour 103
#define CK_PROC_cuThingPaint 104
#define CK_PROC_cuThingPlan 110
#define CK_PROC_cuThingPlanDestroy 111
#define CK_PROC_cuThingPlanOf 112
#define CK_PROC_cuThingMany 113
#define CK_PROC_cuThingGetHeat 114
#define CK_PROC_cuThingSetHeat 115
#define CK_PROC_END 116

#endif
