/*
 * emu/graphs/capture.c - stream capture: the streams of each capture, and the calls that it
 * forbids.
 *
 * A capture has an origin, the stream that began it, and an end in each stream that takes part: the
 * nodes that the stream's next node will depend on. An event that is recorded in a capturing stream
 * remembers these; a stream that waits for it gets them as well, and so takes part.
 */
#include <stdlib.h>
#include <string.h>

#include "emu/graphs/capture.h"

static struct ck_emu_capture *captures; /* that have begun and not ended */
static atomic_uint capture_count;
static _Thread_local char self; /* its address stands for the thread */

/* --- lists of nodes --- */

void ck_emu_after_clear(struct ck_emu_after *after)
{
	for (size_t i = 0; i < after->count; i++)
		ck_emu_object_put(&after->nodes[i]->base);
	after->count = 0;
}

void ck_emu_after_fini(struct ck_emu_after *after)
{
	ck_emu_after_clear(after);
	free(after->nodes);
	free(after->data);
	*after = (struct ck_emu_after){0};
}

bool ck_emu_after_add(struct ck_emu_after *after, struct ck_emu_node *node,
		      const CUgraphEdgeData *data)
{
	static const CUgraphEdgeData plain;

	for (size_t i = 0; i < after->count; i++) {
		if (after->nodes[i] == node)
			return true;
	}
	if (after->count == after->room) {
		size_t room = after->room ? 2 * after->room : 4;
		void *nodes = realloc(after->nodes, room * sizeof(struct ck_emu_node *));
		void *bytes;

		if (!nodes)
			return false;
		after->nodes = nodes;
		bytes = realloc(after->data, room * sizeof(*after->data));
		if (!bytes)
			return false;
		after->data = bytes;
		after->room = room;
	}
	ck_emu_object_ref(&node->base);
	after->nodes[after->count] = node;
	after->data[after->count++] = data ? *data : plain;
	return true;
}

bool ck_emu_after_add_all(struct ck_emu_after *to, const struct ck_emu_after *from)
{
	for (size_t i = 0; i < from->count; i++) {
		if (!ck_emu_after_add(to, from->nodes[i], &from->data[i]))
			return false;
	}
	return true;
}

/* --- captures; the lock of the graphs is held --- */

void ck_emu_capture_put(struct ck_emu_capture *capture)
{
	if (atomic_fetch_sub(&capture->refs, 1) != 1)
		return;
	ck_emu_object_put(&capture->graph->base);
	free(capture);
}

struct ck_emu_capture_end *ck_emu_capture_end_create(struct ck_emu_capture *capture,
						     struct ck_emu_stream *stream)
{
	struct ck_emu_capture_end *end = calloc(1, sizeof(*end));

	if (!end)
		return NULL;
	ck_emu_object_ref(&stream->base);
	end->stream = stream;
	end->capture = capture;
	end->next = capture->ends;
	capture->ends = end;
	atomic_store_explicit(&stream->capture, end, memory_order_release);
	return end;
}

static void end_destroy(struct ck_emu_capture_end *end)
{
	struct ck_emu_capture_end **link = &end->capture->ends;

	while (*link != end)
		link = &(*link)->next;
	*link = end->next;
	atomic_store(&end->stream->capture, NULL);
	ck_emu_after_fini(&end->after);
	ck_emu_object_put(&end->stream->base);
	free(end);
}

void ck_emu_capture_finish(struct ck_emu_capture *capture)
{
	struct ck_emu_capture **link = &captures;

	while (*link != capture)
		link = &(*link)->next;
	*link = capture->next;
	atomic_fetch_sub(&capture_count, 1);
	while (capture->ends)
		end_destroy(capture->ends);
	capture->ended = true;
	capture->graph->captures--;
	ck_emu_capture_put(capture);
}

