/*
 * client/error.c - names and texts of errors, from cuda/errors.def; they work before cuInit.
 */
#include "client/stub.h"
#include "gen/api.h"

struct text {
	CUresult error;
	const char *name, *text;
};

static const struct text *find(CUresult error)
{
	static const struct text texts[] = {
#define CK_ERROR(name, value, text) { name, #name, text },
#include "cuda/errors.def"
#undef CK_ERROR
	};

	for (size_t i = 0; i < CK_ARRAY_SIZE(texts); i++) {
		if (texts[i].error == error)
			return &texts[i];
	}
	return NULL;
}

/* The pointer is written for unknown errors too: callers print it without a look at the result. */
CK_EXPORT CUresult cuGetErrorName(CUresult error, const char **pStr)
{
	const struct text *t = find(error);

	if (!pStr)
		return CUDA_ERROR_INVALID_VALUE;
	*pStr = t ? t->name : NULL;
	return t ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CK_EXPORT CUresult cuGetErrorString(CUresult error, const char **pStr)
{
	const struct text *t = find(error);

	if (!pStr)
		return CUDA_ERROR_INVALID_VALUE;
	*pStr = t ? t->text : NULL;
	return t ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
