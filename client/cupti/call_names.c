/*
 * client/cupti/call_names.c - names of calls by CUPTI's numbers. Kineto asks for them to name the
 * calls in a timeline.
 */
#include <string.h>

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

/* The runtime's names end with the version that the form of the call is of, such as _v3020. */
size_t ckc_cupti_name_length(const char *name)
{
	const char *v = strrchr(name, '_');

	if (v && v[1] == 'v' && v[2] && strspn(v + 2, "0123456789") == strlen(v + 2) &&
	    strlen(v + 2) > 2)
		return (size_t)(v - name);
	return strlen(name);
}

CK_EXPORT CUptiResult cuptiGetCallbackName(uint32_t domain, uint32_t call, const char **name)
{
	const char *found = ckc_cupti_call_name(domain, call);

	if (name)
		*name = found;
	return ckc_cupti_result(name && found ? CUPTI_SUCCESS : CUPTI_ERROR_INVALID_PARAMETER);
}
