/*
 * emu/objects/activity.c - see activity.h. Records go into the profiler's buffers, as CUPTI's do.
 */
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "emu/core/locks.h"
#include "emu/objects/activity.h"
#include "util/map.h"
#include "util/until.h"

#define PUSHED 16

_Atomic uint64_t ck_emu_activity_kinds;

static struct ck_mutex lock = CK_MUTEX(CK_RANK_ACTIVITY);
static ck_cupti_request_fn request;
static ck_cupti_complete_fn complete;
static uint8_t *buffer;
static size_t room, used;
static _Atomic uint64_t dropped; /* asked for in complete() too, where the lock is held */
static struct ck_map *names;	 /* of kernels: a record outlives the module */
static _Atomic uint32_t last;

static __thread struct {
	uint32_t kind;
	uint64_t id;
} pushed[PUSHED];
static __thread unsigned int depth;

uint64_t ck_emu_activity_clock(void)
{
	return ck_now_ns();
}

/* Give the buffer back. Lock held. */
static void complete_buffer(void)
{
	if (buffer)
		complete(NULL, 0, buffer, room, used);
	buffer = NULL;
	room = used = 0;
}

/* Lock held. */
static void append_record(const void *record, size_t size)
{
	size_t records = 0;

	if (buffer && room - used < size)
		complete_buffer();
	if (!buffer && request)
		request(&buffer, &room, &records);
	if (!buffer || room - used < size) {
		dropped++;
		return;
	}
	memcpy(buffer + used, record, size);
	used += size;
}

/* The text of @name that stays. Lock held. */
static const char *keep_name(const char *name)
{
	size_t size = strlen(name) + 1;
	char *kept;

	if (!names)
		names = ck_map_create();
	kept = names ? ck_map_find(names, name, size) : NULL;
	if (kept || !names)
		return kept;
	kept = malloc(size);
	if (kept)
		memcpy(kept, name, size);
	if (kept && ck_map_insert(names, name, size, kept) < 0) {
		free(kept);
		kept = NULL;
	}
	return kept;
}

uint32_t ck_emu_activity_number(void)
{
	uint32_t number = atomic_fetch_add(&last, 1) + 1;
	struct ck_cupti_external external = {.kind = CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION,
					     .correlation = number};

	if (!ck_emu_activity_wants(external.kind) || depth == 0)
		return number;
	external.external_kind = pushed[depth - 1].kind;
	external.external = pushed[depth - 1].id;
	ck_lock(&lock);
	append_record(&external, sizeof(external));
	ck_unlock(&lock);
	return number;
}

static uint32_t stream_number(const struct ck_emu_stream *stream)
{
	return ck_emu_activity_stream(stream->is_legacy ? 0 : stream->id);
}

static void place_kernel(struct ck_cupti_kernel *kernel, const struct ck_emu_context *context,
			 uint32_t stream)
{
	kernel->device = (uint32_t)context->device->ordinal;
	kernel->context = (uint32_t)context->id;
	kernel->stream = stream;
	kernel->completed = kernel->end;
	kernel->name = keep_name(kernel->name);
}

static bool is_copy(uint32_t kind)
{
	return kind == CUPTI_ACTIVITY_KIND_MEMCPY || kind == CUPTI_ACTIVITY_KIND_MEMCPY2 ||
	       kind == CUPTI_ACTIVITY_KIND_MEMSET;
}

void ck_emu_activity_add(union ck_cupti_record *r, const struct ck_emu_context *context,
			 const struct ck_emu_stream *stream, uint64_t start)
{
	uint64_t end = ck_emu_activity_clock();

	ck_lock(&lock);
	if (is_copy(r->kind)) { /* all of them have these at the same place */
		r->copy.start = start;
		r->copy.end = end;
		r->copy.device = (uint32_t)context->device->ordinal;
		r->copy.context = (uint32_t)context->id;
		r->copy.stream = stream_number(stream);
		if (r->kind == CUPTI_ACTIVITY_KIND_MEMCPY2)
			r->peer.src_context = r->peer.dst_context = (uint32_t)context->id;
	} else {
		r->kernel.start = start;
		r->kernel.end = end;
		place_kernel(&r->kernel, context, stream_number(stream));
	}
	if (ck_emu_activity_wants(r->kind))
		append_record(r, ck_cupti_record_size(r->kind));
	ck_unlock(&lock);
}

