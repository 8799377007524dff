/*
 * tests/unit/test_server_piece_hash.c - hashes of pieces: of the processor, of the (emulated) GPU,
 * and what is stale in the pool because of them.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "server/evacuation/marks.h"
#include "server/evacuation/piece_hasher.h"
#include "server/session/driver.h"
#include "server/processes/piece_hash.h"
#include "util/util.h"

#define PIECE CKS_HASHED_PIECE
#define PIECES 3

static const struct cks_piece_key key = {.word = {0x123456789abcdef0, 0xfedcba9876543210}};

static struct cks_piece_hash hash_of(const void *data, size_t size)
{
	struct cks_piece_hash hash;

	cks_piece_hash(data, size, &key, &hash);
	return hash;
}

static bool differs(const uint64_t *a, const uint64_t *b, size_t size)
{
	struct cks_piece_hash one = hash_of(a, size), other = hash_of(b, size);

	return !cks_piece_hash_equal(&one, &other);
}

static void a_change_is_seen(void **state)
{
	uint64_t before[64] = {1, 2, 3}, after[64];

	(void)state;
	for (size_t bit = 0; bit < 64 * 64; bit++) {
		memcpy(after, before, sizeof(after));
		after[bit / 64] ^= (uint64_t)1 << bit % 64;
		assert_true(differs(before, after, sizeof(before)));
	}
	memcpy(after, before, sizeof(after)); /* words that change places */
	after[0] = 2;
	after[1] = 1;
	assert_true(differs(before, after, sizeof(before)));
	after[0] = 0; /* and such whose sum is the same */
	after[1] = 3;
	assert_true(differs(before, after, sizeof(before)));
}

static void another_key_gives_other_hashes(void **state)
{
	const struct cks_piece_key other = {.word = {1, 2}};
	uint64_t data[8] = {1};
	struct cks_piece_hash a = hash_of(data, sizeof(data)), b;

	(void)state;
	cks_piece_hash(data, sizeof(data), &other, &b);
	assert_int_not_equal(a.sum[0], b.sum[0]);
	assert_int_not_equal(a.sum[1], b.sum[1]);
}

static void a_hash_comes_back_from_text(void **state)
{
	const struct cks_piece_hash hash = {.sum = {0x0123456789abcdef, 5}};
	char text[CKS_PIECE_HASH_TEXT];
	struct cks_piece_hash back;

	(void)state;
	cks_piece_hash_print(&hash, text);
	assert_string_equal(text, "0123456789abcdef0000000000000005");
	assert_true(cks_piece_hash_parse(text, &back));
	assert_true(cks_piece_hash_equal(&back, &hash));
	assert_false(cks_piece_hash_parse("0123456789abcdef000000000000000", &back));
	assert_false(cks_piece_hash_parse("0123456789abcdef000000000000000x", &back));
	assert_false(cks_piece_hash_parse("-123456789abcdef0000000000000005", &back));
}

/* --- the GPU */

static void fill(uint64_t *data, uint64_t seed)
{
	for (size_t i = 0; i < PIECE / sizeof(*data); i++) {
		seed = seed * 6364136223846793005 + 1442695040888963407;
		data[i] = seed ^ seed >> 33;
	}
}

static CUcontext begin_gpu(CUdeviceptr *at, CUstream *stream)
{
	char why[200];
	CUcontext context;

	assert_int_equal(cks_driver_open(CK_TEST_PRODUCTS "/libcuda-emu.so", why, sizeof(why)), 0);
	assert_int_equal(ck_driver.cuInit(0), 0);
	assert_int_equal(ck_driver.cuDevicePrimaryCtxRetain(&context, 0), 0);
	assert_int_equal(ck_driver.cuCtxPushCurrent_v2(context), 0);
	assert_int_equal(ck_driver.cuMemAlloc_v2(at, PIECES * PIECE), 0);
	assert_int_equal(ck_driver.cuStreamCreate(stream, CU_STREAM_NON_BLOCKING), 0);
	return context;
}

