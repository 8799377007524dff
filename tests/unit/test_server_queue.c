/*
 * tests/unit/test_server_queue.c - the queue for sessions: its order, its removals, its limit.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "server/children/queue.h"
#include "server/children/workers.h"
#include "server/children/workers_part.h"
#include "server/options/options.h"
#include "util/until.h"

static struct cks_queue queue;
static struct cks_workers *workers;
static struct worker running[3];
static const struct cks_owner *limited; /* may have no session now */

static struct cks_owner owner(unsigned char name)
{
	return (struct cks_owner){.identity.key.bytes = {name}};
}

static bool may(const void *data, const struct cks_owner *who)
{
	(void)data;
	return !limited || !ck_hash_equal(&limited->identity.key, &who->identity.key);
}

static int set_up(void **state)
{
	const struct cks_options options = {.warm_devices = "none"};

	(void)state;
	memset(&queue, 0, sizeof(queue));
	limited = NULL;
	workers = cks_workers_create(&options, "emu", NULL);
	return workers ? 0 : -1;
}

static int tear_down(void **state)
{
	(void)state;
	workers->first = NULL;
	cks_workers_destroy(workers, "");
	return 0;
}

/* @count sessions of @name run. */
static void run(unsigned char name, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		running[i] = (struct worker){
			.next = workers->first, .state = SERVING, .info.owner = owner(name)};
		workers->first = &running[i];
	}
}

static struct cks_waiter *enter(unsigned char name, unsigned char ticket, int64_t since)
{
	const struct cks_waiter new = {.ticket = {ticket}, .owner = owner(name)};
	struct cks_waiter *w = cks_queue_enter(&queue, &new);

	if (w)
		w->since = since;
	return w;
}

static bool others_first(unsigned char name, int64_t since)
{
	const struct cks_owner who = owner(name);

	return cks_queue_others_first(&queue, workers, &who, since, may, NULL);
}

static void the_longest_comes_first_and_newcomers_last(void **state)
{
	(void)state;
	assert_false(others_first(1, INT64_MAX));
	enter(1, 1, 100);
	enter(2, 2, 200);
	assert_false(others_first(1, 100));
	assert_true(others_first(2, 200));
	assert_true(others_first(3, INT64_MAX));
}

static void an_identity_with_fewer_sessions_comes_first(void **state)
{
	(void)state;
	run(1, 2);
	enter(1, 1, 100);
	enter(2, 2, 200);
	assert_true(others_first(1, 100));
	assert_false(others_first(2, 200));
	assert_false(others_first(3, 150)); /* it has none either, and has waited longer */
	assert_true(others_first(3, 250));
}

static void who_may_have_none_keeps_no_one_waiting(void **state)
{
	const struct cks_owner first = owner(1);

	(void)state;
	enter(1, 1, 100);
	assert_true(others_first(2, 200));
	limited = &first;
	assert_false(others_first(2, 200));
}

static void a_ticket_belongs_to_its_identity(void **state)
{
	const struct cks_owner one = owner(1), two = owner(2);
	const unsigned char ticket[CK_QUEUE_TICKET] = {7};

	(void)state;
	enter(1, 7, 100);
	assert_non_null(cks_queue_find(&queue, &one, ticket));
	assert_null(cks_queue_find(&queue, &two, ticket));
	cks_queue_leave(&queue, cks_queue_find(&queue, &one, ticket));
	assert_null(cks_queue_find(&queue, &one, ticket));
}

static void one_that_does_not_come_back_is_forgotten(void **state)
{
	int64_t now = ck_now_ms();

	(void)state;
	enter(1, 1, 100)->seen = now - CK_QUEUE_HOLD_MS - CK_QUEUE_BACK_MS - 1;
	enter(1, 2, 200)->seen = now;
	cks_queue_expire(&queue, now);
	assert_int_equal(queue.count, 1);
	assert_int_equal(queue.list[0].ticket[0], 2);
	assert_int_equal(cks_queue_place(&queue, &queue.list[0]), 1);
}

static void the_queue_is_bounded_for_each_and_for_all(void **state)
{
	(void)state;
	for (unsigned char i = 0; i < CK_QUEUE_OF_IDENTITY; i++)
		assert_non_null(enter(1, i, i));
	assert_null(enter(1, 99, 99));
	for (unsigned char name = 2; queue.count < CK_QUEUE_MAX; name++)
		assert_non_null(enter(name, name, name));
	assert_null(enter(255, 1, 1));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(the_longest_comes_first_and_newcomers_last, set_up,
						tear_down),
		cmocka_unit_test_setup_teardown(an_identity_with_fewer_sessions_comes_first, set_up,
						tear_down),
		cmocka_unit_test_setup_teardown(who_may_have_none_keeps_no_one_waiting, set_up,
						tear_down),
		cmocka_unit_test_setup_teardown(a_ticket_belongs_to_its_identity, set_up,
						tear_down),
		cmocka_unit_test_setup_teardown(one_that_does_not_come_back_is_forgotten, set_up,
						tear_down),
		cmocka_unit_test_setup_teardown(the_queue_is_bounded_for_each_and_for_all, set_up,
						tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