void ck_emu_activity_add_node(union ck_cupti_record *r, const struct ck_emu_context *context,
			      const struct ck_emu_stream *stream, uint64_t start,
			      const struct ck_emu_activity_node *node)
{
	if (ck_emu_activity_wants(CUPTI_ACTIVITY_KIND_GRAPH_TRACE))
		return;
	if (r->kind == CUPTI_ACTIVITY_KIND_MEMCPY2) {
		r->peer.correlation = node->correlation;
		r->peer.graph = node->graph;
		r->peer.graph_node = node->node;
	} else if (is_copy(r->kind)) { /* both have these at the same place */
		r->copy.correlation = node->correlation;
		r->copy.graph = node->graph;
		r->copy.graph_node = node->node;
	} else {
		r->kernel.correlation = node->correlation;
		r->kernel.graph = node->graph;
		r->kernel.graph_node = node->node;
	}
	ck_emu_activity_add(r, context, stream, start);
}

static void add_record(const void *record, size_t size)
{
	if (!ck_emu_activity_wants(*(const uint32_t *)record))
		return;
	ck_lock(&lock);
	append_record(record, size);
	ck_unlock(&lock);
}

void ck_emu_activity_add_graph(const struct ck_emu_activity_node *node,
			       const struct ck_emu_stream *stream, uint64_t start)
{
	const struct ck_emu_context *context = stream->base.context;
	struct ck_cupti_graph r = {
		.kind = CUPTI_ACTIVITY_KIND_GRAPH_TRACE,
		.correlation = node->correlation,
		.start = start,
		.end = ck_emu_activity_clock(),
		.device = (uint32_t)context->device->ordinal,
		.graph = node->graph,
		.context = (uint32_t)context->id,
		.stream = stream_number(stream),
		.end_device = (uint32_t)context->device->ordinal,
		.end_context = (uint32_t)context->id,
	};

	add_record(&r, sizeof(r));
}

void ck_emu_activity_add_compiler(uint32_t correlation, uint64_t start)
{
	struct ck_cupti_overhead r = {
		.kind = CUPTI_ACTIVITY_KIND_OVERHEAD,
		.overhead = CUPTI_ACTIVITY_OVERHEAD_DRIVER_COMPILER,
		.object = CUPTI_ACTIVITY_OBJECT_PROCESS,
		.id = {(uint32_t)getpid()},
		.start = start,
		.end = ck_emu_activity_clock(),
		.correlation = correlation,
	};

	add_record(&r, sizeof(r));
}

void ck_emu_activity_callbacks(ck_cupti_request_fn new_request, ck_cupti_complete_fn new_complete)
{
	ck_lock(&lock);
	request = new_request;
	complete = new_complete;
	ck_unlock(&lock);
}

void ck_emu_activity_flush(void)
{
	ck_lock(&lock);
	complete_buffer();
	ck_unlock(&lock);
}

uint64_t ck_emu_activity_dropped(void)
{
	return atomic_exchange(&dropped, 0);
}

CUptiResult ck_emu_activity_push(uint32_t kind, uint64_t id)
{
	if (depth == PUSHED)
		return CUPTI_ERROR_OUT_OF_MEMORY;
	pushed[depth].kind = kind;
	pushed[depth++].id = id;
	return CUPTI_SUCCESS;
}

CUptiResult ck_emu_activity_pop(uint32_t kind, uint64_t *id)
{
	if (depth == 0 || pushed[depth - 1].kind != kind)
		return CUPTI_ERROR_QUEUE_EMPTY;
	depth--;
	if (id)
		*id = pushed[depth].id;
	return CUPTI_SUCCESS;
}
