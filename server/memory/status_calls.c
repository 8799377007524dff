/*
 * server/memory/status_calls.c - messages that begin and end watches of events and streams:
 * questions, ends, the shared file.
 */
#include <errno.h>
#include <unistd.h>

#include "gen/handlers.h"
#include "rpc/status.h"
#include "server/memory/lease.h"
#include "server/memory/status.h"
#include "server/memory/status_part.h"
#include "server/session/session.h"
#include "util/log.h"

CK_LOG_DEFINE("server");

CUresult ck_serve_event_ask(struct cks_request *q, ck_event_ask_args *a, ck_event_ask_res *res)
{
	struct cks_watch w = {.object = a->event, .number = a->watch};
	CUresult err;

	if (!ck_driver.cuEventQuery)
		return CUDA_ERROR_NOT_SUPPORTED;
	if (!cks_event_find(q, a->event, &w.event))
		return CUDA_ERROR_INVALID_HANDLE;
	err = ck_driver.cuEventQuery(w.event);
	if (err == CUDA_ERROR_NOT_READY) {
		res->state = cks_status_watch(q->session, &w) ? CK_ASKED_WATCHED : CK_ASKED_BUSY;
		err = CUDA_SUCCESS;
	}
	return err;
}

/* The event was just recorded. Its state is not queried here: a command thread has no time for
 * that. */
CUresult ck_serve_event_watch(struct cks_request *q, ck_event_watch_args *a, void *res)
{
	struct cks_watch w = {.object = a->event, .number = a->watch};

	(void)res;
	if (!ck_driver.cuEventQuery)
		return CUDA_ERROR_NOT_SUPPORTED;
	if (!cks_event_find(q, a->event, &w.event))
		return CUDA_ERROR_INVALID_HANDLE;
	cks_status_follow(q->session, &w);
	return CUDA_SUCCESS;
}

/* Enqueue nothing in the stream, not even an event: it would be work that others may wait for. */
CUresult ck_serve_stream_ask(struct cks_request *q, ck_stream_ask_args *a, ck_stream_ask_res *res)
{
	/* the legacy stream is a different one in each context */
	struct cks_watch w = {.object = a->stream ? a->stream : q->ctx, .number = a->watch};
	CUresult err;

	if (!ck_driver.cuStreamQuery || !ck_driver.cuCtxPushCurrent_v2 ||
	    !ck_driver.cuCtxPopCurrent_v2)
		return CUDA_ERROR_NOT_SUPPORTED;
	if (!cks_stream_find(q, a->stream, &w.stream))
		return CUDA_ERROR_INVALID_HANDLE;
	w.context = cks_handles_get(q->session->handles, q->ctx, CK_KIND_CONTEXT);
	err = ck_driver.cuStreamQuery(w.stream);
	if (err != CUDA_ERROR_NOT_READY)
		return err;
	res->state =
		w.context && cks_status_watch(q->session, &w) ? CK_ASKED_WATCHED : CK_ASKED_BUSY;
	return CUDA_SUCCESS;
}

CUresult ck_serve_cuEventDestroy_v2(struct cks_request *q, cuEventDestroy_v2_args *a, void *res)
{
	CUevent event;

	(void)res;
	if (!ck_driver.cuEventDestroy_v2)
		return CUDA_ERROR_NOT_SUPPORTED;
	if (!cks_event_find(q, a->hEvent, &event))
		return CUDA_ERROR_INVALID_HANDLE;
	cks_handle_remove(q, a->hEvent);
	cks_status_drop(q->session, a->hEvent);
	return ck_driver.cuEventDestroy_v2(event);
}

CUresult ck_serve_cuStreamDestroy_v2(struct cks_request *q, cuStreamDestroy_v2_args *a, void *res)
{
	CUstream stream;

	(void)res;
	if (!ck_driver.cuStreamDestroy_v2)
		return CUDA_ERROR_NOT_SUPPORTED;
	if (!cks_stream_find(q, a->hStream, &stream))
		return CUDA_ERROR_INVALID_HANDLE;
	cks_handle_remove(q, a->hStream);
	cks_status_drop(q->session, a->hStream);
	cks_lease_note_stream(q, stream);
	return ck_driver.cuStreamDestroy_v2(stream);
}

CUresult ck_serve_status_file(struct cks_request *q, ck_status_file_args *a,
			      ck_status_file_res *res)
{
	int fd = ck_chan_take_fd(q->chan);
	CUresult err;

	if (fd < 0)
		return fd == -EOPNOTSUPP ? CUDA_ERROR_NOT_SUPPORTED : CUDA_ERROR_INVALID_VALUE;
	err = cks_status_use_file(q->session->status, fd, a->size);
	res->taken = err == CUDA_SUCCESS;
	close(fd);
	if (err)
		ck_warn("%s: the file for the state of events is not valid", ck_chan_peer(q->chan));
	return err;
}
