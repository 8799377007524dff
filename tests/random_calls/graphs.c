/* tests/random_calls/graphs.c - graphs: captured and built, changed, launched several times. */
#include <string.h>

#include "tests/random_calls/world.h"

void drop_graph(struct world *w, struct graph *g)
{
	if (g->exec != NULL)
		CALL(w, cuGraphExecDestroy, g->exec);
	if (g->graph != NULL)
		CALL(w, cuGraphDestroy, g->graph);
	for (unsigned i = 0; i < g->count; i++)
		g->uses[i].buffer->graphs--;
	*g = (struct graph){0};
}

static void instantiate(struct world *w, struct graph *g)
{
	size_t nodes = 0, edges = 0;

	CALL(w, cuGraphGetNodes, g->graph, NULL, &nodes);
	CALL(w, cuGraphGetEdges_v2, g->graph, NULL, NULL, NULL, &edges);
	if (one_in(w, 3))
		CALL(w, cuGraphInstantiateWithFlags, &g->exec, g->graph,
		     one_in(w, 2) ? CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH : 0);
	else
		CALL(w, cuGraphInstantiateWithFlags, &g->exec, g->graph, 0);
	say(w, "graph %d: %zu nodes, %zu edges\n", (int)(g - w->graph), nodes, edges);
	if (one_in(w, 3)) { /* the executable graph does not need it */
		CALL(w, cuGraphDestroy, g->graph);
		g->graph = NULL;
	}
}

static struct graph *some_new_graph(struct world *w)
{
	struct graph *g = &w->graph[below(w, GRAPHS)];

	drop_graph(
		w,
		g); /* launches that are on their way keep it, but what they use is used no less */
	return g;
}

static void (*const captured[])(struct world *) = {copy,   copy_rectangle, fill,   launch,
						   launch, host_function,  scratch};

/* Captures some calls in one stream, and others in streams that join it. */
void capture_graph(struct world *w)
{
	static const CUstreamCaptureMode modes[] = {CU_STREAM_CAPTURE_MODE_GLOBAL,
						    CU_STREAM_CAPTURE_MODE_THREAD_LOCAL,
						    CU_STREAM_CAPTURE_MODE_RELAXED};
	struct graph *g = some_new_graph(w);
	unsigned s = PER_THREAD + below(w, STREAMS - PER_THREAD), count = 1 + below(w, NODES);

	CALL(w, cuStreamBeginCapture_v2, w->stream[s], modes[1 + below(w, 2)]);
	memset(&w->captured, 0, sizeof(w->captured));
	w->order = &w->captured;
	w->capture = g;
	w->capturing = s;
	w->forked = 1u << s;
	while (count-- > 0)
		(w->arrays && one_in(w, 4)
			 ? copy_array
			 : captured[below(w, sizeof(captured) / sizeof(captured[0]))])(w);
	for (unsigned t = PER_THREAD; t < STREAMS; t++)
		if (t != s && (w->forked & 1u << t) != 0) {
			CALL(w, cuEventRecord, w->event[0], w->stream[t]);
			CALL(w, cuStreamWaitEvent, w->stream[s], w->event[0], 0);
		}
	w->capture = NULL;
	w->order = &w->real;
	CALL(w, cuStreamEndCapture, w->stream[s], &g->graph);
	instantiate(w, g);
}

static bool conflict(const struct node *a, const struct node *b)
{
	for (unsigned i = 0; i < a->count; i++)
		for (unsigned j = 0; j < b->count; j++)
			if (a->uses[i].buffer == b->uses[j].buffer &&
			    (a->uses[i].write || b->uses[j].write))
				return true;
	return false;
}

static void prepare_kernel(struct world *w, struct node *n)
{
	struct launch *l = &n->launch;

	prepare_launch(w, l);
	n->params.type = CU_GRAPH_NODE_TYPE_KERNEL;
	n->params.kernel = (CUDA_KERNEL_NODE_PARAMS_v3){.func = l->function,
							.gridDimX = l->blocks,
							.gridDimY = 1,
							.gridDimZ = 1,
							.blockDimX = l->threads,
							.blockDimY = 1,
							.blockDimZ = 1,
							.kernelParams = l->params};
	memcpy(n->uses, l->uses, sizeof(n->uses));
	n->count = l->count;
}

static void prepare_fill(struct world *w, struct node *n)
{
	struct buffer *b = some_buffer(w, on_device);
	unsigned unit = 1u << below(w, 3);
	CUdeviceptr at = (b->device + unit - 1) / unit * unit;
	size_t room = (size_t)(b->device + b->size - at) / unit;

	n->params.type = CU_GRAPH_NODE_TYPE_MEMSET;
	n->params.memset =
		(CUDA_MEMSET_NODE_PARAMS_v2){.dst = at,
					     .value = (unsigned)draw(w) >> (32 - 8 * unit),
					     .elementSize = unit,
					     .width = 1 + some_size(w, room - 1),
					     .height = 1,
					     .ctx = w->context};
	n->uses[n->count++] = (struct use){b, true};
}

