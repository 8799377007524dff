/*
 * tests/unit/test_util_wait.c - waits end at times of the monotonic clock; zero bytes are a
 * condition variable.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "util/lock.h"
#include "util/until.h"
#include "util/wait.h"

#define SHORT_MS 40

static struct ck_mutex lock = CK_MUTEX(1);
static struct ck_cond changed;
static int turn;

/* On the other clock, a time since the machine's start is long past. */
static void assert_waited(int64_t since)
{
	assert_true(ck_now_ms() - since >= SHORT_MS - 1);
}

static void timed_waits_last_as_long_as_asked(void **state)
{
	const struct timespec past = ck_until(0);
	int64_t begin = ck_now_ms();
	struct timespec until = ck_until(SHORT_MS * CK_NS_PER_MS);
	int ret = 0;

	(void)state;
	ck_lock(&lock);
	while (ret == 0) /* it may wake for no reason */
		ret = ck_cond_timedwait(&changed, &lock, &until);
	assert_int_equal(ret, ETIMEDOUT);
	assert_waited(begin);
	assert_int_equal(ck_cond_timedwait(&changed, &lock, &past), ETIMEDOUT);
	ck_unlock(&lock);
}

static void *try_lock(void *result)
{
	struct timespec until = ck_until(SHORT_MS * CK_NS_PER_MS);

	*(int *)result = ck_lock_until(&lock, &until);
	return NULL;
}

static void timed_locks_last_as_long_as_asked(void **state)
{
	int64_t begin = ck_now_ms();
	pthread_t thread;
	int result = 0;

	(void)state;
	ck_lock(&lock);
	assert_int_equal(pthread_create(&thread, NULL, try_lock, &result), 0);
	pthread_join(thread, NULL);
	ck_unlock(&lock);
	assert_int_equal(result, ETIMEDOUT);
	assert_waited(begin);
	try_lock(&result);
	assert_int_equal(result, 0);
	ck_unlock(&lock);
}

static void timed_waits_for_semaphores_do_too(void **state)
{
	int64_t begin = ck_now_ms();
	struct timespec until = ck_until(SHORT_MS * CK_NS_PER_MS);
	sem_t sem;

	(void)state;
	sem_init(&sem, 0, 0);
	assert_int_equal(ck_sem_wait_until(&sem, &until), -1);
	assert_int_equal(errno, ETIMEDOUT);
	assert_waited(begin);
	sem_post(&sem);
	assert_int_equal(ck_sem_wait_until(&sem, &until), 0);
	sem_destroy(&sem);
}

/* Two threads take turns; the first signals go to a condition variable that no thread waits for
 * yet. */
static void *take_turns(void *odd)
{
	int mine = odd != NULL;

	ck_lock(&lock);
	while (turn < 20000) {
		if (turn % 2 == mine) {
			turn++;
			ck_cond_signal(&changed);
		} else {
			ck_cond_wait(&changed, &lock);
		}
	}
	ck_cond_broadcast(&changed);
	ck_unlock(&lock);
	return NULL;
}

static void zero_bytes_are_a_condition_variable(void **state)
{
	pthread_t threads[2];

	(void)state;
	for (int round = 0; round < 20; round++) {
		turn = 20000 - 2 * round;
		ck_cond_destroy(&changed);
		memset(&changed, 0, sizeof(changed));
		for (int i = 0; i < 2; i++)
			assert_int_equal(
				pthread_create(&threads[i], NULL, take_turns, i ? &turn : NULL), 0);
		for (int i = 0; i < 2; i++)
			pthread_join(threads[i], NULL);
	}
	ck_cond_destroy(&changed);
	ck_cond_destroy(&changed);
	ck_cond_signal(&changed);
	ck_cond_broadcast(&changed);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(timed_waits_last_as_long_as_asked),
		cmocka_unit_test(timed_locks_last_as_long_as_asked),
		cmocka_unit_test(timed_waits_for_semaphores_do_too),
		cmocka_unit_test(zero_bytes_are_a_condition_variable),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
