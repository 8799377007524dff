/* Made by tools/apigen.py from rpc/driver.api: change those, not this file. */
#include <stddef.h>

#include "rpc/proc.h"
#include "cricket.h"

static const struct ck_field ck_put_in[] = {
	{ "dst", CK_FIELD_POINTER, offsetof(ck_put_args, dst) },
	{ "data", CK_FIELD_BULK, offsetof(ck_put_args, data_length) },
	{ 0 }
};
static const struct ck_field ck_get_in[] = {
	{ "thing", CK_FIELD_ID, offsetof(ck_get_args, thing) },
	{ "hash", CK_FIELD_HASH, offsetof(ck_get_args, hash) },
	{ "name", CK_FIELD_STRING, offsetof(ck_get_args, name) },
	{ "options", CK_FIELD_BYTES, offsetof(ck_get_args, options) },
	{ 0 }
};
static const struct ck_field ck_get_out[] = {
	{ "text", CK_FIELD_BYTES, offsetof(ck_get_res, text) },
	{ "data", CK_FIELD_BULK, offsetof(ck_get_res, data_length) },
	{ 0 }
};
static const struct ck_field cuThingCreate_in[] = {
	{ "phThing", CK_FIELD_ID, offsetof(cuThingCreate_args, phThing) },
	{ "flags", CK_FIELD_UINT, offsetof(cuThingCreate_args, flags) },
	{ 0 }
};
static const struct ck_field cuThingDestroy_v2_in[] = {
	{ "hThing", CK_FIELD_ID, offsetof(cuThingDestroy_v2_args, hThing) },
	{ 0 }
};
static const struct ck_field cuThingGetColour_in[] = {
	{ "dev", CK_FIELD_INT, offsetof(cuThingGetColour_args, dev) },
	{ 0 }
};
static const struct ck_field cuThingGetColour_out[] = {
	{ "colour", CK_FIELD_U64, offsetof(cuThingGetColour_res, colour) },
	{ 0 }
};
static const struct ck_field cuThingPaint_in[] = {
	{ "hThing", CK_FIELD_ID, offsetof(cuThingPaint_args, hThing) },
	{ "colour", CK_FIELD_INT, offsetof(cuThingPaint_args, colour) },
	{ "shade", CK_FIELD_FLOAT, offsetof(cuThingPaint_args, shade) },
	{ "how", CK_FIELD_POD, offsetof(cuThingPaint_args, how) },
	{ 0 }
};
static const struct ck_field cuThingPaint_out[] = {
	{ "before", CK_FIELD_POD, offsetof(cuThingPaint_res, before) },
	{ "coats", CK_FIELD_UINT, offsetof(cuThingPaint_res, coats) },
	{ 0 }
};
static const struct ck_field cuThingPlan_in[] = {
	{ "phPlan", CK_FIELD_ID, offsetof(cuThingPlan_args, phPlan) },
	{ "hPool", CK_FIELD_ID, offsetof(cuThingPlan_args, hPool) },
	{ 0 }
};
static const struct ck_field cuThingPlanDestroy_in[] = {
	{ "hPlan", CK_FIELD_ID, offsetof(cuThingPlanDestroy_args, hPlan) },
	{ 0 }
};
static const struct ck_field cuThingPlanOf_in[] = {
	{ "hThing", CK_FIELD_ID, offsetof(cuThingPlanOf_args, hThing) },
	{ 0 }
};
static const struct ck_field cuThingPlanOf_out[] = {
	{ "phPlan", CK_FIELD_ID, offsetof(cuThingPlanOf_res, phPlan) },
	{ 0 }
};
static const struct ck_field cuThingMany_in[] = {
	{ "things", CK_FIELD_IDS, offsetof(cuThingMany_args, things) },
	{ 0 }
};
static const struct ck_field cuThingMany_out[] = {
	{ "plans", CK_FIELD_IDS, offsetof(cuThingMany_res, plans) },
	{ "first", CK_FIELD_ID, offsetof(cuThingMany_res, first) },
	{ 0 }
};
static const struct ck_field cuThingGetHeat_in[] = {
	{ "place", CK_FIELD_INT, offsetof(cuThingGetHeat_args, place) },
	{ "hfunc", CK_FIELD_ID, offsetof(cuThingGetHeat_args, hfunc) },
	{ 0 }
};
static const struct ck_field cuThingGetHeat_out[] = {
	{ "heat", CK_FIELD_INT, offsetof(cuThingGetHeat_res, heat) },
	{ 0 }
};
static const struct ck_field cuThingSetHeat_in[] = {
	{ "hfunc", CK_FIELD_ID, offsetof(cuThingSetHeat_args, hfunc) },
	{ "heat", CK_FIELD_INT, offsetof(cuThingSetHeat_args, heat) },
	{ 0 }
};

