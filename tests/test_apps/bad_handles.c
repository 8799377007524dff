/*
 * tests/test_apps/bad_handles.c - handles that are none, or no longer any. A real driver may crash
 * on them; Cricket promises CUDA_ERROR_INVALID_HANDLE. For the remote modes alone.
 */
#include <stdio.h>
#include <string.h>

#include "driver_api.h"

static int failures;

static void expect_invalid(const char *what, CUresult err)
{
	const char *name = "?";

	cu.cuGetErrorName(err, &name);
	printf("%s: %s\n", what, name);
	if (err != CUDA_ERROR_INVALID_HANDLE)
		failures++;
}

/* Tries what the calls for each kind of object say to HANDLE, which is none of them. */
static void try_all(const char *what, void *handle)
{
	CUdeviceptr var;
	CUfunction f;

	printf("%s\n", what);
	expect_invalid("  cuStreamSynchronize", cu.cuStreamSynchronize(handle));
	expect_invalid("  cuStreamQuery", cu.cuStreamQuery(handle));
	expect_invalid("  cuStreamDestroy", cu.cuStreamDestroy_v2(handle));
	expect_invalid("  cuEventQuery", cu.cuEventQuery(handle));
	expect_invalid("  cuEventRecord", cu.cuEventRecord(handle, NULL));
	expect_invalid("  cuEventDestroy", cu.cuEventDestroy_v2(handle));
	expect_invalid("  cuModuleGetFunction", cu.cuModuleGetFunction(&f, handle, "f"));
	expect_invalid("  cuModuleGetGlobal", cu.cuModuleGetGlobal_v2(&var, NULL, handle, "v"));
	expect_invalid("  cuModuleUnload", cu.cuModuleUnload(handle));
	expect_invalid("  cuLaunchKernel",
		       cu.cuLaunchKernel(handle, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL));
}

int main(void)
{
	static char zeros[4096], noise[4096];
	CUcontext ctx;
	CUdevice dev;
	CUstream stream;
	CUevent event;

	memset(noise, 0xa7, sizeof(noise));
	if (driver_open() < 0 || cu.cuInit(0) != 0 || cu.cuDeviceGet(&dev, 0) != 0 ||
	    cu.cuDevicePrimaryCtxRetain(&ctx, dev) != 0 || cu.cuCtxSetCurrent(ctx) != 0 ||
	    cu.cuStreamCreate(&stream, 1) != 0 || cu.cuEventCreate(&event, 0) != 0) {
		fprintf(stderr, "bad_handles: the driver does not start\n");
		return 1;
	}
	try_all("zeros", zeros);
	try_all("noise", noise);

	printf("each other's\n");
	expect_invalid("  cuStreamQuery", cu.cuStreamQuery((CUstream)event));
	expect_invalid("  cuEventQuery", cu.cuEventQuery((CUevent)stream));
	expect_invalid("  cuModuleUnload", cu.cuModuleUnload((CUmodule)stream));

	printf("destroyed\n");
	if (cu.cuStreamDestroy_v2(stream) != 0 || cu.cuEventDestroy_v2(event) != 0)
		return 1;
	expect_invalid("  cuStreamSynchronize", cu.cuStreamSynchronize(stream));
	expect_invalid("  cuEventQuery", cu.cuEventQuery(event));
	if (cu.cuCtxSynchronize() != 0)
		failures++;
	printf("%d not as promised\n", failures);
	return failures ? 1 : 0;
}
