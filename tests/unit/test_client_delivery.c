/*
 * tests/unit/test_client_delivery.c - copies to pinned memory that arrive later: the call returns
 * at once, a reply that covers a copy waits for it, and nothing comes to memory that has gone.
 */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "client/wire/delivery.h"
#include "client/link/hooks.h"
#include "client/link/lane.h"
#include "client/wire/status.h"
#include "rpc/status.h"
#include "tests/unit/client_peer.h"

#define DEVICE 0x700000000000ull
#define SIZE 5000

/* What the peer gives away, one part at a time; and the rank that its other replies tell. */
static struct {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	bool there;
	uint64_t number, offset, span;
	uint32_t rank;
	size_t size;
	_Atomic uint32_t told;
} part = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

static unsigned char bytes[SIZE];
static CUstream stream;

static void ok(CUresult err)
{
	assert_int_equal(err, CUDA_SUCCESS);
}

static CUresult answer(const struct peer_message *m, void *res, struct peer_payload *payload)
{
	ck_delivery_next_res *r = res;

	if (m->number == CK_PROC_download)
		*payload = (struct peer_payload){bytes, ((ck_download_args *)m->args)->size};
	if (m->number != CK_PROC_delivery_next) {
		((ck_result *)res)->delivered = part.told;
		return CUDA_SUCCESS;
	}
	pthread_mutex_lock(&part.lock);
	while (!part.there)
		pthread_cond_wait(&part.changed, &part.lock);
	part.there = false;
	r->number = part.number;
	r->offset = part.offset;
	r->span = part.span;
	r->rank = part.rank;
	*payload = (struct peer_payload){bytes + part.offset, part.size};
	pthread_cond_broadcast(&part.changed);
	pthread_mutex_unlock(&part.lock);
	return CUDA_SUCCESS;
}

static void give(uint64_t number, uint64_t offset, uint64_t span, size_t size, uint32_t rank)
{
	pthread_mutex_lock(&part.lock);
	while (part.there)
		pthread_cond_wait(&part.changed, &part.lock);
	part.number = number;
	part.offset = offset;
	part.span = span;
	part.size = size;
	part.rank = rank;
	part.there = true;
	pthread_cond_broadcast(&part.changed);
	pthread_mutex_unlock(&part.lock);
}

static int begin(void **state)
{
	peer.call = answer;
	for (size_t i = 0; i < SIZE; i++)
		bytes[i] = (unsigned char)(i * 3 + 1);
	if (peer_begin(state) < 0 ||
	    ckc_allocation_add(DEVICE, 1 << 20, CK_MEMORY_DEVICE, ckc_context_current(), 0, false))
		return -1;
	ckc_client_current()->passes_fds = false; /* as if the server were on another host */
	return (int)cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING);
}

static unsigned char *obtain(void)
{
	void *p;

	ok(cuMemHostAlloc(&p, SIZE, 0));
	memset(p, 0, SIZE);
	return p;
}

/* The number that the last copy has been given. */
static uint64_t copied(unsigned char *to, size_t size)
{
	const ck_deliver_args *args;
	uint64_t number;

	peer_clear();
	ok(cuMemcpyDtoHAsync_v2(to, DEVICE, size, stream));
	args = peer_args(CK_PROC_deliver, 0);
	assert_non_null(args);
	assert_int_equal(args->size, size);
	assert_int_equal(peer_count(CK_PROC_download), 0);
	number = args->number;
	return number;
}

/* Has the program begun to wait? */
static bool has_begun(void)
{
	bool any = false;

	pthread_mutex_lock(&peer.lock);
	for (size_t i = 0; i < peer.count; i++)
		any = any || peer.log[i].number == CK_PROC_cuStreamSynchronize;
	pthread_mutex_unlock(&peer.lock);
	return any;
}

static void *give_late(void *number)
{
	for (int i = 0; i < 20000 && !has_begun(); i++)
		usleep(1000);
	usleep(2000);
	give(*(uint64_t *)number, 0, SIZE, SIZE, ckc_client_current()->lanes.delivered + 1);
	return NULL;
}

