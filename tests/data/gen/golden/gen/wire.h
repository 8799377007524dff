/* Made by tools/apigen.py from rpc/driver.api: change those, not this file. */
#ifndef CK_GEN_WIRE_H
#define CK_GEN_WIRE_H

#include "cricket.h"
#include "cuda/types.h"
#include "gen/numbers.h"

struct ck_sink;

CUresult ck_wire_ck_put(uint64_t ctx, CUdeviceptr dst, const void *data, size_t data_size);
CUresult ck_wire_ck_get(uint64_t ctx, uint64_t thing, const unsigned char *hash, const char *name, const void *options, size_t options_size, void **text, size_t *text_size, struct ck_sink *data);
CUresult ck_wire_cuThingCreate(uint64_t ctx, uint64_t phThing, unsigned int flags);
CUresult ck_wire_cuThingDestroy_v2(uint64_t ctx, uint64_t hThing);
CUresult ck_wire_cuThingGetColour(uint64_t ctx, size_t *colour, int dev);
CUresult ck_wire_cuThingPaint(uint64_t ctx, uint64_t hThing, CUcolour colour, float shade, const CUDA_MEMCPY3D *how, CUstreamAttrValue *before, unsigned int *coats);

#endif
