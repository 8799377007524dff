/*
 * server/modules/jit.c - decode options of the driver's compiler; none may contain a pointer.
 */
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "server/modules/jit.h"

/* An encoded option. */
struct wire_option {
	uint32_t option, pad;
	uint64_t value;
};

static void add_option(struct cks_build *b, CUjit_option option, uint64_t value)
{
	b->option[b->count] = option;
	b->value[b->count++] = (void *)(uintptr_t)value;
}

void cks_build_init(struct cks_build *b)
{
	b->count = 0;
	b->info[0] = b->error[0] = '\0';
	add_option(b, CU_JIT_INFO_LOG_BUFFER, (uintptr_t)b->info);
	add_option(b, CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES, CK_LOG_SIZE);
	add_option(b, CU_JIT_ERROR_LOG_BUFFER, (uintptr_t)b->error);
	add_option(b, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES, CK_LOG_SIZE);
}

/* Is the option's value a pointer, or the length of the data at one? */
static bool holds_pointer(uint32_t option)
{
	switch (option) {
	case CU_JIT_INFO_LOG_BUFFER:
	case CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES:
	case CU_JIT_ERROR_LOG_BUFFER:
	case CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES:
	case CU_JIT_GLOBAL_SYMBOL_NAMES:
	case CU_JIT_GLOBAL_SYMBOL_ADDRESSES:
	case CU_JIT_GLOBAL_SYMBOL_COUNT:
	case CU_JIT_REFERENCED_KERNEL_NAMES:
	case CU_JIT_REFERENCED_KERNEL_COUNT:
	case CU_JIT_REFERENCED_VARIABLE_NAMES:
	case CU_JIT_REFERENCED_VARIABLE_COUNT:
		return true;
	default:
		return false;
	}
}

CUresult cks_build_options(struct cks_build *b, const void *bytes, size_t size)
{
	struct wire_option o;

	if (size % sizeof(o) != 0 || size / sizeof(o) > CK_BUILD_OPTIONS)
		return CUDA_ERROR_INVALID_VALUE;
	for (size_t at = 0; at < size; at += sizeof(o)) {
		memcpy(&o, (const char *)bytes + at, sizeof(o));
		if (o.option >= CU_JIT_NUM_OPTIONS || holds_pointer(o.option))
			return CUDA_ERROR_INVALID_VALUE;
		add_option(b, (CUjit_option)o.option, o.value);
	}
	return CUDA_SUCCESS;
}

char *cks_build_log(const char *log, u_int *size)
{
	char *text = strndup(log, CK_LOG_SIZE - 1);

	*size = text ? (u_int)strlen(text) : 0;
	return text;
}
