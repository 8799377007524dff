/*
 * server/graphs/graph_params.c - the driver's parameters of nodes, for a reply.
 */
#include <stdlib.h>
#include <string.h>

#include "gen/handlers.h"
#include "server/session/callback.h"
#include "server/graphs/graph.h"
#include "server/graphs/mirror.h"
#include "util/util.h"

#define CK_PARAM_BYTES_MAX 65536u /* of a kernel: far more than a driver accepts */

/* The reply: the structure, and the data that its pointers refer to. */
struct answer {
	CUgraphNodeParams p;
	void *tail;
	size_t tail_size;
};

static void context_name(struct cks_request *q, CUcontext *context)
{
	uint64_t id = 0;

	if (*context)
		cks_handles_known(q->session->handles, CK_KIND_CONTEXT, *context, &id);
	*context = (CUcontext)(uintptr_t)id;
}

/*
 * The client's id for a kernel. The driver may report the function that it made from a library's
 * kernel, so search the kernels for it.
 */
static CUresult function_name(struct cks_request *q, const CUDA_KERNEL_NODE_PARAMS *k, uint64_t *id)
{
	struct cks_handles *h = q->session->handles;
	struct cks_object object;
	CUfunction of;

	if ((k->kern && cks_handles_known(h, CK_KIND_KERNEL, k->kern, id)) ||
	    (k->func && (cks_handles_known(h, CK_KIND_FUNCTION, k->func, id) ||
			 cks_handles_known(h, CK_KIND_KERNEL, k->func, id))))
		return CUDA_SUCCESS;
	*id = 0;
	while (ck_driver.cuKernelGetFunction && cks_handles_next(h, id, CK_KIND_KERNEL, &object)) {
		if (!ck_driver.cuKernelGetFunction(&of, object.handle) && of == k->func)
			return CUDA_SUCCESS;
	}
	return CUDA_ERROR_INVALID_HANDLE;
}

static CUresult param_at(const CUDA_KERNEL_NODE_PARAMS *k, size_t i, size_t *offset, size_t *size)
{
	if (k->func && ck_driver.cuFuncGetParamInfo)
		return ck_driver.cuFuncGetParamInfo(k->func, i, offset, size);
	if (k->kern && ck_driver.cuKernelGetParamInfo)
		return ck_driver.cuKernelGetParamInfo(k->kern, i, offset, size);
	return CUDA_ERROR_NOT_SUPPORTED;
}

/* Pack the driver's separate parameters into the kernel's parameter block. */
static CUresult pack_params(const CUDA_KERNEL_NODE_PARAMS *k, struct answer *a)
{
	size_t offset, size;
	CUresult err;

	a->tail = calloc(1, CK_PARAM_BYTES_MAX);
	if (!a->tail)
		return CUDA_ERROR_OUT_OF_MEMORY;
	for (size_t i = 0; !(err = param_at(k, i, &offset, &size)); i++) {
		if (offset > CK_PARAM_BYTES_MAX || size > CK_PARAM_BYTES_MAX - offset)
			return CUDA_ERROR_UNKNOWN;
		memcpy((char *)a->tail + offset, k->kernelParams[i], size);
		a->tail_size = ck_max(a->tail_size, offset + size);
	}
	return err == CUDA_ERROR_INVALID_VALUE ? CUDA_SUCCESS : err; /* past the last parameter */
}

static CUresult copy_block(void **extra, struct answer *a)
{
	const void *block = NULL;

	for (; extra[0] != CU_LAUNCH_PARAM_END; extra += 2) {
		if (extra[0] == CU_LAUNCH_PARAM_BUFFER_POINTER)
			block = extra[1];
		else if (extra[0] == CU_LAUNCH_PARAM_BUFFER_SIZE)
			a->tail_size = *(size_t *)extra[1];
		else
			return CUDA_ERROR_UNKNOWN;
	}
	a->tail = malloc(a->tail_size + 1);
	if (!a->tail)
		return CUDA_ERROR_OUT_OF_MEMORY;
	if (block)
		memcpy(a->tail, block, a->tail_size);
	return CUDA_SUCCESS;
}

