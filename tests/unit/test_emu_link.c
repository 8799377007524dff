/*
 * tests/unit/test_emu_link.c - the driver's linker: the device runtime library, and its like.
 */
#include <stdio.h>

#include "emu/modules/device_runtime.h"
#include "tests/unit/emu_graph_fixture.h"

#define BLOCKS 5
#define THREADS 40
#define ROUNDS 7

/*
 * As Numba makes them: meet(p) adds 1 to its block's word of @p, waits for the grid, and checks
 * that all blocks have come as far; how often one had not is in the last word. alone(p) stores what
 * the barrier returns.
 */
static const char kernels[] = EMU_PTX_HEAD
	".extern .func (.param .b64 r) cudaCGGetIntrinsicHandle(.param .b32 scope);\n"
	".extern .func (.param .b32 r) cudaCGSynchronize(.param .b64 handle, .param .b32 flags);\n"
	".func (.param .b32 r) barrier()\n{\n"
	".reg .b64 %h;\n.reg .b32 %r;\n"
	"{ .param .b32 a; .param .b64 x; st.param.b32 [a], 1;\n"
	"call (x), cudaCGGetIntrinsicHandle, (a); ld.param.u64 %h, [x]; }\n"
	"{ .param .b64 a; .param .b32 b; .param .b32 x;\n"
	"st.param.b64 [a], %h; st.param.b32 [b], 0;\n"
	"call (x), cudaCGSynchronize, (a, b); ld.param.u32 %r, [x]; }\n"
	"st.param.b32 [r], %r; ret;\n}\n"
	".visible .entry meet(.param .u64 p)\n{\n"
	".reg .b64 %rd<5>;\n.reg .b32 %r<9>;\n.reg .pred %p;\n"
	"ld.param.u64 %rd1, [p]; mov.u32 %r1, %ctaid.x; mul.wide.u32 %rd2, %r1, 4;\n"
	"add.u64 %rd2, %rd1, %rd2; mov.u32 %r2, 0; mov.u32 %r3, %nctaid.x;\n"
	"ROUND: mov.u32 %r4, 1; red.global.add.u32 [%rd2], %r4;\n"
	"{ .param .b32 x; call (x), barrier, (); }\n"
	"add.u32 %r2, %r2, 1; mov.u32 %r5, %ntid.x; mul.lo.u32 %r5, %r5, %r2; mov.u32 %r6, 0;\n"
	"LOOK: mul.wide.u32 %rd3, %r6, 4; add.u64 %rd3, %rd1, %rd3;\n"
	"ld.volatile.global.u32 %r7, [%rd3]; setp.eq.u32 %p, %r7, %r5; @%p bra NEXT;\n"
	"mov.u32 %r4, 1; red.global.add.u32 [%rd1+20], %r4;\n"
	"NEXT: add.u32 %r6, %r6, 1; setp.lt.u32 %p, %r6, %r3; @%p bra LOOK;\n"
	"{ .param .b32 x; call (x), barrier, (); }\n"
	"setp.lt.u32 %p, %r2, 7; @%p bra ROUND;\nret;\n}\n"
	".visible .entry alone(.param .u64 p)\n{\n"
	".reg .b64 %rd1;\n.reg .b32 %r1;\n"
	"{ .param .b32 x; call (x), barrier, (); ld.param.u32 %r1, [x]; }\n"
	"ld.param.u64 %rd1, [p]; st.global.u32 [%rd1], %r1; ret;\n}\n";

/* An archive with a long name in its table and one member of @size bytes, which are not there. */
static size_t archive(char *out, const char *name, const char *size)
{
	int n = sprintf(
		out,
		"!<arch>\n/               0           0     0     0       3         `\nabc\n"
		"//              %-12s%-6s%-6s%-8s%-10zu`\n%s/\n%s"
		"/0              %-12s%-6s%-6s%-8s%-10s`\n",
		"", "", "", "", strlen(name) + 2, name, (strlen(name) & 1) ? "\n" : "", "0", "0",
		"0", "644", size);

	return (size_t)n;
}

static size_t device_runtime(char *out)
{
	return archive(out, "cuda_device_runtime.o", "0");
}

static CUresult add_library(CUlinkState link, void *data, size_t size)
{
	return cuLinkAddData_v2(link, CU_JIT_INPUT_LIBRARY, data, size, "x.a", 0, NULL, NULL);
}

static CUresult add_kernels(CUlinkState link)
{
	return cuLinkAddData_v2(link, CU_JIT_INPUT_PTX, (void *)kernels, sizeof(kernels), "k", 0,
				NULL, NULL);
}

