/*
 * client/nccl/error.c - results and texts of errors.
 */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "client/nccl/nccl.h"
#include "util/log.h"
#include "util/util.h"

CK_LOG_DEFINE("client");

static void store_error_text(const char *text, size_t size)
{
	struct ckc_nccl *s = ckc_client_root()->nccl;

	size = ck_min(size, sizeof(s->text) - 1);
	ck_lock(&s->lock);
	if (size > 0)
		memcpy(s->text, text, size);
	s->text[size] = '\0';
	ck_unlock(&s->lock);
}

ncclResult_t ckc_nccl_fail(ncclResult_t result, const char *format, ...)
{
	char text[CKC_NCCL_TEXT];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	store_error_text(text, strlen(text));
	ck_info("NCCL: %s", text);
	return result;
}

ncclResult_t ckc_nccl_fail_with(ncclResult_t result, const char *text, size_t size)
{
	store_error_text(text, size);
	ck_info("NCCL, on the server: %d: %.*s", result, (int)ck_min(size, (size_t)CKC_NCCL_TEXT),
		text);
	return result;
}

ncclResult_t ckc_nccl_from_driver(CUresult err)
{
	switch (err) {
	case CUDA_SUCCESS:
		return ncclSuccess;
	case CUDA_ERROR_DEVICE_UNAVAILABLE:
		return ckc_nccl_fail(ncclRemoteError, "the server is lost");
	case CUDA_ERROR_NOT_SUPPORTED:
		return ckc_nccl_fail(ncclSystemError, "the server does not offer NCCL");
	case CUDA_ERROR_OUT_OF_MEMORY:
		return ckc_nccl_fail(ncclSystemError, "out of memory");
	default:
		return ckc_nccl_fail(ncclUnhandledCudaError, "CUDA error %d", err);
	}
}

const char *ckc_ncclGetErrorString(ncclResult_t result)
{
	static const char *const texts[] = {
		[ncclSuccess] = "no error",
		[ncclUnhandledCudaError] =
			"unhandled cuda error (run with NCCL_DEBUG=INFO for details)",
		[ncclSystemError] = "unhandled system error (run with NCCL_DEBUG=INFO for details)",
		[ncclInternalError] =
			"internal error - please report this issue to the NCCL developers",
		[ncclInvalidArgument] = "invalid argument (run with NCCL_DEBUG=WARN for details)",
		[ncclInvalidUsage] = "invalid usage (run with NCCL_DEBUG=WARN for details)",
		[ncclRemoteError] = "remote process exited or there was a network error",
		[ncclInProgress] = "NCCL operation in progress",
	};

	return result >= 0 && result < ncclNumResults ? texts[result] : "unknown result code";
}