static CUresult get_kernel(struct cks_request *q, CUgraphNode node, struct answer *a)
{
	CUDA_KERNEL_NODE_PARAMS k = {0};
	uint64_t id = 0;
	CUresult err = CUDA_ERROR_NOT_SUPPORTED;

	if (ck_driver.cuGraphKernelNodeGetParams_v2)
		err = ck_driver.cuGraphKernelNodeGetParams_v2(node, &k);
	if (!err)
		err = function_name(q, &k, &id);
	if (!err && k.extra)
		err = copy_block(k.extra, a);
	else if (!err && k.kernelParams)
		err = pack_params(&k, a);
	k.func = (CUfunction)(uintptr_t)id;
	k.kern = NULL;
	k.kernelParams = k.extra = NULL;
	context_name(q, &k.ctx);
	memcpy(&a->p.kernel, &k, sizeof(k));
	return err;
}

static CUresult get_memcpy(struct cks_request *q, CUgraphNode node, struct answer *a)
{
	CUresult err = CUDA_ERROR_NOT_SUPPORTED;

	if (ck_driver.cuGraphMemcpyNodeGetParams)
		err = ck_driver.cuGraphMemcpyNodeGetParams(node, &a->p.memcpy.copyParams);
	return err ? err : cks_mirror_describe(q, &a->p.memcpy.copyParams);
}

static CUresult get_memset(CUgraphNode node, struct answer *a)
{
	if (!ck_driver.cuGraphMemsetNodeGetParams)
		return CUDA_ERROR_NOT_SUPPORTED;
	return ck_driver.cuGraphMemsetNodeGetParams(node, (CUDA_MEMSET_NODE_PARAMS *)&a->p.memset);
}

/* Report a host function only if it is the client's. */
static CUresult get_host(CUgraphNode node, struct answer *a)
{
	CUDA_HOST_NODE_PARAMS h = {0};
	CUresult err = CUDA_ERROR_NOT_SUPPORTED;

	if (ck_driver.cuGraphHostNodeGetParams)
		err = ck_driver.cuGraphHostNodeGetParams(node, &h);
	if (!err && h.fn != cks_host_call_run)
		err = CUDA_ERROR_NOT_SUPPORTED;
	if (!err)
		a->p.host.userData = (void *)(uintptr_t)cks_host_call_id(h.userData);
	return err;
}

static CUresult get_event(struct cks_request *q, CUgraphNode node, CUevent *out,
			  CUresult (*ask)(CUgraphNode node, CUevent *event))
{
	CUevent event = NULL;
	uint64_t id;
	CUresult err = ask ? ask(node, &event) : CUDA_ERROR_NOT_SUPPORTED;

	if (!err && !cks_handles_known(q->session->handles, CK_KIND_EVENT, event, &id))
		err = CUDA_ERROR_INVALID_HANDLE; /* the event was destroyed */
	if (!err)
		*out = (CUevent)(uintptr_t)id;
	return err;
}

static CUresult keep_array(struct answer *a, const void *array, size_t count, size_t size)
{
	if (count > 0 && !array)
		return CUDA_ERROR_UNKNOWN;
	a->tail_size = count * size;
	a->tail = malloc(a->tail_size + 1);
	if (!a->tail)
		return CUDA_ERROR_OUT_OF_MEMORY;
	if (count > 0)
		memcpy(a->tail, array, a->tail_size);
	return CUDA_SUCCESS;
}

