/*
 * tests/unit/test_server_faults.c - which kernels are named when one has failed, where the driver
 * does not tell.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include "gen/handlers.h"
#include "server/session/faults.h"
#include "server_fake.h"
#include "tests/unit/server_session.h"

#define FIRST 100 /* ids of kernels, from here on */
#define KERNELS 90
#define CONTEXT 5

static struct cks_session *session;
static char said[4096];

static int begin(void **state)
{
	(void)state;
	fake_install();
	session = session_without_client();
	for (uint64_t id = 77; id <= 78; id++) { /* streams */
		struct cks_request q = {.session = session};

		assert_int_equal(cks_handle_put(&q, id, CK_KIND_STREAM, &said[id]), CUDA_SUCCESS);
	}
	for (int i = 0; i < KERNELS; i++) {
		char name[16];

		snprintf(name, sizeof(name), "k%d", i);
		cks_faults_name(session, (uint64_t)(FIRST + i), name);
	}
	return 0;
}

static int end(void **state)
{
	(void)state;
	cks_session_destroy(session);
	return 0;
}

static void launch(int kernel, uint64_t stream)
{
	cks_faults_launch(session, (uint64_t)(FIRST + kernel), stream);
}

static CUresult succeed(void)
{
	return CUDA_SUCCESS;
}

static CUresult succeed_for(CUstream stream)
{
	(void)stream;
	return CUDA_SUCCESS;
}

static void wait_for_context(void)
{
	struct cks_request q = {.session = session};
	cuCtxSynchronize_args a = {0};
	cuCtxSynchronize_res r = {0};

	ck_driver.cuCtxSynchronize = succeed;
	assert_int_equal(ck_serve_cuCtxSynchronize(&q, &a, &r), CUDA_SUCCESS);
}

static void wait_for_stream(uint64_t stream)
{
	struct cks_request q = {.session = session};
	cuStreamSynchronize_args a = {.hStream = stream};
	cuStreamSynchronize_res r = {0};

	ck_driver.cuStreamSynchronize = succeed_for;
	assert_int_equal(ck_serve_cuStreamSynchronize(&q, &a, &r), CUDA_SUCCESS);
}

/* What the program sees at its stderr. */
static const char *tell(const char *call, uint64_t context, CUresult err)
{
	int ends[2], was = dup(STDERR_FILENO);
	ssize_t n;

	assert_int_equal(pipe(ends), 0);
	dup2(ends[1], STDERR_FILENO);
	cks_faults_report(session, call, context, err);
	dup2(was, STDERR_FILENO);
	close(was);
	close(ends[1]);
	n = read(ends[0], said, sizeof(said) - 1);
	close(ends[0]);
	assert_true(n >= 0);
	said[n] = 0;
	return said;
}

static void must_end_with(const char *text, const char *end)
{
	size_t n = strlen(text), m = strlen(end);

	assert_true(n >= m);
	assert_string_equal(text + n - m, end);
}

static void one_launch_is_the_cause(void **state)
{
	(void)state;
	launch(3, 0);
	tell("cuCtxSynchronize", CONTEXT, CUDA_ERROR_ILLEGAL_ADDRESS);
	assert_memory_equal(said,
			    "cricket: cuCtxSynchronize reports CUDA_ERROR_ILLEGAL_ADDRESS: ", 61);
	must_end_with(said, "Cause: kernel k3\n");
}

static void of_several_each_is_named_once(void **state)
{
	(void)state;
	launch(1, 0);
	launch(2, 77);
	launch(1, 0);
	must_end_with(tell("ck_download", CONTEXT, CUDA_ERROR_LAUNCH_FAILED),
		      "one of: kernel k1, kernel k2 (stream 77); CUDA_LAUNCH_BLOCKING=1 finds out "
		      "which\n");
	assert_non_null(
		strstr(said, "cricket: a call that waits reports CUDA_ERROR_LAUNCH_FAILED"));
}

