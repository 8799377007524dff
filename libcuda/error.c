/*
 * libcuda/error.c - names and texts of errors; they work before cuInit.
 */
#include "cuda/errors.h"
#include "gen/api.h"
#include "util/util.h"

/* Write the pointer for unknown errors too: callers print it without checking the result. */
CK_EXPORT CUresult cuGetErrorName(CUresult error, const char **pStr)
{
	const struct ck_error *row = ck_error_find(error);

	if (!pStr)
		return CUDA_ERROR_INVALID_VALUE;
	*pStr = row ? row->name : NULL;
	return row ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CK_EXPORT CUresult cuGetErrorString(CUresult error, const char **pStr)
{
	const struct ck_error *row = ck_error_find(error);

	if (!pStr)
		return CUDA_ERROR_INVALID_VALUE;
	*pStr = row ? row->text : NULL;
	return row ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
