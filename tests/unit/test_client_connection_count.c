/*
 * tests/unit/test_client_connection_count.c - how many connections large copies use, over links of
 * several rates and lengths.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "client/link/connection_count.h"
#include "util/util.h"

#define MS 1000000ull
#define MB 1000000ull
#define COPIES 40

/* A link: each connection carries a window per round trip, and all together no more than a rate. */
struct link {
	uint64_t trip_ns, window, rate;
};

static uint64_t time_of(const struct link *l, unsigned int connections, size_t size)
{
	uint64_t rate = ck_min(connections * l->window * 1000 * MS / l->trip_ns, l->rate);

	return l->trip_ns + (uint64_t)((double)size * 1e9 / (double)rate);
}

/* Copy 64 MiB some times, in steps as large copies are made; returns the number at the end, and the
 * largest at *@most. */
static unsigned int copy_often(struct ckc_connection_count *n, const struct link *l,
			       unsigned int *most)
{
	*most = n->now;
	for (unsigned int i = 0; i < COPIES; i++) {
		size_t size = (size_t)64 << 20;

		if (ckc_connection_count_grows(n, l->trip_ns))
			size = ck_min(size, ckc_connection_count_sample(n));
		ckc_connection_count_note(n, size, time_of(l, n->now, size), l->trip_ns);
		*most = ck_max(*most, n->now);
	}
	return n->now;
}

static void the_number_fits_the_link(void **state)
{
	static const struct {
		struct link link;
		unsigned int first, end, most;
	} cases[] = {
		{{150 * MS, 4 << 20, 10000 * MB}, 4, 32, 32}, /* nothing else limits it */
		{{150 * MS, 4 << 20, 10000 * MB}, 1, 32, 32},
		{{150 * MS, 4 << 20, 12 * MB}, 4, 4, 8}, /* four fill it */
		{{150 * MS, 4 << 20, 12 * MB}, 1, 1, 2},
		{{150 * MS, 4 << 20, 300 * MB}, 4, 16, 32},
		{{20 * MS, 4 << 20, 125 * MB}, 4, 4, 8},
		{{4 * MS, 64 << 10, 10000 * MB}, 4, 4, 4}, /* short: none is tried */
		{{50 * 1000, 4 << 20, 10000 * MB}, 1, 1, 1},
	};

	(void)state;
	for (size_t i = 0; i < CK_ARRAY_SIZE(cases); i++) {
		struct ckc_connection_count n;
		unsigned int most;

		ckc_connection_count_init(&n, cases[i].first, CK_CONNECTIONS_MOST);
		assert_int_equal(copy_often(&n, &cases[i].link, &most), cases[i].end);
		assert_int_equal(most, cases[i].most);
		assert_int_equal(ckc_connection_count_grows(&n, cases[i].link.trip_ns),
				 cases[i].most == cases[i].first && cases[i].link.trip_ns > 5 * MS);
	}
}

static void no_more_are_tried_than_there_is_room_for(void **state)
{
	const struct link l = {150 * MS, 4 << 20, 10000 * MB};
	struct ckc_connection_count n;
	unsigned int most;

	(void)state;
	ckc_connection_count_init(&n, 4, 12);
	assert_int_equal(copy_often(&n, &l, &most), 12);
	assert_int_equal(most, 12);
	ckc_connection_count_init(&n, 4, 1); /* fewer than it begins with */
	assert_int_equal(copy_often(&n, &l, &most), 4);
}

static void the_users_choice_is_kept(void **state)
{
	const struct link l = {150 * MS, 4 << 20, 10000 * MB};
	struct ckc_connection_count n;
	unsigned int most;

	(void)state;
	ckc_connection_count_init(&n, 2, 2);
	assert_int_equal(copy_often(&n, &l, &most), 2);
	assert_int_equal(most, 2);
}

/* A new connection is slow at first: the third copy may show what it can do. */
static void a_slow_first_copy_does_not_decide(void **state)
{
	struct ckc_connection_count n;

	(void)state;
	ckc_connection_count_init(&n, 4, CK_CONNECTIONS_MOST);
	ckc_connection_count_note(&n, 64 << 20, 1000 * MS, 150 * MS);
	assert_int_equal(n.now, 8);
	ckc_connection_count_note(&n, 64 << 20, 1200 * MS, 150 * MS);
	ckc_connection_count_note(&n, 64 << 20, 1000 * MS, 150 * MS);
	assert_int_equal(n.now, 8);
	ckc_connection_count_note(&n, 64 << 20, 500 * MS, 150 * MS);
	assert_int_equal(n.now, 16);
}

static void small_copies_say_nothing(void **state)
{
	struct ckc_connection_count n;

	(void)state;
	ckc_connection_count_init(&n, 4, CK_CONNECTIONS_MOST);
	ckc_connection_count_note(&n, (4 << 20) - 1, 160 * MS, 150 * MS);
	assert_int_equal(n.rate, 0);
	ckc_connection_count_note(&n, 64 << 20, 1000 * MS, 150 * MS);
	for (int i = 0; i < COPIES; i++)
		ckc_connection_count_note(&n, 16 << 20, 1000 * MS, 150 * MS);
	assert_int_equal(n.now, 8);
	assert_false(n.fixed);
}

static void connections_that_cannot_be_opened_are_given_up(void **state)
{
	struct ckc_connection_count n;

	(void)state;
	ckc_connection_count_init(&n, 4, CK_CONNECTIONS_MOST);
	ckc_connection_count_note(&n, 64 << 20, 1000 * MS, 150 * MS);
	ckc_connection_count_stop(&n);
	assert_int_equal(n.now, 4);
	assert_false(ckc_connection_count_grows(&n, 150 * MS));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_number_fits_the_link),
		cmocka_unit_test(no_more_are_tried_than_there_is_room_for),
		cmocka_unit_test(the_users_choice_is_kept),
		cmocka_unit_test(a_slow_first_copy_does_not_decide),
		cmocka_unit_test(small_copies_say_nothing),
		cmocka_unit_test(connections_that_cannot_be_opened_are_given_up),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
