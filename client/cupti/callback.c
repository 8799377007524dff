/*
 * client/cupti/callback.c - CUPTI's subscribers: one may be called at the beginning and the end of
 * the program's calls. Callbacks about resources, waits and states may be enabled, and none come.
 */
#include "client/cupti/api.h"
#include "client/cupti/cupti.h"
#include "util/log.h"

CK_LOG_DEFINE("client");

static void ignore_callback(void *userdata, uint32_t domain, uint32_t call,
			    const struct ck_cupti_callback *data)
{
	(void)userdata, (void)domain, (void)call, (void)data;
}

/* One at a time, as with CUPTI; it may have no function. Its handle is the address of the state's
 * word. */
CK_EXPORT CUptiResult cuptiSubscribe(void **subscriber, ck_cupti_callback_fn callback,
				     void *userdata)
{
	struct ckc_cupti *s = ckc_client_current()->cupti;
	CUptiResult ret = CUPTI_SUCCESS;

	if (!subscriber)
		return ckc_cupti_result(CUPTI_ERROR_INVALID_PARAMETER);
	ck_lock(&s->lock);
	if (atomic_load(&s->subscriber)) {
		ret = CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED;
	} else {
		s->userdata = userdata;
		atomic_store(&s->subscriber, callback ? callback : ignore_callback);
	}
	ck_unlock(&s->lock);
	if (!ret)
		*subscriber = &s->subscriber;
	return ckc_cupti_result(ret);
}

CK_EXPORT CUptiResult cuptiSubscribe_v2(void **subscriber, ck_cupti_callback_fn callback,
					void *userdata, void *params)
{
	(void)params;
	return cuptiSubscribe(subscriber, callback, userdata);
}

bool ckc_cupti_is_subscriber(struct ckc_cupti *s, const void *subscriber)
{
	return subscriber == &s->subscriber && atomic_load(&s->subscriber);
}

/* --- which calls */

static void set_bits(struct ckc_cupti *s, uint32_t domain, uint32_t first, uint32_t last, bool to)
{
	_Atomic uint64_t *bits = ckc_cupti_reported(s, domain);

	for (uint32_t i = first; bits && i <= last; i++) {
		if (to)
			atomic_fetch_or(&bits[i / 64], 1ull << i % 64);
		else
			atomic_fetch_and(&bits[i / 64], ~(1ull << i % 64));
	}
}

static bool has_any_bit(const _Atomic uint64_t *bits)
{
	uint64_t all = 0;

	for (unsigned int i = 0; i < CKC_CUPTI_CALLS / 64; i++)
		all |= atomic_load(&bits[i]);
	return all != 0;
}

/* Calls @first to @last of @domain are reported, or not. */
static CUptiResult set_reported_calls(uint32_t domain, uint32_t first, uint32_t last, bool to)
{
	struct ckc_client *c = ckc_client_current();
	struct ckc_cupti *s = c->cupti;

	ck_lock(&s->flush_lock);
	set_bits(s, domain, first, last, to);
	atomic_store(&s->reports_driver, has_any_bit(s->reported_driver));
	atomic_store(&s->reports_runtime, has_any_bit(s->reported_runtime));
	ckc_cupti_apply(c);
	ck_unlock(&s->flush_lock);
	return CUPTI_SUCCESS;
}

static void report_nothing(void)
{
	set_reported_calls(CUPTI_CB_DOMAIN_DRIVER_API, 0, CKC_CUPTI_CALLS - 1, false);
	set_reported_calls(CUPTI_CB_DOMAIN_RUNTIME_API, 0, CKC_CUPTI_CALLS - 1, false);
}

CK_EXPORT CUptiResult cuptiUnsubscribe(void *subscriber)
{
	struct ckc_cupti *s = ckc_client_current()->cupti;

	if (!ckc_cupti_is_subscriber(s, subscriber))
		return ckc_cupti_result(CUPTI_ERROR_INVALID_PARAMETER);
	report_nothing();
	atomic_store(&s->subscriber, NULL);
	return CUPTI_SUCCESS;
}

static CUptiResult set_callbacks(void *subscriber, uint32_t domain, uint32_t first, uint32_t last,
				 bool to)
{
	static bool told;

	if (!ckc_cupti_is_subscriber(ckc_client_current()->cupti, subscriber) ||
	    last >= CKC_CUPTI_CALLS)
		return ckc_cupti_result(CUPTI_ERROR_INVALID_PARAMETER);
	switch (domain) {
	case CUPTI_CB_DOMAIN_DRIVER_API:
	case CUPTI_CB_DOMAIN_RUNTIME_API:
		return set_reported_calls(domain, first, last, to);
	case CUPTI_CB_DOMAIN_RESOURCE:
	case CUPTI_CB_DOMAIN_SYNCHRONIZE:
	case CUPTI_CB_DOMAIN_STATE:
		return CUPTI_SUCCESS;
	default:
		if (to && !__atomic_exchange_n(&told, true, __ATOMIC_RELAXED))
			ck_warn("CUPTI's callbacks of domain %u are not supported", domain);
		return to ? ckc_cupti_result(CUPTI_ERROR_NOT_SUPPORTED) : CUPTI_SUCCESS;
	}
}

CK_EXPORT CUptiResult cuptiEnableDomain(uint32_t enable, void *subscriber, uint32_t domain)
{
	return set_callbacks(subscriber, domain, 1, CKC_CUPTI_CALLS - 1, enable);
}

CK_EXPORT CUptiResult cuptiEnableCallback(uint32_t enable, void *subscriber, uint32_t domain,
					  uint32_t call)
{
	return set_callbacks(subscriber, domain, call, call, enable);
}

CK_EXPORT CUptiResult cuptiEnableAllDomains(uint32_t enable, void *subscriber)
{
	CUptiResult ret = cuptiEnableDomain(enable, subscriber, CUPTI_CB_DOMAIN_DRIVER_API);

	return ret ? ret : cuptiEnableDomain(enable, subscriber, CUPTI_CB_DOMAIN_RUNTIME_API);
}

CK_EXPORT CUptiResult cuptiGetCallbackState(uint32_t *enable, void *subscriber, uint32_t domain,
					    uint32_t call)
{
	struct ckc_cupti *s = ckc_client_current()->cupti;
	const _Atomic uint64_t *bits = ckc_cupti_reported(s, domain);

	if (!enable || !ckc_cupti_is_subscriber(s, subscriber) || call >= CKC_CUPTI_CALLS)
		return ckc_cupti_result(CUPTI_ERROR_INVALID_PARAMETER);
	*enable = bits && (atomic_load(&bits[call / 64]) >> call % 64 & 1);
	return CUPTI_SUCCESS;
}

CK_EXPORT CUptiResult cuptiSupportedDomains(size_t *count, void **domains)
{
	static uint32_t known[] = {CUPTI_CB_DOMAIN_DRIVER_API, CUPTI_CB_DOMAIN_RUNTIME_API,
				   CUPTI_CB_DOMAIN_RESOURCE, CUPTI_CB_DOMAIN_SYNCHRONIZE};

	if (!count || !domains)
		return ckc_cupti_result(CUPTI_ERROR_INVALID_PARAMETER);
	*count = CK_ARRAY_SIZE(known);
	*domains = known;
	return CUPTI_SUCCESS;
}
