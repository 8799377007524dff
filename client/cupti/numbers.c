/*
 * client/cupti/numbers.c - the numbers that records have for the program's devices, contexts,
 * streams and graphs.
 */
#include "client/cupti/api.h"
#include "client/cupti/cupti.h"
#include "client/graphs/graph.h"

static const struct ckc_context *find(CUcontext handle)
{
	return handle ? ckc_object_check(handle, CK_OBJECT_CONTEXT) : NULL;
}

CK_EXPORT CUptiResult cuptiGetDeviceId(CUcontext context, uint32_t *number)
{
	const struct ckc_context *found = find(context);

	if (!found || !number)
		return ckc_cupti_result(CUPTI_ERROR_INVALID_PARAMETER);
	*number = (uint32_t)found->device;
	return CUPTI_SUCCESS;
}

/* The numbers of stream @stream of @context; an error if the server has none. */
static CUptiResult get_stream_numbers(const struct ckc_context *context, uint64_t stream,
				      struct ckc_cupti_place *place)
{
	ckc_cupti_find_place(ckc_client_current(), context, stream, place);
	return place->context_number == CUPTI_SYNCHRONIZATION_INVALID_VALUE
		       ? CUPTI_ERROR_NOT_INITIALIZED
		       : CUPTI_SUCCESS;
}

CK_EXPORT CUptiResult cuptiGetContextId(CUcontext context, uint32_t *number)
{
	const struct ckc_context *found = find(context);
	struct ckc_cupti_place place;
	CUptiResult ret = found && number ? get_stream_numbers(found, 0, &place)
					  : CUPTI_ERROR_INVALID_PARAMETER;

	if (!ret)
		*number = place.context_number;
	return ckc_cupti_result(ret);
}

/* A stream has its own context, so @context is for the streams without a handle. */
CK_EXPORT CUptiResult cuptiGetStreamIdEx(CUcontext context, CUstream stream, uint8_t per_thread,
					 uint32_t *number)
{
	CUstream handle = stream || !per_thread ? stream : CU_STREAM_PER_THREAD;
	const struct ckc_context *found = context ? find(context) : ckc_context_current();
	struct ckc_stream *own = NULL;
	struct ckc_cupti_place place;
	CUptiResult ret;

	if (!number || ckc_stream_from(handle, &own))
		return ckc_cupti_result(CUPTI_ERROR_INVALID_PARAMETER);
	if (own)
		found = own->object.context;
	ret = found ? get_stream_numbers(found, own ? own->object.id : 0, &place)
		    : CUPTI_ERROR_INVALID_PARAMETER;
	if (!ret)
		*number = place.stream_number;
	return ckc_cupti_result(ret);
}

CK_EXPORT CUptiResult cuptiGetStreamId(CUcontext context, CUstream stream, uint32_t *number)
{
	return cuptiGetStreamIdEx(context, stream, 0, number);
}

/* The number of the executable or other graph that the server knows as @id. */
static CUptiResult number_graph(uint64_t id, uint32_t *number)
{
	unsigned int found;

	if (!ckc_session_offers(ckc_client_current(), CK_PROC_profile_graph))
		return CUPTI_ERROR_NOT_SUPPORTED;
	if (ck_wire_profile_graph(0, id, &found))
		return CUPTI_ERROR_NOT_INITIALIZED;
	*number = found;
	return CUPTI_SUCCESS;
}

CK_EXPORT CUptiResult cuptiGetGraphExecId(CUgraphExec handle, uint32_t *number)
{
	struct ckc_exec *exec;

	if (!number || ckc_exec_from(handle, &exec))
		return ckc_cupti_result(CUPTI_ERROR_INVALID_PARAMETER);
	return ckc_cupti_result(number_graph(exec->object.id, number));
}

/* XLA passes executable graphs as well. */
CK_EXPORT CUptiResult cuptiGetGraphId(CUgraph handle, uint32_t *number)
{
	struct ckc_graph *graph;

	if (!number)
		return ckc_cupti_result(CUPTI_ERROR_INVALID_PARAMETER);
	if (ckc_object_check(handle, CK_OBJECT_EXEC))
		return cuptiGetGraphExecId((CUgraphExec)handle, number);
	if (ckc_graph_from(handle, &graph))
		return ckc_cupti_result(CUPTI_ERROR_INVALID_PARAMETER);
	return ckc_cupti_result(number_graph(graph->object.id, number));
}
