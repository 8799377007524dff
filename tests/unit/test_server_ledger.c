/*
 * tests/unit/test_server_ledger.c - what identities have used: a row for each, and an end to their
 * number.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "server/rules/ledger.h"

static void a_name_keeps_its_row(void **state)
{
	struct cks_ledger ledger = {.rows = NULL};

	(void)state;
	cks_ledger_row(&ledger, "alice")->gpu_us = 5;
	cks_ledger_row(&ledger, "bob")->gpu_us = 7;
	assert_int_equal(cks_ledger_row(&ledger, "alice")->gpu_us, 5);
	assert_int_equal(cks_ledger_row(&ledger, "bob")->gpu_us, 7);
	assert_int_equal(ledger.count, 2);
	cks_ledger_free(&ledger);
	assert_int_equal(ledger.count, 0);
}

static void further_names_share_the_last_row(void **state)
{
	struct cks_ledger ledger = {.rows = NULL};
	char name[32];

	(void)state;
	for (int i = 0; i < CK_LEDGER_MOST + 50; i++) {
		snprintf(name, sizeof(name), "address %d", i);
		cks_ledger_row(&ledger, name)->sessions++;
	}
	assert_int_equal(ledger.count, CK_LEDGER_MOST);
	assert_string_equal(ledger.rows[CK_LEDGER_MOST - 1].name, "others");
	assert_int_equal(ledger.rows[CK_LEDGER_MOST - 1].sessions, 51);
	assert_int_equal(cks_ledger_row(&ledger, "address 3")->sessions, 1);
	cks_ledger_free(&ledger);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_name_keeps_its_row),
		cmocka_unit_test(further_names_share_the_last_row),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
