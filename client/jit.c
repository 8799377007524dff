/*
 * client/jit.c - options that carry a value travel; those that point to buffers stay here.
 */
#include <stdlib.h>
#include <string.h>

#include "client/client.h"
#include "client/jit.h"
#include "util/log.h"

CK_LOG_DEFINE("client");

#define MAX_OPTIONS 64

struct packed {
	uint32_t option, pad;
	uint64_t value;
};

/* Where the application wants a log: its buffer and the slot that holds the buffer's size. */
struct log_place {
	char *buffer;
	void **size;
};

static struct log_place log_place(const struct ck_jit *jit, CUjit_option buffer, CUjit_option size)
{
	struct log_place place = { 0 };

	for (unsigned int i = 0; jit && jit->options && jit->values && i < jit->count; i++) {
		if (jit->options[i] == buffer)
			place.buffer = jit->values[i];
		else if (jit->options[i] == size)
			place.size = &jit->values[i];
	}
	return place;
}

static void give_log(struct log_place place, const char *text, size_t size)
{
	size_t room;

	if (!place.size)
		return;
	room = (size_t)(uintptr_t)*place.size & 0xffffffffu;
	if (place.buffer && room > 0) {
		if (size > room - 1)
			size = room - 1;
		if (size > 0)	/* else there may be no text */
			memcpy(place.buffer, text, size);
		place.buffer[size] = '\0';
	} else {
		size = 0;
	}
	*place.size = (void *)size;
}

static size_t pack(const struct ck_jit *jit, struct packed *out)
{
	size_t n = 0;

	for (unsigned int i = 0; jit && jit->options && jit->values && i < jit->count; i++) {
		CUjit_option o = jit->options[i];

		if (n == MAX_OPTIONS)
			break;
		switch (o) {
		case CU_JIT_MAX_REGISTERS:
		case CU_JIT_THREADS_PER_BLOCK:
		case CU_JIT_OPTIMIZATION_LEVEL:
		case CU_JIT_FALLBACK_STRATEGY:
		case CU_JIT_GENERATE_DEBUG_INFO:
		case CU_JIT_LOG_VERBOSE:
		case CU_JIT_GENERATE_LINE_INFO:
		case CU_JIT_CACHE_MODE:
			out[n].option = (uint32_t)o;
			out[n].pad = 0;
			out[n++].value = (uint64_t)(uintptr_t)jit->values[i];
			break;
		default:	/* buffers, or the target, which is the context's */
			break;
		}
	}
	return n;
}

CUresult ck_jit_build(const struct ck_jit *jit, uint64_t ctx, uint64_t id, bool library,
		      const unsigned char hash[32])
{
	struct packed options[MAX_OPTIONS];
	void *info = NULL, *error = NULL;
	size_t info_size = 0, error_size = 0;
	CUresult err = ck_wire_ck_module_build(ctx, id, library, hash, options,
					       pack(jit, options) * sizeof(options[0]), &info,
					       &info_size, &error, &error_size);

	give_log(log_place(jit, CU_JIT_INFO_LOG_BUFFER, CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES), info,
		 info_size);
	give_log(log_place(jit, CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES), error,
		 error_size);
	/* The emulated driver names the instruction that it lacks: its user wants to know. */
	if (err == CUDA_ERROR_NOT_SUPPORTED && error_size > 0)
		ck_warn("PTX: %.*s", (int)error_size, (const char *)error);
	else if (err && error_size > 0)
		ck_info("PTX: %.*s", (int)error_size, (const char *)error);
	free(info);
	free(error);
	return err;
}

void ck_jit_no_log(const struct ck_jit *jit)
{
	give_log(log_place(jit, CU_JIT_INFO_LOG_BUFFER, CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES), "", 0);
	give_log(log_place(jit, CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES), "", 0);
}