const struct ck_proc ck_procs[CK_PROC_END] = {
	[10] = { "ck_put", (xdrproc_t)xdr_ck_put_args, sizeof(ck_put_args), NULL, 0,
		.in = ck_put_in, .out = NULL, .one_way = true, .bulk_in = true },
	[11] = { "ck_get", (xdrproc_t)xdr_ck_get_args, sizeof(ck_get_args), (xdrproc_t)xdr_ck_get_res, sizeof(ck_get_res),
		.in = ck_get_in, .out = ck_get_out, .bulk_out = true, .noerr = true },
	[100] = { "cuThingCreate", (xdrproc_t)xdr_cuThingCreate_args, sizeof(cuThingCreate_args), NULL, 0,
		.in = cuThingCreate_in, .out = NULL, .one_way = true },
	[102] = { "cuThingDestroy_v2", (xdrproc_t)xdr_cuThingDestroy_v2_args, sizeof(cuThingDestroy_v2_args), NULL, 0,
		.in = cuThingDestroy_v2_in, .out = NULL, .one_way = true },
	[103] = { "cuThingGetColour", (xdrproc_t)xdr_cuThingGetColour_args, sizeof(cuThingGetColour_args), (xdrproc_t)xdr_cuThingGetColour_res, sizeof(cuThingGetColour_res),
		.in = cuThingGetColour_in, .out = cuThingGetColour_out },
	[104] = { "cuThingPaint", (xdrproc_t)xdr_cuThingPaint_args, sizeof(cuThingPaint_args), (xdrproc_t)xdr_cuThingPaint_res, sizeof(cuThingPaint_res),
		.in = cuThingPaint_in, .out = cuThingPaint_out },
	[110] = { "cuThingPlan", (xdrproc_t)xdr_cuThingPlan_args, sizeof(cuThingPlan_args), (xdrproc_t)xdr_cuThingPlan_res, sizeof(cuThingPlan_res),
		.in = cuThingPlan_in, .out = NULL },
	[111] = { "cuThingPlanDestroy", (xdrproc_t)xdr_cuThingPlanDestroy_args, sizeof(cuThingPlanDestroy_args), (xdrproc_t)xdr_cuThingPlanDestroy_res, sizeof(cuThingPlanDestroy_res),
		.in = cuThingPlanDestroy_in, .out = NULL, .drains = true },
	[112] = { "cuThingPlanOf", (xdrproc_t)xdr_cuThingPlanOf_args, sizeof(cuThingPlanOf_args), (xdrproc_t)xdr_cuThingPlanOf_res, sizeof(cuThingPlanOf_res),
		.in = cuThingPlanOf_in, .out = cuThingPlanOf_out },
	[113] = { "cuThingMany", (xdrproc_t)xdr_cuThingMany_args, sizeof(cuThingMany_args), (xdrproc_t)xdr_cuThingMany_res, sizeof(cuThingMany_res),
		.in = cuThingMany_in, .out = cuThingMany_out },
	[114] = { "cuThingGetHeat", (xdrproc_t)xdr_cuThingGetHeat_args, sizeof(cuThingGetHeat_args), (xdrproc_t)xdr_cuThingGetHeat_res, sizeof(cuThingGetHeat_res),
		.in = cuThingGetHeat_in, .out = cuThingGetHeat_out, .recall = true, .function = 3 },
	[115] = { "cuThingSetHeat", (xdrproc_t)xdr_cuThingSetHeat_args, sizeof(cuThingSetHeat_args), (xdrproc_t)xdr_cuThingSetHeat_res, sizeof(cuThingSetHeat_res),
		.in = cuThingSetHeat_in, .out = NULL, .loads = true, .recall = true, .function = 3 },
};
