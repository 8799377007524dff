/*
 * managed_module.cu - a managed variable of a module that the driver API has loaded: what CUDA says
 * of its address, and its use by host and kernel in turn.
 */
#include "entry.h"

static const char ptx[] =
	".version 7.0\n.target sm_75\n.address_size 64\n"
	".visible .global .align 4 .u32 plain = 3;\n"
	".visible .global .attribute(.managed) .align 4 .u32 shared[1024] = {7};\n"
	".visible .entry step()\n"
	"{\n"
	"	.reg .b32 %r<2>;\n"
	"	ld.global.u32 %r1, [shared];\n"
	"	add.u32 %r1, %r1, 10;\n"
	"	st.global.u32 [shared], %r1;\n"
	"	ret;\n"
	"}\n";

static CUdeviceptr address(CUmodule module, const char *name)
{
	CUdeviceptr at;
	size_t size;

	CHECK_CU(CU(cuModuleGetGlobal)(&at, &size, module, name));
	printf("%s: %zu bytes\n", name, size);
	return at;
}

static unsigned long long ask(CUpointer_attribute attribute, CUdeviceptr at)
{
	unsigned long long value = 0;

	CHECK_CU(CU(cuPointerGetAttribute)(&value, attribute, at));
	return value;
}

static void describe(CUdeviceptr at)
{
	unsigned long long start = ask(CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, at);
	unsigned long long size = ask(CU_POINTER_ATTRIBUTE_RANGE_SIZE, at);
	CUpointer_attribute several[] = { CU_POINTER_ATTRIBUTE_IS_MANAGED,
					  CU_POINTER_ATTRIBUTE_MEMORY_TYPE };
	unsigned int managed = 2, type = 0;
	void *values[] = { &managed, &type };
	cudaPointerAttributes of;
	CUcontext context;
	void *host = NULL;

	CHECK_CU(CU(cuCtxGetCurrent)(&context));
	CHECK_CU(CU(cuPointerGetAttributes)(2, several, values, at));
	CHECK(cudaPointerGetAttributes(&of, (void *)at));
	CU(cuPointerGetAttribute)(&host, CU_POINTER_ATTRIBUTE_HOST_POINTER, at);
	printf("managed %llu %u, memory type %llu %u, type %d\n",
	       ask(CU_POINTER_ATTRIBUTE_IS_MANAGED, at), managed,
	       ask(CU_POINTER_ATTRIBUTE_MEMORY_TYPE, at), type, of.type);
	printf("device pointer %d %d, host pointer %d %d, device %d, context %d, range %d\n",
	       ask(CU_POINTER_ATTRIBUTE_DEVICE_POINTER, at) == at, of.devicePointer == (void *)at,
	       host == (void *)at, of.hostPointer == (void *)at, of.device,
	       ask(CU_POINTER_ATTRIBUTE_CONTEXT, at) == (unsigned long long)context,
	       start <= at && start + size > at);
}

int main()
{
	volatile unsigned *shared;
	CUfunction step;
	CUmodule module;

	CHECK(cudaFree(NULL));
	CHECK_CU(CU(cuModuleLoadData)(&module, ptx));
	CHECK_CU(CU(cuModuleGetFunction)(&step, module, "step"));
	describe(address(module, "plain"));
	shared = (volatile unsigned *)address(module, "shared");
	describe((CUdeviceptr)shared);
	printf("at first %u", shared[0]);
	CHECK_CU(CU(cuLaunchKernel)(step, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL));
	CHECK(cudaDeviceSynchronize());
	printf(", then %u", shared[0]);
	shared[0] = 100;
	CHECK_CU(CU(cuLaunchKernel)(step, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL));
	CHECK(cudaDeviceSynchronize());
	printf(", and %u\n", shared[0]);
	CHECK_CU(CU(cuModuleUnload)(module));
	return 0;
}
