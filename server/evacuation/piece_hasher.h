/*
 * server/evacuation/piece_hasher.h - hashes of device memory, computed on its device.
 */
#ifndef CK_SERVER_EVACUATION_PIECE_HASHER_H
#define CK_SERVER_EVACUATION_PIECE_HASHER_H

#include <stddef.h>
#include <stdint.h>

#include "cuda/types.h"
#include "server/processes/piece_hash.h"

#define CKS_HASHED_PIECE ((size_t)2 << 20)

struct cks_piece_hasher;

struct cks_piece_hasher *cks_piece_hasher_create(void); /* NULL: out of memory */
/* The driver has ended, or the process ends. */
void cks_piece_hasher_destroy(struct cks_piece_hasher *hasher); /* accepts NULL */

/* Hash the @count pieces at @places, each of CKS_HASHED_PIECE bytes, in @stream of the current
 * context, and wait for that. Other work may change them meanwhile, but they stay mapped. The
 * hashes lie at *hashes until the next call. */
CUresult cks_piece_hasher_run(struct cks_piece_hasher *hasher, CUstream stream,
			      const uint64_t *places, size_t count, const struct cks_piece_key *key,
			      const struct cks_piece_hash **hashes);

#endif
