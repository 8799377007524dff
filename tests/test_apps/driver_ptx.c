/*
 * tests/test_apps/driver_ptx.c - the driver API without the runtime: a module from PTX text, its
 * kernels launched with kernelParams and with `extra`, its variables found by name.
 */
#include <stdio.h>
#include <stdlib.h>

#include "driver_api.h"

static const char ptx[] =
	".version 7.0\n"
	".target sm_75\n"
	".address_size 64\n"
	".visible .global .align 4 .u32 launches = 5;\n"
	".visible .const .align 4 .f32 bias = 0f3F000000;\n" /* 0.5 */
	"\n"
	"// y[i] = a * x[i] + y[i] + bias, i < n\n"
	".visible .entry axpy(.param .u64 px, .param .f32 pa, .param .u64 py, .param .u32 pn)\n"
	"{\n"
	"	.reg .pred %p<3>;\n"
	"	.reg .f32 %f<6>;\n"
	"	.reg .b32 %r<8>;\n"
	"	.reg .b64 %rd<8>;\n"
	"	ld.param.u64 %rd1, [px];\n"
	"	ld.param.f32 %f1, [pa];\n"
	"	ld.param.u64 %rd2, [py];\n"
	"	ld.param.u32 %r1, [pn];\n"
	"	mov.u32 %r2, %ctaid.x;\n"
	"	mov.u32 %r3, %ntid.x;\n"
	"	mov.u32 %r4, %tid.x;\n"
	"	mad.lo.s32 %r5, %r2, %r3, %r4;\n"
	"	setp.ne.s32 %p2, %r5, 0;\n"
	"	@%p2 bra COUNTED;\n"
	"	mov.u64 %rd6, launches;\n"
	"	atom.global.add.u32 %r6, [%rd6], 1;\n"
	"COUNTED:\n"
	"	setp.ge.u32 %p1, %r5, %r1;\n"
	"	@%p1 bra DONE;\n"
	"	cvta.to.global.u64 %rd1, %rd1;\n"
	"	cvta.to.global.u64 %rd2, %rd2;\n"
	"	mul.wide.u32 %rd3, %r5, 4;\n"
	"	add.s64 %rd4, %rd1, %rd3;\n"
	"	add.s64 %rd5, %rd2, %rd3;\n"
	"	ld.global.f32 %f2, [%rd4];\n"
	"	ld.global.f32 %f3, [%rd5];\n"
	"	fma.rn.f32 %f4, %f1, %f2, %f3;\n"
	"	ld.const.f32 %f5, [bias];\n"
	"	add.rn.f32 %f4, %f4, %f5;\n"
	"	st.global.f32 [%rd5], %f4;\n"
	"DONE:\n"
	"	ret;\n"
	"}\n";

#define N 1000

static const char *name_of(CUresult err)
{
	const char *name = "?";

	cu.cuGetErrorName(err, &name);
	return name;
}

#define CHECK(call) check((call), #call, __LINE__)

static void check(CUresult err, const char *call, int line)
{
	if (err == CUDA_SUCCESS)
		return;
	fprintf(stderr, "driver_ptx.c:%d: %s: %s\n", line, call, name_of(err));
	exit(1);
}

/* Parameters of axpy at the offsets that the PTX entry gives them. */
struct axpy_args {
	CUdeviceptr x;
	float a;
	CUdeviceptr y;
	unsigned int n;
};

static void launch_both_ways(CUfunction axpy, CUdeviceptr x, CUdeviceptr y)
{
	struct axpy_args args = {x, 2.0f, y, N};
	void *params[] = {&args.x, &args.a, &args.y, &args.n};
	size_t size = offsetof(struct axpy_args, n) + sizeof(args.n);
	void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &args, CU_LAUNCH_PARAM_BUFFER_SIZE, &size,
			 CU_LAUNCH_PARAM_END};

	CHECK(cu.cuLaunchKernel(axpy, (N + 127) / 128, 1, 1, 128, 1, 1, 0, NULL, params, NULL));
	/* The launch has taken its parameters: changing them now must change nothing. */
	args.a = 1000.0f;
	args.n = 0;
	args.a = 3.0f;
	args.n = N;
	CHECK(cu.cuLaunchKernel(axpy, (N + 127) / 128, 1, 1, 128, 1, 1, 0, NULL, NULL, extra));
	args.y = 0;
	CHECK(cu.cuCtxSynchronize());
}

