/*
 * emu/graphs/graph_dot.c - a graph as text for Graphviz.
 */
#include <stdio.h>

#include "emu/graphs/graph.h"

static const char *const types[] = {
	[CU_GRAPH_NODE_TYPE_KERNEL] = "KERNEL",
	[CU_GRAPH_NODE_TYPE_MEMCPY] = "MEMCPY",
	[CU_GRAPH_NODE_TYPE_MEMSET] = "MEMSET",
	[CU_GRAPH_NODE_TYPE_HOST] = "HOST",
	[CU_GRAPH_NODE_TYPE_GRAPH] = "GRAPH",
	[CU_GRAPH_NODE_TYPE_EMPTY] = "EMPTY",
	[CU_GRAPH_NODE_TYPE_WAIT_EVENT] = "WAIT_EVENT",
	[CU_GRAPH_NODE_TYPE_EVENT_RECORD] = "EVENT_RECORD",
	[CU_GRAPH_NODE_TYPE_MEM_ALLOC] = "MEM_ALLOC",
	[CU_GRAPH_NODE_TYPE_MEM_FREE] = "MEM_FREE",
	[CU_GRAPH_NODE_TYPE_BATCH_MEM_OP] = "BATCH_MEM_OP",
	[CU_GRAPH_NODE_TYPE_CONDITIONAL] = "CONDITIONAL",
};

/* The flags that add to a node's label. */
static bool label_wants_params(unsigned int flags, CUgraphNodeType type)
{
	static const unsigned int of[] = {
		[CU_GRAPH_NODE_TYPE_KERNEL] = CU_GRAPH_DEBUG_DOT_FLAGS_KERNEL_NODE_PARAMS,
		[CU_GRAPH_NODE_TYPE_MEMCPY] = CU_GRAPH_DEBUG_DOT_FLAGS_MEMCPY_NODE_PARAMS,
		[CU_GRAPH_NODE_TYPE_MEMSET] = CU_GRAPH_DEBUG_DOT_FLAGS_MEMSET_NODE_PARAMS,
		[CU_GRAPH_NODE_TYPE_CONDITIONAL] = 0,
	};

	return flags & (of[type] | CU_GRAPH_DEBUG_DOT_FLAGS_VERBOSE);
}

static void label_write(FILE *out, const struct ck_emu_node *node, unsigned int flags)
{
	const CUgraphNodeParams *params = &node->step->params;

	fprintf(out, "%s", types[params->type]);
	if (flags & (CU_GRAPH_DEBUG_DOT_FLAGS_HANDLES | CU_GRAPH_DEBUG_DOT_FLAGS_VERBOSE))
		fprintf(out, "\\nhandle %p", (const void *)node);
	if (!label_wants_params(flags, params->type))
		return;
	if (params->type == CU_GRAPH_NODE_TYPE_KERNEL)
		fprintf(out, "\\n<<<%u,%u,%u, %u,%u,%u, %u>>>", params->kernel.gridDimX,
			params->kernel.gridDimY, params->kernel.gridDimZ, params->kernel.blockDimX,
			params->kernel.blockDimY, params->kernel.blockDimZ,
			params->kernel.sharedMemBytes);
	else if (params->type == CU_GRAPH_NODE_TYPE_MEMCPY)
		fprintf(out, "\\n%zu x %zu x %zu bytes", params->memcpy.copyParams.WidthInBytes,
			params->memcpy.copyParams.Height, params->memcpy.copyParams.Depth);
	else if (params->type == CU_GRAPH_NODE_TYPE_MEMSET)
		fprintf(out, "\\n0x%llx = %u, %zu x %zu", params->memset.dst, params->memset.value,
			params->memset.width, params->memset.height);
}

/* A cluster with the nodes of a graph, and the clusters of the graphs below them. */
static void graph_write(FILE *out, const struct ck_emu_graph *graph, unsigned int flags)
{
	fprintf(out, "subgraph cluster_%llu {\nlabel=\"graph_%llu\" graph[style=\"dashed\"];\n",
		(unsigned long long)graph->id, (unsigned long long)graph->id);
	for (size_t i = 0; i < graph->count; i++) {
		const struct ck_emu_node *node = graph->nodes[i];

		fprintf(out, "\"node_%llu\"[shape=\"rectangle\" label=\"%zu\\n",
			(unsigned long long)node->id, i);
		label_write(out, node, flags);
		fprintf(out, "\"];\n");
		for (size_t e = 0; e < node->out.count; e++)
			fprintf(out, "\"node_%llu\" -> \"node_%llu\";\n",
				(unsigned long long)node->id,
				(unsigned long long)node->out.list[e].node->id);
		if (node->child)
			graph_write(out, node->child, flags);
		for (unsigned int b = 0; node->bodies && b < node->step->params.conditional.size;
		     b++)
			graph_write(out, node->bodies[b], flags);
	}
	fprintf(out, "}\n");
}

CUresult cuGraphDebugDotPrint(CUgraph hGraph, const char *path, unsigned int flags)
{
	struct ck_emu_graph *graph;
	CUresult result = ck_emu_graph_begin(hGraph, &graph);
	FILE *out;

	if (result != CUDA_SUCCESS)
		return result;
	out = path ? fopen(path, "w") : NULL;
	if (out) {
		fprintf(out, "digraph dot {\n");
		graph_write(out, graph, flags);
		fprintf(out, "}\n");
		if (fclose(out))
			result = CUDA_ERROR_OPERATING_SYSTEM;
	} else {
		result = path ? CUDA_ERROR_OPERATING_SYSTEM : CUDA_ERROR_INVALID_VALUE;
	}
	ck_emu_graph_unlock();
	return result;
}