CUresult ck_emu_capture_create(struct ck_emu_stream *stream, struct ck_emu_graph *graph,
			       CUstreamCaptureMode mode, struct ck_emu_capture_end **end)
{
	static uint64_t last_id;
	struct ck_emu_capture *capture = calloc(1, sizeof(*capture));

	if (!capture)
		return CUDA_ERROR_OUT_OF_MEMORY;
	*end = ck_emu_capture_end_create(capture, stream);
	if (!*end) {
		free(capture);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	atomic_init(&capture->refs, 1);
	capture->id = ++last_id;
	capture->graph = graph;
	graph->captures++;
	ck_emu_object_ref(&graph->base);
	capture->mode = mode;
	capture->thread = &self;
	capture->origin = stream;
	capture->next = captures;
	captures = capture;
	atomic_fetch_add(&capture_count, 1);
	return CUDA_SUCCESS;
}

bool ck_emu_capture_mine(const struct ck_emu_capture *capture)
{
	return capture->mode == CU_STREAM_CAPTURE_MODE_RELAXED || capture->thread == &self;
}

struct ck_emu_capture_end *ck_emu_capture_end_of(struct ck_emu_stream *stream)
{
	return atomic_load(&stream->capture);
}

/* --- calls that a capture forbids --- */

/* True when the stream would wait for the legacy stream, or that for it. */
static bool has_blocking_stream(const struct ck_emu_capture *capture,
				const struct ck_emu_context *context)
{
	const struct ck_emu_capture_end *end = capture->ends;

	while (end && (end->stream->base.context != context ||
		       end->stream->flags & CU_STREAM_NON_BLOCKING))
		end = end->next;
	return end != NULL;
}

CUresult ck_emu_capture_implicit(struct ck_emu_stream *stream, bool invalidate)
{
	CUresult result = CUDA_SUCCESS;

	if (!stream->is_legacy)
		return CUDA_SUCCESS;
	for (struct ck_emu_capture *c = captures; c; c = c->next) {
		if (!has_blocking_stream(c, stream->base.context))
			continue;
		c->invalid |= invalidate;
		result = CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
	}
	return result;
}

CUresult ck_emu_capture_check(struct ck_emu_stream *stream)
{
	struct ck_emu_capture_end *end;
	CUresult result;

	/* the launch of a graph asks before it takes the lock */
	if (!atomic_load_explicit(&capture_count, memory_order_relaxed) || ck_emu_graph_locked())
		return CUDA_SUCCESS;
	ck_emu_graph_lock();
	end = ck_emu_capture_end_of(stream);
	if (end) {
		result = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
		end->capture->invalid = true;
	} else {
		result = ck_emu_capture_implicit(stream, true);
	}
	ck_emu_graph_unlock();
	return result;
}

CUresult ck_emu_capture_context(struct ck_emu_context *context)
{
	CUresult result = CUDA_SUCCESS;

	if (!atomic_load_explicit(&capture_count, memory_order_relaxed))
		return CUDA_SUCCESS;
	ck_emu_graph_lock();
	for (struct ck_emu_capture *c = captures; c; c = c->next) {
		struct ck_emu_capture_end *end = c->ends;

		while (end && end->stream->base.context != context)
			end = end->next;
		if (!end)
			continue;
		c->invalid = true;
		result = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
	}
	ck_emu_graph_unlock();
	return result;
}

CUresult ck_emu_capture_unsafe(void)
{
	CUstreamCaptureMode mode;
	CUresult result = CUDA_SUCCESS;

	if (!atomic_load_explicit(&capture_count, memory_order_relaxed))
		return CUDA_SUCCESS;
	mode = ck_emu_thread_capture_mode(CU_STREAM_CAPTURE_MODE_RELAXED);
	ck_emu_thread_capture_mode(mode);
	if (mode == CU_STREAM_CAPTURE_MODE_RELAXED)
		return CUDA_SUCCESS;
	ck_emu_graph_lock();
	for (struct ck_emu_capture *c = captures; c; c = c->next) {
		bool mine = c->thread == &self && c->mode != CU_STREAM_CAPTURE_MODE_RELAXED;
		bool global = mode == CU_STREAM_CAPTURE_MODE_GLOBAL &&
			      c->mode == CU_STREAM_CAPTURE_MODE_GLOBAL;

		if (!mine && !global)
			continue;
		c->invalid = true;
		result = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
	}
	ck_emu_graph_unlock();
	return result;
}

/* A stream goes: its capture with it, if that began there. Lock held. */
static void leave_capture(struct ck_emu_capture_end *end)
{
	struct ck_emu_capture *capture = end->capture;

	if (capture->origin == end->stream) {
		/* no stream is left that could end it */
		if (!capture->lent)
			ck_emu_graph_end(capture->graph);
		ck_emu_capture_finish(capture);
	} else {
		capture->invalid = true;
		end_destroy(end);
	}
}

/* Nodes that a stream which had joined has left in the capture must still be joined. */
void ck_emu_capture_leave(struct ck_emu_stream *stream)
{
	struct ck_emu_capture_end *end;

	if (!ck_emu_capturing(stream))
		return;
	ck_emu_graph_lock();
	end = ck_emu_capture_end_of(stream);
	if (end && end->capture->origin == stream)
		leave_capture(end);
	else if (end)
		atomic_store(&stream->capture, NULL);
	ck_emu_graph_unlock();
}

/* A stream of @context that captures, if there is one. */
static struct ck_emu_capture_end *end_in(const struct ck_emu_context *context)
{
	for (struct ck_emu_capture *c = captures; c; c = c->next) {
		for (struct ck_emu_capture_end *end = c->ends; end; end = end->next) {
			if (end->stream->base.context == context)
				return end;
		}
	}
	return NULL;
}

void ck_emu_capture_leave_all(const struct ck_emu_context *context)
{
	struct ck_emu_capture_end *end;

	ck_emu_graph_lock();
	while ((end = end_in(context)))
		leave_capture(end);
	ck_emu_graph_unlock();
}

void ck_emu_capture_lose(struct ck_emu_stream *stream)
{
	struct ck_emu_capture_end *end;

	ck_emu_graph_lock();
	end = ck_emu_capture_end_of(stream);
	if (end)
		end->capture->invalid = true;
	ck_emu_graph_unlock();
}
