/*
 * tests/unit/test_server_uids.c - which user of the host the workers of an identity are.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "server/policy/users.h"
#include "server/rules/uids.h"

static const struct cks_user_range three = {.first = 1000, .last = 1002};

static struct ck_hash identity(unsigned char number)
{
	struct ck_hash key = {.bytes = {number}};

	return key;
}

static uid_t taken(struct cks_uids *uids, unsigned char number)
{
	struct ck_hash key = identity(number);
	uid_t user = 0;

	assert_int_equal(cks_uids_take(uids, &key, &user), 0);
	assert_true(cks_users_has(&three, user));
	return user;
}

static void an_identity_keeps_its_user_and_shares_it_with_none(void **state)
{
	struct cks_uids *uids = cks_uids_create(&three);
	struct ck_hash fourth = identity(4);
	uid_t one, other, third, none;

	(void)state;
	one = taken(uids, 0);
	other = taken(uids, 3); /* the same first choice */
	third = taken(uids, 1);
	assert_true(one != other && other != third && one != third);
	assert_int_equal(taken(uids, 0), one);
	assert_int_equal(cks_uids_take(uids, &fourth, &none), -EUSERS);
	cks_uids_leave(uids, one);
	assert_int_equal(cks_uids_take(uids, &fourth, &none), -EUSERS); /* it has another session */
	cks_uids_leave(uids, one);
	assert_int_equal(taken(uids, 4), one);
	cks_uids_leave(uids, 5); /* of no identity */
	cks_uids_destroy(uids);
}

static void the_choice_depends_on_the_identity_alone(void **state)
{
	struct cks_uids *uids = cks_uids_create(&three);
	uid_t first = taken(uids, 2), again;

	(void)state;
	cks_uids_destroy(uids);
	uids = cks_uids_create(&three);
	taken(uids, 0);
	again = taken(uids, 2);
	assert_int_equal(first, again);
	cks_uids_destroy(uids);
}

static void a_session_that_comes_back_keeps_its_user_unless_it_is_taken(void **state)
{
	struct cks_uids *uids = cks_uids_create(&three);
	struct ck_hash one = identity(0), other = identity(1);

	(void)state;
	assert_int_equal(cks_uids_claim(uids, &one, 1001), 0);
	assert_int_equal(cks_uids_claim(uids, &one, 1001), 0);
	assert_int_equal(cks_uids_claim(uids, &other, 1001), -EEXIST);
	assert_int_equal(taken(uids, 0), 1001);
	assert_int_equal(cks_uids_claim(uids, &other, 500), 0); /* of another range: not kept */
	assert_int_equal(cks_uids_claim(uids, &other, 0), 0);
	for (int i = 0; i < 3; i++)
		cks_uids_leave(uids, 1001);
	assert_int_equal(cks_uids_claim(uids, &other, 1001), 0);
	cks_uids_destroy(uids);
}

static void a_cache_lies_behind_a_folder_of_the_servers_user(void **state)
{
	char dir[] = "/tmp/cricket-uids-XXXXXX", path[256];
	struct ck_hash key = identity(7);
	struct stat st;
	int fd, again;

	(void)state;
	assert_non_null(mkdtemp(dir));
	fd = cks_uids_cache(dir, &key, 1000);
	assert_true(fd >= 0);
	assert_int_equal(fstat(fd, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0777);
	snprintf(path, sizeof(path), "%s/users", dir);
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0700);
	again = cks_uids_cache(dir, &key, 1001); /* another user finds nothing of this one */
	assert_true(again >= 0);
	assert_int_equal(fstat(again, &st), 0);
	assert_int_equal(mkdirat(fd, "x", 0700), 0);
	assert_int_equal(faccessat(again, "x", F_OK, 0), -1);
	close(fd);
	close(again);
	snprintf(path, sizeof(path), "rm -r %s", dir);
	assert_int_equal(system(path), 0);
}

static void a_range_has_two_numbers_above_0(void **state)
{
	static const char *const wrong[] = {"",	  "5",	 "0-9",	 "9-5",	 "5-",
					    "-5", "a-b", "5-9x", " 5-9", "1-4294967295"};
	struct cks_user_range range = {.first = 0};

	(void)state;
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
		assert_int_equal(cks_users_parse(wrong[i], &range), -EINVAL);
	assert_int_equal(range.first, 0);
	assert_false(cks_users_has(&range, 0));
	assert_int_equal(cks_users_parse("700000-765535", &range), 0);
	assert_true(range.first == 700000 && range.last == 765535);
	assert_true(cks_users_has(&range, 765535) && !cks_users_has(&range, 765536));
	assert_int_equal(cks_users_become(&range, 0), -EINVAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_identity_keeps_its_user_and_shares_it_with_none),
		cmocka_unit_test(the_choice_depends_on_the_identity_alone),
		cmocka_unit_test(a_session_that_comes_back_keeps_its_user_unless_it_is_taken),
		cmocka_unit_test(a_cache_lies_behind_a_folder_of_the_servers_user),
		cmocka_unit_test(a_range_has_two_numbers_above_0),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
