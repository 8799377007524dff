/*
 * tests/unit/test_emu_launch.c - modules, functions and launches of the emulated driver; what it
 * links, what fits on a multiprocessor, faults.
 */
#include <stdio.h>

#include "tests/unit/emu_fixture.h"

/* --- modules, kernels, launches --- */

static void images_that_are_no_ptx_are_told_apart(void **state)
{
	/* headers of fat binary containers (elf/fatbin.h), without entries */
	const uint32_t damaged[4] = {0xba55ed50, 0x000f0001, 0, 0};
	const uint32_t empty[4] = {0xba55ed50, 0x00100001, 0, 0};
	unsigned char elf[64] = "\177ELF";
	CUmodule module;

	(void)state;
	assert_int_equal(cuModuleLoadData(&module, elf), CUDA_ERROR_INVALID_IMAGE);
	elf[18] = 190;
	assert_int_equal(cuModuleLoadData(&module, elf), CUDA_ERROR_NO_BINARY_FOR_GPU);
	assert_int_equal(cuModuleLoadData(&module, ""), CUDA_ERROR_INVALID_IMAGE);
	assert_int_equal(cuModuleLoadData(&module, "hello"), CUDA_ERROR_INVALID_IMAGE);
	assert_int_equal(cuModuleLoadFatBinary(&module, damaged), CUDA_ERROR_INVALID_IMAGE);
	assert_int_equal(cuModuleLoadFatBinary(&module, empty), CUDA_ERROR_NO_BINARY_FOR_GPU);
	assert_int_equal(cuModuleLoad(&module, "/nonexistent"), CUDA_ERROR_FILE_NOT_FOUND);
}

/* A fat binary with the kernels' text in it, to be freed. */
static char *fat_binary(size_t *size)
{
	const size_t text = (sizeof(emu_kernels) + 7) / 8 * 8;
	const struct {
		uint32_t magic;
		uint16_t version, header;
		uint64_t files;
		uint16_t kind, one;
		uint32_t entry_header;
		uint64_t payload;
		uint32_t compressed, options;
		uint16_t minor, major;
		uint32_t sm;
		uint32_t name[2];
		uint64_t flags, zero, uncompressed;
	} head = {0xba55ed50, 1, 16, 64 + text, 1, 0x101, 64, text, 0, 0, 0, 8, 90, {0}, 1, 0, 0};
	char *image = calloc(1, sizeof(head) + text);

	assert_non_null(image);
	assert_int_equal(sizeof(head), 16 + 64);
	memcpy(image, &head, sizeof(head));
	memcpy(image + sizeof(head), emu_kernels, sizeof(emu_kernels));
	*size = sizeof(head) + text;
	return image;
}

static void the_ptx_of_a_fat_binary_is_loaded(void **state)
{
	CUmodule module;
	size_t size;
	char *image = fat_binary(&size);

	(void)state;
	ok(cuModuleLoadData(&module, image));
	free(image);
	ok(cuLaunchKernel(kernel(module, "bump"), 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL));
	ok(cuModuleUnload(module));
}

static void a_file_with_a_fat_binary_is_linked(void **state)
{
	char path[] = "/tmp/emu_fatbin_XXXXXX";
	int fd = mkstemp(path);
	size_t size, linked;
	char *image = fat_binary(&size);
	CUlinkState link;
	CUmodule module;
	void *result;

	(void)state;
	assert_int_equal(write(fd, image, size), size);
	close(fd);
	free(image);
	ok(cuLinkCreate_v2(0, NULL, NULL, &link));
	ok(cuLinkAddFile_v2(link, CU_JIT_INPUT_FATBINARY, path, 0, NULL, NULL));
	ok(cuLinkComplete(link, &result, &linked));
	ok(cuModuleLoadData(&module, result));
	ok(cuLinkDestroy(link));
	kernel(module, "bump");
	ok(cuModuleUnload(module));
	unlink(path);
}

