/*
 * server/processes/piece_hash.h - whether a piece of memory has changed: a keyed hash of 128 bits
 * that a GPU computes at the rate of its memory (server/evacuation/hash.ptx), and a processor too.
 *
 * It is not cryptographic, but any change of a single word changes it, and other changes go unseen
 * with a probability of about 2^-128 for a key that the program does not know.
 * With the key, a program could damage only the copy of its own memory.
 */
#ifndef CK_SERVER_PROCESSES_PIECE_HASH_H
#define CK_SERVER_PROCESSES_PIECE_HASH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CKS_PIECE_HASH_TEXT 33 /* hex digits and the NUL */

struct cks_piece_key {
	uint64_t word[2];
};

struct cks_piece_hash {
	uint64_t sum[2]; /* both 0: of no piece */
};

/* @size: a multiple of 8. */
void cks_piece_hash(const void *data, size_t size, const struct cks_piece_key *key,
		    struct cks_piece_hash *out);

bool cks_piece_hash_equal(const struct cks_piece_hash *a, const struct cks_piece_hash *b);
bool cks_piece_hash_known(const struct cks_piece_hash *hash);

void cks_piece_hash_print(const struct cks_piece_hash *hash, char text[CKS_PIECE_HASH_TEXT]);
bool cks_piece_hash_parse(const char *text, struct cks_piece_hash *out);

#endif