static void prepare_node(struct world *w, struct node *n)
{
	*n = (struct node){0};
	switch (below(w, 6)) {
	case 0:
		n->params.type = CU_GRAPH_NODE_TYPE_EMPTY;
		break;
	case 1:
		n->params.type = CU_GRAPH_NODE_TYPE_HOST;
		CUDA_HOST_NODE_PARAMS job = prepare_job(w, n->uses);

		n->params.host = (CUDA_HOST_NODE_PARAMS_v2){job.fn, job.userData};
		n->count = 1;
		break;
	case 2:
		if (w->arrays && one_in(w, 2)
			    ? prepare_array_node(w, &n->params.memcpy.copyParams, n->uses)
			    : prepare_copy(w, &n->params.memcpy.copyParams, n->uses)) {
			n->params.type = CU_GRAPH_NODE_TYPE_MEMCPY;
			n->params.memcpy.copyCtx = w->context;
			n->count = 2;
			break;
		} /* fall through */
	case 3:
		prepare_fill(w, n);
		break;
	default:
		prepare_kernel(w, n);
	}
}

/* The forms of each kind are older; the parameters of a node serve both. */
static void add_node(struct world *w, CUgraph graph, struct node *n, CUgraphNode *behind,
		     size_t count)
{
	CUDA_KERNEL_NODE_PARAMS kernel;
	CUgraphNodeParams *p = &n->params;

	if (p->type == CU_GRAPH_NODE_TYPE_KERNEL && one_in(w, 2)) {
		memcpy(&kernel, &p->kernel, sizeof(kernel));
		CALL(w, cuGraphAddKernelNode_v2, &n->node, graph, behind, count, &kernel);
	} else if (p->type == CU_GRAPH_NODE_TYPE_MEMCPY && one_in(w, 2)) {
		CALL(w, cuGraphAddMemcpyNode, &n->node, graph, behind, count, &p->memcpy.copyParams,
		     w->context);
	} else {
		CALL(w, cuGraphAddNode_v2, &n->node, graph, behind, NULL, count, p);
	}
}

/* Builds a graph whose nodes wait for those that they conflict with, and for some others. */
void build_graph(struct world *w)
{
	struct graph *g = some_new_graph(w);
	CUgraphNode behind[NODES];
	unsigned count = 1 + below(w, NODES);
	size_t n;

	CALL(w, cuGraphCreate, &g->graph, 0);
	for (unsigned i = 0; i < count; i++) {
		prepare_node(w, &g->nodes[i]);
		n = 0;
		for (unsigned j = 0; j < i; j++)
			if (conflict(&g->nodes[i], &g->nodes[j]) || one_in(w, 5))
				behind[n++] = g->nodes[j].node;
		add_node(w, g->graph, &g->nodes[i], behind, n);
		for (unsigned j = 0; j < g->nodes[i].count; j++)
			keep_in_graph(g, &g->nodes[i].uses[j]);
	}
	g->built = count;
	instantiate(w, g);
}

static void change_kernel(struct world *w, struct graph *g, struct node *n)
{
	CUDA_KERNEL_NODE_PARAMS params;

	n->launch.value = (unsigned)draw(w);
	n->launch.n = 1 + below(w, n->launch.n);
	memcpy(&params, &n->params.kernel, sizeof(params));
	if (one_in(w, 2)) {
		CALL(w, cuGraphExecKernelNodeSetParams_v2, g->exec, n->node, &params);
		return;
	}
	CALL(w, cuGraphKernelNodeSetParams_v2, n->node, &params);
}

/* Changes a node of the graph or of what is executed, or takes all of the graph over. */
void change_graph(struct world *w)
{
	struct graph *g = &w->graph[below(w, GRAPHS)];
	struct node *n;
	CUgraphExecUpdateResultInfo info = {0};

	if (g->graph == NULL || g->exec == NULL || g->built == 0)
		return;
	n = &g->nodes[below(w, g->built)];
	if (n->params.type == CU_GRAPH_NODE_TYPE_KERNEL) {
		change_kernel(w, g, n);
	} else if (n->params.type == CU_GRAPH_NODE_TYPE_MEMSET) {
		n->params.memset.value =
			(unsigned)draw(w) >> (32 - 8 * n->params.memset.elementSize);
		CALL(w, cuGraphExecNodeSetParams, g->exec, n->node, &n->params);
	} else if (n->params.type == CU_GRAPH_NODE_TYPE_MEMCPY && !n->uses[0].buffer->array &&
		   !n->uses[1].buffer->array) {
		n->params.memcpy.copyParams.WidthInBytes =
			1 + below(w, (unsigned)n->params.memcpy.copyParams.WidthInBytes);
		CALL(w, cuGraphExecMemcpyNodeSetParams, g->exec, n->node,
		     &n->params.memcpy.copyParams, w->context);
	}
	if (n->params.type <= CU_GRAPH_NODE_TYPE_MEMSET && one_in(w, 4))
		CALL(w, cuGraphNodeSetEnabled, g->exec, n->node, below(w, 2));
	if (one_in(w, 3))
		CALL(w, cuGraphExecUpdate_v2, g->exec, g->graph, &info);
}

void launch_graph(struct world *w)
{
	struct graph *g = &w->graph[below(w, GRAPHS)];
	unsigned s = some_stream(w);

	if (g->exec == NULL)
		return;
	if (one_in(w, 4))
		CALL(w, cuGraphUpload, g->exec, w->stream[s]);
	for (unsigned n = 1 + below(w, 3); n > 0; n--) {
		submit(w, s, g->uses, g->count);
		CALL(w, cuGraphLaunch, g->exec, w->stream[s]);
	}
}
