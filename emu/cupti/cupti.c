/*
 * emu/cupti/cupti.c - the emulated driver's own CUPTI; see cupti.h. Its clock counts from the
 * machine's start.
 */
#include "emu/cupti/cupti.h"
#include "emu/graphs/graph.h"
#include "emu/core/emu_api.h"
#include "emu/objects/activity.h"

#define API_VERSION 130001 /* of CUDA 13.0, whose layout the records have */

/* Kinds without records are accepted: nothing of theirs happens here. */
#define KINDS                                                                                      \
	(1ull << CUPTI_ACTIVITY_KIND_MEMCPY | 1ull << CUPTI_ACTIVITY_KIND_MEMCPY2 |                \
	 1ull << CUPTI_ACTIVITY_KIND_MEMSET | 1ull << CUPTI_ACTIVITY_KIND_KERNEL |                 \
	 1ull << CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL | 1ull << CUPTI_ACTIVITY_KIND_DRIVER |      \
	 1ull << CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION | 1ull << CUPTI_ACTIVITY_KIND_OVERHEAD | \
	 1ull << CUPTI_ACTIVITY_KIND_GRAPH_TRACE)

CUptiResult cuptiActivityRegisterCallbacks(ck_cupti_request_fn request,
					   ck_cupti_complete_fn complete)
{
	if (!request || !complete)
		return CUPTI_ERROR_INVALID_PARAMETER;
	ck_emu_activity_callbacks(request, complete);
	return CUPTI_SUCCESS;
}

static bool is_known(uint32_t kind)
{
	return kind < CUPTI_ACTIVITY_KIND_END && (KINDS >> kind & 1);
}

CUptiResult cuptiActivityEnable(uint32_t kind)
{
	if (!is_known(kind))
		return CUPTI_ERROR_INVALID_KIND;
	atomic_fetch_or(&ck_emu_activity_kinds, 1ull << kind);
	return CUPTI_SUCCESS;
}

CUptiResult cuptiActivityDisable(uint32_t kind)
{
	if (!is_known(kind))
		return CUPTI_ERROR_INVALID_KIND;
	atomic_fetch_and(&ck_emu_activity_kinds, ~(1ull << kind));
	return CUPTI_SUCCESS;
}

CUptiResult cuptiActivityFlushAll(uint32_t flag)
{
	(void)flag;
	ck_emu_activity_flush();
	return CUPTI_SUCCESS;
}

CUptiResult cuptiActivityGetNextRecord(uint8_t *buffer, size_t valid, void **record)
{
	return ck_cupti_next(buffer, valid, record);
}

CUptiResult cuptiActivityGetNumDroppedRecords(void *context, uint32_t stream, size_t *dropped)
{
	(void)context, (void)stream;
	if (!dropped)
		return CUPTI_ERROR_INVALID_PARAMETER;
	*dropped = ck_emu_activity_dropped();
	return CUPTI_SUCCESS;
}

CUptiResult cuptiActivityPushExternalCorrelationId(uint32_t kind, uint64_t id)
{
	return ck_emu_activity_push(kind, id);
}

CUptiResult cuptiActivityPopExternalCorrelationId(uint32_t kind, uint64_t *last)
{
	return ck_emu_activity_pop(kind, last);
}

CUptiResult cuptiGetVersion(uint32_t *version)
{
	if (!version)
		return CUPTI_ERROR_INVALID_PARAMETER;
	*version = API_VERSION;
	return CUPTI_SUCCESS;
}

CUptiResult cuptiGetTimestamp(uint64_t *timestamp)
{
	if (!timestamp)
		return CUPTI_ERROR_INVALID_PARAMETER;
	*timestamp = ck_emu_activity_clock();
	return CUPTI_SUCCESS;
}

CUptiResult cuptiGetContextId(CUcontext context, uint32_t *number)
{
	unsigned long long id;

	if (!number || !context || cuCtxGetId(context, &id))
		return CUPTI_ERROR_INVALID_PARAMETER;
	*number = (uint32_t)id;
	return CUPTI_SUCCESS;
}

/* A stream's own context counts, so @context is not needed. */
CUptiResult cuptiGetStreamIdEx(CUcontext context, CUstream stream, uint8_t per_thread,
			       uint32_t *number)
{
	unsigned long long id = 0;

	(void)context;
	if (!stream && per_thread)
		stream = CU_STREAM_PER_THREAD;
	if (!number || (stream && stream != CU_STREAM_LEGACY && cuStreamGetId(stream, &id)))
		return CUPTI_ERROR_INVALID_PARAMETER;
	*number = ck_emu_activity_stream(id);
	return CUPTI_SUCCESS;
}

CUptiResult cuptiGetGraphExecId(CUgraphExec handle, uint32_t *number)
{
	struct ck_emu_exec *exec;

	if (!number || ck_emu_exec_begin(handle, &exec))
		return CUPTI_ERROR_INVALID_PARAMETER;
	*number = (uint32_t)exec->graph->id;
	ck_emu_graph_unlock();
	return CUPTI_SUCCESS;
}

CUptiResult cuptiGetGraphId(CUgraph handle, uint32_t *number)
{
	struct ck_emu_graph *graph;

	if (!number || ck_emu_graph_begin(handle, &graph))
		return CUPTI_ERROR_INVALID_PARAMETER;
	*number = (uint32_t)graph->id;
	ck_emu_graph_unlock();
	return CUPTI_SUCCESS;
}
