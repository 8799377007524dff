/*
 * tests/unit/test_libcuda_md2.c - MD2 by the test suite of RFC 1319, and HMAC over it.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "libcuda/md2.h"

static void print(const uint8_t digest[CK_MD2_SIZE], char text[2 * CK_MD2_SIZE + 1])
{
	for (int i = 0; i < CK_MD2_SIZE; i++)
		snprintf(text + 2 * i, 3, "%02x", digest[i]);
}

static void the_rfc_1319_test_suite_holds(void **state)
{
	static const struct {
		const char *message, *digest;
	} suite[] = {
		{"", "8350e5a3e24c153df2275c9f80692773"},
		{"a", "32ec01ec4a6dac72c0ab96fb34c0b5d1"},
		{"abc", "da853b0d3f88d99b30283a69e6ded6bb"},
		{"message digest", "ab4f496bfb2a530b219ff33031fe06b0"},
		{"abcdefghijklmnopqrstuvwxyz", "4e8ddff3650292ab5a4108c3aa47940b"},
		{"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789",
		 "da33def2a42df13975352846c30338cd"},
		{"1234567890123456789012345678901234567890123456789012345678901234567890123456"
		 "7890",
		 "d5976f79d83d3a0dc9806c3c66f3efd8"},
	};
	char text[2 * CK_MD2_SIZE + 1];
	uint8_t digest[CK_MD2_SIZE];
	struct ck_md2 md2;

	(void)state;
	for (size_t i = 0; i < sizeof(suite) / sizeof(suite[0]); i++) {
		ck_md2_init(&md2);
		ck_md2_add(&md2, suite[i].message, strlen(suite[i].message));
		ck_md2_end(&md2, digest);
		print(digest, text);
		assert_string_equal(text, suite[i].digest);
	}
}

static void a_message_in_pieces_has_the_same_digest(void **state)
{
	static const char message[] = "abcdefghijklmnopqrstuvwxyz";
	char text[2 * CK_MD2_SIZE + 1];
	uint8_t digest[CK_MD2_SIZE];
	struct ck_md2 md2;

	(void)state;
	for (size_t cut = 0; cut < sizeof(message); cut++) {
		ck_md2_init(&md2);
		ck_md2_add(&md2, message, cut);
		ck_md2_add(&md2, message + cut, sizeof(message) - 1 - cut);
		ck_md2_end(&md2, digest);
		print(digest, text);
		assert_string_equal(text, "4e8ddff3650292ab5a4108c3aa47940b");
	}
}

/* HMAC by its definition, H(key ^ opad, H(key ^ ipad, text)), from whole MD2s. */
static void hmac_is_two_nested_hashes(void **state)
{
	static const char message[] = "what do ya want for nothing?";
	uint8_t key[CK_MD2_SIZE], block[CK_MD2_SIZE], inner[CK_MD2_SIZE], want[CK_MD2_SIZE];
	uint8_t got[CK_MD2_SIZE];
	struct ck_hmac hmac;
	struct ck_md2 md2;

	(void)state;
	for (int i = 0; i < CK_MD2_SIZE; i++) {
		key[i] = (uint8_t)(3 * i + 1);
		block[i] = key[i] ^ 0x36;
	}
	ck_md2_init(&md2);
	ck_md2_add(&md2, block, sizeof(block));
	ck_md2_add(&md2, message, strlen(message));
	ck_md2_end(&md2, inner);
	for (int i = 0; i < CK_MD2_SIZE; i++)
		block[i] = key[i] ^ 0x5c;
	ck_md2_init(&md2);
	ck_md2_add(&md2, block, sizeof(block));
	ck_md2_add(&md2, inner, sizeof(inner));
	ck_md2_end(&md2, want);

	ck_hmac_init(&hmac, key);
	ck_hmac_add(&hmac, message, 5);
	ck_hmac_add(&hmac, message + 5, strlen(message) - 5);
	ck_hmac_end(&hmac, got);
	assert_memory_equal(got, want, sizeof(want));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_rfc_1319_test_suite_holds),
		cmocka_unit_test(a_message_in_pieces_has_the_same_digest),
		cmocka_unit_test(hmac_is_two_nested_hashes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
