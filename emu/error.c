/*
 * emu/error.c - names and texts of errors.
 */
#include "emu/emu.h"

static const struct {
	CUresult value;
	const char *name, *text;
} errors[] = {
#define CK_ERROR(name, value, text) {name, #name, text},
#include "cuda/errors.def"
#undef CK_ERROR
};

/* Index in the table, or -1. */
static int find(CUresult error)
{
	for (size_t i = 0; i < CK_ARRAY_SIZE(errors); i++) {
		if (errors[i].value == error)
			return (int)i;
	}
	return -1;
}

CUresult cuGetErrorName(CUresult error, const char **pStr)
{
	int i = find(error);

	if (!pStr)
		return CUDA_ERROR_INVALID_VALUE;
	*pStr = i < 0 ? NULL : errors[i].name;
	return i < 0 ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

CUresult cuGetErrorString(CUresult error, const char **pStr)
{
	int i = find(error);

	if (!pStr)
		return CUDA_ERROR_INVALID_VALUE;
	*pStr = i < 0 ? NULL : errors[i].text;
	return i < 0 ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}