static void bad_ptx_is_refused_with_a_message(void **state)
{
	char log[256] = "";
	CUjit_option options[2] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
	void *values[2] = {log, (void *)sizeof(log)};
	CUmodule module = NULL;

	(void)state;
	assert_int_equal(cuModuleLoadDataEx(&module, "// text\n" EMU_PTX_HEAD ".entry {", 2,
					    options, values),
			 CUDA_ERROR_INVALID_PTX);
	assert_null(module);
	assert_non_null(strstr(log, "line "));
	assert_int_equal((uintptr_t)values[1], strlen(log));
}

/* The function with it can be asked about, and only its own launch fails. */
static void an_unsupported_instruction_spoils_only_launches_of_its_kernels(void **state)
{
	static const char text[] = EMU_PTX_HEAD ".visible .entry never(.param .u64 p) {\n"
						"wgmma.fence.sync.aligned;\n"
						"ret;\n}\n"
						".visible .entry fine(.param .u64 p) {\n"
						".reg .b64 %a;\n"
						"ld.param.u64 %a, [p];\n"
						"st.global.u32 [%a], 42;\n"
						"ret;\n}\n";
	unsigned int value = 0;
	CUdeviceptr memory;
	CUmodule module;
	int threads = 0;
	void *params[] = {&memory};

	(void)state;
	ok(cuMemAlloc_v2(&memory, 4));
	ok(cuModuleLoadData(&module, text));
	ok(cuFuncGetAttribute(&threads, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK,
			      kernel(module, "never")));
	assert_int_equal(threads, 1024);
	assert_int_equal(
		cuLaunchKernel(kernel(module, "never"), 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL),
		CUDA_ERROR_NOT_SUPPORTED);
	ok(cuLaunchKernel(kernel(module, "fine"), 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL));
	ok(cuMemcpyDtoH_v2(&value, memory, 4));
	assert_int_equal(value, 42);
	ok(cuModuleUnload(module));
	ok(cuMemFree_v2(memory));
}

static void handles_of_another_kind_or_none_are_refused(void **state)
{
	CUfunction function = (CUfunction)0x10;
	CUmodule module = kernels_load();
	int value;

	(void)state;
	assert_int_equal(cuModuleGetFunction(&function, (CUmodule)0x8, "store"),
			 CUDA_ERROR_INVALID_HANDLE);
	assert_int_equal(cuModuleGetFunction(&function, *state, "store"),
			 CUDA_ERROR_INVALID_HANDLE);
	assert_int_equal(cuModuleGetFunction(&function, module, "missing"), CUDA_ERROR_NOT_FOUND);
	assert_ptr_equal(function, (CUfunction)0x10);
	assert_int_equal(cuFuncGetAttribute(&value, CU_FUNC_ATTRIBUTE_NUM_REGS, function),
			 CUDA_ERROR_INVALID_HANDLE);
	function = kernel(module, "store");
	ok(cuModuleUnload(module));
	assert_int_equal(cuModuleUnload(module), CUDA_ERROR_INVALID_HANDLE);
	assert_int_equal(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL),
			 CUDA_ERROR_INVALID_HANDLE);
}

