/*
 * cuda/errors.h - the name and the text of an error, from errors.def.
 */
#ifndef CK_CUDA_ERRORS_H
#define CK_CUDA_ERRORS_H

#include <stddef.h>

#include "cuda/base_types.h"

struct ck_error {
	CUresult value;
	const char *name, *text;
};

/* The row of @value, or NULL for a number that CUDA does not know. */
static inline const struct ck_error *ck_error_find(CUresult value)
{
	static const struct ck_error errors[] = {
#define CK_ERROR(name, value, text) { name, #name, text },
#include "cuda/errors.def"
#undef CK_ERROR
	};

	for (size_t i = 0; i < sizeof(errors) / sizeof(errors[0]); i++) {
		if (errors[i].value == value)
			return &errors[i];
	}
	return NULL;
}

#endif
