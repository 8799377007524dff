/*
 * client/modules/jit.c - compiler options: those with a value are sent, those that point to buffers
 * are handled here.
 */
#include <stdlib.h>
#include <string.h>

#include "client/link/client.h"
#include "client/modules/jit.h"
#include "util/log.h"
#include "util/until.h"

CK_LOG_DEFINE("client");

static void find_log(const struct ckc_jit *jit, CUjit_option buffer, CUjit_option size,
		     struct ckc_jit_log *log)
{
	*log = (struct ckc_jit_log){0};
	for (unsigned int i = 0; jit && jit->options && jit->values && i < jit->count; i++) {
		if (jit->options[i] == buffer)
			log->buffer = jit->values[i];
		else if (jit->options[i] == size)
			log->size = &jit->values[i];
	}
	if (log->size)
		log->room = (size_t)(uintptr_t)*log->size & 0xffffffffu;
}

/* CU_JIT_WALL_TIME: milliseconds as a float, in the option's own slot. */
static void write_time(const struct ckc_jit *jit, uint64_t began_ns)
{
	float ms = (float)(ck_now_ns() - began_ns) / 1e6f;

	for (unsigned int i = 0; jit && jit->options && jit->values && i < jit->count; i++)
		if (jit->options[i] == CU_JIT_WALL_TIME)
			memcpy(&jit->values[i], &ms, sizeof(ms));
}

void ckc_jit_logs(const struct ckc_jit *jit, struct ckc_jit_log *info, struct ckc_jit_log *error)
{
	find_log(jit, CU_JIT_INFO_LOG_BUFFER, CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES, info);
	find_log(jit, CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES, error);
}

void ckc_jit_log(const struct ckc_jit_log *log, const char *text, size_t size)
{
	if (!log->size)
		return;
	if (log->buffer && log->room > 0) {
		size = ck_min(size, log->room - 1);
		if (size > 0) /* otherwise there may be no text */
			memcpy(log->buffer, text, size);
		log->buffer[size] = '\0';
	} else {
		size = 0;
	}
	*log->size = (void *)size;
}

size_t ckc_jit_pack(const struct ckc_jit *jit, bool target,
		    struct ckc_jit_option out[CK_JIT_OPTIONS])
{
	size_t n = 0;

	for (unsigned int i = 0; jit && jit->options && jit->values && i < jit->count; i++) {
		CUjit_option o = jit->options[i];

		if (n == CK_JIT_OPTIONS)
			break;
		switch (o) {
		case CU_JIT_TARGET:
			if (!target) /* for a module, the context determines it */
				break;
			/* fall through */
		case CU_JIT_MAX_REGISTERS:
		case CU_JIT_THREADS_PER_BLOCK:
		case CU_JIT_OPTIMIZATION_LEVEL:
		case CU_JIT_FALLBACK_STRATEGY:
		case CU_JIT_GENERATE_DEBUG_INFO:
		case CU_JIT_LOG_VERBOSE:
		case CU_JIT_GENERATE_LINE_INFO:
		case CU_JIT_CACHE_MODE:
		case CU_JIT_POSITION_INDEPENDENT_CODE:
		case CU_JIT_MIN_CTA_PER_SM:
		case CU_JIT_MAX_THREADS_PER_BLOCK:
		case CU_JIT_OVERRIDE_DIRECTIVE_VALUES:
			out[n].option = (uint32_t)o;
			out[n].pad = 0;
			out[n++].value = (uint64_t)(uintptr_t)jit->values[i];
			break;
		default: /* buffers, or options that the driver ignores today */
			break;
		}
	}
	return n;
}

CUresult ckc_jit_build(const struct ckc_jit *jit, uint64_t ctx, uint64_t id, bool library,
		       const unsigned char hash[32])
{
	struct ckc_jit_option options[CK_JIT_OPTIONS];
	struct ckc_jit_log info_log, error_log;
	ck_module_build_args a = {
		.head.ctx = ctx,
		.module = id,
		.library = library,
		.options = CK_LIST(options, ckc_jit_pack(jit, false, options) * sizeof(options[0])),
	};
	ck_module_build_res r;
	uint64_t began = ck_now_ns();
	const char *error;
	size_t error_size;
	CUresult err;

	memcpy(a.hash, hash, sizeof(a.hash));
	err = ck_wire_module_build(&a, &r);
	write_time(jit, began);
	error = r.error_log.error_log_val;
	error_size = r.error_log.error_log_len;
	ckc_jit_logs(jit, &info_log, &error_log);
	ckc_jit_log(&info_log, r.info_log.info_log_val, r.info_log.info_log_len);
	ckc_jit_log(&error_log, error, error_size);
	/* The emulated driver names the missing instruction: report it to the user. */
	if (err == CUDA_ERROR_NOT_SUPPORTED && error_size > 0)
		ck_warn("PTX: %.*s", (int)error_size, error);
	else if (err && error_size > 0)
		ck_info("PTX: %.*s", (int)error_size, error);
	xdr_free((xdrproc_t)xdr_ck_module_build_res, &r);
	return err;
}

void ckc_jit_no_build(const struct ckc_jit *jit, const char *why)
{
	struct ckc_jit_log info, error;

	write_time(jit, ck_now_ns());
	ckc_jit_logs(jit, &info, &error);
	ckc_jit_log(&info, "", 0);
	ckc_jit_log(&error, why, strlen(why));
}
