/* Made by tools/apigen.py from rpc/driver.api: change those, not this file. */
#include "emu/emu.h"

#define VARIANT __attribute__((weak)) CK_EXPORT

VARIANT CUresult cuThingDestroy(CUevent hThing)
{
	return cuThingDestroy_v2(hThing);
}

VARIANT CUresult cuThingPaint_ptsz(CUevent hThing, CUcolour colour, float shade, const CUDA_MEMCPY3D *how, CUstreamAttrValue *before, unsigned int *coats)
{
	CUstream was = ck_default_stream_set(CU_STREAM_PER_THREAD);
	CUresult err = cuThingPaint(hThing, colour, shade, how, before, coats);

	ck_default_stream_set(was);
	return err;
}

