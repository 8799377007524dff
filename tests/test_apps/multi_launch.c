/*
 * tests/test_apps/multi_launch.c - one cooperative launch on all devices: what it computes, what it
 * waits for, what is refused.
 *
 * usage: multi_launch [strict] [answers]
 *
 * "strict" also makes the calls that an H200's driver answers otherwise, or does not return from.
 * "answers" prints what each call answers and continues after an unexpected answer:
 * `bench/gpu.sh differences` puts the answers of a driver and of Cricket side by side.
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cuda/types.h"

#define MORE_DRIVER_CALLS(X)                                                                       \
	X(cuDeviceGetAttribute, (int *, CUdevice_attribute, CUdevice))                             \
	X(cuLaunchCooperativeKernelMultiDevice,                                                    \
	  (CUDA_LAUNCH_PARAMS *, unsigned int, unsigned int))                                      \
	X(cuStreamBeginCapture_v2, (CUstream, CUstreamCaptureMode))                                \
	X(cuStreamEndCapture, (CUstream, CUgraph *))                                               \
	X(cuGraphDestroy, (CUgraph))

#include "driver_api.h"

#define DEVICES 8
#define NO_SYNC                                                                                    \
	(CUDA_COOPERATIVE_LAUNCH_MULTI_DEVICE_NO_PRE_LAUNCH_SYNC |                                 \
	 CUDA_COOPERATIVE_LAUNCH_MULTI_DEVICE_NO_POST_LAUNCH_SYNC)

static const char ptx[] =
	".version 7.0\n"
	".target sm_75\n"
	".address_size 64\n"
	".visible .entry add(.param .u8 small, .param .u64 out, .param .u32 value)\n"
	"{\n"
	"	.reg .b32 %r<4>;\n"
	"	.reg .b64 %rd<2>;\n"
	"	ld.param.u64 %rd1, [out];\n"
	"	ld.param.u32 %r1, [value];\n"
	"	ld.param.u8 %r2, [small];\n"
	"	add.u32 %r1, %r1, %r2;\n"
	"	red.global.add.u32 [%rd1], %r1;\n"
	"	ret;\n"
	"}\n"
	".visible .entry nothing()\n"
	"{\n"
	"	ret;\n"
	"}\n"
	".visible .entry hold(.param .u64 gate)\n"
	"{\n"
	"	.reg .b32 %r<2>;\n"
	"	.reg .b64 %rd<2>;\n"
	"	.reg .pred %p<2>;\n"
	"	ld.param.u64 %rd1, [gate];\n"
	"again:\n"
	"	ld.volatile.global.u32 %r1, [%rd1];\n"
	"	setp.eq.u32 %p1, %r1, 0;\n"
	"	@%p1 bra again;\n"
	"	ret;\n"
	"}\n";

static struct device {
	CUcontext context;
	CUmodule module;
	CUfunction add, nothing, hold;
	CUstream stream;
	CUdeviceptr memory; /* a sum, a gate */
	unsigned char small;
	unsigned int value;
	void *params[3];
} devices[DEVICES];

static CUDA_LAUNCH_PARAMS list[DEVICES + 1];
static unsigned int count;
/*
 * An H200's driver does not look at stream handles and parameters as closely, and there no copy
 * opens the gate while a cooperative launch waits behind it.
 */
static bool strict;
static bool answers; /* print them all */
#define ANSWERS_SECONDS 20

#define CHECK(call) check((call), CUDA_SUCCESS, #call, __LINE__)
#define REFUSED(call, error) check((call), error, #call, __LINE__)

static void check(CUresult err, CUresult wanted, const char *call, int line)
{
	const char *name = "?";

	if (err == wanted && !answers)
		return;
	cu.cuGetErrorName(err, &name);
	if (answers) {
		printf("%3d %s: %s\n", line, call, name);
		return;
	}
	fprintf(stderr, "multi_launch.c:%d: %s: %s\n", line, call, name);
	exit(1);
}

static void expect(int holds, const char *what, int line)
{
	if (answers)
		printf("%3d %s: %s\n", line, what, holds ? "yes" : "no");
	if (holds || answers)
		return;
	fprintf(stderr, "multi_launch.c:%d: does not hold: %s\n", line, what);
	exit(1);
}

#define EXPECT(condition) expect(condition, #condition, __LINE__)

