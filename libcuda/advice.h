/*
 * libcuda/advice.h - advice of programs about managed memory, which they may ask for again.
 */
#ifndef CK_LIBCUDA_ADVICE_H
#define CK_LIBCUDA_ADVICE_H

#include <stddef.h>
#include <stdint.h>

#include "cuda/types.h"

/* Keep advice, or where a range was last prefetched to; of whole pages. Arguments are checked. */
CUresult ck_advice_set(uint64_t at, size_t size, CUmem_advise advice,
		       const CUmemLocation *location);
CUresult ck_advice_prefetched(uint64_t at, size_t size, const CUmemLocation *location);

/* An attribute of a range: INVALID_VALUE when there is none, or @room is wrong for it. */
CUresult ck_advice_get(uint64_t at, size_t size, CUmem_range_attribute attribute, void *data,
		       size_t room);

/* Forget all of a range that is freed. */
void ck_advice_forget(uint64_t at, size_t size);

#endif
