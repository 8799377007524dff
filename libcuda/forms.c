/*
 * libcuda/forms.c - calls of CUDA 13.1 and later that are older calls in another form, or several
 * of them.
 */
#include <string.h>

#include "gen/api.h"
#include "libcuda/libcuda.h"
#include "util/util.h"

/* Whether the thread that runs host functions sleeps or spins between them; both are the same
 * here. */
#define SYNC_MODE_MAX 1u

CK_EXPORT CUresult cuLaunchHostFunc_v2(CUstream hStream, CUhostFn fn, void *userData,
				       unsigned int syncMode)
{
	return syncMode <= SYNC_MODE_MAX ? cuLaunchHostFunc(hStream, fn, userData)
					 : CUDA_ERROR_INVALID_VALUE;
}

CK_EXPORT CUresult cuStreamGetDevResource(CUstream hStream, CUdevResource *resource,
					  CUdevResourceType type)
{
	CUgreenCtx green = NULL;
	CUcontext context = NULL;
	CUresult err = cuStreamGetCtx_v2(hStream, &context, &green);

	if (err)
		return err;
	return green ? cuGreenCtxGetDevResource(green, resource, type)
		     : cuCtxGetDevResource(context, resource, type);
}

/* --- nodes: the parameters of CUDA 13.4 say in which context a node runs, if not in that of its
 * graph. That context is a preference, which is not followed. */

CK_EXPORT CUresult cuGraphAddNode_v3(CUgraphNode *phGraphNode, CUgraph hGraph,
				     const CUgraphNode *dependencies,
				     const CUgraphEdgeData *dependencyData, size_t numDependencies,
				     CUgraphNodeParams *nodeParams)
{
	return cuGraphAddNode_v2(phGraphNode, hGraph, dependencies, dependencyData, numDependencies,
				 nodeParams);
}

CK_EXPORT CUresult cuGraphNodeSetParams_v2(CUgraphNode hNode, CUgraphNodeParams *nodeParams)
{
	return cuGraphNodeSetParams(hNode, nodeParams);
}

/* The parameters of a node that says its type; those of a conditional node are not known later. */
CK_EXPORT CUresult cuGraphNodeGetParams(CUgraphNode hNode, CUgraphNodeParams *nodeParams)
{
	CUgraphNodeParams p;
	CUgraphNodeType type;
	CUresult err = nodeParams ? cuGraphNodeGetType(hNode, &type) : CUDA_ERROR_INVALID_VALUE;

	if (err)
		return err;
	memset(&p, 0, sizeof(p));
	if (type == CU_GRAPH_NODE_TYPE_GRAPH)
		err = cuGraphChildGraphNodeGetGraph(hNode, &p.graph.graph);
	else if (type == CU_GRAPH_NODE_TYPE_CONDITIONAL)
		err = CUDA_ERROR_NOT_SUPPORTED;
	else if (type != CU_GRAPH_NODE_TYPE_EMPTY)
		err = ck_libcuda_node_params(hNode, type, &p);
	p.type = type;
	if (!err)
		memcpy(nodeParams, &p, sizeof(p));
	return err;
}
