/*
 * client/objects/capture.h - the streams that are being captured, and calls that a capture forbids.
 *
 * Frameworks query this before almost every call, so the client keeps track: a capture spreads to
 * other streams only by calls of the application. The server always captures in relaxed mode,
 * because its threads are not the application's. The client enforces the rules of the other modes.
 */
#ifndef CK_CLIENT_OBJECTS_CAPTURE_H
#define CK_CLIENT_OBJECTS_CAPTURE_H

#include "client/objects/state.h"

static inline bool ckc_captures_any(void)
{
	return unlikely(atomic_load_explicit(&ckc_client_current()->objects->captures.count,
					     memory_order_acquire) != 0);
}

/* For the inline functions below, when captures exist. @stream NULL is the legacy one. */
bool ckc_capture_has(const struct ckc_stream *stream);
CUresult ckc_capture_refuses_work(struct ckc_stream *stream);
CUresult ckc_capture_refuses_wait(struct ckc_stream *stream);
CUresult ckc_capture_refuses_context(struct ckc_context *context);
CUresult ckc_capture_refuses_unsafe(void);
CUresult ckc_capture_refuses_question(struct ckc_stream *stream);
void ckc_capture_lose_stream(struct ckc_stream *stream);
void ckc_capture_fail_stream(const struct ckc_stream *stream);

/* Is @stream part of a capture, even of an invalidated one? */
static inline bool ckc_capturing(const struct ckc_stream *stream)
{
	return ckc_captures_any() && ckc_capture_has(stream);
}

/*
 * May work be enqueued in @stream? STREAM_CAPTURE_IMPLICIT: the legacy stream would have to wait
 * for a captured stream, which invalidates that capture; STREAM_CAPTURE_INVALIDATED.
 */
static inline CUresult ckc_capture_work(struct ckc_stream *stream)
{
	return ckc_captures_any() ? ckc_capture_refuses_work(stream) : CUDA_SUCCESS;
}

/* The same for work that cannot be captured: STREAM_CAPTURE_UNSUPPORTED, which ends the capture. */
static inline CUresult ckc_capture_work_uncaptured(struct ckc_stream *stream)
{
	CUresult err = ckc_capture_work(stream);

	if (err || !ckc_capturing(stream))
		return err;
	ckc_capture_fail_stream(stream);
	return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
}

/* May the host wait for @stream, or all of @context? STREAM_CAPTURE_UNSUPPORTED, and as above. */
static inline CUresult ckc_capture_wait(struct ckc_stream *stream)
{
	return ckc_captures_any() ? ckc_capture_refuses_wait(stream) : CUDA_SUCCESS;
}

/* May the host query @stream? Fails as above, and if other captures forbid unsafe calls. */
static inline CUresult ckc_capture_question(struct ckc_stream *stream)
{
	return ckc_captures_any() ? ckc_capture_refuses_question(stream) : CUDA_SUCCESS;
}

static inline CUresult ckc_capture_wait_context(struct ckc_context *context)
{
	return ckc_captures_any() ? ckc_capture_refuses_context(context) : CUDA_SUCCESS;
}

/* May this thread make a call that is unsafe during a capture? STREAM_CAPTURE_UNSUPPORTED. */
static inline CUresult ckc_capture_unsafe(void)
{
	return ckc_captures_any() ? ckc_capture_refuses_unsafe() : CUDA_SUCCESS;
}

static inline void ckc_capture_stream_gone(struct ckc_stream *stream)
{
	if (ckc_captures_any())
		ckc_capture_lose_stream(stream);
}

/* A call was so wrong that it invalidates the capture of its stream. */
static inline void ckc_capture_fail(const struct ckc_stream *stream)
{
	if (ckc_captures_any())
		ckc_capture_fail_stream(stream);
}

/* Note that @event is recorded in @stream. */
void ckc_capture_record(struct ckc_event *event, const struct ckc_stream *stream);
/* @stream waits for @event: it joins the event's capture, unless the rules forbid that. */
CUresult ckc_capture_join(struct ckc_stream *stream, const struct ckc_event *event);
/*
 * May the host query @event? CAPTURED_EVENT, which invalidates its capture; INVALID_VALUE if that
 * capture has ended or is invalid; STREAM_CAPTURE_UNSUPPORTED, as for any unsafe call.
 */
CUresult ckc_capture_ask(const struct ckc_event *event);

#endif
