/*
 * client/graphs/graph_pack.c - encode and decode parameters of nodes; see graph_node.h.
 */
#include <stdlib.h>
#include <string.h>

#include "client/objects/callback.h"
#include "client/graphs/graph_node.h"
#include "client/graphs/host_function.h"
#include "client/modules/launch.h"
#include "client/copy/mirror.h"

#define ARRAY_MAX 4096 /* memory operations per node, devices per allocation */

/* NULL means the current context. */
static CUresult context_id(CUcontext *context)
{
	uint64_t id = 0;
	CUresult err = *context ? ckc_context_id(*context, &id) : CUDA_SUCCESS;

	*context = (CUcontext)(uintptr_t)id;
	return err;
}

static void context_back(CUcontext *context)
{
	uint64_t id = (uintptr_t)*context;

	*context = id ? (CUcontext)ckc_object_by_id(CK_OBJECT_CONTEXT, id) : NULL;
}

/* Allocate the structure and @tail bytes after it. */
static CUresult allocate_packed(struct ckc_packed *packed, size_t tail)
{
	packed->size = sizeof(CUgraphNodeParams) + tail;
	packed->bytes = calloc(1, packed->size);
	return packed->bytes ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

static CUresult reserve_with(struct ckc_packed *packed, const void *array, size_t count,
			     size_t size)
{
	CUresult err;

	if (count > ARRAY_MAX || (count > 0 && !array))
		return CUDA_ERROR_INVALID_VALUE;
	err = allocate_packed(packed, count * size);
	if (!err && count > 0)
		memcpy(packed->bytes + sizeof(CUgraphNodeParams), array, count * size);
	return err;
}

static CUresult pack_kernel(CUDA_KERNEL_NODE_PARAMS *k, struct ckc_packed *packed)
{
	const void *handle = k->func ? (const void *)k->func : (const void *)k->kern;
	struct ck_function *f = ckc_function_from(handle);
	unsigned char *room;
	const void *block;
	uint64_t id;
	size_t size;
	CUresult err;

	if (!f)
		return CUDA_ERROR_INVALID_HANDLE;
	room = malloc(f->kernel->param_bytes + 1); /* threads may have a stack of 16 KiB */
	err = room ? ckc_function_announce(f, &id) : CUDA_ERROR_OUT_OF_MEMORY;
	if (!err)
		err = ckc_launch_params(f, k->kernelParams, k->extra, room, &block, &size);
	if (!err)
		err = allocate_packed(packed, size);
	if (!err)
		err = context_id(&k->ctx);
	if (!err && size > 0)
		memcpy(packed->bytes + sizeof(CUgraphNodeParams), block, size);
	free(room);
	if (err)
		return err;
	k->func = (CUfunction)(uintptr_t)id;
	k->kern = NULL;
	k->kernelParams = k->extra = NULL;
	return CUDA_SUCCESS;
}

static CUresult pack_memcpy(CUDA_MEMCPY_NODE_PARAMS *m, struct ckc_packed *packed)
{
	struct ckc_mirrored mirrored;
	CUresult err = context_id(&m->copyCtx);

	if (!err)
		err = ckc_mirror_copy(&m->copyParams, &mirrored);
	if (err)
		return err;
	memcpy(packed->mirrors, mirrored.made, sizeof(packed->mirrors));
	m->copyParams = mirrored.copy;
	return allocate_packed(packed, 0);
}

static CUresult pack_host(CUDA_HOST_NODE_PARAMS_v2 *h, struct ckc_packed *packed)
{
	uint64_t id;
	CUresult err = h->fn ? ckc_host_function_register(h->fn, h->userData, true, &id)
			     : CUDA_ERROR_INVALID_VALUE;

	if (err)
		return err;
	h->fn = NULL;
	h->userData = (void *)(uintptr_t)id;
	return allocate_packed(packed, 0);
}

static CUresult pack_graph(CUDA_CHILD_GRAPH_NODE_PARAMS *g, struct ckc_packed *packed)
{
	struct ckc_graph *graph;
	CUresult err = ckc_graph_from(g->graph, &graph);

	if (err)
		return err;
	g->graph = (CUgraph)(uintptr_t)graph->object.id;
	return allocate_packed(packed, 0);
}

static CUresult pack_event(CUevent *event, struct ckc_packed *packed)
{
	uint64_t id;
	CUresult err = ckc_event_id(*event, &id);

	*event = (CUevent)(uintptr_t)id;
	return err ? CUDA_ERROR_INVALID_VALUE : allocate_packed(packed, 0);
}

static CUresult pack_alloc(CUDA_MEM_ALLOC_NODE_PARAMS_v2 *a, struct ckc_packed *packed)
{
	CUresult err =
		reserve_with(packed, a->accessDescs, a->accessDescCount, sizeof(*a->accessDescs));

	a->accessDescs = NULL;
	a->poolProps.win32SecurityAttributes = NULL;
	return err;
}

static CUresult pack_memory_ops(CUDA_BATCH_MEM_OP_NODE_PARAMS_v2 *m, struct ckc_packed *packed)
{
	CUresult err = context_id(&m->ctx);

	if (!err)
		err = reserve_with(packed, m->paramArray, m->count, sizeof(*m->paramArray));
	m->paramArray = NULL;
	return err;
}

static CUresult pack_conditional(CUDA_CONDITIONAL_NODE_PARAMS *c, struct ckc_packed *packed)
{
	c->phGraph_out = NULL;
	if (!c->ctx)
		return CUDA_ERROR_INVALID_CONTEXT;
	return context_id(&c->ctx) ? CUDA_ERROR_INVALID_VALUE : allocate_packed(packed, 0);
}

static CUresult pack_type(CUgraphNodeParams *p, struct ckc_packed *packed)
{
	switch (p->type) {
	case CU_GRAPH_NODE_TYPE_KERNEL:
		return pack_kernel((CUDA_KERNEL_NODE_PARAMS *)&p->kernel, packed);
	case CU_GRAPH_NODE_TYPE_MEMCPY:
		return pack_memcpy(&p->memcpy, packed);
	case CU_GRAPH_NODE_TYPE_MEMSET:
		return context_id(&p->memset.ctx) ? CUDA_ERROR_INVALID_VALUE
						  : allocate_packed(packed, 0);
	case CU_GRAPH_NODE_TYPE_HOST:
		return pack_host(&p->host, packed);
	case CU_GRAPH_NODE_TYPE_GRAPH:
		return pack_graph(&p->graph, packed);
	case CU_GRAPH_NODE_TYPE_EMPTY:
	case CU_GRAPH_NODE_TYPE_MEM_FREE:
		return allocate_packed(packed, 0);
	case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
		return pack_event(&p->eventWait.event, packed);
	case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
		return pack_event(&p->eventRecord.event, packed);
	case CU_GRAPH_NODE_TYPE_MEM_ALLOC:
		return pack_alloc(&p->alloc, packed);
	case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP:
		return pack_memory_ops(&p->memOp, packed);
	case CU_GRAPH_NODE_TYPE_CONDITIONAL:
		return pack_conditional(&p->conditional, packed);
	case CU_GRAPH_NODE_TYPE_EXT_SEMAS_SIGNAL:
	case CU_GRAPH_NODE_TYPE_EXT_SEMAS_WAIT:
		return CUDA_ERROR_NOT_SUPPORTED;
	default:
		return CUDA_ERROR_INVALID_VALUE;
	}
}

CUresult ckc_node_pack(const CUgraphNodeParams *params, struct ckc_packed *packed)
{
	CUgraphNodeParams p = *params;
	CUresult err;

	*packed = (struct ckc_packed){0};
	err = pack_type(&p, packed);
	if (err)
		ckc_packed_free(packed, true);
	else
		memcpy(packed->bytes, &p, sizeof(p));
	return err;
}

void ckc_packed_free(struct ckc_packed *packed, bool failed)
{
	struct ckc_mirrored m = {.made = {packed->mirrors[0], packed->mirrors[1]}};

	if (failed)
		ckc_mirror_undo(&m);
	free(packed->bytes);
	packed->bytes = NULL;
}

/* Build an array of pointers to the parameters, then the parameters; *@kept holds both. */
static CUresult unpack_kernel(CUDA_KERNEL_NODE_PARAMS *k, const unsigned char *tail, size_t size,
			      void **kept)
{
	struct ck_function *f = ckc_object_by_id(CK_OBJECT_FUNCTION, (uintptr_t)k->func);
	uint32_t count;
	void **pointers;
	char *block;

	context_back(&k->ctx);
	if (!f)
		return CUDA_ERROR_UNKNOWN;
	count = f->kernel->param_count;
	if (size < f->kernel->param_bytes)
		return CUDA_ERROR_UNKNOWN;
	k->func = (CUfunction)f;
	k->kern = f->module->library ? (CUkernel)f : NULL;
	k->kernelParams = k->extra = NULL;
	if (count == 0)
		return CUDA_SUCCESS;
	pointers = malloc(count * sizeof(*pointers) + size);
	if (!pointers)
		return CUDA_ERROR_OUT_OF_MEMORY;
	block = (char *)(pointers + count);
	memcpy(block, tail, size);
	for (uint32_t i = 0; i < count; i++)
		pointers[i] = block + f->kernel->params[i].offset;
	k->kernelParams = *kept = pointers;
	return CUDA_SUCCESS;
}

static CUresult unpack_array(const unsigned char *tail, size_t size, size_t wanted, void **kept)
{
	if (size != wanted)
		return CUDA_ERROR_UNKNOWN;
	*kept = size > 0 ? malloc(size) : NULL;
	if (size > 0 && !*kept)
		return CUDA_ERROR_OUT_OF_MEMORY;
	if (size > 0)
		memcpy(*kept, tail, size);
	return CUDA_SUCCESS;
}

static CUresult unpack_event(CUevent *event)
{
	*event = (CUevent)ckc_object_by_id(CK_OBJECT_EVENT, (uintptr_t)*event);
	return *event ? CUDA_SUCCESS : CUDA_ERROR_UNKNOWN;
}

static CUresult unpack_host(CUDA_HOST_NODE_PARAMS_v2 *h)
{
	return ckc_callback_find((uintptr_t)h->userData, &h->fn, &h->userData) ? CUDA_SUCCESS
									       : CUDA_ERROR_UNKNOWN;
}

static CUresult unpack_type(CUgraphNodeParams *p, const unsigned char *tail, size_t size,
			    void **kept)
{
	CUresult err = CUDA_SUCCESS;

	switch (p->type) {
	case CU_GRAPH_NODE_TYPE_KERNEL:
		return unpack_kernel((CUDA_KERNEL_NODE_PARAMS *)&p->kernel, tail, size, kept);
	case CU_GRAPH_NODE_TYPE_MEMCPY:
		context_back(&p->memcpy.copyCtx);
		return ckc_mirror_restore(&p->memcpy.copyParams);
	case CU_GRAPH_NODE_TYPE_MEMSET:
		context_back(&p->memset.ctx);
		return CUDA_SUCCESS;
	case CU_GRAPH_NODE_TYPE_HOST:
		return unpack_host(&p->host);
	case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
		return unpack_event(&p->eventWait.event);
	case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
		return unpack_event(&p->eventRecord.event);
	case CU_GRAPH_NODE_TYPE_MEM_ALLOC:
		err = unpack_array(tail, size,
				   p->alloc.accessDescCount * sizeof(*p->alloc.accessDescs), kept);
		p->alloc.accessDescs = *kept;
		return err;
	case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP:
		context_back(&p->memOp.ctx);
		err = unpack_array(tail, size, p->memOp.count * sizeof(*p->memOp.paramArray), kept);
		p->memOp.paramArray = *kept;
		return err;
	default:
		return CUDA_SUCCESS;
	}
}

CUresult ckc_node_unpack(const unsigned char *bytes, size_t size, CUgraphNodeParams *params,
			 void **kept)
{
	*kept = NULL;
	if (size < sizeof(*params))
		return CUDA_ERROR_UNKNOWN;
	memcpy(params, bytes, sizeof(*params));
	return unpack_type(params, bytes + sizeof(*params), size - sizeof(*params), kept);
}
