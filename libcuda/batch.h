/*
 * libcuda/batch.h - checks of a batch of copies.
 */
#ifndef CK_LIBCUDA_BATCH_H
#define CK_LIBCUDA_BATCH_H

#include <stdbool.h>
#include <stddef.h>

#include "cuda/types.h"

/*
 * Whether @count lists of attributes are right for @copies copies: the first begins at the first
 * copy (@first[0] is 0), each later one behind the one before.
 */
bool ck_batch_attributes_ok(const CUmemcpyAttributes *attrs, const size_t *first, size_t count,
			    size_t copies);

#endif
