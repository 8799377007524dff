/*
 * tests/unit/test_client_striping.c - large copies in parts, from several threads at a time.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "client/wire/striping.h"
#include "tests/unit/client_peer.h"

#define SIZE ((size_t)37 * 1000 * 1000 + 1)

struct copy {
	unsigned char *marks; /* how often each byte was in a part */
	CUresult err;	      /* of the part with the byte `bad` */
	size_t bad;
};

/* To each of @n bytes, eight at a time. */
static void add_one(unsigned char *p, size_t n)
{
	uint64_t word;

	for (; n >= sizeof(word); p += sizeof(word), n -= sizeof(word)) {
		memcpy(&word, p, sizeof(word));
		word += 0x0101010101010101u;
		memcpy(p, &word, sizeof(word));
	}
	while (n-- > 0)
		++*p++;
}

/* Whether all of @n bytes are @value. */
static bool all_are(const unsigned char *p, size_t n, unsigned char value)
{
	return n == 0 || (p[0] == value && memcmp(p, p + 1, n - 1) == 0);
}

static CUresult mark(const void *data, struct ckc_share *share)
{
	const struct copy *c = data;
	size_t at, size;

	while (ckc_share_next(share, &at, &size)) {
		add_one(c->marks + at, size);
		if (c->err && c->bad >= at && c->bad < at + size)
			return c->err;
	}
	return CUDA_SUCCESS;
}

static int four_connections(void **state)
{
	setenv("CRICKET_CONNECTIONS", "4", 1);
	return peer_begin(state);
}

static CUresult spread(struct copy *c, size_t size, bool even)
{
	return ckc_striping(ckc_client_current(), mark, c, size, even);
}

static void every_byte_is_in_one_part(void **state)
{
	static const size_t sizes[] = {1, CK_STRIPING_MIN - 1, CK_STRIPING_MIN, CK_STRIPING_MIN + 1,
				       SIZE};
	struct copy c = {.marks = malloc(SIZE)};

	(void)state;
	for (size_t i = 0; i < 2 * CK_ARRAY_SIZE(sizes); i++) {
		size_t size = sizes[i / 2];

		memset(c.marks, 0, SIZE);
		assert_int_equal(spread(&c, size, i % 2), CUDA_SUCCESS);
		assert_true(all_are(c.marks, size, 1));
		assert_true(all_are(c.marks + size, SIZE - size, 0));
	}
	free(c.marks);
}

static void the_error_of_any_part_is_the_copys(void **state)
{
	struct copy c = {.marks = calloc(1, SIZE), .err = CUDA_ERROR_ILLEGAL_ADDRESS};

	(void)state;
	for (c.bad = 0; c.bad < SIZE; c.bad += SIZE / 5)
		assert_int_equal(spread(&c, SIZE, c.bad % 2), CUDA_ERROR_ILLEGAL_ADDRESS);
	c.err = CUDA_SUCCESS;
	assert_int_equal(spread(&c, SIZE, false), CUDA_SUCCESS);
	free(c.marks);
}

static void *copy_again(void *data)
{
	struct copy c = {.marks = calloc(1, SIZE)};
	bool *right = data;

	for (int n = 1; n <= 20; n++)
		spread(&c, SIZE, n % 2);
	*right = all_are(c.marks, SIZE, 20);
	free(c.marks);
	return NULL;
}

static void copies_at_the_same_time_do_not_mix(void **state)
{
	pthread_t t[3];
	bool right[3] = {false};

	(void)state;
	for (int i = 0; i < 3; i++)
		assert_int_equal(pthread_create(&t[i], NULL, copy_again, &right[i]), 0);
	for (int i = 0; i < 3; i++) {
		pthread_join(t[i], NULL);
		assert_true(right[i]);
	}
}

/* The threads of a copy: each waits until all have come. */
static struct {
	pthread_barrier_t all;
	pthread_mutex_t lock;
	size_t largest, smallest, parts, bytes;
} together = {.lock = PTHREAD_MUTEX_INITIALIZER};

static CUresult meet(const void *copy, struct ckc_share *share)
{
	size_t at, size;

	(void)copy;
	pthread_barrier_wait(&together.all);
	while (ckc_share_next(share, &at, &size)) {
		pthread_mutex_lock(&together.lock);
		together.parts++;
		together.bytes += size;
		together.largest = ck_max(together.largest, size);
		together.smallest = together.smallest ? ck_min(together.smallest, size) : size;
		pthread_mutex_unlock(&together.lock);
	}
	return CUDA_SUCCESS;
}

static void copy_together(bool even)
{
	together.largest = together.smallest = together.parts = together.bytes = 0;
	assert_int_equal(pthread_barrier_init(&together.all, NULL, 4), 0);
	assert_int_equal(ckc_striping(ckc_client_current(), meet, NULL, SIZE, even), CUDA_SUCCESS);
	assert_int_equal(together.bytes, SIZE);
}

static void all_connections_take_part_in_a_copy(void **state)
{
	(void)state;
	copy_together(true);
	assert_int_equal(together.parts, 4);
	copy_together(false);
	assert_in_range(together.largest, SIZE / 8, SIZE / 8 + (256 << 10));
	assert_in_range(together.smallest, 1, 1 << 20);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_byte_is_in_one_part),
		cmocka_unit_test(the_error_of_any_part_is_the_copys),
		cmocka_unit_test(copies_at_the_same_time_do_not_mix),
		cmocka_unit_test(all_connections_take_part_in_a_copy),
	};

	return cmocka_run_group_tests(tests, four_connections, peer_end);
}
