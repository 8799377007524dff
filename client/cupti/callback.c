/*
 * client/cupti/callback.c - CUPTI's subscribers. A profiler may subscribe, and enable callbacks about resources, none of
 * which come; it does not get callbacks about calls.
 */
#include "client/cupti/api.h"
#include "client/cupti/cupti.h"
#include "util/log.h"

CK_LOG_DEFINE("client");

/* One at a time, as with CUPTI. Its handle is the address of the state's word. */
CK_EXPORT CUptiResult cuptiSubscribe(void **subscriber, void *callback, void *userdata)
{
	struct ckc_cupti *s = ckc_client_current()->cupti;
	CUptiResult ret = CUPTI_SUCCESS;

	(void)userdata;
	if (!subscriber || !callback)
		return ckc_cupti_result(CUPTI_ERROR_INVALID_PARAMETER);
	ck_lock(&s->lock);
	if (s->subscriber)
		ret = CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED;
	else
		s->subscriber = callback;
	ck_unlock(&s->lock);
	if (!ret)
		*subscriber = &s->subscriber;
	return ckc_cupti_result(ret);
}

CK_EXPORT CUptiResult cuptiSubscribe_v2(void **subscriber, void *callback, void *userdata,
					void *params)
{
	(void)params;
	return cuptiSubscribe(subscriber, callback, userdata);
}

static bool is_subscriber(struct ckc_cupti *s, const void *subscriber)
{
	return subscriber == &s->subscriber && s->subscriber;
}

CK_EXPORT CUptiResult cuptiUnsubscribe(void *subscriber)
{
	struct ckc_cupti *s = ckc_client_current()->cupti;
	bool known;

	ck_lock(&s->lock);
	known = is_subscriber(s, subscriber);
	if (known)
		s->subscriber = NULL;
	ck_unlock(&s->lock);
	return ckc_cupti_result(known ? CUPTI_SUCCESS : CUPTI_ERROR_INVALID_PARAMETER);
}

CK_EXPORT CUptiResult cuptiEnableDomain(uint32_t enable, void *subscriber, uint32_t domain)
{
	static bool told;
	struct ckc_cupti *s = ckc_client_current()->cupti;

	if (!is_subscriber(s, subscriber))
		return ckc_cupti_result(CUPTI_ERROR_INVALID_PARAMETER);
	if (!enable || domain == CUPTI_CB_DOMAIN_RESOURCE || domain == CUPTI_CB_DOMAIN_SYNCHRONIZE)
		return CUPTI_SUCCESS;
	if (!__atomic_exchange_n(&told, true, __ATOMIC_RELAXED))
		ck_warn("CUPTI's callbacks about calls are not supported (domain %u); records of "
			"calls are",
			domain);
	return ckc_cupti_result(CUPTI_ERROR_NOT_SUPPORTED);
}

CK_EXPORT CUptiResult cuptiEnableCallback(uint32_t enable, void *subscriber, uint32_t domain,
					  uint32_t call)
{
	(void)call;
	return cuptiEnableDomain(enable, subscriber, domain);
}

CK_EXPORT CUptiResult cuptiEnableAllDomains(uint32_t enable, void *subscriber)
{
	return cuptiEnableDomain(enable, subscriber, CUPTI_CB_DOMAIN_DRIVER_API);
}

CK_EXPORT CUptiResult cuptiSupportedDomains(size_t *count, void **domains)
{
	static uint32_t known[] = {CUPTI_CB_DOMAIN_RESOURCE, CUPTI_CB_DOMAIN_SYNCHRONIZE};

	if (!count || !domains)
		return ckc_cupti_result(CUPTI_ERROR_INVALID_PARAMETER);
	*count = CK_ARRAY_SIZE(known);
	*domains = known;
	return CUPTI_SUCCESS;
}
