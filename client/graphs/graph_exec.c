/*
 * client/graphs/graph_exec.c - instantiate, update and launch graphs.
 */
#include <stdlib.h>

#include "client/modules/printing.h"
#include "client/objects/capture.h"
#include "client/graphs/graph.h"
#include "client/managed/managed.h"
#include "client/memory/arena.h"
#include "client/copy/mirror.h"

/* The node with @id from a reply, somewhere inside @graph; 0: none. */
static CUgraphNode node_of(struct ckc_graph *graph, uint64_t id)
{
	return id ? (CUgraphNode)ckc_graph_node(graph, id) : NULL;
}

/* Parameters and results of instantiation besides the graph. */
struct instantiate {
	cuuint64_t flags;
	uint64_t upload;
	CUgraphNode error_node;
	int result;
};

static CUresult instantiate_graph(CUgraphExec *out, CUgraph handle, struct instantiate *i)
{
	uint64_t ctx, id;
	struct ckc_graph *graph;
	struct ckc_exec *exec;
	ck_graph_instantiate_res r;
	CUresult err = ckc_enter(&ctx);

	if (!err)
		err = ckc_graph_from(handle, &graph);
	if (!err && !out)
		err = CUDA_ERROR_INVALID_VALUE;
	if (!err)
		err = ckc_capture_unsafe();
	if (!err)
		err = ckc_object_make(CK_OBJECT_EXEC, &id);
	if (err)
		return err;
	err = ck_wire_graph_instantiate(&(ck_graph_instantiate_args){.head.ctx = ctx,
								     .exec = id,
								     .graph = graph->object.id,
								     .flags = i->flags,
								     .upload = i->upload},
					&r);
	i->result = r.result;
	if (i->flags & CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD)
		ckc_command_called();
	i->error_node = node_of(graph, r.error_node);
	if (err) {
		free(r.mirrors.mirrors_val);
		ckc_object_end(CK_OBJECT_EXEC, id);
		return err;
	}
	exec = ckc_object_by_id(CK_OBJECT_EXEC, id);
	ckc_mirror_assign(exec, CUDA_SUCCESS, r.mirrors.mirrors_val, r.mirrors.mirrors_len, NULL,
			  0);
	*out = (CUgraphExec)exec;
	return CUDA_SUCCESS;
}

CK_EXPORT CUresult cuGraphInstantiateWithFlags(CUgraphExec *phGraphExec, CUgraph hGraph,
					       unsigned long long flags)
{
	struct instantiate i = {.flags = flags};

	return instantiate_graph(phGraphExec, hGraph, &i);
}

CK_EXPORT CUresult cuGraphInstantiate(CUgraphExec *phGraphExec, CUgraph hGraph,
				      CUgraphNode *phErrorNode, char *logBuffer, size_t bufferSize)
{
	struct instantiate i = {0};
	CUresult err = instantiate_graph(phGraphExec, hGraph, &i);

	if (phErrorNode)
		*phErrorNode = i.error_node;
	if (logBuffer && bufferSize > 0)
		logBuffer[0] = '\0';
	return err;
}

CK_EXPORT CUresult cuGraphInstantiateWithParams(CUgraphExec *phGraphExec, CUgraph hGraph,
						CUDA_GRAPH_INSTANTIATE_PARAMS *instantiateParams)
{
	CUDA_GRAPH_INSTANTIATE_PARAMS *p = instantiateParams;
	struct instantiate i = {0};
	CUresult err = p ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;

	if (err)
		return err;
	i.flags = p->flags;
	if (p->flags & CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD)
		err = ckc_stream_id(p->hUploadStream, &i.upload);
	if (!err)
		err = instantiate_graph(phGraphExec, hGraph, &i);
	p->hErrNode_out = i.error_node;
	p->result_out = err && i.result == CUDA_GRAPH_INSTANTIATE_SUCCESS
				? CUDA_GRAPH_INSTANTIATE_ERROR
				: (CUgraphInstantiateResult)i.result;
	return err;
}

