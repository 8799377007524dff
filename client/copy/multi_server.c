/*
 * client/copy/multi_server.c - see client/copy/multi_server.h.
 */
#include <stdlib.h>

#include "client/copy/multi_server.h"
#include "client/managed/managed.h"
#include "client/memory/busy_memory.h"
#include "client/objects/callback.h"
#include "client/objects/capture.h"
#include "util/log.h"

CK_LOG_DEFINE("client");

struct ckc_context *ckc_multi_server_home(struct ckc_context *context, uint64_t address)
{
	struct ckc_allocation a;
	struct ckc_context *home;

	if (likely(!ckc_many))
		return context;
	/* where addresses of two servers are equal, the current one's counts */
	ckc_route(context->client);
	if (!ckc_allocation_find(address, &a) || !ckc_kind_on_device(a.kind) ||
	    ckc_gpu_client(a.device) == context->client)
		return context;
	home = a.context ? a.context : ckc_gpu(a.device)->primary;
	return home->active ? home : NULL;
}

CUresult ckc_multi_server_begin(struct ckc_context *context, struct ckc_stream *stream)
{
	static bool told;

	if (ckc_capturing(stream))
		return ckc_refused("a copy between servers in a capture", &told);
	return ckc_stream_reach(context, stream);
}

/* Both sides are on one server, which is not the current one. */
static CUresult on_one_server(const struct ckc_multi_server *b)
{
	CUresult err = ck_wire_cuMemcpyPeer(b->to->object.id, b->dst, b->to->object.id, b->src,
					    b->from->object.id, b->size);

	return err ? err : ckc_stream_wait(b->to, NULL);
}

/* --- between two servers */

/* A copy that blocks a stream. */
struct blocked {
	struct ckc_context *context; /* of the stream */
	struct ckc_server_to_server crossing;
	struct ckc_server_to_server_box box;
	struct ckc_busy_memory to, from;
};

/* Its memory is not to be freed meanwhile. */
static void mark_memory_busy(struct blocked *b)
{
	const struct ckc_server_to_server *c = &b->crossing;

	b->to = (struct ckc_busy_memory){c->to.context->client, b->context, c->to.at, c->size,
					 NULL};
	b->from = (struct ckc_busy_memory){c->from.context->client, b->context, c->from.at, c->size,
					   NULL};
	if (c->box) {
		b->to.at = b->box.copy.dst.start;
		b->to.size = b->box.copy.dst.extent;
		b->from.at = b->box.copy.src.start;
		b->from.size = b->box.copy.src.extent;
	}
	ckc_busy_memory_begin(&b->to);
	ckc_busy_memory_begin(&b->from);
}

static void free_blocked(struct blocked *b)
{
	ckc_busy_memory_end(&b->to);
	ckc_busy_memory_end(&b->from);
	free(b);
}

/* The stream's later work would read memory whose bytes have not come. */
static void fail_stream_context(const struct blocked *b, CUresult err)
{
	ck_err("a copy between the GPU servers at %s and %s has failed (error %d): the context of "
	       "its stream fails too",
	       ckc_session_server(b->crossing.from.context->client),
	       ckc_session_server(b->crossing.to.context->client), (int)err);
	b->context->fault =
		(int)(err == CUDA_ERROR_OPERATING_SYSTEM ? CUDA_ERROR_DEVICE_UNAVAILABLE : err);
}

/* A thread that serves the stream's session, when the stream has come to the copy. */
static void run_blocked_copy(const struct ckc_callback *callback, int status, uint64_t value)
{
	struct blocked *b = callback->data;
	CUresult err = (CUresult)status;

	(void)value;
	if (!err) {
		ckc_aside = true;
		err = ckc_server_to_server_copy(&b->crossing);
		ckc_aside = false;
		if (err)
			fail_stream_context(b, err);
	}
	free_blocked(b);
}

static CUresult enqueue_copy(const struct ckc_multi_server *b, struct ckc_server_to_server *c)
{
	struct ckc_callback callback = {
		.run = run_blocked_copy, .ours = true, .on_loss = true, .in_stream = true};
	struct blocked *own = malloc(sizeof(*own));
	CUresult err = ckc_server_to_server_begin(c);
	uint64_t id;

	if (!err && !own)
		err = CUDA_ERROR_OUT_OF_MEMORY;
	if (err) {
		free(own);
		return err;
	}
	*own = (struct blocked){.context = b->context, .crossing = *c};
	if (c->box) {
		own->box = *c->box;
		own->crossing.box = &own->box;
	}
	mark_memory_busy(own);
	callback.data = own;
	callback.stream = b->stream ? b->stream->object.id : b->context->object.id;
	ckc_route(b->context->client);
	err = ckc_callback_add(&callback, &id);
	if (err) {
		free_blocked(own);
		return err;
	}
	err = ck_wire_host_function(b->context->object.id, b->stream ? b->stream->object.id : 0, id,
				    CKC_FUNCTION_HELD);
	if (err) {
		ckc_callback_drop(id);
		free_blocked(own);
	}
	return err;
}

static CUresult wait_for(struct ckc_context *context)
{
	ckc_route(context->client); /* its commands count */
	return ckc_stream_wait(context, NULL);
}

/* After all work of both contexts, as CUDA's reference says; done on return. The waits may be
 * commands. */
static CUresult cross_now(const struct ckc_multi_server *b, struct ckc_server_to_server *c)
{
	CUresult err = ckc_multi_server_begin(b->context, b->stream);

	if (!err)
		err = wait_for(c->from.context);
	if (!err)
		err = wait_for(c->to.context);
	if (!err)
		err = ckc_server_to_server_begin(c);
	return err ? err : ckc_server_to_server_copy(c);
}

CUresult ckc_multi_server_cross(const struct ckc_multi_server *b, struct ckc_server_to_server *c)
{
	bool own = b->context->client == c->to.context->client ||
		   b->context->client == c->from.context->client;
	static bool told;
	CUresult err;

	if (ckc_capturing(b->stream))
		return ckc_refused("a copy between servers in a capture", &told);
	/* a box goes through this process as commands, which may be held up until the stream goes
	 * on */
	own = own && (!c->box || ckc_direct_possible(c));
	err = b->waits || !own ? cross_now(b, c) : enqueue_copy(b, c);
	ckc_route(b->context->client);
	return err;
}

static CUresult prepare_range(const struct ckc_context *context, CUdeviceptr at, size_t size,
			      bool write)
{
	CUresult err;

	ckc_route(context->client);
	err = ckc_device_reach(at, size);
	if (!err)
		ckc_managed_device(at, size, write);
	return err;
}

CUresult ckc_multi_server_copy(const struct ckc_multi_server *b)
{
	struct ckc_server_to_server c = {.to = {.context = b->to, .at = b->dst},
					 .from = {.context = b->from, .at = b->src},
					 .size = b->size};
	CUresult err = b->to && b->from ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;

	if (!err)
		err = prepare_range(b->from, b->src, b->size, false);
	if (!err)
		err = prepare_range(b->to, b->dst, b->size, true);
	if (err)
		return err;
	if (b->to->client != b->from->client)
		return ckc_multi_server_cross(b, &c);
	err = ckc_multi_server_begin(b->context, b->stream);
	return err ? err : on_one_server(b);
}
