/*
 * tests/unit/test_server_account_release.c - the account of an identity between two releases: a
 * worker of the older one maps the file of the newer one's supervisor, and the other way round.
 *
 * The later release is account.c once more, with a further term and other names for its functions.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <unistd.h>

#include <cmocka.h>

#include "server/policy/account.h"

#define MIB ((uint64_t)1 << 20)
#define SEATS 3

/* --- the later release */

#define LATER_UNSET 7
#define cks_terms later_terms
#define cks_account later_account
#define cks_terms_none later_terms_none
#define cks_account_create later_create
#define cks_account_change later_change
#define cks_account_take_seat later_take_seat
#define cks_account_leave_seat later_leave_seat
#define cks_account_map later_map
#define cks_account_view later_view
#define cks_account_look later_look
#define cks_account_terms later_terms_of
#define cks_account_limit later_limit
#define cks_account_context_limit later_context_limit
#define cks_account_left later_left
#define cks_account_has later_has
#define cks_account_device later_device
#define cks_account_charge later_charge
#define cks_account_move later_move
#define cks_account_refund later_refund
#define cks_account_used later_used
#define cks_account_unmap later_unmap
#define CK_TERMS_OF_LATER_RELEASE                                                                  \
	CK_TERM("later", number, uint32_t, later, LATER_UNSET, BOUNDS(0, 9), LATER, "", "")
#undef CK_SERVER_POLICY_ACCOUNT_H
#undef CK_SERVER_POLICY_TERMS_H
#include "server/policy/terms.c"
#undef CK_SERVER_POLICY_ACCOUNT_H
#include "server/policy/account.c"
#undef cks_terms
#undef cks_account
#undef cks_terms_none
#undef cks_account_create
#undef cks_account_change
#undef cks_account_take_seat
#undef cks_account_map
#undef cks_account_terms
#undef cks_account_limit
#undef cks_account_device
#undef cks_account_charge
#undef cks_account_used
#undef cks_account_unmap

static const unsigned char gpu[16] = {1};

static void a_worker_of_the_older_release_counts_in_the_newer_supervisors_account(void **state)
{
	struct later_terms terms = later_terms_none();
	struct later_account *made, *newer;
	struct cks_account *older;
	struct cks_terms seen;
	int fd, device;

	(void)state;
	terms.memory = 100 * MIB;
	terms.later = 5;
	fd = later_create(&terms, SEATS, &made);
	assert_true(fd >= 0);
	assert_int_equal(later_take_seat(made), 0);
	assert_int_equal(later_take_seat(made), 1);
	assert_int_equal(later_take_seat(made), 2);
	assert_int_equal(cks_account_map(fd, SEATS, &older), -EPROTO);
	assert_int_equal(cks_account_map(fd, 2, &older), 0);
	cks_account_terms(older, &seen);
	assert_int_equal(seen.memory, 100 * MIB);
	assert_string_equal(seen.gpus, "");
	device = cks_account_device(older, gpu);
	assert_true(cks_account_charge(older, 2, device, 60 * MIB,
				       cks_account_limit(older, 1000 * MIB)));
	assert_int_equal(later_map(fd, 1, &newer), 0);
	assert_int_equal(later_device(newer, gpu), device);
	assert_false(later_charge(newer, 1, device, 60 * MIB, later_limit(newer, 1000 * MIB)));
	/* the last seat has not written into the terms behind it */
	later_terms_of(newer, &terms);
	assert_int_equal(terms.later, 5);
	terms.later = 6;
	terms.memory = 200 * MIB;
	later_change(made, &terms);
	later_terms_of(newer, &terms);
	assert_int_equal(terms.later, 6);
	assert_int_equal(cks_account_limit(older, 1000 * MIB), 200 * MIB);
	later_unmap(newer);
	cks_account_unmap(older);
	later_unmap(made);
	close(fd);
}

static void
a_worker_of_the_newer_release_has_the_usual_value_of_a_term_that_is_not_there(void **state)
{
	struct cks_terms terms = cks_terms_none();
	struct cks_account *made;
	struct later_account *newer;
	struct later_terms seen;
	int fd;

	(void)state;
	terms.bandwidth = MIB;
	fd = cks_account_create(&terms, SEATS, &made);
	assert_true(fd >= 0);
	assert_int_equal(later_map(fd, 2, &newer), 0);
	later_terms_of(newer, &seen);
	assert_int_equal(seen.bandwidth, MIB);
	assert_int_equal(seen.later, LATER_UNSET);
	later_change(newer, &seen); /* writes nothing outside the file */
	later_unmap(newer);
	cks_account_unmap(made);
	close(fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(
			a_worker_of_the_older_release_counts_in_the_newer_supervisors_account),
		cmocka_unit_test(
			a_worker_of_the_newer_release_has_the_usual_value_of_a_term_that_is_not_there),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
