/*
 * tests/unit/test_client_printing.c - at exit, the client asks for what kernels have printed only
 * if some of them may have printed since the last wait in their stream.
 */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "client/modules/state.h"
#include "client/link/hooks.h"
#include "tests/unit/client_peer.h"
#include "tests/unit/elf_data.h"

static CUfunction talks, silent;
static CUstream streams[2];

static CUmodule modules[4];
static size_t module_count;

static CUfunction load(const char *file, const char *name)
{
	struct elf_data data = elf_data_read(file);
	CUfunction f = NULL;
	CUmodule module;

	assert_true(module_count < CK_ARRAY_SIZE(modules));
	assert_int_equal(cuModuleLoadData(&module, data.bytes), CUDA_SUCCESS);
	assert_int_equal(cuModuleGetFunction(&f, module, name), CUDA_SUCCESS);
	elf_data_free(&data);
	modules[module_count++] = module;
	return f;
}

static bool may_have_printed(void)
{
	bool may = false;

	ckc_each_hook(exit, h) may |= h->run(ckc_client_current());
	return may;
}

static void launch(CUfunction f, CUstream stream)
{
	int number = 42;
	void *params[] = {&number};

	assert_int_equal(cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, stream, params, NULL),
			 CUDA_SUCCESS);
}

/* Each test begins with nothing that may have printed. */
static int begin(void **state)
{
	(void)state;
	ckc_client_current()->modules->printing.number = 0;
	ckc_client_current()->modules->printing.scattered = false;
	return 0;
}

static void kernels_that_cannot_print_do_not(void **state)
{
	(void)state;
	launch(silent, NULL);
	assert_false(may_have_printed());
}

static void a_kernel_that_prints_does_until_its_stream_is_waited_for(void **state)
{
	(void)state;
	launch(talks, streams[0]);
	assert_true(may_have_printed());
	assert_int_equal(cuStreamSynchronize(streams[1]), CUDA_SUCCESS);
	assert_true(may_have_printed());
	assert_int_equal(cuStreamSynchronize(streams[0]), CUDA_SUCCESS);
	assert_false(may_have_printed());
	launch(silent, streams[0]);
	assert_false(may_have_printed());
}

static void the_wait_of_the_last_stream_does_not_cover_another(void **state)
{
	(void)state;
	launch(talks, streams[0]);
	launch(talks, streams[1]);
	assert_int_equal(cuStreamSynchronize(streams[1]), CUDA_SUCCESS);
	assert_true(may_have_printed());
}

static void streams_that_were_waited_for_in_turn_are_covered(void **state)
{
	(void)state;
	for (int i = 0; i < 2; i++) {
		launch(talks, streams[i]);
		assert_int_equal(cuStreamSynchronize(streams[i]), CUDA_SUCCESS);
	}
	assert_false(may_have_printed());
}

static void the_wait_of_a_context_covers_its_last_kernel(void **state)
{
	(void)state;
	launch(talks, NULL);
	assert_int_equal(cuCtxSynchronize(), CUDA_SUCCESS);
	assert_false(may_have_printed());
}

static void a_stream_that_ends_unwaited_is_not_covered(void **state)
{
	CUstream stream;

	(void)state;
	assert_int_equal(cuStreamCreate(&stream, 0), CUDA_SUCCESS);
	launch(talks, stream);
	assert_int_equal(cuStreamDestroy_v2(stream), CUDA_SUCCESS);
	assert_true(may_have_printed());
}

static int group_begin(void **state)
{
	if (peer_begin(state) < 0)
		return -1;
	talks = load("printf_sm_90.cubin", "talks");
	silent = load("sm_90.cubin", "no_args");
	return cuStreamCreate(&streams[0], 0) || cuStreamCreate(&streams[1], 0);
}

#define printing_test(name) cmocka_unit_test_setup(name, begin)

static int group_end(void **state)
{
	while (module_count > 0)
		cuModuleUnload(modules[--module_count]);
	return peer_end(state);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		printing_test(kernels_that_cannot_print_do_not),
		printing_test(a_kernel_that_prints_does_until_its_stream_is_waited_for),
		printing_test(the_wait_of_the_last_stream_does_not_cover_another),
		printing_test(streams_that_were_waited_for_in_turn_are_covered),
		printing_test(the_wait_of_a_context_covers_its_last_kernel),
		printing_test(a_stream_that_ends_unwaited_is_not_covered),
	};

	return cmocka_run_group_tests(tests, group_begin, group_end);
}