static void run(CUmodule module)
{
	float x[N], y[N], got[N], bias = 0.25f;
	unsigned int launches = 0;
	CUdeviceptr dx, dy, var;
	CUfunction axpy;
	size_t size = 0;
	int wrong = 0;

	for (int i = 0; i < N; i++) {
		x[i] = (float)i;
		y[i] = (float)(N - i);
	}
	CHECK(cu.cuModuleGetFunction(&axpy, module, "axpy"));
	CHECK(cu.cuMemAlloc_v2(&dx, sizeof(x)));
	CHECK(cu.cuMemAlloc_v2(&dy, sizeof(y)));
	CHECK(cu.cuMemcpyHtoD_v2(dx, x, sizeof(x)));
	CHECK(cu.cuMemcpyHtoD_v2(dy, y, sizeof(y)));
	launch_both_ways(axpy, dx, dy);
	CHECK(cu.cuMemcpyDtoH_v2(got, dy, sizeof(got)));
	for (int i = 0; i < N; i++)
		wrong += got[i] != 5 * x[i] + y[i] + 1.0f;
	printf("axpy twice: %d wrong\n", wrong);

	CHECK(cu.cuModuleGetGlobal_v2(&var, &size, module, "launches"));
	CHECK(cu.cuMemcpyDtoH_v2(&launches, var, sizeof(launches)));
	printf("launches: %zu bytes, %u\n", size, launches);
	CHECK(cu.cuModuleGetGlobal_v2(&var, &size, module, "bias"));
	CHECK(cu.cuMemcpyHtoD_v2(var, &bias, sizeof(bias)));
	launch_both_ways(axpy, dx, dy);
	CHECK(cu.cuMemcpyDtoH_v2(got, dy, sizeof(got)));
	for (int i = 0; i < N; i++)
		wrong += got[i] != 10 * x[i] + y[i] + 1.5f;
	printf("axpy with another bias: %d wrong\n", wrong);
	if (wrong || launches != 7)
		exit(1);
	CHECK(cu.cuMemFree_v2(dx));
	CHECK(cu.cuMemFree_v2(dy));
}

int main(void)
{
	CUfunction function;
	CUdeviceptr var;
	CUmodule module;
	CUcontext ctx;
	CUdevice dev;

	if (driver_open() < 0)
		return 1;
	printf("before cuInit: %s\n", name_of(cu.cuDeviceGet(&dev, 0)));
	CHECK(cu.cuInit(0));
	CHECK(cu.cuDeviceGet(&dev, 0));
	printf("without a context: %s\n", name_of(cu.cuMemAlloc_v2(&var, 4)));
	CHECK(cu.cuDevicePrimaryCtxRetain(&ctx, dev));
	CHECK(cu.cuCtxSetCurrent(ctx));

	CHECK(cu.cuModuleLoadData(&module, ptx));
	run(module);
	printf("no such kernel: %s\n", name_of(cu.cuModuleGetFunction(&function, module, "axpz")));
	printf("no such variable: %s\n",
	       name_of(cu.cuModuleGetGlobal_v2(&var, NULL, module, "axpy_count")));
	CHECK(cu.cuModuleUnload(module));
	printf("not PTX: %s\n",
	       name_of(cu.cuModuleLoadData(&module, ".version 7.0\n.target sm_75\n"
						    ".address_size 64\nwhat is this\n")));
	CHECK(cu.cuDevicePrimaryCtxRelease_v2(dev));
	return 0;
}
