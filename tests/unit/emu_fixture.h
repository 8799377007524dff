/*
 * tests/unit/emu_fixture.h - what the tests of the emulated driver share: two devices of 64 MiB, a
 * context, the kernels of emu_kernels.h.
 */
#ifndef CK_TESTS_EMU_FIXTURE_H
#define CK_TESTS_EMU_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "emu/core/emu.h"
#include "tests/unit/emu_kernels.h"

#define ok(call) assert_int_equal(call, CUDA_SUCCESS)
#define in_context(f) cmocka_unit_test_setup_teardown(f, context_setup, context_teardown)

#define MEMORY (64ul << 20) /* bytes of each device */

static inline int devices_setup(void **state)
{
	(void)state;
	setenv("CRICKET_EMU", "devices=2,memory=64M", 1);
	unsetenv("CUDA_VISIBLE_DEVICES");
	return cuInit(0) == CUDA_SUCCESS ? 0 : -1;
}

static inline int context_setup(void **state)
{
	CUcontext context;

	if (cuCtxCreate_v2(&context, 0, 0))
		return -1;
	*state = context;
	return 0;
}

static inline int context_teardown(void **state)
{
	return cuCtxDestroy_v2(*state) ? -1 : 0;
}

static inline CUmodule kernels_load(void)
{
	CUmodule module = NULL;

	ok(cuModuleLoadData(&module, emu_kernels));
	return module;
}

static inline CUfunction kernel(CUmodule module, const char *name)
{
	CUfunction function = NULL;

	ok(cuModuleGetFunction(&function, module, name));
	return function;
}

#endif