CK_EXPORT CUresult cuGraphExecUpdate_v2(CUgraphExec hGraphExec, CUgraph hGraph,
					CUgraphExecUpdateResultInfo *resultInfo)
{
	CUgraphExecUpdateResultInfo unwanted;
	struct ckc_graph *graph;
	struct ckc_exec *exec;
	ck_graph_update_res r;
	CUresult err = ckc_session_check();

	if (!err)
		err = ckc_exec_from(hGraphExec, &exec);
	if (!err)
		err = ckc_graph_from(hGraph, &graph);
	if (err)
		return err;
	if (!resultInfo)
		resultInfo = &unwanted;
	err = ck_wire_graph_update(&(ck_graph_update_args){.head.ctx = ckc_current_id(),
							   .exec = exec->object.id,
							   .graph = graph->object.id},
				   &r);
	*resultInfo = (CUgraphExecUpdateResultInfo){
		.result = err && !r.result ? CU_GRAPH_EXEC_UPDATE_ERROR
					   : (CUgraphExecUpdateResult)r.result,
		.errorNode = node_of(graph, r.error_node),
		.errorFromNode = node_of(graph, r.error_from),
	};
	ckc_mirror_assign(exec, err, r.mirrors.mirrors_val, r.mirrors.mirrors_len, r.gone.gone_val,
			  r.gone.gone_len);
	return err;
}

CK_EXPORT CUresult cuGraphExecUpdate(CUgraphExec hGraphExec, CUgraph hGraph,
				     CUgraphNode *hErrorNode_out,
				     CUgraphExecUpdateResult *updateResult_out)
{
	CUgraphExecUpdateResultInfo info = {.result = CU_GRAPH_EXEC_UPDATE_ERROR};
	CUresult err;

	if (!updateResult_out)
		return CUDA_ERROR_INVALID_VALUE;
	err = cuGraphExecUpdate_v2(hGraphExec, hGraph, &info);
	if (hErrorNode_out)
		*hErrorNode_out = info.errorNode;
	*updateResult_out = info.result;
	return err;
}

/*
 * Check a launch; a stream that is being captured takes none. @ctx is the stream's context: the
 * server's events for the launch must belong to it.
 */
static CUresult enter_launch(CUgraphExec handle, CUstream stream, struct ckc_context **context,
			     struct ckc_exec **exec, struct ckc_stream **s)
{
	CUresult err = ckc_context_usable(context);

	if (!err)
		err = ckc_exec_from(handle, exec);
	if (!err)
		err = ckc_stream_enter(stream, context, s);
	return err ? err : ckc_capture_wait(*s);
}

/* A launch or upload is one-way: the driver must have memory for the allocations of the graph. It
 * keeps that memory for later launches. */
static void prepare_first(struct ckc_exec *exec, uint64_t ctx)
{
	const struct ckc_context *context = ckc_context_current();

	exec->launched = true;
	if (context && ckc_allocation_by_graphs())
		ckc_arena_shed(context->device, ctx, true);
}

CK_EXPORT CUresult cuGraphLaunch(CUgraphExec hGraphExec, CUstream hStream)
{
	struct ckc_context *context;
	struct ckc_exec *exec;
	struct ckc_stream *s;
	CUresult err = enter_launch(hGraphExec, hStream, &context, &exec, &s);
	uint64_t id;

	if (err)
		return err;
	id = s ? s->object.id : 0;
	if (unlikely(!exec->launched))
		prepare_first(exec, context->object.id);
	ckc_managed_launch();
	err = likely(exec->mirror_count == 0)
		      ? ck_wire_cuGraphLaunch(context->object.id, exec->object.id, id)
		      : ckc_mirror_launch(exec, context, s);
	ckc_printing_graph_launched(context, id);
	return err;
}

CK_EXPORT CUresult cuGraphUpload(CUgraphExec hGraphExec, CUstream hStream)
{
	struct ckc_context *context;
	struct ckc_exec *exec;
	struct ckc_stream *s;
	CUresult err = enter_launch(hGraphExec, hStream, &context, &exec, &s);

	if (err)
		return err;
	if (!exec->launched)
		prepare_first(exec, context->object.id);
	return ck_wire_cuGraphUpload(context->object.id, exec->object.id, s ? s->object.id : 0);
}

CK_EXPORT CUresult cuGraphExecDestroy(CUgraphExec hGraphExec)
{
	struct ckc_exec *exec;
	CUresult err = ckc_session_check();

	if (!err)
		err = ckc_exec_from(hGraphExec, &exec);
	if (!err)
		err = ckc_capture_unsafe();
	return err ? err : ckc_mirror_exec_end(ckc_current_id(), exec);
}
