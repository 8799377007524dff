/*
 * tests/unit/test_server_lease_press.c - a session that waits for memory of others.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "gen/handlers.h"
#include "server/memory/lease.h"
#include "server/session/session.h"
#include "util/until.h"

#define MIB ((size_t)1 << 20)

/* Free memory at each look, in MiB; all later looks see the last value. */
static size_t looks[8], look_count, look;
static struct cks_session session;
static unsigned int requests, withdrawn;

static CUresult info(size_t *free, size_t *total)
{
	*free = looks[look] * MIB;
	*total = 64 * MIB;
	if (look + 1 < look_count)
		look++;
	return CUDA_SUCCESS;
}

static int press(bool waits)
{
	requests += waits;
	withdrawn += !waits;
	return 0;
}

static int refuse(bool waits)
{
	requests += waits;
	if (waits)
		cks_lease_alone(&session);
	return 0;
}

static int make(void **state)
{
	(void)state;
	session = (struct cks_session){.press = press};
	look = look_count = requests = 0;
	ck_driver.cuMemGetInfo_v2 = info;
	return cks_leases_create(&session.leases);
}

static int drop(void **state)
{
	(void)state;
	cks_leases_destroy(session.leases);
	return 0;
}

static void show(size_t free)
{
	looks[look_count++] = free;
}

static bool gets(size_t mib)
{
	struct cks_request q = {.session = &session};
	ck_lease_press_args args = {.size = mib * MIB};
	ck_lease_press_res res = {0};

	assert_int_equal(ck_serve_lease_press(&q, &args, &res), CUDA_SUCCESS);
	return res.more;
}

static void memory_that_is_free_is_taken(void **state)
{
	(void)state;
	show(4); /* before */
	show(14);
	assert_true(gets(10));
	assert_int_equal(requests, 1);
}

/* One that returns at the same moment is faster. */
static void it_asks_again_if_another_takes_what_was_free(void **state)
{
	(void)state;
	show(4);
	show(14);
	show(4); /* when it would be taken */
	show(14);
	assert_true(gets(10));
	assert_int_equal(requests, 2);
}

static void a_refusal_is_an_end(void **state)
{
	(void)state;
	session.press = refuse;
	show(4);
	assert_false(gets(10));
	assert_int_equal(requests, 1);
}

static unsigned int left; /* looks until the server answers */

/* The server is slow, and another session leaves for this one at last. */
static CUresult info_late(size_t *free, size_t *total)
{
	*total = 64 * MIB;
	*free = left > 0 ? 4 * MIB : 14 * MIB;
	if (left > 0 && --left == 0)
		cks_lease_made(&session);
	return CUDA_SUCCESS;
}

static void a_late_answer_is_awaited(void **state)
{
	(void)state;
	ck_driver.cuMemGetInfo_v2 = info_late;
	left = 1000;
	assert_true(gets(14));
	assert_int_equal(requests, 1);
}

/* None leaves: only what others return may come. */
static int stay(bool waits)
{
	requests += waits;
	if (waits)
		cks_lease_refused(&session);
	return 0;
}

static void without_a_session_that_leaves_the_wait_is_short(void **state)
{
	int64_t begin = ck_now_ms();

	(void)state;
	session.press = stay;
	show(4);
	assert_false(gets(10));
	assert_int_equal(requests, 1);
	assert_in_range(ck_now_ms() - begin, 200, 9000);
}

static void another_thread_s_request_goes_on(void **state)
{
	(void)state;
	session.leases->askers = 1; /* it waits */
	withdrawn = 0;
	show(4);
	show(14);
	assert_true(gets(10));
	assert_int_equal(withdrawn, 0);
	session.leases->askers = 0;
	look = 0;
	assert_true(gets(10));
	assert_int_equal(withdrawn, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(memory_that_is_free_is_taken, make, drop),
		cmocka_unit_test_setup_teardown(it_asks_again_if_another_takes_what_was_free, make,
						drop),
		cmocka_unit_test_setup_teardown(a_refusal_is_an_end, make, drop),
		cmocka_unit_test_setup_teardown(a_late_answer_is_awaited, make, drop),
		cmocka_unit_test_setup_teardown(without_a_session_that_leaves_the_wait_is_short,
						make, drop),
		cmocka_unit_test_setup_teardown(another_thread_s_request_goes_on, make, drop),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