static void a_reply_that_covers_a_copy_waits_for_it(void **state)
{
	unsigned char *p = obtain();
	uint64_t number = copied(p, SIZE);
	pthread_t thread;

	(void)state;
	assert_int_equal(ckc_client_current()->deliveries.count, 1);
	part.told = ckc_client_current()->lanes.delivered + 1;
	assert_int_equal(pthread_create(&thread, NULL, give_late, &number), 0);
	ok(cuStreamSynchronize(stream));
	assert_memory_equal(p, bytes, SIZE);
	pthread_join(thread, NULL);
	assert_int_equal(ckc_client_current()->deliveries.count, 0);
	ok(cuMemFreeHost(p));
}

/* Ranks need not come in their order when several threads receive. */
static void parts_may_come_in_any_order(void **state)
{
	unsigned char *p = obtain();
	uint64_t number = copied(p, SIZE);
	uint32_t first = ckc_client_current()->lanes.delivered + 1;

	(void)state;
	part.told = first + 1;
	give(number, 1000, SIZE - 1000, SIZE - 1000, first + 1);
	give(number, 0, 1000, 1000, first);
	ok(cuStreamSynchronize(stream));
	assert_memory_equal(p, bytes, SIZE);
	assert_int_equal(ckc_client_current()->lanes.delivered, first + 1);
	ok(cuMemFreeHost(p));
}

static void a_copy_without_bytes_has_failed_and_is_over(void **state)
{
	unsigned char *p = obtain();
	uint64_t number = copied(p, SIZE);

	(void)state;
	part.told = ckc_client_current()->lanes.delivered + 1;
	give(number, 0, SIZE, 0, part.told);
	ok(cuStreamSynchronize(stream));
	assert_int_equal(p[0], 0);
	assert_int_equal(ckc_client_current()->deliveries.count, 0);
	ok(cuMemFreeHost(p));
}

static void nothing_comes_to_memory_that_has_gone(void **state)
{
	unsigned char *p = obtain();
	uint64_t number = copied(p, SIZE);

	(void)state;
	peer_clear();
	ok(cuMemFreeHost(p)); /* the device is waited for: the test's peer does not care */
	assert_int_equal(peer_count(CK_PROC_cuCtxSynchronize), 1);
	part.told = ckc_client_current()->lanes.delivered + 1;
	give(number, 0, SIZE, SIZE, part.told);
	ok(ckc_delivery_wait(ckc_client_current(), part.told));
	assert_int_equal(ckc_client_current()->deliveries.count, 0);
}

/* What the copy brings is the source of the next: that is not taken before it has come. */
static void a_source_that_is_on_its_way_is_waited_for(void **state)
{
	unsigned char *p = obtain();
	uint64_t number = copied(p, SIZE);
	pthread_t thread;
	size_t count;

	(void)state;
	part.told = ckc_client_current()->lanes.delivered + 1;
	assert_int_equal(pthread_create(&thread, NULL, give_late, &number), 0);
	ok(cuMemcpyHtoDAsync_v2(DEVICE, p, 100, stream));
	pthread_join(thread, NULL);
	count = peer_count(CK_PROC_cuStreamSynchronize);
	assert_int_equal(count, 1);
	ok(cuMemFreeHost(p));
}

/* Nor do its bytes come after those of a later copy that the program waits for. */
static void a_copy_into_memory_that_expects_bytes_waits(void **state)
{
	unsigned char *p = obtain();
	uint64_t number = copied(p, SIZE);
	pthread_t thread;

	(void)state;
	part.told = ckc_client_current()->lanes.delivered + 1;
	assert_int_equal(pthread_create(&thread, NULL, give_late, &number), 0);
	ok(cuMemcpyDtoH_v2(p, DEVICE, 100));
	pthread_join(thread, NULL);
	assert_int_equal(peer_count(CK_PROC_cuStreamSynchronize), 1);
	ok(cuMemFreeHost(p));
}

/* Parts that come in lanes of their own. */
struct lane {
	uint64_t number;
	uint32_t rank;
	unsigned char byte;
	_Atomic bool read;
};