static void what_a_wait_has_covered_is_no_cause(void **state)
{
	(void)state;
	launch(1, 0);
	launch(2, 77);
	wait_for_context();
	launch(3, 77);
	launch(4, 78);
	wait_for_stream(77);
	must_end_with(tell("cuCtxSynchronize", CONTEXT, CUDA_ERROR_ILLEGAL_ADDRESS),
		      "Cause: kernel k4 (stream 78)\n");
}

static void a_wait_for_one_stream_says_nothing_of_others(void **state)
{
	(void)state;
	launch(1, 77);
	wait_for_stream(78);
	must_end_with(tell("cuCtxSynchronize", CONTEXT, CUDA_ERROR_ILLEGAL_ADDRESS),
		      "Cause: kernel k1 (stream 77)\n");
}

static void a_graph_may_be_the_cause(void **state)
{
	(void)state;
	cks_faults_launch(session, 0, 0);
	must_end_with(tell("cuCtxSynchronize", CONTEXT, CUDA_ERROR_ILLEGAL_ADDRESS),
		      "Cause: a graph\n");
}

static void only_the_last_launches_are_kept_and_some_named(void **state)
{
	(void)state;
	for (int i = 0; i < KERNELS; i++)
		launch(i, 0);
	tell("cuCtxSynchronize", CONTEXT, CUDA_ERROR_ILLEGAL_ADDRESS);
	assert_null(strstr(said, "k25,"));
	assert_non_null(strstr(said, "kernel k33, and others; "));
	assert_non_null(strstr(said, "one of: kernel k26, kernel k27, "));
}

static void of_two_kernels_in_one_place_the_later_has_a_name(void **state)
{
	(void)state;
	cks_faults_name(session, FIRST + 1 + CK_NAMED, "later");
	launch(1 + CK_NAMED, 0);
	must_end_with(tell("cuCtxSynchronize", CONTEXT, CUDA_ERROR_ILLEGAL_ADDRESS),
		      "Cause: kernel later\n");
	wait_for_context();
	launch(1, 0);
	must_end_with(tell("cuCtxSynchronize", CONTEXT + 1, CUDA_ERROR_ILLEGAL_ADDRESS),
		      "Cause: kernel ?\n");
}

static void a_fault_is_told_once_a_context(void **state)
{
	(void)state;
	launch(1, 0);
	assert_true(strlen(tell("cuCtxSynchronize", CONTEXT, CUDA_ERROR_ILLEGAL_ADDRESS)) > 0);
	assert_string_equal(tell("cuCtxSynchronize", CONTEXT, CUDA_ERROR_ILLEGAL_ADDRESS), "");
	assert_true(strlen(tell("cuCtxSynchronize", CONTEXT + 1, CUDA_ERROR_ILLEGAL_ADDRESS)) > 0);
}

static void what_is_no_kernels_or_told_already_is_left_out(void **state)
{
	(void)state;
	launch(1, 0);
	assert_string_equal(tell("cuCtxSynchronize", CONTEXT, CUDA_ERROR_ECC_UNCORRECTABLE), "");
	assert_string_equal(tell("cuCtxSynchronize", CONTEXT, CUDA_ERROR_ASSERT), "");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(one_launch_is_the_cause, begin, end),
		cmocka_unit_test_setup_teardown(of_several_each_is_named_once, begin, end),
		cmocka_unit_test_setup_teardown(what_a_wait_has_covered_is_no_cause, begin, end),
		cmocka_unit_test_setup_teardown(a_wait_for_one_stream_says_nothing_of_others, begin,
						end),
		cmocka_unit_test_setup_teardown(a_graph_may_be_the_cause, begin, end),
		cmocka_unit_test_setup_teardown(only_the_last_launches_are_kept_and_some_named,
						begin, end),
		cmocka_unit_test_setup_teardown(of_two_kernels_in_one_place_the_later_has_a_name,
						begin, end),
		cmocka_unit_test_setup_teardown(a_fault_is_told_once_a_context, begin, end),
		cmocka_unit_test_setup_teardown(what_is_no_kernels_or_told_already_is_left_out,
						begin, end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
