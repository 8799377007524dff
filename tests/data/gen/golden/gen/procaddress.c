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
extern char ck_counted_cuThingCreate[];
extern char ck_counted_cuThingDestroy[];
extern char ck_counted_cuThingDestroy_v2[];
extern char ck_counted_cuThingGetColour[];
extern char ck_counted_cuThingGetHeat[];
extern char ck_counted_cuThingSetHeat[];
extern char ck_counted_cuThingPaint[];
extern char ck_counted_cuThingPlan[];
extern char ck_counted_cuThingPlanDestroy[];
extern char ck_counted_cuThingPlanOf[];
extern char ck_counted_cuThingMany[];
extern char ck_counted_cuThingPaint_ptsz[];
extern char ck_counted_cuThingCount[];
extern char ck_counted_cuThingCopy[];

const struct ck_entry ck_entries[] = {
	{ "cuThingCopy", 7000, false, cuThingCopy, ck_counted_cuThingCopy },
	{ "cuThingCount", 2000, false, cuThingCount, ck_counted_cuThingCount },
	{ "cuThingCreate", 4000, false, cuThingCreate, ck_counted_cuThingCreate },
	{ "cuThingDestroy", 4010, false, cuThingDestroy_v2, ck_counted_cuThingDestroy_v2 },
	{ "cuThingDestroy", 4000, false, cuThingDestroy, ck_counted_cuThingDestroy },
	{ "cuThingGetColour", 5000, false, cuThingGetColour, ck_counted_cuThingGetColour },
	{ "cuThingGetHeat", 5000, false, cuThingGetHeat, ck_counted_cuThingGetHeat },
	{ "cuThingMany", 8000, false, cuThingMany, ck_counted_cuThingMany },
	{ "cuThingPaint", 7000, true, cuThingPaint_ptsz, ck_counted_cuThingPaint_ptsz },
	{ "cuThingPaint", 6000, false, cuThingPaint, ck_counted_cuThingPaint },
	{ "cuThingPlan", 8000, false, cuThingPlan, ck_counted_cuThingPlan },
	{ "cuThingPlanDestroy", 8000, false, cuThingPlanDestroy, ck_counted_cuThingPlanDestroy },
	{ "cuThingPlanOf", 8000, false, cuThingPlanOf, ck_counted_cuThingPlanOf },
	{ "cuThingSetHeat", 5000, false, cuThingSetHeat, ck_counted_cuThingSetHeat },
	{ "cuThingSing", 11000, false, cuThingSing, NULL },
};

const unsigned int ck_entry_count = sizeof(ck_entries) / sizeof(ck_entries[0]);
