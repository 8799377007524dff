/*
 * cuda/errors.h - the name and the text of an error, from errors.def.
 */
#ifndef CK_CUDA_ERRORS_H
#define CK_CUDA_ERRORS_H

#include <stdbool.h>
#include <stddef.h>

#include "cuda/base_types.h"

struct ck_error {
	CUresult value;
	const char *name, *text;
};

/* Errors that a kernel brings upon its context. */
static inline bool ck_error_is_fault(CUresult err)
{
	switch (err) {
	case CUDA_ERROR_ILLEGAL_ADDRESS:
	case CUDA_ERROR_LAUNCH_TIMEOUT:
	case CUDA_ERROR_ASSERT:
	case CUDA_ERROR_HARDWARE_STACK_ERROR:
	case CUDA_ERROR_ILLEGAL_INSTRUCTION:
	case CUDA_ERROR_MISALIGNED_ADDRESS:
	case CUDA_ERROR_INVALID_ADDRESS_SPACE:
	case CUDA_ERROR_INVALID_PC:
	case CUDA_ERROR_LAUNCH_FAILED:
		return true;
	default:
		return false;
	}
}

/* Errors after which the driver answers every call of the context with the same error. */
static inline bool ck_error_is_sticky(CUresult err)
{
	return ck_error_is_fault(err) || err == CUDA_ERROR_ECC_UNCORRECTABLE ||
	       err == CUDA_ERROR_NVLINK_UNCORRECTABLE || err == CUDA_ERROR_CONTAINED;
}

/* The row of @value, or NULL for a number that CUDA does not know. */
static inline const struct ck_error *ck_error_find(CUresult value)
{
	static const struct ck_error errors[] = {
#define CK_ERROR(name, value, text) {name, #name, text},
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
