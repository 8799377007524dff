/* Made by tools/apigen.py from rpc/driver.api: change those, not this file. */
#include "client/procaddress.h"

extern char cuThingCreate[];
extern char cuThingDestroy[];
extern char cuThingDestroy_v2[];
extern char cuThingGetColour[];
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
	{ "cuThingCopy", 7000, false, cuThingCopy },
	{ "cuThingCount", 2000, false, cuThingCount },
	{ "cuThingCreate", 4000, false, cuThingCreate },
	{ "cuThingDestroy", 4010, false, cuThingDestroy_v2 },
	{ "cuThingDestroy", 4000, false, cuThingDestroy },
	{ "cuThingGetColour", 5000, false, cuThingGetColour },
	{ "cuThingMany", 8000, false, cuThingMany },
	{ "cuThingPaint", 7000, true, cuThingPaint_ptsz },
	{ "cuThingPaint", 6000, false, cuThingPaint },
	{ "cuThingPlan", 8000, false, cuThingPlan },
	{ "cuThingPlanDestroy", 8000, false, cuThingPlanDestroy },
	{ "cuThingPlanOf", 8000, false, cuThingPlanOf },
	{ "cuThingSing", 11000, false, cuThingSing },
};

const unsigned int ck_entry_count = sizeof(ck_entries) / sizeof(ck_entries[0]);
