/*
 * tests/unit/test_server_commands.c - which thread carries out a command, and which threads wake up
 * for it.
 */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/unit/server_ends.h"

struct waiter {
	uint64_t seq, seen; /* what it waits for, and where the session was when it went on */
	long slept;	    /* how often it gave the processor away */
	pthread_t thread;
};

static void *wait_for(void *data)
{
	struct waiter *w = data;
	struct rusage used;

	cks_session_wait(session, w->seq);
	w->seen = atomic_load(&session->executed);
	getrusage(RUSAGE_THREAD, &used);
	w->slept = used.ru_nvcsw;
	return NULL;
}

/* As for a synchronise behind thousands of launches: waking its thread at each costs more than they
 * do. */
static void who_waits_for_a_command_is_not_woken_by_those_before(void **state)
{
	struct waiter waiters[] = {{.seq = 400}, {.seq = 200}, {.seq = 400}};
	const struct timespec moment = {.tv_nsec = 20000}, pause = {.tv_nsec = 20000000};

	(void)state;
	for (int i = 0; i < 3; i++)
		pthread_create(&waiters[i].thread, NULL, wait_for, &waiters[i]);
	nanosleep(&pause, NULL);
	for (uint64_t seq = 1; seq <= 400; seq++) {
		cks_session_executed(session, seq);
		nanosleep(&moment, NULL);
	}
	for (int i = 0; i < 3; i++) {
		pthread_join(waiters[i].thread, NULL);
		assert_true(waiters[i].seen >= waiters[i].seq);
		assert_true(waiters[i].slept < 100);
	}
}

/* --- commands that a lane carries out */

static struct {
	pid_t set[64],
		asked; /* threads in which the driver was called: of set N, of the last call */
	unsigned int count;
	atomic_bool hold_set, hold, held; /* a set, or a call, waits; one does */
} seen;

static CUresult note_set(CUdeviceptr at, unsigned char value, size_t n, CUstream stream)
{
	(void)at;
	(void)value;
	(void)n;
	(void)stream;
	while (seen.hold_set) {
		seen.held = true;
		usleep(100);
	}
	seen.set[seen.count++ % 64] = gettid();
	return CUDA_SUCCESS;
}

static CUresult note_set_now(CUdeviceptr at, unsigned char value, size_t n)
{
	return note_set(at, value, n, NULL);
}

static CUresult note_info(size_t *free, size_t *total)
{
	seen.asked = gettid();
	*free = *total = seen.count;
	return CUDA_SUCCESS;
}

static void note_threads(void)
{
	memset(&seen, 0, sizeof(seen));
	ck_driver.cuMemsetD8Async = note_set;
	ck_driver.cuMemsetD8_v2 = note_set_now;
	ck_driver.cuMemGetInfo_v2 = note_info;
}

static void send_light(uint64_t seq)
{
	cuMemsetD8Async_args a = {.head.seq = seq, .N = 1};

	send_call(&command, CK_PROC_cuMemsetD8Async, &a, NULL, 0);
}

/* A lane that waits for its next call looks for commands, so one thread does both. Other processes
 * may keep it from looking in time, so that this is tried again. */
static void a_lane_carries_out_what_comes_before_its_call(void **state)
{
	unsigned int tries = rings ? 5000 : 50;
	uint64_t sets, seq = 1;
	bool same = false;

	(void)state;
	note_threads();
	send_light(seq);
	ask(seq, NULL);
	while (!same && seq < tries) {
		usleep(2000);
		send_light(++seq);
		assert_int_equal(ask(seq, &sets), 0);
		assert_int_equal(sets, seq);
		same = seen.set[(seq - 1) % 64] == seen.asked;
	}
	assert_int_equal(same, rings);
}

/* The client may need the lane for what the device waits for. */
static void a_lane_leaves_a_command_that_may_wait_to_the_command_thread(void **state)
{
	cuMemGetInfo_v2_args early = {.head.seq = 1};
	cuMemGetInfo_v2_res r = {0};
	struct ck_record record;
	uint64_t sets;

	(void)state;
	note_threads();
	send_light(1);
	ask(1, NULL);
	seen.hold_set = true;
	send_set(2);
	while (!seen.held)
		usleep(100);
	send_call(&lane, CK_PROC_cuMemGetInfo_v2, &early, NULL, 0); /* does not wait for it */
	assert_int_equal(read_reply((xdrproc_t)xdr_cuMemGetInfo_v2_res, &r, &record, NULL), 0);
	assert_int_equal(r.free, 1);
	seen.hold_set = false;
	assert_int_equal(ask(2, &sets), 0);
	assert_int_equal(sets, 2);
	assert_int_not_equal(seen.set[1], seen.asked);
}

/* A call that waits for the GPU delays no command of another thread. */
static CUresult held_info(size_t *free, size_t *total)
{
	seen.held = true;
	while (seen.hold)
		usleep(100);
	return note_info(free, total);
}

static void commands_go_on_while_a_lane_answers(void **state)
{
	cuMemGetInfo_v2_args a = {.head.seq = 1};
	cuMemGetInfo_v2_res r = {0};
	struct ck_record record;

	(void)state;
	note_threads();
	ck_driver.cuMemGetInfo_v2 = held_info;
	send_light(1);
	ask(1, NULL);
	for (int i = 0; i < 3; i++) {
		if (i == 2)
			usleep(200000); /* both threads sleep */
		seen.hold = true;
		seen.held = false;
		send_call(&lane, CK_PROC_cuMemGetInfo_v2, &a, NULL, 0);
		while (!seen.held)
			usleep(100);
		for (int n = 0; n < 10; n++)
			send_light(2 + (uint64_t)(10 * i + n));
		while (atomic_load(&session->executed) < (uint64_t)(11 + 10 * i))
			usleep(100);
		seen.hold = false;
		assert_int_equal(read_reply((xdrproc_t)xdr_cuMemGetInfo_v2_res, &r, &record, NULL),
				 0);
		assert_int_equal(r.free, 11 + 10 * i);
	}
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, make, drop)
	const struct CMUnitTest tests[] = {
		TEST(who_waits_for_a_command_is_not_woken_by_those_before),
		TEST(a_lane_carries_out_what_comes_before_its_call),
		TEST(a_lane_leaves_a_command_that_may_wait_to_the_command_thread),
		TEST(commands_go_on_while_a_lane_answers),
	};

	return run_over_both(tests);
}
