/*
 * emu/graphs/graph_typed.c - the calls that add, read and change nodes of one kind: memory, host
 * functions, events and operations. Kernels are graph_kernel.c's.
 */
#include "emu/graphs/graph_node.h"

/* The dependencies that every call here gets. */
#define BEFORE const struct ck_emu_before before = {dependencies, NULL, numDependencies}

/* --- copies --- */

static CUgraphNodeParams of_copy(const CUDA_MEMCPY3D *copy, CUcontext context)
{
	return (CUgraphNodeParams){.type = CU_GRAPH_NODE_TYPE_MEMCPY,
				   .memcpy = {.copyCtx = context, .copyParams = *copy}};
}

CUresult cuGraphAddMemcpyNode(CUgraphNode *phGraphNode, CUgraph hGraph,
			      const CUgraphNode *dependencies, size_t numDependencies,
			      const CUDA_MEMCPY3D *copyParams, CUcontext ctx)
{
	CUgraphNodeParams params;
	BEFORE;

	if (!copyParams)
		return CUDA_ERROR_INVALID_VALUE;
	params = of_copy(copyParams, ctx);
	return ck_emu_node_add(phGraphNode, hGraph, &before, &params);
}

CUresult cuGraphMemcpyNodeGetParams(CUgraphNode hNode, CUDA_MEMCPY3D *nodeParams)
{
	CUgraphNodeParams params;
	CUresult result = ck_emu_node_params(hNode, CU_GRAPH_NODE_TYPE_MEMCPY, &params);

	if (result == CUDA_SUCCESS && nodeParams)
		*nodeParams = params.memcpy.copyParams;
	return nodeParams ? result : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuGraphMemcpyNodeSetParams(CUgraphNode hNode, const CUDA_MEMCPY3D *nodeParams)
{
	CUgraphNodeParams params;

	if (!nodeParams)
		return CUDA_ERROR_INVALID_VALUE;
	params = of_copy(nodeParams, NULL);
	return ck_emu_node_change(hNode, &params);
}

CUresult cuGraphExecMemcpyNodeSetParams(CUgraphExec hGraphExec, CUgraphNode hNode,
					const CUDA_MEMCPY3D *copyParams, CUcontext ctx)
{
	CUgraphNodeParams params;

	if (!copyParams)
		return CUDA_ERROR_INVALID_VALUE;
	params = of_copy(copyParams, ctx);
	return ck_emu_exec_change(hGraphExec, hNode, &params);
}

/* --- fills --- */

static CUgraphNodeParams of_fill(const CUDA_MEMSET_NODE_PARAMS *fill, CUcontext context)
{
	return (CUgraphNodeParams){.type = CU_GRAPH_NODE_TYPE_MEMSET,
				   .memset = {.dst = fill->dst,
					      .pitch = fill->pitch,
					      .value = fill->value,
					      .elementSize = fill->elementSize,
					      .width = fill->width,
					      .height = fill->height,
					      .ctx = context}};
}

CUresult cuGraphAddMemsetNode(CUgraphNode *phGraphNode, CUgraph hGraph,
			      const CUgraphNode *dependencies, size_t numDependencies,
			      const CUDA_MEMSET_NODE_PARAMS *memsetParams, CUcontext ctx)
{
	CUgraphNodeParams params;
	BEFORE;

	if (!memsetParams)
		return CUDA_ERROR_INVALID_VALUE;
	params = of_fill(memsetParams, ctx);
	return ck_emu_node_add(phGraphNode, hGraph, &before, &params);
}

CUresult cuGraphMemsetNodeGetParams(CUgraphNode hNode, CUDA_MEMSET_NODE_PARAMS *nodeParams)
{
	CUgraphNodeParams params;
	CUresult result = ck_emu_node_params(hNode, CU_GRAPH_NODE_TYPE_MEMSET, &params);

	if (!nodeParams)
		return CUDA_ERROR_INVALID_VALUE;
	if (result == CUDA_SUCCESS)
		*nodeParams = (CUDA_MEMSET_NODE_PARAMS){
			params.memset.dst,	   params.memset.pitch, params.memset.value,
			params.memset.elementSize, params.memset.width, params.memset.height};
	return result;
}

CUresult cuGraphMemsetNodeSetParams(CUgraphNode hNode, const CUDA_MEMSET_NODE_PARAMS *nodeParams)
{
	CUgraphNodeParams params;

	if (!nodeParams)
		return CUDA_ERROR_INVALID_VALUE;
	params = of_fill(nodeParams, NULL);
	return ck_emu_node_change(hNode, &params);
}

CUresult cuGraphExecMemsetNodeSetParams(CUgraphExec hGraphExec, CUgraphNode hNode,
					const CUDA_MEMSET_NODE_PARAMS *memsetParams, CUcontext ctx)
{
	CUgraphNodeParams params;

	if (!memsetParams)
		return CUDA_ERROR_INVALID_VALUE;
	params = of_fill(memsetParams, ctx);
	return ck_emu_exec_change(hGraphExec, hNode, &params);
}

/* --- host functions --- */

static CUgraphNodeParams of_host(const CUDA_HOST_NODE_PARAMS *host)
{
	return (CUgraphNodeParams){.type = CU_GRAPH_NODE_TYPE_HOST,
				   .host = {.fn = host->fn, .userData = host->userData}};
}

CUresult cuGraphAddHostNode(CUgraphNode *phGraphNode, CUgraph hGraph,
			    const CUgraphNode *dependencies, size_t numDependencies,
			    const CUDA_HOST_NODE_PARAMS *nodeParams)
{
	CUgraphNodeParams params;
	BEFORE;

	if (!nodeParams)
		return CUDA_ERROR_INVALID_VALUE;
	params = of_host(nodeParams);
	return ck_emu_node_add(phGraphNode, hGraph, &before, &params);
}

CUresult cuGraphHostNodeGetParams(CUgraphNode hNode, CUDA_HOST_NODE_PARAMS *nodeParams)
{
	CUgraphNodeParams params;
	CUresult result = ck_emu_node_params(hNode, CU_GRAPH_NODE_TYPE_HOST, &params);

	if (!nodeParams)
		return CUDA_ERROR_INVALID_VALUE;
	if (result == CUDA_SUCCESS)
		*nodeParams = (CUDA_HOST_NODE_PARAMS){params.host.fn, params.host.userData};
	return result;
}

CK_EMU_CHANGES(cuGraphHostNodeSetParams, cuGraphExecHostNodeSetParams,
	       CUDA_HOST_NODE_PARAMS, of_host)

/* --- child graphs and empty nodes --- */

CUresult cuGraphAddChildGraphNode(CUgraphNode *phGraphNode, CUgraph hGraph,
				  const CUgraphNode *dependencies, size_t numDependencies,
				  CUgraph childGraph)
{
	CUgraphNodeParams params = {.type = CU_GRAPH_NODE_TYPE_GRAPH, .graph.graph = childGraph};
	BEFORE;

	return ck_emu_node_add(phGraphNode, hGraph, &before, &params);
}

CUresult cuGraphExecChildGraphNodeSetParams(CUgraphExec hGraphExec, CUgraphNode hNode,
					    CUgraph childGraph)
{
	CUgraphNodeParams params = {.type = CU_GRAPH_NODE_TYPE_GRAPH, .graph.graph = childGraph};

	return ck_emu_exec_change(hGraphExec, hNode, &params);
}

CUresult cuGraphAddEmptyNode(CUgraphNode *phGraphNode, CUgraph hGraph,
			     const CUgraphNode *dependencies, size_t numDependencies)
{
	CUgraphNodeParams params = {.type = CU_GRAPH_NODE_TYPE_EMPTY};
	BEFORE;

	return ck_emu_node_add(phGraphNode, hGraph, &before, &params);
}

/* --- events --- */

static CUgraphNodeParams of_event(CUgraphNodeType type, CUevent event)
{
	CUgraphNodeParams params = {.type = type};

	if (type == CU_GRAPH_NODE_TYPE_WAIT_EVENT)
		params.eventWait.event = event;
	else
		params.eventRecord.event = event;
	return params;
}

CUresult cuGraphAddEventRecordNode(CUgraphNode *phGraphNode, CUgraph hGraph,
				   const CUgraphNode *dependencies, size_t numDependencies,
				   CUevent event)
{
	CUgraphNodeParams params = of_event(CU_GRAPH_NODE_TYPE_EVENT_RECORD, event);
	BEFORE;

	return ck_emu_node_add(phGraphNode, hGraph, &before, &params);
}

CUresult cuGraphAddEventWaitNode(CUgraphNode *phGraphNode, CUgraph hGraph,
				 const CUgraphNode *dependencies, size_t numDependencies,
				 CUevent event)
{
	CUgraphNodeParams params = of_event(CU_GRAPH_NODE_TYPE_WAIT_EVENT, event);
	BEFORE;

	return ck_emu_node_add(phGraphNode, hGraph, &before, &params);
}

CUresult cuGraphEventRecordNodeGetEvent(CUgraphNode hNode, CUevent *event_out)
{
	CUgraphNodeParams params;
	CUresult result = ck_emu_node_params(hNode, CU_GRAPH_NODE_TYPE_EVENT_RECORD, &params);

	if (result == CUDA_SUCCESS && event_out)
		*event_out = params.eventRecord.event;
	return event_out ? result : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuGraphEventWaitNodeGetEvent(CUgraphNode hNode, CUevent *event_out)
{
	CUgraphNodeParams params;
	CUresult result = ck_emu_node_params(hNode, CU_GRAPH_NODE_TYPE_WAIT_EVENT, &params);

	if (result == CUDA_SUCCESS && event_out)
		*event_out = params.eventWait.event;
	return event_out ? result : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuGraphEventRecordNodeSetEvent(CUgraphNode hNode, CUevent event)
{
	CUgraphNodeParams params = of_event(CU_GRAPH_NODE_TYPE_EVENT_RECORD, event);

	return ck_emu_node_change(hNode, &params);
}

CUresult cuGraphEventWaitNodeSetEvent(CUgraphNode hNode, CUevent event)
{
	CUgraphNodeParams params = of_event(CU_GRAPH_NODE_TYPE_WAIT_EVENT, event);

	return ck_emu_node_change(hNode, &params);
}

CUresult cuGraphExecEventRecordNodeSetEvent(CUgraphExec hGraphExec, CUgraphNode hNode,
					    CUevent event)
{
	CUgraphNodeParams params = of_event(CU_GRAPH_NODE_TYPE_EVENT_RECORD, event);

	return ck_emu_exec_change(hGraphExec, hNode, &params);
}

CUresult cuGraphExecEventWaitNodeSetEvent(CUgraphExec hGraphExec, CUgraphNode hNode, CUevent event)
{
	CUgraphNodeParams params = of_event(CU_GRAPH_NODE_TYPE_WAIT_EVENT, event);

	return ck_emu_exec_change(hGraphExec, hNode, &params);
}

/* --- memory operations --- */

static CUgraphNodeParams of_batch(const CUDA_BATCH_MEM_OP_NODE_PARAMS *batch)
{
	return (CUgraphNodeParams){.type = CU_GRAPH_NODE_TYPE_BATCH_MEM_OP,
				   .memOp = {.ctx = batch->ctx,
					     .count = batch->count,
					     .paramArray = batch->paramArray,
					     .flags = batch->flags}};
}

CUresult cuGraphAddBatchMemOpNode(CUgraphNode *phGraphNode, CUgraph hGraph,
				  const CUgraphNode *dependencies, size_t numDependencies,
				  const CUDA_BATCH_MEM_OP_NODE_PARAMS *nodeParams)
{
	CUgraphNodeParams params;
	BEFORE;

	if (!nodeParams)
		return CUDA_ERROR_INVALID_VALUE;
	params = of_batch(nodeParams);
	return ck_emu_node_add(phGraphNode, hGraph, &before, &params);
}

CUresult cuGraphBatchMemOpNodeGetParams(CUgraphNode hNode,
					CUDA_BATCH_MEM_OP_NODE_PARAMS *nodeParams_out)
{
	CUgraphNodeParams params;
	CUresult result = ck_emu_node_params(hNode, CU_GRAPH_NODE_TYPE_BATCH_MEM_OP, &params);

	if (!nodeParams_out)
		return CUDA_ERROR_INVALID_VALUE;
	if (result == CUDA_SUCCESS)
		*nodeParams_out = (CUDA_BATCH_MEM_OP_NODE_PARAMS){
			params.memOp.ctx, params.memOp.count, params.memOp.paramArray,
			params.memOp.flags};
	return result;
}

CK_EMU_CHANGES(cuGraphBatchMemOpNodeSetParams, cuGraphExecBatchMemOpNodeSetParams,
	       CUDA_BATCH_MEM_OP_NODE_PARAMS, of_batch)

/* --- allocations --- */

CUresult cuGraphAddMemAllocNode(CUgraphNode *phGraphNode, CUgraph hGraph,
				const CUgraphNode *dependencies, size_t numDependencies,
				CUDA_MEM_ALLOC_NODE_PARAMS *nodeParams)
{
	CUgraphNodeParams params = {.type = CU_GRAPH_NODE_TYPE_MEM_ALLOC};
	CUresult result;
	BEFORE;

	if (!nodeParams)
		return CUDA_ERROR_INVALID_VALUE;
	params.alloc = (CUDA_MEM_ALLOC_NODE_PARAMS_v2){
		.poolProps = nodeParams->poolProps,
		.accessDescs = nodeParams->accessDescs,
		.accessDescCount = nodeParams->accessDescCount,
		.bytesize = nodeParams->bytesize,
	};
	result = ck_emu_node_add(phGraphNode, hGraph, &before, &params);
	if (result == CUDA_SUCCESS)
		nodeParams->dptr = params.alloc.dptr;
	return result;
}

CUresult cuGraphMemAllocNodeGetParams(CUgraphNode hNode, CUDA_MEM_ALLOC_NODE_PARAMS *params_out)
{
	CUgraphNodeParams params;
	CUresult result = ck_emu_node_params(hNode, CU_GRAPH_NODE_TYPE_MEM_ALLOC, &params);

	if (!params_out)
		return CUDA_ERROR_INVALID_VALUE;
	if (result == CUDA_SUCCESS)
		*params_out = (CUDA_MEM_ALLOC_NODE_PARAMS){
			params.alloc.poolProps, params.alloc.accessDescs,
			params.alloc.accessDescCount, params.alloc.bytesize, params.alloc.dptr};
	return result;
}

CUresult cuGraphAddMemFreeNode(CUgraphNode *phGraphNode, CUgraph hGraph,
			       const CUgraphNode *dependencies, size_t numDependencies,
			       CUdeviceptr dptr)
{
	CUgraphNodeParams params = {.type = CU_GRAPH_NODE_TYPE_MEM_FREE, .free.dptr = dptr};
	BEFORE;

	return ck_emu_node_add(phGraphNode, hGraph, &before, &params);
}

CUresult cuGraphMemFreeNodeGetParams(CUgraphNode hNode, CUdeviceptr *dptr_out)
{
	CUgraphNodeParams params;
	CUresult result = ck_emu_node_params(hNode, CU_GRAPH_NODE_TYPE_MEM_FREE, &params);

	if (result == CUDA_SUCCESS && dptr_out)
		*dptr_out = params.free.dptr;
	return dptr_out ? result : CUDA_ERROR_INVALID_VALUE;
}
