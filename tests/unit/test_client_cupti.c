/*
 * tests/unit/test_client_cupti.c - the server's records in the program's numbers and times.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "client/cupti/cupti.h"
#include "tests/unit/client_session.h"

#define MS 1000000ull

static _Alignas(8) uint8_t room[4096];
static size_t valid;

static void on_request(uint8_t **buffer, size_t *size, size_t *records)
{
	*buffer = room;
	*size = sizeof(room);
	*records = 0;
}

static void on_complete(void *context, uint32_t stream, uint8_t *buffer, size_t size, size_t bytes)
{
	(void)context, (void)stream, (void)buffer, (void)size;
	valid = bytes;
}

static uint64_t any_clock(void)
{
	return 1;
}

/* The program's clock and the server's are read at @before and at @now. */
static struct ckc_cupti *session_with_clocks(struct ckc_cupti_sample before,
					     struct ckc_cupti_sample now)
{
	struct ckc_cupti *s = ckc_client_current()->cupti;

	s->request = on_request;
	s->complete = on_complete;
	s->rate = 0;
	s->now = (struct ckc_cupti_sample){0};
	s->before = before;
	ckc_cupti_clock_step(s, &now);
	return s;
}

/* The program's time of a fill at the server's @remote. */
static uint64_t time_of(struct ckc_cupti *s, uint64_t remote)
{
	struct ck_activity r = {.kind = CUPTI_ACTIVITY_KIND_MEMSET,
				.size = sizeof(r),
				.start = remote,
				.end = remote};
	void *record = NULL;

	valid = 0;
	ckc_cupti_take_all(ckc_client_current(), (unsigned char *)&r, sizeof(r));
	ckc_cupti_finish(s);
	assert_int_equal(ck_cupti_next(room, valid, &record), CUPTI_SUCCESS);
	return ((struct ck_cupti_memset *)record)->start;
}

static void assert_near(uint64_t a, uint64_t b)
{
	assert_true((a > b ? a - b : b - a) <= 2);
}

static void between_two_readings_the_clocks_advance_evenly(void **state)
{
	/* the server's is 1 ppm slow */
	struct ckc_cupti *s = session_with_clocks(
		(struct ckc_cupti_sample){.local = 5000 * MS, .remote = 100 * MS},
		(struct ckc_cupti_sample){.local = 6000 * MS, .remote = 1100 * MS - 1000});

	(void)state;
	assert_false(s->stepped);
	assert_near(time_of(s, 100 * MS), 5000 * MS);
	assert_near(time_of(s, 600 * MS - 500), 5500 * MS);
	assert_near(time_of(s, 1100 * MS - 1000), 6000 * MS);
}

static void a_clock_of_the_program_may_have_any_unit(void **state)
{
	struct ckc_cupti *s = ckc_client_current()->cupti;

	(void)state;
	atomic_store(&s->clock, any_clock);
	session_with_clocks((struct ckc_cupti_sample){.local = 7000 * MS, .remote = 100 * MS},
			    (struct ckc_cupti_sample){.local = 9500 * MS, .remote = 1100 * MS});
	assert_false(s->stepped);
	assert_near(time_of(s, 600 * MS), 8250 * MS);
	atomic_store(&s->clock, NULL);
}

/* Its worker is on another machine, whose clock began later, or earlier. */
static void times_of_a_session_that_has_moved_are_right_on_both_sides(void **state)
{
	static const uint64_t clocks[] = {3, 900000, 100 * 1000};

	(void)state;
	for (size_t i = 0; i < sizeof(clocks) / sizeof(*clocks); i++) {
		uint64_t there = clocks[i] * MS;
		struct ckc_cupti *s = session_with_clocks(
			(struct ckc_cupti_sample){.local = 5000 * MS, .remote = 70000 * MS},
			(struct ckc_cupti_sample){.local = 6000 * MS, .remote = there + 500 * MS});

		assert_true(s->stepped);
		assert_near(time_of(s, 70200 * MS), 5200 * MS);
		assert_near(time_of(s, there + 300 * MS), 5800 * MS);
		/* from the next reading on it is as ever */
		ckc_cupti_clock_step(s, &(struct ckc_cupti_sample){.local = 7000 * MS,
								   .remote = there + 1500 * MS});
		assert_false(s->stepped);
		assert_near(time_of(s, there + 1000 * MS), 6500 * MS);
	}
}

static void records_of_no_size_end_the_reading(void **state)
{
	struct ckc_cupti *s =
		session_with_clocks((struct ckc_cupti_sample){.local = 1, .remote = 1},
				    (struct ckc_cupti_sample){.local = 2, .remote = 2});
	struct ck_activity r[2] = {{.kind = CUPTI_ACTIVITY_KIND_MEMSET, .size = 0},
				   {.kind = CUPTI_ACTIVITY_KIND_MEMSET, .size = sizeof(r[1])}};

	(void)state;
	valid = 0;
	ckc_cupti_take_all(ckc_client_current(), (unsigned char *)r, sizeof(r));
	ckc_cupti_finish(s);
	assert_int_equal(valid, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(between_two_readings_the_clocks_advance_evenly),
		cmocka_unit_test(a_clock_of_the_program_may_have_any_unit),
		cmocka_unit_test(times_of_a_session_that_has_moved_are_right_on_both_sides),
		cmocka_unit_test(records_of_no_size_end_the_reading),
	};

	return cmocka_run_group_tests(tests, session_begin, session_end);
}
