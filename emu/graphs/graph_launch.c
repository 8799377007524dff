/*
 * emu/graphs/graph_launch.c - launches: an instance's nodes, one after another, in a stream.
 *
 * A launch is a row of commands. An event is recorded, or waited for, by the stream itself, so
 * each such node ends one command and starts another; all other nodes between two of them are
 * run by one. A launch takes the steps that the nodes have at that time.
 */
#include <stdlib.h>

#include "emu/graphs/graph.h"
#include "emu/graphs/graph_run.h"
#include "emu/objects/activity.h"

/* Nodes to run, each with a reference to its step. */
struct item {
	struct ck_emu_step *step;
	struct ck_emu_node *node; /* of a conditional node, for its bodies */
};

struct segment {
	struct ck_emu_command command;
	struct ck_emu_exec *exec;	    /* with a reference */
	const struct ck_emu_stream *stream; /* whose thread runs it */
	uint32_t correlation;		    /* of its launch, for a profiler */
	bool first, last;		    /* of its launch */
	size_t count;
	struct item items[];
};

static CUresult items_run(const struct item *items, size_t count,
			  const struct ck_emu_running *running);

/* --- running --- */

static bool context_is_stopped(const struct ck_emu_context *context)
{
	return atomic_load(&context->cancelled) || ck_emu_exiting();
}

/* Add a node to a list, with its step; child graphs and empty nodes are no items. */
static size_t item_add(struct item *items, size_t count, struct ck_emu_node *node)
{
	CUgraphNodeType type = node->step->params.type;

	if (node->disabled || type == CU_GRAPH_NODE_TYPE_EMPTY || type == CU_GRAPH_NODE_TYPE_GRAPH)
		return count;
	ck_emu_step_ref(node->step);
	items[count] = (struct item){node->step, node};
	return count + 1;
}

/* Run all of a graph below a node: a body, or a child graph in one. */
static CUresult graph_run(struct ck_emu_graph *graph, const struct ck_emu_running *running)
{
	struct ck_emu_node **order;
	CUresult result = CUDA_ERROR_OUT_OF_MEMORY;
	struct item *items;
	size_t count;

	ck_emu_graph_lock();
	count = graph->count;
	order = calloc(count + 1, sizeof(struct ck_emu_node *));
	items = calloc(count + 1, sizeof(*items));
	if (order && items && ck_emu_graph_order(graph, order))
		result = CUDA_SUCCESS;
	for (size_t i = 0; result == CUDA_SUCCESS && i < count; i++) {
		if (order[i]->disabled)
			continue;
		ck_emu_step_ref(order[i]->step);
		items[i] = (struct item){order[i]->step, order[i]};
	}
	ck_emu_graph_unlock();
	if (result == CUDA_SUCCESS)
		result = items_run(items, count, running);
	for (size_t i = 0; items && i < count; i++)
		ck_emu_step_put(items[i].step);
	free(items);
	free(order);
	return result;
}

static CUresult condition_run(const struct item *item, const struct ck_emu_running *running)
{
	const CUDA_CONDITIONAL_NODE_PARAMS *params = &item->step->params.conditional;
	unsigned int value = ck_emu_condition_value(item->step->condition);
	CUresult result = CUDA_SUCCESS;

	switch (params->type) {
	case CU_GRAPH_COND_TYPE_IF: /* the second body is the else */
		value = !value;
		break;
	case CU_GRAPH_COND_TYPE_WHILE:
		while (value && result == CUDA_SUCCESS && !context_is_stopped(running->context)) {
			result = graph_run(item->node->bodies[0], running);
			value = ck_emu_condition_value(item->step->condition);
		}
		return result;
	case CU_GRAPH_COND_TYPE_SWITCH:
		break;
	}
	return value < params->size ? graph_run(item->node->bodies[value], running) : CUDA_SUCCESS;
}

static CUresult items_run(const struct item *items, size_t count,
			  const struct ck_emu_running *running)
{
	CUresult result = CUDA_SUCCESS;

	for (size_t i = 0;
	     i < count && result == CUDA_SUCCESS && !context_is_stopped(running->context); i++) {
		if (!items[i].step)
			continue;
		if (items[i].step->condition)
			result = condition_run(&items[i], running);
		else if (items[i].node->child)
			result = graph_run(items[i].node->child, running);
		else
			result = ck_emu_step_run(items[i].step, items[i].node->id, running);
	}
	return result;
}

/* Give all conditions of a graph the values they start with. */
static void conditions_start(const struct ck_emu_graph *graph)
{
	for (size_t i = 0; i < graph->count; i++) {
		const struct ck_emu_node *node = graph->nodes[i];

		if (node->child)
			conditions_start(node->child);
		if (!node->step->condition)
			continue;
		ck_emu_condition_start(node->step->condition);
		for (unsigned int b = 0; b < node->step->params.conditional.size; b++)
			conditions_start(node->bodies[b]);
	}
}

static CUresult segment_run(struct ck_emu_command *command, struct ck_emu_context *context)
{
	const struct segment *segment = (struct segment *)command;
	struct ck_emu_exec *exec = segment->exec;
	struct ck_emu_running running = {context, segment->stream, (uint32_t)exec->graph->id,
					 segment->correlation};
	struct ck_emu_activity_node whole = {.graph = running.graph,
					     .correlation = running.correlation};
	CUresult result;

	if (segment->first) {
		exec->began = ck_emu_activity_on() ? ck_emu_activity_clock() : 0;
		ck_emu_graph_lock();
		conditions_start(exec->graph);
		ck_emu_graph_unlock();
	}
	result = items_run(segment->items, segment->count, &running);
	if (result == CUDA_SUCCESS && segment->last && exec->began && ck_emu_activity_on())
		ck_emu_activity_add_graph(&whole, segment->stream, exec->began);
	return result;
}

