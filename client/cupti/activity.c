/*
 * client/cupti/activity.c - CUPTI's activity interface: what to record, buffers, ids, times.
 *
 * libcupti.so.12 and libcupti.so.13 are only more names for this library, see client/wire/names.c.
 */
#include <stdlib.h>
#include <time.h>

#include "client/cupti/api.h"
#include "client/cupti/cupti.h"
#include "client/wire/hooks.h"
#include "client/wire/profile.h"
#include "util/log.h"

CK_LOG_DEFINE("client");

#define BIT(kind) (1ull << CUPTI_ACTIVITY_KIND_##kind)
/* Kinds with records. */
#define KINDS                                                                                      \
	(BIT(MEMCPY) | BIT(MEMSET) | BIT(KERNEL) | BIT(CONCURRENT_KERNEL) | BIT(DRIVER) |          \
	 BIT(RUNTIME) | BIT(EXTERNAL_CORRELATION))
/* Kinds that profilers enable with those, and that have no records here yet. */
#define EMPTY_KINDS (BIT(OVERHEAD) | BIT(SYNCHRONIZATION) | BIT(DEVICE) | BIT(CONTEXT))

static __thread CUptiResult last_result;

CUptiResult ckc_cupti_result(CUptiResult result)
{
	if (result)
		last_result = result;
	return result;
}

static struct ckc_cupti *current(void)
{
	return ckc_client_current()->cupti;
}

uint64_t ckc_cupti_clock(void)
{
	uint64_t (*clock)(void) = atomic_load_explicit(&current()->clock, memory_order_relaxed);
	struct timespec now;

	if (clock)
		return clock();
	clock_gettime(CLOCK_REALTIME, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* --- kinds */

static bool is_ready(const struct ckc_client *c)
{
	return c->initialized && atomic_load(&c->state) == CK_STATE_READY;
}

/* The kinds have changed. The server learns of them now, or with cuInit. */
static CUptiResult apply(struct ckc_client *c)
{
	struct ckc_cupti *s = c->cupti;
	CUptiResult ret = CUPTI_SUCCESS;

	ck_lock(&s->flush_lock);
	if (is_ready(c))
		ret = ckc_cupti_tell(c);
	ckc_cupti_runtime_enable(ckc_cupti_wants(s, CUPTI_ACTIVITY_KIND_RUNTIME));
	atomic_store(&ckc_profile_on, atomic_load(&s->kinds) != 0);
	ckc_cupti_begin(s);
	ck_unlock(&s->flush_lock);
	return ret;
}

static void on_ready(struct ckc_client *c)
{
	if (atomic_load(&c->cupti->kinds))
		apply(c);
}
CK_ON_READY(on_ready);

CK_EXPORT CUptiResult cuptiActivityEnable(uint32_t kind)
{
	struct ckc_client *c = ckc_client_current();

	if (kind >= CUPTI_ACTIVITY_KIND_END)
		return ckc_cupti_result(CUPTI_ERROR_INVALID_KIND);
	if (EMPTY_KINDS >> kind & 1)
		return CUPTI_SUCCESS;
	if (!(KINDS >> kind & 1)) {
		ck_warn("records of CUPTI's kind %u are not supported: the profile is without them",
			kind);
		return ckc_cupti_result(CUPTI_ERROR_NOT_SUPPORTED);
	}
	atomic_fetch_or(&c->cupti->kinds, 1ull << kind);
	return ckc_cupti_result(apply(c));
}

CK_EXPORT CUptiResult cuptiActivityDisable(uint32_t kind)
{
	struct ckc_client *c = ckc_client_current();

	if (kind >= CUPTI_ACTIVITY_KIND_END)
		return ckc_cupti_result(CUPTI_ERROR_INVALID_KIND);
	if (!(atomic_load(&c->cupti->kinds) >> kind & 1))
		return CUPTI_SUCCESS;
	atomic_fetch_and(&c->cupti->kinds, ~(1ull << kind));
	return ckc_cupti_result(apply(c));
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

/* All calls are recorded; a profiler that asks for some of them leaves out the others. */
CK_EXPORT CUptiResult cuptiActivityEnableDriverApi(uint32_t call, uint8_t enable)
{
	(void)call;
	return enable ? cuptiActivityEnable(CUPTI_ACTIVITY_KIND_DRIVER) : CUPTI_SUCCESS;
}

CK_EXPORT CUptiResult cuptiActivityEnableRuntimeApi(uint32_t call, uint8_t enable)
{
	(void)call;
	return enable ? cuptiActivityEnable(CUPTI_ACTIVITY_KIND_RUNTIME) : CUPTI_SUCCESS;
}

/* --- buffers */

CK_EXPORT CUptiResult cuptiActivityRegisterCallbacks(ck_cupti_request_fn request,
						     ck_cupti_complete_fn complete)
{
	struct ckc_cupti *s = current();

	if (!request || !complete)
		return ckc_cupti_result(CUPTI_ERROR_INVALID_PARAMETER);
	ck_lock(&s->flush_lock);
	s->request = request;
	s->complete = complete;
	ckc_cupti_begin(s);
	ck_unlock(&s->flush_lock);
	return CUPTI_SUCCESS;
}

/* The calls come first, so that a reader knows a number before it meets its work. */
static void hand_over_calls(struct ckc_cupti *s)
{
	struct ckc_cupti_piece *p = ckc_cupti_calls_take(s), *next;

	for (; p; p = next) {
		for (size_t at = 0; at < p->size;) {
			size_t size = ck_cupti_record_size(*(uint32_t *)(void *)(p->bytes + at));

			ckc_cupti_append(s, p->bytes + at, size);
			at += size;
		}
		next = p->next;
		free(p);
	}
}

CK_EXPORT CUptiResult cuptiActivityFlushAll(uint32_t flag)
{
	struct ckc_client *c = ckc_client_current();
	struct ckc_cupti *s = c->cupti;
	CUptiResult ret = CUPTI_SUCCESS;

	ck_lock(&s->flush_lock);
	if (!s->request) {
		ret = CUPTI_ERROR_INVALID_OPERATION;
	} else {
		hand_over_calls(s);
		if (is_ready(c))
			ret = ckc_cupti_fetch(c, flag & CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
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
	struct ckc_cupti *s = current();

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
	atomic_store(&s->clock, clock);
	ckc_cupti_clock_changed(c);
	ck_unlock(&s->flush_lock);
	return CUPTI_SUCCESS;
}

CK_EXPORT CUptiResult cuptiGetLastError(void)
{
	CUptiResult last = last_result;

	last_result = CUPTI_SUCCESS;
	return last;
}

CK_EXPORT CUptiResult cuptiFinalize(void)
{
	struct ckc_client *c = ckc_client_current();

	atomic_store(&c->cupti->kinds, 0);
	return ckc_cupti_result(apply(c));
}

static void in_child(struct ckc_client *c)
{
	struct ckc_cupti *s = c->cupti;

	ck_mutex_renew(&s->lock);
	ck_mutex_renew(&s->flush_lock);
	atomic_store(&s->kinds, 0);
	s->told = 0;
	atomic_store(&ckc_profile_on, false);
}
CK_ON_FORK(in_child);