static void device_open(unsigned int i)
{
	struct device *d = &devices[i];
	CUdevice device;
	int can = 0;

	CHECK(cu.cuDeviceGet(&device, (int)i));
	CHECK(cu.cuDeviceGetAttribute(&can, CU_DEVICE_ATTRIBUTE_COOPERATIVE_MULTI_DEVICE_LAUNCH,
				      device));
	EXPECT(can == 1);
	CHECK(cu.cuDevicePrimaryCtxRetain(&d->context, device));
	CHECK(cu.cuCtxSetCurrent(d->context));
	CHECK(cu.cuModuleLoadData(&d->module, ptx));
	CHECK(cu.cuModuleGetFunction(&d->add, d->module, "add"));
	CHECK(cu.cuModuleGetFunction(&d->nothing, d->module, "nothing"));
	CHECK(cu.cuModuleGetFunction(&d->hold, d->module, "hold"));
	CHECK(cu.cuStreamCreate(&d->stream, CU_STREAM_NON_BLOCKING));
	CHECK(cu.cuMemAlloc_v2(&d->memory, 8));
	CHECK(cu.cuMemcpyHtoD_v2(d->memory, &(unsigned int[2]){0, 0}, 8));
	d->small = (unsigned char)(i + 1);
	d->value = 100 * i;
	d->params[0] = &d->small;
	d->params[1] = &d->memory;
	d->params[2] = &d->value;
}

/* The launch that all is well with. */
static CUDA_LAUNCH_PARAMS *all(void)
{
	for (unsigned int i = 0; i < count; i++)
		list[i] = (CUDA_LAUNCH_PARAMS){
			.function = devices[i].add,
			.gridDimX = 2,
			.gridDimY = 1,
			.gridDimZ = 1,
			.blockDimX = 32,
			.blockDimY = 1,
			.blockDimZ = 1,
			.hStream = devices[i].stream,
			.kernelParams = devices[i].params,
		};
	return list;
}

static unsigned int sum_of(const struct device *d)
{
	unsigned int sum;

	CHECK(cu.cuStreamSynchronize(d->stream));
	CHECK(cu.cuMemcpyDtoH_v2(&sum, d->memory, sizeof(sum)));
	return sum;
}

static void every_device_runs_with_its_own_parameters(void)
{
	CHECK(cu.cuLaunchCooperativeKernelMultiDevice(all(), count, 0));
	for (unsigned int i = 0; i < count; i++)
		EXPECT(sum_of(&devices[i]) == 64 * (101 * i + 1));
	CHECK(cu.cuLaunchCooperativeKernelMultiDevice(all(), count, NO_SYNC));
	for (unsigned int i = 0; i < count; i++)
		EXPECT(sum_of(&devices[i]) == 128 * (101 * i + 1));
	for (unsigned int i = 0; i < count; i++)
		list[i].function = devices[i].nothing, list[i].kernelParams = NULL;
	CHECK(cu.cuLaunchCooperativeKernelMultiDevice(list, count, 0));
	printf("parameters\n");
}

/* With work in the first stream that lasts: who waits for it? */
static void streams_wait_for_each_other_unless_told_not_to(void)
{
	CUdeviceptr gate = devices[0].memory + 4;
	void *params[] = {&gate};
	const unsigned int open = 1, shut = 0;

	for (unsigned int sync = 0; sync < 2; sync++) {
		CHECK(cu.cuCtxSetCurrent(devices[0].context));
		CHECK(cu.cuMemcpyHtoD_v2(gate, &shut, sizeof(shut)));
		CHECK(cu.cuLaunchKernel(devices[0].hold, 1, 1, 1, 1, 1, 1, 0, devices[0].stream,
					params, NULL));
		CHECK(cu.cuLaunchCooperativeKernelMultiDevice(all(), count, sync ? 0 : NO_SYNC));
		for (unsigned int i = 1; i < count; i++) {
			if (sync)
				REFUSED(cu.cuStreamQuery(devices[i].stream), CUDA_ERROR_NOT_READY);
			else
				CHECK(cu.cuStreamSynchronize(devices[i].stream));
		}
		REFUSED(cu.cuStreamQuery(devices[0].stream), CUDA_ERROR_NOT_READY);
		CHECK(cu.cuMemcpyHtoD_v2(gate, &open, sizeof(open)));
		for (unsigned int i = 0; i < count; i++)
			CHECK(cu.cuStreamSynchronize(devices[i].stream));
	}
	printf("order\n");
}

static CUresult changed(CUDA_LAUNCH_PARAMS last)
{
	all();
	list[count - 1] = last;
	return cu.cuLaunchCooperativeKernelMultiDevice(list, count, 0);
}

