/*
 * client/objects/stream.c - streams: named here, created one-way. A synchronise with nothing
 * outstanding returns without a message (D5).
 */
#include <stdlib.h>

#include "client/objects/callback.h"
#include "client/objects/capture.h"
#include "client/objects/event_times.h"
#include "client/link/client.h"
#include "client/wire/command.h"
#include "client/objects/context.h"
#include "client/link/session_list.h"
#include "client/wire/delivery.h"
#include "client/wire/status.h"
#include "client/link/hooks.h"
#include "rpc/status.h"
#include "util/util.h"

/* The calling thread's own stream in its current context: an ordinary blocking stream for handle
 * 2. */
static CUresult own_stream(struct ckc_stream **out)
{
	struct ckc_thread *t = ckc_thread();
	struct ckc_context *ctx = ckc_context_current();
	struct ckc_stream **more;
	CUstream made;
	CUresult err;

	if (!ctx)
		return CUDA_ERROR_INVALID_CONTEXT;
	if (!t)
		return CUDA_ERROR_OUT_OF_MEMORY;
	for (unsigned int i = 0; i < t->own_stream_count; i++) {
		struct ckc_stream *s = ckc_object_check(t->own_streams[i], CK_OBJECT_STREAM);

		if (s && s->object.context == ctx) {
			*out = s;
			return CUDA_SUCCESS;
		}
	}
	more = realloc(t->own_streams, (t->own_stream_count + 1) * sizeof(*more));
	if (!more)
		return CUDA_ERROR_OUT_OF_MEMORY;
	t->own_streams = more;
	err = cuStreamCreateWithPriority(&made, CU_STREAM_DEFAULT, 0);
	if (err)
		return err;
	*out = t->own_streams[t->own_stream_count++] = (struct ckc_stream *)made;
	return CUDA_SUCCESS;
}

