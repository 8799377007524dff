/*
 * client/cupti/call_names.c - names of calls by CUPTI's numbers. Kineto asks for them to name the calls in a timeline.
 */
#include "client/cupti/api.h"
#include "client/cupti/cupti.h"

static const char *const driver_names[] = {
#define CKC_CUPTI_NAME(id, name) [(id)] = #name,
#include "client/cupti/driver_names.def"
};

static const char *const runtime_names[] = {
#include "client/cupti/runtime_names.def"
#undef CKC_CUPTI_NAME
};

const char *ckc_cupti_call_name(uint32_t domain, uint32_t call)
{
	if (domain == CUPTI_CB_DOMAIN_DRIVER_API && call < CK_ARRAY_SIZE(driver_names))
		return driver_names[call];
	if (domain == CUPTI_CB_DOMAIN_RUNTIME_API && call < CK_ARRAY_SIZE(runtime_names))
		return runtime_names[call];
	return NULL;
}

CK_EXPORT CUptiResult cuptiGetCallbackName(uint32_t domain, uint32_t call, const char **name)
{
	const char *found = ckc_cupti_call_name(domain, call);

	if (name)
		*name = found;
	return ckc_cupti_result(name && found ? CUPTI_SUCCESS : CUPTI_ERROR_INVALID_PARAMETER);
}