#define CHANGED(member, value)                                                                     \
	({                                                                                         \
		CUDA_LAUNCH_PARAMS last = all()[count - 1];                                        \
		last.member = (value);                                                             \
		changed(last);                                                                     \
	})

static void what_is_wrong_is_refused_at_once(void)
{
	void *params[3] = {&devices[0].small, NULL, &devices[0].value};

	REFUSED(cu.cuLaunchCooperativeKernelMultiDevice(NULL, count, 0), CUDA_ERROR_INVALID_VALUE);
	REFUSED(cu.cuLaunchCooperativeKernelMultiDevice(all(), 0, 0), CUDA_ERROR_INVALID_VALUE);
	REFUSED(cu.cuLaunchCooperativeKernelMultiDevice(all(), count, 4), CUDA_ERROR_INVALID_VALUE);
	all();
	list[count] = list[0]; /* a device twice, or more than there are */
	REFUSED(cu.cuLaunchCooperativeKernelMultiDevice(list, count + 1, 0),
		CUDA_ERROR_INVALID_VALUE);
	REFUSED(CHANGED(function, (CUfunction)devices), CUDA_ERROR_INVALID_HANDLE);
	if (strict)
		REFUSED(CHANGED(hStream, (CUstream)devices), CUDA_ERROR_INVALID_HANDLE);
	REFUSED(CHANGED(hStream, NULL), CUDA_ERROR_INVALID_HANDLE);
	REFUSED(CHANGED(hStream, CU_STREAM_LEGACY), CUDA_ERROR_INVALID_HANDLE);
	REFUSED(CHANGED(hStream, CU_STREAM_PER_THREAD), CUDA_ERROR_INVALID_HANDLE);
	REFUSED(CHANGED(blockDimX, 0), CUDA_ERROR_INVALID_VALUE);
	REFUSED(CHANGED(kernelParams, NULL), CUDA_ERROR_INVALID_VALUE);
	if (strict)
		REFUSED(CHANGED(kernelParams, params), CUDA_ERROR_INVALID_VALUE);
	if (count > 1) {
		REFUSED(CHANGED(gridDimX, 1), CUDA_ERROR_INVALID_VALUE);
		REFUSED(CHANGED(sharedMemBytes, 16), CUDA_ERROR_INVALID_VALUE);
		REFUSED(CHANGED(hStream, devices[0].stream), CUDA_ERROR_INVALID_VALUE);
	}
	all();
	for (unsigned int i = 0; i < count; i++)
		list[i].gridDimX = 1 << 24;
	REFUSED(cu.cuLaunchCooperativeKernelMultiDevice(list, count, 0),
		CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE);
	for (unsigned int i = 0; i < count; i++)
		CHECK(cu.cuStreamSynchronize(devices[i].stream));
	printf("refused\n");
}

static void it_cannot_be_captured(void)
{
	CUgraph graph = NULL;

	CHECK(cu.cuCtxSetCurrent(devices[0].context));
	CHECK(cu.cuStreamBeginCapture_v2(devices[0].stream, CU_STREAM_CAPTURE_MODE_RELAXED));
	REFUSED(cu.cuLaunchCooperativeKernelMultiDevice(all(), count, 0),
		CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
	REFUSED(cu.cuStreamEndCapture(devices[0].stream, &graph),
		CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
	printf("captured\n");
}

int main(int argc, char **argv)
{
	int n = 0;

	for (int i = 1; i < argc; i++) {
		strict |= !strcmp(argv[i], "strict");
		answers |= !strcmp(argv[i], "answers");
	}
	if (answers) {
		setvbuf(stdout, NULL, _IOLBF, 0);
		alarm(ANSWERS_SECONDS); /* a call may not return */
	}
	if (driver_open() < 0)
		return 1;
	CHECK(cu.cuInit(0));
	CHECK(cu.cuDeviceGetCount(&n));
	count = n < DEVICES ? (unsigned int)n : DEVICES;
	for (unsigned int i = 0; i < count; i++)
		device_open(i);
	every_device_runs_with_its_own_parameters();
	if (strict && !answers)
		streams_wait_for_each_other_unless_told_not_to();
	what_is_wrong_is_refused_at_once();
	it_cannot_be_captured();
	if (strict && answers) /* last, as it may not end */
		streams_wait_for_each_other_unless_told_not_to();
	return 0;
}
