/*
 * util/hash.c - BLAKE2b by libb2, and a multiply-and-fold hash of our own; see hash.h.
 */
#include <blake2.h>
#include <errno.h>
#include <string.h>

#include "util/hash.h"

void ck_hash(const void *data, size_t size, struct ck_hash *out)
{
	/* Refuses only a NULL where there are bytes, and result sizes that we do not use. */
	blake2b(out->bytes, size ? data : NULL, NULL, sizeof(out->bytes), size, 0);
}

bool ck_hash_equal(const struct ck_hash *a, const struct ck_hash *b)
{
	return memcmp(a->bytes, b->bytes, CK_HASH_SIZE) == 0;
}

int ck_hash_compare(const struct ck_hash *a, const struct ck_hash *b)
{
	return memcmp(a->bytes, b->bytes, CK_HASH_SIZE);
}

void ck_hash_print(const struct ck_hash *hash, char text[CK_HASH_TEXT])
{
	static const char digits[] = "0123456789abcdef";

	for (size_t i = 0; i < CK_HASH_SIZE; i++) {
		text[2 * i] = digits[hash->bytes[i] >> 4];
		text[2 * i + 1] = digits[hash->bytes[i] & 15];
	}
	text[CK_HASH_TEXT - 1] = '\0';
}

static int digit_value(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c |= 0x20;
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	return -1;
}

int ck_hash_parse(const char *text, struct ck_hash *out)
{
	struct ck_hash hash;

	for (size_t i = 0; i < CK_HASH_SIZE; i++) {
		int high = digit_value(text[2 * i]);
		int low = high < 0 ? -1 : digit_value(text[2 * i + 1]);

		if (low < 0)
			return -EINVAL;
		hash.bytes[i] = (uint8_t)(high << 4 | low);
	}
	if (text[CK_HASH_TEXT - 1])
		return -EINVAL;
	*out = hash;
	return 0;
}

/* The 128-bit product of two words, folded: every input bit reaches every output bit. */
static uint64_t fold_product(uint64_t a, uint64_t b)
{
	unsigned __int128 product = (unsigned __int128)a * b;

	return (uint64_t)product ^ (uint64_t)(product >> 64);
}

uint64_t ck_hash_key(const void *key, size_t size)
{
	/* Odd constants with about half their bits set: sqrt(2), sqrt(3) and sqrt(5) in binary. */
	const uint64_t k1 = 0x6a09e667f3bcc909, k2 = 0xbb67ae8584caa73b, k3 = 0x3c6ef372fe94f82b;
	const unsigned char *bytes = key;
	uint64_t hash = k1 ^ size, word;
	size_t left = size;

	for (; left >= sizeof(word); left -= sizeof(word), bytes += sizeof(word)) {
		memcpy(&word, bytes, sizeof(word));
		hash = fold_product(hash ^ k2, word ^ k3);
	}
	word = 0;
	if (left)
		memcpy(&word, bytes, left);
	return fold_product(hash ^ k2, word ^ k1) ^ fold_product(hash, k3);
}

bool ck_secret_equal(const void *a, const void *b, size_t size)
{
	const volatile uint8_t *x = a, *y = b;
	uint8_t differ = 0;

	for (size_t i = 0; i < size; i++)
		differ |= x[i] ^ y[i];
	return differ == 0;
}
