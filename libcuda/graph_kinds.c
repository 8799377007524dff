/*
 * libcuda/graph_kinds.c - the calls for graph nodes of one type each. All of them are the three
 * general calls of libcuda.h, with parameters in the newest form.
 */
#include <string.h>

#include "gen/api.h"
#include "libcuda/libcuda.h"
#include "util/util.h"

/* The type of the parameters; the caller fills in the rest. */
#define PARAMS(kind)                                                                               \
	(CUgraphNodeParams)                                                                        \
	{                                                                                          \
		.type = CU_GRAPH_NODE_TYPE_##kind                                                  \
	}

/* In an executable graph, which must not be NULL. */
static CUresult set_in(CUgraphExec exec, CUgraphNode node, CUgraphNodeParams *params)
{
	return exec ? ck_libcuda_node_change(exec, node, params) : CUDA_ERROR_INVALID_VALUE;
}

/*
 * The four calls for a node that is described by a structure: to add it, to change it in its graph
 * and in an executable one, and to ask. The structure begins as the newest form of it does.
 */
#define OF_STRUCTURE(add_it, set_it, set_in_exec, get_it, type, kind, member)                      \
	CK_EXPORT CUresult add_it(CUgraphNode *phGraphNode, CUgraph hGraph,                        \
				  const CUgraphNode *dependencies, size_t numDependencies,         \
				  const type *nodeParams)                                          \
	{                                                                                          \
		CUgraphNodeParams p = PARAMS(kind);                                                \
                                                                                                   \
		if (!nodeParams)                                                                   \
			return CUDA_ERROR_INVALID_VALUE;                                           \
		memcpy(&p.member, nodeParams, sizeof(*nodeParams));                                \
		return ck_libcuda_node_add(phGraphNode, hGraph, dependencies, numDependencies,     \
					   &p);                                                    \
	}                                                                                          \
	CK_EXPORT CUresult set_it(CUgraphNode hNode, const type *nodeParams)                       \
	{                                                                                          \
		CUgraphNodeParams p = PARAMS(kind);                                                \
                                                                                                   \
		if (!nodeParams)                                                                   \
			return CUDA_ERROR_INVALID_VALUE;                                           \
		memcpy(&p.member, nodeParams, sizeof(*nodeParams));                                \
		return ck_libcuda_node_change(NULL, hNode, &p);                                    \
	}                                                                                          \
	CK_EXPORT CUresult set_in_exec(CUgraphExec hGraphExec, CUgraphNode hNode,                  \
				       const type *nodeParams)                                     \
	{                                                                                          \
		CUgraphNodeParams p = PARAMS(kind);                                                \
                                                                                                   \
		if (!nodeParams)                                                                   \
			return CUDA_ERROR_INVALID_VALUE;                                           \
		memcpy(&p.member, nodeParams, sizeof(*nodeParams));                                \
		return set_in(hGraphExec, hNode, &p);                                              \
	}                                                                                          \
	CK_EXPORT CUresult get_it(CUgraphNode hNode, type *nodeParams)                             \
	{                                                                                          \
		CUgraphNodeParams p;                                                               \
		CUresult err =                                                                     \
			nodeParams ? ck_libcuda_node_params(hNode, CU_GRAPH_NODE_TYPE_##kind, &p)  \
				   : CUDA_ERROR_INVALID_VALUE;                                     \
                                                                                                   \
		if (!err)                                                                          \
			memcpy(nodeParams, &p.member, sizeof(*nodeParams));                        \
		return err;                                                                        \
	}

/* The same for a node that is an event and no more. */
#define OF_EVENT(add_it, set_it, set_in_exec, get_it, kind, member)                                \
	CK_EXPORT CUresult add_it(CUgraphNode *phGraphNode, CUgraph hGraph,                        \
				  const CUgraphNode *dependencies, size_t numDependencies,         \
				  CUevent event)                                                   \
	{                                                                                          \
		CUgraphNodeParams p = PARAMS(kind);                                                \
                                                                                                   \
		p.member.event = event;                                                            \
		return ck_libcuda_node_add(phGraphNode, hGraph, dependencies, numDependencies,     \
					   &p);                                                    \
	}                                                                                          \
	CK_EXPORT CUresult set_it(CUgraphNode hNode, CUevent event)                                \
	{                                                                                          \
		CUgraphNodeParams p = PARAMS(kind);                                                \
                                                                                                   \
		p.member.event = event;                                                            \
		return ck_libcuda_node_change(NULL, hNode, &p);                                    \
	}                                                                                          \
	CK_EXPORT CUresult set_in_exec(CUgraphExec hGraphExec, CUgraphNode hNode, CUevent event)   \
	{                                                                                          \
		CUgraphNodeParams p = PARAMS(kind);                                                \
                                                                                                   \
		p.member.event = event;                                                            \
		return set_in(hGraphExec, hNode, &p);                                              \
	}                                                                                          \
	CK_EXPORT CUresult get_it(CUgraphNode hNode, CUevent *event_out)                           \
	{                                                                                          \
		CUgraphNodeParams p;                                                               \
		CUresult err =                                                                     \
			event_out ? ck_libcuda_node_params(hNode, CU_GRAPH_NODE_TYPE_##kind, &p)   \
				  : CUDA_ERROR_INVALID_VALUE;                                      \
                                                                                                   \
		if (!err)                                                                          \
			*event_out = p.member.event;                                               \
		return err;                                                                        \
	}

OF_STRUCTURE(cuGraphAddKernelNode, cuGraphKernelNodeSetParams, cuGraphExecKernelNodeSetParams,
	     cuGraphKernelNodeGetParams, CUDA_KERNEL_NODE_PARAMS_v1, KERNEL, kernel)
OF_STRUCTURE(cuGraphAddKernelNode_v2, cuGraphKernelNodeSetParams_v2,
	     cuGraphExecKernelNodeSetParams_v2, cuGraphKernelNodeGetParams_v2,
	     CUDA_KERNEL_NODE_PARAMS, KERNEL, kernel)

CK_EXPORT CUresult cuGraphAddMemcpyNode(CUgraphNode *phGraphNode, CUgraph hGraph,
					const CUgraphNode *dependencies, size_t numDependencies,
					const CUDA_MEMCPY3D *copyParams, CUcontext ctx)
{
	CUgraphNodeParams p = PARAMS(MEMCPY);

	if (!copyParams)
		return CUDA_ERROR_INVALID_VALUE;
	p.memcpy.copyCtx = ctx;
	p.memcpy.copyParams = *copyParams;
	return ck_libcuda_node_add(phGraphNode, hGraph, dependencies, numDependencies, &p);
}

CK_EXPORT CUresult cuGraphMemcpyNodeSetParams(CUgraphNode hNode, const CUDA_MEMCPY3D *nodeParams)
{
	CUgraphNodeParams p = PARAMS(MEMCPY);

	if (!nodeParams)
		return CUDA_ERROR_INVALID_VALUE;
	p.memcpy.copyCtx = NULL;
	p.memcpy.copyParams = *nodeParams;
	return ck_libcuda_node_change(NULL, hNode, &p);
}

CK_EXPORT CUresult cuGraphExecMemcpyNodeSetParams(CUgraphExec hGraphExec, CUgraphNode hNode,
						  const CUDA_MEMCPY3D *copyParams, CUcontext ctx)
{
	CUgraphNodeParams p = PARAMS(MEMCPY);

	if (!copyParams)
		return CUDA_ERROR_INVALID_VALUE;
	p.memcpy.copyCtx = ctx;
	p.memcpy.copyParams = *copyParams;
	return set_in(hGraphExec, hNode, &p);
}

CK_EXPORT CUresult cuGraphMemcpyNodeGetParams(CUgraphNode hNode, CUDA_MEMCPY3D *nodeParams)
{
	CUgraphNodeParams p;
	CUresult err = nodeParams ? ck_libcuda_node_params(hNode, CU_GRAPH_NODE_TYPE_MEMCPY, &p)
				  : CUDA_ERROR_INVALID_VALUE;

	if (!err)
		*nodeParams = p.memcpy.copyParams;
	return err;
}

CK_EXPORT CUresult cuGraphAddMemsetNode(CUgraphNode *phGraphNode, CUgraph hGraph,
					const CUgraphNode *dependencies, size_t numDependencies,
					const CUDA_MEMSET_NODE_PARAMS *memsetParams, CUcontext ctx)
{
	CUgraphNodeParams p = PARAMS(MEMSET);

	if (!memsetParams)
		return CUDA_ERROR_INVALID_VALUE;
	memcpy(&p.memset, memsetParams, sizeof(*memsetParams));
	p.memset.ctx = ctx;
	return ck_libcuda_node_add(phGraphNode, hGraph, dependencies, numDependencies, &p);
}

CK_EXPORT CUresult cuGraphMemsetNodeSetParams(CUgraphNode hNode,
					      const CUDA_MEMSET_NODE_PARAMS *nodeParams)
{
	CUgraphNodeParams p = PARAMS(MEMSET);

	if (!nodeParams)
		return CUDA_ERROR_INVALID_VALUE;
	memcpy(&p.memset, nodeParams, sizeof(*nodeParams));
	p.memset.ctx = NULL;
	return ck_libcuda_node_change(NULL, hNode, &p);
}

CK_EXPORT CUresult cuGraphExecMemsetNodeSetParams(CUgraphExec hGraphExec, CUgraphNode hNode,
						  const CUDA_MEMSET_NODE_PARAMS *memsetParams,
						  CUcontext ctx)
{
	CUgraphNodeParams p = PARAMS(MEMSET);

	if (!memsetParams)
		return CUDA_ERROR_INVALID_VALUE;
	memcpy(&p.memset, memsetParams, sizeof(*memsetParams));
	p.memset.ctx = ctx;
	return set_in(hGraphExec, hNode, &p);
}

CK_EXPORT CUresult cuGraphMemsetNodeGetParams(CUgraphNode hNode,
					      CUDA_MEMSET_NODE_PARAMS *nodeParams)
{
	CUgraphNodeParams p;
	CUresult err = nodeParams ? ck_libcuda_node_params(hNode, CU_GRAPH_NODE_TYPE_MEMSET, &p)
				  : CUDA_ERROR_INVALID_VALUE;

	if (!err)
		memcpy(nodeParams, &p.memset, sizeof(*nodeParams));
	return err;
}

OF_STRUCTURE(cuGraphAddHostNode, cuGraphHostNodeSetParams, cuGraphExecHostNodeSetParams,
	     cuGraphHostNodeGetParams, CUDA_HOST_NODE_PARAMS, HOST, host)
OF_STRUCTURE(cuGraphAddBatchMemOpNode, cuGraphBatchMemOpNodeSetParams,
	     cuGraphExecBatchMemOpNodeSetParams, cuGraphBatchMemOpNodeGetParams,
	     CUDA_BATCH_MEM_OP_NODE_PARAMS, BATCH_MEM_OP, memOp)

CK_EXPORT CUresult cuGraphAddChildGraphNode(CUgraphNode *phGraphNode, CUgraph hGraph,
					    const CUgraphNode *dependencies, size_t numDependencies,
					    CUgraph childGraph)
{
	CUgraphNodeParams p = PARAMS(GRAPH);

	p.graph.graph = childGraph;
	return ck_libcuda_node_add(phGraphNode, hGraph, dependencies, numDependencies, &p);
}

CK_EXPORT CUresult cuGraphExecChildGraphNodeSetParams(CUgraphExec hGraphExec, CUgraphNode hNode,
						      CUgraph childGraph)
{
	CUgraphNodeParams p = PARAMS(GRAPH);

	p.graph.graph = childGraph;
	return set_in(hGraphExec, hNode, &p);
}

CK_EXPORT CUresult cuGraphAddEmptyNode(CUgraphNode *phGraphNode, CUgraph hGraph,
				       const CUgraphNode *dependencies, size_t numDependencies)
{
	CUgraphNodeParams p = PARAMS(EMPTY);

	return ck_libcuda_node_add(phGraphNode, hGraph, dependencies, numDependencies, &p);
}

OF_EVENT(cuGraphAddEventRecordNode, cuGraphEventRecordNodeSetEvent,
	 cuGraphExecEventRecordNodeSetEvent, cuGraphEventRecordNodeGetEvent, EVENT_RECORD,
	 eventRecord)
OF_EVENT(cuGraphAddEventWaitNode, cuGraphEventWaitNodeSetEvent, cuGraphExecEventWaitNodeSetEvent,
	 cuGraphEventWaitNodeGetEvent, WAIT_EVENT, eventWait)

CK_EXPORT CUresult cuGraphAddMemAllocNode(CUgraphNode *phGraphNode, CUgraph hGraph,
					  const CUgraphNode *dependencies, size_t numDependencies,
					  CUDA_MEM_ALLOC_NODE_PARAMS *nodeParams)
{
	CUgraphNodeParams p = PARAMS(MEM_ALLOC);
	CUresult err;

	if (!nodeParams)
		return CUDA_ERROR_INVALID_VALUE;
	memcpy(&p.alloc, nodeParams, sizeof(*nodeParams));
	err = ck_libcuda_node_add(phGraphNode, hGraph, dependencies, numDependencies, &p);
	if (!err)
		nodeParams->dptr = p.alloc.dptr;
	return err;
}

CK_EXPORT CUresult cuGraphMemAllocNodeGetParams(CUgraphNode hNode,
						CUDA_MEM_ALLOC_NODE_PARAMS *params_out)
{
	CUgraphNodeParams p;
	CUresult err = params_out ? ck_libcuda_node_params(hNode, CU_GRAPH_NODE_TYPE_MEM_ALLOC, &p)
				  : CUDA_ERROR_INVALID_VALUE;

	if (!err)
		memcpy(params_out, &p.alloc, sizeof(*params_out));
	return err;
}

CK_EXPORT CUresult cuGraphAddMemFreeNode(CUgraphNode *phGraphNode, CUgraph hGraph,
					 const CUgraphNode *dependencies, size_t numDependencies,
					 CUdeviceptr dptr)
{
	CUgraphNodeParams p = PARAMS(MEM_FREE);

	p.free.dptr = dptr;
	return ck_libcuda_node_add(phGraphNode, hGraph, dependencies, numDependencies, &p);
}

CK_EXPORT CUresult cuGraphMemFreeNodeGetParams(CUgraphNode hNode, CUdeviceptr *dptr_out)
{
	CUgraphNodeParams p;
	CUresult err = dptr_out ? ck_libcuda_node_params(hNode, CU_GRAPH_NODE_TYPE_MEM_FREE, &p)
				: CUDA_ERROR_INVALID_VALUE;

	if (!err)
		*dptr_out = p.free.dptr;
	return err;
}
