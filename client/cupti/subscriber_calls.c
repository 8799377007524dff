/*
 * client/cupti/subscriber_calls.c - the calls of CUPTI that name a subscriber (cupti..._v2). There
 * is one subscriber, so they are the calls without it; records have all fields.
 */
#include "client/cupti/api.h"
#include "client/cupti/cupti.h"

static CUptiResult check_subscriber(const void *subscriber)
{
	return ckc_cupti_is_subscriber(ckc_client_current()->cupti, subscriber)
		       ? CUPTI_SUCCESS
		       : ckc_cupti_result(CUPTI_ERROR_INVALID_PARAMETER);
}

CK_EXPORT CUptiResult cuptiActivityEnable_v2(void *subscriber, uint32_t kind,
					     const struct ck_cupti_config *config)
{
	CUptiResult ret = check_subscriber(subscriber);

	if (ret)
		return ret;
	if (config && config->selection.count > 0)
		return ckc_cupti_result(CUPTI_ERROR_NOT_SUPPORTED);
	return cuptiActivityEnable(kind);
}

CK_EXPORT CUptiResult cuptiActivityDisable_v2(void *subscriber, uint32_t kind,
					      const struct ck_cupti_config *config)
{
	CUptiResult ret = check_subscriber(subscriber);

	(void)config;
	return ret ? ret : cuptiActivityDisable(kind);
}

CK_EXPORT CUptiResult cuptiActivityRegisterCallbacks_v2(void *subscriber,
							ck_cupti_request_v2_fn request,
							ck_cupti_complete_v2_fn complete)
{
	struct ckc_client *c = ckc_client_current();
	struct ckc_cupti *s = c->cupti;
	CUptiResult ret = check_subscriber(subscriber);

	if (ret)
		return ret;
	if (!request || !complete)
		return ckc_cupti_result(CUPTI_ERROR_INVALID_PARAMETER);
	ck_lock(&s->flush_lock);
	ckc_profile_file_yield(c);
	if (!s->request_v2)
		ckc_cupti_finish(s); /* the buffer of the other functions */
	s->request_v2 = request;
	s->complete_v2 = complete;
	ckc_cupti_begin(s);
	ck_unlock(&s->flush_lock);
	return CUPTI_SUCCESS;
}

CK_EXPORT CUptiResult cuptiActivityGetNextRecord_v2(void *subscriber, uint8_t *buffer, size_t valid,
						    void **record)
{
	CUptiResult ret = check_subscriber(subscriber);

	return ret ? ret : cuptiActivityGetNextRecord(buffer, valid, record);
}

CK_EXPORT CUptiResult cuptiActivityGetNumDroppedRecords_v2(void *subscriber, CUcontext context,
							   uint32_t stream, size_t *dropped)
{
	CUptiResult ret = check_subscriber(subscriber);

	return ret ? ret : cuptiActivityGetNumDroppedRecords(context, stream, dropped);
}

CK_EXPORT CUptiResult cuptiActivitySetAttribute_v2(void *subscriber, int attribute, size_t *size,
						   void *value)
{
	CUptiResult ret = check_subscriber(subscriber);

	return ret ? ret : cuptiActivitySetAttribute(attribute, size, value);
}

CK_EXPORT CUptiResult cuptiActivityPushExternalCorrelationId_v2(void *subscriber, uint32_t kind,
								uint64_t id)
{
	CUptiResult ret = check_subscriber(subscriber);

	return ret ? ret : cuptiActivityPushExternalCorrelationId(kind, id);
}

CK_EXPORT CUptiResult cuptiActivityPopExternalCorrelationId_v2(void *subscriber, uint32_t kind,
							       uint64_t *last)
{
	CUptiResult ret = check_subscriber(subscriber);

	return ret ? ret : cuptiActivityPopExternalCorrelationId(kind, last);
}

CK_EXPORT CUptiResult cuptiGetTimestamp_v2(void *subscriber, uint64_t *timestamp)
{
	CUptiResult ret = check_subscriber(subscriber);

	return ret ? ret : cuptiGetTimestamp(timestamp);
}
