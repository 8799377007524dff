/*
 * emu/graphs/capture_node.c - how a call in a capturing stream becomes a node of the capture's
 * graph.
 */
#include <stdlib.h>

#include "emu/graphs/capture.h"
#include "emu/graphs/graph_run.h"

/* Add a node behind the end of a stream, and make it the end. Takes over @step, also on error. */
static CUresult append_node(struct ck_emu_capture_end *end, struct ck_emu_step *step)
{
	struct ck_emu_node *node = ck_emu_node_create(end->capture->graph, step, true);

	if (!node) {
		ck_emu_step_put(step);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	for (size_t i = 0; i < end->after.count; i++) {
		struct ck_emu_node *before = end->after.nodes[i];

		/* unless the application has destroyed it meanwhile */
		if (before->graph == node->graph)
			ck_emu_edge_add(before, node, &end->after.data[i]);
	}
	ck_emu_after_clear(&end->after);
	ck_emu_after_add(&end->after, node, NULL);
	return CUDA_SUCCESS;
}

CUresult ck_emu_capture_end_get(struct ck_emu_stream *stream, struct ck_emu_capture_end **end)
{
	*end = ck_emu_capture_end_of(stream);
	if (!*end)
		return CUDA_ERROR_ILLEGAL_STATE;
	return (*end)->capture->invalid ? CUDA_ERROR_STREAM_CAPTURE_INVALIDATED : CUDA_SUCCESS;
}

/* Make a node of a call; @address, unless NULL, gets the address of an allocation. */
static CUresult capture_call(struct ck_emu_stream *stream, const struct ck_emu_step_source *source,
			     CUdeviceptr *address)
{
	struct ck_emu_capture_end *end;
	struct ck_emu_step *step = NULL;
	CUresult result;

	ck_emu_graph_lock();
	result = ck_emu_capture_end_get(stream, &end);
	ck_emu_graph_unlock();
	if (result == CUDA_SUCCESS)
		result = ck_emu_step_create(source, &step);
	if (result != CUDA_SUCCESS)
		return result;
	ck_emu_graph_lock();
	result = ck_emu_capture_end_get(stream, &end);
	if (result == CUDA_SUCCESS)
		result = append_node(end, step);
	else
		ck_emu_step_put(step);
	if (result == CUDA_SUCCESS && address)
		*address = step->params.alloc.dptr;
	ck_emu_graph_unlock();
	return result;
}

CUresult ck_emu_capture_node(struct ck_emu_stream *stream, const CUgraphNodeParams *params,
			     const CUlaunchAttribute *attributes, unsigned int attribute_count)
{
	const struct ck_emu_step_source source = {.params = params,
						  .attributes = attributes,
						  .attribute_count = attribute_count,
						  .context = stream->base.context,
						  .captured = true};

	return capture_call(stream, &source, NULL);
}

CUresult ck_emu_capture_nothing(struct ck_emu_stream *stream)
{
	struct ck_emu_capture_end *end;
	CUresult result;

	ck_emu_graph_lock();
	result = ck_emu_capture_end_get(stream, &end);
	ck_emu_graph_unlock();
	return result;
}

bool ck_emu_capture_copy(CUstream handle, const CUDA_MEMCPY3D *copy, CUresult *result)
{
	const CUgraphNodeParams params = {.type = CU_GRAPH_NODE_TYPE_MEMCPY,
					  .memcpy.copyParams = *copy};
	struct ck_emu_context *context;
	struct ck_emu_stream *stream;
	bool capturing;

	if (ck_emu_thread_redirected() || ck_emu_enter(&context) != CUDA_SUCCESS ||
	    ck_emu_stream_get(handle, context, &stream) != CUDA_SUCCESS)
		return false;
	capturing = ck_emu_capturing(stream);
	if (capturing && (!copy->WidthInBytes || !copy->Height || !copy->Depth))
		*result = ck_emu_capture_nothing(stream);
	else if (capturing)
		*result = ck_emu_capture_node(stream, &params, NULL, 0);
	ck_emu_object_put(&stream->base);
	return capturing;
}

/* --- memory in stream order --- */

bool ck_emu_capture_alloc(struct ck_emu_stream *stream, size_t size, CUdeviceptr *address,
			  CUresult *result)
{
	struct ck_emu_context *context = stream->base.context;
	const CUgraphNodeParams params = {
		.type = CU_GRAPH_NODE_TYPE_MEM_ALLOC,
		.alloc = {.poolProps = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
					.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE,
						     .id = context->device->ordinal}},
			  .bytesize = size},
	};
	const struct ck_emu_step_source source = {.params = &params, .context = context};

	if (!ck_emu_capturing(stream))
		return false;
	*result = capture_call(stream, &source, address);
	return true;
}

struct release {
	struct ck_emu_command command;
	struct ck_emu_graph_memory *memory; /* with a reference */
};

static CUresult release_run(struct ck_emu_command *command, struct ck_emu_context *context)
{
	(void)command;
	(void)context;
	return CUDA_SUCCESS; /* the memory goes with the reference */
}

static void release_free(struct ck_emu_command *command)
{
	ck_emu_graph_memory_put(((struct release *)command)->memory);
	free(command);
}

/* Free memory of a graph at the end of a stream; takes over the reference. */
static CUresult release_queue(struct ck_emu_stream *stream, struct ck_emu_graph_memory *memory)
{
	struct release *release = calloc(1, sizeof(*release));
	CUresult result;

	if (!release) {
		ck_emu_graph_memory_put(memory);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	release->command.run = release_run;
	release->command.free = release_free;
	release->memory = memory;
	/* from here on another launch may have it: it runs after the one that did */
	result = ck_emu_graph_memory_release(memory) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
	if (result != CUDA_SUCCESS) {
		release_free(&release->command);
		return result;
	}
	return ck_emu_stream_submit(stream, &release->command, NULL, NULL);
}

bool ck_emu_capture_free(struct ck_emu_stream *stream, CUdeviceptr address, CUresult *result)
{
	const CUgraphNodeParams params = {.type = CU_GRAPH_NODE_TYPE_MEM_FREE,
					  .free.dptr = address};
	struct ck_emu_graph_memory *memory;

	if (ck_emu_capturing(stream)) {
		*result = ck_emu_capture_node(stream, &params, NULL, 0);
		return true;
	}
	memory = ck_emu_graph_memory_get(address);
	if (memory)
		*result = release_queue(stream, memory);
	return memory != NULL;
}
