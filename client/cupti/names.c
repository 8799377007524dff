/*
 * client/cupti/names.c - CUPTI's version, texts of its errors, and the functions that are not
 * supported.
 */
#include "client/cupti/api.h"
#include "client/cupti/cupti.h"
#include "util/log.h"

CK_LOG_DEFINE("client");

#define API_VERSION 130001 /* of CUDA 13.0, whose layout the records have */

CK_EXPORT CUptiResult cuptiGetVersion(uint32_t *version)
{
	if (!version)
		return ckc_cupti_result(CUPTI_ERROR_INVALID_PARAMETER);
	*version = API_VERSION;
	return CUPTI_SUCCESS;
}

static const char *text_of(CUptiResult result)
{
	switch (result) {
	case CUPTI_SUCCESS:
		return "CUPTI_SUCCESS";
	case CUPTI_ERROR_INVALID_PARAMETER:
		return "CUPTI_ERROR_INVALID_PARAMETER";
	case CUPTI_ERROR_INVALID_OPERATION:
		return "CUPTI_ERROR_INVALID_OPERATION";
	case CUPTI_ERROR_OUT_OF_MEMORY:
		return "CUPTI_ERROR_OUT_OF_MEMORY";
	case CUPTI_ERROR_MAX_LIMIT_REACHED:
		return "CUPTI_ERROR_MAX_LIMIT_REACHED";
	case CUPTI_ERROR_NOT_INITIALIZED:
		return "CUPTI_ERROR_NOT_INITIALIZED";
	case CUPTI_ERROR_QUEUE_EMPTY:
		return "CUPTI_ERROR_QUEUE_EMPTY";
	case CUPTI_ERROR_INVALID_KIND:
		return "CUPTI_ERROR_INVALID_KIND";
	case CUPTI_ERROR_NOT_SUPPORTED:
		return "CUPTI_ERROR_NOT_SUPPORTED";
	case CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED:
		return "CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED";
	case CUPTI_ERROR_UNKNOWN:
		return "CUPTI_ERROR_UNKNOWN";
	default:
		return NULL;
	}
}

CK_EXPORT CUptiResult cuptiGetResultString(CUptiResult result, const char **text)
{
	const char *found = text_of(result);

	if (!text || !found)
		return ckc_cupti_result(CUPTI_ERROR_INVALID_PARAMETER);
	*text = found;
	return CUPTI_SUCCESS;
}

CK_EXPORT CUptiResult cuptiGetErrorMessage(CUptiResult result, const char **text)
{
	return cuptiGetResultString(result, text);
}

/* Threads have the system's numbers in records. */
CK_EXPORT CUptiResult cuptiSetThreadIdType(int type)
{
	return ckc_cupti_result(type == 1 ? CUPTI_SUCCESS : CUPTI_ERROR_NOT_SUPPORTED);
}

CK_EXPORT CUptiResult cuptiGetThreadIdType(int *type)
{
	if (!type)
		return ckc_cupti_result(CUPTI_ERROR_INVALID_PARAMETER);
	*type = 1;
	return CUPTI_SUCCESS;
}

static CUptiResult refuse_call(const char *name, bool *told)
{
	if (!__atomic_exchange_n(told, true, __ATOMIC_RELAXED))
		ck_warn("%s is not supported: it returns CUPTI_ERROR_NOT_SUPPORTED", name);
	return ckc_cupti_result(CUPTI_ERROR_NOT_SUPPORTED);
}

#define CKC_CUPTI_REFUSED(name)                                                                    \
	CUptiResult name(void);                                                                    \
	CK_EXPORT CUptiResult name(void)                                                           \
	{                                                                                          \
		static bool told;                                                                  \
		return refuse_call(#name, &told);                                                  \
	}
#include "client/cupti/unsupported.def"
