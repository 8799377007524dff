/*
 * tests/unit/test_server_gpu_probes.c - looks at the GPUs: which question one answers. The test is
 * the process that looks.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "server/door/offers.h"
#include "util/until.h"

static int64_t fake_now = 1000;

#define ck_now_ms() fake_now
#define cks_gpu_probes_look probes_look
#define cks_offers_ended offers_ended
int probes_look(struct cks_offers *offers, const char *gpus, int64_t since,
		const struct cks_gpu_probe_note **note);
bool offers_ended(struct cks_offers *offers, pid_t pid);
#include "server/door/gpu_probes.c"

static struct cks_offers offers;
static const struct cks_gpu_probe_note *note;
static int probe; /* its end */

static int begin(void **state)
{
	int pair[2];

	(void)state;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return -1;
	offers = (struct cks_offers){.driver = "none"};
	offers.list[0] = (struct cks_gpu_probe){.pid = getpid(), .control = pair[0]};
	probe = pair[1];
	return 0;
}

static int end(void **state)
{
	(void)state;
	close(offers.list[0].control);
	close(probe);
	return 0;
}

static int look(int64_t since)
{
	return probes_look(&offers, "", since, &note);
}

/* Has it been asked? */
static bool take_question(void)
{
	char question;

	return recv(probe, &question, 1, MSG_DONTWAIT) == 1;
}

static void answer(uint32_t count)
{
	const struct cks_gpu_probe_note seen = {.count = count};

	assert_int_equal(send(probe, &seen, sizeof(seen), 0), sizeof(seen));
}

/* As while a GPU wakes, or on a busy machine: each look of a server may take that long. */
static void a_look_that_takes_long_answers_its_question(void **state)
{
	int64_t since = fake_now;

	(void)state;
	assert_int_equal(look(since), -EAGAIN);
	assert_true(take_question());
	fake_now += FRESH_MS + 1;
	assert_int_equal(look(since), -EAGAIN);
	answer(3);
	assert_int_equal(look(since), 0);
	assert_int_equal(note->count, 3);
	assert_int_equal(look(0), 0);
	assert_false(take_question());
}

static void a_look_is_not_used_for_long(void **state)
{
	(void)state;
	assert_int_equal(look(0), -EAGAIN);
	answer(1);
	assert_int_equal(look(0), 0);
	assert_true(take_question());
	fake_now += FRESH_MS + 1;
	assert_int_equal(look(0), -EAGAIN);
	assert_true(take_question());
}

static void a_look_that_began_earlier_does_not_do_for_one_who_says_since_when(void **state)
{
	int64_t since;

	(void)state;
	assert_int_equal(look(0), -EAGAIN);
	assert_true(take_question());
	since = ++fake_now;
	answer(1);
	assert_int_equal(look(since), -EAGAIN);
	assert_true(take_question());
	answer(2);
	assert_int_equal(look(since), 0);
	assert_int_equal(note->count, 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(a_look_that_takes_long_answers_its_question, begin,
						end),
		cmocka_unit_test_setup_teardown(a_look_is_not_used_for_long, begin, end),
		cmocka_unit_test_setup_teardown(
			a_look_that_began_earlier_does_not_do_for_one_who_says_since_when, begin,
			end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
