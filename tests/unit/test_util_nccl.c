/*
 * tests/unit/test_util_nccl.c - where NCCL runs.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "util/nccl.h"

static void a_word_decides(void **state)
{
	(void)state;
	assert_int_equal(ck_nccl_in_workers("workers", "a"), 1);
	assert_int_equal(ck_nccl_in_workers("program", "a,b"), 0);
	assert_int_equal(ck_nccl_in_workers("Workers", "a,b"), -EINVAL);
	assert_int_equal(ck_nccl_in_workers("1", NULL), -EINVAL);
}

static void without_one_several_servers_do(void **state)
{
	static const char *const words[] = {NULL, "", "auto"};

	(void)state;
	for (size_t i = 0; i < 3; i++) {
		assert_int_equal(ck_nccl_in_workers(words[i], NULL), 0);
		assert_int_equal(ck_nccl_in_workers(words[i], ""), 0);
		assert_int_equal(ck_nccl_in_workers(words[i], "gpu1:9910"), 0);
		assert_int_equal(ck_nccl_in_workers(words[i], "gpu1/0,1"), 0);
		assert_int_equal(ck_nccl_in_workers(words[i], "gpu1,gpu2"), 1);
		assert_int_equal(ck_nccl_in_workers(words[i], "gpu1/0,gpu2/0"), 1);
		assert_int_equal(ck_nccl_in_workers(words[i], "gpu1,,"),
				 0); /* cuInit says what is wrong */
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_word_decides),
		cmocka_unit_test(without_one_several_servers_do),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
