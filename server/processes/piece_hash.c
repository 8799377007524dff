/*
 * server/processes/piece_hash.c - see piece_hash.h.
 *
 * Each word is mixed with its place and the key, by steps that lose nothing; the first sum adds the
 * mixed words up, and the second adds them up after one more step. Sums need no order, so all
 * threads of a GPU add to them.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "server/processes/piece_hash.h"

static inline __attribute__((always_inline)) void
add_up(const void *data, size_t size, const struct cks_piece_key *key, struct cks_piece_hash *out)
{
	const unsigned char *at = data;
	uint64_t place = key->word[0], first = 0, second = 0, x;

	for (size_t i = 0; i < size; i += sizeof(x), place += 0x9e3779b97f4a7c15) {
		memcpy(&x, at + i, sizeof(x));
		x ^= place;
		x ^= x >> 32;
		x *= 0xbf58476d1ce4e5b9;
		x ^= x >> 29;
		x *= 0x94d049bb133111eb;
		x ^= x >> 32;
		first += x;
		x = (x ^ key->word[1]) * 0xd6e8feb86659fd93;
		second += x ^ x >> 31;
	}
	*out = (struct cks_piece_hash){.sum = {first, second}};
}

#ifdef __x86_64__
/* With AVX-512, which multiplies words of 64 bits, five times as many bytes in a second; with
 * AVX2, twice as many. */
__attribute__((target("avx512f,avx512dq,avx512vl"))) static void
add_up_avx512(const void *data, size_t size, const struct cks_piece_key *key,
	      struct cks_piece_hash *out)
{
	add_up(data, size, key, out);
}

__attribute__((target("avx2"))) static void add_up_avx2(const void *data, size_t size,
							const struct cks_piece_key *key,
							struct cks_piece_hash *out)
{
	add_up(data, size, key, out);
}
#endif

void cks_piece_hash(const void *data, size_t size, const struct cks_piece_key *key,
		    struct cks_piece_hash *out)
{
#ifdef __x86_64__
	if (__builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl")) {
		add_up_avx512(data, size, key, out);
		return;
	}
	if (__builtin_cpu_supports("avx2")) {
		add_up_avx2(data, size, key, out);
		return;
	}
#endif
	add_up(data, size, key, out);
}

bool cks_piece_hash_equal(const struct cks_piece_hash *a, const struct cks_piece_hash *b)
{
	return a->sum[0] == b->sum[0] && a->sum[1] == b->sum[1];
}

bool cks_piece_hash_known(const struct cks_piece_hash *hash)
{
	return hash->sum[0] || hash->sum[1];
}

void cks_piece_hash_print(const struct cks_piece_hash *hash, char text[CKS_PIECE_HASH_TEXT])
{
	snprintf(text, CKS_PIECE_HASH_TEXT, "%016" PRIx64 "%016" PRIx64, hash->sum[0],
		 hash->sum[1]);
}

bool cks_piece_hash_parse(const char *text, struct cks_piece_hash *out)
{
	struct cks_piece_hash hash;

	if (strlen(text) != CKS_PIECE_HASH_TEXT - 1 ||
	    strspn(text, "0123456789abcdef") != CKS_PIECE_HASH_TEXT - 1 ||
	    sscanf(text, "%16" SCNx64 "%16" SCNx64, &hash.sum[0], &hash.sum[1]) != 2)
		return false;
	*out = hash;
	return true;
}
