/*
 * tests/test_apps/old_calls.cu - what old programs and bindings do: launches of before CUDA 4,
 * plain names asked for by version, marks for a profiler.
 */
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
#include <cstdint>

#include "entry.h"

static const char ptx[] =
	".version 7.0\n"
	".target sm_75\n"
	".address_size 64\n"
	".visible .entry put(.param .u64 out, .param .f32 real, .param .u32 whole)\n"
	"{\n"
	"	.reg .b32 %r<8>;\n"
	"	.reg .f32 %f<4>;\n"
	"	.reg .b64 %rd<6>;\n"
	"	ld.param.u64 %rd1, [out];\n"
	"	ld.param.f32 %f1, [real];\n"
	"	ld.param.u32 %r1, [whole];\n"
	"	cvta.to.global.u64 %rd1, %rd1;\n"
	"	mov.u32 %r2, %ctaid.x;\n"
	"	mov.u32 %r3, %ntid.x;\n"
	"	mov.u32 %r4, %tid.x;\n"
	"	mad.lo.s32 %r5, %r2, %r3, %r4;\n"
	"	add.u32 %r6, %r5, %r1;\n"
	"	cvt.rn.f32.u32 %f2, %r6;\n"
	"	mul.f32 %f3, %f2, %f1;\n"
	"	mul.wide.u32 %rd2, %r5, 4;\n"
	"	add.s64 %rd3, %rd1, %rd2;\n"
	"	st.global.f32 [%rd3], %f3;\n"
	"	ret;\n"
	"}\n";

#define N 64

template <typename F> static F by_name(const char *name, int version)
{
	CUdriverProcAddressQueryResult status;
	void *found = NULL;

	CHECK_CU(CU(cuGetProcAddress)(name, &found, version, 0, &status));
	EXPECT(found != NULL && status == CU_GET_PROC_ADDRESS_SUCCESS);
	return (F)found;
}

static void launches()
{
	float *out, back[N];
	CUmodule module;
	CUfunction put;

	CHECK(cudaMalloc(&out, sizeof(back)));
	CHECK(cudaMemset(out, 0, sizeof(back)));
	CHECK_CU(CU(cuModuleLoadData)(&module, ptx));
	CHECK_CU(CU(cuModuleGetFunction)(&put, module, "put"));
	CHECK_CU(CU(cuFuncSetBlockShape)(put, 16, 1, 1));
	CHECK_CU(CU(cuFuncSetSharedSize)(put, 256));
	CHECK_CU(CU(cuParamSetv)(put, 0, &out, sizeof(out)));
	CHECK_CU(CU(cuParamSetf)(put, 8, 0.5f));
	CHECK_CU(CU(cuParamSeti)(put, 12, 100));
	CHECK_CU(CU(cuParamSetSize)(put, 16));
	CHECK_CU(CU(cuLaunchGrid)(put, N / 16, 1));
	CHECK(cudaMemcpy(back, out, sizeof(back), cudaMemcpyDeviceToHost));
	for (int i = 0; i < N; i++)
		EXPECT(back[i] == (i + 100) * 0.5f);
	CHECK_CU(CU(cuParamSeti)(put, 12, 200));
	CHECK_CU(CU(cuLaunch)(put));
	CHECK_CU(CU(cuLaunchGridAsync)(put, 1, 1, 0));
	CHECK(cudaMemcpy(back, out, sizeof(back), cudaMemcpyDeviceToHost));
	EXPECT(back[15] == 215 * 0.5f && back[16] == 116 * 0.5f);
	EXPECT_CU(CUDA_ERROR_INVALID_VALUE, CU(cuFuncSetBlockShape)(put, 0, 1, 1));
	EXPECT_CU(CUDA_ERROR_INVALID_VALUE, CU(cuParamSetSize)(put, 1u << 20));
	CHECK_CU(CU(cuModuleUnload)(module));
	CHECK(cudaFree(out));
	printf("parameters set one by one\n");
}

/* A plain name with a version from 3.2 on is the call with 64-bit addresses. */
static void names()
{
	typedef CUresult (*Alloc)(uint64_t *, size_t);
	typedef CUresult (*Free)(uint64_t);
	typedef CUresult (*Up)(uint64_t, const void *, size_t);
	typedef CUresult (*Down)(void *, uint64_t, size_t);
	typedef CUresult (*Info)(size_t *, size_t *);
	typedef CUresult (*Total)(size_t *, int);
	size_t free, total, whole;
	int word = 1234, back = 0;
	uint64_t p;

	for (int version : { 3020, 11080, 12000 }) {
		CHECK_CU(by_name<Alloc>("cuMemAlloc", version)(&p, 1 << 20));
		CHECK_CU(by_name<Up>("cuMemcpyHtoD", version)(p + 4096, &word, 4));
		CHECK_CU(by_name<Down>("cuMemcpyDtoH", version)(&back, p + 4096, 4));
		CHECK_CU(by_name<Free>("cuMemFree", version)(p));
		EXPECT(back == word);
		CHECK_CU(by_name<Info>("cuMemGetInfo", version)(&free, &total));
		CHECK_CU(by_name<Total>("cuDeviceTotalMem", version)(&whole, 0));
		EXPECT(free <= total && total <= whole);
		word++;
	}
	printf("plain names mean today's calls\n");
}

static void profiler()
{
	CHECK_CU(by_name<CUresult (*)()>("cuProfilerStart", 12000)());
	CHECK_CU(by_name<CUresult (*)()>("cuProfilerStop", 12000)());
	CHECK_CU(by_name<CUresult (*)()>("cuProfilerStop", 12000)());
	printf("no profiler is attached\n");
}

static void atomics()
{
	const CUatomicOperation ask[] = { CU_ATOMIC_OPERATION_INTEGER_ADD,
					  CU_ATOMIC_OPERATION_CAS };
	unsigned int capabilities[2];

	CHECK_CU(CU(cuDeviceGetHostAtomicCapabilities)(capabilities, ask, 2, 0));
	EXPECT_CU(CUDA_ERROR_INVALID_VALUE,
		  CU(cuDeviceGetHostAtomicCapabilities)(capabilities, ask, 0, 0));
	EXPECT_CU(CUDA_ERROR_INVALID_DEVICE,
		  CU(cuDeviceGetP2PAtomicCapabilities)(capabilities, ask, 2, 0, 1000));
	printf("atomics are asked about\n");
}

int main()
{
	CHECK(cudaFree(0));
	launches();
	names();
	profiler();
	atomics();
	return 0;
}