CUresult ckc_stream_from(CUstream handle, struct ckc_stream **stream)
{
	struct ckc_thread *t = ckc_thread();

	*stream = NULL;
	if (unlikely(!t))
		return CUDA_ERROR_OUT_OF_MEMORY;
	if (!handle)
		handle = t->default_stream;
	t->in_legacy = !handle || handle == CU_STREAM_LEGACY;
	if (t->in_legacy)
		return CUDA_SUCCESS;
	if (handle == CU_STREAM_PER_THREAD)
		return own_stream(stream);
	*stream = ckc_object_check(handle, CK_OBJECT_STREAM);
	return *stream ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

/*
 * A copy into, or a wait for, a stream of another context is allowed. It runs in the stream's
 * context: waits are noted there, and the server's events for the copy must be of it.
 */
CUresult ckc_stream_enter(CUstream handle, struct ckc_context **context, struct ckc_stream **stream)
{
	CUresult err = ckc_context_usable(context);

	if (!err)
		err = ckc_stream_from(handle, stream);
	/* a green context's stream belongs to the primary one, which need not be retained */
	if (!err && *stream && ckc_context_active((*stream)->object.context))
		*context = (*stream)->object.context;
	return err;
}

bool ckc_stream_takes(const struct ckc_stream *stream, const struct ckc_context *context)
{
	const struct ckc_context *own = ckc_stream_home(stream);

	return own == context || own->green || context->green || (stream && stream->green);
}

CUresult ckc_stream_work(CUstream handle, struct ckc_stream **stream, uint64_t *id)
{
	CUresult err = ckc_stream_from(handle, stream);

	*id = *stream ? (*stream)->object.id : 0;
	return err ? err : ckc_capture_work(*stream);
}

CUresult ckc_stream_id(CUstream handle, uint64_t *id)
{
	struct ckc_stream *s;

	return ckc_stream_work(handle, &s, id);
}

CUresult ckc_stream_uncaptured(CUstream handle, struct ckc_context **ctx, uint64_t *id,
			       CUdevice *device)
{
	struct ckc_stream *s;
	CUresult err = ckc_context_usable(ctx);

	if (!err)
		err = ckc_stream_from(handle, &s);
	if (!err)
		err = ckc_capture_work_uncaptured(s);
	if (err)
		return err;
	*id = s ? s->object.id : 0;
	*device = ckc_stream_home(s)->device;
	return CUDA_SUCCESS;
}

/* The stream of an event or a use, which had this id at command @number; a later stream may have
 * the id of a destroyed one. */
static struct ckc_stream *find_stream(uint64_t id, uint64_t number)
{
	struct ckc_stream *s = id ? ckc_object_by_id(CK_OBJECT_STREAM, id) : NULL;

	return s && s->born < number ? s : NULL;
}

bool ckc_stream_lives(uint64_t id, uint64_t number)
{
	return id == 0 || find_stream(id, number);
}

bool ckc_stream_waited(struct ckc_context *context, uint64_t id, uint64_t number)
{
	const struct ckc_stream *s = find_stream(id, number);

	if (context->synced >= number)
		return true;
	return id ? s && s->synced >= number : context->legacy_synced >= number;
}

bool ckc_stream_passed(struct ckc_context *context, uint64_t id, uint64_t number)
{
	const struct ckc_stream *s = find_stream(id, number);

	return id ? s && s->done >= number : context->legacy_done >= number;
}

void ckc_stream_pass(struct ckc_context *context, uint64_t id, uint64_t number)
{
	struct ckc_stream *s = find_stream(id, number);

	if (s || !id)
		ck_atomic_lift(s ? &s->done : &context->legacy_done, number);
}

bool ckc_stream_idle(struct ckc_context *context, struct ckc_stream *stream)
{
	uint64_t last;

	ckc_route(context->client); /* commands are counted by server */
	last = ckc_command_last();
	return context->synced == last ||
	       (stream ? stream->synced : context->legacy_synced) == last;
}

/* The last command that a wait for the legacy stream has covered, or one for the context. The
 * former is a wait for all blocking streams. */
static uint64_t legacy_covered(const struct ckc_context *context)
{
	return ck_max((uint64_t)context->synced, (uint64_t)context->legacy_synced);
}

/* Would operations of the stream follow work of the legacy one that may not be done? */
static bool follows_legacy(const struct ckc_context *context, const struct ckc_stream *stream)
{
	return stream && !(stream->flags & CU_STREAM_NON_BLOCKING) &&
	       context->client->command.legacy > legacy_covered(context);
}

bool ckc_stream_follows(const struct ckc_context *context, uint64_t id, uint64_t number)
{
	return follows_legacy(context, find_stream(id, number)) && legacy_covered(context) < number;
}

/* The last command up to which waits have covered all that operations of @stream follow. */
static uint64_t covered_in(const struct ckc_context *context, const struct ckc_stream *stream)
{
	if (!stream || follows_legacy(context, stream))
		return legacy_covered(context);
	return ck_max((uint64_t)stream->synced, (uint64_t)context->synced);
}

bool ckc_stream_reached(struct ckc_context *context, struct ckc_stream *stream)
{
	ckc_route(context->client);
	return covered_in(context, stream) == ckc_command_last();
}

void ckc_stream_synced(struct ckc_context *context, struct ckc_stream *stream, uint64_t command)
{
	/* another thread, or a part of the same copy, may have waited for more */
	ck_atomic_lift(stream ? &stream->synced : &context->legacy_synced, command);
}

/*
 * Can the wait be one-way, given that the last one covered command @synced? Later work on the
 * server comes after it, so the program cannot tell the difference, but only if all later commands
 * are quiet, if no other process sees the session's work, and if the server cannot write this
 * process's memory on its own.
 */
static bool may_wait_one_way(const struct ckc_context *context, uint64_t synced)
{
	const struct ckc_client *c = context->client;

	return !c->passes_fds && !c->shares && !c->watched && !c->shadows &&
	       synced >= ckc_command_loud() && ckc_session_offers(c, CK_PROC_settle);
}

/* Send the one-way wait. On success, *@covered is the command that it covers. */
static CUresult send_one_way_wait(const struct ckc_context *context,
				  const struct ckc_stream *stream, bool whole, uint64_t *covered)
{
	/* itself and all before it; calls of other threads that come now may not be covered */
	uint64_t calls = ckc_command_last() - ckc_command_number(context->client);
	ck_settle_args args = {.head.ctx = context->object.id,
			       .stream = stream ? stream->object.id : 0,
			       .context = whole};
	CUresult err = ckc_send(CK_PROC_settle, &args, NULL, 0);

	*covered = args.head.seq + calls;
	ck_atomic_lift(&context->client->command.last_wait, args.head.seq);
	return err;
}

CUresult ckc_stream_wait(struct ckc_context *context, struct ckc_stream *stream)
{
	uint64_t last;
	CUresult err;

	ckc_route(context->client);
	last = ckc_command_last();
	if (may_wait_one_way(context, covered_in(context, stream)))
		err = send_one_way_wait(context, stream, false, &last);
	else
		err = ckc_times_wait_work(context, stream ? stream->object.id : 0, false);
	if (!err)
		ckc_stream_synced(context, stream, last);
	return err;
}

/* An event that the stream records and waits for is ordered as the operation would be. */
CUresult ckc_stream_reach(struct ckc_context *context, struct ckc_stream *stream)
{
	CUresult err = CUDA_SUCCESS;

	if (ckc_stream_reached(context, stream))
		return CUDA_SUCCESS;
	if (follows_legacy(context, stream))
		err = ck_wire_order(context->object.id, stream->object.id, stream->object.id);
	return err ? err : ckc_stream_wait(context, stream);
}

/* The same for all work of the context. */
static CUresult context_wait(struct ckc_context *ctx)
{
	uint64_t last = ckc_command_last();
	CUresult err;

	if (ctx->synced == last)
		return CUDA_SUCCESS;
	err = may_wait_one_way(ctx, ctx->synced) ? send_one_way_wait(ctx, NULL, true, &last)
						 : ckc_times_wait_work(ctx, 0, true);
	if (!err)
		ctx->synced = last;
	return err;
}

/* Have functions or copies to the host been queued, of which the server may not have reported the
 * end? */
static bool host_awaits(const struct ckc_client *c)
{
	bool any = ckc_delivery_any(c) || ckc_callback_pending();

	ckc_each_hook(context_writes, h) any = any || h->any(c);
	return any;
}

/*
 * The driver completes the work of a context before it ends: what that brings to the host must have
 * come here. Not for the last release of a primary context, which the runtime makes at exit(), when
 * a kernel that never ends must not hold the program.
 */
static void finish_context(struct ckc_context *ctx)
{
	if (ckc_context_active(ctx) && host_awaits(ctx->client))
		ckc_work_done(context_wait(ctx));
}
CK_ON_CONTEXT_CLOSING(finish_context);

/* A lower number is a higher priority. */
int ckc_stream_priority(int asked)
{
	int low = 0, high = 0;

	cuCtxGetStreamPriorityRange(&low, &high);
	return asked > low ? low : asked < high ? high : asked;
}

CK_EXPORT CUresult cuStreamCreateWithPriority(CUstream *phStream, unsigned int flags, int priority)
{
	struct ckc_stream *s;
	struct ckc_context *ctx;
	CUresult err = ckc_context_usable(&ctx);

	if (err)
		return err;
	if (!phStream || flags > CU_STREAM_NON_BLOCKING)
		return CUDA_ERROR_INVALID_VALUE;
	s = ckc_object_new(CK_OBJECT_STREAM, ctx);
	if (!s)
		return CUDA_ERROR_OUT_OF_MEMORY;
	s->flags = flags;
	s->born = ckc_command_last();
	if (flags & CU_STREAM_NON_BLOCKING)
		ctx->client->unordered_streams = true;
	s->priority = ckc_stream_priority(priority);
	err = ck_wire_cuStreamCreateWithPriority(ctx->object.id, s->object.id, flags, priority);
	if (err)
		ckc_object_free(s);
	else
		*phStream = (CUstream)s;
	return err;
}

CK_EXPORT CUresult cuStreamCreate(CUstream *phStream, unsigned int Flags)
{
	return cuStreamCreateWithPriority(phStream, Flags, 0);
}

CK_EXPORT CUresult cuStreamDestroy_v2(CUstream hStream)
{
	struct ckc_stream *s = ckc_object_check(hStream, CK_OBJECT_STREAM);
	uint64_t ctx;
	CUresult err = ckc_enter_any(&ctx);

	if (err)
		return err;
	if (!s)
		return CUDA_ERROR_INVALID_HANDLE;
	ckc_capture_stream_gone(s);
	ckc_each_hook(stream_end, h) h->run(s);
	err = ck_wire_cuStreamDestroy_v2(s->object.context->object.id, s->object.id);
	ckc_object_free(s);
	return err;
}

static CUresult wait_if_busy(struct ckc_context *context, struct ckc_stream *stream)
{
	return ckc_stream_idle(context, stream) ? CUDA_SUCCESS : ckc_stream_wait(context, stream);
}

/* Call @wait, unless @may forbids it. On success, note that earlier work is done. */
static CUresult synchronize(CUstream handle, CUresult (*may)(struct ckc_stream *stream),
			    CUresult (*wait)(struct ckc_context *context,
					     struct ckc_stream *stream))
{
	struct ckc_context *ctx;
	struct ckc_stream *s;
	CUresult err = ckc_stream_enter(handle, &ctx, &s);

	if (!err)
		err = may(s);
	return ckc_work_done(err ? err : wait(ctx, s));
}

CUresult ckc_stream_synchronize(CUstream handle)
{
	return synchronize(handle, ckc_capture_wait, wait_if_busy);
}

CUresult ckc_stream_take_turn(CUstream handle)
{
	return synchronize(handle, ckc_capture_wait, ckc_stream_reach);
}

CK_EXPORT CUresult cuStreamSynchronize(CUstream hStream)
{
	return synchronize(hStream, ckc_capture_question, wait_if_busy);
}

/* Query the server, and have it watch for the end of the work now in the stream. */
static CUresult query_server(struct ckc_context *ctx, struct ckc_stream *s, uint64_t last)
{
	uint64_t number = ckc_status_number(ctx->client, s ? s->object.id : ctx->object.id);
	unsigned int state = CK_ASKED_BUSY;
	CUresult err = ck_wire_stream_ask(ctx->object.id, s ? s->object.id : 0, number, &state);

	if (err)
		return err;
	if (state == CK_ASKED_DONE)
		ck_atomic_lift(s ? &s->done : &ctx->legacy_done, last);
	if (state == CK_ASKED_WATCHED)
		ckc_status_watched(ctx->client, s ? &s->watch : &ctx->legacy_watch, last, number);
	return state == CK_ASKED_DONE ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

static CUresult query_stream(CUstream hStream)
{
	struct ckc_context *ctx;
	struct ckc_stream *s;
	uint64_t last = ckc_command_last();
	CUresult err = ckc_stream_enter(hStream, &ctx, &s);

	if (!err)
		err = ckc_capture_question(s);
	if (err || ckc_stream_idle(ctx, s) || (s ? s->done : ctx->legacy_done) == last)
		return err;
	switch (ckc_status_look(ctx->client, s ? &s->watch : &ctx->legacy_watch, last)) {
	case CK_STATUS_DONE:
		ck_atomic_lift(s ? &s->done : &ctx->legacy_done, last);
		return CUDA_SUCCESS;
	case CK_STATUS_PENDING:
		return CUDA_ERROR_NOT_READY;
	default:
		return query_server(ctx, s, last);
	}
}

CK_EXPORT CUresult cuStreamQuery(CUstream hStream)
{
	return ckc_work_done(query_stream(hStream));
}

CK_EXPORT CUresult cuCtxSynchronize(void)
{
	struct ckc_context *ctx;
	CUresult err = ckc_context_usable(&ctx);

	if (!err)
		err = ckc_capture_wait_context(ctx);
	return ckc_work_done(err ? err : context_wait(ctx));
}

/* The same for any context; NULL means the current one. */
CK_EXPORT CUresult cuCtxSynchronize_v2(CUcontext handle)
{
	struct ckc_context *ctx = ckc_context_from(handle);
	CUresult err = ckc_session_check();

	if (err)
		return err;
	if (!ctx || !ctx->active)
		return CUDA_ERROR_INVALID_CONTEXT;
	err = ckc_capture_wait_context(ctx);
	return ckc_work_done(err ? err : context_wait(ctx));
}

/* Destroy the ending thread's own streams (CU_STREAM_PER_THREAD); the driver first completes their
 * work. */
static void thread_ended(struct ckc_thread *t)
{
	for (unsigned int i = 0; i < t->own_stream_count; i++) {
		struct ckc_stream *s = ckc_object_check(t->own_streams[i], CK_OBJECT_STREAM);

		if (s && ckc_session_check() == CUDA_SUCCESS)
			cuStreamDestroy_v2((CUstream)s);
	}
	free(t->own_streams);
}
CK_ON_THREAD_END(thread_ended);