static void grids_meet_by_the_device_runtime(void **state)
{
	unsigned int words[BLOCKS + 1];
	struct fixture *f = *state;
	char library[512];
	CUlinkState link;
	CUfunction meet, alone;
	CUmodule module;
	CUdeviceptr p;
	void *cubin, *args[] = {&p};
	size_t size;

	ok(cuLinkCreate_v2(0, NULL, NULL, &link));
	ok(add_kernels(link));
	ok(add_library(link, library, device_runtime(library)));
	ok(add_library(link, library, device_runtime(library))); /* twice is as good as once */
	ok(cuLinkComplete(link, &cubin, &size));
	ok(cuModuleLoadData(&module, cubin));
	ok(cuLinkDestroy(link));
	ok(cuModuleGetFunction(&meet, module, "meet"));
	ok(cuModuleGetFunction(&alone, module, "alone"));
	ok(cuMemAlloc_v2(&p, sizeof(words)));
	ok(cuMemsetD8Async(p, 0, sizeof(words), f->stream));
	ok(cuLaunchCooperativeKernel(meet, BLOCKS, 1, 1, THREADS, 1, 1, 0, f->stream, args));
	ok(cuStreamSynchronize(f->stream));
	ok(cuMemcpyDtoH_v2(words, p, sizeof(words)));
	for (int i = 0; i < BLOCKS; i++)
		assert_int_equal(words[i], ROUNDS * THREADS);
	assert_int_equal(words[BLOCKS], 0);
	/* launched in the ordinary way there is no grid to meet: cudaErrorInvalidValue */
	ok(cuLaunchKernel(alone, 1, 1, 1, 1, 1, 1, 0, f->stream, args, NULL));
	ok(cuStreamSynchronize(f->stream));
	ok(cuMemcpyDtoH_v2(words, p, sizeof(words)));
	assert_int_equal(words[0], 1);
	ok(cuMemFree_v2(p));
	ok(cuModuleUnload(module));
}

static void without_the_library_its_functions_are_missing(void **state)
{
	CUlinkState link;
	void *cubin;

	(void)state;
	ok(cuLinkCreate_v2(0, NULL, NULL, &link));
	ok(add_kernels(link));
	fails(cuLinkComplete(link, &cubin, NULL), INVALID_IMAGE);
	ok(cuLinkDestroy(link));
}

/* A kernel with 60 registers; @directives stand before its body. */
static void wide_kernel(char *text, size_t size, const char *directives)
{
	int n = snprintf(text, size,
			 EMU_PTX_HEAD ".visible .entry wide()\n%s{\n.reg .b32 %%r<60>;\n",
			 directives);

	for (int i = 0; i < 60; i++)
		n += snprintf(text + n, size - (size_t)n, "mov.u32 %%r%d, %d;\n", i, i);
	snprintf(text + n, size - (size_t)n, "ret;\n}\n");
}

/* The registers of its threads; @module goes. */
static int registers_of(CUmodule module)
{
	CUfunction function;
	int registers;

	ok(cuModuleGetFunction(&function, module, "wide"));
	ok(cuFuncGetAttribute(&registers, CU_FUNC_ATTRIBUTE_NUM_REGS, function));
	ok(cuModuleUnload(module));
	return registers;
}

static void as_many_registers_as_the_compiler_was_allowed(void **state)
{
	CUjit_option option = CU_JIT_MAX_REGISTERS;
	void *most = (void *)38, *cubin;
	char text[8192], own[8192];
	CUlinkState link;
	CUmodule module;
	size_t size;

	(void)state;
	wide_kernel(text, sizeof(text), "");
	wide_kernel(own, sizeof(own), ".maxnreg 44\n");
	ok(cuModuleLoadData(&module, text));
	assert_in_range(registers_of(module), 60, 64);
	ok(cuModuleLoadDataEx(&module, text, 1, &option, &most));
	assert_int_equal(registers_of(module), 38);
	ok(cuModuleLoadDataEx(&module, own, 1, &option, &most));
	assert_int_equal(registers_of(module), 44); /* the directive goes before the option */
	ok(cuLinkCreate_v2(1, &option, &most, &link));
	ok(cuLinkAddData_v2(link, CU_JIT_INPUT_PTX, text, strlen(text) + 1, "w", 0, NULL, NULL));
	ok(cuLinkComplete(link, &cubin, &size));
	ok(cuModuleLoadData(&module, cubin));
	ok(cuLinkDestroy(link));
	assert_int_equal(registers_of(module), 38);
}

static void other_libraries_are_refused(void **state)
{
	char bytes[512];
	CUlinkState link;

	(void)state;
	ok(cuLinkCreate_v2(0, NULL, NULL, &link));
	fails(add_library(link, bytes, archive(bytes, "another_library.o", "0")),
	      NO_BINARY_FOR_GPU);
	fails(add_library(link, "!<arch>\n", 8), NO_BINARY_FOR_GPU);
	ok(cuLinkDestroy(link));
}

static void a_damaged_archive_is_read_no_further_than_its_bytes(void **state)
{
	char bytes[512], *copy;
	size_t size = device_runtime(bytes);

	(void)state;
	for (size_t n = 0; n < size; n++) {
		copy = malloc(n + 1); /* of its size, so that ASan sees who reads on */
		assert_non_null(copy);
		memcpy(copy, bytes, n);
		copy = realloc(copy, n ? n : 1);
		ck_emu_is_device_runtime(copy, n);
		free(copy);
	}
	assert_true(ck_emu_is_device_runtime(bytes, size));
	memcpy(bytes + 8 + 48, "9999999999", 10); /* the first member's size */
	assert_false(ck_emu_is_device_runtime(bytes, size));
	memcpy(bytes + 8 + 48, "-1        ", 10);
	assert_false(ck_emu_is_device_runtime(bytes, size));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(grids_meet_by_the_device_runtime),
		TEST(without_the_library_its_functions_are_missing),
		TEST(as_many_registers_as_the_compiler_was_allowed),
		TEST(other_libraries_are_refused),
		TEST(a_damaged_archive_is_read_no_further_than_its_bytes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