static void *come(void *data)
{
	struct lane *lane = data;
	struct ckc_along closure = {.client = ckc_client_current()};
	const ck_delivery_next_res res = {
		.number = lane->number, .span = SIZE, .rank = lane->rank, .data_length = SIZE};

	memset(__start_ck_along->place(&closure, &res, SIZE), lane->byte, SIZE);
	lane->read = true;
	__start_ck_along->arrived(&closure, &res);
	return NULL;
}

static void the_later_of_two_copies_stays(void **state)
{
	unsigned char *p = obtain();
	uint32_t first = ckc_client_current()->lanes.delivered + 1;
	struct lane earlier = {copied(p, SIZE), first, 'a', false},
		    later = {copied(p, SIZE), first + 1, 'b', false};
	pthread_t thread;

	(void)state;
	assert_int_equal(pthread_create(&thread, NULL, come, &later), 0);
	while (!later.read)
		usleep(100);
	come(&earlier);
	pthread_join(thread, NULL);
	assert_int_equal(p[0], 'b');
	assert_int_equal(p[SIZE - 1], 'b');
	assert_int_equal(ckc_client_current()->deliveries.count, 0);
	ok(cuMemFreeHost(p));
}

static enum ckc_status look(const struct ckc_watch *watch)
{
	return ckc_status_look(ckc_client_current(), watch, watch->of);
}

/* The ends of watches come in lists where there are many; each has a rank. */
static void a_list_of_ends_says_each(void **state)
{
	struct ckc_client *c = ckc_client_current();
	uint32_t first = c->lanes.delivered + 1;
	struct ckc_watch watches[3] = {0};
	struct ck_news news[3];

	(void)state;
	for (unsigned int i = 0; i < 3; i++) {
		uint64_t number = ckc_status_number(c, 20 + i);

		assert_int_not_equal(number, 0);
		ckc_status_watched(c, &watches[i], 1 + i, number);
		assert_int_equal(look(&watches[i]), CK_STATUS_PENDING);
		news[i] = (struct ck_news){number, 1 << 3 | CK_STATUS_ENDED, first + i};
	}
	news[2].what |= CK_STATUS_CLOSES;
	memcpy(bytes, news, sizeof(news));
	give(CK_DELIVERY_LIST, 0, 0, sizeof(news), first + 2);
	ok(ckc_delivery_wait(c, first + 2));
	for (unsigned int i = 0; i < 3; i++)
		assert_int_equal(look(&watches[i]), CK_STATUS_DONE);
	assert_int_equal(c->lanes.delivered, first + 2);
}

static void *lose_late(void *unused)
{
	(void)unused;
	usleep(20000);
	ckc_session_lost(ckc_client_current(), "the test wants it");
	return NULL;
}

/* The last test: the session is over. */
static void a_wait_over_bytes_that_will_not_come_is_an_error(void **state)
{
	uint32_t rank = ckc_client_current()->lanes.delivered + 1;
	pthread_t thread;

	(void)state;
	copied(obtain(), SIZE);
	part.told = rank;
	assert_int_equal(pthread_create(&thread, NULL, lose_late, NULL), 0);
	assert_int_equal(cuStreamSynchronize(stream), CUDA_ERROR_DEVICE_UNAVAILABLE);
	pthread_join(thread, NULL);
	assert_int_equal(ckc_lane_covered(ckc_client_current(), rank),
			 CUDA_ERROR_DEVICE_UNAVAILABLE);
	ok(ckc_lane_covered(ckc_client_current(), rank - 1));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_reply_that_covers_a_copy_waits_for_it),
		cmocka_unit_test(parts_may_come_in_any_order),
		cmocka_unit_test(a_copy_without_bytes_has_failed_and_is_over),
		cmocka_unit_test(nothing_comes_to_memory_that_has_gone),
		cmocka_unit_test(a_source_that_is_on_its_way_is_waited_for),
		cmocka_unit_test(a_copy_into_memory_that_expects_bytes_waits),
		cmocka_unit_test(the_later_of_two_copies_stays),
		cmocka_unit_test(a_list_of_ends_says_each),
		cmocka_unit_test(a_wait_over_bytes_that_will_not_come_is_an_error),
	};

	return cmocka_run_group_tests(tests, begin, peer_end);
}
