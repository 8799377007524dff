/*
 * client/cupti/activity.c - CUPTI's activity interface: kinds to record, buffers, ids, times.
 *
 * libcupti.so.12 and libcupti.so.13 are only more names for this library, see
 * client/wire/library_names.c.
 */
#include <unistd.h>

#include "client/cupti/api.h"
#include "client/cupti/cupti.h"
#include "client/link/hooks.h"
#include "client/wire/profile.h"
#include "util/log.h"

CK_LOG_DEFINE("client");

#define BIT(kind) (1ull << CUPTI_ACTIVITY_KIND_##kind)
/* Kinds with records. */
#define KINDS                                                                                      \
	(BIT(MEMCPY) | BIT(MEMSET) | BIT(KERNEL) | BIT(CONCURRENT_KERNEL) | BIT(DRIVER) |          \
	 BIT(RUNTIME) | BIT(EXTERNAL_CORRELATION) | BIT(SYNCHRONIZATION) | BIT(DEVICE) |           \
	 BIT(CONTEXT) | BIT(MARKER) | BIT(OVERHEAD) | BIT(GRAPH_TRACE) | BIT(MEMCPY2))

static struct ckc_cupti *get_cupti(void)
{
	return ckc_client_current()->cupti;
}

/* --- kinds */

/* The program wants @more kinds, and not those in @fewer. */
static CUptiResult change_kinds(struct ckc_client *c, uint64_t more, uint64_t fewer)
{
	struct ckc_cupti *s = c->cupti;
	CUptiResult ret;

	ck_lock(&s->flush_lock);
	atomic_store(&s->asked, (atomic_load(&s->asked) | more) & ~fewer);
	atomic_store(&s->kinds, atomic_load(&s->asked) | (s->own.on ? CKC_OWN_KINDS : 0));
	ret = ckc_cupti_apply(c);
	ck_unlock(&s->flush_lock);
	return ret;
}

static void on_ready(struct ckc_client *c)
{
	if (ckc_cupti_wants(c->cupti, CUPTI_ACTIVITY_KIND_DEVICE))
		ckc_cupti_note_devices(c);
	if (atomic_load(&c->cupti->kinds))
		change_kinds(c, 0, 0);
}
CK_ON_READY(on_ready);

CK_EXPORT CUptiResult cuptiActivityEnable(uint32_t kind)
{
	struct ckc_client *c = ckc_client_current();

	if (kind >= CUPTI_ACTIVITY_KIND_END)
		return ckc_cupti_result(CUPTI_ERROR_INVALID_KIND);
	if (!(KINDS >> kind & 1)) {
		ck_warn("CUPTI records of kind %u are not supported: the profile does not contain "
			"them",
			kind);
		return ckc_cupti_result(CUPTI_ERROR_NOT_SUPPORTED);
	}
	if (kind == CUPTI_ACTIVITY_KIND_DEVICE && ckc_cupti_is_ready(c) &&
	    !ckc_cupti_wants(c->cupti, kind))
		ckc_cupti_note_devices(c);
	return ckc_cupti_result(change_kinds(c, 1ull << kind, 0));
}

CK_EXPORT CUptiResult cuptiActivityDisable(uint32_t kind)
{
	struct ckc_client *c = ckc_client_current();

	if (kind >= CUPTI_ACTIVITY_KIND_END)
		return ckc_cupti_result(CUPTI_ERROR_INVALID_KIND);
	if (!(atomic_load(&c->cupti->asked) >> kind & 1))
		return CUPTI_SUCCESS;
	return ckc_cupti_result(change_kinds(c, 0, 1ull << kind));
}

/* Records are of all contexts. */
CK_EXPORT CUptiResult cuptiActivityEnableContext(CUcontext context, uint32_t kind)
{
	(void)context;
	return cuptiActivityEnable(kind);
}

CK_EXPORT CUptiResult cuptiActivityDisableContext(CUcontext context, uint32_t kind)
{
	(void)context;
	return cuptiActivityDisable(kind);
}

/* With or without records of one call. */
static CUptiResult set_call(uint32_t kind, _Atomic uint64_t *left_out, uint32_t call,
			    uint8_t enable)
{
	if (call >= CKC_CUPTI_CALLS)
		return ckc_cupti_result(CUPTI_ERROR_INVALID_PARAMETER);
	if (!enable) {
		atomic_fetch_or(&left_out[call / 64], 1ull << call % 64);
		return CUPTI_SUCCESS;
	}
	atomic_fetch_and(&left_out[call / 64], ~(1ull << call % 64));
	return cuptiActivityEnable(kind);
}

CK_EXPORT CUptiResult cuptiActivityEnableDriverApi(uint32_t call, uint8_t enable)
{
	return set_call(CUPTI_ACTIVITY_KIND_DRIVER, get_cupti()->left_out_driver, call, enable);
}

CK_EXPORT CUptiResult cuptiActivityEnableRuntimeApi(uint32_t call, uint8_t enable)
{
	return set_call(CUPTI_ACTIVITY_KIND_RUNTIME, get_cupti()->left_out_runtime, call, enable);
}

/* --- buffers */

CK_EXPORT CUptiResult cuptiActivityRegisterCallbacks(ck_cupti_request_fn request,
						     ck_cupti_complete_fn complete)
{
	struct ckc_client *c = ckc_client_current();
	struct ckc_cupti *s = c->cupti;

	if (!request || !complete)
		return ckc_cupti_result(CUPTI_ERROR_INVALID_PARAMETER);
	ck_lock(&s->flush_lock);
	ckc_profile_file_yield(c);
	if (s->request_v2)
		ckc_cupti_finish(s); /* the buffer of the other functions */
	s->request = request;
	s->complete = complete;
	s->request_v2 = NULL;
	s->complete_v2 = NULL;
	ckc_cupti_begin(s);
	ck_unlock(&s->flush_lock);
	return CUPTI_SUCCESS;
}

