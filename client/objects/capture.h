/*
 * client/objects/capture.h - the streams that are being captured, and what a capture forbids.
 *
 * Frameworks query this before almost every call, so the client keeps track: a capture spreads to
 * other streams only by calls of the application. The server always captures in relaxed mode,
 * because its threads are not the application's. The client enforces the rules of the other modes.
 */
#ifndef CK_CLIENT_OBJECTS_CAPTURE_H
#define CK_CLIENT_OBJECTS_CAPTURE_H

#include "client/objects/state.h"

static inline bool ck_captures_any(void)
{
	return unlikely(atomic_load_explicit(&ck_client_current()->objects->captures.count,
					     memory_order_acquire) != 0);
}

/* For the inline functions below, when captures exist. @stream NULL is the legacy one. */
bool ck_capture_has(const struct ck_stream *stream);
CUresult ck_capture_refuses_work(struct ck_stream *stream);
CUresult ck_capture_refuses_wait(struct ck_stream *stream);
CUresult ck_capture_refuses_context(struct ck_context *context);
CUresult ck_capture_refuses_unsafe(void);
CUresult ck_capture_refuses_question(struct ck_stream *stream);
void ck_capture_lose_stream(struct ck_stream *stream);
void ck_capture_spoil_stream(const struct ck_stream *stream);

/* Is @stream part of a capture, even of an invalidated one? */
static inline bool ck_capturing(const struct ck_stream *stream)
{
	return ck_captures_any() && ck_capture_has(stream);
}

/*
 * May work be enqueued in @stream? STREAM_CAPTURE_IMPLICIT: the legacy stream would have to wait
 * for a captured stream, which invalidates that capture; STREAM_CAPTURE_INVALIDATED.
 */
static inline CUresult ck_capture_work(struct ck_stream *stream)
{
	return ck_captures_any() ? ck_capture_refuses_work(stream) : CUDA_SUCCESS;
}

/* The same for work that cannot be captured: STREAM_CAPTURE_UNSUPPORTED, which ends the capture. */
static inline CUresult ck_capture_work_uncaptured(struct ck_stream *stream)
{
	CUresult err = ck_capture_work(stream);

	if (err || !ck_capturing(stream))
		return err;
	ck_capture_spoil_stream(stream);
	return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
}

/* May the host wait for @stream, or all of @context? STREAM_CAPTURE_UNSUPPORTED, and as above. */
static inline CUresult ck_capture_wait(struct ck_stream *stream)
{
	return ck_captures_any() ? ck_capture_refuses_wait(stream) : CUDA_SUCCESS;
}

/* May the host query @stream? Fails as above, and if other captures forbid unsafe calls. */
static inline CUresult ck_capture_question(struct ck_stream *stream)
{
	return ck_captures_any() ? ck_capture_refuses_question(stream) : CUDA_SUCCESS;
}

static inline CUresult ck_capture_wait_context(struct ck_context *context)
{
	return ck_captures_any() ? ck_capture_refuses_context(context) : CUDA_SUCCESS;
}

/* May this thread make a call that is unsafe during a capture? STREAM_CAPTURE_UNSUPPORTED. */
static inline CUresult ck_capture_unsafe(void)
{
	return ck_captures_any() ? ck_capture_refuses_unsafe() : CUDA_SUCCESS;
}

static inline void ck_capture_stream_gone(struct ck_stream *stream)
{
	if (ck_captures_any())
		ck_capture_lose_stream(stream);
}

/* A call was so wrong that it invalidates the capture of its stream. */
static inline void ck_capture_spoil(const struct ck_stream *stream)
{
	if (ck_captures_any())
		ck_capture_spoil_stream(stream);
}

/* Note that @event is recorded in @stream. */
void ck_capture_record(struct ck_event *event, const struct ck_stream *stream);
/* @stream waits for @event: it joins the event's capture, unless the rules forbid that. */
CUresult ck_capture_join(struct ck_stream *stream, const struct ck_event *event);
/*
 * May the host query @event? CAPTURED_EVENT, which invalidates its capture; INVALID_VALUE if that
 * capture has ended or is invalid; STREAM_CAPTURE_UNSUPPORTED, as for any unsafe call.
 */
CUresult ck_capture_ask(const struct ck_event *event);

#endif
