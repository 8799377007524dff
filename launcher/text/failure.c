/*
 * launcher/text/failure.c - failures as values; see failure.h.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cuda/errors.h"
#include "launcher/text/failure.h"

static int errno_of(enum ckl_exit exit)
{
	switch (exit) {
	case CK_EXIT_FILE:
	case CK_EXIT_MODULE:
		return -ENOENT;
	case CK_EXIT_MEMORY:
		return -ENOMEM;
	case CK_EXIT_LAUNCH:
		return -EIO;
	case CK_EXIT_TIMEOUT:
		return -ETIMEDOUT;
	case CK_EXIT_SERVICE:
		return -EPIPE;
	default:
		return -EINVAL;
	}
}

static int record_failure(struct ckl_fail *fail, enum ckl_exit exit, const char *stage,
			  const char *code, const char *format, va_list args)
	__attribute__((format(printf, 5, 0)));

static int record_failure(struct ckl_fail *fail, enum ckl_exit exit, const char *stage,
			  const char *code, const char *format, va_list args)
{
	if (fail->exit == CK_EXIT_OK) {
		fail->exit = exit;
		fail->stage = stage;
		fail->code = code;
		vsnprintf(fail->message, sizeof(fail->message), format, args);
	}
	return errno_of(exit);
}

int ckl_fail(struct ckl_fail *fail, enum ckl_exit exit, const char *stage, const char *code,
	     const char *format, ...)
{
	va_list args;
	int ret;

	va_start(args, format);
	ret = record_failure(fail, exit, stage, code, format, args);
	va_end(args);
	return ret;
}

int ckl_fail_input(struct ckl_fail *fail, const char *format, ...)
{
	va_list args;
	int ret;

	va_start(args, format);
	ret = record_failure(fail, CK_EXIT_INPUT, "input", "BAD_INPUT", format, args);
	va_end(args);
	return ret;
}

int ckl_fail_memory(struct ckl_fail *fail)
{
	return ckl_fail(fail, CK_EXIT_MEMORY, "memory", "OUT_OF_HOST_MEMORY",
			"this machine has too little memory for the request");
}

int ckl_fail_cuda(struct ckl_fail *fail, enum ckl_exit exit, const char *stage, CUresult result,
		  const char *what)
{
	const struct ck_error *row = ck_error_find(result);

	if (!row)
		row = ck_error_find(CUDA_ERROR_UNKNOWN);
	if (result == CUDA_ERROR_OUT_OF_MEMORY)
		exit = CK_EXIT_MEMORY;
	return ckl_fail(fail, exit, stage, row->name, "%s: %s", what, row->text);
}

void ckl_fail_add(struct ckl_fail *fail, const char *reason)
{
	size_t n = strlen(fail->message);

	if (reason[0])
		snprintf(fail->message + n, sizeof(fail->message) - n, ": %s", reason);
}

void ckl_fail_clear(struct ckl_fail *fail)
{
	free(fail->log);
	*fail = (struct ckl_fail){0};
}
