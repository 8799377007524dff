/*
 * libcuda/profiler.c - marks for a profiler: with none attached, as here, the driver only says yes.
 */
#include "gen/api.h"
#include "util/util.h"

static CUresult check_context(void)
{
	CUdevice device;

	return cuCtxGetDevice(&device); /* is there a context? */
}

CK_EXPORT CUresult cuProfilerStart(void)
{
	return check_context();
}

CK_EXPORT CUresult cuProfilerStop(void)
{
	return check_context();
}