static void the_gpu_computes_the_same_hashes(void **state)
{
	struct cks_piece_hasher *hasher = cks_piece_hasher_create();
	const struct cks_piece_hash *hashes;
	uint64_t *data = malloc(PIECE), places[PIECES];
	struct cks_piece_hash want[PIECES];
	CUdeviceptr at;
	CUstream stream;

	(void)state;
	begin_gpu(&at, &stream);
	for (size_t i = 0; i < PIECES; i++) {
		fill(data, i);
		want[PIECES - 1 - i] = hash_of(data, PIECE);
		places[PIECES - 1 - i] = at + i * PIECE;
		assert_int_equal(ck_driver.cuMemcpyHtoD_v2(at + i * PIECE, data, PIECE), 0);
	}
	for (size_t count = 1; count <= PIECES; count++) { /* its room grows */
		assert_int_equal(cks_piece_hasher_run(hasher, stream, places, count, &key, &hashes),
				 0);
		assert_memory_equal(hashes, want, count * sizeof(want[0]));
	}
	/* a context that was reset knows neither kernel nor memory of the time before */
	assert_int_equal(ck_driver.cuDevicePrimaryCtxReset_v2(0), 0);
	begin_gpu(&at, &stream);
	assert_int_equal(ck_driver.cuMemcpyHtoD_v2(at, data, PIECE), 0);
	places[0] = at;
	assert_int_equal(cks_piece_hasher_run(hasher, stream, places, 1, &key, &hashes), 0);
	assert_memory_equal(hashes, &want[0], sizeof(want[0]));
	cks_piece_hasher_destroy(hasher);
	free(data);
}

/* --- marks */

static struct cks_piece_hash mark(uint64_t n)
{
	return (struct cks_piece_hash){.sum = {n, n}};
}

static void set_device(struct cks_marks *m, const uint64_t marks[PIECES])
{
	for (size_t i = 0; i < PIECES; i++) {
		struct cks_piece_hash hash = mark(marks[i]);

		cks_marks_set_device(m, i, marks[i] ? &hash : NULL);
	}
}

static void stale_slots_are_those_whose_marks_differ(void **state)
{
	struct cks_marks *m = cks_marks_create();
	size_t from = 0;

	(void)state;
	assert_int_equal(cks_marks_grow(m, PIECES * PIECE - 5), 0);
	set_device(m, (uint64_t[]){1, 2, 3});
	assert_int_equal(cks_marks_next(m, &from, PIECES * PIECE - 5), PIECES * PIECE - 5);
	cks_marks_set_copied(m, 0, PIECES * PIECE, NULL, false);
	assert_int_equal(cks_marks_next(m, &from, PIECES * PIECE), 0);
	cks_marks_begin_copy(m, 0, PIECE); /* which fails */
	assert_int_equal(cks_marks_next(m, &(size_t){0}, PIECES * PIECE), PIECE);
	cks_marks_set_copied(m, 0, PIECE, NULL, false);
	set_device(m, (uint64_t[]){1, 9, 3});
	from = 0;
	assert_int_equal(cks_marks_next(m, &from, PIECES * PIECE), PIECE);
	assert_int_equal(from, PIECE);
	set_device(m, (uint64_t[]){1, 2, 0}); /* not known: it may have changed */
	from = 0;
	assert_int_equal(cks_marks_next(m, &from, PIECES * PIECE), PIECE);
	assert_int_equal(from, 2 * PIECE);
	cks_marks_forget(m);
	set_device(m, (uint64_t[]){1, 2, 3});
	from = PIECE;
	assert_int_equal(cks_marks_next(m, &from, 2 * PIECE), PIECE);
	cks_marks_destroy(m);
}

/* It was copied while the program changed it, and has its old content again: the mark is that of
 * the copy. */
static void a_copy_beside_the_program_has_a_mark_of_its_own(void **state)
{
	struct cks_marks *m = cks_marks_create();
	uint64_t *copy = malloc(PIECE);
	struct cks_piece_hash real;
	size_t from = 0;

	(void)state;
	fill(copy, 1);
	assert_int_equal(cks_marks_grow(m, PIECES * PIECE), 0);
	set_device(m, (uint64_t[]){7, 0, 0});
	cks_marks_set_copied(m, 0, PIECE, (const char *)copy, true);
	assert_int_equal(cks_marks_next(m, &from, PIECE), PIECE);
	cks_piece_hash(copy, PIECE, &m->key, &real);
	cks_marks_set_device(m, 0, &real);
	assert_int_equal(cks_marks_next(m, &from, PIECE), 0);
	cks_marks_destroy(m);
	free(copy);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_change_is_seen),
		cmocka_unit_test(another_key_gives_other_hashes),
		cmocka_unit_test(a_hash_comes_back_from_text),
		cmocka_unit_test(the_gpu_computes_the_same_hashes),
		cmocka_unit_test(stale_slots_are_those_whose_marks_differ),
		cmocka_unit_test(a_copy_beside_the_program_has_a_mark_of_its_own),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
