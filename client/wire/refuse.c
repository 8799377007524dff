/*
 * client/wire/refuse.c - calls on the table that are not supported.
 */
#include "client/wire/stub.h"
#include "util/log.h"

CK_LOG_DEFINE("client");

CUresult ck_refused(const char *name, bool *told)
{
	if (!__atomic_exchange_n(told, true, __ATOMIC_RELAXED))
		ck_warn("%s is not supported: it returns CUDA_ERROR_NOT_SUPPORTED", name);
	return CUDA_ERROR_NOT_SUPPORTED;
}
