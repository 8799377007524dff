/*
 * tests/unit/test_client_connections.c - a client that needs several connections asks for all of
 * them before any is ready, and does what it can in the meantime.
 */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "client/wire/delivery.h"
#include "client/link/lane.h"
#include "client/wire/striping.h"
#include "tests/unit/client_peer.h"

#define DEVICE 0x700000000000ull
#define SIZE ((size_t)16 << 20)
#define NEVER 1000

/* The peer answers no request to join until @wanted of them have come. */
static struct {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	unsigned int wanted, came, test;
} joins = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

static void join(void)
{
	unsigned int test;

	pthread_mutex_lock(&joins.lock);
	test = joins.test;
	joins.came++;
	pthread_cond_broadcast(&joins.changed);
	while (joins.came < joins.wanted && joins.test == test)
		pthread_cond_wait(&joins.changed, &joins.lock);
	pthread_mutex_unlock(&joins.lock);
}

static void hold(unsigned int wanted)
{
	pthread_mutex_lock(&joins.lock);
	joins.wanted = wanted;
	joins.came = 0;
	joins.test++;
	pthread_mutex_unlock(&joins.lock);
}

/* Have @count requests come? A client that asks for one after the other never gets there. */
static bool came(unsigned int count)
{
	struct timespec until;
	int ret = 0;

	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += 60;
	pthread_mutex_lock(&joins.lock);
	while (joins.came < count && ret == 0)
		ret = pthread_cond_timedwait(&joins.changed, &joins.lock, &until);
	pthread_mutex_unlock(&joins.lock);
	return ret == 0;
}

static void release(void)
{
	pthread_mutex_lock(&joins.lock);
	joins.test++;
	pthread_cond_broadcast(&joins.changed);
	pthread_mutex_unlock(&joins.lock);
}

/* Copy nothing: count the bytes. */
static CUresult count(const void *total, struct ckc_share *share)
{
	size_t at, size;

	while (ckc_share_next(share, &at, &size))
		__atomic_fetch_add(*(size_t *const *)total, size, __ATOMIC_RELAXED);
	return CUDA_SUCCESS;
}

static void a_copy_asks_for_all_connections_and_waits_for_none(void **state)
{
	size_t total = 0, *to = &total;

	(void)state;
	hold(NEVER);
	assert_int_equal(ckc_striping(ckc_client_current(), count, &to, SIZE, false), CUDA_SUCCESS);
	assert_int_equal(total, SIZE);
	assert_true(came(3));
	release();
}

static CUresult answer(const struct peer_message *m, void *res, struct peer_payload *payload)
{
	(void)res;
	(void)payload;
	while (m->number == CK_PROC_delivery_next)
		pause();
	return CUDA_SUCCESS;
}

static void deliveries_ask_for_all_connections_at_once(void **state)
{
	void *to = malloc(SIZE);

	(void)state;
	hold(4);
	assert_int_equal(ckc_delivery_copy(ckc_client_current(), 0, 0, to, DEVICE, SIZE),
			 CUDA_SUCCESS);
	assert_true(came(4)); /* the one in reserve may come too */
	ckc_delivery_forget(ckc_client_current(), (uintptr_t)to, SIZE);
	free(to);
}

static int begin(void **state)
{
	setenv("CRICKET_CONNECTIONS", "4", 1);
	setenv("CRICKET_TIMEOUT", "100", 1);
	peer.join = join;
	peer.call = answer;
	if (peer_begin(state) < 0)
		return -1;
	return ckc_lane_open(ckc_client_current()); /* this thread's: the first connection */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_copy_asks_for_all_connections_and_waits_for_none),
		cmocka_unit_test(deliveries_ask_for_all_connections_at_once),
	};

	return cmocka_run_group_tests(tests, begin, peer_end);
}