static void arguments_are_taken_at_the_launch_in_both_forms(void **state)
{
	CUmodule module = kernels_load();
	CUfunction store = kernel(module, "store");
	struct {
		CUdeviceptr p;
		uint32_t value;
	} block;
	uint32_t value = 7, back[2] = {0};
	CUdeviceptr p, second;
	void *params[] = {&p, &value};
	size_t size = sizeof(block);
	void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &block, CU_LAUNCH_PARAM_BUFFER_SIZE, &size,
			 CU_LAUNCH_PARAM_END};

	(void)state;
	ok(cuMemAlloc_v2(&p, 8));
	ok(cuMemsetD32_v2(p, 0, 2));
	second = p + 4;
	ok(cuLaunchKernel(store, 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL));
	value = 1;
	block.p = second;
	block.value = 9;
	ok(cuLaunchKernel(store, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, extra));
	block.value = 2;
	ok(cuMemcpyDtoH_v2(back, p, 8));
	assert_int_equal(back[0], 7);
	assert_int_equal(back[1], 9);
	size = 11;
	assert_int_equal(cuLaunchKernel(store, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, extra),
			 CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(cuLaunchKernel(store, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL),
			 CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(cuLaunchKernel(store, 1, 1, 1, 1, 1, 1, 0, NULL, params, extra),
			 CUDA_ERROR_INVALID_VALUE);
	ok(cuMemFree_v2(p));
	ok(cuModuleUnload(module));
}

static void impossible_launches_are_refused_at_once(void **state)
{
	CUmodule module = kernels_load();
	CUfunction nothing = kernel(module, "nothing"), tile = kernel(module, "tile");
	CUlaunchAttribute cluster = {.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION,
				     .value.clusterDim = {2, 1, 1}};
	CUlaunchConfig config = {1, 1, 1, 1, 1, 1, 0, NULL, &cluster, 1};
	int size;

	(void)state;
	assert_int_equal(cuLaunchKernel(nothing, 0, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL),
			 CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(cuLaunchKernel(nothing, 1, 65536, 1, 1, 1, 1, 0, NULL, NULL, NULL),
			 CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(cuLaunchKernel(nothing, 1, 1, 1, 1025, 1, 1, 0, NULL, NULL, NULL),
			 CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(cuLaunchKernel(nothing, 1, 1, 1, 32, 32, 2, 0, NULL, NULL, NULL),
			 CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(cuLaunchKernel(tile, 1, 1, 1, 65, 1, 1, 0, NULL, NULL, NULL),
			 CUDA_ERROR_INVALID_VALUE);
	ok(cuLaunchKernel(tile, 1, 1, 1, 64, 1, 1, 48128, NULL, NULL, NULL));
	assert_int_equal(cuLaunchKernel(tile, 1, 1, 1, 64, 1, 1, 48129, NULL, NULL, NULL),
			 CUDA_ERROR_INVALID_VALUE);
	ok(cuFuncSetAttribute(tile, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 100000));
	ok(cuLaunchKernel(tile, 1, 1, 1, 64, 1, 1, 100000, NULL, NULL, NULL));
	assert_int_equal(
		cuFuncSetAttribute(tile, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 232448),
		CUDA_ERROR_INVALID_VALUE);
	/* clusters: the grid is a multiple of them, and they have eight blocks unless more are
	 * allowed */
	assert_int_equal(cuLaunchKernelEx(&config, nothing, NULL, NULL), CUDA_ERROR_INVALID_VALUE);
	cluster.value.clusterDim.x = 1;
	ok(cuLaunchKernelEx(&config, nothing, NULL, NULL));
	config.gridDimX = 32;
	cluster.value.clusterDim.x = 16;
	assert_int_equal(cuLaunchKernelEx(&config, nothing, NULL, NULL),
			 CUDA_ERROR_INVALID_CLUSTER_SIZE);
	ok(cuFuncSetAttribute(nothing, CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED, 1));
	ok(cuLaunchKernelEx(&config, nothing, NULL, NULL));
	cluster.value.clusterDim.x = 32;
	assert_int_equal(cuLaunchKernelEx(&config, nothing, NULL, NULL),
			 CUDA_ERROR_INVALID_CLUSTER_SIZE);
	ok(cuOccupancyMaxPotentialClusterSize(&size, nothing, &config));
	assert_int_equal(size, 16);
	cluster.value.clusterDim.x = 4;
	ok(cuOccupancyMaxActiveClusters(&size, nothing, &config));
	assert_int_equal(size, 16 * 32 / 4);
	assert_int_equal(cuLaunchCooperativeKernel(nothing, 1000, 1, 1, 1024, 1, 1, 0, NULL, NULL),
			 CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE);
	ok(cuCtxSynchronize());
	ok(cuModuleUnload(module));
}

static void a_variable_starts_with_its_value_and_kernels_change_it(void **state)
{
	CUmodule module = kernels_load();
	uint32_t value = 0;
	CUdeviceptr p;
	size_t size;

	(void)state;
	ok(cuModuleGetGlobal_v2(&p, &size, module, "counter"));
	assert_int_equal(size, 4);
	ok(cuMemcpyDtoH_v2(&value, p, 4));
	assert_int_equal(value, 5);
	ok(cuLaunchKernel(kernel(module, "bump"), 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL));
	ok(cuMemcpyDtoH_v2(&value, p, 4));
	assert_int_equal(value, 6);
	assert_int_equal(cuMemFree_v2(p), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(cuModuleGetGlobal_v2(&p, &size, module, "none"), CUDA_ERROR_NOT_FOUND);
	ok(cuModuleUnload(module));
	assert_int_equal(cuMemcpyDtoH_v2(&value, p, 4), CUDA_ERROR_INVALID_VALUE);
}

static void functions_tell_their_parameters_and_limits(void **state)
{
	CUmodule module = kernels_load();
	CUfunction store = kernel(module, "store"), tile = kernel(module, "tile");
	size_t offset, size;
	unsigned int count;
	const char *name;
	int value;

	(void)state;
	ok(cuFuncGetParamInfo(store, 1, &offset, &size));
	assert_int_equal(offset, 8);
	assert_int_equal(size, 4);
	assert_int_equal(cuFuncGetParamInfo(store, 2, &offset, &size), CUDA_ERROR_INVALID_VALUE);
	ok(cuFuncGetName(&name, store));
	assert_string_equal(name, "store");
	ok(cuFuncGetAttribute(&value, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, tile));
	assert_int_equal(value, 1024);
	ok(cuFuncGetAttribute(&value, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, tile));
	assert_int_equal(value, 64);
	ok(cuModuleGetFunctionCount(&count, module));
	assert_int_equal(count, EMU_KERNEL_COUNT);
	ok(cuModuleUnload(module));
}

/* Libraries choose by it how to launch what was compiled for the one or the other target. */
static void the_version_of_its_ptx_is_its_target(void **state)
{
	CUmodule module;
	int ptx, binary;

	(void)state;
	ok(cuModuleLoadData(&module, ".version 7.0\n.target sm_80, debug\n.address_size 64\n"
				     ".entry nothing() { ret; }\n"));
	ok(cuFuncGetAttribute(&ptx, CU_FUNC_ATTRIBUTE_PTX_VERSION, kernel(module, "nothing")));
	ok(cuFuncGetAttribute(&binary, CU_FUNC_ATTRIBUTE_BINARY_VERSION,
			      kernel(module, "nothing")));
	assert_int_equal(ptx, 80);
	assert_int_equal(binary, 90);
	ok(cuModuleUnload(module));
}

static void a_kernel_of_a_library_runs_in_each_context(void **state)
{
	CUcontext other;
	CUlibrary library;
	CUkernel bump;
	uint32_t value;
	CUdeviceptr a, b;

	ok(cuLibraryLoadData(&library, emu_kernels, NULL, NULL, 0, NULL, NULL, 0));
	ok(cuLibraryGetKernel(&bump, library, "bump"));
	ok(cuLaunchKernel((CUfunction)bump, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL));
	ok(cuLaunchKernel((CUfunction)bump, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL));
	ok(cuLibraryGetGlobal(&a, NULL, library, "counter"));
	ok(cuCtxCreate_v2(&other, 0, 1));
	ok(cuLaunchKernel((CUfunction)bump, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL));
	ok(cuLibraryGetGlobal(&b, NULL, library, "counter"));
	assert_int_not_equal(a, b);
	ok(cuMemcpyDtoH_v2(&value, b, 4));
	assert_int_equal(value, 6);
	ok(cuCtxSetCurrent(*state));
	ok(cuMemcpyDtoH_v2(&value, a, 4));
	assert_int_equal(value, 7);
	ok(cuCtxDestroy_v2(other));
	ok(cuLibraryUnload(library));
	assert_int_equal(cuLaunchKernel((CUfunction)bump, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL),
			 CUDA_ERROR_INVALID_HANDLE);
	assert_int_equal(cuMemcpyDtoH_v2(&value, a, 4), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(cuLibraryUnload(library), CUDA_ERROR_INVALID_HANDLE);
}

static void a_kernels_setting_holds_for_its_functions(void **state)
{
	CUlibrary library;
	CUfunction function;
	CUkernel tile;
	int value;

	(void)state;
	ok(cuLibraryLoadData(&library, emu_kernels, NULL, NULL, 0, NULL, NULL, 0));
	ok(cuLibraryGetKernel(&tile, library, "tile"));
	ok(cuKernelSetAttribute(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 60000, tile, 0));
	ok(cuKernelGetFunction(&function, tile));
	ok(cuFuncGetAttribute(&value, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, function));
	assert_int_equal(value, 60000);
	ok(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 60000, NULL, NULL, NULL));
	ok(cuCtxSynchronize());
	ok(cuLibraryUnload(library));
}

static void occupancy_follows_threads_and_shared_memory(void **state)
{
	CUmodule module = kernels_load();
	CUfunction nothing = kernel(module, "nothing"), tile = kernel(module, "tile");
	int blocks, grid, size;
	size_t shared;

	(void)state;
	ok(cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, nothing, 1024, 0));
	assert_in_range(blocks, 1, 2);
	ok(cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, nothing, 32, 40000));
	assert_int_equal(blocks, 5);
	ok(cuOccupancyMaxPotentialBlockSize(&grid, &size, tile, NULL, 0, 0));
	assert_int_equal(size, 64);
	assert_int_equal(grid % 16, 0);
	ok(cuOccupancyAvailableDynamicSMemPerBlock(&shared, tile, 2, 64));
	assert_int_equal(shared, 233472 / 2 - 1024 - 1024);
	assert_int_equal(cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, nothing, 0, 0),
			 CUDA_ERROR_INVALID_VALUE);
	ok(cuModuleUnload(module));
}

/* A kernel whose threads have @registers registers each, or a few more, and @bounds. */
static CUfunction bounded_kernel(CUmodule *module, int registers, const char *bounds)
{
	char text[16384];
	int n = snprintf(text, sizeof(text),
			 EMU_PTX_HEAD ".visible .entry wide()\n%s\n{\n"
				      ".reg .b32 %%r<%d>;\n",
			 bounds, registers);

	for (int i = 0; i < registers; i++)
		n += snprintf(text + n, sizeof(text) - (size_t)n, "mov.u32 %%r%d, %d;\n", i, i);
	snprintf(text + n, sizeof(text) - (size_t)n, "ret;\n}\n");
	ok(cuModuleLoadData(module, text));
	return kernel(*module, "wide");
}

/* The same, in blocks of 256 at most. */
static CUfunction kernel_of(CUmodule *module, int registers)
{
	return bounded_kernel(module, registers, ".maxntid 256, 1, 1");
}

/*
 * The guide's rules for compute capability 9.0: a warp's registers are handed out in units of 256,
 * and each quarter of a multiprocessor has 16384 for its own warps.
 */
static void occupancy_counts_registers_in_each_quarter(void **state)
{
	static const int wide[] = {40, 72, 104, 150, 200};
	CUmodule module;

	(void)state;
	for (size_t i = 0; i < CK_ARRAY_SIZE(wide); i++) {
		CUfunction function = kernel_of(&module, wide[i]);
		int blocks, registers, each;

		ok(cuFuncGetAttribute(&registers, CU_FUNC_ATTRIBUTE_NUM_REGS, function));
		assert_in_range(registers, wide[i], 255);
		each = (registers * 32 + 255) / 256 * 256;
		for (int warps = 1; warps <= 8; warps++) {
			int want = 16384 / each * 4 / warps;

			if (each * ((warps + 3) / 4 * 4) > 65536)
				want = 0;
			want = ck_min(want, ck_min(64 / warps, 32));
			ok(cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, function,
								       32 * warps, 0));
			assert_int_equal(blocks, want);
		}
		ok(cuModuleUnload(module));
	}
}

/* However many registers a kernel has: the blocks that it is declared for can be launched. */
static void the_largest_block_always_fits(void **state)
{
	CUmodule module;
	char bounds[80];
	int blocks, registers;

	(void)state;
	for (int threads = 32; threads <= 1024; threads += 32) {
		for (int least = 1; least * threads <= 2048 && least <= 32; least *= 2) {
			CUfunction function;

			snprintf(bounds, sizeof(bounds), ".maxntid %d, 1, 1 .minnctapersm %d",
				 threads, least);
			function = bounded_kernel(&module, 300, bounds);
			ok(cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, function, threads,
								       0));
			assert_true(blocks >= least);
			ok(cuModuleUnload(module));
		}
	}
	ok(cuFuncGetAttribute(&registers, CU_FUNC_ATTRIBUTE_NUM_REGS,
			      bounded_kernel(&module, 300, ".maxnreg 40")));
	assert_int_equal(registers, 40);
	ok(cuModuleUnload(module));
}

/* deep(p, n): *p = n + (n - 1) + ... by a function that calls itself, with 64 bytes a frame. */
static const char deep_text[] = EMU_PTX_HEAD ".func (.param .b32 r) sum(.param .b32 n)\n"
					     "{\n"
					     "	.local .align 8 .b8 room[64];\n"
					     "	.reg .pred %p<2>;\n"
					     "	.reg .b32 %r<5>;\n"
					     "	ld.param.b32 %r1, [n];\n"
					     "	mov.b32 %r2, 0;\n"
					     "	setp.eq.s32 %p1, %r1, 0;\n"
					     "	@%p1 bra end;\n"
					     "	st.local.b32 [room], %r1;\n"
					     "	add.s32 %r3, %r1, -1;\n"
					     "	{\n"
					     "	.param .b32 a;\n"
					     "	.param .b32 b;\n"
					     "	st.param.b32 [a], %r3;\n"
					     "	call.uni (b), sum, (a);\n"
					     "	ld.param.b32 %r4, [b];\n"
					     "	}\n"
					     "	ld.local.b32 %r1, [room];\n"
					     "	add.s32 %r2, %r1, %r4;\n"
					     "end:\n"
					     "	st.param.b32 [r], %r2;\n"
					     "	ret;\n"
					     "}\n"
					     ".visible .entry deep(.param .u64 p, .param .b32 n)\n"
					     "{\n"
					     "	.reg .b64 %rd<2>;\n"
					     "	.reg .b32 %r<3>;\n"
					     "	ld.param.u64 %rd1, [p];\n"
					     "	ld.param.b32 %r1, [n];\n"
					     "	{\n"
					     "	.param .b32 a;\n"
					     "	.param .b32 b;\n"
					     "	st.param.b32 [a], %r1;\n"
					     "	call.uni (b), sum, (a);\n"
					     "	ld.param.b32 %r2, [b];\n"
					     "	}\n"
					     "	st.global.b32 [%rd1], %r2;\n"
					     "	ret;\n"
					     "}\n";

static void a_recursion_gets_the_stack_that_was_asked_for(void **state)
{
	CUdeviceptr p;
	uint32_t n = 1000, back = 0;
	void *params[] = {&p, &n};
	CUcontext fresh;
	CUmodule module;

	(void)state;
	ok(cuCtxCreate_v2(&fresh, 0, 0));
	ok(cuModuleLoadData(&module, deep_text));
	ok(cuMemAlloc_v2(&p, 4));
	ok(cuCtxSetLimit(CU_LIMIT_STACK_SIZE, 256 << 10));
	ok(cuLaunchKernel(kernel(module, "deep"), 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL));
	ok(cuMemcpyDtoH_v2(&back, p, 4));
	assert_int_equal(back, 1000 * 1001 / 2);
	ok(cuCtxSetLimit(CU_LIMIT_STACK_SIZE, 1024));
	ok(cuLaunchKernel(kernel(module, "deep"), 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL));
	assert_int_not_equal(cuCtxSynchronize(), CUDA_SUCCESS);
	ok(cuCtxDestroy_v2(fresh));
}

static void a_fault_stays_with_its_context(void **state)
{
	CUdeviceptr p = 64;
	uint32_t value = 1;
	void *params[] = {&p, &value};
	CUcontext broken;
	CUmodule module;
	CUresult fault;

	(void)state;
	ok(cuCtxCreate_v2(&broken, 0, 0));
	module = kernels_load();
	ok(cuLaunchKernel(kernel(module, "store"), 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL));
	fault = cuCtxSynchronize();
	assert_int_equal(fault, CUDA_ERROR_ILLEGAL_ADDRESS);
	assert_int_equal(cuMemAlloc_v2(&p, 16), fault);
	assert_int_equal(cuStreamSynchronize(NULL), fault);
	ok(cuCtxDestroy_v2(broken));
	/* the context below it on the stack is as well as before */
	ok(cuMemAlloc_v2(&p, 16));
	ok(cuMemFree_v2(p));
}

static void a_kernel_reaches_a_peers_memory_only_when_enabled(void **state)
{
	CUmodule module = kernels_load();
	CUfunction store = kernel(module, "store");
	uint32_t value = 3, back = 0;
	CUcontext peer;
	CUdeviceptr p;
	void *params[] = {&p, &value};

	ok(cuCtxCreate_v2(&peer, 0, 1));
	ok(cuMemAlloc_v2(&p, 4));
	ok(cuCtxSetCurrent(*state));
	ok(cuCtxEnablePeerAccess(peer, 0));
	ok(cuLaunchKernel(store, 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL));
	ok(cuCtxSynchronize());
	ok(cuMemcpyDtoH_v2(&back, p, 4));
	assert_int_equal(back, 3);
	ok(cuCtxDisablePeerAccess(peer));
	ok(cuLaunchKernel(store, 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL));
	assert_int_equal(cuCtxSynchronize(), CUDA_ERROR_ILLEGAL_ADDRESS);
	ok(cuCtxDestroy_v2(peer));
}

static void what_kernels_print_appears_at_the_next_synchronisation(void **state)
{
	struct ck_emu_context *context = *state;
	int pipe_ends[2], saved = dup(1);
	char text[32] = "";

	assert_int_equal(pipe(pipe_ends), 0);
	dup2(pipe_ends[1], 1);
	ck_emu_print(context, "hello\n", 6);
	assert_int_equal(context->print_size, 6);
	ok(cuCtxSynchronize());
	dup2(saved, 1);
	assert_int_equal(read(pipe_ends[0], text, sizeof(text) - 1), 6);
	assert_string_equal(text, "hello\n");
	close(saved);
	close(pipe_ends[0]);
	close(pipe_ends[1]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		in_context(images_that_are_no_ptx_are_told_apart),
		in_context(the_ptx_of_a_fat_binary_is_loaded),
		in_context(a_file_with_a_fat_binary_is_linked),
		in_context(bad_ptx_is_refused_with_a_message),
		in_context(an_unsupported_instruction_spoils_only_launches_of_its_kernels),
		in_context(handles_of_another_kind_or_none_are_refused),
		in_context(arguments_are_taken_at_the_launch_in_both_forms),
		in_context(impossible_launches_are_refused_at_once),
		in_context(a_variable_starts_with_its_value_and_kernels_change_it),
		in_context(functions_tell_their_parameters_and_limits),
		in_context(the_version_of_its_ptx_is_its_target),
		in_context(a_kernel_of_a_library_runs_in_each_context),
		in_context(a_kernels_setting_holds_for_its_functions),
		in_context(occupancy_follows_threads_and_shared_memory),
		in_context(occupancy_counts_registers_in_each_quarter),
		in_context(the_largest_block_always_fits),
		in_context(a_recursion_gets_the_stack_that_was_asked_for),
		in_context(a_fault_stays_with_its_context),
		in_context(a_kernel_reaches_a_peers_memory_only_when_enabled),
		in_context(what_kernels_print_appears_at_the_next_synchronisation),
	};

	return cmocka_run_group_tests(tests, devices_setup, NULL);
}
