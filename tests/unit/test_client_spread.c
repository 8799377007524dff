/*
 * tests/unit/test_client_spread.c - large copies in parts, from several threads at a time.
 */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "client/wire/client.h"
#include "client/wire/spread.h"

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

static CUresult mark(const void *data, size_t at, size_t size)
{
	const struct copy *c = data;

	add_one(c->marks + at, size);
	return c->err && c->bad >= at && c->bad < at + size ? c->err : CUDA_SUCCESS;
}

static int four_connections(void **state)
{
	(void)state;
	return setenv("CRICKET_CONNECTIONS", "4", 1);
}

static void every_byte_is_in_one_part(void **state)
{
	static const size_t sizes[] = {1, CK_SPREAD_MIN - 1, CK_SPREAD_MIN, CK_SPREAD_MIN + 1,
				       SIZE};
	struct copy c = {.marks = malloc(SIZE)};

	(void)state;
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		memset(c.marks, 0, SIZE);
		assert_int_equal(ckc_spread(ckc_client_current(), mark, &c, sizes[i]),
				 CUDA_SUCCESS);
		assert_true(all_are(c.marks, sizes[i], 1));
		assert_true(all_are(c.marks + sizes[i], SIZE - sizes[i], 0));
	}
	free(c.marks);
}

static void the_error_of_any_part_is_the_copys(void **state)
{
	struct copy c = {.marks = calloc(1, SIZE), .err = CUDA_ERROR_ILLEGAL_ADDRESS};

	(void)state;
	for (c.bad = 0; c.bad < SIZE; c.bad += SIZE / 5)
		assert_int_equal(ckc_spread(ckc_client_current(), mark, &c, SIZE),
				 CUDA_ERROR_ILLEGAL_ADDRESS);
	c.err = CUDA_SUCCESS;
	assert_int_equal(ckc_spread(ckc_client_current(), mark, &c, SIZE), CUDA_SUCCESS);
	free(c.marks);
}

static void *copy_again(void *data)
{
	struct copy c = {.marks = calloc(1, SIZE)};
	bool *right = data;

	for (int n = 1; n <= 20; n++)
		ckc_spread(ckc_client_current(), mark, &c, SIZE);
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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_byte_is_in_one_part),
		cmocka_unit_test(the_error_of_any_part_is_the_copys),
		cmocka_unit_test(copies_at_the_same_time_do_not_mix),
	};

	return cmocka_run_group_tests(tests, four_connections, NULL);
}
