/*
 * cuda/array_format.h - how large the elements of an array are.
 */
#ifndef CK_CUDA_ARRAY_FORMAT_H
#define CK_CUDA_ARRAY_FORMAT_H

#include "cuda/texture_types.h"

/* Bytes of one channel; 0: a format of several planes or of compressed blocks, or no format. */
static inline unsigned int ck_channel_bytes(CUarray_format format)
{
	switch (format) {
	case CU_AD_FORMAT_UNSIGNED_INT8:
	case CU_AD_FORMAT_SIGNED_INT8:
		return 1;
	case CU_AD_FORMAT_UNSIGNED_INT16:
	case CU_AD_FORMAT_SIGNED_INT16:
	case CU_AD_FORMAT_HALF:
		return 2;
	case CU_AD_FORMAT_UNSIGNED_INT32:
	case CU_AD_FORMAT_SIGNED_INT32:
	case CU_AD_FORMAT_FLOAT:
		return 4;
	default:
		return 0;
	}
}

#endif
