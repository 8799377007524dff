/*
 * util/hash.h - the name of a content (BLAKE2b), and a fast hash for tables.
 */
#ifndef CK_UTIL_HASH_H
#define CK_UTIL_HASH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CK_HASH_SIZE 32
#define CK_HASH_TEXT (2 * CK_HASH_SIZE + 1) /* hex digits and the NUL */

struct ck_hash {
	uint8_t bytes[CK_HASH_SIZE];
};

/* BLAKE2b of `size` bytes with a 32-byte result, as `b2sum -l 256` prints it. Cannot fail. */
void ck_hash(const void *data, size_t size, struct ck_hash *out);

bool ck_hash_equal(const struct ck_hash *a, const struct ck_hash *b);

/* Negative, 0 or positive, as memcmp; for sorting. */
int ck_hash_compare(const struct ck_hash *a, const struct ck_hash *b);

/* 64 lower-case hex digits and a NUL. */
void ck_hash_print(const struct ck_hash *hash, char text[CK_HASH_TEXT]);

/* Exactly 64 hex digits of either case, then NUL; else -EINVAL and *out as it was. */
int ck_hash_parse(const char *text, struct ck_hash *out);

/*
 * A fast 64-bit hash of a key, for tables in this process: not for storing, not for the wire,
 * no defence against keys chosen to collide.
 */
uint64_t ck_hash_key(const void *key, size_t size);

/* Are two byte strings equal? The time does not depend on where they differ. */
bool ck_secret_equal(const void *a, const void *b, size_t size);

#endif
