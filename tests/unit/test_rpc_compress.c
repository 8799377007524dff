/*
 * tests/unit/test_rpc_compress.c - blocks become shorter and whole again, and other bytes are
 * refused.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "rpc/compress.h"

static struct ck_packer *packer;
static struct ck_unpacker *unpacker;
static unsigned char bytes[CK_PACK_BLOCK + 1], back[CK_PACK_BLOCK + 64];

static int begin(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(bytes); i++)
		bytes[i] = (unsigned char)(i / 100 * 7);
	return ck_packer_create(&packer) || ck_unpacker_create(&unpacker);
}

static int end(void **state)
{
	(void)state;
	ck_packer_destroy(packer);
	ck_unpacker_destroy(unpacker);
	return 0;
}

/* The block of @size bytes of `bytes`, in the unpacker's room; its length. */
static size_t packed(size_t size)
{
	const void *block;
	size_t n = ck_pack(packer, bytes, size, &block);

	if (n > 0)
		memcpy(ck_unpack_room(unpacker), block, n);
	return n;
}

static void a_block_becomes_what_it_was(void **state)
{
	static const size_t sizes[] = {100, 4096, CK_PACK_BLOCK - 1, CK_PACK_BLOCK};

	(void)state;
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		size_t n = packed(sizes[i]);

		assert_in_range(n, 1, sizes[i] - sizes[i] / 16);
		memset(back, 0xee, sizeof(back));
		assert_int_equal(ck_unpack(unpacker, n, back, sizes[i]), 0);
		assert_memory_equal(back, bytes, sizes[i]);
		assert_int_equal(back[sizes[i]], 0xee);
	}
}

static void bytes_that_hardly_become_shorter_stay_as_they_are(void **state)
{
	unsigned char noise[65536];
	const void *block;
	uint64_t x = 1;

	(void)state;
	for (size_t i = 0; i < sizeof(noise); i++) {
		x = x * 6364136223846793005u + 1442695040888963407u;
		noise[i] = (unsigned char)(x >> 56);
	}
	assert_int_equal(ck_pack(packer, noise, sizeof(noise), &block), 0);
	assert_int_equal(ck_pack(packer, bytes, 0, &block), 0);
	assert_int_equal(ck_pack(packer, bytes, CK_PACK_BLOCK + 1, &block), 0);
}

static void a_block_of_another_size_is_refused(void **state)
{
	size_t n = packed(1000);

	(void)state;
	assert_int_equal(ck_unpack(unpacker, n, back, 999), -EBADMSG);
	assert_int_equal(ck_unpack(unpacker, n, back, 1001), -EBADMSG);
	assert_int_equal(ck_unpack(unpacker, n - 1, back, 1000), -EBADMSG);
	assert_int_equal(ck_unpack(unpacker, n + 1, back, 1000), -EBADMSG);
	assert_int_equal(ck_unpack(unpacker, 0, back, 1000), -EBADMSG);
	assert_int_equal(ck_unpack(unpacker, CK_PACK_BLOCK + 1, back, 1000), -EBADMSG);
	assert_int_equal(ck_unpack(unpacker, n, back, 1000), 0);
}

/* A frame that may be skipped, one of an old release of zstd, two frames. */
static void what_is_not_one_frame_is_refused(void **state)
{
	static const unsigned char skipped[] = {0x50, 0x2a, 0x4d, 0x18, 0, 0, 0, 0};
	static const unsigned char old[] = {0x27, 0xb5, 0x2f, 0xfd, 0, 0, 0, 0};
	unsigned char *room = ck_unpack_room(unpacker);
	size_t n;

	(void)state;
	memcpy(room, skipped, sizeof(skipped));
	assert_int_equal(ck_unpack(unpacker, sizeof(skipped), back, 0), -EBADMSG);
	memcpy(room, old, sizeof(old));
	assert_int_equal(ck_unpack(unpacker, sizeof(old), back, 100), -EBADMSG);
	n = packed(1000);
	memcpy(room + n, room, n);
	assert_int_equal(ck_unpack(unpacker, 2 * n, back, 2000), -EBADMSG);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_block_becomes_what_it_was),
		cmocka_unit_test(bytes_that_hardly_become_shorter_stay_as_they_are),
		cmocka_unit_test(a_block_of_another_size_is_refused),
		cmocka_unit_test(what_is_not_one_frame_is_refused),
	};

	return cmocka_run_group_tests(tests, begin, end);
}
