/*
 * emu/graphs/capture_event.c - events that are recorded in a capture, and streams that wait for
 * them; see capture.c.
 */
#include "emu/graphs/capture.h"

void ck_emu_capture_place_fini(struct ck_emu_capture_place *place)
{
	struct ck_emu_capture *capture = atomic_load(&place->capture);

	ck_emu_after_fini(&place->after);
	atomic_store(&place->capture, NULL);
	if (capture)
		ck_emu_capture_put(capture);
}

void ck_emu_capture_unmark(struct ck_emu_capture_place *place)
{
	ck_emu_graph_lock();
	ck_emu_capture_place_fini(place);
	ck_emu_graph_unlock();
}

CUresult ck_emu_capture_mark(struct ck_emu_stream *stream, struct ck_emu_capture_place *place)
{
	struct ck_emu_capture_end *end;
	CUresult result = CUDA_SUCCESS;

	ck_emu_graph_lock();
	end = ck_emu_capture_end_of(stream);
	if (!end) {
		result = CUDA_ERROR_ILLEGAL_STATE; /* the capture has just been ended */
	} else if (end->capture->invalid) {
		result = CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
	} else {
		ck_emu_capture_place_fini(place);
		if (ck_emu_after_add_all(&place->after, &end->after)) {
			atomic_fetch_add(&end->capture->refs, 1);
			atomic_store(&place->capture, end->capture);
		} else {
			ck_emu_after_fini(&place->after);
			result = CUDA_ERROR_OUT_OF_MEMORY;
		}
	}
	ck_emu_graph_unlock();
	return result;
}

/* True when a capture is over, or lost: its events then mean nothing until recorded anew. */
static bool capture_is_stale(const struct ck_emu_capture *capture)
{
	return capture->ended || capture->invalid;
}

/* Lock held; the stream captures, or the event was captured, or both. */
static CUresult join_capture(struct ck_emu_stream *stream, struct ck_emu_capture_place *place)
{
	struct ck_emu_capture *capture = atomic_load(&place->capture);
	struct ck_emu_capture_end *end = ck_emu_capture_end_of(stream);
	CUresult result;

	if (end && end->capture->invalid)
		return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
	if (!capture || capture_is_stale(capture)) {
		if (end)
			end->capture->invalid = true;
		if (capture)
			return CUDA_ERROR_INVALID_VALUE;
		return end ? CUDA_ERROR_STREAM_CAPTURE_ISOLATION : CUDA_SUCCESS;
	}
	if (end && end->capture != capture) {
		end->capture->invalid = capture->invalid = true;
		return CUDA_ERROR_STREAM_CAPTURE_MERGE;
	}
	if (!end) {
		result = stream->is_legacy ? CUDA_ERROR_STREAM_CAPTURE_IMPLICIT
					   : ck_emu_context_state(stream->base.context);
		if (result == CUDA_SUCCESS)
			end = ck_emu_capture_end_create(capture, stream);
		else
			capture->invalid = true;
		if (!end)
			return result == CUDA_SUCCESS ? CUDA_ERROR_OUT_OF_MEMORY : result;
	}
	return ck_emu_after_add_all(&end->after, &place->after) ? CUDA_SUCCESS
								: CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult ck_emu_capture_join(struct ck_emu_stream *stream, struct ck_emu_capture_place *place)
{
	CUresult result;

	ck_emu_graph_lock();
	result = join_capture(stream, place);
	ck_emu_graph_unlock();
	return result;
}

CUresult ck_emu_capture_asked(struct ck_emu_capture_place *place)
{
	struct ck_emu_capture *capture;
	CUresult result = CUDA_SUCCESS;

	ck_emu_graph_lock();
	capture = atomic_load(&place->capture);
	if (capture && capture_is_stale(capture)) {
		result = CUDA_ERROR_INVALID_VALUE;
	} else if (capture) {
		capture->invalid = true;
		result = CUDA_ERROR_CAPTURED_EVENT;
	}
	ck_emu_graph_unlock();
	return result;
}

CUresult ck_emu_capture_timed(struct ck_emu_capture_place *place)
{
	const struct ck_emu_capture *capture;
	CUresult result = CUDA_SUCCESS;

	ck_emu_graph_lock();
	capture = atomic_load(&place->capture);
	if (capture)
		result = capture_is_stale(capture) ? CUDA_ERROR_INVALID_VALUE
						   : CUDA_ERROR_INVALID_HANDLE;
	ck_emu_graph_unlock();
	return result;
}