/* The flush itself, which began at @began, as overhead of the thread. flush_lock is held. */
static void add_flush(struct ckc_client *c, uint64_t began)
{
	struct ck_cupti_overhead r = {
		.kind = CUPTI_ACTIVITY_KIND_OVERHEAD,
		.overhead = CUPTI_ACTIVITY_OVERHEAD_CUPTI_BUFFER_FLUSH,
		.object = CUPTI_ACTIVITY_OBJECT_THREAD,
		.id = {(uint32_t)getpid(), ckc_cupti_thread()},
		.start = began,
		.end = ckc_cupti_clock(),
	};

	if (ckc_cupti_wants(c->cupti, r.kind))
		ckc_cupti_append(c, &r);
}

CK_EXPORT CUptiResult cuptiActivityFlushAll(uint32_t flag)
{
	struct ckc_client *c = ckc_client_current();
	struct ckc_cupti *s = c->cupti;
	uint64_t began = ckc_cupti_clock();
	CUptiResult ret = CUPTI_SUCCESS;

	ck_lock(&s->flush_lock);
	if (!s->request && !s->request_v2) {
		ret = CUPTI_ERROR_INVALID_OPERATION;
	} else {
		ckc_cupti_hand_over_calls(c);
		if (ckc_cupti_is_ready(c))
			ret = ckc_cupti_fetch(c, flag & CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
		add_flush(c, began);
		ckc_cupti_finish(s);
		ckc_cupti_begin(s);
	}
	ck_unlock(&s->flush_lock);
	return ckc_cupti_result(ret);
}

CK_EXPORT CUptiResult cuptiActivityFlush(CUcontext context, uint32_t stream, uint32_t flag)
{
	(void)context, (void)stream;
	return cuptiActivityFlushAll(flag);
}

CK_EXPORT CUptiResult cuptiActivityGetNextRecord(uint8_t *buffer, size_t valid, void **record)
{
	/* the end of a buffer is no error to remember */
	return ck_cupti_next(buffer, valid, record);
}

CK_EXPORT CUptiResult cuptiActivityGetNumDroppedRecords(CUcontext context, uint32_t stream,
							size_t *dropped)
{
	struct ckc_cupti *s = get_cupti();

	(void)context, (void)stream;
	if (!dropped)
		return ckc_cupti_result(CUPTI_ERROR_INVALID_PARAMETER);
	ck_lock(&s->lock);
	*dropped = s->dropped;
	s->dropped = 0;
	ck_unlock(&s->lock);
	return CUPTI_SUCCESS;
}

/* Buffers of the device are the server's to choose. */
CK_EXPORT CUptiResult cuptiActivitySetAttribute(int attribute, size_t *size, void *value)
{
	(void)attribute;
	return ckc_cupti_result(size && value ? CUPTI_SUCCESS : CUPTI_ERROR_INVALID_PARAMETER);
}

/* --- ids, times */

CK_EXPORT CUptiResult cuptiActivityPushExternalCorrelationId(uint32_t kind, uint64_t id)
{
	if (kind == CUPTI_EXTERNAL_CORRELATION_KIND_INVALID ||
	    kind >= CUPTI_EXTERNAL_CORRELATION_KIND_END)
		return ckc_cupti_result(CUPTI_ERROR_INVALID_PARAMETER);
	return ckc_cupti_result(ckc_cupti_push(kind, id));
}

CK_EXPORT CUptiResult cuptiActivityPopExternalCorrelationId(uint32_t kind, uint64_t *last)
{
	return ckc_cupti_result(ckc_cupti_pop(kind, last));
}

CK_EXPORT CUptiResult cuptiGetTimestamp(uint64_t *timestamp)
{
	if (!timestamp)
		return ckc_cupti_result(CUPTI_ERROR_INVALID_PARAMETER);
	*timestamp = ckc_cupti_clock();
	return CUPTI_SUCCESS;
}

/* Readings of the former clock mean nothing by the new one. */
CK_EXPORT CUptiResult cuptiActivityRegisterTimestampCallback(uint64_t (*clock)(void))
{
	struct ckc_client *c = ckc_client_current();
	struct ckc_cupti *s = c->cupti;

	if (!clock)
		return ckc_cupti_result(CUPTI_ERROR_INVALID_PARAMETER);
	ck_lock(&s->flush_lock);
	ckc_profile_file_yield(c);
	atomic_store(&s->clock, clock);
	ckc_cupti_clock_changed(c);
	ck_unlock(&s->flush_lock);
	return CUPTI_SUCCESS;
}

CK_EXPORT CUptiResult cuptiGetLastError(void)
{
	return ckc_cupti_last();
}

CK_EXPORT CUptiResult cuptiFinalize(void)
{
	return ckc_cupti_result(change_kinds(ckc_client_current(), 0, UINT64_MAX));
}

static void in_child(struct ckc_client *c)
{
	struct ckc_cupti *s = c->cupti;

	ck_mutex_renew(&s->lock);
	ck_mutex_renew(&s->flush_lock);
	atomic_store(&s->kinds, 0);
	atomic_store(&s->asked, 0);
	ckc_profile_file_forget(s);
	s->told = 0;
	atomic_store(&ckc_profile_on, false);
	atomic_store(&ckc_profile_watch, false);
}
CK_ON_FORK(in_child);
