/*
 * client/objects/event_multi_server.c - see client/objects/event_multi_server.h.
 *
 * The stream is blocked by a function of the host, in which a thread of the client waits for the
 * event. The program may record the event again meanwhile, maybe behind work that depends on the
 * stream. So the wait is for a second event, which is recorded in a stream of its own behind the
 * first one.
 */
#include <stdlib.h>

#include "client/objects/callback.h"
#include "client/objects/capture.h"
#include "client/objects/event_multi_server.h"
#include "client/link/session_list.h"
#include "cuda/errors.h"
#include "util/log.h"

CK_LOG_DEFINE("client");

struct wait {
	struct ckc_context *waits, *of; /* of the stream; of the event */
	struct ckc_event *event;
};

static void end_wait(struct wait *w)
{
	ck_wire_cuEventDestroy_v2(w->of->object.id, w->event->object.id);
	ckc_object_free(w->event);
	free(w);
}

/* Later work of the stream would read data that never arrived. */
static void fail_stream_context(const struct wait *w, CUresult err)
{
	ck_err("a stream waits for an event of the GPU server at %s, which has failed (error %d): "
	       "the stream's context fails too",
	       ckc_session_server(w->of->client), (int)err);
	w->waits->fault =
		(int)(err == CUDA_ERROR_OPERATING_SYSTEM ? CUDA_ERROR_DEVICE_UNAVAILABLE : err);
}

/* A thread that serves the stream's session. */
static void run_wait(const struct ckc_callback *callback, int status, uint64_t value)
{
	struct wait *w = callback->data;
	CUresult err = (CUresult)status;

	(void)value;
	if (!err) {
		err = ck_wire_cuEventSynchronize(w->of->object.id, w->event->object.id);
		if (err)
			fail_stream_context(w, err);
	}
	end_wait(w);
}

/* Record @own behind the last record of @e. */
static CUresult copy_record(const struct ckc_event *e, const struct ckc_event *own)
{
	uint64_t ctx = e->object.context->object.id;
	struct ckc_stream *s = ckc_object_new(CK_OBJECT_STREAM, e->object.context);
	CUresult err;

	if (!s)
		return CUDA_ERROR_OUT_OF_MEMORY;
	err = ck_wire_cuStreamCreateWithPriority(ctx, s->object.id, CU_STREAM_NON_BLOCKING, 0);
	if (!err)
		err = ck_wire_cuStreamWaitEvent(ctx, s->object.id, e->object.id, 0);
	if (!err)
		err = ck_wire_cuEventRecord(ctx, own->object.id, s->object.id);
	if (!err)
		err = ck_wire_cuStreamDestroy_v2(ctx, s->object.id);
	ckc_object_free(s);
	return err;
}

static CUresult begin_wait(struct ckc_context *context, struct ckc_event *e, struct wait **out)
{
	struct ckc_context *of = e->object.context;
	struct ckc_event *own = ckc_object_new(CK_OBJECT_EVENT, of);
	struct wait *w = malloc(sizeof(*w));
	CUresult err = own && w ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;

	if (!err)
		err = ck_wire_cuEventCreate(of->object.id, own->object.id, CU_EVENT_DISABLE_TIMING);
	if (err) {
		if (own)
			ckc_object_free(own);
		free(w);
		return err;
	}
	*w = (struct wait){context, of, own};
	err = copy_record(e, own);
	if (err)
		end_wait(w);
	else
		*out = w;
	return err;
}

CUresult ckc_event_wait_between(struct ckc_context *context, struct ckc_stream *stream,
				struct ckc_event *e)
{
	struct ckc_callback callback = {
		.run = run_wait, .ours = true, .on_loss = true, .in_stream = true};
	static bool told;
	struct wait *w;
	uint64_t id;
	CUresult err;

	if (ckc_capturing(stream) || e->capture)
		return ckc_refused("a wait for an event of another server in a capture", &told);
	err = cuEventQuery((CUevent)e);
	if (err != CUDA_ERROR_NOT_READY)
		return err;
	err = begin_wait(context, e, &w);
	if (err)
		return err;
	callback.data = w;
	callback.stream = stream ? stream->object.id : context->object.id;
	ckc_route(context->client);
	err = ckc_callback_add(&callback, &id);
	if (err) {
		end_wait(w);
		return err;
	}
	err = ck_wire_host_function(context->object.id, stream ? stream->object.id : 0, id,
				    CKC_FUNCTION_HELD);
	if (err) {
		ckc_callback_drop(id);
		end_wait(w);
	}
	return err;
}