static CUresult get_alloc(CUgraphNode node, struct answer *a)
{
	CUDA_MEM_ALLOC_NODE_PARAMS m = {0};
	CUresult err = CUDA_ERROR_NOT_SUPPORTED;

	if (ck_driver.cuGraphMemAllocNodeGetParams)
		err = ck_driver.cuGraphMemAllocNodeGetParams(node, &m);
	if (!err)
		err = keep_array(a, m.accessDescs, m.accessDescCount, sizeof(*m.accessDescs));
	m.accessDescs = NULL;
	m.poolProps.win32SecurityAttributes = NULL;
	memcpy(&a->p.alloc, &m, sizeof(m));
	return err;
}

static CUresult get_memory_ops(struct cks_request *q, CUgraphNode node, struct answer *a)
{
	CUDA_BATCH_MEM_OP_NODE_PARAMS m = {0};
	CUresult err = CUDA_ERROR_NOT_SUPPORTED;

	if (ck_driver.cuGraphBatchMemOpNodeGetParams)
		err = ck_driver.cuGraphBatchMemOpNodeGetParams(node, &m);
	if (!err)
		err = keep_array(a, m.paramArray, m.count, sizeof(*m.paramArray));
	m.paramArray = NULL;
	context_name(q, &m.ctx);
	memcpy(&a->p.memOp, &m, sizeof(m));
	return err;
}

static CUresult get_params(struct cks_request *q, CUgraphNode node, struct answer *a)
{
	switch (a->p.type) {
	case CU_GRAPH_NODE_TYPE_KERNEL:
		return get_kernel(q, node, a);
	case CU_GRAPH_NODE_TYPE_MEMCPY:
		return get_memcpy(q, node, a);
	case CU_GRAPH_NODE_TYPE_MEMSET:
		return get_memset(node, a);
	case CU_GRAPH_NODE_TYPE_HOST:
		return get_host(node, a);
	case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
		return get_event(q, node, &a->p.eventWait.event,
				 ck_driver.cuGraphEventWaitNodeGetEvent);
	case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
		return get_event(q, node, &a->p.eventRecord.event,
				 ck_driver.cuGraphEventRecordNodeGetEvent);
	case CU_GRAPH_NODE_TYPE_MEM_ALLOC:
		return get_alloc(node, a);
	case CU_GRAPH_NODE_TYPE_MEM_FREE:
		return ck_driver.cuGraphMemFreeNodeGetParams
			       ? ck_driver.cuGraphMemFreeNodeGetParams(node, &a->p.free.dptr)
			       : CUDA_ERROR_NOT_SUPPORTED;
	case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP:
		return get_memory_ops(q, node, a);
	default:
		return CUDA_ERROR_INVALID_VALUE;
	}
}

/* Check that @node has the type the client claims: the driver may not. */
static CUresult check_type(CUgraphNode node, CUgraphNodeType type)
{
	CUgraphNodeType is;
	CUresult err;

	if (!ck_driver.cuGraphNodeGetType)
		return CUDA_ERROR_NOT_SUPPORTED;
	err = ck_driver.cuGraphNodeGetType(node, &is);
	return !err && is != type ? CUDA_ERROR_INVALID_VALUE : err;
}

CUresult ck_serve_node_get(struct cks_request *q, ck_node_get_args *a, ck_node_get_res *res)
{
	struct answer answer = {0};
	CUgraphNode node;
	char *bytes;
	CUresult err;

	if (!cks_node_find(q, a->node, &node))
		return CUDA_ERROR_INVALID_HANDLE;
	answer.p.type = (CUgraphNodeType)a->type;
	err = check_type(node, answer.p.type);
	if (!err)
		err = get_params(q, node, &answer);
	bytes = err ? NULL : malloc(sizeof(answer.p) + answer.tail_size);
	if (bytes) {
		memcpy(bytes, &answer.p, sizeof(answer.p));
		if (answer.tail_size > 0)
			memcpy(bytes + sizeof(answer.p), answer.tail, answer.tail_size);
		res->params.params_val = bytes;
		res->params.params_len = (u_int)(sizeof(answer.p) + answer.tail_size);
	} else if (!err) {
		err = CUDA_ERROR_OUT_OF_MEMORY;
	}
	free(answer.tail);
	return err;
}