static void segment_free(struct ck_emu_command *command)
{
	struct segment *segment = (struct segment *)command;

	for (size_t i = 0; i < segment->count; i++)
		ck_emu_step_put(segment->items[i].step);
	ck_emu_object_put(&segment->exec->base);
	free(segment);
}

/* --- queuing; the lock of the graphs is held --- */

static bool is_event(const struct ck_emu_node *node)
{
	return node->step->event != NULL;
}

/* Queue the nodes from @from up to the next event; *@next: where that is. */
static CUresult segment_submit(struct ck_emu_exec *exec, struct ck_emu_stream *stream,
			       uint32_t correlation, size_t from, size_t *next)
{
	struct ck_emu_point point = {0};
	struct segment *segment;
	size_t end = from;
	CUresult result;

	while (end < exec->count && !is_event(exec->order[end]))
		end++;
	*next = end;
	segment = calloc(1, sizeof(*segment) + (end - from) * sizeof(segment->items[0]));
	if (!segment)
		return CUDA_ERROR_OUT_OF_MEMORY;
	segment->command.run = segment_run;
	segment->command.free = segment_free;
	segment->exec = exec;
	segment->stream = stream;
	segment->correlation = correlation;
	segment->first = from == 0;
	segment->last = end == exec->count;
	ck_emu_object_ref(&exec->base);
	for (size_t i = from; i < end; i++)
		segment->count = item_add(segment->items, segment->count, exec->order[i]);
	/* an instance does not run twice at the same time */
	result = ck_emu_stream_submit(stream, &segment->command, &exec->last, &point);
	if (result != CUDA_SUCCESS)
		return result;
	ck_emu_point_put(&exec->last);
	exec->last = point;
	return CUDA_SUCCESS;
}

static CUresult event_submit(const struct ck_emu_node *node, struct ck_emu_stream *stream)
{
	struct ck_emu_object *event = node->step->event;

	if (node->step->params.type == CU_GRAPH_NODE_TYPE_WAIT_EVENT)
		return ck_emu_event_wait_object(event, stream);
	return ck_emu_event_record_object(event, stream);
}

/* Memory to be allocated is free, and the devices have it. */
static CUresult memory_prepare(const struct ck_emu_exec *exec, struct ck_emu_stream *stream)
{
	bool auto_free = exec->flags & CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH;

	for (size_t i = 0; i < exec->count; i++) {
		const struct ck_emu_step *step = exec->order[i]->step;

		if (step->params.type != CU_GRAPH_NODE_TYPE_MEM_ALLOC)
			continue;
		if (ck_emu_graph_memory_allocated(step->memory) && !auto_free)
			return CUDA_ERROR_INVALID_VALUE;
	}
	ck_emu_graph_memory_relaunch(exec);
	return ck_emu_graph_memory_reserve(exec, stream);
}

static CUresult launch_exec(struct ck_emu_exec *exec, struct ck_emu_stream *stream)
{
	CUresult result = memory_prepare(exec, stream);
	uint32_t number = ck_emu_activity_on() ? ck_emu_activity_number() : 0;
	size_t next = 0;

	if (result == CUDA_SUCCESS)
		result = segment_submit(exec, stream, number, 0, &next);
	while (result == CUDA_SUCCESS && next < exec->count) {
		result = event_submit(exec->order[next], stream);
		if (result == CUDA_SUCCESS)
			result = segment_submit(exec, stream, number, next + 1, &next);
	}
	if (result == CUDA_SUCCESS)
		ck_emu_graph_memory_launched(exec);
	return result;
}

/* --- calls --- */

/* Carry out a call on an instance in a stream, with the graphs' lock. An upload is checked as a
 * launch is. */
static CUresult in_stream(CUgraphExec handle, CUstream hStream,
			  CUresult (*run)(struct ck_emu_exec *exec, struct ck_emu_stream *stream))
{
	struct ck_emu_context *context;
	struct ck_emu_stream *stream;
	struct ck_emu_exec *exec;
	CUresult result = ck_emu_enter(&context);

	if (result != CUDA_SUCCESS)
		return result;
	result = ck_emu_stream_get(hStream, context, &stream);
	if (result != CUDA_SUCCESS)
		return result;
	/* outside the lock of the graphs, which this takes */
	result = ck_emu_capture_check(stream);
	if (result == CUDA_SUCCESS)
		result = ck_emu_exec_begin(handle, &exec);
	if (result == CUDA_SUCCESS) {
		result = run(exec, stream);
		ck_emu_graph_unlock();
	}
	ck_emu_object_put(&stream->base);
	return result;
}

CUresult cuGraphLaunch(CUgraphExec hGraphExec, CUstream hStream)
{
	return in_stream(hGraphExec, hStream, launch_exec);
}

/* Only memory is reserved ahead. */
static CUresult reserve_exec_memory(struct ck_emu_exec *exec, struct ck_emu_stream *stream)
{
	return ck_emu_graph_memory_reserve(exec, stream);
}

CUresult cuGraphUpload(CUgraphExec hGraphExec, CUstream hStream)
{
	return in_stream(hGraphExec, hStream, reserve_exec_memory);
}
