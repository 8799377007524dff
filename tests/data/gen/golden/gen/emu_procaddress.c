/* Made by tools/apigen.py from rpc/driver.api: change those, not this file. */
#include <stddef.h>

#include "libcuda/procaddress.h"

extern char cuThingCreate[];
extern char cuThingDestroy[];
extern char cuThingDestroy_v2[];
extern char cuThingGetColour[];
extern char cuThingGetHeat[];
extern char cuThingSetHeat[];
extern char cuThingPaint[];
extern char cuThingPlan[];
extern char cuThingPlanDestroy[];
extern char cuThingPlanOf[];
extern char cuThingMany[];
extern char cuThingPaint_ptsz[];
extern char cuThingCount[];
extern char cuThingCopy[];
extern char cuThingSing[];

const struct ck_entry ck_entries[] = {
	{ "cuThingCopy", 7000, false, cuThingCopy, NULL },
	{ "cuThingCount", 2000, false, cuThingCount, NULL },
	{ "cuThingCreate", 4000, false, cuThingCreate, NULL },
	{ "cuThingDestroy", 4010, false, cuThingDestroy_v2, NULL },
	{ "cuThingDestroy", 4000, false, cuThingDestroy, NULL },
	{ "cuThingGetColour", 5000, false, cuThingGetColour, NULL },
	{ "cuThingGetHeat", 5000, false, cuThingGetHeat, NULL },
	{ "cuThingMany", 8000, false, cuThingMany, NULL },
	{ "cuThingPaint", 7000, true, cuThingPaint_ptsz, NULL },
	{ "cuThingPaint", 6000, false, cuThingPaint, NULL },
	{ "cuThingPlan", 8000, false, cuThingPlan, NULL },
	{ "cuThingPlanDestroy", 8000, false, cuThingPlanDestroy, NULL },
	{ "cuThingPlanOf", 8000, false, cuThingPlanOf, NULL },
	{ "cuThingSetHeat", 5000, false, cuThingSetHeat, NULL },
	{ "cuThingSing", 11000, false, cuThingSing, NULL },
};

const unsigned int ck_entry_count = sizeof(ck_entries) / sizeof(ck_entries[0]);
