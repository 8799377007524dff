/*
 * server/graphs/graph_exec.c - instantiate, update and launch graphs.
 */
#include <stdlib.h>

#include "gen/handlers.h"
#include "server/graphs/graph.h"
#include "server/graphs/mirror.h"
#include "server/session/driver.h"
#include "server/modules/launch_pace.h"
#include "server/session/faults.h"

/* Use the newest function that the driver has; older ones report less. */
static CUresult instantiate_graph(CUgraph graph, CUDA_GRAPH_INSTANTIATE_PARAMS *p,
				  CUgraphExec *exec)
{
	if (ck_driver.cuGraphInstantiateWithParams)
		return ck_driver.cuGraphInstantiateWithParams(exec, graph, p);
	if (p->flags & CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD)
		return CUDA_ERROR_NOT_SUPPORTED;
	if (ck_driver.cuGraphInstantiateWithFlags)
		return ck_driver.cuGraphInstantiateWithFlags(exec, graph, p->flags);
	return CUDA_ERROR_NOT_SUPPORTED;
}

static uint64_t name_node(struct cks_request *q, uint64_t graph, CUgraphNode node)
{
	uint64_t id = 0;

	if (node && cks_handle_name(q, CK_KIND_NODE, node, graph, &id))
		id = 0;
	return id;
}

CUresult ck_serve_graph_instantiate(struct cks_request *q, ck_graph_instantiate_args *a,
				    ck_graph_instantiate_res *res)
{
	CUDA_GRAPH_INSTANTIATE_PARAMS p = {.flags = a->flags};
	CUgraphExec exec = NULL;
	struct cks_told told;
	CUgraph graph;
	CUresult err;

	if (!ck_driver.cuGraphExecDestroy)
		return CUDA_ERROR_NOT_SUPPORTED;
	if (!cks_graph_find(q, a->graph, &graph) ||
	    !cks_stream_find(q, a->upload, &p.hUploadStream))
		return CUDA_ERROR_INVALID_HANDLE;
	err = instantiate_graph(graph, &p, &exec);
	res->result = (int)p.result_out;
	res->error_node = name_node(q, a->graph, p.hErrNode_out);
	if (err)
		return err;
	err = cks_exec_put(q, a->exec, exec);
	if (err) {
		ck_driver.cuGraphExecDestroy(exec);
		return err;
	}
	err = cks_mirrors_of_graph(q, a->exec, graph, &told);
	res->mirrors.mirrors_val = told.ids;
	res->mirrors.mirrors_len = told.count;
	free(told.gone);
	if (err) {
		cks_mirrors_owner_gone(q->session->mirrors, a->exec, NULL, NULL);
		cks_handle_remove(q, a->exec);
		ck_driver.cuGraphExecDestroy(exec);
	}
	return err;
}

static CUresult update_exec(CUgraphExec exec, CUgraph graph, CUgraphExecUpdateResultInfo *info)
{
	if (ck_driver.cuGraphExecUpdate_v2)
		return ck_driver.cuGraphExecUpdate_v2(exec, graph, info);
	if (ck_driver.cuGraphExecUpdate)
		return ck_driver.cuGraphExecUpdate(exec, graph, &info->errorNode, &info->result);
	return CUDA_ERROR_NOT_SUPPORTED;
}

/* Mirrors of the exec may end here, so wait for launches that use them. */
CUresult ck_serve_graph_update(struct cks_request *q, ck_graph_update_args *a,
			       ck_graph_update_res *res)
{
	CUgraphExecUpdateResultInfo info = {.result = CU_GRAPH_EXEC_UPDATE_ERROR};
	struct cks_told told;
	CUgraphExec exec;
	CUgraph graph;
	CUresult err;

	if (!cks_exec_find(q, a->exec, &exec) || !cks_graph_find(q, a->graph, &graph))
		return CUDA_ERROR_INVALID_HANDLE;
	err = update_exec(exec, graph, &info);
	res->result = (int)info.result;
	res->error_node = name_node(q, a->graph, info.errorNode);
	res->error_from = name_node(q, a->graph, info.errorFromNode);
	if (err)
		return err;
	cks_mirrors_wait(q->session->mirrors, a->exec);
	err = cks_mirrors_of_graph(q, a->exec, graph, &told);
	res->mirrors.mirrors_val = told.ids;
	res->mirrors.mirrors_len = told.count;
	res->gone.gone_val = told.gone;
	res->gone.gone_len = told.gone_count;
	return err;
}

/* In a capture, a launch becomes a node, which shares the exec's copies. */
CUresult ck_serve_cuGraphLaunch(struct cks_request *q, cuGraphLaunch_args *a, void *res)
{
	struct cks_mirrors *mirrors = q->session->mirrors;
	CUgraphExec exec;
	CUstream stream;
	CUgraph into;
	uint64_t id;
	CUresult err;

	(void)res;
	if (!ck_driver.cuGraphLaunch)
		return CUDA_ERROR_NOT_SUPPORTED;
	if (!cks_exec_find(q, a->hGraphExec, &exec) || !cks_stream_find(q, a->hStream, &stream))
		return CUDA_ERROR_INVALID_HANDLE;
	err = ck_driver.cuGraphLaunch(exec, stream);
	cks_faults_launch(q->session, 0, a->hStream);
	if (!err)
		cks_launch_pace(q, stream);
	if (err || !cks_mirrors_has(mirrors, a->hGraphExec))
		return err;
	into = cks_capture_graph(stream);
	if (!into)
		return cks_mirrors_launched(q, a->hGraphExec, stream);
	err = cks_handle_name(q, CK_KIND_GRAPH, into, 0, &id);
	return err ? err : cks_mirrors_share(mirrors, a->hGraphExec, cks_graph_root(q, id));
}

CUresult cks_exec_end(struct cks_request *q, uint64_t id, uint64_t **gone, u_int *count)
{
	CUgraphExec exec;

	if (!ck_driver.cuGraphExecDestroy)
		return CUDA_ERROR_NOT_SUPPORTED;
	if (!cks_exec_find(q, id, &exec))
		return CUDA_ERROR_INVALID_HANDLE;
	cks_mirrors_owner_gone(q->session->mirrors, id, gone, count);
	cks_handle_remove(q, id);
	return ck_driver.cuGraphExecDestroy(exec);
}

CUresult ck_serve_cuGraphExecDestroy(struct cks_request *q, cuGraphExecDestroy_args *a, void *res)
{
	(void)res;
	return cks_exec_end(q, a->hGraphExec, NULL, NULL);
}
