/*
 * tests/test_apps/link_ptx.cu - the driver's linker: a kernel in one text, the function that it
 * calls in another.
 */
#include <cstring>
#include <string>
#include <unistd.h>

#include "entry.h"

static const char kernel[] =
	".version 7.0\n"
	".target sm_75\n"
	".address_size 64\n"
	".extern .func (.param .b32 result) twice (.param .b32 value);\n"
	".visible .entry fill(.param .u64 out)\n"
	"{\n"
	"	.reg .b32 %r<4>;\n"
	"	.reg .b64 %rd<4>;\n"
	"	ld.param.u64 %rd1, [out];\n"
	"	cvta.to.global.u64 %rd1, %rd1;\n"
	"	mov.u32 %r1, %tid.x;\n"
	"	{\n"
	"	.param .b32 a;\n"
	"	.param .b32 r;\n"
	"	st.param.b32 [a], %r1;\n"
	"	call (r), twice, (a);\n"
	"	ld.param.b32 %r2, [r];\n"
	"	}\n"
	"	mul.wide.u32 %rd2, %r1, 4;\n"
	"	add.s64 %rd3, %rd1, %rd2;\n"
	"	st.global.u32 [%rd3], %r2;\n"
	"	ret;\n"
	"}\n";

static const char function[] =
	".version 7.0\n"
	".target sm_75\n"
	".address_size 64\n"
	".visible .func (.param .b32 result) twice (.param .b32 value)\n"
	"{\n"
	"	.reg .b32 %r<3>;\n"
	"	ld.param.b32 %r1, [value];\n"
	"	add.u32 %r2, %r1, %r1;\n"
	"	st.param.b32 [result], %r2;\n"
	"	ret;\n"
	"}\n";

static char info[4096], error[4096];

/* A link that keeps its logs. The values of the options outlive it. */
static CUlinkState begin()
{
	static void *values[4];
	CUjit_option options[] = { CU_JIT_INFO_LOG_BUFFER, CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES,
				   CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES };
	CUlinkState state;

	memset(error, 0, sizeof(error));
	values[0] = info;
	values[1] = (void *)sizeof(info);
	values[2] = error;
	values[3] = (void *)sizeof(error);
	CHECK_CU(CU(cuLinkCreate)(4, options, values, &state));
	return state;
}

static CUresult add(CUlinkState state, const char *text)
{
	return CU(cuLinkAddData)(state, CU_JIT_INPUT_PTX, (void *)text, strlen(text) + 1, "text", 0,
				 NULL, NULL);
}

static void run(const void *image)
{
	CUfunction fill;
	CUmodule module;
	int *out, back[32];
	void *params[] = { &out };

	CHECK_CU(CU(cuModuleLoadData)(&module, image));
	CHECK_CU(CU(cuModuleGetFunction)(&fill, module, "fill"));
	CHECK(cudaMalloc(&out, sizeof(back)));
	CHECK_CU(CU(cuLaunchKernel)(fill, 1, 1, 1, 32, 1, 1, 0, 0, params, NULL));
	CHECK(cudaMemcpy(back, out, sizeof(back), cudaMemcpyDeviceToHost));
	for (int i = 0; i < 32; i++)
		EXPECT(back[i] == 2 * i);
	CHECK_CU(CU(cuModuleUnload)(module));
	CHECK(cudaFree(out));
}

static void two_texts()
{
	CUlinkState state = begin();
	void *image, *again;
	size_t size;

	CHECK_CU(add(state, kernel));
	CHECK_CU(add(state, function));
	CHECK_CU(CU(cuLinkComplete)(state, &image, &size));
	EXPECT(size > 0);
	EXPECT_CU(CUDA_ERROR_INVALID_HANDLE, CU(cuLinkComplete)(state, &again, &size));
	run(image);
	CHECK_CU(CU(cuLinkDestroy)(state));
	if (driver_looks())
		EXPECT_CU(CUDA_ERROR_INVALID_HANDLE, CU(cuLinkDestroy)((CUlinkState)8));
	printf("two texts are one module\n");
}

static void a_file()
{
	char path[] = "/tmp/ck-link-XXXXXX";
	int fd = mkstemp(path);
	CUlinkState state = begin();
	void *image;
	size_t size;

	EXPECT(write(fd, function, strlen(function)) == (ssize_t)strlen(function));
	close(fd);
	CHECK_CU(add(state, kernel));
	CHECK_CU(CU(cuLinkAddFile)(state, CU_JIT_INPUT_PTX, path, 0, NULL, NULL));
	unlink(path);
	EXPECT_CU(CUDA_ERROR_FILE_NOT_FOUND,
		  CU(cuLinkAddFile)(state, CU_JIT_INPUT_PTX, path, 0, NULL, NULL));
	CHECK_CU(CU(cuLinkComplete)(state, &image, &size));
	run(image);
	CHECK_CU(CU(cuLinkDestroy)(state));
	printf("a file is an input\n");
}

static void faults()
{
	std::string wrong = std::string(function) + "what is this\n";
	CUlinkState state = begin();
	void *image;
	size_t size;

	EXPECT_CU(CUDA_ERROR_INVALID_PTX, add(state, wrong.c_str()));
	EXPECT(strlen(error) > 0);
	CHECK_CU(CU(cuLinkDestroy)(state));
	EXPECT_CU(CUDA_ERROR_INVALID_VALUE, CU(cuLinkCreate)(0, NULL, NULL, NULL));
	state = begin();
	CHECK_CU(add(state, kernel));	/* and nobody brings what it calls */
	EXPECT(CU(cuLinkComplete)(state, &image, &size) != CUDA_SUCCESS);
	EXPECT(strlen(error) > 0);
	CHECK_CU(CU(cuLinkDestroy)(state));
	state = begin();
	EXPECT_CU(CUDA_ERROR_INVALID_VALUE,
		  CU(cuLinkAddData)(state, CU_JIT_INPUT_PTX, NULL, 0, NULL, 0, NULL, NULL));
	CHECK_CU(CU(cuLinkDestroy)(state));
	printf("what is no PTX, or not whole, is refused, and the log says why\n");
}

int main()
{
	CHECK(cudaFree(0));
	two_texts();
	a_file();
	faults();
	return 0;
}
